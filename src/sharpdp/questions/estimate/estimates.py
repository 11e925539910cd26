"""Delta or epsilon of a mechanism from draws: `estimate(mechanism, epsilon=..., samples=...)`.

Owns which tilt is drawn with, the pilot run that settles bets and grids before the draws that count,
and how both directions make one bracket. The confidence is shared equally by all ends that are claimed.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from sharpdp._validate import (
    checked_executor,
    count,
    is_among,
    nonnegative,
    open_probability,
    short_repr,
)
from sharpdp.bracket import Bracket, Rigor
from sharpdp.display.progress import ProgressLine
from sharpdp.display.progress import progress as shown
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import Array, exp_down, exp_up, safe_log
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import account
from sharpdp.questions.estimate.confidence import Bets, best_bets, counted, mean_lower, mean_upper
from sharpdp.questions.estimate.draws import (
    Counts,
    DrawCache,
    Pilot,
    Progress,
    Score,
    Task,
    Weights,
    chunk_size,
    drawn,
    payoff,
    summed,
)
from sharpdp.questions.estimate.experiment import (
    PLAIN,
    Direction,
    Draws,
    GaussianRun,
    Product,
    Tilt,
)
from sharpdp.questions.estimate.pairs import product_of
from sharpdp.questions.estimate.shuffled import ShuffledRun

__all__ = ["estimate"]

Interval = tuple[float, float]
Seed = np.random.Generator | int | None

METHODS = ("weights", "counts")
"""Tilted draws and bets, or plain draws and the interval of Clopper and Pearson."""

FEWEST_SAMPLES = 100
"""Fewer draws say nothing."""

HALVINGS = 40
"""Halvings of an interval of epsilons: its length is then far below what draws can tell."""

FAR_BELOW, FEWER = 2.0, 16
"""Where the pilot run is below the other one by the first factor, fewer draws do, by the second."""

MOST_SAMPLES = 100_000
"""Draws in each direction unless the caller says, or fewer."""

WORK = 5 * 10**8
"""Normal numbers that a direction draws by default at most: all together take about ten seconds. Not by
the clock, so that a seed gives the same answer everywhere."""

LARGEST_EPSILON = 700.0
"""Beyond this, e^epsilon leaves double precision."""


@underflow_is_zero
def estimate(
    mechanism: Mechanism,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    samples: int | None = None,
    confidence: float = 0.99,
    rng: Seed = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    cache: DrawCache | None = None,
    adjacency: Adjacency | str | None = None,
    method: str = "weights",
) -> Bracket:
    """Bracket for delta at epsilon, or for epsilon at delta, that holds with the stated confidence.

    Holds when: the generator's normal variables are normal.

    Source: waudbysmith2024 Section 4; clopper1934.

    Args:
        mechanism: `Gaussian`, or `DPSGD` over Poisson, deterministic, balls-and-bins, random-allocation
            or shuffled batches, `CorrelatedNoise` over kept bins, or a composition of these.
        epsilon: Epsilon at which delta is estimated, at least 0. Either this or delta must be given.
        delta: Delta at which epsilon is estimated, in (0, 1).
        samples: Draws in each direction, at least 100; a sixteenth without the record where a pilot run
            shows that this direction matters less. None for 100,000, or as many as take about ten
            seconds, at least 1000: the bracket says how many, which depends on the mechanism alone.
        confidence: Probability, in (0, 1), with which both ends hold.
        rng: Seed, an integer of at least 0, or a numpy Generator to draw one from; None for a fresh seed.
            The result depends on the seed, not on the workers or on interruptions.
        executor: An executor of `concurrent.futures` that runs chunks of draws; None for this thread.
        progress: Function called with the draws done and wanted in a direction; None for a line on a
            terminal or below the cell of a notebook.
        cache: Keeps draws when the call is interrupted: the same call with it goes on from there. Without
            one, the draws of the last call that was interrupted are kept, for as long as Python runs.
        adjacency: Which data sets are neighbors, for `DPSGD` add/remove or zero-out; None for the default
            of the mechanism.
        method: "weights" for tilted draws and bets, "counts" for plain draws and the interval of Clopper
            and Pearson.

    Returns:
        The bracket, with rigor Monte Carlo and its confidence. Over shuffled batches only the lower end
        is estimated, on the data that the lower bounds are about; the upper end is the certified one of
        `account`.

    Raises:
        InvalidArgument: Both epsilon and delta are given or neither is, an argument is out of range, or
            the cache belongs to another question.
        WrongType: An argument has the wrong type.
        Unsupported: No draws are known for the mechanism or the adjacency; or a training run has a noise
            multiplier outside 0.05 to 10,000 or more than 2^23 steps in an epoch.

    >>> from sharpdp.mechanisms import Gaussian
    >>> answer = estimate(Gaussian(noise_multiplier=1.0), epsilon=1.0, samples=20_000, rng=7)
    >>> 0.12693673750664 in answer, answer.rigor.value, answer.confidence
    (True, 'Monte Carlo', 0.99)
    >>> bool(answer.relative_width < 0.1)
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise WrongType(f"mechanism must be a mechanism; got {short_repr(mechanism)}.")
    _check_choices(epsilon, delta, method, cache)
    _check_helpers(executor, progress)
    trust = open_probability(confidence=confidence, hint="Try 0.99.")
    notion = mechanism.adjacency(adjacency)
    product = product_of(mechanism, notion)
    draws = _default_samples(product)
    if samples is not None:
        draws = count(samples=samples, least=FEWEST_SAMPLES, hint="It counts draws.")
    question = (mechanism, notion, epsilon, delta, draws, trust, method)
    draw_cache = _cache_for(question, rng) if cache is None else cache
    seed = draw_cache.settle(question, _seed(rng))
    estimation = Estimation(
        product, seed, draws, _log_risk(product, trust), draw_cache, executor, progress, method
    )
    quantity = "epsilon" if epsilon is None else "delta"
    try:
        with shown(f"estimating {quantity} of {mechanism.label}, {draws:,} draws"):
            if epsilon is not None:
                argument, value = "epsilon", nonnegative(epsilon=epsilon)
                interval = estimation.delta(value)
            else:
                argument, value = "delta", open_probability(delta=delta)
                interval = estimation.epsilon(value)
    except KeyboardInterrupt:
        if cache is None and len(draw_cache):
            _keep(draw_cache)
        raise
    if estimation.one_sided:
        certified = account(mechanism, adjacency=notion)
        top = float(
            certified.epsilon(delta=value) if epsilon is None else certified.delta(epsilon=value)
        )
        interval = min(interval[0], top), top
    context = f"at {argument}={value:g} | {mechanism.label}, {notion}, {draws} draws"
    return Bracket(*interval, Rigor.MONTE_CARLO, quantity, context, trust)


def _default_samples(product: Product) -> int:
    """As many draws as the work allows, as one digit and zeros."""
    allowed = WORK // max(product.work, 1)
    rounded = int(str(allowed)[0].ljust(len(str(allowed)), "0"))
    return max(1000, min(MOST_SAMPLES, rounded))


_interrupted: list[DrawCache] = []
"""The draws of the last call that was interrupted, if there was one."""


def _keep(cache: DrawCache) -> None:
    """Keep the draws of a call that was interrupted, and say so to whoever watches."""
    _interrupted[:] = [cache]
    line = ProgressLine()
    line.show("interrupted: what was drawn is kept, and the same call goes on from there")
    line.keep()


def _cache_for(question: object, rng: Seed) -> DrawCache:
    """The draws of the same call that was interrupted, or a new cache."""
    for cache in _interrupted:
        if cache.question == question and (rng is None or rng == cache.seed):
            _interrupted.clear()
            return cache
    return DrawCache()


def _check_choices(epsilon: object, delta: object, method: object, cache: object) -> None:
    """One question, a method that exists, and a cache if any."""
    if (epsilon is None) == (delta is None):
        got = "neither" if delta is None else "both"
        raise InvalidArgument(f"exactly one of epsilon and delta must be given; got {got}.")
    if not is_among(METHODS, method):
        raise InvalidArgument(f"method must be {' or '.join(METHODS)}; got {short_repr(method)}.")
    if cache is not None and not isinstance(cache, DrawCache):
        raise WrongType(f"cache must be a DrawCache; got {short_repr(cache)}. Try DrawCache().")


def _check_helpers(executor: object, progress: object) -> None:
    checked_executor(executor)
    if progress is not None and not callable(progress):
        raise WrongType(f"progress must be a function of two numbers; got {short_repr(progress)}.")


def _seed(rng: Seed) -> int:
    """A seed: the one given, or one drawn from the generator or the operating system."""
    allowed = "rng must be a seed (an integer, at least 0), a numpy Generator or None"
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(np.iinfo(np.int64).max))
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise WrongType(f"{allowed}; got {short_repr(rng)}. Try 0.")
    if rng < 0:
        raise InvalidArgument(f"{allowed}; got {short_repr(rng)}. Leave the sign out.")
    return int(rng)


def _log_risk(product: Product, confidence: float) -> float:
    """log of the risk of one end: the whole, shared by both ends of each direction."""
    claims = 2 if _symmetric(product) else 4
    return math.log1p(-confidence) - math.log(claims)


def _symmetric(product: Product) -> bool:
    return all(isinstance(experiment, GaussianRun) for experiment, _ in product.parts)


@dataclass(frozen=True)
class Estimation:
    """One question: draws, their seed, and the risk that each end may be wrong."""

    product: Product
    seed: int
    samples: int
    log_risk: float
    cache: DrawCache
    executor: Executor | None
    progress: Progress | None
    method: str
    _pilots: dict[tuple[Direction, Tilt], Draws] = field(default_factory=dict)

    @property
    def one_sided(self) -> bool:
        """Whether the experiment only bounds the mechanism from below."""
        return any(isinstance(experiment, ShuffledRun) for experiment, _ in self.product.parts)

    def delta(self, epsilon: float) -> Interval:
        """(lower, upper) of the larger delta of both directions."""
        low, high = self._delta(Direction.WITH_RECORD, epsilon)
        if _symmetric(self.product):
            return low, high
        if math.exp(self.product.log_known(Direction.WITHOUT_RECORD, epsilon)) <= low:
            return low, high
        other = self._beside(epsilon, low)._delta(Direction.WITHOUT_RECORD, epsilon)
        return max(low, other[0]), max(high, other[1])

    def epsilon(self, delta: float) -> Interval:
        """(lower, upper) of the larger epsilon of both directions."""
        low, high = self._epsilon(Direction.WITH_RECORD, delta)
        if _symmetric(self.product):
            return low, high
        if self._most(Direction.WITHOUT_RECORD, delta) <= low:
            return low, high
        other = self._beside(low, delta)._epsilon(Direction.WITHOUT_RECORD, delta)
        return max(low, other[0]), max(high, other[1])

    def _beside(self, epsilon: float, delta: float) -> Estimation:
        """The question without the record: with fewer draws if the pilot run is far below this delta.

        Its draws are others than those that count, so that their number does not depend on the latter.
        """
        direction = Direction.WITHOUT_RECORD
        pilot = self._pilot(direction, self._tilt(direction, epsilon))
        if FAR_BELOW * float(np.mean(payoff(pilot, epsilon, 0.0))) > delta:
            return self
        return replace(self, samples=max(self.samples // FEWER, FEWEST_SAMPLES))

    def _delta(self, direction: Direction, epsilon: float) -> Interval:
        tilt = self._tilt(direction, epsilon)
        ((low, high),) = self._ends(direction, tilt, (epsilon,))
        limit = exp_up(self.product.log_known(direction, epsilon))
        return min(low, limit), min(high, limit)

    def _epsilon(self, direction: Direction, delta: float) -> Interval:
        """Where delta was crossed: epsilons from far to near are claimed until one cannot be.

        The first wrong claim on a side is made with probability at most its risk, and claims are
        made in order, so no correction for their number is needed.
        """
        limit = self._most(direction, delta)
        if limit == 0.0:
            return 0.0, 0.0
        about = self._about(direction, delta, min(limit, LARGEST_EPSILON))
        tilt = self._tilt(direction, about)
        grid = self._grid(direction, tilt, delta)
        intervals = self._ends(direction, tilt, grid)
        low, high = 0.0, limit
        for epsilon, (at_least, _) in zip(grid, intervals, strict=True):
            if not at_least > delta:
                break
            low = epsilon
        for epsilon, (_, at_most) in zip(reversed(grid), reversed(intervals), strict=True):
            if not at_most <= delta:
                break
            high = min(high, epsilon)
        return min(low, high), high

    def _most(self, direction: Direction, delta: float) -> float:
        """An epsilon at which delta is reached for certain, without draws; infinite if none is known."""
        log_delta = math.log(delta)
        if self.product.log_known(direction, LARGEST_EPSILON) > log_delta:
            return math.inf

        def above(epsilon: float) -> bool:
            return self.product.log_known(direction, epsilon) > log_delta

        if not above(0.0):
            return 0.0
        return last_true(above, 0.0, LARGEST_EPSILON, halvings=HALVINGS)[1]

    def _tilt(self, direction: Direction, epsilon: float) -> Tilt:
        """The tilt with the smallest range; for lower ends the one whose pilot draws vary least."""
        if self.method == "counts":
            return PLAIN
        if not self.one_sided:
            ranges = self.product.ranges(direction, epsilon)
            return min(ranges, key=ranges.__getitem__)

        def variation(tilt: Tilt) -> float:
            paid = payoff(self._pilot(direction, tilt), epsilon, 0.0)
            mean = float(np.mean(paid))
            return float(np.mean(paid**2)) / mean**2 if mean > 0.0 else math.inf

        return min(self.product.tilts(direction), key=variation)

    def _pilot(self, direction: Direction, tilt: Tilt) -> Draws:
        """Draws of the pilot run; nothing that is claimed depends on them."""
        if (direction, tilt) not in self._pilots:
            size = min(max(self.samples // 16, FEWEST_SAMPLES), 4096)
            stream = (_number(direction), 0, len(self._pilots))
            task = Task(self.product, direction, tilt, Pilot(), self.seed, stream, size)
            self._pilots[direction, tilt] = drawn(task)
        return self._pilots[direction, tilt]

    def _about(self, direction: Direction, delta: float, limit: float) -> float:
        """About the epsilon at delta, by pilot runs at ever better tilts."""
        about = limit
        for _ in range(2):
            pilot = self._pilot(direction, self._tilt(direction, about))
            about = _crossing(pilot, delta, limit)
        return about

    def _grid(self, direction: Direction, tilt: Tilt, delta: float) -> tuple[float, ...]:
        """Epsilons, ascending, at which the pilot run sees deltas around the one asked for."""
        pilot = self._pilot(direction, tilt)
        largest = min(float(np.max(pilot.loss)), LARGEST_EPSILON)
        about = _crossing(pilot, delta, largest)
        paid = payoff(pilot, about, 0.0)
        spread = float(np.std(paid)) / max(float(np.mean(paid)), np.finfo(float).tiny)
        expected = spread * math.sqrt(-2.0 * self.log_risk / self.samples)
        # four times as far as the interval is expected to be wide, within these logarithms of delta
        span = min(max(4.0 * expected, 0.02), 3.0)
        levels = delta * np.exp(np.linspace(span, -span, 25))
        crossings = {_crossing(pilot, float(level), largest) for level in levels}
        return tuple(sorted(crossings | {about}))

    def _ends(
        self, direction: Direction, tilt: Tilt, epsilons: tuple[float, ...]
    ) -> list[Interval]:
        """(lower, upper) of delta in this direction at each epsilon, each end at the stated risk."""
        score: Score
        if self.method == "counts":
            score = Counts(epsilons)
            totals = self._summed(direction, tilt, score)
            return [self._counted(*row) for row in totals.tolist()]
        pilot = self._pilot(direction, tilt)
        scales = [self._log_scale(direction, tilt, pilot, epsilon) for epsilon in epsilons]
        bets = [
            best_bets(payoff(pilot, epsilon, scale), self.samples, self.log_risk)
            for epsilon, scale in zip(epsilons, scales, strict=True)
        ]
        lower, upper = tuple(pair[0] for pair in bets), tuple(pair[1] for pair in bets)
        score = Weights(epsilons, tuple(scales), tilt.order, lower, upper)
        totals = self._summed(direction, tilt, score)
        return [
            self._weighed(row, *both, scale)
            for row, both, scale in zip(totals, bets, scales, strict=True)
        ]

    def _log_scale(self, direction: Direction, tilt: Tilt, pilot: Draws, epsilon: float) -> float:
        """log of the range of payoffs; of the largest one of the pilot run if there is no range."""
        if not self.one_sided:
            return self.product.log_range(direction, tilt, epsilon)
        return max(safe_log(float(np.max(payoff(pilot, epsilon, 0.0)))), -LARGEST_EPSILON)

    def _summed(self, direction: Direction, tilt: Tilt, score: Score) -> Array:
        base = Task(self.product, direction, tilt, score, self.seed, (), 0)
        stage = (_number(direction), 1)

        def task(chunk: int, size: int) -> Task:
            return replace(base, stream=(*stage, chunk), samples=size)

        size = chunk_size(max(self.product.work, 1))
        with shown(direction.value) as line:
            report = self.progress or line.reach
            return summed(task, self.samples, size, stage, self.cache, self.executor, report)

    def _counted(self, smallest: float, largest: float) -> Interval:
        low, _ = counted(int(smallest), self.samples, self.log_risk)
        _, high = counted(int(largest), self.samples, self.log_risk)
        return low, high

    def _weighed(self, row: Array, lower: Bets, upper: Bets, log_scale: float) -> Interval:
        gains, losses = row[: len(lower.amounts)], row[len(lower.amounts) :]
        low = mean_lower(gains, lower, self.samples, self.log_risk) * exp_down(log_scale)
        if self.one_sided:
            return min(low, 1.0), 1.0
        high = mean_upper(losses, upper, self.samples, self.log_risk) * exp_up(log_scale)
        high = np.nextafter(high, np.inf) + self.product.lost
        return min(float(np.nextafter(low, 0.0)), 1.0), min(float(high), 1.0)


def _number(direction: Direction) -> int:
    return list(Direction).index(direction)


def _crossing(pilot: Draws, delta: float, limit: float) -> float:
    """The epsilon from 0 to most at which the mean payoff of the pilot run falls to delta."""

    def above(epsilon: float) -> bool:
        return float(np.mean(payoff(pilot, epsilon, 0.0))) > delta

    return last_true(above, 0.0, max(limit, 0.0), halvings=HALVINGS)[1]
