"""The worst adaptive behavior in an epoch that leaves somebody out, from above, for replace-one.

The record contributes u or u' and the others v, all in the unit ball and chosen batch by batch. For
one x the largest value is a Bellman recursion

    V_0(s) = s_+,   V_{k+1}(s) = sup E V_k(s + Z),   Z = (phi_u - x phi_u') / phi_v under phi_v,

and H_x <= share * V_T(-shift). docs/proofs/vacant-seat.md ("Replace-one, nearly exactly") shows that
triangles u, u', v with right or acute angles on the unit circle are enough. They are given by how much
each angle is below a right one: `bend` at v, `turn` at u' and `back` at u, three numbers from zero on
with sum pi/2. Calls of Z fall with bend and turn, puts with bend and back. So all triangles
above three such numbers, a cell, are below one variable in the convex order.

The two ends (the others at u', or at u) are nearly always the best and are taken exactly; cells cover
everything else. Values are kept at nodes between which they are joined by chords, which lie above a
convex function. All weights are nonnegative, so rounding is relative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sharpdp.bounds.shuffled_batches.upper_adaptive_zero_out import polyline_area
from sharpdp.numerics.matrix_product import matrix_product
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, cell_masses, ndtr

__all__ = ["WorstReplacement"]

_Rows: TypeAlias = tuple[tuple[float, tuple[float, ...]], ...]

_RIGHT = 0.5 * math.pi

# fmt: off
_ROWS_OF_LITTLE_NOISE = (
    (0.08, (0.0, 0.03, 0.08, 0.25, 0.58, 1.03, 1.36)),
    (0.14, (0.0, 0.015, 0.03, 0.08, 0.2, 0.44, 0.77, 1.1)),
    (0.22, (0.0, 0.015, 0.03, 0.06, 0.14, 0.31, 0.55, 0.88, 1.21)),
    (0.3, (0.0, 0.05, 0.13, 0.3, 0.54, 0.87, 1.2)),
    (0.43, (0.0, 0.03, 0.06, 0.11, 0.19, 0.31, 0.48, 0.72, 0.96)),
    (0.56, (0.0, 0.05, 0.1, 0.15, 0.23, 0.35, 0.52, 0.69, 0.93)),
    (0.69, (0.0, 0.08, 0.16, 0.28, 0.45, 0.62)),
    (0.86, (0.0, 0.12, 0.24, 0.41)),
    (_RIGHT, (0.0,)),
)
_ROWS_NEAR_ONE = (
    (0.08, (0.0, 0.03, 0.08, 0.25, 0.58, 0.91, 1.24)),
    (0.14, (0.0, 0.015, 0.03, 0.08, 0.2, 0.44, 0.77, 1.1)),
    (0.22, (0.0, 0.015, 0.03, 0.06, 0.14, 0.31, 0.55, 0.79, 1.03)),
    (0.32, (0.0, 0.03, 0.06, 0.11, 0.23, 0.4, 0.57, 0.74, 0.91, 1.08)),
    (0.45, (0.0, 0.05, 0.1, 0.18, 0.26, 0.34, 0.42, 0.5, 0.58, 0.66, 0.74, 0.86, 0.98)),
    (0.55, (0.0, 0.08, 0.16, 0.24, 0.32, 0.37, 0.42, 0.47, 0.52, 0.57, 0.62, 0.67, 0.72, 0.8,
        0.92)),
    (0.61, (0.0, 0.17, 0.25, 0.33, 0.38, 0.43, 0.48, 0.53, 0.58, 0.63, 0.71, 0.83)),
    (0.67, (0.0, 0.17, 0.25, 0.3, 0.35, 0.4, 0.43, 0.46, 0.49, 0.54, 0.59, 0.64, 0.72)),
    (0.73, (0.0, 0.17, 0.25, 0.3, 0.35, 0.38, 0.41, 0.44, 0.49, 0.54, 0.62, 0.74)),
    (0.81, (0.0, 0.17, 0.22, 0.27, 0.32, 0.35, 0.38, 0.41, 0.44, 0.49, 0.54, 0.62)),
    (0.91, (0.0, 0.17, 0.25, 0.3, 0.35, 0.43, 0.55)),
    (1.16, (0.0, 0.12, 0.2, 0.28)),
    (_RIGHT, (0.0,)),
)
_ROWS_OF_MUCH_NOISE = (
    (0.06, (0.0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.23, 0.28, 0.36, 0.44, 0.52, 0.64, 0.76,
        0.88, 1.0, 1.08, 1.16, 1.24, 1.29, 1.34, 1.39, 1.44)),
    (0.12, (0.0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.2, 0.25, 0.3, 0.38, 0.46, 0.54, 0.62, 0.74,
        0.86, 0.94, 1.02, 1.1, 1.18, 1.23, 1.28, 1.33, 1.38)),
    (0.2, (0.0, 0.03, 0.06, 0.09, 0.14, 0.19, 0.24, 0.29, 0.34, 0.42, 0.5, 0.58, 0.66, 0.74,
        0.82, 0.9, 0.98, 1.06, 1.14, 1.19, 1.27)),
    (0.28, (0.0, 0.05, 0.13, 0.21, 0.33, 0.45, 0.57, 0.69, 0.81, 0.93, 1.05, 1.17)),
    (0.41, (0.0, 0.05, 0.1, 0.15, 0.23, 0.31, 0.39, 0.51, 0.63, 0.75, 0.87, 0.95, 1.03)),
    (0.54, (0.0, 0.12, 0.24, 0.36, 0.48, 0.6, 0.72, 0.89)),
    (0.71, (0.0, 0.17, 0.29, 0.41, 0.58, 0.82)),
    (0.88, (0.0, 0.33)),
    (_RIGHT, (0.0,)),
)
# fmt: on
_MUCH_NOISE, _NEAR_ONE = 1.35, 1.2
"""Cells: the bend at which a row ends, and the turns at which its cells begin. The second set is for
little noise and log x up to the last number. Found by trial: any would do, and these cost up to 1%."""

_STEP, _LEAST_EVEN, _MOST_EVEN, _SPREADS = 0.2, 150, 500, 5.0
"""The nodes' step in deviations of Z (larger for large x, where single batches decide), least and largest
numbers of even nodes, and how many deviations of a sum they cover."""

_GROWTHS, _GROWTHS_OF_MUCH_NOISE = (0.04, 0.1), (0.025, 0.06)
"""By which share of themselves nodes, and values of Z, are apart where they are not even."""

_FIRST_STRIKES = 16
"""Cells have so many first values of Z up and down, and every second one of the others."""

_REACH = 30.0
"""How far nodes reach to the right, in multiples of the even ones: the slope is one from there on."""

_CUT = 1e-5
"""What is cut off large and small values of Z, as a share of the value."""

_NORMAL_CELLS, _NORMAL_REACH, _NORMAL_POWER = 100, 6.5, 1.3
"""Cells of the normal variable of the two records' ratio, and how far they reach."""

_TABLE_STEP, _TABLE_REACH = 0.02, 10.0
"""Puts on a lognormal variable are tabulated at so many of its deviations."""

_OPTION_ERROR, _OPTION_FLOOR = 1e-10, 1e-22
"""Relative error of prices of options, which are differences of normal probabilities, as far as they are
not below a share of the first one."""

_SMALLEST = 1e-290


@dataclass(frozen=True)
class WorstReplacement:
    """One epoch of `count` batches at x = e^loss; the value is that of `shift` less, in batch shares."""

    noise: float
    loss: float
    count: int
    shift: float

    def log_value(self) -> float:
        """An upper bound on log V_T(-shift)."""
        return float(self.log_values(np.array([-self.shift]))[0])

    def log_values(self, starts: Array) -> Array:
        """Upper bounds on log V_T at these sums; infinite beyond the last node."""
        nodes = self._nodes * self._step
        values = np.interp(starts, nodes, self._values, right=np.inf)
        rounding = 2.0 * self.count * (self._operator.size + 64.0) * UNIT_ROUNDOFF
        return np.asarray(np.log(np.maximum(values, _SMALLEST)) + rounding)

    @cached_property
    def _values(self) -> Array:
        """V_T at the nodes, from above."""
        values = np.maximum(self._nodes * self._step, 0.0)
        for _ in range(self.count):
            values = self._operator.best(values)
        return values

    @cached_property
    def ratio(self) -> float:
        """The threshold x on the likelihood ratio."""
        return math.exp(self.loss)

    @property
    def _has_much_noise(self) -> bool:
        return self.noise > _MUCH_NOISE

    @property
    def _growths(self) -> tuple[float, float]:
        return _GROWTHS_OF_MUCH_NOISE if self._has_much_noise else _GROWTHS

    @property
    def _rows(self) -> _Rows:
        if self._has_much_noise:
            return _ROWS_OF_MUCH_NOISE
        return _ROWS_NEAR_ONE if self.loss < _NEAR_ONE else _ROWS_OF_LITTLE_NOISE

    @cached_property
    def _grid(self) -> tuple[float, float, float]:
        """About the deviation of Z, and how far values of Z go up and down; any choice is safe."""
        strikes = np.geomspace(1e-3, 1e40, 2000)
        calls = _end_calls(self.noise, self.ratio, strikes)
        puts = self.ratio * _end_calls(self.noise, 1.0 / self.ratio, strikes / self.ratio)
        drift = self.count * math.expm1(self.loss) + self.shift
        cap, deviation = math.inf, 1.0
        for _ in range(6):  # values beyond the cap decide by themselves
            kept = np.maximum(calls - float(np.interp(cap, strikes, calls)), 0.0)
            deviation = math.sqrt(2.0 * polyline_area(np.minimum(strikes, cap), kept))
            cap = 1.2 * drift + max(3.0 * math.sqrt(self.count), 6.0) * deviation
        negligible = _CUT * float(np.interp(drift, strikes, calls)) + _SMALLEST
        up, down = (float(strikes[np.argmax(part <= negligible)]) for part in (calls, puts))
        return deviation, up, down

    @cached_property
    def _even(self) -> tuple[float, int, int]:
        """The step of the nodes and between which of its multiples they are even."""
        spread = _SPREADS * self._grid[0] * math.sqrt(self.count)
        around = min(spread, float(self.count))
        low = around + self.shift
        high = self.count * math.expm1(self.loss) + min(spread, self.count * self.ratio)
        step = _STEP * self._grid[0] * max(1.0, _STEP * self.ratio)
        step = min(max(step, (low + high) / _MOST_EVEN), (low + high) / _LEAST_EVEN)
        return step, math.ceil(low / step), math.ceil(high / step)

    @property
    def _step(self) -> float:
        return self._even[0]

    @cached_property
    def _nodes(self) -> Array:
        """Nodes of the sums, in steps."""
        _, low, high = self._even
        growth = self._growths[0]
        left = _outward(low, 1.5 * (low + high), growth)
        right = _outward(high, _REACH * (low + high), growth)
        return np.concatenate([-left[:0:-1], np.arange(-low, high), right])

    @cached_property
    def _operator(self) -> _Operator:
        """One step: the others at u', or at u, or one variable for each cell of triangles."""
        s, x, step = self.noise, self.ratio, self._step
        _, up, down = self._grid
        growth = self._growths[1]
        highs, lows = (_graded(limit / step, growth) * step for limit in (up, down))
        ends = _weights(
            (highs, lows),
            np.array([_end_calls(s, x, highs), x * _end_puts(s, 1.0 / x, highs / x)]),
            np.array([_end_puts(s, x, lows), x * _end_calls(s, 1.0 / x, lows / x)]),
            x,
        )
        some, less = highs[_some(highs.size)], lows[_some(lows.size)]
        corners = _corners(self._rows)
        cells = _weights(
            (some, less),
            _prices(s, x, corners[:, [0, 1]], some),
            x * _prices(s, 1.0 / x, corners[:, [0, 2]], less / x),
            x,
        )
        # those of the cells come first
        few = np.concatenate([_some(lows.size)[:0:-1], _some(highs.size)])
        order = np.argsort(~few, kind="stable")
        moves = np.rint(np.concatenate([-lows[:0:-1], highs]) / step)[order]
        return _Operator.of(self._nodes, moves, step, ends.ordered(order), cells)


def _outward(start: int, end: float, growth: float) -> Array:
    """Multiples of the step from the start to the end, farther and farther apart."""
    numbers, step = [float(start)], 1.0
    while numbers[-1] < end:
        numbers.append(numbers[-1] + round(step))
        step = min(1.1 * step, max(1.0, growth * numbers[-1]))
    return np.array(numbers)


def _graded(end: float, growth: float) -> Array:
    """Whole numbers from zero to the end, a share of themselves apart."""
    numbers = [0, 1]
    while numbers[-1] < end:
        numbers.append(max(numbers[-1] + 1, round(numbers[-1] * (1.0 + growth))))
    return np.array(numbers, dtype=float)


def _some(size: int) -> NDArray[np.bool_]:
    """Which of so many strikes are enough for cells, the last one among them."""
    index = np.arange(size)
    return np.asarray((index < _FIRST_STRIKES) | ((size - 1 - index) % 2 == 0))


def _corners(rows: _Rows) -> Array:
    """The least bend, turn and back of each cell."""
    corners, bend = [], 0.0
    for last_bend, turns in rows:
        for turn, last_turn in zip(turns, (*turns[1:], _RIGHT - bend), strict=True):
            corners.append((bend, turn, max(_RIGHT - last_bend - last_turn, 0.0)))
        bend = last_bend
    return np.array(corners)


def _end_calls(noise: float, x: float, strikes: Array) -> Array:
    """E(R - x - c)_+ for the ratio R of two normal distributions at distance two."""
    spread, price = 2.0 / noise, x + strikes
    distance = -np.log(price) / spread
    value = ndtr(distance + 0.5 * spread) - price * ndtr(distance - 0.5 * spread)
    return np.maximum(value, 0.0)


def _end_puts(noise: float, x: float, strikes: Array) -> Array:
    """E(x - c - R)_+."""
    spread, price = 2.0 / noise, np.maximum(x - strikes, _SMALLEST)
    distance = np.log(price) / spread
    value = price * ndtr(distance + 0.5 * spread) - ndtr(distance - 0.5 * spread)
    return np.where(x > strikes, np.maximum(value, 0.0), 0.0)


def _prices(noise: float, x: float, corners: Array, strikes: Array) -> Array:
    """Upper bounds on calls of Z at these strikes from zero on, a row for each (bend, turn).

    Under phi_u the ratios Y1 = phi_u' / phi_u and Y2 = phi_v / phi_u are lognormal with mean one, and the
    call is E(1 - x Y1 - c Y2)_+. Given Y1, Y2 has the mean M = k Y1^theta, theta <= 1, and the call is a
    put of Black and Scholes, convex in (Y1, M) and falling in M, which is above its chord. So it is at
    most its mean over the ends of cells of Y1, with the mean of Y1 kept. Above 1/x it is zero.
    """
    bend, turn = corners.T[:, :, None]
    spread = 2.0 * np.cos(bend) / noise
    slope = np.cos(turn) * np.cos(bend + turn) / np.cos(bend)  # theta
    last = 0.5 * spread - math.log(x) / spread
    before = np.minimum(last, 0.0)
    reach = np.maximum(last, 0.0) + np.sqrt(before**2 + _NORMAL_REACH**2) + before
    edges = last - reach * np.linspace(1.0, 0.0, _NORMAL_CELLS) ** _NORMAL_POWER
    ratios = np.exp(spread * edges - 0.5 * spread**2)
    masses, means = cell_masses(edges, 0.0), cell_masses(edges, spread)
    upper = np.clip((means - masses * ratios[:, :-1]) / np.diff(ratios), 0.0, masses)
    weights = np.pad(upper, ((0, 0), (1, 0)))
    weights[:, :-1] += masses - upper
    # between zero and the first edge the put is at most one
    weights[:, :1] += ndtr(edges[:, :1])
    middle = np.exp(slope * spread * edges - 0.5 * (slope * spread) ** 2)
    price = np.maximum(-np.expm1(spread * (edges - last)), 0.0)
    with np.errstate(over="ignore"):  # then it is beyond the last
        relative = middle / np.maximum(price, _SMALLEST)
    weighted = weights * price
    rows = np.empty((len(corners), strikes.size))
    for row, (at_v, at_record) in enumerate(corners.tolist()):
        if at_v == at_record == 0.0:
            rows[row] = _end_calls(noise, x, strikes)
            continue
        # price times the put at one on a lognormal variable of mean paid / price
        table = _lognormal_puts(2.0 * math.cos(at_record) * math.sin(at_v + at_record) / noise)
        with np.errstate(over="ignore"):
            put = np.interp(np.multiply.outer(strikes, relative[row, 1:]), *table)
        rows[row] = put @ weighted[row, 1:] + weights[row, 0]
    first = (ndtr(last) - x * ndtr(last - spread))[:, 0]
    rows[:, 0] = np.where(bend[:, 0] + turn[:, 0] > 0.0, first, rows[:, 0])
    return rows


@lru_cache(maxsize=256)
def _lognormal_puts(deviation: float) -> tuple[Array, Array]:
    """E(1 - m L)_+ at some means m from zero on, L lognormal with mean one: chords are above it.

    Beyond the last it is less than there. The deviation depends on the noise and the cell alone.
    """
    u = np.arange(-_TABLE_REACH, _TABLE_REACH, _TABLE_STEP)
    means = np.exp(deviation * u)
    puts = ndtr(0.5 * deviation - u) - means * ndtr(-0.5 * deviation - u)
    return np.append(0.0, means), np.append(1.0, np.maximum(puts, 0.0))


@dataclass(frozen=True)
class _Weights:
    """Nonnegative weights of variables on common values, a row each; and the largest mean cut off."""

    rows: Array
    over: float

    def ordered(self, order: NDArray[np.int64]) -> _Weights:
        """The same with the values in another order."""
        return _Weights(self.rows[:, order], self.over)


def _weights(strikes: tuple[Array, Array], calls: Array, puts: Array, ratio: float) -> _Weights:
    """Weights of variables with at least these calls, at c >= 0, and puts, at -c; large ones are cut.

    They are changes of slope. Where rounding or a bound makes one negative it counts as zero, which
    raises means of nonnegative functions, and so do the bounds on rounding that are added.
    """
    puts[:, 0] = calls[:, 0] + (ratio - 1.0)  # parity, so that means agree
    sides, slopes = [], []
    for places, prices in zip(strikes, (calls, puts), strict=True):
        width = np.diff(places)
        slope = np.diff(prices) / width
        error = _OPTION_ERROR * prices[:, :-1] + _OPTION_FLOOR * prices[:, :1]
        error = 4.0 * error / width
        change = np.diff(np.hstack([slope, np.zeros((slope.shape[0], 1))]))
        sides.append(np.maximum(change, 0.0) + error)
        slopes.append(slope[:, :1] + error[:, :1])
    rest = np.maximum(1.0 + slopes[0] + slopes[1], 0.0)
    over = float(np.max(calls[:, -1] * (1.0 + _OPTION_ERROR) + _OPTION_FLOOR * calls[:, 0]))
    return _Weights(np.hstack([sides[1][:, ::-1], rest, sides[0]]), over)


@dataclass(frozen=True)
class _Operator:
    """The best of several steps, from values at nodes to values at nodes.

    `places` takes values at nodes to those at all sums of a node and a value of Z, by chords, or to the
    value at the last node. Cells have the first of these values only. `ends_beyond` and `cells_beyond`
    are by how much variables exceed the last node on average, what was cut off included: that counts
    with the last slope.
    """

    places: csr_array
    ends: Array
    cells: Array
    ends_beyond: Array
    cells_beyond: Array
    last_step: float

    @staticmethod
    def of(nodes: Array, moves: Array, step: float, ends: _Weights, cells: _Weights) -> _Operator:
        """Nodes and values of Z are whole numbers of steps, so that sums are exact."""
        sums = np.add.outer(moves, nodes)
        inside = np.clip(sums, nodes[0], nodes[-1]).ravel()
        left = np.minimum(np.searchsorted(nodes, inside, side="right") - 1, nodes.size - 2)
        width = nodes[left + 1] - nodes[left]
        shares = np.concatenate(
            [(nodes[left + 1] - inside) / width, (inside - nodes[left]) / width]
        )
        rows = np.concatenate([np.arange(inside.size)] * 2)
        columns = np.concatenate([left, left + 1])
        used = shares > 0.0
        shape = (inside.size, nodes.size)
        places = csr_array((shares[used], (rows[used], columns[used])), shape=shape)
        beyond = np.maximum(sums - nodes[-1], 0.0) * step
        few = cells.rows.shape[1]
        return _Operator(
            places,
            ends.rows,
            cells.rows,
            matrix_product(ends.rows, beyond) + ends.over,
            matrix_product(cells.rows, beyond[:few]) + cells.over,
            float(nodes[-1] - nodes[-2]) * step,
        )

    @property
    def size(self) -> int:
        """How many terms a sum over the values of Z has."""
        return int(self.ends.shape[1])

    def best(self, values: Array) -> Array:
        """The largest value after one more step with one of the variables, at each node."""
        slope = max(float(values[-1] - values[-2]) / self.last_step, 1.0) * (1.0 + 1e-12)
        reached = (self.places @ values).reshape(self.size, values.size)
        ends = matrix_product(self.ends, reached) + slope * self.ends_beyond
        cells = matrix_product(self.cells, reached[: self.cells.shape[1]])
        cells += slope * self.cells_beyond
        return np.asarray(np.maximum(np.max(ends, axis=0), np.max(cells, axis=0)))
