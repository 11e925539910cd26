"""The shuffle model with many users, in balls: the pair of clones, randomized response, Renyi.

E = e^local_epsilon, w = 1 / (E + 1), x = e^epsilon. Two routes to the pair of clones:

- conditionally on the number C of clones (any clone rate): with s = 1 - w - x w and
  g = (x (1 - w) - w) / s, delta = s sum_c P[C=c] (P[A=k-1] - (g-1) P[A>=k]), A ~ Bin(c, 1/2),
  k = ceil(g (c+1) / (1+g));
- as a trinomial (the rate 2 / (E + 1) of a shared randomizer): delta = E (a u - b v - c t)_+ / n,
  (a, b, c) ~ Mult(n; p, p, 1-2p) with p = w, u = E - x, v = x E - 1, t = 0. The same sum with
  p = 1 / (E + 2) and t = (x - 1) / E is shuffled ternary randomized response, the others all
  holding the third symbol.

Sums run over a window of the binomial; what is left out is bounded by a geometric series.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flint import arb

from tests.reference.balls import (
    LOG2_10,
    Number,
    ball,
    error,
    inverse_of_decreasing,
    precision,
)
from tests.reference.binomials import Coins, weights

SHARED = "shared"
UNDECIDED = arb("nan")
TINY = arb("1e-320")
MOST_NATS = 1e5  # an undecided tie never ends otherwise
NEAR_HALF = 0.4971  # a bisection that never lands on epsilon = 0, where many points tie


def rate_of(randomizer: str, odds: arb) -> arb:
    """The clone rate: 2 / (E + 1) if all users share one randomizer, else 1 / E."""
    return 2 / (odds + 1) if randomizer == SHARED else 1 / odds


# --- the pair of clones, conditionally on the number of clones --------------------------------------


@dataclass(frozen=True)
class Cut:
    """delta at one epsilon, and the P- and Q-mass of the points whose ratio P / Q is above it."""

    delta: arb
    p: arb
    q: arb


NOWHERE = Cut(UNDECIDED, UNDECIDED, UNDECIDED)


def cut_ball(users: int, local: arb, epsilon: arb | int, randomizer: str, nats: float) -> Cut:
    """The cut at the current precision."""
    odds, x = local.exp(), arb(1) if isinstance(epsilon, int) else epsilon.exp()
    w = 1 / (odds + 1)
    s = 1 - w - x * w
    g = arb(1) if isinstance(epsilon, int) else (x * (1 - w) - w) / s
    if not s > 0 or not (g > 1 or isinstance(epsilon, int)):
        return NOWHERE
    share = g / (1 + g)
    law = weights(users - 1, rate_of(randomizer, odds), nats)
    total, heavy, light, coins = arb(0), arb(0), arb(0), None
    for c, weight in enumerate(law.values, law.low):
        k = share_of(share, c + 1, epsilon)
        if k is None:
            return NOWHERE
        if coins is None:
            coins = Coins.start(c, k - 1)
        coins.to(c, k - 1)
        before = coins.point
        coins.to(c, k)
        total += weight * (before - (g - 1) * coins.tail)
        heavy += weight * (before + coins.tail)
        light += weight * coins.tail
    rest = error(law.below + law.above)
    delta = s * (total + rest)
    return Cut(
        delta,
        (1 - w) * (heavy + rest) + w * (light + rest),
        (1 - w) * (light + rest) + w * (heavy + rest),
    )


def share_of(share: arb, whole: int, epsilon: arb | int) -> int | None:
    """ceil(share * whole); None if the ball does not decide. A half exactly if epsilon is int 0."""
    if isinstance(epsilon, int):
        return (whole + 1) // 2
    found = (share * whole).ceil().unique_fmpz()
    return None if found is None else int(found)


def widened(compute: Callable[[float], arb], digits: int, nats: float = 80.0) -> arb:
    """A value to so many digits: windows and precision grow until the ball is that narrow.

    A ball of values below TINY is returned as it is.
    """
    while nats < MOST_NATS:
        with precision(int(2 * digits * LOG2_10 + nats) + 128):
            value = compute(nats)
        if value.is_finite():
            if value.abs_upper() < TINY:
                return value
            if value.abs_lower() > 0 and value.rad() <= value.abs_lower() * 10.0**-digits:
                return value
        nats *= 2
    raise ArithmeticError(f"no {digits} digits: {value}")


def delta(
    users: int,
    local_epsilon: Number,
    epsilon: Number,
    randomizer: str = SHARED,
    digits: int = 20,
    nats: float = 80.0,
) -> arb:
    """delta(epsilon) of the pair of clones; the same in both directions."""
    if not isinstance(epsilon, arb) and epsilon >= local_epsilon:
        return arb(0)

    def compute(reach: float) -> arb:
        at = 0 if not isinstance(epsilon, arb) and epsilon == 0 else ball(epsilon)
        return cut_ball(users, ball(local_epsilon), at, randomizer, reach).delta

    return widened(compute, digits, nats)


def fnr(
    users: int, local_epsilon: float, fpr: Number, randomizer: str = SHARED, digits: int = 14
) -> arb:
    """The trade-off function of the pair of clones: max over x of 1 - H(x) - x fpr.

    The maximum lies where the Q-mass above the cut passes fpr; between two cuts on either side the
    concave function is at most where their tangents meet.
    """
    bits = int(digits * 3 * LOG2_10) + 256
    with precision(bits):
        local, target = ball(local_epsilon), ball(fpr)
        low, high = -local, local
        ends = [Cut(1 - low.exp(), arb(1), arb(1)), Cut(arb(0), arb(0), arb(0))]
        while True:
            best, limit = tangents(low, high, ends[0], ends[1], target)
            if limit - best < 10.0**-digits:
                return best.union(limit)
            middle = (low + NEAR_HALF * (high - low)).mid()
            one = cut_at(users, local_epsilon, middle, randomizer)
            if one.q > target:
                low, ends[0] = middle, one
            elif one.q < target:
                high, ends[1] = middle, one
            else:
                raise ArithmeticError("undecided: more bits")


def cut_at(users: int, local_epsilon: float, epsilon: arb, randomizer: str) -> Cut:
    """The cut at any epsilon of either sign, H at the inverse by H(1/x) = 1 - 1/x + H(x) / x."""
    local = ball(local_epsilon)
    if epsilon > 0:
        return cut_ball(users, local, epsilon, randomizer, 120.0)
    mirrored = cut_ball(users, local, -epsilon, randomizer, 120.0)
    x = epsilon.exp()
    return Cut(1 - x + x * mirrored.delta, 1 - mirrored.q, 1 - mirrored.p)


def tangents(low: arb, high: arb, left: Cut, right: Cut, fpr: arb) -> tuple[arb, arb]:
    """(value, limit) of the maximum of 1 - H(x) - x fpr between two cuts."""
    a, b = low.exp(), high.exp()
    at_a, at_b = 1 - left.delta - a * fpr, 1 - right.delta - b * fpr
    rise, fall = left.q - fpr, right.q - fpr
    meet = (at_b - at_a + a * rise - b * fall) / (rise - fall)
    return at_a.max(at_b), at_a + rise * (meet - a)


# --- shared randomizers as a trinomial -------------------------------------------------------------


def trinomial_ball(
    users: int, p: arb, slopes: tuple[arb, arb, arb], nats: float, *, halves: bool
) -> arb:
    """E (a u - b v - c t)_+ / n, (a, b, c) ~ Mult(n; p, p, 1-2p); `halves` if u = v and t = 0."""
    u, v, t = slopes
    law = weights(users, 2 * p, nats)
    total, coins = arb(0), None
    for count, weight in enumerate(law.values, law.low):
        loss = count * v + (users - count) * t
        if halves:
            k = count // 2 + 1
        else:
            found = (loss / (u + v)).floor().unique_fmpz()
            if found is None:
                return UNDECIDED
            k = int(found) + 1
        k = min(k, count + 1)
        if coins is None:
            coins = Coins.start(count, k)
        coins.to(count, k)
        gain = (u + v) * (count * coins.tail + k * coins.point) / 2
        total += weight * (gain - loss * coins.tail)
    return total / users + error(u * (law.below + law.above))


def slopes(odds: arb, x: arb) -> tuple[arb, arb]:
    """(u, v) = (E - x, x E - 1)."""
    return odds - x, x * odds - 1


def blanket_delta(
    users: int, local_epsilon: float, epsilon: float, digits: int = 20, nats: float = 80.0
) -> arb:
    """delta of the shared pair by the trinomial route."""

    def compute(reach: float) -> arb:
        odds, x = ball(local_epsilon).exp(), ball(epsilon).exp()
        u, v = slopes(odds, x)
        return trinomial_ball(
            users, 1 / (odds + 1), (u, v, arb(0)), reach, halves=bool(epsilon == 0)
        )

    return arb(0) if epsilon >= local_epsilon else widened(compute, digits, nats)


def ternary_delta(
    users: int, local_epsilon: float, epsilon: Number, digits: int = 20, nats: float = 80.0
) -> arb:
    """delta of ternary randomized response, the others all holding the third symbol; symmetric."""

    def compute(reach: float) -> arb:
        odds, x = ball(local_epsilon).exp(), ball(epsilon).exp()
        u, v = slopes(odds, x)
        halves = not isinstance(epsilon, arb) and epsilon == 0
        return trinomial_ball(users, 1 / (odds + 2), (u, v, (x - 1) / odds), reach, halves=halves)

    if not isinstance(epsilon, arb) and epsilon >= local_epsilon:
        return arb(0)
    return widened(compute, digits, nats)


# --- binary randomized response, the others all holding 0 -------------------------------------------


def binary_delta(
    users: int, local_epsilon: float, epsilon: Number, victim: int, digits: int = 20
) -> arb:
    """delta with P the law if the victim holds `victim` and Q if the other; all others hold 0."""
    if not isinstance(epsilon, arb) and epsilon >= local_epsilon:
        return arb(0)

    def compute(nats: float) -> arb:
        odds, x = ball(local_epsilon).exp(), ball(epsilon).exp()
        w = 1 / (odds + 1)
        law = weights(users - 1, w, nats)
        gain, loss = 1 - w - x * w, x * (1 - w) - w
        masses = [arb(0), *law.values, arb(0)]
        total = arb(0)
        for i in range(1, len(masses)):  # counts low + i - 1; masses[i] is of that count
            here, less = masses[i], masses[i - 1]
            one = gain * less - loss * here if victim else gain * here - loss * less
            total += one.max(arb(0))
        return total + error(law.below + law.above)

    return widened(compute, digits)


def binary_worst(users: int, local_epsilon: float, epsilon: Number, digits: int = 20) -> arb:
    """The larger of both directions."""
    with precision(int(2 * digits * LOG2_10) + 128):
        both = [binary_delta(users, local_epsilon, epsilon, victim, digits) for victim in (0, 1)]
        return both[0].max(both[1])


# --- inverses and Renyi -----------------------------------------------------------------------------


def epsilon_of(
    curve: Callable[[arb], arb], target: Number, lower: float, upper: float, digits: int = 12
) -> arb:
    """The root of curve(epsilon) = target between two guesses."""
    with precision(int(3 * digits * LOG2_10) + 128):
        return inverse_of_decreasing(curve, ball(target), ball(lower), ball(upper), digits)


def renyi(
    users: int, local_epsilon: float, order: Number, randomizer: str = SHARED, digits: int = 12
) -> arb:
    """The Renyi divergence of the pair of clones; the same in both directions.

    E over N - 1 ~ Bin(n-1, rate), a ~ Bin(N, 1/2) of 2 P^o Q^(1-o), P = (1-w) u + w (1-u), u = a/N,
    Q = 1 - P; P / Q lies between 1/E and E.
    """

    def compute(nats: float) -> arb:
        local, o = ball(local_epsilon), ball(order)
        odds = local.exp()
        w = 1 / (odds + 1)
        law = weights(users - 1, rate_of(randomizer, odds), nats)
        total = law.below + law.above  # each count has a mean between 0 and 2 E^(o-1)
        most = 2 * (local * (o - 1)).exp()
        total = error(total * most)
        for count, weight in enumerate(law.values, law.low + 1):
            inner = weights(count, arb(1) / 2, nats)
            part = error((inner.below + inner.above) * most)
            for a, mass in enumerate(inner.values, inner.low):
                share = arb(a) / count
                p = (1 - w) * share + w * (1 - share)
                part += mass * 2 * p * ((o - 1) * (p / (1 - p)).log()).exp()
            total += weight * part
        return total.log() / (o - 1)

    return widened(compute, digits, 60.0 + float(ball(order)) * float(ball(local_epsilon)))


def binary_renyi(users: int, local_epsilon: float, order: Number, victim: int) -> arb:
    """The Renyi divergence of binary randomized response, the others all holding 0.

    `victim` is what the victim holds under P. With all at 0 the ones are Bin(n, w); a victim at 1
    changes the mass at m by the factor (E m + (n - m) / E) / n.
    """

    def compute(nats: float) -> arb:
        local, o = ball(local_epsilon), ball(order)
        odds = local.exp()
        law = weights(users, 1 / (odds + 1), nats)
        power = o if victim else 1 - o
        total = error((law.below + law.above) * (local * (o + 1)).exp())
        for m, mass in enumerate(law.values, law.low):
            total += mass * (power * ((odds * m + (users - m) / odds) / users).log()).exp()
        return total.log() / (o - 1)

    return widened(compute, 12, 60.0 + float(ball(order)) * float(ball(local_epsilon)))
