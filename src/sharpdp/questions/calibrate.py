"""Calibration: the value of one unknown that reaches a target, on the safe side.

`calibrate(template, ...)` takes a function from the unknown to a mechanism and finds the value at which
the upper side of the target quantity just stays within the target. The unknown may make the mechanism
more private (noise) or less private (steps, sample rate); which one is found out by trying.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sharpdp._validate import real, short_repr
from sharpdp.batches import (
    BallsAndBins,
    FixedSizeBatches,
    PoissonBatches,
    RandomAllocation,
    ShuffledBatches,
)
from sharpdp.bounds.registry import ROUGH_WIDTH
from sharpdp.bracket import Bracket, Side
from sharpdp.display.progress import Task, progress
from sharpdp.errors import InvalidArgument, NotCertified, Unsupported, WrongType
from sharpdp.mechanisms import DPSGD, Adjacency, Mechanism
from sharpdp.mechanisms.composed import checked_group_size
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.pairs.pair import STANDARD_WIDTH, GaussianPair
from sharpdp.profile.composition import Composition
from sharpdp.questions.account import Guarantee, account
from sharpdp.questions.derivations import Derivations
from sharpdp.questions.targets import Target, the_target

__all__ = ["calibrate"]

Template = Callable[[float], Mechanism]
Point = tuple[float, float]

FIRST_WIDTH = 0.02
"""Relative width of the brackets that find the neighborhood; the final ones are finer."""

ROUGH_INTERVAL = 0.06
"""Rough answers that are so far apart say how fast the quantity moves."""

STARTS = (1.0, 0.5, 2.0, 0.01, 100.0, 1e-4, 1e4, 1e6, 1e8, 1e10, 1e12)
"""Where the search may begin: at the first one that the template takes."""

MOST_TRIALS, FINE_TRIALS = 120, 6

NEAR, NEARER, BEHIND, CLOSEST = 0.5, 0.1, 4.0, 10.0
"""A trial is near the target if the logarithm of its ratio to it is below the first. A derivation is far
behind the best one there if it is above it by the second, for fine answers by the last times their width
instead, and by this factor of the trial's own distance."""

NEAR_GUESS, FARTHEST_GUESS = 0.08, 3.0
"""Rough trials go on until one is so near the target; a guess farther off is given up."""


@underflow_is_zero
def calibrate(
    template: Template,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    mu: float | None = None,
    adjacency: Adjacency | str | None = None,
    group_size: int = 1,
    relative_error: float = 1e-4,
    whole: bool | None = None,
) -> CalibratedNumber | CalibratedCount:
    """The value of the unknown, on the safe side, at which the mechanism just meets the target.

    The target is one of: epsilon at delta, advantage, tpr at fpr, mu. The answer of `account`, as wide as
    it is by default, meets the target, and so do reports, ledgers and pages, which give this answer.

    If privacy grows with the unknown, the result is at most relative_error above the smallest value
    whose upper bound meets the target, plus what the width of an answer takes: nothing to 0.1% in most
    runs. If it falls, the same below the largest one.

    Args:
        template: Function of the unknown, a positive number, that returns a mechanism, such as
            ``lambda s: DPSGD(plan, noise_multiplier=s)``. It refuses a value by `InvalidArgument`.
        epsilon: Target epsilon, at least 0; goes with delta, and one of the two must be positive.
        delta: Delta of the target epsilon, in [0, 1).
        advantage: Target advantage of the best attack, in (0, 1).
        tpr: Target true-positive rate, in (fpr, 1]; goes with fpr.
        fpr: False-positive rate at which tpr is the target, in (0, 1).
        mu: Target mu, above 0, as `Guarantee.mu` answers by default.
        adjacency: Which data sets are neighbors; None for the default of the mechanism.
        group_size: In how many records neighbors differ at most.
        relative_error: How far the result may be from the best value that can be proved, relative to it,
            from 1e-8 to 0.5.
        whole: True if the unknown counts something (steps, epochs), which makes the result exact; None
            to find out by trying a value such as 1.5.

    Returns:
        A `float` or, if whole, an `int`, with two attributes about the best value, whatever may be proved
        one day: `within`, how far away it may be, and `words`, which says so. `within` is at most
        relative_error where the lower side shows that, larger where the two sides leave a gap or answers
        are wide, and 0 for a whole number if the next one fails for sure.

    Raises:
        InvalidArgument: An argument is out of range, there is not exactly one target, the template
            accepts no value, or every value or none meets the target.
        WrongType: template is no function or returns no mechanism, or an argument has the wrong type.
        Unsupported: No theorem covers the mechanism, or not under this adjacency.
        NotCertified: Double precision is not enough for a bound at a value that had to be tried.

    >>> from sharpdp.mechanisms import Gaussian
    >>> noise = calibrate(lambda s: Gaussian(s), epsilon=1.0, delta=1e-5)
    >>> round(noise, 2), noise.within, noise.words
    (3.73, 0.0001, 'within 0.01% of the best value')
    """
    if not callable(template):
        raise WrongType(
            f"template must be a function of the unknown; got {short_repr(template)}. "
            "Try lambda s: Gaussian(noise_multiplier=s)."
        )
    if not (whole is None or isinstance(whole, bool)):
        raise WrongType(f"whole must be True, False or None; got {short_repr(whole)}.")
    target = the_target(epsilon=epsilon, delta=delta, advantage=advantage, tpr=tpr, fpr=fpr, mu=mu)
    reading = Reading(target, adjacency, checked_group_size(group_size))
    error = real(relative_error=relative_error)
    if not 1e-8 <= error <= 0.5:
        raise InvalidArgument(f"relative_error must be between 1e-08 and 0.5; got {error!r}.")
    with progress(f"calibrating to {target.words}") as task:
        search = Search(template, reading, _is_whole(template) if whole is None else whole, task)
        found = search.near_similar(error)
        if found is None:
            inside, outside = search.straddle()
            found = search.narrowed(inside, outside, error), outside > inside
        value, rising = found
        value = search.met_as_answered(value, error, rising=rising)
    number = CalibratedCount(value) if search.whole else CalibratedNumber(value)
    number.relative_error = error
    number._search, number._rising = search, rising
    return number


class Calibrated:
    """A calibrated number, with its target and answer."""

    relative_error: float
    """The part that was asked for."""

    _search: Search
    _rising: bool

    @cached_property
    def within(self) -> float:
        """No value that is better by more than this part of it meets the target; inf if nothing is known.

        Computed when it is first asked for, from lower sides, which may take as long as the search.
        """
        assert isinstance(self, float | int)
        with progress(f"checking the value for {self._search.reading.target.words}") as task:
            search = replace(self._search, task=task)
            return search.within(self, self.relative_error, rising=self._rising)

    @property
    def words(self) -> str:
        """How far the best value may be, and why, if that is farther than asked."""
        if self.within == 0.0:
            return "no better whole number meets the target"
        if self.within <= self.relative_error:
            return f"within {100 * self.within:g}% of the best value"
        part = f"up to {100 * self.within:g}%" if self.within < math.inf else "any distance"
        return f"the best value may be {part} away, since the bounds leave a gap"

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or a pickle keeps what is said, not the search."""
        assert isinstance(self, float | int)
        said = {"within": self.within, "relative_error": self.relative_error}
        return type(self), (self + 0,), said


class CalibratedNumber(Calibrated, float):
    """A calibrated number."""


class CalibratedCount(Calibrated, int):
    """A calibrated whole number."""


@dataclass(frozen=True)
class Reading:
    """How far mechanisms are above their target, as a logarithm: 0 just meets it."""

    target: Target
    adjacency: Adjacency | str | None
    group_size: int = 1
    behind: set[tuple[str, ...]] = field(default_factory=set, compare=False)
    """Upper derivations, by the names of their bounds, that were far behind the best one near the target.

    They are not made again: leaving one out is safe.
    """
    direct: bool | None = None
    """Whether answers are asked for epsilon and not for delta; None where they say what is quicker."""

    @property
    def sharpness(self) -> float:
        """The usual factor between relative changes of the unknown and of the quantity."""
        return 0.5 if self.target.quantity == "epsilon" and self.target.limit > 0.0 else 4.0

    def excess(self, mechanism: Mechanism, width: float) -> tuple[float, float]:
        """How far the upper side is above the target, positive if missed; and the width reached."""
        guarantee = self._one_sided(mechanism, width, Side.UPPER)
        if self.behind and not guarantee.derivations:
            self.behind.clear()  # those that were ahead say nothing here
            guarantee = self._one_sided(mechanism, width, Side.UPPER)
        rough = width >= ROUGH_WIDTH and any(bound.effort.rough for bound in guarantee.bounds)
        # only the upper side counts: the two ends of its best derivation say how sharp it is
        direct = self._is_direct(guarantee)
        intervals = [
            self._read(guarantee.only(way), direct=direct) for way in guarantee.derivations
        ]
        if not intervals:
            return math.inf, math.inf
        low, high = min(intervals, key=lambda interval: interval[1])
        if abs(high) < NEAR:
            routes = guarantee.upper_derivations
            assert isinstance(routes, Derivations)
            apart = NEARER if rough or width >= FIRST_WIDTH else CLOSEST * width
            far = high + apart + BEHIND * abs(high)
            self.behind.update(
                names for names, end in zip(routes.names, intervals, strict=True) if end[1] > far
            )
        reached = 0.0 if high == -math.inf else high - low if high < math.inf else math.inf
        return high, max(reached, ROUGH_WIDTH) if rough else reached

    def misses(self, mechanism: Mechanism, width: float) -> bool:
        """Whether the lower side is above the target: then no bound will ever show that it is met."""
        guarantee = self._one_sided(mechanism, width, Side.LOWER)
        if not guarantee.derivations:
            return False
        return self._read(guarantee, direct=self._is_direct(guarantee))[0] > 0.0

    def excess_as_answered(self, mechanism: Mechanism) -> float:
        """How far the answer that people get is above the target, positive if missed.

        An epsilon is read both ways: epsilon at delta, and delta at epsilon.
        """
        answer = account(mechanism, adjacency=self.adjacency, group_size=self.group_size)
        limit, delta = self.target.limit, self.target.given
        over = _over(self.target.asked(answer), limit)[1] if limit > 0.0 else -math.inf
        if self.target.quantity != "epsilon" or delta == 0.0:
            return over
        return max(over, _delta_over(answer.delta(epsilon=limit), delta)[1])

    def reads_as(self, mechanism: Mechanism) -> Reading:
        """This question, with the target read off any answer as off the one about this mechanism."""
        guarantee = self._one_sided(mechanism, FIRST_WIDTH, Side.UPPER)
        return replace(self, direct=self._is_direct(guarantee))

    def _read(self, answer: Guarantee, *, direct: bool) -> tuple[float, float]:
        """Lower and upper end of how far above the target an answer is.

        Epsilon at delta is asked where that is read off directly, else delta at epsilon, a single
        question.
        """
        limit, delta = self.target.limit, self.target.given
        if self.target.quantity != "epsilon" or (limit > 0.0 and (delta == 0.0 or direct)):
            return _over(self.target.asked(answer), limit)
        if limit == 0.0:
            return _over(answer.advantage(), delta)
        width = min(-2.0 * math.log(delta) * answer.relative_width, 0.5)
        return _delta_over(replace(answer, relative_width=width).delta(epsilon=limit), delta)

    def _is_direct(self, answer: Guarantee) -> bool:
        """Whether epsilon is asked as quickly as delta: of contours and Gaussians, not of other pairs."""
        if self.direct is not None:
            return self.direct
        runs = (derivation.composition for derivation in answer.derivations)
        pairs = (run.single_pair for run in runs if isinstance(run, Composition))
        return all(pair is None or isinstance(pair, GaussianPair) for pair in pairs)

    def _one_sided(self, mechanism: Mechanism, width: float, side: Side) -> Guarantee:
        """The guarantee by the derivations of one side alone.

        It has the pairs of an answer of standard width, which is to meet the target, too.
        """
        notion = mechanism.adjacency(self.adjacency)
        width_of_pairs = max(width, STANDARD_WIDTH)
        routes = Derivations(
            mechanism,
            notion,
            side,
            width=width_of_pairs,
            group_size=self.group_size,
            without=self.behind if side is Side.UPPER else (),
        )
        lower, upper = (routes, ()) if side is Side.LOWER else ((), routes)
        return Guarantee(mechanism, notion, width, lower, upper, self.group_size)


def _over(bracket: Bracket, limit: float) -> tuple[float, float]:
    """Logarithms of the ends over the limit."""
    low, high = (
        math.log(float(end) / limit) if end > 0.0 else -math.inf
        for end in (bracket.lower, bracket.upper)
    )
    return low, high


def _delta_over(bracket: Bracket, limit: float) -> tuple[float, float]:
    """How far the ends of a delta are over the limit, on a scale that moves about as epsilon does.

    Where delta is 10^-6, log delta is 13.8 and moves twice as fast as the unknown, so half the logarithm
    of its ratio to the target counts.
    """
    low, high = (
        0.5 * math.log(math.log(limit) / math.log(end))
        if 0.0 < end < 1.0
        else math.copysign(math.inf, end - 0.5)
        for end in (float(bracket.lower), float(bracket.upper))
    )
    return low, high


def _is_whole(template: Template) -> bool:
    """Whether the template takes 2 but not 1.5, or so: its unknown counts something."""
    for value in STARTS:
        if value > 1.0 and _accepted(template, int(value)):
            return not _accepted(template, value - 0.5)
    return False


def _similar(mechanism: Mechanism, adjacency: Adjacency | str | None) -> Mechanism:
    """A run over Poisson batches about as private as one over other batches, to know where to look.

    Raises:
        Unsupported: The mechanism is no such run.
    """
    scheme = mechanism.batches if isinstance(mechanism, DPSGD) else None
    if isinstance(scheme, BallsAndBins | RandomAllocation | ShuffledBatches):
        rate = scheme.participations / scheme.steps_per_epoch
    elif isinstance(scheme, FixedSizeBatches):
        rate = scheme.sample_rate
    else:
        raise Unsupported("no quicker mechanism is known to be similar.")
    assert isinstance(mechanism, DPSGD)
    # who replaces a record moves a sum twice as far, as does one that takes another's place in a batch
    replaced = mechanism.adjacency(adjacency) is Adjacency.REPLACE_ONE
    moved = 2.0 if replaced or isinstance(scheme, FixedSizeBatches) else 1.0
    batches = PoissonBatches(sample_rate=min(rate, 1.0), steps=scheme.steps)
    return DPSGD(batches, noise_multiplier=mechanism.noise_multiplier / moved)


def _accepted(template: Template, value: float) -> bool:
    """Whether the template takes this value."""
    try:
        template(value)
    except InvalidArgument:
        return False
    return True


@dataclass(frozen=True)
class Search:
    """The search for one unknown: values that meet the target are inside, the others outside."""

    template: Template
    reading: Reading
    whole: bool
    task: Task
    tried: dict[float, tuple[float, float]] = field(default_factory=dict)
    values: dict[float, float] = field(default_factory=dict)

    def excess(self, value: float, width: float) -> float | None:
        """log of how far over the target; None where the template takes no such value.

        What was tried before is not tried again, if it was as narrow as wanted now.
        """
        if value in self.tried and self.tried[value][1] <= width:
            return self.tried[value][0]
        try:
            mechanism = self.template(int(value) if self.whole else value)
        except InvalidArgument:
            return None
        if not isinstance(mechanism, Mechanism):
            raise WrongType(f"template must return a mechanism; got {short_repr(mechanism)}.")
        self.task.words = f"calibrating to {self.reading.target.words}, trying {value:.6g}"
        over, reached = self.reading.excess(mechanism, width)
        self.tried[value] = (over, min(width, reached))
        return over

    def near_similar(self, error: float) -> tuple[float, bool] | None:
        """The value, and whether larger ones miss the target, from a guess by quicker mechanisms.

        None if none is known, or if the guess is so far off that a search is quicker.
        """
        reading = replace(self.reading, adjacency=None, behind=set())
        quick = replace(self, template=self._similar_at, reading=reading, tried={}, values={})
        try:
            guess = quick.narrowed(*quick.straddle(), FIRST_WIDTH)
            reading = replace(
                self.reading.reads_as(self.template(guess)), adjacency=None, behind=set()
            )
            guesses = [guess, guess + 1 if self.whole else 1.02 * guess]
            low, high = (reading.excess(quick.template(end), FIRST_WIDTH)[0] for end in guesses)
            slope = (high - low) / math.log(guesses[1] / guesses[0])
            return self._near(math.log(guess), slope, error)
        except (InvalidArgument, NotCertified, Unsupported):
            return None

    def _similar_at(self, value: float) -> Mechanism:
        """The quicker mechanism for a value of the unknown."""
        return _similar(self.template(value), self.reading.adjacency)

    def _near(self, guess: float, slope: float, error: float) -> tuple[float, bool] | None:
        """The value near a guess of its logarithm, and whether larger ones miss the target.

        Rough answers improve on the guess and on how fast the quantity moves. None if they do not come
        close.
        """
        if self.whole:
            guess = self._log(round(math.exp(guess)))
        seen: list[Point] = []
        for _ in range(FINE_TRIALS):
            excess = self._at(guess, FIRST_WIDTH)
            if seen and guess != seen[0][0]:
                slope = (excess - seen[0][1]) / (guess - seen[0][0])
            if not (math.isfinite(excess) and math.isfinite(slope) and slope != 0.0):
                return None
            if abs(excess) > FARTHEST_GUESS or abs(excess) > FARTHEST_GUESS * abs(slope):
                return None
            seen = [(guess, excess), *(at for at in seen if at[1] != excess)]
            guess = _next_guess(seen, slope)
            if abs(excess) <= NEAR_GUESS:
                break
        else:
            return None
        rising, finest = slope > 0.0, self.finest(error)
        if not self.whole:
            found = self._polished(guess, slope, finest, 0.5 * error)
            return None if found is None else (found, rising)
        a, b = self._around(guess, slope, finest, error)
        outside = math.copysign(math.inf, slope)
        a, b = self._reopened(a, b, finest, -outside, outside)
        return self._value(self._shrunk(a, b, finest, 0.0)[0]), rising

    def straddle(self) -> tuple[float, float]:
        """One value inside and one outside the target, as close as doubling finds them."""
        start = self._start()
        here = self.excess(start, FIRST_WIDTH)
        assert here is not None
        inside = here <= 0.0
        last, at_last = {1: start, -1: start}, {1: here, -1: here}
        open_ways = [1, -1]
        factor = 2.0
        for _ in range(MOST_TRIALS):
            for way in list(open_ways):
                following = (
                    last[way] * self._factor(factor, last[way], at_last[way], start, here) ** way
                )
                if self.whole:  # at least the next one
                    next_one = last[way] + way
                    following = way * max(way * round(following), way * next_one)
                if not 1.0 / 1e15 <= following <= 1e15 or following == last[way]:
                    open_ways.remove(way)
                    continue
                try:
                    there = self.excess(following, FIRST_WIDTH)
                except NotCertified:  # too extreme to be accounted: the other way may do
                    open_ways.remove(way)
                    continue
                if there is None:
                    open_ways.remove(way)
                    following = self._edge(last[way], following)
                    there = self.excess(following, FIRST_WIDTH)
                    assert there is not None
                if (there <= 0.0) != inside:
                    return (last[way], following) if inside else (following, last[way])
                closer = abs(there) < 0.9 * abs(at_last[way])
                last[way], at_last[way] = following, there
                if closer and way in open_ways:  # the other way leads away from the target
                    open_ways = [way, *(other for other in open_ways if other != way)]
                    break
            if not open_ways:
                break
            factor = min(factor * factor, 64.0)
        raise self._never(last, inside=inside)

    @staticmethod
    def _factor(factor: float, last: float, at_last: float, start: float, at_start: float) -> float:
        """The next factor of a search by doubling, or less if two trials say that less will do."""
        if last == start or not (
            math.isfinite(at_last) and abs(at_last) < abs(at_start) < math.inf
        ):
            return factor
        lacks = abs(math.log(last / start)) * abs(at_last) / (abs(at_start) - abs(at_last))
        return factor if lacks > math.log(factor) else min(factor, math.exp(1.3 * lacks + 0.05))

    def _edge(self, taken: float, refused: float) -> float:
        """A value that the template takes, next to those that it refuses."""
        while not self._close(math.log(taken), math.log(refused), 1e-6):
            middle = math.sqrt(taken * refused)
            middle = float(round(middle)) if self.whole else middle
            if _accepted(self.template, int(middle) if self.whole else middle):
                taken = middle
            else:
                refused = middle
        return taken

    def _start(self) -> float:
        for value in STARTS:
            if (not self.whole or value >= 1.0) and self.excess(value, 0.5) is not None:
                return value
        raise InvalidArgument(
            "template must accept some value of its unknown; it refused 1, 0.5, 2, 0.01 and 100."
        )

    def _never(self, last: dict[int, float], *, inside: bool) -> InvalidArgument:
        verb = "is met" if inside else "is not met"
        return InvalidArgument(
            f"the target {self.reading.target.words} {verb} by any value of the unknown from "
            f"{last[-1]:g} to {last[1]:g}, so there is nothing to calibrate."
        )

    def narrowed(self, inside: float, outside: float, error: float) -> float:
        """The inside value, moved towards the outside one until they are within the error.

        With rough answers first, until the interval is too short for them to tell its ends apart;
        unless the answers are sharp anyway.
        """
        sharpness = self.reading.sharpness
        # half of the error is left, so that the lower side may confirm the value
        finest, error = self.finest(error), 0.5 * error
        a, b = self._log(inside), self._log(outside)
        reached = max(self.tried[end][1] for end in (inside, outside))
        if reached > finest:
            width = ROUGH_WIDTH if reached <= ROUGH_WIDTH else FIRST_WIDTH
            apart = max(error, min(width, reached) / sharpness, ROUGH_INTERVAL)
            # few fine answers do the rest, wherever rough ones put the crossing
            a, b = self._shrunk(a, b, width, apart)
            at_a, at_b = self._at(a, width), self._at(b, width)
            slope = (at_b - at_a) / (b - a) if b != a else math.nan
            if math.isfinite(slope) and slope != 0.0:
                middle = _crossing((a, at_a), (b, at_b), [])
                found = None if self.whole else self._polished(middle, slope, finest, error)
                if found is not None:
                    return found
                around = self._around(middle, slope, finest, error)
                if all(abs(end - middle) < max(abs(b - a), ROUGH_INTERVAL) for end in around):
                    a, b = around
            a, b = self._reopened(a, b, finest, self._log(inside), self._log(outside))
        a, _ = self._shrunk(a, b, finest, 0.0 if self.whole else error)
        return self._value(a)

    def _polished(self, guess: float, slope: float, finest: float, error: float) -> float | None:
        """A value that fine answers put inside, and within the error of the crossing by their slope.

        Fine answers take time. The slope is that of rough answers until two fine ones are far enough
        apart; None if the crossing is not found by a few of them.
        """
        rising = slope > 0.0
        seen: list[Point] = []
        for _ in range(FINE_TRIALS):
            excess = self._at(guess, finest)
            # answers closer together than this say more about their own widths
            seen = [(guess, excess), *(at for at in seen if abs(at[0] - guess) > 3.0 * error)][:3]
            if len(seen) > 1:
                slope = (excess - seen[1][1]) / (guess - seen[1][0])
            if not (math.isfinite(slope) and math.isfinite(excess)) or (slope > 0.0) != rising:
                return None
            bent = _zero(seen) if len({over for _, over in seen}) == 3 else math.nan
            crossing, far = guess - excess / slope, abs(excess / slope)
            if abs(bent - crossing) < 0.5 * far:
                crossing = bent
            if excess <= 0.0 and abs(crossing - guess) <= 0.8 * error:
                return self._value(guess)
            # a longer step is less certain
            aside = min(max(0.3 * error, 0.1 * abs(crossing - guess)), 0.6 * error)
            guess = crossing + math.copysign(aside, -slope)
        return None

    def _around(
        self, middle: float, slope: float, finest: float, error: float
    ) -> tuple[float, float]:
        """Two ends within the error of each other, about the crossing that finer answers have.

        Rough answers say where it is and how fast the quantity moves, one fine answer by how much they
        are off.
        """
        if self.whole:
            middle, error = self._log(self._value(middle)), math.exp(-middle)
        crossing = middle - self._at(middle, finest) / slope
        aside = math.copysign(0.45 * error, slope)
        return crossing - aside, crossing + aside

    def _log(self, value: float) -> float:
        """The logarithm of a value that was tried, which leads back to it."""
        self.values[math.log(value)] = value
        return math.log(value)

    def _value(self, log_value: float) -> float:
        """The value with this logarithm."""
        value = self.values.get(log_value, math.exp(log_value))
        return round(value) if self.whole else value

    def finest(self, error: float) -> float:
        """The width of brackets that tells values apart by this error."""
        return min(FIRST_WIDTH, self.reading.sharpness * error)

    def met_as_answered(self, value: float, error: float, *, rising: bool) -> float:
        """The value, moved to the safe side until the answer that people get meets the target.

        Trials may be narrower than that answer. The least step grows, since answers jump where they are
        computed in another way.
        """
        least, pace = 0.25 * error, self._pace(value, error)
        for _ in range(MOST_TRIALS):
            self.task.words = f"calibrating to {self.reading.target.words}, answering {value:.6g}"
            over = self.reading.excess_as_answered(self.template(value))
            if over <= 0.0:
                return value
            step = max(least, min(1.02 * over / pace, 1.0))
            moved = value * math.exp(-step if rising else step)
            if self.whole:
                moved = min(round(moved), value - 1) if rising else max(round(moved), value + 1)
            if not _accepted(self.template, moved):
                break
            value, least = moved, 2.0 * least
        raise self._never({-1: value, 1: value}, inside=False)

    def _pace(self, value: float, error: float) -> float:
        """How fast the quantity moves near a value, by trials that are far enough apart to tell."""
        log_value = math.log(value)
        near = sorted(
            (abs(math.log(tried) - log_value), math.log(tried), over)
            for tried, (over, _) in self.tried.items()
            if math.isfinite(over)
        )
        for _, first, over in near[:1]:
            for _, second, other in near:
                if abs(first - second) > 3.0 * error and other != over:
                    return abs((other - over) / (second - first))
        return 1.0

    def within(self, value: float, error: float, *, rising: bool) -> float:
        """How far a better value may be: the lower side of what lies beyond misses the target."""
        if self.whole and self._missed(value + (1 if rising else -1), error):
            return 0.0
        if not self.whole and self._missed(_beyond(value, error, rising=rising), error):
            return error
        ladder = (3.0, 10.0, 100.0, 1e3, 5e3)
        parts = [part for step in ladder if (part := float(f"{step * error:.6g}")) < 1.0]

        def missed(part: float) -> bool:
            beyond = _beyond(value, part, rising=rising)
            return self._missed(round(beyond) if self.whole else beyond, part)

        first = bisect_left(parts, 1, key=missed)
        return parts[first] if first < len(parts) else math.inf

    def _missed(self, value: float, error: float) -> bool:
        """Whether the target is missed there for sure, or the template takes no such value."""
        try:
            mechanism = self.template(int(value) if self.whole else value)
        except InvalidArgument:
            return True
        self.task.words = f"calibrating to {self.reading.target.words}, checking {value:.6g}"
        try:
            return self.reading.misses(mechanism, self.finest(error))
        except NotCertified:
            return False

    def _shrunk(self, a: float, b: float, width: float, error: float) -> tuple[float, float]:
        """Ends inside and outside within the error of each other, in logarithms."""
        at_a, at_b = self._at(a, width), self._at(b, width)
        others: list[Point] = []
        tried, length = 0, abs(a - b)
        for _ in range(MOST_TRIALS):
            if self._close(a, b, error):
                break
            if abs(a - b) <= 0.5 * length:
                tried, length = 0, abs(a - b)
            # three trials by interpolation may leave more than half of the interval, before it is halved
            guess = 0.5 * (a + b) if tried >= 3 else _crossing((a, at_a), (b, at_b), others)
            if not self.whole:
                # the end that is farther away is moved, to just beyond the crossing
                far = a if abs(a - guess) > abs(b - guess) else b
                guess += math.copysign(min(0.4 * error, 0.5 * abs(far - guess)), far - guess)
            else:
                guess = self._whole_between(a, b, guess)
            at_guess = self._at(guess, width)
            tried += 1
            if at_guess <= 0.0:
                others, a, at_a = [(a, at_a), *others[:1]], guess, at_guess
            else:
                others, b, at_b = [(b, at_b), *others[:1]], guess, at_guess
        return a, b

    def _at(self, log_value: float, width: float) -> float:
        excess = self.excess(self._value(log_value), width)
        if excess is None:
            raise InvalidArgument(
                f"template must accept every value between two that it accepts; it refused "
                f"{math.exp(log_value):.6g}."
            )
        return excess

    def _reopened(
        self, a: float, b: float, width: float, inside: float, outside: float
    ) -> tuple[float, float]:
        """A straddle with finer brackets, widened until it is one again.

        By steps that double, since rough answers may be far off, but not beyond the first two ends
        before these were tried.
        """
        at_a, at_b = self._at(a, width), self._at(b, width)
        step = b - a
        for _ in range(MOST_TRIALS):
            if at_a <= 0.0 < at_b:
                break
            if at_b <= 0.0:
                a, at_a, b = b, at_b, _towards(b, b + step, outside)
                at_b = self._at(b, width)
            else:
                b, at_b, a = a, at_a, _towards(a, a - step, inside)
                at_a = self._at(a, width)
            step *= 2.0
        return a, b

    def _close(self, a: float, b: float, error: float) -> bool:
        adjacent = self.whole and abs(round(math.exp(a)) - round(math.exp(b))) <= 1
        return adjacent or abs(a - b) <= error

    @staticmethod
    def _whole_between(a: float, b: float, c: float) -> float:
        low, high = sorted((round(math.exp(a)), round(math.exp(b))))
        return math.log(min(max(round(math.exp(c)), low + 1), high - 1))


def _beyond(value: float, part: float, *, rising: bool) -> float:
    """The value that is better by this part."""
    return value * (1.0 + part if rising else 1.0 - part)


def _towards(here: float, there: float, end: float) -> float:
    """The next place, but no farther than the end unless that is where one stands.

    >>> _towards(1.0, 4.0, 3.0), _towards(3.0, 4.0, 3.0)
    (3.0, 4.0)
    """
    return end if min(here, there) < end < max(here, there) else there


def _crossing(inside: Point, outside: Point, others: Sequence[Point]) -> float:
    """About the zero between two (place, excess), one at or below zero and one above.

    The place as a polynomial of the excess through these and other points, if it stays between the two;
    their chord otherwise; halfway if even that says nothing.

    >>> _crossing((1.0, -3.0), (3.0, 5.0), [])  # x^2 - 4
    1.75
    >>> round(_crossing((1.0, -3.0), (3.0, 5.0), [(4.0, 12.0)]), 12)  # closer to 2: 13/7
    1.857142857143
    """
    (a, at_a), (b, at_b) = inside, outside
    if not (math.isfinite(at_a) and math.isfinite(at_b)):
        return 0.5 * (a + b)
    chord = a + (b - a) * at_a / (at_a - at_b)
    excesses = [at_a, at_b, *(over for _, over in others)]
    values = [a, b, *(value for value, _ in others)]
    if not all(map(math.isfinite, excesses)) or len(set(excesses)) < len(excesses):
        return chord
    bent = _zero(list(zip(values, excesses, strict=True)))
    return bent if min(a, b) < bent < max(a, b) else chord


def _next_guess(seen: Sequence[Point], slope: float) -> float:
    """About the zero, from trials of which the last comes first, and the slope there.

    Where some trials are above zero and others below, by the nearest ones: how fast the quantity moves
    may change a lot between them, and a third one counts if it is not much farther.

    >>> _next_guess([(1.0, -2.0)], 4.0)
    1.5
    >>> three = [(3.0, 5.0), (1.0, -3.0), (math.sqrt(11.0), 7.0)]  # x^2 - 4
    >>> round(_next_guess(three, 4.0), 3), _next_guess([*three[:2], (4.0, 12.0)], 4.0)
    (1.888, 1.75)
    """
    guess, excess = seen[0]
    inside, outside = ([at for at in seen if (at[1] <= 0.0) == side] for side in (True, False))
    if len(seen) < 3 or not inside or not outside:
        return guess - excess / slope
    a, b = (min(part, key=lambda at: abs(at[1])) for part in (inside, outside))
    reach = 1.5 * max(abs(a[1]), abs(b[1]))
    others = [at for at in seen if at not in (a, b) and abs(at[1]) <= reach]
    return _crossing(a, b, sorted(others, key=lambda at: abs(at[1]))[:1])


def _zero(points: Sequence[Point]) -> float:
    """Where the place as a polynomial of the excess has excess zero, by Neville's scheme."""
    values, excesses = [value for value, _ in points], [over for _, over in points]
    for distance in range(1, len(values)):
        for i in range(len(values) - distance):
            first, last = excesses[i], excesses[i + distance]
            values[i] = (last * values[i] - first * values[i + 1]) / (last - first)
    return values[0]
