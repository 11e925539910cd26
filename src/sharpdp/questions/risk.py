"""Risks of a release, as probabilities that people understand: `answer.risk()`.

Everything here is read off the trade-off curve of an answer, so that it is as certified as epsilon is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdp._validate import count, open_probability
from sharpdp.bracket import Bracket, Rigor, in_order
from sharpdp.display.notebook import Shown
from sharpdp.display.outward_digits import ROUND_CEILING, few_digits, percent
from sharpdp.display.tabular import Plotted
from sharpdp.numerics.special import down, up

if TYPE_CHECKING:
    from sharpdp.questions.account import Guarantee

__all__ = ["Risk", "precision_of", "risk_of"]

Ends = tuple[float, float]

ASSUMPTIONS = {
    "guess": "The attacker knows everything but which of two neighboring data sets was used, gives one "
    "of them the stated prior, and sees all that was released.",
    "precision": "The same attacker says yes only where the evidence is strong: in the stated share of "
    "the cases in which the answer is no.",
    "reconstruction": "The attacker knows everything but one record, and wants the record, an attribute "
    "of it, or something close to it. The baseline is the chance of the best guess without the release. "
    'The lower end is what some attacker attains on some record; under add/remove, "absent" counts as '
    "one of its values.",
    "singling_out": "The attacker knows everything but which of the equally likely candidates the "
    "record is. The lower end is what some attacker attains on some candidates; under add/remove, "
    '"absent" counts as one of them.',
    "identified": "Each record is attacked separately, by an attacker who knows everything else, at the "
    "stated false-positive rate. The lower end counts one record that is as exposed as any can be, and "
    "guesses about the others.",
}
"""What each number assumes."""


@dataclass(frozen=True, repr=False)
class Risk(Shown, Plotted):
    """Risks of a release: five probabilities of a successful attack, each a Bracket.

    Made by `Guarantee.risk`. Print it for sentences; `assumptions` says what each number assumes.

    Args:
        guarantee: The answer behind it.
        prior: The probability, before the release, of one of the two neighboring data sets.
        fpr: The false-positive rate of an attack that says yes or no.
        baseline: The chance of reconstructing a record, or an attribute, without the release.
        candidates: Number of equally likely candidates for one record.
        records: Number of records that are attacked; None if it is not known.
        guess: Probability that the best guess at this prior is right.
        precision: Positive predictive value: probability that the attack is right when it says yes.
        reconstruction: Probability of a reconstruction whose chance is the baseline.
        singling_out: Probability of finding the record among the candidates.
        identified: Expected number of records that are rightly identified; None without `records`.
    """

    guarantee: Guarantee
    prior: float
    fpr: float
    baseline: float
    candidates: int
    records: int | None
    guess: Bracket
    precision: Bracket
    reconstruction: Bracket
    singling_out: Bracket
    identified: Bracket | None

    @property
    def assumptions(self) -> dict[str, str]:
        """Assumptions of the numbers, by their names."""
        return {name: ASSUMPTIONS[name] for name in self.brackets}

    @property
    def brackets(self) -> dict[str, Bracket]:
        """The numbers by name."""
        every = {name: getattr(self, name) for name in ASSUMPTIONS}
        return {name: bracket for name, bracket in every.items() if bracket is not None}

    def sentences(self) -> tuple[str, ...]:
        """The upper ends in plain words, one sentence each.

        Returns:
            Sentences with numbers that are rounded upwards.
        """
        chance = max(self.prior, 1.0 - self.prior)
        lines = [
            f"A guess that is right {_percent(chance)} of the time before the release is right at most "
            f"{_percent(self.guess.upper)} of the time after it.",
            f"If {_percent(self.prior)} of the suspects are in the data, and an attack wrongly accuses "
            f"{_percent(self.fpr)} of the others, it is right in at most "
            f"{_percent(self.precision.upper)} of its accusations.",
            f"A secret about one record that is guessed with a chance of {_percent(self.baseline)} "
            f"without the release is found with at most {_percent(self.reconstruction.upper)} after it.",
            f"One record among {self.candidates:,} equally likely candidates (chance "
            f"{_percent(1.0 / self.candidates)}) is picked out with at most "
            f"{_percent(self.singling_out.upper)}.",
        ]
        if self.identified is not None and self.records is not None:
            by_chance = few_digits(self.records * self.fpr, ROUND_CEILING)
            found = few_digits(float(self.identified), ROUND_CEILING)
            lines.append(
                f"Of {self.records:,} records at most {found} are rightly "
                f"identified on average at a false-positive rate of {_percent(self.fpr)}; guessing "
                f"identifies {by_chance}."
            )
        return tuple(lines)

    def __str__(self) -> str:
        """The sentences, one per line, and whom they are about."""
        head = f"Attack risk of {self.guarantee.mechanism.label}, {self.guarantee.neighbors}:"
        return "\n".join([head, *(f"- {line}" for line in self.sentences())])

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw the success of the best attack against guessing (needs the extra `plots`)."""
        from sharpdp import plots

        return plots.risk(self, ax=ax, title=title)


def risk_of(
    guarantee: Guarantee,
    *,
    prior: float,
    fpr: float,
    baseline: float,
    candidates: int,
    records: int | None,
) -> Risk:
    """The risk behind a guarantee, as `Guarantee.risk` documents it."""
    belief, rate = open_probability(prior=prior), open_probability(fpr=fpr)
    chance = open_probability(baseline=baseline, hint="It is the chance of success by guessing.")
    many = count(candidates=candidates, least=2)
    size = _size(guarantee) if records is None else count(records=records)
    odds, chance_odds = _log_odds(belief), _log_odds(max(chance, 0.5))
    share = up(Fraction(1, many))
    rates = guarantee.tpr(fpr=np.array([rate, chance, share]))
    lower, upper = (np.asarray(end).tolist() for end in (rates.lower, rates.upper))
    deltas = guarantee.delta(epsilon=np.array([*odds, *chance_odds, 0.0]))
    low_deltas, high_deltas = (np.asarray(end).tolist() for end in (deltas.lower, deltas.upper))
    edge = low_deltas[4]
    rigor = Rigor.weakest([rates.rigor, deltas.rigor])
    about = f"| {guarantee.mechanism.label}, {guarantee.neighbors}"

    def bracket(ends: Ends, quantity: str, context: str) -> Bracket:
        return in_order(*ends, rigor, quantity, f"{context} {about}")

    guess = (
        _after_guess(belief, low_deltas[1])[0],
        _after_guess(belief, high_deltas[0])[1],
    )
    precision = (
        precision_of(belief, rate, lower[0])[0],
        precision_of(belief, rate, upper[0])[1],
    )
    if chance <= 0.5:  # two values of equal chance, one of which shows
        reached = down(Fraction(chance) * (1 + Fraction(edge)))
    else:
        reached = _after_guess(chance, low_deltas[3])[0]
    alone = down(Fraction(1, many) * (1 + Fraction(edge)))
    return Risk(
        guarantee,
        belief,
        rate,
        chance,
        many,
        size,
        bracket(guess, "guess", f"at prior={belief:g}"),
        bracket(precision, "precision", f"at prior={belief:g}, fpr={rate:g}"),
        bracket((reached, upper[1]), "reconstruction", f"at baseline={chance:g}"),
        bracket((alone, upper[2]), "singling_out", f"among {many} candidates"),
        None
        if size is None
        else bracket(
            _identified(size, rate, lower[0], upper[0]), "identified", f"of {size} at fpr={rate:g}"
        ),
    )


def precision_of(prior: float, fpr: float, tpr: float) -> Ends:
    """Positive predictive value of an attack with these rates, rounded down and up.

    >>> precision_of(0.5, 0.25, 0.75)
    (0.75, 0.75)
    """
    right = Fraction(prior) * Fraction(tpr)
    value = right / (right + (1 - Fraction(prior)) * Fraction(fpr))
    return down(value), up(value)


def _after_guess(prior: float, delta: float) -> Ends:
    """max(prior, 1 - prior) + min(prior, 1 - prior) delta, rounded down and up.

    A Bayesian who guesses the likelier of two data sets with masses p and 1 - p, p <= 1/2, is right with
    probability (1 - p) + p H at e^epsilon = (1 - p) / p.
    """
    likely = max(Fraction(prior), 1 - Fraction(prior))
    value = likely + (1 - likely) * Fraction(delta)
    return down(value), up(value)


def _log_odds(prior: float) -> Ends:
    """log((1 - p) / p), p the smaller of the prior and its complement, rounded down and up."""
    rare = min(prior, 1.0 - prior)  # exact: the complement is taken of what is at least 1/2
    if rare == 0.5:
        return 0.0, 0.0
    value = math.log1p(-rare) - math.log(rare)
    slack = 1e-15 * (1.0 + abs(math.log(rare)))
    return max(value - slack, 0.0), value + slack


def _identified(records: int, fpr: float, low: float, high: float) -> Ends:
    """Expected true positives: one record attains the lower rate, the others are guessed."""
    least = Fraction(low) + (records - 1) * Fraction(fpr)
    return down(min(least, Fraction(records))), up(records * Fraction(high))


def _size(guarantee: Guarantee) -> int | None:
    """How many records there are, if the mechanism says it."""
    run = guarantee.mechanism
    for owner, name in ((getattr(run, "batches", None), "dataset_size"), (run, "users")):
        value = getattr(owner, name, None)
        if isinstance(value, int) and value >= 1:
            return value
    return None


def _percent(share: Any) -> str:
    """The share as a percentage, upwards."""
    return percent(float(share), ROUND_CEILING)
