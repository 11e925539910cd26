"""Poisson-sampled Gaussian steps, composed: delta(epsilon), epsilon(delta), trade-off, in balls.

remove: P = (1-q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2);  add: the reverse.
With M(z) = E_P (dP/dQ)^z = A(z + 1) (remove) or A(-z) (add), A(z) = E_Q w^z, and any tilt > 0,

    delta(eps) = (1 / 2 pi) * integral over t of M_T(z) e^(-z eps) / (z (z+1)),  z = tilt + it.

The integral is a trapezoid sum with step 2 pi / W. Its error is bounded by the integrals over two
parallel lines (no pole in between), the omitted frequencies by a bound of |A| that falls with |t|
(the line of integration in x moved into the complex plane), each A by `moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, isqrt, log, log2, pi

from flint import acb, acb_mat, arb

from tests.reference import planning
from tests.reference.balls import Number, ball, error, precision, relative_radius
from tests.reference.moments import Sampled, integral, log_ratio, quadrature
from tests.reference.planning import Steps

FREQUENCY_LIMIT = 2_000_000
MATRIX_ENTRIES = 400_000  # about 200 MB
PRODUCT_LIMIT = 10**10  # terms of all sums; about two minutes
NATS_PER_DIGIT = log(10)
TILTS = (0.85, 0.7, 0.5, 0.35, 0.2, 0.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)


class Infeasible(ArithmeticError):
    """This reference would need too many frequencies."""


@dataclass(frozen=True)
class Layout:
    """Where the contour lies (floats, all exact in binary)."""

    steps: Steps
    direction: str
    tilt: float
    right: float  # distance to the line that bounds the images from the right
    left: float
    window: float
    frequencies: int
    log_tolerance: float  # of one moment relative to M(tilt)
    bits: int

    @property
    def spacing(self) -> float:
        return 2 * pi / self.window


def window_for(
    steps: Steps, direction: str, epsilon: float, tilt: float, log_goal: float
) -> tuple[float, float, float]:
    """(W, right, left): the smallest window that keeps both image bounds below exp(log_goal)."""

    def needed(shift: float) -> float:
        line = tilt + shift
        size = planning.log_total_moment(steps, direction, line) - line * epsilon - log(2 * line)
        return (max(size - log_goal, 0.0) + 1.0) / abs(shift)

    left = min((0.3, 0.6, 0.8, 0.9, 0.97), key=lambda part: needed(-part * tilt)) * tilt
    rights = [tilt * 2.0**k for k in range(-14, 6)]
    best = rights[0]
    for candidate in rights:  # rises steeply after its minimum: stop there
        if needed(candidate) <= needed(best):
            best = candidate
        else:
            break
    return max(needed(best), needed(-left)), best, left


def frequency_cut(steps: Steps, direction: str, tilt: float, log_goal: float) -> float:
    """The frequency beyond which the tail of the contour is below exp(log_goal)."""
    power = planning.power_of(direction, tilt)

    def tail(t: float) -> float:
        return -log(pi * t) + sum(n * planning.decay(q, s, power, t)[0] for q, s, n in steps)

    t = tilt
    while tail(t) > log_goal and t < 1e13:
        t *= 2
    low, high = t / 2, t
    for _ in range(4):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if tail(middle) > log_goal else (low, middle)
    return high


def lay_out(
    steps: Steps, direction: str, epsilon: float, digits: int, log_delta: float | None = None
) -> Layout:
    """A contour good for delta(epsilon) to `digits` relative digits near epsilon."""
    tilt = short(planning.saddle(steps, direction, epsilon))
    if log_delta is None:
        log_delta = planning.log_delta(steps, direction, epsilon)
    goal = log_delta - digits * NATS_PER_DIGIT - 3.0
    best = (*window_for(steps, direction, epsilon, tilt, goal), tilt)
    for factor in TILTS:  # far from the saddle digits are lost, but the window may be much smaller
        other = short(tilt * factor)
        candidate = (*window_for(steps, direction, epsilon, other, goal), other)
        if candidate[0] < 0.8 * best[0]:
            best = candidate
    window, right, left, tilt = best
    tilt, right, left = short(tilt), short(right, 8), short(left, 8)
    cut = frequency_cut(steps, direction, tilt, goal + tilt * epsilon)
    frequencies = ceil(cut * window / (2 * pi)) + 1
    if frequencies > FREQUENCY_LIMIT:
        raise Infeasible(f"{frequencies} frequencies")
    lead = planning.log_total_moment(steps, direction, tilt) - tilt * epsilon
    count = sum(n for _, _, n in steps)
    tolerance = (goal - lead) * (1 + 1 / count) - log(count) - 10.0
    bits = ceil(-tolerance * 1.5 + log2(count) + log2(1 + cut * max(epsilon, 1)) + 64)
    return Layout(steps, direction, tilt, right, left, window, frequencies, tolerance, bits)


def moment_on_line(step: Sampled, layout: Layout) -> list[acb]:
    """M(tilt + i k spacing) for k = 0..frequencies, each a ball."""
    sign = 1 if layout.direction == "remove" else -1
    power = planning.power_of(layout.direction, layout.tilt)
    log_size = planning.log_moment(step.rate, step.noise_multiplier, power)
    top = arb(layout.spacing) * layout.frequencies * sign
    rule = quadrature(step, [(arb(0), acb(arb(power), top))], log_size, layout.log_tolerance)
    ratios = [log_ratio(step, acb(x)).real for x in rule.nodes]
    terms = [w * (arb(power) * r).exp() for w, r in zip(rule.weights, ratios, strict=True)]
    radius = arb(0, rule.radius)
    angles = [arb(layout.spacing) * ratio * sign for ratio in ratios]
    return [v + acb(radius, radius) for v in fourier_sums(terms, angles, layout.frequencies + 1)]


def fourier_sums(terms: Sequence[arb], angles: Sequence[arb], count: int) -> list[acb]:
    """sum_j terms_j exp(i k angles_j) for k = 0..count-1, as one matrix product.

    Every exponential is taken directly: repeated products would widen the balls by sqrt(2) each.
    """
    rows = isqrt(count - 1) + 1
    columns = ceil(count / rows)
    if count * len(terms) > PRODUCT_LIMIT:
        raise Infeasible(f"{count} frequencies at {len(terms)} nodes")
    block = max(1, MATRIX_ENTRIES // rows)  # nodes at a time, to bound the memory
    total = acb_mat(columns, rows)
    for at in range(0, len(terms), block):
        some_terms, some_angles = terms[at : at + block], angles[at : at + block]
        small = [[acb(0, k * angle).exp() for k in range(rows)] for angle in some_angles]
        big = [
            [t * acb(0, k * rows * a).exp() for t, a in zip(some_terms, some_angles, strict=True)]
            for k in range(columns)
        ]
        total += acb_mat(big) * acb_mat(small)
    return [total[k // rows, k % rows] for k in range(count)]


def real_moment(step: Sampled, power: float, log_relative: float) -> arb:
    """A(power) for a real power, to about exp(log_relative)."""
    log_size = planning.log_moment(step.rate, step.noise_multiplier, power)
    return integral(step, [(arb(0), acb(arb(power)))], log_size, log_relative).real


def falling_bound(step: Sampled, power: float, t: float, count: int) -> arb:
    """An upper bound of |A(power + iu)| for every |u| >= t, to relative 1/count or so.

    |A| <= integral of |F(x + ib)|, b > 0, and that falls with u since arg w(x + ib) > 0.
    """
    s = step.noise_multiplier
    log_value, b = planning.decay(step.rate, s, power, t)
    if b == 0.0:
        return real_moment(step, power, -log(count) - 10.0).upper()
    gauss = b * b / (2 * s * s)  # |phi(x + ib)| / phi(x)
    factors = [(arb(b), acb(power, t) / 2), (-arb(b), acb(power, -t) / 2)]
    value = integral(step, factors, log_value - gauss, -log(count) - 10.0).real
    return (value * (arb(b) ** 2 / (2 * step.s**2)).exp()).upper()


@dataclass(frozen=True)
class Contour:
    """The numbers on one contour; good for `delta` near the planned epsilon."""

    layout: Layout
    coefficients: list[acb]  # M_T(z_k) / (z_k (z_k + 1)), doubled for k > 0
    right_moment: arb
    left_moment: arb
    tail_moment: arb

    def delta(self, epsilon: Number) -> arb:
        """A ball that contains delta(epsilon)."""
        layout = self.layout
        with precision(layout.bits):
            eps, tilt, spacing = ball(epsilon), arb(layout.tilt), arb(layout.spacing)
            rows = isqrt(layout.frequencies) + 1
            near = [acb(0, -spacing * eps * k).exp() for k in range(rows)]
            total = arb(0)
            for start in range(0, layout.frequencies + 1, rows):
                block = self.coefficients[start : start + rows]
                inner = sum((a * b for a, b in zip(block, near, strict=False)), acb(0))
                total += (acb(0, -spacing * eps * start).exp() * inner).real
            value = (-tilt * eps).exp() * spacing / (2 * arb.pi()) * total
            return value + error(self.radius(eps))

    def radius(self, eps: arb) -> arb:
        """Images from both sides and omitted frequencies."""
        layout = self.layout
        tilt, spacing = arb(layout.tilt), arb(layout.spacing)
        total = arb(0)
        for moment, shift in (
            (self.right_moment, arb(layout.right)),
            (self.left_moment, -arb(layout.left)),
        ):
            line = tilt + shift
            growth = (2 * arb.pi() * abs(shift) / spacing).expm1()
            total += moment * (-line * eps).exp() / (2 * line) / growth
        cut = spacing * layout.frequencies
        return total + self.tail_moment * (-tilt * eps).exp() / (arb.pi() * cut)


def build(layout: Layout) -> Contour:
    """Evaluate every moment of a layout in balls."""
    with precision(layout.bits):
        product = [acb(1)] * (layout.frequencies + 1)
        right = left = tail = arb(1)
        cut = layout.frequencies * layout.spacing * (1 - 1e-9)  # a float below the exact cut
        total = sum(n for _, _, n in layout.steps)
        for q, s, n in layout.steps:
            step = Sampled(q, s)
            values = moment_on_line(step, layout)
            product = [p * v**n for p, v in zip(product, values, strict=True)]
            accuracy = -log(total) - 5.0
            right *= _moment(step, layout, layout.right, accuracy).upper() ** n
            left *= _moment(step, layout, -layout.left, accuracy).upper() ** n
            power = planning.power_of(layout.direction, layout.tilt)
            tail *= falling_bound(step, power, cut, total) ** n
        coefficients = []
        for k, value in enumerate(product):
            z = acb(arb(layout.tilt), arb(layout.spacing) * k)
            coefficients.append((1 if k == 0 else 2) * value / (z * (z + 1)))
        return Contour(layout, coefficients, right, left, tail)


def _moment(step: Sampled, layout: Layout, shift: float, accuracy: float) -> arb:
    """M at tilt + shift, both floats: the sum is exact in the ball."""
    exact = arb(layout.tilt) + arb(shift)
    rounded = layout.tilt + shift
    power = planning.power_of(layout.direction, rounded)
    if not exact == arb(rounded) or not _exact_power(layout.direction, rounded, power):
        raise ValueError("tilt and shifts must be short binary numbers")
    return real_moment(step, power, accuracy)


def _exact_power(direction: str, tilt: float, power: float) -> bool:
    return direction == "add" or arb(power) == arb(tilt) + 1


def short(x: float, bits: int = 20) -> float:
    """x rounded to a few bits, so that sums with it are exact floats."""
    if x == 0:
        return 0.0
    scale = 2.0 ** (bits - ceil(log2(abs(x))))
    return round(x * scale) / scale


def is_zero(steps: Steps, direction: str, epsilon: Number) -> bool:
    """Whether epsilon is at least the largest possible total loss, so that delta is zero."""
    if direction == "remove":
        return False
    with precision(256):
        return bool(ball(epsilon) >= sum((-n * (-ball(q)).log1p() for q, _, n in steps), arb(0)))


def delta(steps: Steps, direction: str, epsilon: Number, digits: int = 20) -> arb:
    """delta(epsilon) of the composition, to about that many relative digits."""
    if is_zero(steps, direction, epsilon):
        return arb(0)
    near = float(ball(epsilon))
    log_delta = None
    for extra in (3, 6, 12, 24):
        contour = build(lay_out(steps, direction, near, digits + extra, log_delta))
        value = contour.delta(epsilon)
        if relative_radius(value) <= 10.0**-digits:
            return value
        if value > 0:
            log_delta = float(value.log())
    raise ArithmeticError(f"only {value}")


def epsilon(steps: Steps, direction: str, target: Number, digits: int = 15) -> arb:
    """epsilon(delta) of the composition, to that many relative digits."""
    log_target = float(ball(target).log())
    guess = planning.guess_epsilon(steps, direction, exp(max(log_target, -700.0)))
    for _ in range(40):
        contour = build(lay_out(steps, direction, guess, 4, log_target))
        better = _solve(contour, ball(target), guess)
        done = abs(better - guess) <= 0.02 * guess
        guess = better
        if done:
            break
    contour = build(lay_out(steps, direction, guess, digits + 6, log_target))
    with precision(contour.layout.bits):
        return _certify(contour, ball(target), guess, digits)


def _solve(contour: Contour, target: arb, start: float) -> float:
    """Bisection near the planned epsilon; where the balls do not decide, the start does."""
    low, high = 0.4 * start, 2.0 * start
    while high - low > 1e-5 * start:
        middle = (low + high) / 2
        value = contour.delta(middle)
        beyond = bool(value < target) or (not value > target and middle > start)
        low, high = (low, middle) if beyond else (middle, high)
    return (low + high) / 2


def _certify(contour: Contour, target: arb, guess: float, digits: int) -> arb:
    """A ball proved to contain the root by two evaluations."""
    x, last = arb(guess), arb(guess) * (1 + arb(1e-6))
    f_last = (contour.delta(last).mid() / target).log()
    for _ in range(12):
        f = (contour.delta(x).mid() / target).log()
        if f == f_last or x == last:
            break
        new = (x - f * (x - last) / (f - f_last)).mid()
        last, f_last, x = x, f, new
        if (x - last).abs_upper() < x.abs_lower() * arb(10) ** (-digits - 3):
            break
    radius = x.abs_lower() * arb(10) ** (-digits)
    lower, upper = x - radius, x + radius
    if not (contour.delta(lower) > target > contour.delta(upper)):
        raise ArithmeticError(f"no certificate near {x}")
    return lower.union(upper)


def tradeoff(steps: Steps, direction: str, fpr: Number, digits: int = 15) -> arb:
    """The smallest false-negative rate at that false-positive rate (test of Q against P).

    beta(alpha) = sup over x > 0 of g(x) = 1 - h(x) - alpha x, h(e^eps) = delta(eps). g is concave,
    so three values g(x-d) <= g(x) >= g(x+d) prove sup <= 2 g(x) - min(g(x-d), g(x+d)).
    """
    alpha = ball(fpr)
    epsilon, size = 0.0, 1.0
    for _ in range(30):
        contour = build(lay_out(steps, direction, epsilon, 10))
        new = _best_slope(contour, alpha, epsilon - size, epsilon + size)
        moved, epsilon = abs(new - epsilon), new
        if moved < 0.1 * size:
            size *= 0.25
        if moved < 1e-3:
            break
    contour = build(lay_out(steps, direction, epsilon, digits + 12))
    epsilon = _best_slope(contour, alpha, epsilon - 1e-3, epsilon + 1e-3)
    with precision(contour.layout.bits):
        for exponent in range(12, 2, -1):
            d = arb(10) ** -exponent
            values = []
            for x in (arb(epsilon), arb(epsilon).exp() - d, arb(epsilon).exp() + d):
                at = x if not values else x.log()
                values.append(1 - contour.delta(at) - alpha * at.exp())
            middle, below, above = values
            if middle > below and middle > above:
                return middle.union(2 * middle - below).union(2 * middle - above)
    raise ArithmeticError("no certificate for the trade-off")


def _best_slope(contour: Contour, alpha: arb, low: float, high: float) -> float:
    """argmax of g in epsilon: bisection on the sign of a central difference at 1e-9."""
    with precision(contour.layout.bits):
        for _ in range(60):
            middle = (low + high) / 2
            d = arb(2) ** -30
            change = [
                (1 - contour.delta(x) - alpha * x.exp()).mid()
                for x in (arb(middle) - d, arb(middle) + d)
            ]
            if change[1] > change[0]:
                low = middle
            else:
                high = middle
    return (low + high) / 2


def renyi(steps: Steps, direction: str, order: float, digits: int = 20) -> arb:
    """D_order of the composition, any real order > 1 (also in the add direction)."""
    power = order if direction == "remove" else 1 - order
    if direction == "add" and not arb(power) == 1 - arb(order):
        raise ValueError("order must be a short binary number")
    with precision(int(digits * 4) + 96):
        total = arb(0)
        for q, s, n in steps:
            total += n * real_moment(Sampled(q, s), power, -(digits + 3) * NATS_PER_DIGIT).log()
        return total / (arb(order) - 1)
