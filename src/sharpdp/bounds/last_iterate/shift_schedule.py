"""The best schedule of shifts: how far apart in noise the last iterates of two runs are, at most.

Two runs differ by a distance z. A step multiplies it by at most c and adds 1 where the record takes part;
noise of deviation one hides a shift a_k at the price a_k^2. If some shifts end at distance zero, the last
iterates are no easier to tell apart than N(mu, 1) and N(0, 1), mu^2 being the sum of their squares:

    z_k = c z_{k-1} + 1[record in step k] - a_k >= 0,   z_t = 0.

In the coordinates T_k = sum of c^(2i) and S_k = sum of c^i over the uses, i counting steps from the end,
the schedule is a path from (0, 0) to (T_t, S_t) that stays below S, and its price is the integral of its
squared slope: the best one is the greatest convex minorant of S, a taut string. It is found by pooling
adjacent blocks, one for each use, until slopes rise. See docs/proofs/last-iterate.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sharpdp.numerics.special import UNIT_ROUNDOFF

__all__ = ["Participations", "log_power_sum", "squared_mu"]

Block = tuple[float, float]
"""Logarithms of the height and of the width of one piece of a path."""

_MOST_BLOCKS = 400
"""Participations that are looked at one by one; where more are needed, other windows are taken."""

_WINDOWS = 160
"""Windows that are tried, of rising lengths, before the best one is looked for among its neighbors."""


@dataclass(frozen=True)
class Participations:
    """The steps that use one record, counted from the last step (0) backwards.

    The last use is `last` steps before the end, the one before that `previous` steps before the end, and
    `earlier` uses in all come before the last one, `spacing` steps apart.
    """

    steps: int
    last: int
    previous: int
    spacing: int
    earlier: int

    def within(self, window: int) -> int:
        """How many of the earlier ones are in the last so many steps."""
        if window <= self.previous:
            return 0
        return min((window - 1 - self.previous) // self.spacing + 1, self.earlier)


def squared_mu(log_c: float, uses: Participations, diameter: float = math.inf) -> float:
    """The smallest sum of squared shifts, from above, for steps that expand distances by at most c.

    Args:
        log_c: Logarithm of c, rounded up.
        uses: The steps in which the record takes part, each of which moves the iterate by at most 1.
        diameter: A bound on the distance at every step, in the same unit.

    Returns:
        The square of mu, in the unit of one move over the deviation of the noise.

    >>> uses = Participations(steps=100, last=0, previous=1, spacing=1, earlier=99)
    >>> round(squared_mu(math.log(0.9), uses), 6)  # (1 - c^t) / (1 + c^t) (1 + c) / (1 - c)
    18.998991
    >>> round(squared_mu(0.0, uses), 6)
    100.0
    """
    best = _price(log_c, uses, None)
    if diameter == math.inf:
        return best
    if not diameter > 0.0:
        return 0.0

    def price(window: int) -> float:
        return _price(log_c, uses, window, math.log(diameter))

    windows = _windows(log_c, uses, diameter)
    prices = [price(window) for window in windows]
    best = min([best, *prices])
    place = prices.index(min(prices))
    low, high = windows[max(place - 1, 0)], windows[min(place + 1, len(windows) - 1)]
    while high - low > 2:  # any window is safe, so that nothing rests on where this ends
        left, right = low + (high - low) // 3, high - (high - low) // 3
        at_left, at_right = price(left), price(right)
        best = min(best, at_left, at_right)
        low, high = (low, right) if at_left < at_right else (left, high)
    return best


def _windows(log_c: float, uses: Participations, diameter: float) -> list[int]:
    """Numbers of last steps after which the distance is taken for the diameter."""
    most = uses.steps
    if log_c > 0.0:  # blocks are listed one by one, and the diameter grows
        most = min(most, uses.previous + (_MOST_BLOCKS - 1) * uses.spacing)
    ratio = max(most, 2) ** (1.0 / _WINDOWS)
    rising = {min(max(round(ratio**k), 1), most) for k in range(_WINDOWS + 1)}
    near = {round(diameter), uses.last + 1, uses.previous + 1}
    return sorted(rising | {min(max(window, 1), most) for window in near} | {most})


def _price(
    log_c: float, uses: Participations, window: int | None, log_diameter: float = 0.0
) -> float:
    """Sum of squared shifts within a window that starts at the diameter; None for all steps, from 0."""
    earlier = uses.earlier if window is None else uses.within(window)
    blocks: list[Block] = []
    if window is not None:
        newest = uses.previous + (earlier - 1) * uses.spacing if earlier else uses.last
        first = newest + 1 if window > newest else 0  # a window that misses even the last use
        blocks.append((log_diameter + window * log_c, _log_width(log_c, first, window)))
        if window <= uses.last:
            return _pooled(blocks)
    separate = 0.0
    if earlier > 1:
        start = uses.previous + uses.spacing
        if log_c <= 0.0:  # slopes fall with time: one chord
            height = start * log_c + log_power_sum(uses.spacing * log_c, earlier - 1)
            width = _log_width(log_c, uses.previous + 1, start + (earlier - 2) * uses.spacing + 1)
            blocks.append((height, width))
        elif window is None:  # slopes rise with time: nothing is pooled
            separate = (earlier - 1) * math.exp(-log_power_sum(-2.0 * log_c, uses.spacing))
        else:
            for index in range(earlier - 1, 0, -1):
                use = uses.previous + index * uses.spacing
                blocks.append((use * log_c, _log_width(log_c, use - uses.spacing + 1, use + 1)))
    if earlier:
        blocks.append((uses.previous * log_c, _log_width(log_c, uses.last + 1, uses.previous + 1)))
    blocks.append((uses.last * log_c, _log_width(log_c, 0, uses.last + 1)))
    return separate * (1.0 + 1e-12) + _pooled(blocks)


def _pooled(blocks: list[Block]) -> float:
    """Sum of height^2 / width over the blocks in time order, pooled until slopes rise; rounded up."""
    pooled: list[Block] = []
    for height, width in blocks:
        block = (height, width)
        while pooled and pooled[-1][0] - pooled[-1][1] >= block[0] - block[1]:
            last = pooled.pop()
            block = (_log_add(last[0], block[0]), _log_add(last[1], block[1]))
        pooled.append(block)
    total = 0.0
    for height, width in pooled:
        size = 1.0 + abs(height) + abs(width)
        exponent = 2.0 * height - width + 64.0 * UNIT_ROUNDOFF * size
        if exponent > 700.0:
            return math.inf
        total += math.exp(exponent)
    return total * (1.0 + 1e-12)


def _log_width(log_c: float, first: int, end: int) -> float:
    """log of the sum of c^(2i) over first <= i < end; -inf if there are none."""
    if end <= first:
        return -math.inf
    return 2.0 * first * log_c + log_power_sum(2.0 * log_c, end - first)


def log_power_sum(log_ratio: float, terms: int) -> float:
    """log of 1 + r + ... + r^(terms - 1), r = e^log_ratio."""
    total = terms * log_ratio
    if abs(total) < 1e-18:
        return math.log(terms)
    if log_ratio < 0.0:
        return math.log(math.expm1(total) / math.expm1(log_ratio))
    if total > 700.0:
        return total - math.log(math.expm1(log_ratio))
    return math.log(math.expm1(total) / math.expm1(log_ratio))


def _log_add(x: float, y: float) -> float:
    """log of e^x + e^y."""
    high, low = max(x, y), min(x, y)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
