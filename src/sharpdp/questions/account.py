"""From a mechanism to its answer: `account(mechanism)` gives a Guarantee, which answers questions.

A Guarantee holds, for each side, the derivations that bound it. Every question is answered by all of
them in both directions, refined until the bracket is as narrow as asked, and the best one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import (
    elementwise,
    false_positive_rate,
    half_open_probability,
    invalid,
    is_among,
    keyword_hint,
    nonnegative,
    one_line,
    open_probability,
    real,
    renyi_order,
    short_repr,
)
from sharpdp.bounds import Bound
from sharpdp.bracket import STANDARD_WIDTH, Bracket, Rigor, Side, bracketed
from sharpdp.curves.renyi import RenyiCurve
from sharpdp.curves.tradeoff.curve import PointwiseOracle, TradeoffCurve
from sharpdp.display import notebook
from sharpdp.display.progress import Task, progress
from sharpdp.display.tabular import Tabular
from sharpdp.errors import Contradiction, InvalidArgument, NotCertified, WrongType
from sharpdp.mechanisms import DPSGD, Adjacency, Mechanism
from sharpdp.mechanisms.composed import Parts, checked_group_size, in_groups, named_neighbors
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, one_minus_ends, probability_ends
from sharpdp.numerics.underflow import underflow_is_zero, underflow_is_zero_in_methods
from sharpdp.profile.composition import Composition
from sharpdp.profile.engine import SMALLEST_LOG_DELTA
from sharpdp.profile.many_questions import FEW, Ends, epsilons_at
from sharpdp.questions.derivations import Composable, Derivation, Derivations, bounds_on
from sharpdp.questions.targets import the_target

if TYPE_CHECKING:
    from sharpdp.questions.risk import Risk
    from sharpdp.report.results import Audited

__all__ = ["Guarantee", "account", "checked_width"]

NARROWEST, WIDEST = 1e-9, 0.5
"""Relative widths that can be asked for."""

PAIRS = 0.2
"""Pairs may be off by this share of the width in epsilon: deltas are some five times as wide."""

ROUGH_LOOK, PROBES = 0.1, 5
"""Relative width at which the direction that is asked second is looked at first; and at how many of many
values derivations are looked at, to find out which ones are worth asking."""

FAR_BEHIND = 1.01
"""By so much a rough look must put an epsilon above another one to leave it out: it is off by 1e-3."""

NEGLIGIBLE = 1e-15
"""Masses at infinite losses up to this decide no delta that is asked."""

OPACUS_ORDERS = (*(1.0 + x / 10.0 for x in range(1, 100)), *map(float, range(12, 64)))
"""The orders that Opacus exchanges divergences at unless told otherwise."""

Interval = tuple[float, float]


@underflow_is_zero
def account(
    mechanism: Mechanism,
    *,
    relative_width: float = STANDARD_WIDTH,
    adjacency: Adjacency | str | None = None,
    group_size: int = 1,
) -> Guarantee:
    """The privacy of a mechanism as a Guarantee, which answers with brackets around the truth.

    Args:
        mechanism: What is run on the data, such as `DPSGD` or `Gaussian`, alone or composed.
        relative_width: How wide a bracket may be, as a share of its upper end: from 1e-9 to 0.5. The
            default is 0.1%. A bracket that stays wider says so in its context.
        adjacency: Which data sets are neighbors, as an `Adjacency` or its words ("add/remove"). None
            means the mechanism's documented default. Every answer prints it.
        group_size: In how many records neighbors differ at most, such as those of one person: 1 (the
            default) to 1000. Every answer about more than one record says so.

    Returns:
        The Guarantee, with every bound that applies to the mechanism.

    Raises:
        InvalidArgument: relative_width or group_size is out of range, or adjacency is not a known notion.
        WrongType: mechanism is not a Mechanism, or relative_width or group_size is not a number.
        Unsupported: no theorem covers a part of the mechanism under this adjacency.
        NotCertified: double precision is not enough to compute a bound. Bounds on training runs are
            computed, and this is said, when a question is first asked.

    >>> from sharpdp.mechanisms import Gaussian
    >>> answer = account(Gaussian(noise_multiplier=2.0))
    >>> print(f"{answer.epsilon(delta=1e-5):.4f}")
    1.9930 to 1.9931
    """
    if not isinstance(mechanism, Mechanism):
        raise WrongType(
            f"mechanism must be a mechanism; got {short_repr(mechanism)}. "
            "Try DPSGD(PoissonBatches(...), noise_multiplier=1.0)."
        )
    width = checked_width(relative_width)
    notion, records = mechanism.adjacency(adjacency), checked_group_size(group_size)
    bounds = bounds_on(mechanism, notion, records)
    lower, upper = (
        Derivations(mechanism, notion, side, width=PAIRS * width, group_size=records, bounds=bounds)
        for side in (Side.LOWER, Side.UPPER)
    )
    # training runs are made of numbers that were checked, and their pairs take long; what others are
    # made of, such as functions, may turn out wrong only now
    if not any(isinstance(part, DPSGD) for part, _ in mechanism.parts()):
        lower.make()
        upper.make()
    return Guarantee(mechanism, notion, width, lower, upper, records, mechanism.holds_when)


def checked_width(relative_width: object) -> float:
    """The relative width as a float that can be asked for."""
    width = real(relative_width=relative_width)
    if NARROWEST <= width <= WIDEST:
        return width
    raise invalid("relative_width", f"between {NARROWEST:g} and {WIDEST:g}", width)


@dataclass(frozen=True)
class Question:
    """One kind of question: how a composition is asked, and what is true of the answers anyway.

    Answers are such that the worse direction has the larger one.
    """

    quantity: str
    given: str
    ask: Callable[[Composable, Array, float], Ends]
    settle: Callable[[Array, Array, Array], Ends]
    """From lower and upper ends of the worse direction and what was given to the ends of the answer."""
    settled: Callable[[Composable, Array, Array], NDArray[np.bool_]] | None = None
    """Where a quick bound shows that a direction's answers are at most the given ones."""
    rises: bool = False
    """Whether answers rise with what is given; otherwise they fall."""
    shares_work: bool = False
    """Whether a rough look at one direction, once the other was asked, is quick and often decides."""


def _mus(run: Composable, rates: Array, width: float) -> Ends:
    low, high = zip(*(run.mu(float(rate), width) for rate in rates), strict=True)
    return np.array(low), np.array(high)


def _at_least_zero(low: Array, high: Array, _: Array) -> Ends:
    return np.maximum(low, 0.0), high


def _is_below(run: Composable, epsilons: Array, log_deltas: Array) -> NDArray[np.bool_]:
    """Where a quick bound shows that the run is (epsilon, delta)-DP, in this direction."""
    shown = np.zeros(epsilons.size, dtype=bool)
    usual = (log_deltas > SMALLEST_LOG_DELTA) & (log_deltas < 0.0)
    if isinstance(run, Composition) and usual.any():
        shown[usual] = run.shows(epsilons[usual], log_deltas[usual])
    return shown


def _logs(deltas: Array) -> Array:
    """Not above the logarithms of deltas."""
    with np.errstate(divide="ignore"):
        logs = np.log(deltas)
        return np.asarray(logs - 4.0 * UNIT_ROUNDOFF * np.abs(logs))


EPSILON = Question(
    "epsilon",
    "delta",
    epsilons_at,
    _at_least_zero,
    lambda run, deltas, low: _is_below(run, low, _logs(deltas)),
)
DELTA = Question(
    "delta",
    "epsilon",
    lambda run, epsilons, width: run.final_log_deltas(epsilons, width),
    lambda low, high, _: probability_ends(low, high),
    lambda run, epsilons, low: _is_below(run, epsilons, low),
)
RENYI = Question(
    "renyi",
    "order",
    lambda run, orders, width: run.renyi_divergences(orders, width),
    _at_least_zero,
    rises=True,
)
MU = Question("mu", "fpr", _mus, _at_least_zero)
TPR = Question(
    "tpr",
    "fpr",
    lambda run, fprs, width: run.true_positive_rates(fprs, width),
    # guessing reaches fpr
    lambda low, high, fpr: (np.maximum(low, fpr), np.clip(high, fpr, 1.0)),
    rises=True,
    shares_work=True,
)


def _negated_fnrs(run: Composable, fprs: Array, width: float) -> Ends:
    low, high = run.false_negative_rates(fprs, width)
    return -high, -low


def _settled_fnr(low: Array, high: Array, fpr: Array) -> Ends:
    guessed = one_minus_ends(fpr, fpr)[1]  # guessing misses no more than that
    return np.minimum(0.0 - high, guessed), np.minimum(0.0 - low, guessed)


FNR = Question("fnr", "fpr", _negated_fnrs, _settled_fnr)


@underflow_is_zero_in_methods
@dataclass(frozen=True)
class Guarantee(Tabular):
    """What is known about the privacy of one mechanism; each method answers one question.

    Made by `account`. Answers are Brackets: the truth for the stated adjacency lies between `lower` and
    `upper`. Arguments may be numbers or arrays; an array gives a Bracket of arrays of its shape.

    Args:
        mechanism: What is run on the data.
        adjacency: Which data sets are neighbors.
        relative_width: How wide a bracket may be, as a share of its upper end.
        lower_derivations: The derivations of lower sides; where there are none, nothing is known below.
        upper_derivations: The derivations of upper sides; where there are none, nothing is known above.
        group_size: In how many records neighbors differ at most.
        conditions: What the upper ends need beyond the conditions of theorems: what the mechanism says
            of how it is run, and what was `provided`.
    """

    mechanism: Mechanism
    adjacency: Adjacency
    relative_width: float
    lower_derivations: Sequence[Derivation] = field(repr=False)
    upper_derivations: Sequence[Derivation] = field(repr=False)
    group_size: int = 1
    conditions: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """The answer as a notebook shows it: what is run, and epsilon at some deltas."""
        deltas = (1e-5, 1e-6, 1e-8)
        answer = self.epsilon(delta=deltas)
        rows = [
            (f"{delta:g}", *Bracket(low, high).printed)
            for delta, low, high in zip(
                deltas, *map(np.ravel, (answer.lower, answer.upper)), strict=True
            )
        ]
        return notebook.headline(
            self.mechanism.describe(),
            f"{self.neighbors}, {answer.rigor.by(answer.stated_by)}{self._provided}",
        ) + notebook.table(("delta", "epsilon at least", "at most"), rows)

    @keyword_hint
    def epsilon(self, *, delta: ArrayLike) -> Bracket:
        """Bracket for the smallest epsilon >= 0 at which the mechanism is (epsilon, delta)-DP.

        At delta = 0 that is pure DP: the largest loss of any result, infinite for Gaussian noise.

        Args:
            delta: One delta in [0, 1), or an array of them.

        Returns:
            The bracket; its upper end is infinite where no finite epsilon is proved.

        Raises:
            InvalidArgument: a delta is outside [0, 1), or the array is empty.
            WrongType: a delta is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.

        >>> from sharpdp.mechanisms import RandomizedResponse
        >>> ten = RandomizedResponse(local_epsilon=np.log(3)) * 10
        >>> answer = account(ten).epsilon(delta=1e-6)
        >>> bool(10.98 < answer.lower <= answer.upper < 10 * np.log(3))
        True
        >>> print(f"{account(ten).epsilon(delta=0):.6g}")  # ten times log 3
        10.9861 to 10.9862
        """
        return self._answer(EPSILON, elementwise(half_open_probability, delta=delta))

    @keyword_hint
    def delta(self, *, epsilon: ArrayLike) -> Bracket:
        """Bracket for the smallest delta at which the mechanism is (epsilon, delta)-DP.

        Args:
            epsilon: One finite epsilon >= 0, or an array of them.

        Returns:
            The bracket, within [0, 1].

        Raises:
            InvalidArgument: an epsilon is negative or not finite, or the array is empty.
            WrongType: an epsilon is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.
        """
        return self._answer(DELTA, elementwise(nonnegative, epsilon=epsilon))

    def advantage(self) -> Bracket:
        """Bracket for the largest true-positive minus false-positive rate of any attack: delta(0).

        Returns:
            The bracket, within [0, 1].

        Raises:
            NotCertified: double precision is not enough for any of the upper derivations.
        """
        with self._progress("advantage"):
            ends, rigor = self._ends(DELTA, np.zeros(1))
        low, high = ends[0].tolist()
        return Bracket(
            low, high, rigor, "advantage", self._context, stated_by=self._stated_by(rigor)
        )

    def tradeoff(self) -> TradeoffCurve:
        """The trade-off curve: the smallest false-negative rate of any attack, enclosed.

        Where the two sides are different theorems, the lower side's pairs are experiments that some
        attacker can make: the curve is below theirs.

        Returns:
            The TradeoffCurve. It computes when it is asked, as finely as this guarantee or finer.
        """
        finer = replace(self, relative_width=min(self.relative_width, 1e-5))
        upper = {derivation.composition for derivation in self.upper_derivations}
        alone = [
            finer.only(derivation)
            for derivation in self._best_lower
            if derivation.composition not in upper
        ]
        attackers = tuple(GuaranteeOracle(guarantee, guarantee) for guarantee in alone)
        return TradeoffCurve(GuaranteeOracle(self, finer, attackers))

    @keyword_hint
    def fnr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the smallest false-negative rate of any attack at this false-positive rate.

        Args:
            fpr: One false-positive rate in [0, 1], or an array of them.

        Returns:
            The bracket, at most 1 - fpr. Its lower end is the safe one.

        Raises:
            InvalidArgument: an fpr is outside [0, 1], or the array is empty.
            WrongType: an fpr is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.
        """
        return self._answer(FNR, elementwise(false_positive_rate, fpr=fpr))

    @keyword_hint
    def tpr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the largest true-positive rate of any attack at this false-positive rate.

        At 0 that is the probability of an outcome that gives the record away.

        Args:
            fpr: One false-positive rate in [0, 1], or an array of them.

        Returns:
            The bracket, between fpr and 1.

        Raises:
            InvalidArgument: an fpr is outside [0, 1], or the array is empty.
            WrongType: an fpr is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.

        >>> from sharpdp.mechanisms import Gaussian
        >>> account(Gaussian(noise_multiplier=1.0)).tpr(fpr=0.0).upper  # there is none
        0.0
        """
        return self._answer(TPR, elementwise(false_positive_rate, fpr=fpr))

    @keyword_hint
    def renyi(self, *, order: ArrayLike) -> Bracket:
        """Bracket for the Renyi divergence of the given order > 1, the larger of both directions.

        Args:
            order: One finite order > 1, or an array of them.

        Returns:
            The bracket; its upper end is infinite where no finite divergence is proved.

        Raises:
            InvalidArgument: an order is not finite or not above 1, or the array is empty.
            WrongType: an order is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.
        """
        return self._answer(RENYI, elementwise(renyi_order, order=order))

    @keyword_hint
    def renyi_curve(self, *, orders: Iterable[float] = OPACUS_ORDERS) -> RenyiCurve:
        """The upper sides of the Renyi divergences at these orders, as a curve.

        Its orders and values can be passed to other libraries.

        Args:
            orders: A list or an array of finite orders > 1, in any order; equal ones count once. The
                default is the orders that Opacus uses: 1.1 to 10.9 in steps of 0.1, then 12 to 63.

        Returns:
            The curve, with the rigor of the answers.

        Raises:
            InvalidArgument: an order is not finite or not above 1, or there is none.
            WrongType: an order is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.

        >>> from sharpdp.mechanisms import Gaussian
        >>> curve = account(Gaussian(noise_multiplier=1.0)).renyi_curve(orders=[2.0, 4.0])
        >>> [round(value, 9) for value in curve.values]  # order / 2
        [1.0, 2.0]
        """
        rising = np.unique(elementwise(renyi_order, orders=orders))
        bracket = self.renyi(order=rising)
        # a value bounds the divergences of all smaller orders too
        values = np.minimum.accumulate(np.asarray(bracket.upper)[::-1])[::-1]
        return RenyiCurve(
            orders=rising.tolist(),
            values=values.tolist(),
            name=self.mechanism.label,
            rigor=bracket.rigor,
        )

    @keyword_hint
    def mu(self, *, smallest_fpr: float = 1e-6) -> Bracket:
        """Bracket for the smallest mu whose Gaussian trade-off curve lies below this one.

        Compared where both error rates are at least smallest_fpr: as a rate goes to zero the tail
        of a sampled mechanism is that of its noise alone, and no smaller mu would do.

        Args:
            smallest_fpr: The smallest rate at which the curves are compared, in (0, 1/2). The default
                leaves out rates below one in a million.

        Returns:
            The bracket. At these rates the mechanism is no less private than Gaussian noise with noise
            multiplier 1/mu.

        Raises:
            InvalidArgument: smallest_fpr is outside (0, 1/2): both rates are never at least 1/2.
            WrongType: smallest_fpr is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.
        """
        smallest = open_probability(smallest_fpr=smallest_fpr)
        if smallest >= 0.5:
            raise InvalidArgument(
                f"smallest_fpr must be in (0, 1/2); got {smallest:g}. "
                "Both error rates of a useful attack are not that large."
            )
        with self._progress("mu"):
            ends, rigor = self._ends(MU, np.array([smallest]))
        context = f"for fpr>={smallest:g} {self._context}{self._width_note(*ends.T)}"
        low, high = ends[0].tolist()
        return Bracket(low, high, rigor, "mu", context, stated_by=self._stated_by(rigor))

    @keyword_hint
    def meets(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        advantage: float | None = None,
        tpr: float | None = None,
        fpr: float | None = None,
        mu: float | None = None,
    ) -> bool:
        """Whether the mechanism meets a target, for sure.

        The target is one of those of `calibrate`. Where an upper end is within one width above it, a
        narrower answer decides.

        Args:
            epsilon: Largest epsilon, at least 0; goes with delta.
            delta: Delta of that epsilon, in [0, 1).
            advantage: Largest advantage of any attack, in (0, 1).
            tpr: Largest true-positive rate, in (fpr, 1]; goes with fpr.
            fpr: False-positive rate at which tpr is the target, in (0, 1).
            mu: Largest mu, as the method `mu` answers by default; above 0.

        Returns:
            True if it is proved; False if it is wrong or cannot be proved.

        Raises:
            InvalidArgument: A number is out of range, or there is not exactly one target.
            WrongType: A number has the wrong type.
            NotCertified: double precision is not enough for any of the upper derivations.

        >>> from sharpdp.mechanisms import Gaussian
        >>> account(Gaussian(noise_multiplier=2.0)).meets(epsilon=2.0, delta=1e-5)
        True
        """
        target = the_target(
            epsilon=epsilon, delta=delta, advantage=advantage, tpr=tpr, fpr=fpr, mu=mu
        )
        return target.is_met(self)

    def refined(self, relative_width: float) -> Guarantee:
        """The same question with narrower answers.

        Args:
            relative_width: How wide a bracket may be, as a share of its upper end.

        Returns:
            A Guarantee by the same bounds, under the same conditions.

        Raises:
            InvalidArgument: relative_width is out of range.
            WrongType: relative_width is not a number.

        >>> from sharpdp.mechanisms import Laplace
        >>> answer = account(Laplace(scale=10.0) * 30)
        >>> wide, narrow = (
        ...     guarantee.epsilon(delta=1e-5) for guarantee in (answer, answer.refined(1e-6))
        ... )
        >>> bool(wide.lower <= narrow.lower <= narrow.upper <= wide.upper)
        True
        """
        width = checked_width(relative_width)
        lower, upper = (
            routes.refined(PAIRS * width) if isinstance(routes, Derivations) else routes
            for routes in (self.lower_derivations, self.upper_derivations)
        )
        return replace(self, relative_width=width, lower_derivations=lower, upper_derivations=upper)

    def suggestions(self, *, delta: float) -> tuple[str, ...]:
        """What to change in the run for a smaller epsilon, in sentences with numbers.

        Args:
            delta: Delta at which epsilon is compared, in (0, 1).

        Returns:
            One sentence for each change that lowers the upper end by 5% or more; often none.

        Raises:
            InvalidArgument: delta is outside (0, 1).
            WrongType: delta is not a number.
            NotCertified: double precision is not enough for an upper end.

        >>> from sharpdp import DPSGD, ShuffledBatches
        >>> scheme = ShuffledBatches(dataset_size=60_000, batch_size=500, epochs=1)
        >>> answer = account(DPSGD(scheme, noise_multiplier=2.0))
        >>> for sentence in answer.suggestions(delta=1e-5):
        ...     print(sentence)
        Draw the batches by balls-and-bins sampling (dp.BallsAndBins, same sizes): epsilon is then at
        most 0.156651 at delta=1e-05, not 0.773839.
        Let one random example sit out every epoch (left_out=1): epsilon is then at most 0.438284 at
        delta=1e-05, not 0.773839.
        """
        from sharpdp.questions.suggestions import suggested

        return suggested(self, open_probability(delta=delta))

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        r"""Epsilon at some deltas as dictionaries.

        Args:
            **asked: delta, one or several; 1e-5, 1e-6 and 1e-8 by default.

        Returns:
            For each delta both ends of epsilon.

        Raises:
            WrongType: something other than delta is asked.

        >>> from sharpdp.mechanisms import Gaussian
        >>> print(account(Gaussian(noise_multiplier=1.0)).to_latex(delta=1e-5))
        \begin{tabular}{rrr}
        \toprule
        delta & epsilon lower & epsilon upper \\
        \midrule
        $1 \cdot 10^{-5}$ & 4.37717 & 4.37718 \\
        \bottomrule
        \end{tabular}
        """
        if set(asked) - {"delta"}:
            raise WrongType(f"an answer is asked at delta, such as delta=1e-5; got {asked}.")
        deltas = np.ravel(asked.get("delta", (1e-5, 1e-6, 1e-8)))
        answer = self.epsilon(delta=deltas)
        return [
            {"delta": delta, "epsilon_lower": low, "epsilon_upper": high}
            for delta, low, high in zip(
                deltas.tolist(),
                *(np.ravel(end).tolist() for end in (answer.lower, answer.upper)),
                strict=True,
            )
        ]

    def plot(self, ax: Any = None, *, kind: str = "tradeoff", title: str | None = "auto") -> Any:
        """Draw the trade-off curve or the privacy profile as a band (needs the extra `plots`).

        Args:
            ax: Matplotlib axes to draw on; None for a new figure.
            kind: "tradeoff" or "profile".
            title: Heading of the picture; None for none, "auto" for its own.

        Returns:
            The axes.

        Raises:
            InvalidArgument: there is no such kind.
            MissingExtra: matplotlib is not installed.
            WrongType: ax is neither axes nor None.
            NotCertified: double precision is not enough for the picture.
        """
        from sharpdp import plots

        kinds = {"tradeoff": plots.tradeoff, "profile": plots.profile}
        if not is_among(kinds, kind):
            raise invalid("kind", f"one of {', '.join(kinds)}", kind)
        return kinds[kind](self, ax=ax, title=title)

    @keyword_hint
    def risk(
        self,
        *,
        prior: float = 0.5,
        fpr: float = 0.001,
        baseline: float = 0.1,
        candidates: int = 100,
        records: int | None = None,
    ) -> Risk:
        """What an attacker can do with the release, as probabilities: guesses, accusations, secrets.

        All five numbers are read off the trade-off curve:

        - guess: the best guess which of two neighboring data sets was used, one of which had the prior.
        - precision: how often an attack at this false-positive rate is right when it says yes.
        - reconstruction, attribute inference: 1 - f(baseline) at most, f the trade-off curve.
        - singling_out: the same for one of ``candidates`` equally likely records.
        - identified: the expected number of records that are rightly identified.

        Under add/remove, the lower ends of reconstruction and singling_out count "absent" as a candidate:
        they are attained by two neighboring data sets, one of which lacks the record.

        Args:
            prior: Probability of one of two data sets before the release, in (0, 1); for membership,
                the share of members among the suspects.
            fpr: False-positive rate of the attack, in (0, 1).
            baseline: Chance of the best guess at the secret without the release, in (0, 1).
            candidates: Number of equally likely candidates, at least 2.
            records: Number of records that are attacked; None takes the size of the data set, if the
                mechanism states one.

        Returns:
            A `Risk` of Brackets; `str` gives plain words, `plot()` a picture.

        Raises:
            InvalidArgument: an argument is out of range.
            WrongType: an argument is not a number.
            NotCertified: double precision is not enough for any of the upper derivations.

        >>> from sharpdp.mechanisms import Gaussian
        >>> risk = account(Gaussian(noise_multiplier=1.0)).risk(baseline=0.1)
        >>> print(f"{risk.reconstruction:.3f}")  # 0.1 before the release
        0.138 to 0.390
        """
        from sharpdp.questions.risk import risk_of

        return risk_of(
            self, prior=prior, fpr=fpr, baseline=baseline, candidates=candidates, records=records
        )

    def report(
        self,
        format: str = "text",  # noqa: A002  # "text", "markdown", "html" or "json"
        *,
        delta: ArrayLike = (1e-5, 1e-6, 1e-8),
        date: str | None = None,
        audits: Iterable[Audited] = (),
        header: Mapping[str, Any] | None = None,
    ) -> str:
        """The answer in words, for those who sign it: text, Markdown, one HTML page, or JSON.

        Args:
            format: "text", "markdown", "html" or "json"; `from_json` reads the last two back.
                "model-card" is the block of a model card of Hugging Face, "registry" an entry of the
                registry of deployments of OpenDP and NIST.
            delta: One delta in [0, 1), or an array of them, at which epsilon is reported; by default
                1e-5, 1e-6 and 1e-8.
            date: The date to print as YYYY-MM-DD, such as "2026-01-31". None prints no date, so that the
                same run gives the same report.
            audits: Results of audits of this run, such as that of `sharpdp.audit.one_run`; the report
                says what they found. It is not computed again.
            header: What the report says about itself, text by name: project, data_set, version, owner,
                contact, date and reviewer, or some of them. It is not computed again either.

        Returns:
            The whole report.

        Raises:
            InvalidArgument: the format is unknown, a delta is outside [0, 1), date is not a date, a field
                of the header is not one line, or the header has no such field.
            WrongType: a delta is not a number, or date is not text.
            NotCertified: double precision is not enough for any of the upper derivations.
        """
        from sharpdp.report import render

        return render(self, format, delta=delta, date=date, audits=audits, header=header)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """The answer behind a report in JSON, if its numbers hold when they are computed again.

        Args:
            text: What `report("json")` or `report("html")` returned.

        Returns:
            The Guarantee, computed again.

        Raises:
            InvalidArgument: the text is not a report, or a field is not confirmed; the message names it.
            WrongType: it is not text.
        """
        from sharpdp.report import from_json

        return from_json(text)

    def __repr__(self) -> str:
        """What was run, and for which neighbors, in one short line."""
        return notebook.shortened(f"<{self}>")

    def __str__(self) -> str:
        """What was run, for which neighbors, and under which conditions of the run."""
        return f"Guarantee for {self.mechanism.describe()}, {self.neighbors}{self._provided}"

    @property
    def _provided(self) -> str:
        conditions = "condition" if len(self.conditions) == 1 else "conditions"
        more = f", under {len(self.conditions)} {conditions} of the run (holds_when)"
        return more if self.conditions else ""

    @property
    def described(self) -> str:
        """What was run in one line, and the size of groups above one."""
        groups = f"groups of {self.group_size} in " if self.group_size > 1 else ""
        return f"{groups}{self.mechanism.describe()}"

    def parts(self) -> Parts:
        """What was run, part by part, as groups see it.

        Returns:
            The parts with how often each is run.
        """
        return in_groups(self.mechanism.parts(), self.group_size)

    @property
    def neighbors(self) -> str:
        """Which data sets are neighbors, in words: the adjacency, and the size of groups above one."""
        return named_neighbors(self.adjacency, self.group_size)

    @property
    def holds_when(self) -> tuple[str, ...]:
        """What must be ensured for the upper ends to hold: by the theorems behind them, and by the run.

        >>> from sharpdp.mechanisms import PureDP
        >>> account(PureDP(epsilon=1.0)).holds_when
        ('the mechanism is epsilon-DP for neighbors',)
        """
        bounds = (bound for derivation in self.upper_derivations for bound in derivation.bounds)
        stated = (needs for bound in bounds if (needs := bound.needs(self.adjacency)))
        return tuple(dict.fromkeys((*stated, *self.conditions)))

    def provided(self, *conditions: str) -> Guarantee:
        """The same guarantee with further conditions, which reports and `holds_when` state.

        Args:
            *conditions: What else must be true, clauses on one line such as "the key stays secret".

        Returns:
            A Guarantee with the same answers; a condition that it has already is not repeated.

        Raises:
            InvalidArgument: A condition is empty or is not one line.
            WrongType: A condition is not text.

        >>> from sharpdp.mechanisms import PureDP
        >>> print(account(PureDP(epsilon=1.0)).provided("the key stays secret"))
        Guarantee for any epsilon-DP mechanism (epsilon 1), neighboring inputs, under 1 condition of the
        run (holds_when)
        """
        for condition in conditions:
            one_line(condition=condition, hint="Such as 'the key stays secret'.")
            if not condition.strip():
                raise invalid("condition", "a clause of at least one word", condition)
        return replace(self, conditions=tuple(dict.fromkeys((*self.conditions, *conditions))))

    def only(self, derivation: Derivation) -> Guarantee:
        """What this derivation alone proves: both ends of its answers are its own.

        Args:
            derivation: One of `derivations`.

        Returns:
            A Guarantee for the same mechanism, adjacency and relative width. Only the end on the
            derivation's own side bounds the truth about the mechanism.

        >>> from sharpdp.mechanisms import Gaussian
        >>> answer = account(Gaussian(noise_multiplier=1.0))
        >>> alone = answer.only(answer.upper_derivations[0])
        >>> alone.delta(epsilon=1.0) == answer.delta(epsilon=1.0)
        True
        """
        return replace(self, lower_derivations=(derivation,), upper_derivations=(derivation,))

    def rough_upper(self, *, relative_width: float = 0.05) -> Guarantee:
        """The same question answered roughly and from above only, which is quick.

        Args:
            relative_width: How wide a bracket may be; that of this Guarantee if it is larger.

        Returns:
            A Guarantee whose upper ends bound the truth, and whose lower ends are zero. If nothing is
            known from above, its lower ends stay.

        >>> from sharpdp.mechanisms import Gaussian
        >>> print(account(Gaussian(noise_multiplier=1.0)).rough_upper().delta(epsilon=1.0).lower)
        0.0
        """
        width = max(checked_width(relative_width), self.relative_width)
        lower = () if self.upper_derivations else self.lower_derivations
        return replace(self, relative_width=width, lower_derivations=lower)

    @property
    def derivations(self) -> tuple[Derivation, ...]:
        """The derivations of both sides, those of the lower side first."""
        return (*self.lower_derivations, *self.upper_derivations)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The theorems that the answers rest on."""
        every = (bound for derivation in self.derivations for bound in derivation.bounds)
        return tuple(dict.fromkeys(every))

    @property
    def rigor(self) -> Rigor:
        """The weakest rigor of all derivations; an answer that not all of them decide may have more."""
        return Rigor.weakest(derivation.rigor for derivation in self.derivations)

    @property
    def _context(self) -> str:
        return f"| {self.mechanism.label}, {self.neighbors}"

    def _progress(self, quantity: str) -> AbstractContextManager[Task]:
        return progress(f"computing {quantity} of {self.mechanism.label}")

    def _answer(self, question: Question, values: float | NDArray[np.float64]) -> Bracket:
        """The bracket at every value.

        Each value is asked once. What bounds the answer at one of them bounds all on one side of it, so
        that answers rise or fall as the truth does.
        """
        if isinstance(values, np.ndarray):
            asked, index = np.unique(np.ravel(values), return_inverse=True)
        else:
            asked, index = np.array([values]), np.zeros(1, dtype=np.intp)
        with self._progress(question.quantity):
            found, rigor = self._ends(question, asked)
        low, high = found[:: 1 if question.rises else -1].T
        low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
        ends = np.stack([low, high], axis=1)[:: 1 if question.rises else -1]
        self._check_order(question, asked, *ends.T)
        context = f"{self._context}{self._width_note(*ends.T)}"
        stated_by = self._stated_by(rigor)
        return bracketed(
            question.quantity, question.given, values, ends[index], context, rigor, stated_by
        )

    def _stated_by(self, rigor: Rigor) -> tuple[str, ...]:
        """The modules outside sharpdp whose theorems an answer of this rigor may rest on."""
        if rigor is not Rigor.STATED:
            return ()
        return tuple(dict.fromkeys(bound.stated_by for bound in self.bounds if bound.stated_by))

    def _ends(self, question: Question, values: Array) -> tuple[Array, Rigor]:
        """At each value the best bound of each side on the worse direction; the rigor of these bounds.

        What a derivation cannot certify is no bound; if that leaves some value without an upper one,
        the refusal stands.
        """
        answers: dict[Composable, Ends] = {}
        refusals: list[NotCertified] = []
        limits = np.full(values.size, np.inf)
        upper = self._worth_asking(question, values)
        for side in (self._best_lower, upper):
            for run in (derivation.composition for derivation in side):
                if run not in answers:
                    if side is upper and self._seems_behind(question, run, values, limits):
                        continue
                    answers[run] = self._worse_direction(question, run, values, limits, refusals)
                if side is upper:
                    limits = np.fmin(limits, answers[run][1])
        upper = [way for way in upper if way.composition in answers]
        low, low_rigor = _best(
            [(-answers[way.composition][0], way.rigor) for way in self._best_lower], values.size
        )
        high, high_rigor = _best(
            [(answers[way.composition][1], way.rigor) for way in upper], values.size
        )
        if refusals and np.isnan(high).any():
            raise refusals[0]
        low, high = np.where(np.isnan(low), -np.inf, -low), np.where(np.isnan(high), np.inf, high)
        ends = question.settle(low, high, values)
        self._check_order(question, values, *ends)
        return np.stack(ends, axis=1), Rigor.weakest([*low_rigor, *high_rigor])

    def _check_order(self, question: Question, values: Array, low: Array, high: Array) -> None:
        """Raise the alarm if a lower end is above an upper end: both are proved, so that one is wrong."""
        crossed = np.flatnonzero(low > high)
        if not crossed.size:
            return
        value, ends = float(values[crossed[0]]), (low[crossed[0]], high[crossed[0]])
        free = np.full(values.size, np.inf)
        sides, stated = [], dict[str, None]()
        for end, derivations in enumerate((self._best_lower, self._best_upper)):
            # of the answers of a side the one that decides: the largest lower, the smallest upper end
            known = [
                (np.nanmax(-answer if end else answer), way)
                for way in derivations
                for answer in [
                    self._worse_direction(question, way.composition, values, free, [])[end]
                ]
                if not np.isnan(answer).all()
            ]
            deciding = max(known, key=lambda item: item[0])[1].bounds if known else ()
            stated.update(dict.fromkeys(bound.stated_by for bound in deciding if bound.stated_by))
            names = (
                f"{bound.name} (stated by {bound.stated_by})" if bound.stated_by else bound.name
                for bound in deciding
            )
            sides.append(" with ".join(names) or "what is true anyway")
        if question is FNR:  # of the less private side more is missed by an attack
            sides.reverse()
        blamed = (
            f"One of them is wrong: sharpdp has checked nothing that {' and '.join(stated)} states. "
            "Look there first."
            if stated
            else "This is a defect of sharpdp; please report it as SECURITY.md says, and trust neither."
        )
        raise Contradiction(
            f"two theorems contradict each other about {question.quantity} at "
            f"{question.given}={value:g} of {self.mechanism.describe()}, {self.neighbors}: it is at "
            f"least {float(ends[0])!r} by {sides[0]} and at most {float(ends[1])!r} by {sides[1]}. "
            f"{blamed}"
        )

    def _worth_asking(self, question: Question, values: Array) -> Sequence[Derivation]:
        """The upper derivations, for many values without those that a rough look puts far behind.

        Leaving one out is safe. It is left out if another one is better at each of some values.
        """
        every = self._best_upper
        if values.size <= FEW or len(every) <= 1:
            return every
        probes = _probes(values)
        rough = replace(self, relative_width=ROUGH_LOOK)
        free, refusals = np.full(probes.size, np.inf), list[NotCertified]()
        ends = [
            rough._worse_direction(question, way.composition, probes, free, refusals)
            for way in every
        ]
        if refusals:
            return every
        least = np.min([high for _, high in ends], axis=0)
        return [way for way, (low, _) in zip(every, ends, strict=True) if (low <= least).any()]

    def _seems_behind(
        self, question: Question, run: Composable, values: Array, limits: Array
    ) -> bool:
        """Whether a rough look puts a run far above the epsilons that others have shown.

        Not asking it is safe. It is looked at by way of quicker pairs, if it has such.
        """
        if question is not EPSILON or not isinstance(run, Composition):
            return False
        if values.size > FEW or not np.all(limits < np.inf) or run.for_planning is run:
            return False
        rough, refusals = replace(self, relative_width=ROUGH_LOOK), list[NotCertified]()
        free = np.full(values.size, np.inf)
        low, _ = rough._worse_direction(question, run.for_planning, values, free, refusals)
        return bool(np.all(low > FAR_BEHIND * limits))

    def _worse_direction(
        self,
        question: Question,
        run: Composable,
        values: Array,
        limits: Array,
        refusals: list[NotCertified],
    ) -> Ends:
        """The larger answers of the two directions, end by end; NaN where they are refused.

        Where one direction is above what others have shown, the other one is not asked: the upper end is
        infinite.
        """
        width = self.relative_width if run in self._shared_runs else 0.4 * self.relative_width
        try:
            low, high = question.ask(run, values, width)
            if run.symmetric:
                return low, high
            asked = np.flatnonzero(low <= limits)
            high = np.where(low <= limits, high, np.inf)
            if question.settled is not None and asked.size:
                asked = asked[~question.settled(run.reverse(), values[asked], low[asked])]
            is_quick = asked.size <= FEW or (question.shares_work and isinstance(run, Composition))
            if width < ROUGH_LOOK and asked.size and is_quick:
                # most runs are much less private one way, and a rough look at the other way shows it
                rough = question.ask(run.reverse(), values[asked], ROUGH_LOOK)
                asked = asked[rough[1] > low[asked]]
            elif asked.size and run in self._lower_runs:
                # leaving out a direction is safe below, so that a look at some values may decide
                probes = _probes(asked)
                rough = question.ask(run.reverse(), values[probes], ROUGH_LOOK)
                behind = rough[1] <= low[probes]
                last = np.clip(np.searchsorted(probes, asked), 1, PROBES - 1)
                asked = asked[~(behind[last - 1] & behind[last])]
            if asked.size:
                other_low, other_high = question.ask(run.reverse(), values[asked], width)
                low[asked] = np.maximum(low[asked], other_low)
                high[asked] = np.maximum(high[asked], other_high)
            return low, high
        except NotCertified as refusal:
            if values.size > 1:
                ends = [
                    self._worse_direction(question, run, *pair, refusals)
                    for pair in zip(values[:, None], limits[:, None], strict=True)
                ]
                return np.concatenate([low for low, _ in ends]), np.concatenate(
                    [high for _, high in ends]
                )
            refusals.append(refusal)
            return np.full(1, np.nan), np.full(1, np.nan)

    @cached_property
    def _shared_runs(self) -> frozenset[Composable]:
        """Compositions that bound both sides; of others one end is used, and both may be off."""
        upper = {derivation.composition for derivation in self.upper_derivations}
        lower = {derivation.composition for derivation in self.lower_derivations}
        return frozenset(lower & upper)

    @cached_property
    def _lower_runs(self) -> frozenset[Composable]:
        """Compositions that bound the lower side alone."""
        lower = {derivation.composition for derivation in self.lower_derivations}
        return frozenset(lower - self._shared_runs)

    @cached_property
    def _best_lower(self) -> tuple[Derivation, ...]:
        """The lower derivations without those that another one seems to beat whatever is asked.

        Leaving one out is safe, and asking it would take as long as asking the better one.
        """
        return _unbeaten(self.lower_derivations, Derivation.reveals_more)

    @cached_property
    def _best_upper(self) -> tuple[Derivation, ...]:
        """The same of the upper derivations, from which those that reveal more are left out."""
        return _unbeaten(
            self.upper_derivations, lambda one, other: other.reveals_more(one, NEGLIGIBLE)
        )

    def _width_note(self, low: ArrayLike, high: ArrayLike) -> str:
        """A word of warning if some bracket did not become as narrow as asked."""
        low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        with np.errstate(invalid="ignore"):
            narrow = (high - low <= 1.01 * self.relative_width * high) & np.isfinite(high)
        if bool(np.all(narrow | (low == high))):
            return ""
        # no refinement closes the gap between two theorems about different pairs
        lower, upper = (
            {aim for derivation in side for aim in (derivation.aims, derivation.composition)}
            for side in (self.lower_derivations, self.upper_derivations)
        )
        return (
            ", gap between best known bounds" if lower.isdisjoint(upper) else ", wider than asked"
        )


def _unbeaten(
    derivations: Sequence[Derivation], beats: Callable[[Derivation, Derivation], bool]
) -> tuple[Derivation, ...]:
    """The derivations that no other one beats; of those that beat each other the most rigorous one."""
    if len(derivations) == 1:
        return tuple(derivations)
    best: list[Derivation] = []
    strongest = list(Rigor)
    for derivation in sorted(derivations, key=lambda one: strongest.index(one.rigor)):
        if not any(beats(other, derivation) for other in best):
            best = [*(other for other in best if not beats(derivation, other)), derivation]
    return tuple(best)


def _probes(values: NDArray[Any]) -> NDArray[Any]:
    """Some of many values, the first and the last among them."""
    return np.asarray(values[np.linspace(0, values.size - 1, PROBES).round().astype(int)])


def _best(bounds: list[tuple[Array, Rigor]], size: int) -> tuple[Array, list[Rigor]]:
    """At each place the smallest bound (NaN if there is none), and the rigors that decide anywhere.

    Where bounds are equal the strongest rigor counts; an infinite bound decides nothing.
    """
    if len(bounds) == 1:
        ((only, rigor),) = bounds
        return only, [rigor] if (only < np.inf).any() else []
    best = np.full(size, np.nan)
    for values, _ in bounds:
        best = np.fmin(best, values)
    undecided = best < np.inf  # false for NaN too
    rigors = []
    for rigor in Rigor:
        reached = [values == best for values, other in bounds if other is rigor]
        decided = undecided & np.any(reached, axis=0) if reached else np.zeros(size, dtype=bool)
        if decided.any():
            rigors.append(rigor)
            undecided &= ~decided
    return best, rigors


@dataclass(frozen=True)
class GuaranteeOracle(PointwiseOracle):
    """The curve of a guarantee: at each rate the best attack on any neighbors, in either direction.

    Its polylines enclose the largest trade-off function below that, which is its own inverse; they are
    made from `finer`, the same guarantee with narrower brackets.
    """

    guarantee: Guarantee
    finer: Guarantee
    attackers: tuple[GuaranteeOracle, ...] = ()
    symmetric = True
    revealed = (0.0, 0.0)

    def inverse(self) -> GuaranteeOracle:
        return self

    def false_negatives(self, fprs: Array) -> Array:
        answer = self.guarantee.fnr(fpr=fprs)
        return np.stack([answer.lower, answer.upper], axis=1)

    def true_positives(self, fprs: Array) -> Array:
        answer = self.guarantee.tpr(fpr=fprs)
        return np.stack([answer.lower, answer.upper], axis=1)

    def deltas(self, epsilons: Array) -> list[Interval]:
        return _intervals(self.guarantee.delta(epsilon=epsilons))

    def epsilons(self, deltas: Array) -> list[Interval]:
        return _intervals(self.guarantee.epsilon(delta=deltas))

    def deltas_towards(self, epsilons: Array) -> list[Interval]:
        return _intervals(self.finer.delta(epsilon=np.abs(epsilons)))

    def renyi_divergences(self, orders: Array) -> list[Interval]:
        return _intervals(self.guarantee.renyi(order=orders))


def _intervals(bracket: Bracket) -> list[Interval]:
    ends = np.asarray(bracket.lower).tolist(), np.asarray(bracket.upper).tolist()
    return list(zip(*ends, strict=True))
