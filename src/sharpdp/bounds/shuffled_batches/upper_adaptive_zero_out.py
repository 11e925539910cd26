"""The worst adaptive behavior of the other examples in an epoch that leaves somebody out, from above.

The envelope (`bounds.shuffled_batches.upper_envelope`) lets every batch be the worst for each threshold
by itself. What an adversary can do is choose, batch by batch and knowing all earlier results, the angle
between the record and the others. The largest value of that is a Bellman recursion

    V_0(s) = s_+,   V_{k+1}(s) = max_a E V_k(s + Z_a),   a = <u, v> in [-1, 1],

and H_x <= share * V_T(-shift). docs/proofs/vacant-seat.md has the proof of this, and of the steps by
which it is bounded here:

- *Angles by cells.* All Z_a with a in one cell have calls of at most those at one of its ends, and puts
  of at most those at the other. What they gain over the first cell, which is narrow, is kept as a
  difference of calls.
- *Most steps by a contour.* After some steps with all angles the others keep to a = -1, and what a better
  choice would gain is at most eps times the value plus eta, with numbers that are checked at some
  steps and hold for all later ones.
- *Few x.* V_T is convex in x and s together, so that values between two x are means of values at those.

Everything is done on a lattice with FFTs whose rounding errors are added; values only ever rise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from sharpdp.numerics.expected_positive_part import ShiftedSum, Sums
from sharpdp.numerics.hull import lower_hull
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray, cell_masses, ndtr

__all__ = ["WorstPolicy", "polyline_area"]


def _angles(near_minus_one: int, near_one: int) -> Array:
    """Ends of the cells of a, narrow at both ends, where the best choices are."""
    left = np.geomspace(5e-3, 1.0, near_minus_one) - 1.0
    right = 1.0 - np.geomspace(1.0, 2e-2, near_one)[1:]
    return np.concatenate([[-1.0], left, right, [1.0]])


_FINE_ANGLES, _COARSE_ANGLES, _LITTLE_NOISE = _angles(12, 9), _angles(8, 6), 1.5
"""The second with this noise or less, where single large results decide and choices matter less. The
first cell costs about its width of the variance in every step."""

_FINE, _COARSE, _MUCH_NOISE = (0.07, 0.045), (0.1, 0.06), 2.1
"""The lattice's step in deviations of Z, and by which share of themselves the nodes of Z are apart: with
few steps and much noise, where little else widens the bracket; and otherwise."""

_FEW_STEPS, _EXACT_STEPS, _MOST_STEPS, _CHECK_GROWTH = (150, 400), (64, 128), 2000, 1.5
"""So many steps are all done with all angles (the second with care, which takes many times as long, and a
hundredth off epsilon of one epoch); of more steps so many are (forward and backward), and the
gain is checked there and again after this many times as many steps until it is harmless, or so many are
done."""

_STAGES = 4
"""The lattice of the first steps grows by this factor in the number of steps."""

_HARMLESS = 5e-4
"""Gains of all later steps that no further check needs to lower, relative to the value."""

_REACH = 6.5
"""Half the width of a lattice in deviations of the sum."""

_LARGEST_LATTICE, _LARGEST_SUM = 1 << 16, 1 << 14
"""Places of the largest transform, and of one of sums of all steps, which may wrap around."""

_NEGLIGIBLE, _FARTHEST = (3e-4, 1e-3), 6.0
"""What sums beyond the ends of the lattice may be worth, relative to the value at zero without a drift
and to the farthest value that is sought, at so many deviations of the sum; any choice is safe."""

_SMALLEST = 3e-6
"""Values of the profile below this need no care."""

_SMOOTHINGS = 20
"""How often chords are drawn where values from above are not convex."""

_NORMAL_ERROR, _WIDEST_CELL, _NORMAL_REACH = 0.1, 0.1, 7.5
"""Cells of the normal variable that both ratios share add about this share of what an angle takes from
the variance; their largest width; and how far they reach: what is beyond is worth 1e-13, less than the
margin."""

_TABLE_STEP, _TABLE_REACH = 0.015, 8.5
"""Prices of options on a lognormal variable are tabulated at so many of its deviations."""

_LADDER = 0.1
"""Logarithms of tilts are rounded to multiples of this; any tilt is safe."""

_MARGIN = 1e-12
"""Added to calls and puts for rounding: a hundred times what their sums lose."""


@dataclass(frozen=True)
class WorstPolicy:
    """Epochs of `count` batches at x = e^loss; `drift` is how far below zero sums start, at most."""

    noise: float
    loss: float
    kind: str
    count: int
    drift: float
    is_careful: bool = False

    def log_value(self, start: float) -> float:
        """An upper bound on log V_T(start); infinite if the lattice would be too large."""
        recursion = self._recursion
        if recursion is None:
            return math.inf
        with np.errstate(under="ignore"):
            try:
                return recursion.log_value(start) + _MARGIN
            except _TooLarge:
                return math.inf

    def log_values(self, starts: Array) -> Array:
        """`log_value` at several sums."""
        return np.array([self.log_value(start) for start in starts.tolist()])

    @cached_property
    def ratio(self) -> float:
        """The threshold x on the likelihood ratio."""
        return math.exp(self.loss)

    @property
    def is_forward(self) -> bool:
        return self.kind == "forward"

    @property
    def deviation(self) -> float:
        """About the deviation of Z, without values so large that they decide alone."""
        return self._lattice.deviation

    @property
    def slope_deviation(self) -> float:
        """About the deviation of dZ/dx, a likelihood ratio, without values that are fatal anyway."""
        spread = (1.0 if self.is_forward else 2.0) / self.noise
        largest = self._lattice.lows[-1] / self.ratio + 1.0
        z = math.log(largest) / spread - 0.5 * spread
        beyond = float(ndtr(-z - spread))
        mean = float(ndtr(z)) + largest * beyond
        square = math.exp(spread**2) * float(ndtr(z - spread)) + largest**2 * beyond
        return math.sqrt(square - mean**2)

    @property
    def exact(self) -> int:
        """The number of steps that are done with all angles."""
        few = _EXACT_STEPS[0 if self.is_forward else 1]
        return self.count if self.count <= _FEW_STEPS[self.is_careful] else few

    @property
    def angles(self) -> Array:
        """Ends of the cells of a."""
        return _COARSE_ANGLES if self.noise <= _LITTLE_NOISE else _FINE_ANGLES

    @cached_property
    def _recursion(self) -> _Recursion | None:
        with np.errstate(under="ignore"):
            try:
                return _Recursion(self, self._lattice)
            except _TooLarge:
                return None

    @cached_property
    def _lattice(self) -> _Lattice:
        """A lattice for the sums, and nodes on it for Z; any choice is safe."""
        grid = np.geomspace(1e-3, 1e6, 300)
        calls = np.maximum(*(_edge_options(self, edge, grid) for edge in (-1.0, 1.0)))
        puts = np.maximum(*(_edge_options(self, edge, -grid) for edge in (-1.0, 1.0)))
        cap, floor, deviation = math.inf, math.inf, 1.0
        below_zero = _edge_options(self, -1.0, -grid)
        mean = self.count * math.expm1(self.loss)
        lack = mean + self.drift
        for _ in range(6):  # values beyond the cap decide by themselves, so that they may be cut
            upward = 2.0 * _area(grid, calls, cap)
            deviation = math.sqrt(upward + 2.0 * _area(grid, below_zero, floor))
            scale = deviation * math.sqrt(self.count)
            lack = min(lack, max(mean, _FARTHEST * scale))
            cap = 1.2 * lack + max(3.0 * math.sqrt(self.count), 6.0) * deviation
            # values so far down are fatal anyway: the others do not make up for them
            floor = 1.5 * self.count * float(calls[0]) + 6.0 * math.sqrt(self.count * upward)
            floor = min(floor, _FARTHEST * scale)
        # about the value for sums from zero: of many small values, and of one large one
        z = lack / scale
        value = scale * (math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) - z * float(ndtr(-z)))
        value += self.count * (float(np.interp(lack, grid, calls)) + _SMALLEST)
        # beyond the left end single large values decide, and count in full
        # the farthest value that is needed is small, and may be less accurate
        small = min(_NEGLIGIBLE[0] * 0.4 * scale, _NEGLIGIBLE[1] * value)
        rare = calls * self.exact <= small
        left = min(cap, float(grid[np.argmax(rare)]))
        resolved = (
            (64.0 if self.is_forward else 4.0)
            * float(calls[0])
            * max(1.0, 0.5 * math.sqrt(self.count))
        )
        is_fine = self.count <= _FEW_STEPS[0] and self.noise > _MUCH_NOISE
        spacing, growth = _FINE if is_fine else _COARSE
        step = spacing * min(deviation, resolved)
        rare = puts <= 0.1 * small / self.count
        floor = min(floor, float(grid[np.argmax(rare)]) if rare.any() else math.inf)
        low, high = (_graded(end / step, growth) for end in (floor, cap))
        nodes = np.concatenate([-low[::-1], [0], high])
        body = np.maximum(calls - np.interp(2.0 * self.ratio, grid, calls), 0.0)
        square = 2.0 * polyline_area(grid, np.minimum(body, puts) + puts)
        rise = math.sqrt(min(square, deviation**2)) if self.is_forward else deviation
        return _Lattice(step, nodes, deviation, rise, left, self.ratio, small)


def _area(grid: Array, options: Array, end: float) -> float:
    """Half the mean square of the positive part that has these calls, cut off at the end."""
    kept = np.maximum(options - np.interp(end, grid, options), 0.0)
    return polyline_area(np.minimum(grid, end), kept)


def polyline_area(grid: Array, values: Array) -> float:
    """The area below a polyline with these values on a grid; numpy's own has another name before 2.0."""
    return float(np.sum(np.diff(grid) * (values[1:] + values[:-1]) / 2.0))


def _graded(end: float, growth: float) -> np.ndarray:
    """Whole numbers from one to the end, a share of themselves apart."""
    numbers = [1]
    while numbers[-1] < end:
        numbers.append(max(numbers[-1] + 1, round(numbers[-1] * (1.0 + growth))))
    return np.array(numbers)


class _TooLarge(Exception):
    """A lattice would have too many places."""


@dataclass(frozen=True)
class _Lattice:
    """Whole multiples of the step: Z is on some of them, its `nodes`, and sums in a window on all.

    Windows reach from `left` below zero, or some deviations of the sum, to as many above the kink that
    has moved by x - 1 in every step, or by x if the others are small. Values that are `small` are
    negligible.
    """

    step: float
    nodes: np.ndarray
    deviation: float
    rise: float
    left: float
    ratio: float
    small: float

    @cached_property
    def highs(self) -> Array:
        """Nodes from zero up."""
        return np.asarray(self.nodes[self.nodes >= 0] * self.step)

    @cached_property
    def lows(self) -> Array:
        """Nodes from zero down, without their signs."""
        return np.asarray(-self.nodes[self.nodes <= 0][::-1] * self.step)

    def window(self, steps: int, left: float, right: float = 0.0) -> tuple[int, int]:
        """The place of zero in a window for sums of so many steps, and its size."""
        reach = _REACH * self.deviation * math.sqrt(steps)
        origin = math.ceil(max(reach, left) / self.step) + 1
        rise = min(reach - steps, _REACH * self.rise * math.sqrt(steps)) + steps * self.ratio
        return origin, origin + math.ceil(max(rise, right) / self.step) + 2


def _edge_options(policy: WorstPolicy, edge: float, strikes: Array) -> Array:
    """Calls of Z at strikes from zero on, puts at those below, for others at -u (-1) or at u (1).

    Z is then a function of one normal variable: with R1 and R2 as in `upper_envelope.Step`, it is
    R2 - x R1 or 1 - x R1 forward, R1 - x R2 or R1 - x backward, a polynomial in R1 = r with two roots
    of Z = c at most, between which or beyond which it pays.
    """
    s, x = policy.noise, policy.ratio
    shrink = math.exp(-1.0 / s**2)  # R2 = shrink * R1^2
    is_call = strikes >= 0.0
    # coefficients of 1, R1 and R2 in Z
    if edge < 0.0:
        constant, linear, square = (0.0, -x, 1.0) if policy.is_forward else (0.0, 1.0, -x)
    else:
        constant, linear, square = (1.0, -x, 0.0) if policy.is_forward else (-x, 1.0, 0.0)

    def tail(ratio: Array, order: int) -> Array:
        """E[R_order; R1 > ratio]."""
        with np.errstate(divide="ignore"):
            z = s * np.log(np.maximum(ratio, 0.0)) + 0.5 / s
        return np.asarray(ndtr(order / s - z))

    def payoff(low: Array, high: Array, sign: Array) -> Array:
        """E[sign (Z - c); low < R1 < high]."""
        coefficients: list[Array | float] = [constant - strikes, linear, square]
        total = np.zeros(strikes.shape)
        for order, coefficient in enumerate(coefficients):
            total = total + coefficient * (tail(low, order) - tail(high, order))
        return np.asarray(sign * total)

    everything = np.full(strikes.shape, np.inf)
    nothing = np.zeros(strikes.shape)
    sign = np.where(is_call, 1.0, -1.0)
    if edge > 0.0:
        root = np.maximum((strikes - constant) / linear, 0.0)
        rises = (linear > 0.0) == is_call
        value = payoff(np.where(rises, root, nothing), np.where(rises, everything, root), sign)
        return np.maximum(value, 0.0)
    leading = square * shrink
    discriminant = linear**2 + 4.0 * leading * strikes
    half = np.sqrt(np.maximum(discriminant, 0.0))
    near = np.maximum((-linear / leading - half / abs(leading)) / 2.0, 0.0)
    far = np.maximum((-linear / leading + half / abs(leading)) / 2.0, 0.0)
    beyond = (leading > 0.0) == is_call  # pays beyond the far root; else between the roots
    value = payoff(np.where(beyond, far, near), np.where(beyond, everything, far), sign)
    return np.where(discriminant > 0.0, np.maximum(value, 0.0), 0.0)


def _normal_edges(policy: WorstPolicy, angle: float) -> Array:
    """Edges of cells that are wider far from zero."""
    s = policy.noise
    q = math.exp(2.0 / s**2)
    taken = (1.0 + angle) * 2.0 / s**2 * max(q * (q - policy.ratio), 0.05 * q * q)
    width = min(s * math.sqrt(6.0 * _NORMAL_ERROR * taken), _WIDEST_CELL)
    edges = [0.0]
    while edges[-1] < _NORMAL_REACH + 2.0 / s:
        edges.append(edges[-1] + min(width * math.exp(edges[-1] ** 2 / 12.0), _WIDEST_CELL))
    right = np.array(edges)
    return np.append(-right[right < _NORMAL_REACH + width][:0:-1], right)


def _options(policy: WorstPolicy, angle: float, strikes: Array) -> Array:
    """Upper bounds on calls of Z_a at strikes from zero on, and on puts at those below.

    Let A and B be the densities of the record and of the null record over that of the others. Given the
    normal variable g of B = e^{g/s - 1/(2 s^2)}, A is lognormal with mean M = B^gamma times a constant,
    gamma = 1 - a, and the option is that of Black and Scholes, convex in (M, B) and monotone in M. In a
    cell of g, M is bounded by a line in B, a chord or a tangent; the option is then convex in B, and at
    most its mean over the ends of the cell with the mean of B kept.
    """
    s, x, gamma = policy.noise, policy.ratio, 1.0 - angle
    spread = math.sqrt((1.0 - angle) * (1.0 + angle)) / s
    edges = _normal_edges(policy, angle)
    masses, means = cell_masses(edges, 0.0), cell_masses(edges, 1.0 / s)
    middle = 0.5 * (edges[:-1] + edges[1:])
    b, b_middle = (np.exp(z / s - 0.5 / s**2) for z in (edges, middle))
    m, m_middle = (np.exp(gamma * z / s - 0.5 * (gamma / s) ** 2) for z in (edges, middle))
    slope = gamma * m_middle / b_middle
    chord = (m[:-1], m[1:])
    tangent = (m_middle + slope * (b[:-1] - b_middle), m_middle + slope * (b[1:] - b_middle))
    above, below = (chord, tangent) if gamma >= 1.0 else (tangent, chord)
    upper_share = np.clip((means - masses * b[:-1]) / (masses * np.diff(b)), 0.0, 1.0)
    calls, prices = _lognormal_calls(spread)
    values = np.empty(strikes.size)
    for is_call in (True, False):
        chosen = (strikes >= 0.0) == is_call
        strike = strikes[chosen][:, None]
        # forward Z = A - x B, backward Z = B - x A: A is bought where it raises what is paid
        buys = is_call == policy.is_forward
        total = np.zeros(strike.shape[0])
        ends = (above if buys else below, (b[:-1], b[1:]))
        for mean, ratio, weight in zip(
            *ends, (masses * (1.0 - upper_share), masses * upper_share), strict=True
        ):
            price = x * ratio + strike if policy.is_forward else (ratio - strike) / x
            relative = price / mean
            option = np.interp(relative, prices, calls)
            if buys:
                option = np.where(relative < prices[0], calls[0] + prices[0] - relative, option)
            else:
                option = np.where(relative < prices[0], 0.0, option - 1.0 + relative)
                option = np.where(price > 0.0, np.maximum(option, _MARGIN), 0.0)
            total += option @ (weight * mean)
        values[chosen] = total * (1.0 if policy.is_forward else x)
    return values


@lru_cache(maxsize=64)
def _lognormal_calls(spread: float) -> tuple[Array, Array]:
    """E(L - c)_+ at some c, L lognormal with mean one: chords between these are above it.

    Beyond the last c it is less than there; before the first it falls with a slope of not more than one.
    """
    u = np.arange(-_TABLE_REACH, _TABLE_REACH, _TABLE_STEP)
    prices = np.exp(spread * u)
    calls = ndtr(0.5 * spread - u) - prices * ndtr(-0.5 * spread - u)
    return np.maximum(calls, 0.0), prices


@dataclass(frozen=True)
class _Cells:
    """One variable on the nodes for others at -u, and one for each cell of angles, above all Z_a in it.

    `weights` has a row for the first, then one for each cell; `gains` are by how much the calls of
    the cells exceed those of the first at the nodes; `over` bounds what was cut off above, E(Z - cap)_+.
    """

    weights: Array
    gains: Array
    over: float

    @staticmethod
    def of(policy: WorstPolicy, lattice: _Lattice) -> _Cells:
        strikes = np.append(-lattice.lows[:0:-1], lattice.highs)
        options = np.array(
            [
                _edge_options(policy, angle, strikes)
                if abs(angle) == 1.0
                else _options(policy, angle, strikes)
                for angle in policy.angles
            ]
        )
        zero = lattice.lows.size - 1
        calls, puts = options[:, zero:], options[:, zero::-1].copy()
        # at strike zero the angle does not matter; puts there by parity, so that means agree
        calls[:, 0] = calls[0, 0]
        puts[:, 0] = calls[0, 0] + math.expm1(policy.loss)
        margin = _MARGIN * (1.0 + policy.ratio)
        up = np.array([_convex(lattice.highs, row + margin) for row in calls])
        down = np.array([_convex(lattice.lows, row + margin) for row in puts])
        over = float(np.max(up[:, -1]))
        up = np.maximum(up - over, 0.0)

        # forward, calls fall and puts rise with a; backward it is the other way round
        up, down = (up[:-1], down[1:]) if policy.is_forward else (up[1:], down[:-1])
        rises, falls = down[:, :0:-1], up
        rises, falls = (rises - rises[0])[1:], (falls - falls[0])[1:]
        # these are not positive, except for rounding
        if policy.is_forward:
            falls = np.minimum(falls, 0.0)
        else:
            rises = np.minimum(rises, 0.0)
        high_weights = _second_differences(lattice.highs, up)
        low_weights = _second_differences(lattice.lows, down - down[:, -1:])
        rest = np.maximum(1.0 - high_weights.sum(axis=1) - low_weights.sum(axis=1), 0.0)
        weights = np.hstack([low_weights[:, ::-1], rest[:, None], high_weights])
        return _Cells(weights, np.hstack([rises, falls]), over)


def _convex(x: Array, y: Array) -> Array:
    """The largest convex function below the points, at the same places."""
    if np.all(np.diff(np.diff(y) / np.diff(x)) >= 0.0):
        return y
    corners = lower_hull(list(zip(x.tolist(), y.tolist(), strict=True)))
    return np.interp(x, x[corners], y[corners])


def _convex_kinks(kinks: Array) -> Array:
    """Kinks of a function that is lower where it is not convex, and not below its convex hull.

    A negative kink is taken away by lowering the function there to the chord over its neighbors.
    """
    for _ in range(_SMOOTHINGS):
        negative = np.minimum(kinks, 0.0)
        negative[0] = negative[-1] = 0.0
        if float(np.sum(negative)) > -1e-12:
            break
        kinks = kinks - negative
        kinks[1:] += 0.5 * negative[:-1]
        kinks[:-1] += 0.5 * negative[1:]
    return kinks


def _second_differences(x: Array, rows: Array) -> Array:
    """Weights beyond the first place of variables whose calls these rows are."""
    slopes = np.hstack([np.diff(rows) / np.diff(x), np.zeros((rows.shape[0], 1))])
    return np.maximum(np.diff(slopes), 0.0)


@dataclass(frozen=True)
class _Check:
    """What the best next step gains after so many steps, at most, over one with a = -1.

    At the sums it is `gain`, left of them not more than `floor`, and right of them not more than `factor`
    times the value one step later, which is not below `after`.
    """

    steps: int
    sums: Array
    gain: Array
    after: Array
    floor: float
    factor: float

    @cached_property
    def factors(self) -> Array:
        """Factors that are tried."""
        return self.factor + np.append(0.0, np.geomspace(1e-9, 0.03, 40))

    @cached_property
    def _log_rests(self) -> tuple[Array, Array]:
        """Places where something is gained beyond the floor, and the logs of what factors leave of it."""
        above = self.gain > self.floor
        rests = self.gain[above] - self.factors[:, None] * self.after[above] - self.floor
        with np.errstate(divide="ignore"):
            return self.sums[above], np.log(np.maximum(rests, 0.0))

    @cached_property
    def constants(self) -> Array:
        """For each factor the largest gain that it leaves."""
        largest = np.max(self._log_rests[1], axis=1, initial=-np.inf)
        return np.asarray(np.exp(largest) * (1.0 + _MARGIN))

    @cached_property
    def _tilted(self) -> dict[float, Array]:
        return {}

    def log_tilted_constants(self, theta: float) -> Array:
        """For each factor the log of the largest of what it leaves times e^{-theta s}, s the sum."""
        if theta not in self._tilted:
            sums, log_rests = self._log_rests
            self._tilted[theta] = np.max(log_rests - theta * sums, axis=1, initial=-np.inf)
        return self._tilted[theta]


def _rung(tilt: float) -> float:
    """The tilt rounded to a ladder, so that what is computed for one start serves others."""
    return math.exp(_LADDER * round(math.log(tilt) / _LADDER))


class _Window:
    """Sums (j - origin) * step for 0 <= j < size, and the transforms of Z and of all gains.

    Functions of the sum are given by the masses of their kinks, or by their values. A step with a = -1
    takes both to correlations with the weights of Z; what the best step gains is the largest
    correlation of kinks with differences of calls.
    """

    def __init__(self, cells: _Cells, lattice: _Lattice, window: tuple[int, int]) -> None:
        self.lattice, self.weights = lattice, cells.weights[0]
        self.origin, self.size = window
        nodes, size = lattice.nodes, self.size
        self.right = -int(nodes[0])
        self.length = next_fast_len(2 * size + self.right, real=True)
        if self.length > _LARGEST_LATTICE:
            raise _TooLarge
        self.near = nodes <= size
        kernel = np.zeros(self.length)
        kernel[nodes[self.near] % self.length] = self.weights[self.near]
        self.kernel = np.conj(rfft(kernel))
        far = self.weights[~self.near]
        self.far, self.far_mean = float(np.sum(far)), float(far @ nodes[~self.near])
        offsets = np.arange(1 - size, size)
        table = np.array([np.interp(offsets, nodes, row, right=0.0) for row in cells.gains])
        rows = np.zeros((len(table), self.length))
        rows[:, :size], rows[:, 1 - size :] = table[:, size - 1 :], table[:, : size - 1]
        self.gains = np.conj(rfft(rows))
        self.largest = float(np.max(np.abs(self.gains)))
        best = np.maximum(np.max(table, axis=0), 0.0)
        self.most = float(np.max(best))
        self.range = self.most - float(np.min(table))
        # the largest gain at so many places from zero, or farther
        self.most_right = np.maximum.accumulate(best[size - 1 :][::-1])[::-1]
        self.most_left = np.maximum.accumulate(best[:size])[::-1]
        # a transform errs by less than 4 log2(N) units of the norm; three of them, and what is added
        self.units = 16.0 * math.log2(self.length) * UNIT_ROUNDOFF

    @cached_property
    def sums(self) -> Array:
        return np.asarray((np.arange(self.size) - self.origin) * self.lattice.step)

    def best_gain(self, kinks: Array, transform: ComplexArray) -> Array:
        """The largest gain of all cells at the places of the window, from above."""
        rows = irfft(transform * self.gains, self.length)[:, : self.size]
        error = self.units * float(np.linalg.norm(kinks)) * self.largest
        return np.asarray(np.maximum(np.max(rows, axis=0), 0.0) + error)

    def moved(
        self, kinks: Array, steps: int, transform: ComplexArray
    ) -> tuple[Array, float, float]:
        """Kinks after so many steps with a = -1, those beyond the window at its ends.

        Also by how many places left ones were moved in all, and a bound on the Euclidean norm of errors.
        """
        size, right = self.size, self.right
        every = irfft(transform * self.kernel**steps, self.length)
        every = np.maximum(every, 0.0)
        new, escaped = every[:size], every[size + right :]
        new[-1] += float(np.sum(every[size : size + right]))
        new[0] += float(np.sum(escaped))
        lifted = float(escaped @ np.arange(escaped.size, 0, -1))
        return new, lifted, (steps + 1.0) * self.units * float(np.linalg.norm(kinks))

    def spread(self, values: Array) -> Array:
        """E values(s + Z) for a = -1, from above; beyond the window values are those at its ends."""
        left = self.right
        padded = np.full(self.length, values[-1])
        padded[:left] = values[0]
        padded[left : left + self.size] = values
        result = irfft(rfft(padded) * self.kernel, self.length)[left : left + self.size]
        error = self.units * float(np.linalg.norm(padded))
        return np.asarray(np.maximum(result, 0.0) + self.far * values[-1] + error)

    def aliased(self, kinks: Array, steps: int) -> float:
        """A bound on the mass of kinks that so many steps move beyond the window of the FFT.

        On either side by Chernoff's bound, or by that with moves of half the room at most.
        """
        weights, nodes = self.weights[self.near], self.lattice.nodes[self.near]
        scale = self.lattice.deviation / self.lattice.step * math.sqrt(steps)
        used, total = np.flatnonzero(kinks), 0.0
        masses = kinks[used]
        for sign, room, ends in (
            (1.0, self.length - self.size - self.right, used),
            (-1.0, self.right, self.size - 1.0 - used),
        ):
            best, moves = 1.0, sign * nodes
            cut = np.minimum(moves, 0.5 * room)
            beyond = steps * float(np.sum(weights[moves > cut]))
            for rate in np.geomspace(0.1, 40.0, 14) / scale:
                log_start = math.log(float(masses @ np.exp(-rate * ends)) + 1e-300) - rate * room
                for exponents, more in ((rate * moves, 0.0), (rate * cut, beyond)):
                    if np.max(exponents) < 600.0:
                        log_moment = math.log(float(weights @ np.exp(exponents)))
                        chernoff = math.exp(min(log_start + steps * log_moment, 0.0))
                        best = min(best, chernoff + more)
            total += best
        return total


class _Recursion:
    """The values of the first steps, and checks of later ones.

    After `exact` steps V_k(s) <= lift + sum_j kinks_j (s - s_j)_+ for all s. Of that, `extra` is due to
    gains, besides the lift; `steeper` bounds the slope that was added by taking negative kinks for zero,
    and `clamped` that of kinks that were moved left to the end of the window.
    """

    def __init__(self, policy: WorstPolicy, lattice: _Lattice) -> None:
        self.policy, self.lattice = policy, lattice
        self.cells = _Cells.of(policy, lattice)
        self._checks: dict[int, _Check] = {}
        self._growths: dict[float, float] = {}
        self._tilted_sums: dict[float, tuple[float, Array]] = {}
        self.exact = policy.exact
        self.lift = self.steeper = self.clamped = 0.0
        self.origin, self.kinks, self.extra = 0, np.ones(1), np.zeros(1)
        done, stage = 0, _STAGES**2
        while done < self.exact:
            stage = self.exact if 2 * stage > self.exact else stage
            shape = lattice.window(stage, lattice.left)
            window = _Window(self.cells, lattice, shape)
            self._widen(window)
            for _ in range(stage - done):
                self._step(window)
            done, stage = stage, stage * _STAGES
        self.sums = window.sums

    def _widen(self, window: _Window) -> None:
        """Move kinks and values to a larger window."""
        left = window.origin - self.origin
        right = window.size - self.kinks.size - left
        self.kinks = np.pad(self.kinks, (left, right))
        self.extra = np.pad(self.extra, (left, right), mode="edge")
        self.origin = window.origin

    def _step(self, window: _Window) -> None:
        """One more step, with all angles."""
        step, kinks = self.lattice.step, self.kinks
        transform = rfft(kinks, window.length)
        gain = window.best_gain(kinks, transform)
        new, lifted, error = window.moved(kinks, 1, transform)
        mass = float(np.sum(kinks))
        beyond = window.far_mean * mass - window.far * float(kinks @ np.arange(window.size))
        rounding = error * window.length**1.5 + UNIT_ROUNDOFF * window.length**2
        self.lift += (lifted + beyond + rounding) * step + float(gain[0])
        new[0] += window.far * mass
        slopes = np.diff(gain, prepend=gain[0], append=gain[-1]) / step
        new = _convex_kinks(new + np.diff(slopes))
        self.steeper += 1e-15 - float(np.sum(np.minimum(new[:-1], 0.0)))
        # no value rises faster than with slope one
        rising = np.minimum(np.cumsum(np.maximum(new[:-1], 0.0)), 1.0)
        new = np.diff(rising, prepend=0.0, append=1.0 + 1e-15)
        self.clamped += float(new[-1])
        self.extra = window.spread(self.extra) + gain
        self.kinks = new

    def _ends(self, steps: int) -> tuple[float, float]:
        """How far a window has to reach on both sides so that jumps beyond it are harmless."""
        weights, nodes = self.cells.weights[0], self.lattice.nodes * self.lattice.step
        worth = steps * self.policy.count * float(np.max(self.cells.gains))
        above = np.cumsum(weights[::-1])[::-1] * worth <= self.lattice.small
        # to the right a gain is held against the value, which is not below the sum
        below = np.cumsum(weights) * worth > _HARMLESS * np.maximum(-nodes, 1.0)
        left = float(nodes[np.argmax(above)]) if above.any() else float(nodes[-1])
        return max(left, 0.0), max(-float(nodes[np.argmax(below)]), 0.0)

    def _check(self, steps: int) -> _Check:
        """The gain after so many steps, of which the later ones are with a = -1."""
        left, right = self._ends(steps)
        ends = max(left, -float(self.sums[0])), max(right, float(self.sums[-1]))
        shape = self.lattice.window(steps, *ends)
        window = _Window(self.cells, self.lattice, shape)
        added, step = window.origin - self.origin, self.lattice.step
        start = np.pad(self.kinks, (added, window.size - self.kinks.size - added))
        kinks, more = start, steps - self.exact
        aliased = error = misplaced = 0.0
        if more > 0:
            kinks, _, error = window.moved(start, more, rfft(start, window.length))
            aliased = window.aliased(start, more) + error * window.length**0.5
            misplaced = more * window.far + aliased
        gain = window.best_gain(kinks, rfft(kinks, window.length)) + misplaced * window.range
        left_of = np.min(window.most_right + np.cumsum(kinks) * window.most)
        right_of = np.min(window.most_left + np.cumsum(kinks[::-1]) * window.most)
        floor = float(left_of) + misplaced * window.range + 4.0 * _MARGIN
        # one more step does not lower the value one mean to the left
        shift = math.ceil((math.expm1(self.policy.loss) + self.cells.over) / step) + 1
        value = np.concatenate([np.zeros(shift), np.cumsum(np.cumsum(kinks)) * step])[: window.size]
        after = np.maximum(value - aliased * step * window.length, 0.0)
        with np.errstate(divide="ignore"):
            factor = float(np.divide(right_of + misplaced * window.range, after[-1]))
        return _Check(steps, window.sums, gain, after, floor, factor)

    def log_value(self, start: float) -> float:
        """An upper bound on log V_T(start)."""
        count = self.policy.count
        base, tilt = self._contour(start)
        lack = self.exact * (math.expm1(self.policy.loss) + self.cells.over)
        value = base + self._expected(start, tilt) + self.lift
        value += self.steeper * (base + lack - float(self.sums[0]))
        value += self.clamped * min(base + lack, self._beyond(start, tilt))
        steps, log_product, added = self.exact, 0.0, 0.0
        while steps < count:
            factor, constant = self._cost(self._checked(steps), start, tilt, base)
            later = math.ceil(_CHECK_GROWTH * steps)
            settled = (count - steps) * (factor * base + constant) < _HARMLESS * base
            if settled or later > _MOST_STEPS:
                later = count
            more = min(later, count) - steps
            log_product += more * math.log1p(factor)
            added += more * constant
            steps += more
        cut = math.log(count * self.cells.over)
        return float(np.logaddexp(log_product + math.log(value + added), cut))

    def _beyond(self, start: float, tilt: float) -> float:
        """An upper bound on E(start + S - s)_+ for the last place s, and S the sum of any later steps.

        From y_+ <= e^{theta y} / (e theta).
        """
        nodes, best = self.lattice.nodes * self.lattice.step, math.inf
        for theta in (0.7 * tilt, tilt, 1.3 * tilt):
            exponents = np.minimum(theta * nodes, 600.0)
            log_moment = math.log(float(self.cells.weights[0] @ np.exp(exponents))) + 1e-13
            steps = self.policy.count if log_moment > 0.0 else self.policy.count - self.exact
            log_value = steps * log_moment + theta * (start - float(self.sums[-1])) - 1.0
            if float(exponents[-1]) < 600.0:
                best = min(best, math.exp(min(log_value - math.log(theta), 600.0)))
        return best

    def _checked(self, steps: int) -> _Check:
        if steps not in self._checks:
            self._checks[steps] = self._check(steps)
        return self._checks[steps]

    @cached_property
    def _plain_sum(self) -> ShiftedSum:
        """The sum of T steps with others at -u."""
        weights, values = self.cells.weights[0], self.lattice.nodes * self.lattice.step
        used = weights > 0.0
        row, errors = values[None, used], 8.0 * UNIT_ROUNDOFF * np.abs(values[None, used])
        count = np.array([float(self.policy.count)])
        return ShiftedSum(Sums(weights[None, used], row, errors, count))

    def _contour(self, start: float) -> tuple[float, float]:
        """An upper bound on E(start + S_T)_+ for T steps with others at -u, and its tilt."""
        log_value, tilt = self._plain_sum.log_sharp_upper(start, 3e-4)
        return math.exp(log_value), tilt

    def _cost(self, check: _Check, start: float, tilt: float, base: float) -> tuple[float, float]:
        """eps and eta such that a best next step costs at most eps times the final value, plus eta.

        At the sum s it gains at most eps times the value there, plus a constant, plus zeta Psi(s) with
        Psi(s) = e^{theta (s - start)}. That function grows by the largest E[e^{theta Z}] of all cells in
        every step, whatever is chosen, and is one at the start: eta is the constant and zeta times all
        that growth. The check is at lattice points, between which all other functions are linear; Psi
        counts with its value one place to the left.
        """
        if not math.isfinite(check.factor):
            return 0.0, math.inf
        constants = check.constants
        for share in (0.4, 0.7, 1.0):
            theta = _rung(share * tilt)
            # a growth beyond all doubles, or none that is a number, bounds nothing
            log_growth = (self.policy.count - check.steps) * max(self._log_growth(theta), 0.0)
            if log_growth < 600.0:
                logs = check.log_tilted_constants(theta) + theta * (start + self.lattice.step)
                with np.errstate(over="ignore"):
                    largest = np.exp(logs + log_growth) * (1.0 + _MARGIN)
                constants = np.minimum(constants, largest)
        index = int(np.argmin(check.factors * base + constants))
        return float(check.factors[index]), float(constants[index]) + check.floor

    def _log_growth(self, theta: float) -> float:
        """The log of the largest E[e^{theta Z}] of all cells, from above; infinite if it is not known."""
        if theta not in self._growths:
            with np.errstate(over="ignore", invalid="ignore"):
                exponents = theta * self.lattice.nodes * self.lattice.step
                growth = float(np.max(self.cells.weights @ np.exp(exponents)))
            self._growths[theta] = math.log(growth) + 1e-14 if growth < math.inf else math.inf
        return self._growths[theta]

    def _expected(self, start: float, tilt: float) -> float:
        """An upper bound on the mean of what the first steps gain, at the sum of all other steps.

        Left of some place the largest gain counts. From there on a lattice sum S of n copies has
        P[S = y] = e^{-theta y} E[e^{theta Z}]^n P'[S = y] with the tilted variable, and P' is at most its
        sum over y + k L, an inverse transform of length L. Beyond the lattice the gain is that at its
        ends.
        """
        lattice, extra = self.lattice, self.extra
        rest = self.policy.count - self.exact
        if rest == 0:
            return float(np.interp(start, self.sums, extra))
        cells = np.maximum(extra[:-1], extra[1:])
        largest = np.maximum.accumulate(extra)[:-1]
        best = math.inf
        # start + y steps is not left of place y + first, and not right of the next
        first = math.floor(start / lattice.step) + self.origin
        for share in (0.8, 1.0):
            theta = _rung(share * tilt)
            if theta * float(lattice.nodes[-1]) * lattice.step > 600.0:
                continue
            total, chances = self._chances(theta)
            places = (np.arange(extra.size - 1) - first) % chances.size
            log_lead = rest * math.log(total) + rest * 64.0 * UNIT_ROUNDOFF
            logs = log_lead - theta * (self.sums[:-1] - start)
            with np.errstate(over="ignore", invalid="ignore"):
                terms = np.where(cells > 0.0, cells * chances[places] * np.exp(logs), 0.0)
            log_tail = min(rest * math.log(total) - theta * (self.sums[-1] - start), 0.0)
            tail = float(extra[-1]) * math.exp(log_tail)
            best = min(best, float(np.min(np.cumsum(terms[::-1])[::-1] + largest)) + tail)
        return best

    def _chances(self, theta: float) -> tuple[float, Array]:
        """E[e^{theta Z}], and upper bounds on P'[S = y] of all later steps, y modulo L."""
        if theta in self._tilted_sums:
            return self._tilted_sums[theta]
        lattice, rest = self.lattice, self.policy.count - self.exact
        spread = 8.0 * lattice.deviation / lattice.step * math.sqrt(rest)
        length = next_fast_len(int(min(max(spread, self.extra.size), _LARGEST_SUM)), real=True)
        units = 16.0 * math.log2(length) * UNIT_ROUNDOFF
        tilted = self.cells.weights[0] * np.exp(theta * lattice.nodes * lattice.step)
        total = float(np.sum(tilted))
        kernel = np.zeros(length)
        np.add.at(kernel, lattice.nodes % length, tilted / total)
        phi = rfft(kernel)
        modulus = np.append(np.abs(phi), np.abs(phi[1:])) + units
        error = rest * units * float(np.mean(modulus ** (rest - 1.0))) + units
        with np.errstate(divide="ignore"):
            power = np.exp(rest * np.log(phi))
        chances = np.maximum(irfft(power, length), 0.0) + error
        self._tilted_sums[theta] = total, chances
        return total, chances
