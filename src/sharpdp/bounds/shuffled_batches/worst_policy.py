"""The worst adaptive behavior of the other examples in an epoch that leaves somebody out, from above.

The envelope (`bounds.shuffled_batches.vacant_seat`) lets every batch be the worst for each threshold by
itself. What an adversary can do is choose, batch by batch and knowing all earlier results, the angle
between the record and the others. The largest value of that is a Bellman recursion

    V_0(s) = s_+,   V_{k+1}(s) = max_a E V_k(s + Z_a),   a = <u, v> in [-1, 1],

and H_x <= share * V_T(-shift). docs/vacant-seat.md has the proof of this, and of the two steps by which
it is bounded here:

- *Angles by cells.* All Z_a with a in one cell are below one variable in the convex order: it has the
  calls of one end of the cell and the puts of the other.
- *Most steps by a contour.* After K exact steps the others keep to a = -1, and what a better choice would
  gain is at most eps times the value plus eta, with numbers that are checked at K and hold for all
  later steps.

Everything is done on a lattice with FFTs whose rounding errors are added; values only ever rise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import fft, irfft, next_fast_len, rfft

from sharpdp.numerics.expected_positive_part import Sums
from sharpdp.numerics.hull import lower_hull
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, cell_masses, ndtr

__all__ = ["WorstPolicy"]

_ANGLES = np.array([-1.0, -0.985, -0.965, -0.92, -0.83, -0.6, -0.1, 0.5, 1.0])
"""Ends of the cells of a. Next to -1, where the others mostly stay, a cell costs its width."""

_STEP, _GROWTH = 0.1, 0.08
"""The lattice's step in deviations of Z, and by which share of themselves the nodes of Z are apart."""

_FEW_STEPS, _EXACT_STEPS, _MOST_STEPS = 150, 48, 400
"""So many steps are all done with all angles; of more steps the first ones, and the gain is looked at
again until so many are done."""

_PLACES, _LARGEST_LATTICE = 12_000, 1 << 15
"""With more places than this the lattice gets coarser; it is never larger than this."""

_NORMAL_STEP, _NORMAL_REACH = 0.02, 7.5
"""Cells of the normal variable that both ratios share, as a change of the logarithm of one of them, and
how far they reach: what is beyond is worth 1e-13, less than the margin."""

_MARGIN = 1e-12
"""Added to calls and puts for rounding: a hundred times what their sums lose."""


@dataclass(frozen=True)
class WorstPolicy:
    """One epoch of `count` batches at x = e^loss; the value is that of `shift` less, in batch shares."""

    noise: float
    loss: float
    kind: str
    count: int
    shift: float

    def log_value(self) -> float:
        """An upper bound on log V_T(-shift); infinite if the lattice would be too large."""
        lattice = self._lattice
        if lattice is None:
            return math.inf
        recursion = _Recursion(self, lattice)
        with np.errstate(under="ignore"):
            return recursion.log_value() + _MARGIN

    @cached_property
    def ratio(self) -> float:
        """The threshold x on the likelihood ratio."""
        return math.exp(self.loss)

    @property
    def is_forward(self) -> bool:
        return self.kind == "forward"

    @cached_property
    def drift(self) -> float:
        """By how much all batches together fall short of zero on average."""
        return self.count * math.expm1(self.loss) + self.shift

    @cached_property
    def _lattice(self) -> _Lattice | None:
        """A lattice for the sums, and nodes on it for Z; any choice is safe."""
        grid = np.geomspace(1e-3, 1e6, 300)
        calls = np.maximum(*(_edge_options(self, edge, grid) for edge in (-1.0, 1.0)))
        puts = np.maximum(*(_edge_options(self, edge, -grid) for edge in (-1.0, 1.0)))
        cap, deviation = math.inf, 1.0
        for _ in range(6):  # values beyond the cap decide by themselves, so that they may be cut
            below = np.minimum(grid, cap)
            kept = calls - np.interp(cap, grid, calls)
            square = 2.0 * np.trapezoid(np.maximum(kept, 0.0), below) + 2.0 * np.trapezoid(
                _edge_options(self, -1.0, -grid), grid
            )
            deviation = math.sqrt(square)
            cap = 1.2 * self.drift + max(3.0 * math.sqrt(self.count), 6.0) * deviation
        steps = min(self.count, _MOST_STEPS)
        reach = 7.0 * deviation * math.sqrt(steps)
        high, low = reach + steps * math.expm1(self.loss), -max(1.05 * self.drift + reach, cap)
        finest = _STEP * min(deviation, 4.0 * float(calls[0]))
        step = max(finest, min(3.0 * _STEP * deviation, (high - low) / _PLACES))
        negligible = 1e-7 * np.interp(self.drift / self.count, grid, calls) / self.count
        floor = min(float(grid[np.argmax(puts <= negligible)]), high - low)
        nodes = np.concatenate([-_graded(floor / step)[::-1], [0], _graded(cap / step)])
        size = int((high - low) / step) + 2
        length = next_fast_len(size + int(nodes[-1] - nodes[0]), real=True)
        if length > _LARGEST_LATTICE:
            return None
        return _Lattice(step, int(-low / step) + 1, size, nodes, length)


def _graded(end: float) -> np.ndarray:
    """Whole numbers from one to the end, a share of themselves apart."""
    numbers = [1]
    while numbers[-1] < end:
        numbers.append(max(numbers[-1] + 1, round(numbers[-1] * (1.0 + _GROWTH))))
    return np.array(numbers)


@dataclass(frozen=True)
class _Lattice:
    """Sums are (j - origin) * step for 0 <= j < size; Z is on some whole multiples of the step."""

    step: float
    origin: int
    size: int
    nodes: np.ndarray
    length: int

    @property
    def left(self) -> int:
        """By how many places Z may go down."""
        return int(-self.nodes[0])

    @cached_property
    def highs(self) -> Array:
        """Nodes from zero up."""
        return np.asarray(self.nodes[self.nodes >= 0] * self.step)

    @cached_property
    def lows(self) -> Array:
        """Nodes from zero down, without their signs."""
        return np.asarray(-self.nodes[self.nodes <= 0][::-1] * self.step)

    @cached_property
    def sums(self) -> Array:
        """The places of the lattice."""
        return np.asarray((np.arange(self.size) - self.origin) * self.step)


def _edge_options(policy: WorstPolicy, edge: float, strikes: Array) -> Array:
    """Calls of Z at strikes from zero on, puts at those below, for others at -u (-1) or at u (1).

    Z is then a function of one normal variable: with R1 and R2 as in `vacant_seat.Step`, it is
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


def _options(policy: WorstPolicy, angle: float, strikes: Array) -> Array:
    """Upper bounds on calls of Z_a at strikes from zero on, and on puts at those below.

    Let A and B be the densities of the record and of the null record over that of the others. Given the
    normal variable g of B = e^{g/s - 1/(2 s^2)}, A is lognormal with mean M = B^gamma times a constant,
    gamma = 1 - a, and the option is that of Black and Scholes, convex in (M, B) and monotone in M. In a
    cell of g, M is bounded by a line in B, a chord or a tangent; the option is then convex in B, and at
    most its mean over the ends of the cell with the mean of B kept.
    """
    s, x, gamma = policy.noise, policy.ratio, 1.0 - angle
    spread = math.sqrt(1.0 - angle**2) / s
    width = _NORMAL_STEP * s
    edges = np.arange(-_NORMAL_REACH, _NORMAL_REACH + 2.0 / s + width, width)
    masses, means = cell_masses(edges, 0.0), cell_masses(edges, 1.0 / s)
    middle = 0.5 * (edges[:-1] + edges[1:])
    b, b_middle = (np.exp(z / s - 0.5 / s**2) for z in (edges, middle))
    m, m_middle = (np.exp(gamma * z / s - 0.5 * (gamma / s) ** 2) for z in (edges, middle))
    slope = gamma * m_middle / b_middle
    chord = (m[:-1], m[1:])
    tangent = (m_middle + slope * (b[:-1] - b_middle), m_middle + slope * (b[1:] - b_middle))
    above, below = (chord, tangent) if gamma >= 1.0 else (tangent, chord)
    upper_share = np.clip((means - masses * b[:-1]) / (masses * np.diff(b)), 0.0, 1.0)
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
            paid = np.maximum(price, 1e-300)
            distance = (np.log(mean) - np.log(paid)) / spread + 0.5 * spread
            if buys:
                option = mean * ndtr(distance) - paid * ndtr(distance - spread)
                option = np.where(price > 0.0, option, mean - price)
            else:
                option = paid * ndtr(spread - distance) - mean * ndtr(-distance)
                option = np.where(price > 0.0, option, 0.0)
            total += np.maximum(option, 0.0) @ weight
        values[chosen] = total * (1.0 if policy.is_forward else x)
    return values


@dataclass(frozen=True)
class _Cells:
    """One variable on the nodes for each cell of angles, above all Z_a of the cell in the convex order.

    `weights` has a row each, `calls` and `puts` are theirs at the nodes, and `over` bounds what
    was cut off above the last node, E(Z - cap)_+.
    """

    weights: Array
    calls: Array
    puts: Array
    over: float

    @staticmethod
    def of(policy: WorstPolicy, lattice: _Lattice) -> _Cells:
        strikes = np.append(-lattice.lows[:0:-1], lattice.highs)
        options = np.array(
            [
                _edge_options(policy, angle, strikes)
                if abs(angle) == 1.0
                else _options(policy, angle, strikes)
                for angle in _ANGLES
            ]
        )
        zero = lattice.lows.size - 1
        calls, puts = options[:, zero:], options[:, zero::-1].copy()
        # at strike zero the angle does not matter; puts there by parity, so that means agree
        calls[:, 0] = calls[0, 0]
        puts[:, 0] = calls[0, 0] + math.expm1(policy.loss)
        margin = _MARGIN * (1.0 + policy.ratio)
        # forward, calls fall and puts rise with a; backward it is the other way round
        low, high = (slice(None, -1), slice(1, None))
        if not policy.is_forward:
            low, high = high, low
        up = np.array([_convex(lattice.highs, row + margin) for row in calls[low]])
        down = np.array([_convex(lattice.lows, row + margin) for row in puts[high]])
        over = float(np.max(up[:, -1]))
        up, down = np.maximum(up - over, 0.0), down - down[:, -1:]
        high_weights = _second_differences(lattice.highs, up)
        low_weights = _second_differences(lattice.lows, down)
        rest = 1.0 - high_weights.sum(axis=1) - low_weights.sum(axis=1)
        weights = np.hstack([low_weights[:, ::-1], rest[:, None], high_weights])
        return _Cells(weights, up, down, over)

    @property
    def means(self) -> Array:
        return np.asarray(self.calls[:, 0] - self.puts[:, 0])


def _convex(x: Array, y: Array) -> Array:
    """The largest convex function below the points, at the same places."""
    corners = lower_hull(list(zip(x.tolist(), y.tolist(), strict=True)))
    return np.interp(x, x[corners], y[corners])


def _second_differences(x: Array, rows: Array) -> Array:
    """Weights beyond the first place of variables whose calls these rows are."""
    slopes = np.hstack([np.diff(rows) / np.diff(x), np.zeros((rows.shape[0], 1))])
    return np.maximum(np.diff(slopes), 0.0)


class _Recursion:
    """Values of the recursion on the lattice, as what they are above a ramp that moves with the mean.

    V_k(s) = (s + ramp)_+ + excess(s) for lattice sums s; left of the lattice V_k is constant, right of it
    its slope is one. `noise` bounds what rounding has added to or taken from the excess.
    """

    def __init__(self, policy: WorstPolicy, lattice: _Lattice) -> None:
        self.policy, self.lattice = policy, lattice
        self.cells = _Cells.of(policy, lattice)
        kernels = np.zeros((len(self.cells.weights), lattice.length))
        kernels[:, lattice.nodes % lattice.length] = self.cells.weights
        self._kernels = np.conj(rfft(kernels))
        self._mean = float(self.cells.means[0])
        most = min(policy.count, _MOST_STEPS) + 1
        moves = max(math.ceil(-most * self._mean / lattice.step), 0) + 1
        # one step from (t)_+, for t on a longer lattice
        times = (np.arange(lattice.size + moves) - lattice.origin - moves) * lattice.step
        self._first = np.array(
            [
                np.where(
                    times <= 0.0,
                    np.interp(-times, lattice.highs, up, right=0.0),
                    np.interp(times, lattice.lows, down, right=0.0) + up[0] - down[0],
                )
                for up, down in zip(self.cells.calls, self.cells.puts, strict=True)
            ]
        )
        self._moves = moves

    def _ramp(self, steps: int) -> int:
        """By how many places the ramp has moved after so many steps."""
        return min(max(round(-steps * self._mean / self.lattice.step), 0), self._moves)

    def _apply(self, excess: Array, steps: int, cells: slice) -> tuple[Array, float]:
        """Excesses after one more step with each of the cells, above the next ramp, and their error."""
        lattice = self.lattice
        padded = np.empty(lattice.length)
        padded[: lattice.left] = excess[0]
        padded[lattice.left : lattice.left + lattice.size] = excess
        padded[lattice.left + lattice.size :] = excess[-1]
        turned = irfft(rfft(padded) * self._kernels[cells], lattice.length)
        ramp, later = self._ramp(steps), self._ramp(steps + 1)
        start = self._moves - ramp
        first = self._first[cells, start : start + lattice.size]
        values = turned[:, lattice.left : lattice.left + lattice.size] + first
        if later > ramp:  # both are right of the origin, where the lower ramp starts later
            values[:, lattice.origin + ramp :] += lattice.step * np.minimum(
                np.arange(lattice.size - lattice.origin - ramp), later - ramp
            )
        # a transform errs by less than 4 log2(N) units of the norm; three of them, and what is added
        units = 16.0 * math.log2(lattice.length) * UNIT_ROUNDOFF
        return values, units * (float(np.linalg.norm(padded)) + 2.0 * float(np.max(first)))

    def log_value(self) -> float:
        """An upper bound on log V_T(-shift)."""
        count = self.policy.count
        every, one = slice(None), slice(0, 1)
        excess, plain = np.zeros(self.lattice.size), np.zeros(self.lattice.size)
        noise = plain_noise = 0.0
        exact = count if count <= _FEW_STEPS else _EXACT_STEPS
        for step in range(exact):
            values, error = self._apply(excess, step, every)
            excess, noise = np.max(values, axis=0) + error, noise + error
            values, error = self._apply(plain, step, one)
            plain, plain_noise = values[0], plain_noise + error
        base = self._contour()
        difference = np.maximum(excess - plain + plain_noise, 0.0)
        outside = (float(excess[0]), float(excess[-1]) + self.lattice.step)
        beyond = self._expected(difference, exact, outside)
        steps, log_product, added = exact, 0.0, 0.0
        while steps < count:
            factor, constant = self._gain(excess, steps, noise, base)
            more = steps // 3
            settled = (count - steps) * (factor * base + constant) < 2e-3 * base
            last = settled or steps + more >= _MOST_STEPS
            more = count - steps if last else min(more, count - steps)
            log_product += more * math.log1p(factor)
            added += more * constant
            if last:
                break
            for step in range(steps, steps + more):
                values, error = self._apply(excess, step, one)
                excess, noise = values[0] + error, noise + error
                added += 2.0 * error
            steps += more
        cut = math.log(count * self.cells.over)
        return float(np.logaddexp(log_product + math.log(base + beyond + added), cut))

    def _contour(self) -> float:
        """An upper bound on E(S_T - shift)_+ for T copies of the first cell's variable."""
        weights, values = self.cells.weights[0], self.lattice.nodes * self.lattice.step
        used = weights > 0.0
        moved = values[used] - self.policy.shift / self.policy.count
        errors = 8.0 * UNIT_ROUNDOFF * (np.abs(values[used]) + np.abs(moved))
        sums = Sums(weights[used], moved[None], errors[None], float(self.policy.count))
        self._tilt = float(sums.tilts()[0])
        ceiling = float(sums.log_ceilings(np.array([self._tilt]))[0])
        return math.exp(min(ceiling, sums.log_sharp_upper(0, self._tilt, 3e-4)))

    def _gain(self, excess: Array, steps: int, noise: float, base: float) -> tuple[float, float]:
        """eps and eta such that a best next step costs at most eps times the final value, plus eta.

        At the sum s it gains at most eps times the value there, plus a constant, plus zeta Psi(s) with
        Psi(s) = e^{theta (s - start)}. That function grows by the largest E[e^{theta Z}] of all cells in
        every step, whatever is chosen, and is one at the start: eta is the constant and zeta times all
        that growth. The check is at lattice points, between which all other functions are linear; Psi
        counts with its value one place to the left. Left of the lattice the value is constant and the
        best step rises, right of it both have slope one at most.
        """
        lattice = self.lattice
        values, error = self._apply(excess, steps, slice(None))
        best = np.max(values, axis=0) + error + 2.0 * noise
        ramp = np.maximum(np.arange(lattice.size) - lattice.origin - self._ramp(steps + 1), 0)
        after = np.maximum(values[0] + ramp * lattice.step - error, 0.0)
        gain = best - values[0] + error
        # here the ramps count: V_k at both ends of the lattice
        right = best[-1] - excess[-1] - self._mean
        right += (self._ramp(steps) - self._ramp(steps + 1)) * lattice.step
        left = best[0] - excess[0]
        floor = max(left, right, 4.0 * (error + noise))
        candidates = np.append(0.0, np.geomspace(1e-9, 0.03, 40))
        rests = gain - candidates[:, None] * after - floor
        constants = np.maximum(np.max(rests, axis=1), 0.0)
        for share in (0.4, 0.7, 1.0):
            theta = share * self._tilt
            exponents = theta * (lattice.sums + self.policy.shift - lattice.step)
            growth = np.max(self.cells.weights @ np.exp(theta * lattice.nodes * lattice.step))
            log_growth = (self.policy.count - steps) * max(math.log(growth) + 1e-14, 0.0)
            with np.errstate(over="ignore"):
                scaled = np.max(rests * np.exp(-np.maximum(exponents, -600.0)), axis=1)
            constants = np.minimum(
                constants, np.maximum(scaled, 0.0) * math.exp(min(log_growth, 600.0))
            )
        index = int(np.argmin(candidates * base + constants))
        return float(candidates[index]), float(constants[index]) + floor

    def _expected(self, difference: Array, steps: int, outside: tuple[float, float]) -> float:
        """An upper bound on the mean of V_k - (its value without choices) at the sum of all other steps.

        Left of some place the largest difference counts. From there on a lattice sum S of n copies has
        P[S = y] <= e^{-theta y} E[e^{theta Z}]^n mean |psi|^n over frequencies, psi the
        characteristic function of the tilted variable; for even n any equally spaced frequencies
        do, since what they alias is positive. Left and right of the lattice the difference is at most
        `outside`.
        """
        policy, lattice = self.policy, self.lattice
        rest, start = policy.count - steps, -policy.shift
        if rest == 0:
            return float(np.interp(start, lattice.sums, difference))
        cells = np.maximum(difference[:-1], difference[1:])
        largest = np.maximum(np.maximum.accumulate(difference)[:-1], outside[0])
        strikes, best = lattice.nodes * lattice.step, math.inf
        for share in (0.6, 0.8, 1.0):
            theta = share * self._tilt
            tilted = self.cells.weights[0] * np.exp(np.minimum(theta * strikes, 600.0))
            total = float(np.sum(tilted))
            spread = np.zeros(lattice.length)
            spread[lattice.nodes % lattice.length] = tilted / total
            modulus = np.abs(fft(spread)) + 64.0 * UNIT_ROUNDOFF
            log_lead = rest * math.log(total) + rest * 64.0 * UNIT_ROUNDOFF
            log_lead += math.log(float(np.mean(modulus ** (2.0 * (rest // 2)))))
            logs = log_lead - theta * (lattice.sums[:-1] - start)
            terms = cells * np.exp(np.minimum(logs, 600.0))
            log_tail = min(rest * math.log(total) - theta * (lattice.sums[-1] - start), 0.0)
            tail = outside[1] * math.exp(log_tail)
            best = min(best, float(np.min(np.cumsum(terms[::-1])[::-1] + largest)) + tail)
        return best
