"""Binomials in balls: a window of the masses, and the tails of fair coins by exact recurrences."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf, lgamma, log, log1p

from flint import arb, ctx

from tests.reference.balls import error


def log_point(n: int, p: float, k: int) -> float:
    """log P[Bin(n, p) = k], for planning only."""
    choose = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return choose + k * log(p) + (n - k) * log1p(-p) if p < 1.0 else (0.0 if k == n else -inf)


def window(n: int, p: float, nats: float) -> tuple[int, int]:
    """The counts whose mass is above e^-nats or so, at least one on each side of the mode."""
    mode = min(n, max(0, floor((n + 1) * p)))

    def edge(inner: int, outer: int) -> int:
        if log_point(n, p, outer) > -nats:
            return outer
        while abs(outer - inner) > 1:
            middle = (inner + outer) // 2
            inner, outer = (middle, outer) if log_point(n, p, middle) > -nats else (inner, middle)
        return outer

    return edge(mode, 0), edge(mode, n)


def point(n: int, p: arb, k: int) -> arb:
    """P[Bin(n, p) = k]."""
    choose = (arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()).exp()
    return choose * p**k * (1 - p) ** (n - k)


@dataclass(frozen=True)
class Weights:
    """Bin(n, p) over a window, and bounds on the mass below and above it."""

    low: int
    values: list[arb]
    below: arb
    above: arb


def weights(n: int, p: arb, nats: float) -> Weights:
    """The masses of a window; outside they fall geometrically."""
    low, high = window(n, float(p), nats)
    odds = p / (1 - p)
    values = [point(n, p, low)]
    for k in range(low, high):
        values.append(values[-1] * odds * (n - k) / (k + 1))
    below, above = arb(0), arb(0)
    if low > 0:
        ratio = arb(low) / (odds * (n - low + 1))
        below = values[0] * ratio / (1 - ratio)
    if high < n:
        ratio = odds * (n - high) / (high + 1)
        above = values[-1] * ratio / (1 - ratio)
    return Weights(low, values, below, above)


@dataclass
class Coins:
    """c fair coins: point = P[A = k] and tail = P[A >= k], moved by exact recurrences."""

    c: int
    k: int
    point: arb
    tail: arb

    @classmethod
    def start(cls, c: int, k: int) -> Coins:
        """Summed from k upwards; the rest of the series is geometric."""
        if k > c:
            return cls(c, k, arb(0), arb(0))
        first = point(c, arb(1) / 2, k)
        term, total = first, arb(0)
        for a in range(k, c + 1):
            total += term
            ratio = arb(c - a) / (a + 1)
            term *= ratio
            if a % 64 == 0 and ratio < 1 and term < total * arb(2) ** (-ctx.prec - 32):
                total += error(term / (1 - ratio))
                break
        return cls(c, k, first, total)

    def to(self, c: int, k: int) -> None:
        """Move to other parameters, c upwards."""
        while self.c < c:
            self._one_more_coin()
        while self.k < k:
            self.tail -= self.point
            self.point *= arb(self.c - self.k) / (self.k + 1) if self.k <= self.c else 0
            self.k += 1
            if self.k > self.c:
                self.point, self.tail = arb(0), arb(0)
        while self.k > k:
            if self.k > self.c:
                self.point = arb(2) ** -self.c if self.k == self.c + 1 else arb(0)
            else:
                self.point *= arb(self.k) / (self.c - self.k + 1)
            self.k -= 1
            self.tail += self.point

    def _one_more_coin(self) -> None:
        c, k = self.c, self.k
        if k > c:
            self.point = arb(2) ** -(c + 1) if k == c + 1 else arb(0)
            self.tail = self.point
        else:
            self.tail += self.point * k / (2 * (c - k + 1))
            self.point *= arb(c + 1) / (2 * (c + 1 - k))
        self.c += 1
