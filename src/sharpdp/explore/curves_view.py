"""The view of curves: trade-off, privacy profile or Renyi divergences of some runs, and all bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import invalid
from sharpdp.accounting import Guarantee, account
from sharpdp.bracket import Bracket
from sharpdp.cli.parser import UsageError, is_plan
from sharpdp.cli.runs import mechanism
from sharpdp.comparison import compare
from sharpdp.errors import InvalidArgument
from sharpdp.explore.fields import bracket_data, finite, number, text
from sharpdp.explore.snippets import snippets
from sharpdp.mechanisms import Mechanism, Sequence
from sharpdp.plans import Plan
from sharpdp.report.citations import bibtex

__all__ = ["curves", "run_in_words"]

MOST_RUNS = 6

RATES = np.concatenate([np.geomspace(1e-4, 0.02, 14), np.linspace(0.03, 1.0, 50)])
"""False-positive rates of a trade-off curve."""

ORDERS = np.geomspace(1.05, 256.0, 60)
"""Orders of a Renyi curve."""

SMALLEST_DELTA = 1e-12
"""Where a privacy profile ends."""


def curves(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A curve for each run, epsilon at delta beside it, then every known bound on the first run.

    Args:
        fields: runs (texts, see `run_in_words`), kind ("tradeoff", "profile" or "renyi"), delta.
    """
    texts = fields.get("runs")
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_RUNS:
        raise InvalidArgument(f"runs must be a list of 1 to {MOST_RUNS} texts; got {texts!r}.")
    kind, delta = text(fields, "kind", "tradeoff"), number(fields, "delta")
    if kind not in KINDS:
        raise invalid("kind", f"one of {', '.join(KINDS)}", kind)
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
            }
        }
    plan = Plan(runs[0], (delta,))
    yield {"snippets": snippets(plan), "plan": plan.to_dict()}
    table = compare(runs[0], delta=delta, relative_width=1e-3)
    used = [bound for part in account(runs[0]).derivations for bound in part.bounds]
    yield {
        "bounds": [
            {
                "name": row.name,
                "kind": row.kind,
                "rigor": str(row.rigor),
                "value": None if row.value is None else finite(row.value),
                "shown": row.shown,
                "condition": row.condition,
                "reason": row.reason,
                "source": row.source,
            }
            for row in table
        ],
        "bibtex": bibtex(dict.fromkeys(used)),
    }


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


Curve = tuple[NDArray[np.float64], Bracket]


def _tradeoff(guarantee: Guarantee) -> Curve:
    return RATES, guarantee.fnr(fpr=RATES)


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
