"""Few runs of pairs on finitely many outcomes, in balls: every answer to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from math import comb

from flint import arb, ctx

Masses = list[arb]
BITS = 320
MOST = 600  # outcomes of the whole


def outcomes(pairs: Sequence[tuple[Sequence[object], int]]) -> int:
    """How many outcomes the composition has if order does not matter."""
    total = 1
    for p, count in pairs:
        total *= comb(count + len(p) - 1, len(p) - 1)
    return total


def _power(p: Masses, q: Masses, count: int) -> list[tuple[arb, arb]]:
    found = [(arb(1), arb(1), count)]
    for place, (a, b) in enumerate(zip(p, q, strict=True)):
        grown = []
        for x, y, left in found:
            uses = range(left + 1) if place < len(p) - 1 else (left,)
            for k in uses:
                ways = arb(comb(left, k))
                grown.append((x * ways * a**k, y * ways * b**k, left - k))
        found = grown
    return [(x, y) for x, y, _ in found]


def _by_ratio(one: tuple[arb, arb], other: tuple[arb, arb]) -> int:
    """The order of p / q, without rounding."""
    left, right = one[0] * other[1], other[0] * one[1]
    return int(left > right) - int(left < right)


class Exact:
    """The composition of some (p, q, count) in both directions."""

    def __init__(self, steps: Sequence[tuple[Masses, Masses, int]]) -> None:
        ctx.prec = BITS
        whole = [(arb(1), arb(1))]
        for p, q, count in steps:
            part = _power(p, q, count)
            whole = [(a * c, b * d) for a, b in whole for c, d in part]
        self.whole = [(a, b) for a, b in whole if not (a == 0 and b == 0)]

    def _both(self) -> tuple[list[tuple[arb, arb]], list[tuple[arb, arb]]]:
        return self.whole, [(b, a) for a, b in self.whole]

    def delta(self, epsilon: float) -> arb:
        ctx.prec = BITS
        best = arb(0)
        for way in self._both():
            x = arb(epsilon).exp()
            total = arb(0)
            for p, q in way:
                gap = p - x * q
                if gap > 0:
                    total += gap
                elif not gap <= 0:
                    total += gap.union(arb(0))
            best = best.max(total)
        return best

    def revealed(self) -> arb:
        """The larger probability of an outcome that is impossible otherwise."""
        ctx.prec = BITS
        sums = [sum((p for p, q in way if q == 0), arb(0)) for way in self._both()]
        return sums[0].max(sums[1])

    def largest_loss(self) -> float:
        """Of outcomes that are possible either way, as a double near it."""
        ctx.prec = BITS
        losses = [abs(float((p / q).log())) for p, q in self.whole if p > 0 and q > 0]
        return max(losses, default=0.0)

    def tpr(self, fpr: float) -> arb:
        ctx.prec = BITS
        best = arb(0)
        for way in self._both():
            ranked = sorted(way, key=cmp_to_key(_by_ratio))
            left, found = arb(fpr), arb(0)
            for p, q in reversed(ranked):
                if q == 0 or q <= left:
                    found, left = found + p, left - q
                else:
                    found += p * left.max(arb(0)) / q
                    break
            best = best.max(found)
        return best

    def renyi(self, order: float) -> arb:
        ctx.prec = BITS
        a = arb(order)
        best = arb(0)
        for way in self._both():
            if any(q == 0 and p > 0 for p, q in way):
                return arb("inf")
            total = sum((p**a * q ** (1 - a) for p, q in way if p > 0), arb(0))
            best = best.max(total.log() / (a - 1))
        return best
