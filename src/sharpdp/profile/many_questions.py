"""Many questions about one composition in one pass: work made for one of them answers all nearby.

The middle one of the open questions is answered by itself. The work that this leaves is evaluated at
all open questions together, and those at which it is as sharp as asked are closed; and so on until none
is open. Every end is certified by the work that gave it, as for a single question.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.convex_table import ConvexTable
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.finite import AtomicPair, PairOfOutcomes
from sharpdp.pairs.pair import (
    Pair,
    ReversedPair,
    SymmetricPair,
    epsilon_of,
    for_composition,
    log_deltas_of,
)
from sharpdp.profile.engine import SMALLEST_LOG_DELTA, Engine, Thresholds
from sharpdp.profile.planning import is_quick

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

Ends = tuple[Array, Array]
"""All lower and all upper ends."""


class AsksEpsilon(Protocol):
    """What answers with epsilon in one direction, at delta = 0 and at positive deltas."""

    def pure_epsilon(self, width: float, /) -> tuple[float, float]:
        """The smallest epsilon at delta = 0."""

    def epsilons(self, log_deltas: Array, width: float, deltas: Array, /) -> Ends:
        """The smallest epsilons >= 0 at deltas in (0, 1), which come with their logarithms."""


def epsilons_at(run: AsksEpsilon, deltas: Array, width: float) -> Ends:
    """The smallest epsilons at deltas in [0, 1), zero among them or not."""
    low, high = np.empty(deltas.size), np.empty(deltas.size)
    pure = deltas == 0.0
    if pure.any():
        low[pure], high[pure] = run.pure_epsilon(width)
    if not pure.all():
        positive = deltas[~pure]
        low[~pure], high[~pure] = run.epsilons(np.log(positive), width, positive)
    return low, high


_TERM = 1e-14
"""More than the rounding of an exponential or a logarithm, and of what a table says of its points."""

FEW, NEAR = 3, 1.5
"""So many questions are asked one by one; within so many nats of one that stayed wider than asked no
better answer is expected."""


SHARE_OF_QUICK = 1e-3
"""The part of the width asked that work for many questions leaves open where further ones cost next to
nothing: one question is answered as sharply there, so that many have its digits."""

QUICK_WIDTH = 1e-4
"""From this width on what `quick_pair` is off by, 2e-5 of epsilon, counts for little."""


def quick_pair(pair: Pair) -> Pair:
    """A pair that is as safe and takes less time at many thresholds, if it is known by a formula."""
    return for_composition(pair) if isinstance(pair, SymmetricPair) else pair


def log_deltas(composition: Composition, epsilons: Array, tolerance: float) -> Ends:
    """Certified ends of log delta at each epsilon >= 0; aims at upper - lower <= tolerance."""

    def ask(index: int) -> tuple[float, float]:
        return composition.log_delta(float(epsilons[index]), tolerance)

    def read(work: Engine, chosen: NDArray[np.intp], seen: float) -> Ends:
        low, high = work.log_deltas(epsilons[chosen])
        near = work.nats_away(epsilons[chosen]) <= NEAR
        sharp = work.largest_width(tolerance)
        close = high - low <= np.where(near, max(sharp, seen), sharp)
        return np.where(close, low, np.nan), high

    def together(chosen: NDArray[np.intp]) -> Engine | None:
        # its ends are less sharp than its middle
        return next(composition.enclosing(Thresholds(epsilons[chosen]), 0.3 * tolerance), None)

    return _in_one_pass(composition, epsilons, ask, read, together)


def epsilons(
    composition: Composition, log_deltas: Array, deltas: Array, relative_width: float
) -> Ends:
    """Certified ends of the smallest epsilon >= 0 at each delta, which comes with its logarithm."""
    sharp = relative_width
    if is_quick(composition):  # what is sharper than 1e-9 would be asked one by one
        sharp = min(relative_width, max(SHARE_OF_QUICK * relative_width, 1e-9))

    def ask(index: int) -> tuple[float, float]:
        return composition.epsilon(float(log_deltas[index]), relative_width, float(deltas[index]))

    def read(work: Engine, chosen: NDArray[np.intp], seen: float) -> Ends:
        grid = work.saddle.threshold + np.linspace(-60.0, 60.0, 97) / work.saddle.theta
        low, high = _crossings(work.log_deltas, grid, log_deltas[chosen])
        near = work.nats_away(high) <= NEAR
        close = high - low <= np.maximum(sharp * high, np.where(near, seen, 0.0))
        return np.where(close, low, np.nan), high

    def together(chosen: NDArray[np.intp]) -> Engine | None:
        values = Thresholds(log_deltas[chosen], by_value=True)
        return next(composition.enclosing(values, 0.5 * sharp), None)

    # different deltas may have the same logarithm
    return _in_one_pass(composition, -deltas, ask, read, together)


def epsilons_of(pair: Pair, log_deltas: Array, deltas: Array, relative_width: float) -> Ends:
    """`epsilon_of` at many deltas: those between the first and the last by one search for all.

    Smooth profiles are searched for all crossings together; those of pairs with listed losses, or that
    take long to compute, are tabulated.
    """
    if log_deltas.size == 1:
        low, high = np.array(epsilon_of(pair, float(log_deltas[0]), float(deltas[0])))[:, None]
        return low, high
    low, high = np.full(log_deltas.size, np.nan), np.full(log_deltas.size, np.nan)
    order = np.argsort(-deltas, kind="stable")  # different ones may have the same logarithm

    def ask(index: int) -> None:
        low[index], high[index] = epsilon_of(pair, float(log_deltas[index]), float(deltas[index]))

    def is_finite(place: int) -> bool:
        ask(int(order[place]))
        return bool(low[order[place]] < np.inf)

    if not is_finite(order.size - 1):
        # below the mass at infinite loss no epsilon is finite
        finite, infinite = -1, order.size - 1
        while infinite - finite > 1:
            middle = (finite + infinite) // 2
            finite, infinite = (middle, infinite) if is_finite(middle) else (finite, middle)
        low[order[infinite:]] = high[order[infinite:]] = np.inf
        order = order[:infinite]
    if order.size and np.isnan(low[order[0]]):
        ask(int(order[0]))
    left = order[np.isnan(low[order])]
    ends = np.concatenate([low[order], high[order]])
    first, last = np.nanmin(ends, initial=np.inf), np.nanmax(ends, initial=0.0)
    if left.size > FEW and last < np.inf:
        grid = np.linspace(first, last, 97)
        base = pair.base if isinstance(pair, ReversedPair) else pair
        if not isinstance(base, (SymmetricPair, AtomicPair, PairOfOutcomes)):
            bounds = partial(log_deltas_of, pair)
            low[left], high[left] = _crossings(bounds, grid, log_deltas[left])
            left = left[~(high[left] - low[left] <= 1e-9 * high[left])]
        if left.size > FEW:
            quick = quick_pair(pair) if relative_width >= QUICK_WIDTH else pair
            share = _SHARE if isinstance(base, SymmetricPair) else SHARE_OF_QUICK
            low[left], high[left] = _read_off(quick, deltas[left], grid, share * relative_width)
        left = left[~(high[left] - low[left] <= relative_width * high[left])]
    for index in left:
        ask(int(index))
    return low, high


_SHARE, _MOST_ROUNDS = 0.3, 10
"""The part of the width asked that a table of other pairs may leave open; how often it grows at most."""


def _read_off(pair: Pair, deltas: Array, epsilons: Array, relative_width: float) -> Ends:
    """Epsilons at many deltas from a table of the profile, which grows where they are open.

    What is below all normal doubles counts as the smallest one or as nothing: its rounding is its own.
    """
    tiny = np.finfo(float).tiny
    table = ConvexTable(np.zeros(1), np.ones(1), np.ones(1), pair.infinite_p_ends[0])
    for _ in range(_MOST_ROUNDS):
        ends = log_deltas_of(pair, epsilons)
        below, above = np.exp(ends[0]) * (1.0 - _TERM), np.exp(ends[1]) * (1.0 + _TERM)
        below, above = np.where(below > tiny, below, 0.0), np.maximum(above, tiny)
        table = table.joined(np.exp(epsilons), below, above)
        first, last, cell = table.crossings(deltas)
        with np.errstate(divide="ignore"):
            low, high = np.log(first), np.log(last)
        low = np.maximum(low - _TERM * (1.0 + np.abs(low)), 0.0)
        high = np.maximum(high + _TERM * (1.0 + np.abs(high)), 0.0)
        allowed = relative_width * high
        wide = (high - low > allowed) & (cell > 0) & (high < np.inf)
        # what a cell leaves open falls with the square of its width
        cells, index = np.unique(cell[wide], return_inverse=True)
        pieces = np.full(cells.size, 2.0)
        np.maximum.at(
            pieces, index, np.minimum(np.ceil(np.sqrt((high - low)[wide] / allowed[wide])), 16.0)
        )
        starts = np.log(table.x[cells])
        widths = np.log(table.x[cells + 1]) - starts
        far = widths > 1e-11
        epsilons = np.concatenate(
            [
                start + width * np.arange(1.0, parts) / parts
                for start, width, parts in zip(starts[far], widths[far], pieces[far], strict=True)
            ]
            or [np.zeros(0)]
        )
        if not epsilons.size:
            break
    return low, high


def _in_one_pass(
    composition: Composition,
    places: Array,
    ask: Callable[[int], tuple[float, float]],
    read: Callable[[Engine, NDArray[np.intp], float], Ends],
    together: Callable[[NDArray[np.intp]], Engine | None],
) -> Ends:
    """All answers; `read` gives a NaN for a lower end where the work is not sharp enough.

    `together` makes work for many neighboring questions, as far as it goes; where that fails, or is no
    better than single work, they are asked one by one.

    Where an answer is zero all before it are, and where it is infinite all after it. Where a delta is
    below all doubles those after it are no larger.
    """
    if places.size == 1:
        low, high = np.array(ask(0))[:, None]
        return low, high
    low, high = np.full(places.size, np.nan), np.full(places.size, np.nan)
    unanswered = np.argsort(places, kind="stable")
    rank = np.empty(places.size, dtype=np.intp)
    rank[unanswered] = np.arange(places.size)
    works, seen, helpful = list(composition.kept.works), 0.0, True

    def left_open(work: Engine) -> NDArray[np.intp]:
        below, above = read(work, unanswered, seen)
        closed = ~np.isnan(below)
        low[unanswered[closed]], high[unanswered[closed]] = below[closed], above[closed]
        return unanswered[~closed]

    while unanswered.size:
        for work in works:
            if unanswered.size <= 1:
                break
            unanswered = left_open(work)
        run = _longest_run(unanswered, rank)
        if helpful and run.size > FEW:
            made, before = together(run), unanswered.size
            unanswered = unanswered if made is None else left_open(made)
            works, helpful = [], unanswered.size < before
            continue
        if not unanswered.size:
            break
        middle = unanswered.size // 2
        index = int(unanswered[middle])
        kept = set(map(id, composition.kept.works))
        low[index], high[index] = ask(index)
        same = unanswered[middle : middle + 1]
        if low[index] == high[index] and (low[index] == 0.0 or np.isinf(low[index])):
            same = unanswered[: middle + 1] if low[index] == 0.0 else unanswered[middle:]
            low[same], high[same] = low[index], high[index]
        elif high[index] < SMALLEST_LOG_DELTA:
            same = unanswered[middle:]
            low[same[1:]], high[same] = -np.inf, high[index]
        unanswered = unanswered[~np.isin(unanswered, same)]
        works = [work for work in composition.kept.works if id(work) not in kept]
        width = float(high[index] - low[index])
        seen = width if np.isfinite(width) else 0.0  # an open end excuses no neighbor
    return low, high


def _longest_run(unanswered: NDArray[np.intp], rank: NDArray[np.intp]) -> NDArray[np.intp]:
    """The longest stretch of open questions without an answered one in between."""
    runs = np.split(unanswered, np.flatnonzero(np.diff(rank[unanswered]) > 1) + 1)
    return max(runs, key=len)


def _crossings(bounds: Callable[[Array], Ends], grid: Array, log_deltas: Array) -> Ends:
    """Epsilons before and after the ones at which delta passes each value; NaN where not certified.

    `bounds` are the two ends of log delta at any epsilons. The search begins by interpolation on a grid
    and goes on by secants, in the square root of -log delta, in which profiles are nearly straight. Then
    delta is looked at before and after, at a distance that its two ends leave open.
    """
    rounding = 4.0 * UNIT_ROUNDOFF * np.abs(log_deltas)
    grid = np.unique(np.maximum(grid, 0.0))
    low, high = bounds(grid)
    sharp = np.flatnonzero(high - low <= 0.1)
    depth = np.sqrt(np.maximum(-high[sharp], 0.0))
    if sharp.size < 3 or not np.all(np.diff(depth) > 0.0):
        return np.full(log_deltas.size, np.nan), np.full(log_deltas.size, np.nan)
    wanted = np.sqrt(-log_deltas)
    inside = (wanted >= depth[0]) & (wanted <= depth[-1])
    x = np.interp(wanted, depth, grid[sharp])
    cell = np.clip(np.searchsorted(depth, wanted), 1, depth.size - 1)
    slope = (depth[cell] - depth[cell - 1]) / np.diff(grid[sharp])[cell - 1]
    low, high = bounds(x)
    for _ in range(6):
        short = wanted - np.sqrt(np.maximum(-high, 0.0))
        if not np.any(np.abs(short[inside]) * wanted[inside] > 1e-11):
            break
        following = np.maximum(x + short / slope, 0.0)
        following = np.where(
            np.isfinite(following), following, x
        )  # nothing lies beyond some losses
        moved, x = following - x, following
        low, high = bounds(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            secant = (np.sqrt(np.maximum(-high, 0.0)) - (wanted - short)) / moved
        slope = np.where((secant > 0.3 * slope) & (secant < 3.0 * slope), secant, slope)
    nats = np.abs(high - log_deltas) + (high - low) + rounding + 1e-13 * (1.0 - log_deltas)
    step = 1.1 * nats / (2.0 * wanted * slope)
    inside &= np.isfinite(step)
    step = np.where(inside, step, 0.0)
    before, after = np.maximum(x - step, 0.0), x + step
    certain = inside & (bounds(before)[0] >= log_deltas + rounding)
    certain &= bounds(after)[1] <= log_deltas - rounding
    return np.where(certain, before, np.nan), np.where(certain, after, np.nan)
