"""Trade-off curves: a trade-off function between a lower and an upper one, and every question about it.

`TradeoffCurve` is what an answer hands out and what a user may hand in. It is a mechanism as well, so
that curves compose. Its oracle answers with certified (lower, upper): two polylines, the same one if the
curve is exact, a pair, or a guarantee (whose oracle is in `accounting`). The last two are asked one point
at a time, and enclosed by polylines when that is needed. The null hypothesis is Q, the data without the
record, and the alternative is P.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import (
    elementwise,
    false_positive_rate,
    flag,
    half_open_probability,
    invalid,
    keyword_hint,
    nonnegative,
    one_line,
    positive,
    real,
    renyi_order,
    short_repr,
    zero_or_scale,
)
from sharpdp.bracket import STANDARD_WIDTH, Bracket, Rigor, Side, bracketed, in_order
from sharpdp.curves.tradeoff.divergences import DIVERGENCES, length, limit, of_function, renyi
from sharpdp.curves.tradeoff.enclosure import enclosing, line_at, sticks_between
from sharpdp.curves.tradeoff.exact import (
    ONE,
    ZERO,
    Line,
    Number,
    down,
    lines_outline,
    listed,
    log,
    ratio_down,
    ratio_up,
    up,
)
from sharpdp.curves.tradeoff.losses import from_losses, to_losses
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.display import notebook
from sharpdp.display.tabular import Plotted, Tabular
from sharpdp.errors import InvalidArgument, NotCertified, Undecided, WrongType
from sharpdp.mechanisms.composed import ANY_SAMPLES, Adjacency, Mechanism, Parts
from sharpdp.mechanisms.given_name import named_by_author, quoted
from sharpdp.numerics.special import Array, add_up, exp_up, probability_ends
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.pairs.pair import GaussianPair, Pair
from sharpdp.profile.composition import Composition
from sharpdp.profile.discretize import LossDistribution
from sharpdp.profile.many_questions import Ends, epsilons_at

if TYPE_CHECKING:
    from sharpdp.questions.account import Guarantee

__all__ = ["CurveOracle", "PairOracle", "PointwiseOracle", "PolylineOracle", "TradeoffCurve"]

Interval: TypeAlias = tuple[float, float]
Intervals: TypeAlias = "list[Interval] | Array"
"""One interval after another, or rows of lower and upper ends."""
Bounds: TypeAlias = tuple[Polyline, Polyline]
Reading: TypeAlias = Callable[[Polyline], "Fraction | float"]

LARGEST_EPSILON = 700.0
"""Beyond this, e^epsilon leaves double precision; delta is read off here instead."""


@underflow_is_zero_in_methods
@dataclass(frozen=True, repr=False)
class TradeoffCurve(Mechanism, Tabular, Plotted):
    """The smallest false-negative rate of any attack at each false-positive rate, enclosed.

    Made by its class methods, or by ``answer.tradeoff()``. The null hypothesis is Q, the data without
    the record, and the alternative is P; ``inverse()`` exchanges them. ``lower`` is what every attacker
    is held to, ``upper`` what some attacker achieves; for an exact curve they agree and ``polyline`` is
    the function itself, in fractions. Answers are Brackets; an array gives a Bracket of arrays of its
    shape. As a mechanism it is one whose attacks are held to this curve. Two curves are equal if they
    are made of the same data.

    Args:
        oracle: What answers the questions: polylines, a pair or a guarantee.
        attained: Whether one fixed pair of inputs also reaches the upper side, in every run.
        name: One line of text for descriptions; "unnamed", the default, is left out of them.
        rigor: That of the answers it was made from: CERTIFIED or UNREVIEWED, or its words. Everything
            made from the curve has no more, and the curve no more than its guarantee.

    Raises:
        InvalidArgument: name is not one line, or rigor is weaker.
        WrongType: oracle is not a CurveOracle, attained not True or False, or name not text.

    >>> curve = TradeoffCurve.from_pmfs(null=[0.25, 0.75], alternative=[0.75, 0.25])
    >>> curve.lower(0.125), curve.polyline.advantage()
    (0.625, Fraction(1, 2))
    >>> print(curve.delta(epsilon=0.0))
    0.5 <= delta <= 0.5 at epsilon=0 | trade-off curve, certified
    """

    oracle: CurveOracle
    attained: bool = False
    name: str = "unnamed"
    rigor: Rigor = Rigor.CERTIFIED

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check the arguments; a curve has no more rigor than the guarantee it is a reading of."""
        one_line(name=self.name)
        flag(attained=self.attained)
        if not isinstance(self.oracle, CurveOracle):
            raise WrongType(
                f"oracle must be a CurveOracle; got {short_repr(self.oracle)}. "
                "Try TradeoffCurve.from_knots, .from_pmfs, .from_points, .gaussian or .of."
            )
        rigor = Rigor.of_premise(rigor=self.rigor)
        if self.oracle.guarantee is not None:
            rigor = Rigor.weakest([rigor, self.oracle.guarantee.rigor])
        object.__setattr__(self, "rigor", rigor)

    @classmethod
    def from_knots(
        cls, *, fpr: Iterable[Number], fnr: Iterable[Number], name: str = "unnamed"
    ) -> TradeoffCurve:
        """The curve with these knots, from (0, f(0)) to (1, 0), exactly.

        Args:
            fpr: False-positive rates of the knots, rising from 0 to 1; at least two.
            fnr: For each of them the false-negative rate, at most 1 - fpr, convex and falling to 0.
                Doubles may miss that by 1e-12; integers and fractions may not.
            name: One line of text for descriptions.

        Returns:
            The curve, attained.

        Raises:
            InvalidArgument: the knots are not those of a trade-off function, and the message names the
                first that is wrong; or name is not one line.
            WrongType: a list or an entry is not of the right kind, or name is not text.

        >>> TradeoffCurve.from_knots(fpr=[0, 1], fnr=[1, 0]).advantage().upper
        0.0
        """
        exact = Polyline(fpr, fnr)  # type: ignore[arg-type]  # checked there
        return cls.between(exact, exact, attained=True, name=name)

    @classmethod
    def from_pmfs(
        cls, *, null: Iterable[Number], alternative: Iterable[Number], name: str = "unnamed"
    ) -> TradeoffCurve:
        """The curve of two pmfs on the same points, exactly; fractions stay fractions.

        Args:
            null: Probabilities of the points under Q, each >= 0, with sum 1. Doubles are divided by their
                sum if it is off by at most 1e-9.
            alternative: Probabilities of the same points under P, likewise.
            name: One line of text for descriptions.

        Returns:
            The curve, attained.

        Raises:
            InvalidArgument: the lists differ in length, a probability is negative, a sum is not 1, or
                name is not one line.
            WrongType: a list or an entry is not of the right kind, or name is not text.
        """
        exact = Polyline.from_pmfs(null, alternative)
        return cls.between(exact, exact, attained=True, name=name)

    @classmethod
    def from_points(
        cls,
        *,
        epsilons: Iterable[Number],
        deltas: Iterable[Number],
        attained: bool = False,
        name: str = "unnamed",
    ) -> TradeoffCurve:
        """The curve that (epsilon, delta)-DP at these points implies, in both orders.

            f(x) = max over points of 1 - delta - e^epsilon x and e^-epsilon (1 - delta - x), and 0

        Source: dong2022 Proposition 2.5.

        Args:
            epsilons: The epsilons of the points, from 0 to 700; at least one.
            deltas: For each of them the delta, in [0, 1].
            attained: True if the worst mechanism that keeps all of them is meant. False, the default:
                nothing is known from above.
            name: One line of text for descriptions.

        Returns:
            The curve.

        Raises:
            InvalidArgument: the lists differ in length or are empty, an entry is out of range, or name
                is not one line.
            WrongType: a list or an entry is not of the right kind, attained is not True or False, or
                name is not text.

        >>> round(TradeoffCurve.from_points(epsilons=[0], deltas=[0.25]).lower(0.5), 9)
        0.25
        """
        lower, upper = points_polylines(listed("epsilons", epsilons), listed("deltas", deltas))
        top = upper if attained is True else Polyline.perfect()
        return cls.between(lower, top, attained=attained, name=name)

    @classmethod
    def gaussian(cls, *, mu: float) -> TradeoffCurve:
        """The curve of N(mu, 1) against N(0, 1), mu >= 0: mu-GDP.

        Args:
            mu: 0 for perfect privacy, or from 1e-30 to 1e30; 1 / noise_multiplier for Gaussian noise.

        Returns:
            The curve, attained.

        Raises:
            InvalidArgument: mu is out of range.
            WrongType: mu is not a number.

        >>> round(TradeoffCurve.gaussian(mu=1.0).lower(0.05), 6)
        0.740489
        """
        clean = zero_or_scale(mu=mu)
        name = f"{clean:.12g}-GDP"
        if clean == 0.0:
            return cls.between(Polyline.perfect(), Polyline.perfect(), attained=True, name=name)
        return cls(PairOracle.of(GaussianPair(clean)), attained=True, name=name)

    @classmethod
    def from_pair(cls, pair: Pair, *, name: str = "unnamed") -> TradeoffCurve:
        """The curve of a pair (P, Q) with Q as the null, this direction only.

        Args:
            pair: The pair of distributions.
            name: One line of text for descriptions.

        Returns:
            The curve, attained.

        Raises:
            InvalidArgument: name is not one line.
            WrongType: pair is not a Pair, or name is not text.
        """
        if not isinstance(pair, Pair):
            raise WrongType(f"pair must be a Pair; got {short_repr(pair)}. Try TradeoffCurve.of.")
        return cls(PairOracle.of(pair), attained=True, name=name)

    @classmethod
    def from_losses(cls, distribution: LossDistribution, *, name: str = "unnamed") -> TradeoffCurve:
        """The curve of a loss distribution with Q as the null; its side says which side is known.

        Holds when: one fixed pair of inputs has these losses or dominates them, if it is a lower side.

        Args:
            distribution: The privacy losses, each at most 700.
            name: One line of text for descriptions.

        Returns:
            The curve, with the rigor of the losses; attained if they are a lower side.

        Raises:
            InvalidArgument: name is not one line.
            WrongType: distribution is not a LossDistribution, or name is not text.
            NotCertified: a loss is above 700, so that e^loss is beyond double precision.
        """
        if not isinstance(distribution, LossDistribution):
            raise WrongType(
                f"distribution must be a LossDistribution; got {short_repr(distribution)}."
            )
        polyline, is_upper = from_losses(distribution), distribution.side is Side.UPPER
        return cls.between(
            polyline if is_upper else Polyline.revealed(),
            Polyline.perfect() if is_upper else polyline,
            attained=not is_upper,
            name=name,
            rigor=distribution.rigor,
        )

    @classmethod
    def between(
        cls,
        lower: Polyline,
        upper: Polyline,
        *,
        attained: bool = False,
        name: str = "unnamed",
        rigor: Rigor | str = Rigor.CERTIFIED,
    ) -> TradeoffCurve:
        """Any curve between these two polylines.

        Args:
            lower: What every attacker is held to.
            upper: What some attacker achieves; nowhere below the other.
            attained: Whether one fixed pair of inputs also reaches the upper one, in every run.
            name: One line of text for descriptions.
            rigor: That of the answers they were taken from: CERTIFIED or UNREVIEWED, or its words.

        Returns:
            The curve; it is exact if the two are equal.

        Raises:
            InvalidArgument: lower is above upper at some rate, name is not one line, or rigor is weaker.
            WrongType: lower or upper is not a Polyline, attained not True or False, or name not text.
        """
        oracle = PolylineOracle(lower, upper)
        return cls(oracle, attained, name, Rigor.of_premise(rigor=rigor))

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        *,
        relative_width: float = STANDARD_WIDTH,
        adjacency: Adjacency | str | None = None,
        group_size: int = 1,
    ) -> TradeoffCurve:
        """The curve of a mechanism: ``account(mechanism).tradeoff()``, with the same keywords.

        Args:
            mechanism: What is run on the data.
            relative_width: How wide a bracket may be, as a share of its upper end: from 1e-9 to 0.5. The
                default is 0.1%.
            adjacency: Which data sets are neighbors; None means the mechanism's documented default.
            group_size: In how many records neighbors differ at most.

        Returns:
            The curve, which is its own inverse.

        Raises:
            InvalidArgument, WrongType, Unsupported, NotCertified: as for `account`.
        """
        from sharpdp.questions.account import account

        answer = account(
            mechanism, relative_width=relative_width, adjacency=adjacency, group_size=group_size
        )
        return answer.tradeoff()

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        if self.oracle.guarantee is not None:
            return self.oracle.guarantee.mechanism.label
        return (
            "trade-off curve" if self.name == "unnamed" else f"trade-off curve {quoted(self.name)}"
        )

    def describe(self) -> str:
        """The curve in one line."""
        if self.oracle.guarantee is not None:
            return self.oracle.guarantee.described
        name = "" if self.name == "unnamed" else f", {named_by_author(self.name)}"
        return f"mechanism known by its trade-off curve{name}"

    def __repr__(self) -> str:
        """The curve in one line."""
        return f"<TradeoffCurve: {self.describe()}>"

    def _repr_html_(self) -> str:
        """The curve as a notebook shows it: a picture."""
        from sharpdp.report.picture import data_address

        rates = np.array([0.0, 0.01, 0.03, *(step / 16 for step in range(1, 17))])
        columns = (rates, np.asarray(self.lower(rates)), np.asarray(self.upper(rates)))
        points = tuple(zip(*(column.tolist() for column in columns), strict=True))
        picture = f'<img alt="trade-off curve" src="{data_address(points)}">'
        return notebook.headline(self.describe()) + picture

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Those of the answer that it comes from; otherwise the curve itself says whom it is about."""
        guarantee = self.oracle.guarantee
        return super().adjacencies if guarantee is None else (guarantee.adjacency,)

    @property
    def premise(self) -> Rigor:
        """What stands behind the curve."""
        return self.rigor

    def parts(self) -> Parts:
        """The curve of an answer composes as what was run, any other one as itself."""
        guarantee = self.oracle.guarantee
        return super().parts() if guarantee is None else guarantee.parts()

    @keyword_hint
    def fnr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the smallest false-negative rate at this false-positive rate.

        Args:
            fpr: One false-positive rate in [0, 1], or an array of them.

        Returns:
            The bracket; its lower end is the safe one.

        Raises:
            InvalidArgument: an fpr is outside [0, 1], or the array is empty.
            WrongType: an fpr is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        clean = elementwise(false_positive_rate, fpr=fpr)
        # `lower` and `upper` are often asked for one after the other
        kept: tuple[object, Bracket] | None = self.__dict__.get("_last_rates")
        if kept is not None and _is_same(kept[0], clean):
            return kept[1]
        answer = self._asked("fnr", "fpr", clean, self.oracle.false_negatives)
        self.__dict__["_last_rates"] = (clean, answer)
        return answer

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or a pickle has what the curve is made of, without the last answer."""
        return type(self), (self.oracle, self.attained, self.name, self.rigor)

    @keyword_hint
    def tpr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the largest true-positive rate at this false-positive rate.

        Args:
            fpr: One false-positive rate in [0, 1], or an array of them.

        Returns:
            The bracket; its upper end is the safe one.

        Raises:
            InvalidArgument: an fpr is outside [0, 1], or the array is empty.
            WrongType: an fpr is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        clean = elementwise(false_positive_rate, fpr=fpr)
        return self._asked("tpr", "fpr", clean, self.oracle.true_positives)

    def lower(self, fpr: ArrayLike) -> float | NDArray[np.float64]:
        """Certified lower bound on the false-negative rate: what every attacker is held to.

        Args:
            fpr: One false-positive rate in [0, 1], or an array of them.

        Returns:
            A number, or an array of the same shape.

        Raises:
            InvalidArgument: an fpr is outside [0, 1], or the array is empty.
            WrongType: an fpr is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        return self.fnr(fpr=fpr).lower

    def upper(self, fpr: ArrayLike) -> float | NDArray[np.float64]:
        """Certified upper bound on the false-negative rate: what some attacker achieves.

        Args:
            fpr: One false-positive rate in [0, 1], or an array of them.

        Returns:
            A number, or an array of the same shape.

        Raises:
            InvalidArgument: an fpr is outside [0, 1], or the array is empty.
            WrongType: an fpr is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        return self.fnr(fpr=fpr).upper

    @keyword_hint
    def delta(self, *, epsilon: ArrayLike) -> Bracket:
        """Bracket for the smallest delta at which (epsilon, delta)-DP holds in both orders.

        Args:
            epsilon: One finite epsilon >= 0, or an array of them.

        Returns:
            The bracket, within [0, 1].

        Raises:
            InvalidArgument: an epsilon is negative or not finite, or the array is empty.
            WrongType: an epsilon is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        clean = elementwise(nonnegative, epsilon=epsilon)
        return self._asked("delta", "epsilon", clean, self.oracle.deltas)

    @keyword_hint
    def epsilon(self, *, delta: ArrayLike) -> Bracket:
        """Bracket for the smallest epsilon >= 0 at which (epsilon, delta)-DP holds in both orders.

        Args:
            delta: One delta in [0, 1), or an array of them; 0 asks for pure DP.

        Returns:
            The bracket; its upper end is infinite where no finite epsilon is proved.

        Raises:
            InvalidArgument: a delta is outside [0, 1), or the array is empty.
            WrongType: a delta is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        clean = elementwise(half_open_probability, delta=delta)
        return self._asked("epsilon", "delta", clean, self.oracle.epsilons)

    @keyword_hint
    def hockey_stick(self, *, ratio: ArrayLike) -> Bracket:
        """Bracket for the sum of (alternative - ratio null)_+: one order, any ratio > 0.

        Args:
            ratio: One finite ratio e^epsilon > 0, or an array of them.

        Returns:
            The bracket, within [0, 1].

        Raises:
            InvalidArgument: a ratio is not finite or not above 0, or the array is empty.
            WrongType: a ratio is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        clean = elementwise(positive, ratio=ratio)
        return self._asked("hockey stick", "ratio", clean, self.oracle.hockey_sticks)

    @keyword_hint
    def conjugate(self, *, slope: ArrayLike) -> Bracket:
        """Bracket for the largest slope x - f(x): the hockey stick at -slope, minus 1, if slope < 0.

        Args:
            slope: One finite slope, or an array of them; from 0 on, the conjugate is the slope itself.

        Returns:
            The bracket.

        Raises:
            InvalidArgument: a slope is not finite, or the array is empty.
            WrongType: a slope is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """

        def answers(slopes: Array) -> list[Interval]:
            sticks = iter(self.oracle.hockey_sticks(-slopes[slopes < 0.0]))
            intervals = []
            for value in slopes.tolist():
                if value < 0.0:
                    low, high = next(sticks)
                    intervals.append((down(Fraction(low) - 1), up(Fraction(high) - 1)))
                else:
                    intervals.append((value, value))
            return intervals

        return self._asked("conjugate", "slope", elementwise(real, slope=slope), answers)

    def fixed_point(self) -> Bracket:
        """Bracket for the rate x with f(x) = x, where both errors are equally frequent.

        Returns:
            The bracket, within [0, 1/2]: 1/2 is perfect privacy.

        Raises:
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        return self._bracket("fixed point", rising(*self.bounds, Polyline.fixed_point))

    def area(self) -> Bracket:
        """Bracket for the area under the curve: 1/2 is perfect privacy, 0 is none.

        Returns:
            The bracket, within [0, 1/2].

        Raises:
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        return self._bracket("area", rising(*self.bounds, Polyline.area))

    def advantage(self) -> Bracket:
        """Bracket for the largest 1 - fpr - fnr: the total variation distance.

        Returns:
            The bracket, within [0, 1].

        Raises:
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        return self._bracket("advantage", self.oracle.deltas(np.zeros(1))[0])

    def length(self) -> Bracket:
        """Bracket for the length of the graph with its jump at 0, between sqrt(2) and 2.

        Returns:
            The bracket.

        Raises:
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        lower, upper = self.bounds
        interval = length(upper)[0], length(lower)[1]
        return self._bracket("length", interval)

    @keyword_hint
    def renyi(self, *, order: ArrayLike) -> Bracket:
        """Bracket for the Renyi divergence of order > 1, the larger of both directions.

        Args:
            order: One finite order > 1, or an array of them.

        Returns:
            The bracket; its upper end is infinite where no finite divergence is proved.

        Raises:
            InvalidArgument: an order is not finite or not above 1, or the array is empty.
            WrongType: an order is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        clean = elementwise(renyi_order, order=order)
        return self._asked("renyi", "order", clean, self.oracle.renyi_divergences)

    def divergence(
        self,
        kind: str | Callable[[float], float],
        *,
        at_zero: float | None = None,
        at_infinity: float | None = None,
    ) -> Bracket:
        """Bracket for an F-divergence of the null from the alternative; the inverse has the other order.

        Where F(s)/s is unbounded, a curve that touches zero before fpr = 1 has an infinite divergence;
        the lower polyline of a curve that is only enclosed always does. The named ones of a pair are
        then bounded from above by its moments.

        Source: wang2023 Lemma B.4.

        Args:
            kind: "total variation", "kl", "squared hellinger", "chi squared", or a convex function F of
                the likelihood ratio null / alternative, finite at positive ratios.
            at_zero: The limit F(0) of a function, which may be infinite; None for a name.
            at_infinity: The limit of F(s)/s at infinity of a function, which may be infinite; None for a
                name.

        Returns:
            The bracket. A function of one's own is computed in doubles, and its rigor is APPROXIMATE.

        Raises:
            InvalidArgument: the name is unknown, limits are given with a name or missing with a function,
                or the function is seen not to be convex or finite.
            WrongType: a limit or a value of the function is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        if isinstance(kind, str):
            if kind not in DIVERGENCES or not at_zero is at_infinity is None:
                names = ", ".join(repr(name) for name in DIVERGENCES)
                raise InvalidArgument(
                    f"kind must be {names}, or a function with at_zero and at_infinity; "
                    f"got {short_repr(kind)}."
                )
            lower, upper = self.bounds
            named = DIVERGENCES[kind]
            interval = self._from_moments(kind, (named(upper)[0], named(lower)[1]))
            return self._bracket(kind, interval)
        if at_zero is None or at_infinity is None or not callable(kind):
            raise InvalidArgument(
                "kind must be a name, or a function with at_zero and at_infinity; "
                f"got {short_repr(kind)}, at_zero={short_repr(at_zero)}, "
                f"at_infinity={short_repr(at_infinity)}."
            )
        lower, upper = self.bounds
        limits = limit(at_zero=at_zero), limit(at_infinity=at_infinity)
        values = [of_function(polyline, kind, *limits) for polyline in (upper, lower)]
        return Bracket(min(values), max(values), Rigor.APPROXIMATE, "divergence", f"| {self.label}")

    def _from_moments(self, kind: str, interval: Interval) -> Interval:
        """The ends, the upper one from moments of the pair where polylines leave it open.

        Renyi divergences rise with the order, so that one next to 1 is above that of order 1; chi squared
        is the exponential of the one of order 2, minus 1.
        """
        if math.isfinite(interval[1]):
            return interval
        if kind == "kl":
            return interval[0], self.oracle.renyi_of_null(1.0 + 1e-4)
        high = self.oracle.renyi_of_null(2.0)
        return interval[0], add_up(exp_up(high), -1.0) if high < LARGEST_EPSILON else math.inf

    def _bracket(self, quantity: str, interval: Interval) -> Bracket:
        return in_order(*interval, self.rigor, quantity, f"| {self.label}")

    def _asked(
        self,
        quantity: str,
        argument: str,
        values: float | NDArray[np.float64],
        answers: Callable[[Array], Intervals],
    ) -> Bracket:
        intervals = answers(np.ravel(values))
        return bracketed(quantity, argument, values, intervals, f"| {self.label}", self.rigor)

    @property
    def polyline(self) -> Polyline:
        """The function itself, in fractions; NotCertified unless the curve is exact."""
        lower, upper = self.bounds
        if lower == upper:
            return lower
        raise NotCertified(
            f"the curve is known to within {float(lower.distance(upper)):.3g} only. "
            "Use .lower_polyline, which is safe for a guarantee, or .upper_polyline."
        )

    @cached_property
    def bounds(self) -> Bounds:
        """(lower, upper) polylines; those of a curve that is asked point by point are 1e-3 apart."""
        return self.oracle.enclosed(1e-3)

    @property
    def lower_polyline(self) -> Polyline:
        """The lower of the two polylines."""
        return self.bounds[0]

    @property
    def upper_polyline(self) -> Polyline:
        """The upper of the two polylines."""
        return self.bounds[1]

    @keyword_hint
    def refined(self, *, width: float) -> TradeoffCurve:
        """The same curve between polylines that are at most ``width`` apart, as far as it is known.

        Args:
            width: The largest difference of the two false-negative rates, from 1e-8 to 0.5.

        Returns:
            The curve between those polylines; a curve that is made of polylines keeps its own.

        Raises:
            InvalidArgument: width is out of range.
            WrongType: width is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        clean = real(width=width)
        if not 1e-8 <= clean <= 0.5:
            raise invalid("width", "between 1e-08 and 0.5", width)
        name = self.name if self.oracle.guarantee is None else self.label
        lower, upper = self.oracle.enclosed(clean)
        return self.between(lower, upper, attained=self.attained, name=name, rigor=self.rigor)

    def inverse(self) -> TradeoffCurve:
        """The curve with null and alternative exchanged.

        Returns:
            The inverse; the curve of a guarantee is its own.
        """
        oracle = self.oracle.inverse()
        return self if oracle is self.oracle else replace(self, oracle=oracle)

    def symmetrized(self) -> TradeoffCurve:
        """What delta at epsilon >= 0, read off in this order, implies if it holds in both orders.

        Returns:
            The curve, made from the two polylines.

        Raises:
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        lower, upper = self.bounds
        return self.between(lower.symmetrized(), upper.symmetrized(), rigor=self.rigor)

    def symmetric_hull(self) -> TradeoffCurve:
        """The largest trade-off function that is below this one and its inverse.

        Returns:
            The curve, made from the two polylines.

        Raises:
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        return self.minimum(self.inverse())

    def minimum(self, other: TradeoffCurve) -> TradeoffCurve:
        """The largest trade-off function below both: what holds whichever of the two was run.

        Args:
            other: The other curve.

        Returns:
            The curve, made from polylines, with the weaker rigor of both.

        Raises:
            WrongType: other is not a TradeoffCurve.
            NotCertified: double precision is not enough for the pair or guarantee behind a curve.
        """
        (lower, upper), (low, high) = self.bounds, _curve(other).bounds
        return self.between(lower.minimum(low), upper.minimum(high), rigor=self._shared(other))

    def maximum(self, other: TradeoffCurve) -> TradeoffCurve:
        """The larger of both at every rate: what holds if both do.

        Args:
            other: The other curve.

        Returns:
            The curve, made from polylines, with the weaker rigor of both.

        Raises:
            WrongType: other is not a TradeoffCurve.
            NotCertified: double precision is not enough for the pair or guarantee behind a curve.
        """
        (lower, upper), (low, high) = self.bounds, _curve(other).bounds
        return self.between(lower.maximum(low), upper.maximum(high), rigor=self._shared(other))

    def __le__(self, other: object) -> bool:
        """Whether it is at most the other at every rate; Undecided if the enclosures leave it open."""
        return self.below(other) if isinstance(other, TradeoffCurve) else NotImplemented

    def below(self, other: TradeoffCurve, *, smallest_rate: float = 0.0) -> bool:
        """Whether it is at most the other wherever fpr is between smallest_rate and 1 - smallest_rate.

        Two curves that are not exact can hardly be distinguished where both begin and end, so for them
        some smallest rate is needed.

        Args:
            other: The other curve.
            smallest_rate: In [0, 0.5); 0 compares at every rate.

        Returns:
            True or False, for certain.

        Raises:
            Undecided: the enclosures leave it open.
            InvalidArgument: smallest_rate is out of range.
            WrongType: other is not a TradeoffCurve, or smallest_rate is not a number.
            NotCertified: double precision is not enough for the pair or guarantee behind a curve.

        >>> one, two = TradeoffCurve.gaussian(mu=1.0), TradeoffCurve.gaussian(mu=2.0)
        >>> two.below(one, smallest_rate=0.01), one.below(two, smallest_rate=0.01)
        (True, False)
        """
        rate = real(smallest_rate=smallest_rate)
        if not 0.0 <= rate < 0.5:
            raise invalid("smallest_rate", "in [0, 0.5)", smallest_rate)
        (lower, upper), (low, high) = self.bounds, _curve(other).bounds
        if largest_excess(upper, low, Fraction(rate)) <= 0:
            return True
        if largest_excess(lower, high, Fraction(rate)) > 0:
            return False
        raise Undecided(
            "undecided: whether the one curve is below the other is not known. Ask both for "
            ".refined(width=..) with a smaller width, or for a larger smallest_rate."
        )

    def distance(self, other: TradeoffCurve) -> Bracket:
        """Bracket for the largest difference of the two at any rate.

        Args:
            other: The other curve.

        Returns:
            The bracket, with the weaker rigor of both.

        Raises:
            WrongType: other is not a TradeoffCurve.
            NotCertified: double precision is not enough for the pair or guarantee behind a curve.
        """
        bracket = self._bracket("distance", distance_between(self.bounds, _curve(other).bounds))
        return replace(bracket, rigor=self._shared(other))

    def _shared(self, other: TradeoffCurve) -> Rigor:
        """The rigor of what is made from both."""
        return Rigor.weakest([self.rigor, other.rigor])

    def losses(self, side: Side) -> LossDistribution:
        """Its losses with Q as the null: of the lower curve for the upper side, and conversely.

        Args:
            side: The side on which the losses are to be safe.

        Returns:
            The loss distribution, tagged with the side and the rigor of the curve.

        Raises:
            WrongType: side is not a Side.
            NotCertified: double precision is not enough for the pair or guarantee behind the curve.
        """
        if not isinstance(side, Side):
            raise WrongType(f"side must be a Side; got {short_repr(side)}.")
        polyline = self.bounds[0 if side is Side.UPPER else 1]
        return replace(to_losses(polyline, side), rigor=self.rigor)

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The curve at some false-positive rates as dictionaries.

        Args:
            **asked: fpr, one or several rates; 21 of them by default.

        Returns:
            For each rate both ends of the false-negative rate.

        Raises:
            WrongType: something other than fpr is asked.
        """
        if set(asked) - {"fpr"}:
            raise WrongType(f"a curve is asked at fpr, such as fpr=0.01; got {asked}.")
        rates = np.ravel(asked.get("fpr", np.linspace(0.0, 1.0, 21)))
        answer = self.fnr(fpr=rates)
        ends = (np.ravel(end).tolist() for end in (answer.lower, answer.upper))
        return [
            {"fpr": rate, "fnr_lower": low, "fnr_upper": high}
            for rate, low, high in zip(rates.tolist(), *ends, strict=True)
        ]

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw the curve with its bracket as a band (needs the extra `plots`)."""
        from sharpdp import plots

        if self.oracle.guarantee is None:
            return plots.tradeoffs([self], ax=ax, title=title)
        return plots.tradeoff(self.oracle.guarantee, ax=ax, title=title)


def _is_same(rates: object, others: float | NDArray[np.float64]) -> bool:
    """Whether two questions ask for the same rates in the same shape."""
    if isinstance(rates, np.ndarray) and isinstance(others, np.ndarray):
        return np.array_equal(rates, others)
    return type(rates) is type(others) and bool(rates == others)


def _curve(other: object) -> TradeoffCurve:
    if isinstance(other, TradeoffCurve):
        return other
    raise WrongType(f"other must be a TradeoffCurve; got {short_repr(other)}.")


class CurveOracle(ABC):
    """A trade-off curve that is asked at many points at once; answers are certified (lower, upper)."""

    guarantee: Guarantee | None
    """What the curve is a reading of, if it comes from an answer."""

    @abstractmethod
    def inverse(self) -> CurveOracle:
        """The curve with null and alternative exchanged."""

    @abstractmethod
    def false_negatives(self, fprs: Array) -> Intervals:
        """The smallest false-negative rates."""

    @abstractmethod
    def true_positives(self, fprs: Array) -> Intervals:
        """The largest true-positive rates."""

    @abstractmethod
    def deltas(self, epsilons: Array) -> list[Interval]:
        """The larger deltas of both directions, epsilons >= 0."""

    @abstractmethod
    def epsilons(self, deltas: Array) -> list[Interval]:
        """The smallest epsilons for both directions, deltas in [0, 1)."""

    @abstractmethod
    def renyi_divergences(self, orders: Array) -> list[Interval]:
        """The larger Renyi divergences of both directions."""

    def renyi_of_null(self, order: float) -> float:
        """Upper bound on the Renyi divergence of the null from the alternative; infinite if unknown."""
        return math.inf

    @abstractmethod
    def hockey_sticks(self, ratios: Array) -> list[Interval]:
        """The sums of (alternative - ratio null)_+, ratios > 0."""

    @abstractmethod
    def enclosed(self, width: float) -> Bounds:
        """(lower, upper) polylines, at most `width` apart as far as the curve is known."""


class PointwiseOracle(CurveOracle):
    """A curve of which delta can be asked at any epsilons, to be enclosed by polylines."""

    attackers: tuple[PointwiseOracle, ...] = ()
    """Curves of experiments that some attacker can make: this one is below each of them."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether the curve is its own inverse."""

    @property
    @abstractmethod
    def revealed(self) -> Interval:
        """Lower bounds on delta at infinite epsilon: of the alternative, and of the null."""

    @abstractmethod
    def deltas_towards(self, epsilons: Array) -> list[Interval]:
        """delta of the alternative for epsilon >= 0, of the null at -epsilon below."""

    def hockey_sticks(self, ratios: Array) -> list[Interval]:
        return sticks_between(self, ratios)

    def enclosed(self, width: float) -> Bounds:
        return enclosing(self, width)


@dataclass(frozen=True)
class PairOracle(PointwiseOracle):
    """T(Q, P) of a sequence of pairs (P, Q): this direction only."""

    pairs: Composition
    guarantee = None
    tolerance = 1e-6
    """Relative width that is asked of the pairs' own answers."""

    @classmethod
    def of(cls, pair: Pair) -> PairOracle:
        """The curve of one pair."""
        return cls(Composition(((pair, 1),)))

    @property
    def symmetric(self) -> bool:
        return self.pairs.symmetric

    @property
    def revealed(self) -> Interval:
        return self.pairs.infinite_p_ends[0], self.pairs.reverse().infinite_p_ends[0]

    def inverse(self) -> PairOracle:
        return PairOracle(self.pairs.reverse())

    def false_negatives(self, fprs: Array) -> Intervals:
        return np.stack(self.pairs.false_negative_rates(fprs, self.tolerance), axis=1)

    def true_positives(self, fprs: Array) -> Intervals:
        return np.stack(self.pairs.true_positive_rates(fprs, self.tolerance), axis=1)

    def deltas(self, epsilons: Array) -> list[Interval]:
        return _deltas(
            self._worse_direction(lambda pairs: pairs.log_deltas(epsilons, self.tolerance))
        )

    def epsilons(self, deltas: Array) -> list[Interval]:
        return _intervals(
            self._worse_direction(lambda pairs: epsilons_at(pairs, deltas, self.tolerance))
        )

    def deltas_towards(self, epsilons: Array) -> list[Interval]:
        intervals = np.empty((epsilons.size, 2))
        for pairs, chosen in zip(self._directions, (epsilons >= 0.0, epsilons < 0.0), strict=True):
            if chosen.any():
                ends = pairs.log_deltas(np.abs(epsilons[chosen]), self.tolerance)
                intervals[chosen] = _deltas(ends)
        return [(low, high) for low, high in intervals.tolist()]

    def renyi_divergences(self, orders: Array) -> list[Interval]:
        return _intervals(
            self._worse_direction(lambda pairs: pairs.renyi_divergences(orders, self.tolerance))
        )

    def renyi_of_null(self, order: float) -> float:
        return self.pairs.reverse().renyi(order, self.tolerance)[1]

    @property
    def _directions(self) -> tuple[Composition, Composition]:
        return self.pairs, self.pairs.reverse()

    def _worse_direction(self, ask: Callable[[Composition], Ends]) -> Ends:
        forward, backward = map(ask, self._directions)
        return np.maximum(forward[0], backward[0]), np.maximum(forward[1], backward[1])


def _intervals(ends: Ends) -> list[Interval]:
    return list(zip(ends[0].tolist(), ends[1].tolist(), strict=True))


def _deltas(log_deltas: Ends) -> list[Interval]:
    return _intervals(probability_ends(*log_deltas))


@dataclass(frozen=True)
class PolylineOracle(CurveOracle):
    """Any curve between two polylines; answers are read off in fractions and rounded outwards once."""

    lower: Polyline
    upper: Polyline
    guarantee = None

    def __post_init__(self) -> None:
        """Check that the two polylines are in order."""
        lower, upper = self.lower, self.upper
        for name, polyline in (("lower", lower), ("upper", upper)):
            if not isinstance(polyline, Polyline):
                raise WrongType(f"{name} must be a Polyline; got {short_repr(polyline)}.")
        if lower is not upper and not lower <= upper:
            fpr = next(x for x in sorted({*lower.fpr, *upper.fpr}) if lower.at(x) > upper.at(x))
            raise InvalidArgument(
                f"lower must be at most upper at every rate; got {float(lower.at(fpr)):.12g} and "
                f"{float(upper.at(fpr)):.12g} at fpr={float(fpr):.12g}."
            )

    def inverse(self) -> PolylineOracle:
        return PolylineOracle(self.lower.inverse(), self.upper.inverse())

    def false_negatives(self, fprs: Array) -> Intervals:
        def rate(fpr: float) -> Interval:
            low, high = rising(self.lower, self.upper, lambda f: f.at(fpr))
            return max(low, 0.0), high  # whatever a double makes of it

        return [rate(fpr) for fpr in fprs.tolist()]

    def true_positives(self, fprs: Array) -> Intervals:
        def rate(fpr: float) -> Interval:
            return falling(self.lower, self.upper, lambda f: 1 - f.at(fpr))

        return [rate(fpr) for fpr in fprs.tolist()]

    def deltas(self, epsilons: Array) -> list[Interval]:
        intervals = []
        for epsilon in epsilons.tolist():
            low = max(_hockey_stick(f, epsilon, ratio_up) for f in _directions(self.upper))
            high = max(_hockey_stick(f, epsilon, ratio_down) for f in _directions(self.lower))
            intervals.append((max(down(low), 0.0), up(high)))
        return intervals

    def epsilons(self, deltas: Array) -> list[Interval]:
        exact = [Fraction(delta) for delta in deltas.tolist()]
        return [(_log_ratio(self.upper, x)[0], _log_ratio(self.lower, x)[1]) for x in exact]

    def renyi_divergences(self, orders: Array) -> list[Interval]:
        return [
            (
                max(renyi(f, order)[0] for f in _directions(self.upper)),
                max(renyi(f, order)[1] for f in _directions(self.lower)),
            )
            for order in orders.tolist()
        ]

    def hockey_sticks(self, ratios: Array) -> list[Interval]:
        def stick(ratio: float) -> Interval:
            return falling(self.lower, self.upper, lambda f: f.hockey_stick(Fraction(ratio)))

        return [stick(ratio) for ratio in ratios.tolist()]

    def enclosed(self, width: float) -> Bounds:
        return self.lower, self.upper


def _directions(f: Polyline) -> Bounds:
    return f, f.inverse()


def _hockey_stick(f: Polyline, epsilon: float, rounded: Callable[[float], Fraction]) -> Fraction:
    """The hockey stick at e^epsilon, rounded; from where doubles end only the jump is a lower bound."""
    if epsilon > LARGEST_EPSILON and rounded is ratio_up:
        return f.jump
    return Fraction(f.hockey_stick(rounded(min(epsilon, LARGEST_EPSILON))))


def _log_ratio(f: Polyline, delta: Fraction) -> Interval:
    """(lower, upper) of the smallest epsilon >= 0 whose hockey stick is at most delta, both directions.

    The hockey stick at x = e^epsilon is the largest 1 - y - x alpha over the knots (alpha, y).
    """
    if any(direction.jump > delta for direction in _directions(f)):
        return math.inf, math.inf
    knots = (knot for direction in _directions(f) for knot in direction.knots)
    low, high = log(max([ONE, *((1 - y - delta) / alpha for alpha, y in knots if alpha > 0)]))
    return max(down(low), 0.0), max(up(high), 0.0)


def rising(lower: Polyline, upper: Polyline, reading: Reading) -> Interval:
    """(lower, upper) of a quantity that is larger for a larger curve."""
    return down(Fraction(reading(lower))), up(Fraction(reading(upper)))


def falling(lower: Polyline, upper: Polyline, reading: Reading) -> Interval:
    """(lower, upper) of a quantity that is smaller for a larger curve, such as every divergence."""
    return rising(upper, lower, reading)


def distance_between(first: Bounds, second: Bounds) -> Interval:
    """(lower, upper) of the largest difference of two curves, each between two polylines."""
    low = max(largest_excess(first[0], second[1]), largest_excess(second[0], first[1]), ZERO)
    high = max(largest_excess(first[1], second[0]), largest_excess(second[1], first[0]))
    return down(low), up(high)


def largest_excess(f: Polyline, g: Polyline, smallest: Fraction = ZERO) -> Fraction:
    """The largest f - g where fpr is between the smallest rate and one minus it."""
    knots = {fpr for fpr in (*f.fpr, *g.fpr) if smallest <= fpr <= 1 - smallest}
    return max(f.at(fpr) - g.at(fpr) for fpr in {*knots, smallest, 1 - smallest})


def points_polylines(epsilons: Sequence[Fraction], deltas: Sequence[Fraction]) -> Bounds:
    """(lower, upper) of the curve that (epsilon, delta)-DP at these points implies, both directions."""
    if len(epsilons) != len(deltas) or not epsilons:
        raise InvalidArgument(
            "epsilons and deltas must have equally many entries, at least 1; "
            f"got {len(epsilons)} and {len(deltas)}."
        )
    below: list[Line] = []
    above: list[Line] = []
    for index, (epsilon, delta) in enumerate(zip(epsilons, deltas, strict=True)):
        if not 0 <= epsilon <= LARGEST_EPSILON:
            allowed = f"between 0 and {LARGEST_EPSILON:g}"
            raise invalid(f"epsilons[{index}]", allowed, up(epsilon))
        if not 0 <= delta <= 1:
            hint = "Did you swap epsilons and deltas?"
            raise invalid(f"deltas[{index}]", "in [0, 1]", up(delta), hint)
        steep = line_at(up(epsilon), delta)
        flat = line_at(-up(epsilon), delta)
        factor = ratio_up(-down(epsilon))
        below += [steep, flat]
        above += [(1 - delta, ratio_down(down(epsilon))), (factor * (1 - delta), factor)]
    return Polyline.from_lines(below), Polyline.from_points(lines_outline(above))
