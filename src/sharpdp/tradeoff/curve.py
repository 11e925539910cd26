"""Trade-off curves: a trade-off function between a lower and an upper one, and every question about it.

`TradeoffCurve` is what an answer hands out and what a user may hand in. It is held by two polylines, the
same one if it is exact, or asked from a source one point at a time and enclosed when that is needed. It
is a mechanism as well, so that curves compose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from sharpdp._validate import flag, invalid, one_line, real, short_repr, zero_or_scale
from sharpdp.bracket import Bracket, Rigor, Side
from sharpdp.composition.loss_distribution import LossDistribution
from sharpdp.errors import InvalidArgument, NotCertified, Undecided, WrongType
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.mechanisms.composed import Parts
from sharpdp.pairs.pair import GaussianPair, Pair
from sharpdp.tradeoff.enclosure import enclosing
from sharpdp.tradeoff.exact import Number, listed
from sharpdp.tradeoff.losses import from_losses, to_losses
from sharpdp.tradeoff.oracle import OneWay, Source, Worst
from sharpdp.tradeoff.polyline import Polyline
from sharpdp.tradeoff.questions import Bounds, Questions
from sharpdp.tradeoff.readings import distance_between, largest_excess, points_polylines

__all__ = ["TradeoffCurve"]

WIDTH = 1e-3
"""How far apart the polylines are at most that enclose a curve, unless another width is asked for."""

NARROWEST, WIDEST = 1e-8, 0.5
"""Widths that can be asked for."""


@dataclass(frozen=True, eq=False, repr=False)
class TradeoffCurve(Questions, Mechanism):
    """The smallest false-negative rate of any attack at each false-positive rate, enclosed.

    Made by its class methods, or by ``answer.tradeoff()``. The null hypothesis is tested against the
    alternative; ``inverse()`` exchanges them. ``lower`` is what every attacker is held to, ``upper``
    what some attacker achieves; for an exact curve they agree and ``polyline`` is the function itself,
    in fractions. Answers are Brackets. As a mechanism it is one whose attacks are held to this curve;
    ``attained`` says that one fixed pair of inputs also reaches its upper side, in every run.
    ``rigor`` is that of the answers it was made from, and everything made from it has no more.

    >>> curve = TradeoffCurve.from_pmfs(null=[0.25, 0.75], alternative=[0.75, 0.25])
    >>> curve.lower(0.125), curve.polyline.advantage()
    (0.625, Fraction(1, 2))
    >>> print(curve.delta(epsilon=0.0))
    0.5 <= delta <= 0.5 at epsilon=0 | trade-off curve, certified
    """

    known: Source | Bounds
    attained: bool = False
    name: str = "unnamed"
    rigor: Rigor = Rigor.CERTIFIED

    def __post_init__(self) -> None:
        """Check that the two polylines are in order; an answer brings its own rigor."""
        one_line(name=self.name)
        flag(attained=self.attained)
        grounds = [Rigor.of_premise(rigor=self.rigor)]
        if isinstance(self.known, Worst):
            grounds.append(self.known.answers.rigor)
        object.__setattr__(self, "rigor", Rigor.weakest(grounds))
        if isinstance(self.known, OneWay | Worst):
            return
        if not isinstance(self.known, tuple) or len(self.known) != 2:
            raise WrongType(
                f"known must be two polylines or a source; got {short_repr(self.known)}. "
                "Try TradeoffCurve.from_knots, .from_pmfs, .from_points, .gaussian or .of."
            )
        for title, one in zip(("lower", "upper"), self.known, strict=True):
            if not isinstance(one, Polyline):
                raise WrongType(f"{title} must be a Polyline; got {short_repr(one)}.")
        lower, upper = self.known
        if lower is not upper and not lower <= upper:
            where = next(x for x in sorted({*lower.fpr, *upper.fpr}) if lower.at(x) > upper.at(x))
            raise InvalidArgument(
                f"lower must be at most upper at every rate; got {float(lower.at(where)):.12g} and "
                f"{float(upper.at(where)):.12g} at fpr={float(where):.12g}."
            )

    @classmethod
    def from_knots(
        cls, *, fpr: Iterable[Number], fnr: Iterable[Number], name: str = "unnamed"
    ) -> TradeoffCurve:
        """The curve with these knots, from (0, f(0)) to (1, 0), exactly.

        >>> TradeoffCurve.from_knots(fpr=[0, 1], fnr=[1, 0]).advantage().upper
        0.0
        """
        exact = Polyline(fpr, fnr)  # type: ignore[arg-type]  # checked there
        return cls((exact, exact), attained=True, name=name)

    @classmethod
    def from_pmfs(
        cls, *, null: Iterable[Number], alternative: Iterable[Number], name: str = "unnamed"
    ) -> TradeoffCurve:
        """The curve of two pmfs on the same points, exactly; fractions stay fractions."""
        exact = Polyline.from_pmfs(null, alternative)
        return cls((exact, exact), attained=True, name=name)

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

        Nothing is known from above unless the worst mechanism that keeps all of them is meant: then
        ``attained`` is true.

        Source: dong2022 Proposition 2.5.

        >>> round(TradeoffCurve.from_points(epsilons=[0], deltas=[0.25]).lower(0.5), 9)
        0.25
        """
        lower, upper = points_polylines(listed("epsilons", epsilons), listed("deltas", deltas))
        return cls((lower, upper if attained is True else Polyline.perfect()), attained, name)

    @classmethod
    def gaussian(cls, *, mu: float) -> TradeoffCurve:
        """The curve of N(mu, 1) against N(0, 1), mu >= 0: mu-GDP.

        >>> round(TradeoffCurve.gaussian(mu=1.0).lower(0.05), 6)
        0.740489
        """
        clean = zero_or_scale(mu=mu)
        name = f"{clean:.12g}-GDP"
        if clean == 0.0:
            return cls((Polyline.perfect(), Polyline.perfect()), attained=True, name=name)
        return cls(OneWay.of(GaussianPair(clean)), attained=True, name=name)

    @classmethod
    def from_pair(cls, pair: Pair, *, name: str = "unnamed") -> TradeoffCurve:
        """The curve of a pair (P, Q) with Q as the null, this direction only."""
        if not isinstance(pair, Pair):
            raise WrongType(f"pair must be a Pair; got {short_repr(pair)}. Try TradeoffCurve.of.")
        return cls(OneWay.of(pair), attained=True, name=name)

    @classmethod
    def from_losses(cls, distribution: LossDistribution, *, name: str = "unnamed") -> TradeoffCurve:
        """The curve of a loss distribution with Q as the null; its side says which side is known.

        Holds when: one fixed pair of inputs has these losses or dominates them, if it is a lower side.
        """
        if not isinstance(distribution, LossDistribution):
            raise WrongType(
                f"distribution must be a LossDistribution; got {short_repr(distribution)}."
            )
        known, rigor = from_losses(distribution), distribution.rigor
        if distribution.side is Side.UPPER:
            return cls((known, Polyline.perfect()), name=name, rigor=rigor)
        return cls((Polyline.revealed(), known), attained=True, name=name, rigor=rigor)

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
        """Any curve between these two; ``rigor`` is that of the answers they were taken from."""
        return cls((lower, upper), attained, name, Rigor.of_premise(rigor=rigor))

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        *,
        relative_width: float = 1e-3,
        adjacency: Adjacency | str | None = None,
    ) -> TradeoffCurve:
        """The curve of a mechanism: ``account(mechanism).tradeoff()``, with the same keywords."""
        from sharpdp.accounting import account

        answer = account(mechanism, relative_width=relative_width, adjacency=adjacency)
        return answer.tradeoff()

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        if isinstance(self.known, Worst):
            return self.known.answers.mechanism.label
        return "trade-off curve" if self.name == "unnamed" else self.name

    def describe(self) -> str:
        """The curve in one line."""
        if isinstance(self.known, Worst):
            return self.known.answers.mechanism.describe()
        name = "" if self.name == "unnamed" else f", {self.name}"
        return f"mechanism known by its trade-off curve{name}"

    def __repr__(self) -> str:
        """The curve in one line."""
        return f"<TradeoffCurve: {self.describe()}>"

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Those of the answer that it comes from; otherwise the curve itself says whom it is about."""
        known = self.known
        return (known.answers.adjacency,) if isinstance(known, Worst) else super().adjacencies

    @property
    def premise(self) -> Rigor:
        """What stands behind the curve."""
        return self.rigor

    def parts(self) -> Parts:
        """The curve of an answer composes as what was run, any other one as itself."""
        known = self.known
        return known.answers.mechanism.parts() if isinstance(known, Worst) else super().parts()

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
        return self.known if isinstance(self.known, tuple) else enclosing(self.known, WIDTH)

    @property
    def lower_polyline(self) -> Polyline:
        """The lower of the two polylines."""
        return self.bounds[0]

    @property
    def upper_polyline(self) -> Polyline:
        """The upper of the two polylines."""
        return self.bounds[1]

    def refined(self, *, width: float) -> TradeoffCurve:
        """The same curve between polylines that are at most ``width`` apart, as far as it is known."""
        clean = real(width=width)
        if not NARROWEST <= clean <= WIDEST:
            raise invalid("width", f"between {NARROWEST:g} and {WIDEST:g}", width)
        if isinstance(self.known, tuple):
            return self
        name = self.label if isinstance(self.known, Worst) else self.name
        return TradeoffCurve(enclosing(self.known, clean), self.attained, name, self.rigor)

    def inverse(self) -> TradeoffCurve:
        """The curve with null and alternative exchanged."""
        if isinstance(self.known, Worst):
            return self
        if isinstance(self.known, OneWay):
            other = OneWay(self.known.composition.reverse())
            return TradeoffCurve(other, self.attained, self.name, self.rigor)
        lower, upper = self.bounds
        inverse = (lower.inverse(), upper.inverse())
        return TradeoffCurve(inverse, self.attained, self.name, self.rigor)

    def symmetrized(self) -> TradeoffCurve:
        """What delta at epsilon >= 0, read off in this order, implies if it holds in both orders."""
        lower, upper = self.bounds
        return TradeoffCurve((lower.symmetrized(), upper.symmetrized()), rigor=self.rigor)

    def symmetric_hull(self) -> TradeoffCurve:
        """The largest trade-off function that is below this one and its inverse."""
        return self.minimum(self.inverse())

    def minimum(self, other: TradeoffCurve) -> TradeoffCurve:
        """The largest trade-off function below both: what holds whichever of the two was run."""
        (lower, upper), (low, high) = self.bounds, _curve(other).bounds
        return TradeoffCurve((lower.minimum(low), upper.minimum(high)), rigor=self._shared(other))

    def maximum(self, other: TradeoffCurve) -> TradeoffCurve:
        """The larger of both at every rate: what holds if both do."""
        (lower, upper), (low, high) = self.bounds, _curve(other).bounds
        return TradeoffCurve((lower.maximum(low), upper.maximum(high)), rigor=self._shared(other))

    def __le__(self, other: object) -> bool:
        """Whether it is at most the other at every rate; Undecided if the enclosures leave it open."""
        return self.below(other) if isinstance(other, TradeoffCurve) else NotImplemented

    def below(self, other: TradeoffCurve, *, smallest_rate: float = 0.0) -> bool:
        """Whether it is at most the other wherever fpr is between smallest_rate and 1 - smallest_rate.

        Undecided if the enclosures leave it open. Two curves that are not exact can hardly be told
        apart where both begin and end, so that for them some smallest rate is needed.

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
        """Bracket for the largest difference of the two at any rate."""
        found = self._bracket("distance", distance_between(self.bounds, _curve(other).bounds))
        return replace(found, rigor=self._shared(other))

    def _shared(self, other: TradeoffCurve) -> Rigor:
        """The rigor of what is made from both."""
        return Rigor.weakest([self.rigor, other.rigor])

    def losses(self, side: Side) -> LossDistribution:
        """Its losses with Q as the null: of the lower curve for the upper side, and conversely."""
        if not isinstance(side, Side):
            raise WrongType(f"side must be a Side; got {short_repr(side)}.")
        found = to_losses(self.bounds[0 if side is Side.UPPER else 1], side)
        return replace(found, rigor=self.rigor)

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve with its bracket as a band (needs the extra `plots`)."""
        from sharpdp import plots

        if isinstance(self.known, Worst):
            return plots.tradeoff(cast("Any", self.known.answers), ax=ax)
        return plots.tradeoffs([self], ax=ax)


def _curve(other: object) -> TradeoffCurve:
    if isinstance(other, TradeoffCurve):
        return other
    raise WrongType(f"other must be a TradeoffCurve; got {short_repr(other)}.")
