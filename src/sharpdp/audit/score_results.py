"""Results of an audit by scores: lower bounds with their confidence, and how a guarantee fares."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sharpdp._validate import check_unmasked, invalid, open_probability, short_repr
from sharpdp.audit.findings import AuditResult
from sharpdp.bracket import Bracket, Rigor
from sharpdp.curves.tradeoff.curve import TradeoffCurve
from sharpdp.display.notebook import Shown
from sharpdp.display.outward_digits import FEW, ROUND_CEILING, in_digits
from sharpdp.display.tabular import Plotted
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import Array
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.pairs.pair import GaussianPair
from sharpdp.profile.composition import Composition
from sharpdp.questions.account import Guarantee

__all__ = [
    "ScoreAudit",
    "at_least",
    "checked_scores",
    "checked_settings",
    "epsilon_of_mu",
    "largest_refuted",
    "observed_rates",
]

LARGEST_EPSILON, LARGEST_MU = 60.0, 30.0
"""No audit refutes more than this."""

HALVINGS = 14
"""Steps of the search for the largest epsilon, or mu, that is refuted."""


@underflow_is_zero_in_methods
@dataclass(frozen=True, eq=False, repr=False)
class ScoreAudit(Shown, Plotted, AuditResult):
    """The result of an audit by scores; made by `many_runs`, `one_run`, `Sequential` and `canaries`.

    Attributes:
        method: "many runs", "one run" or "sequential".
        epsilon: Bracket of epsilon at `delta`: its lower end is what was observed, with confidence.
        mu: Bracket of the mu of Gaussian differential privacy, likewise. From one run it holds if the
            mechanism is at least as private as *some* Gaussian; see `one_run`.
        epsilon_if_gaussian: Epsilon at `delta` of Gaussian noise with the lower end of `mu`: a lower
            bound only if the curve of the mechanism is Gaussian. Often much larger than that of
            `epsilon`.
        confidence: The probability with which each lower end holds.
        delta: The delta of `epsilon`.
        p_value: If the guarantee is true, audits find as much or more with at most this probability; None
            without a guarantee.
        guarantee: What was tested; None if nothing was.
        found: What was counted, in one line.
        fpr: Observed false-positive rates at rising thresholds, for the picture.
        fnr: The observed false-negative rates at the same thresholds.
        fpr_upper: Upper bounds on the former, all of them true with the confidence; empty for one run.
        fnr_upper: Upper bounds on the latter, likewise.
    """

    method: str
    epsilon: Bracket
    mu: Bracket
    epsilon_if_gaussian: Bracket
    confidence: float
    delta: float
    p_value: float | None
    guarantee: Guarantee | TradeoffCurve | None
    found: str
    fpr: Array = field(repr=False)
    fnr: Array = field(repr=False)
    fpr_upper: Array = field(repr=False, default_factory=lambda: np.zeros(0))
    fnr_upper: Array = field(repr=False, default_factory=lambda: np.zeros(0))

    @property
    def consistent(self) -> bool | None:
        """Whether the scores leave room for the guarantee at this confidence; None without one."""
        return None if self.p_value is None else self.p_value > 1.0 - self.confidence

    def __str__(self) -> str:
        """The result in a few lines."""
        lines = [f"Audit ({self.method}): {self.found}", str(self.epsilon), str(self.mu)]
        if self.p_value is not None:
            verdict = "consistent with" if self.consistent else "CONTRADICTS"
            chance = in_digits(self.p_value, ROUND_CEILING, FEW)
            lines.append(f"{verdict} {_named(self.guarantee)}: p-value at most {chance}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, for JSON.

        Returns:
            A dictionary of numbers and text; an infinite end is None.
        """
        brackets = {
            name: {"lower": float(bracket.lower), "upper": None}
            for name, bracket in (
                ("epsilon", self.epsilon),
                ("mu", self.mu),
                ("epsilon_if_gaussian", self.epsilon_if_gaussian),
            )
        }
        return {
            "title": "Privacy audit",
            "method": self.method,
            "found": self.found,
            "confidence": self.confidence,
            "delta": self.delta,
            **brackets,
            "guarantee": None if self.guarantee is None else _named(self.guarantee),
            "p_value": self.p_value,
            "consistent": self.consistent,
        }

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw the observed error rates against the certified curve (needs the extra `plots`)."""
        from sharpdp.plots.observed_rates import observed

        curve = self.guarantee
        if isinstance(curve, Guarantee):
            curve = curve.tradeoff()
        upper = (self.fpr_upper, self.fnr_upper) if self.fpr_upper.size else None
        audited = str(self).splitlines()[0]
        rates = (self.fpr, self.fnr)
        return observed(rates, upper, curve, audited=audited, title=title, ax=ax)

    def summary(self, guarantee: Guarantee) -> dict[str, Any]:
        """The account of this audit in a report on a guarantee.

        Args:
            guarantee: The guarantee that is reported.

        Returns:
            The title, whether it is consistent, and sentences.

        Raises:
            InvalidArgument: the audit tested another guarantee.
        """
        if self.guarantee is not None and _named(self.guarantee) != _named(guarantee):
            raise InvalidArgument(
                f"audits must be of the run that is reported, {_named(guarantee)}; got one of "
                f"{_named(self.guarantee)}."
            )
        first, *others = str(self).splitlines()
        title = first.partition(": ")[0]
        return {
            "title": title,
            "consistent": self.consistent,
            "sentences": [f"{self.found}.", *(f"{line}." for line in others)],
        }

    def save(self, path: str | Path) -> None:
        """Draw the picture of `plot` into a file.

        Args:
            path: File to write, whose name ends in .svg, .png or .pdf.

        Raises:
            InvalidArgument: The name has another ending, or the file cannot be written.
            MissingExtra: matplotlib is not installed.
        """
        from sharpdp.plots.curves import SIZE
        from sharpdp.plots.style import write

        write(path, SIZE, self.plot)


def at_least(quantity: str, lower: float, confidence: float, context: str, method: str) -> Bracket:
    """The bracket of what was observed from below, and is not known from above."""
    words = f"{context} | {method}" if context else f"| {method}"
    return Bracket(lower, math.inf, Rigor.MONTE_CARLO, quantity, words, confidence)


def largest_refuted(refuted: Any, largest: float) -> float:
    """The largest number for which a claim was seen to be refuted; 0 if none is.

    Claims are weaker for larger numbers, so that what refutes one refutes all below.
    """
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 0.5
    while high < largest and refuted(high):
        low, high = high, 2.0 * high
    return min(last_true(refuted, low, high, halvings=HALVINGS)[0], largest)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Lower end of epsilon at delta of Gaussian noise with noise multiplier 1 / mu."""
    if mu < 1e-6:
        return 0.0
    low, _ = Composition(((GaussianPair(mu), 1),)).epsilon(math.log(delta), 1e-6)
    return max(low, 0.0)


def checked_scores(name: str, scores: object, least: int = 1) -> Array:
    """The scores as an array of numbers, none of them NaN."""
    check_unmasked(**{name: scores})
    array = np.asarray(scores)
    if array.dtype.kind not in "fiub" or array.ndim != 1:
        raise WrongType(f"{name} must be a list of numbers; got {short_repr(scores)}.")
    if array.size < least:
        raise invalid(name, f"at least {least} numbers", array.size)
    values = array.astype(np.float64)
    if np.isnan(values).any():
        hint = "A score that is not a number says nothing; leave such runs out of both lists."
        raise invalid(name, "numbers", float("nan"), hint)
    return values


def checked_settings(confidence: object, delta: object) -> tuple[float, float]:
    """The confidence and the delta, both in (0, 1)."""
    return open_probability(confidence=confidence), open_probability(delta=delta)


def observed_rates(with_record: Array, without_record: Array) -> tuple[Array, Array]:
    """False-positive and false-negative rates at every threshold, from "nobody is in" to "all are"."""
    thresholds = np.unique(np.concatenate([with_record, without_record]))[::-1]
    false, true = (
        np.append(0, np.searchsorted(np.sort(-scores), -thresholds, side="right"))
        / max(scores.size, 1)
        for scores in (without_record, with_record)
    )
    return false, 1.0 - true


def _named(guarantee: Guarantee | TradeoffCurve | None) -> str:
    if isinstance(guarantee, Guarantee):
        return f"{guarantee.described}, {guarantee.neighbors}"
    return "" if guarantee is None else guarantee.describe()
