"""The view of curves: trade-off, privacy profile or Renyi divergences of some runs, and all bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import half_open_probability, invalid, is_among
from sharpdp.bounds.published import Formula, formulas_for
from sharpdp.bracket import Bracket, Side
from sharpdp.cli.parser import UsageError, is_plan
from sharpdp.cli.runs import mechanism
from sharpdp.curves.tradeoff.bands import sampled, tradeoff_band
from sharpdp.errors import Inapplicable, InvalidArgument, NotCertified
from sharpdp.explore.fields import bracket_data, finite, number, text
from sharpdp.explore.snippets import code
from sharpdp.mechanisms import Mechanism, Sequence
from sharpdp.plans import Plan
from sharpdp.questions.account import Guarantee, account
from sharpdp.questions.compare import compare, in_rounds

__all__ = ["bounds", "curves", "drawn", "run_in_words"]

Array = NDArray[np.float64]

MOST_RUNS, MOST_BOUNDS = 6, 12

RATES = np.concatenate([np.geomspace(1e-4, 0.02, 14), np.linspace(0.03, 1.0, 50)])
"""False-positive rates of a trade-off curve."""

ORDERS = np.geomspace(1.05, 256.0, 24)
"""Orders of a Renyi curve."""

SMALLEST_DELTA = 1e-12
"""Where a privacy profile ends."""


def curves(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A curve for each run, with epsilon at delta and how to ask for it elsewhere.

    Args:
        fields: runs (texts, see `run_in_words`), kind ("tradeoff", "profile" or "renyi"), delta.
    """
    texts = fields.get("runs")
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_RUNS:
        raise InvalidArgument(
            f"runs must be 1 to {MOST_RUNS} lines; got {len(texts) if isinstance(texts, list) else 0}."
        )
    kind, delta = _kind(fields), _delta(fields)
    runs = [run_in_words(entry) for entry in texts]
    for index, run in enumerate(runs):
        guarantee = account(run)
        epsilon = guarantee.epsilon(delta=delta)
        xs, bracket = KINDS[kind](guarantee)
        yield {
            "curve": {
                "index": index,
                "label": run.describe(),
                "epsilon": bracket_data(epsilon),
                "neighbors": guarantee.neighbors,
                "x": xs.tolist(),
                "lower": [finite(value) for value in np.ravel(bracket.lower)],
                "upper": [finite(value) for value in np.ravel(bracket.upper)],
                **code(Plan(run, (delta,))),
            }
        }


def bounds(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every known bound on one run, with its condition and source.

    Args:
        fields: run (text), delta.
    """
    table = compare(run_in_words(fields.get("run")), delta=_delta(fields))
    yield {
        "bounds": [
            {
                "name": row.name,
                "title": row.title,
                "side": str(row.side),
                "kind": row.kind,
                "rigor": row.rigor_words,
                "value": None if row.value is None else finite(row.value),
                "shown": row.shown,
                "condition": row.condition,
                "reason": row.reason,
                "source": row.source,
            }
            for row in table
        ]
    }


def drawn(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The curves of single bounds on one run.

    Args:
        fields: run (text), kind, bounds (a list of "side name", as in the answer of `bounds`).
    """
    run, kind, names = run_in_words(fields.get("run")), _kind(fields), fields.get("bounds")
    if not isinstance(names, list) or not 1 <= len(names) <= MOST_BOUNDS:
        raise InvalidArgument(f"bounds must be 1 to {MOST_BOUNDS} names of bounds.")
    known = [f"{row.side} {row.name}" for row in compare(run, delta=1e-5, relative_width=0.1)]
    for name in names:
        if name not in known:
            raise invalid("bounds", "names of bounds on this run", name)
    guarantee = account(run)
    sides = [("lower", way) for way in guarantee.lower_derivations]
    sides += [("upper", way) for way in guarantee.upper_derivations]
    for side, derivation in sides:
        name = f"{side} {' + '.join(bound.name for bound in derivation.bounds)}"
        if name in names:
            xs, bracket = KINDS[kind](guarantee.only(derivation))
            # what bounds epsilon from above bounds the trade-off curve from below
            above = (side == "upper") != (kind == "tradeoff")
            ends = np.ravel(bracket.upper if above else bracket.lower)
            yield {"line": {"name": name, "x": xs.tolist(), "y": [finite(y) for y in ends]}}
    whole = in_rounds(run)
    for formula in formulas_for(whole, "renyi" if kind == "renyi" else "epsilon"):
        name = f"{formula.side} {formula.name}"
        if name in names and (kind != "tradeoff" or formula.side is Side.UPPER):
            points = ORDERS if kind == "renyi" else DELTAS
            values = np.array([_value(formula, whole, float(at)) for at in points])
            xs, ys = FORMULA_CURVES[kind](points, values)
            yield {"line": {"name": name, "x": xs.tolist(), "y": [finite(y) for y in ys]}}


def run_in_words(words: object) -> Mechanism:
    """A run as the command line takes it, several joined by +, or a plan as JSON.

    >>> print(run_in_words("gaussian noise_multiplier=2 x 10 + laplace scale=3").describe())
    10 x Gaussian noise (noise multiplier 2), then Laplace noise (scale 3)
    """
    if not isinstance(words, str) or not words.strip():
        raise InvalidArgument(
            "a run must be text, such as dpsgd noise_multiplier=1 sample_rate=0.01 steps=1000; got none."
        )
    if words.lstrip().startswith("{"):
        return Plan.from_json(words).mechanism
    parts = [part.strip() for part in words.split(" + ")]
    if any(is_plan(part) for part in parts):
        raise InvalidArgument("a run must be written out here; paste a plan as JSON, not its file.")
    try:
        runs = [mechanism(part) for part in parts]
    except UsageError as fault:
        raise InvalidArgument(str(fault)) from None
    return runs[0] if len(runs) == 1 else Sequence(runs)


Curve = tuple[Array, Bracket]


def _tradeoff(guarantee: Guarantee) -> Curve:
    """Asked at some epsilons, and true between them: ten times as quick as to ask at every rate."""
    return RATES, Bracket(*tradeoff_band(sampled(guarantee), RATES), guarantee.rigor)


def _profile(guarantee: Guarantee) -> Curve:
    most = float(guarantee.epsilon(delta=SMALLEST_DELTA).upper)
    epsilons = np.linspace(0.0, most if np.isfinite(most) else 20.0, 60)
    return epsilons, guarantee.delta(epsilon=epsilons)


def _renyi(guarantee: Guarantee) -> Curve:
    return ORDERS, guarantee.renyi(order=ORDERS)


KINDS: dict[str, Callable[[Guarantee], Curve]] = {
    "tradeoff": _tradeoff,
    "profile": _profile,
    "renyi": _renyi,
}
"""What can be drawn."""

DELTAS = np.geomspace(SMALLEST_DELTA, 0.5, 40)
"""Where published formulas are asked for epsilon."""


def _formula_tradeoff(deltas: Array, epsilons: Array) -> tuple[Array, Array]:
    """The trade-off curve that some points (epsilon, delta) prove: the largest of their lines."""
    is_finite = np.isfinite(epsilons)
    delta, epsilon = deltas[is_finite, None], epsilons[is_finite, None]
    steep = 1.0 - delta - np.exp(epsilon) * RATES
    flat = np.exp(-epsilon) * (1.0 - delta - RATES)
    return RATES, np.maximum(0.0, np.concatenate([steep, flat]).max(axis=0, initial=0.0))


def _formula_profile(deltas: Array, epsilons: Array) -> tuple[Array, Array]:
    is_finite = np.isfinite(epsilons)
    return epsilons[is_finite][::-1], deltas[is_finite][::-1]


FORMULA_CURVES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "tradeoff": _formula_tradeoff,
    "profile": _formula_profile,
    "renyi": lambda orders, values: (orders, values),
}
"""Curves of formulas, which give epsilon at a delta or the divergence of an order."""


def _value(formula: Formula, run: Mechanism, at: float) -> float:
    """The value of a formula; infinite where it says nothing."""
    try:
        return formula(run, at)
    except (Inapplicable, NotCertified):
        return math.inf


def _kind(fields: Mapping[str, Any]) -> str:
    kind = text(fields, "kind", "tradeoff")
    if not is_among(KINDS, kind):
        raise invalid("kind", f"one of {', '.join(KINDS)}", kind)
    return kind


def _delta(fields: Mapping[str, Any]) -> float:
    return half_open_probability(delta=number(fields, "delta"))
