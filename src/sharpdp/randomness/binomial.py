"""Binomial counts drawn from a source of bits, in decimal arithmetic of 50 digits.

A few trials are made one by one. Counts of many are drawn by rejection, from two exponential tails
around a flat top, which lie above every log-concave law on the integers; and a law that is needed again
and again is tabled, if that is cheap. Either way a count of n trials follows its law to within 1e-25 for
every n to 10^18, and all machines agree: decimal arithmetic is the same everywhere.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from itertools import accumulate

from sharpdp.randomness.keyed_stream import KeyedStream

__all__ = ["Binomial", "binomial_draws", "binomial_once"]

PRECISION = Context(prec=50, rounding=ROUND_HALF_EVEN, Emin=-(10**5), Emax=10**5)
"""Log factorials of 10^18 are about 4e19: this leaves 29 digits behind the point. All that could differ
between machines is set."""

UNIFORM_BITS = 128
"""Bits of a uniform number: each of the cells that they make is below 1e-38 wide."""

STIRLING = tuple(
    Fraction(numerator, denominator)
    for numerator, denominator in (
        (1, 12),
        (-1, 360),
        (1, 1260),
        (-1, 1680),
        (1, 1188),
        (-691, 360360),
        (1, 156),
        (-3617, 122400),
        (43867, 244188),
        (-174611, 125400),
        (77683, 5796),
        (-236364091, 1506960),
    )
)
"""B(2j) / (2j (2j - 1)): the factors of 1/x, 1/x^3, 1/x^5, ... in Stirling's series."""


def binomial_once(source: KeyedStream, trials: int, chance: Fraction) -> int:
    """One count of a law that is not needed again.

    >>> binomial_once(KeyedStream(b"k" * 32), 7, Fraction(1))
    7
    """
    # so many trials, made one by one, take a tenth of the time of one rejection
    if trials <= 4096 and chance.denominator <= 2**63:
        made = source.below(chance.denominator, trials)
        return int((made < chance.numerator).sum())
    return Binomial(trials, chance).draw(source)


def binomial_draws(trials: int, chance: Fraction) -> Callable[[KeyedStream], int]:
    """A function that draws counts of one law again and again.

    >>> binomial_draws(7, Fraction(1))(KeyedStream(b"k" * 32))
    7
    """
    if 0 < chance < 1 and trials * chance * (1 - chance) <= 10**5:  # a table of about 9000 counts
        return _tabled(trials, chance)
    return Binomial(trials, chance).draw


def _tabled(trials: int, chance: Fraction) -> Callable[[KeyedStream], int]:
    """Draws by inversion: the count in whose part of 2^128 cells a random cell lies."""
    mode = int((trials + 1) * chance)
    with localcontext(PRECISION):
        odds = Decimal(chance.numerator) / (chance.denominator - chance.numerator)
        above = list(_weights(mode, trials, odds))
        below = list(_weights(trials - mode, trials, 1 / odds))
        weights = [*reversed(below), Decimal(1), *above]
        sums = list(accumulate(weights))
        ends = [int(Decimal(1 << UNIFORM_BITS) * part / sums[-1]) for part in sums]
    first = mode - len(below)
    return lambda source: first + bisect_right(ends, source.integer(UNIFORM_BITS))


def _weights(mode: int, trials: int, odds: Decimal) -> Iterator[Decimal]:
    """Probabilities of mode + 1, mode + 2, ... successes, compared with that of ``mode``."""
    weight = Decimal(1)
    for count in range(mode, trials):
        weight = weight * (trials - count) / (count + 1) * odds
        if weight < Decimal("1e-45"):
            return
        yield weight


class Binomial:
    """The law of how many of ``trials`` independent trials succeed, each with probability ``chance``.

    Source: devroye1987.

    >>> Binomial(7, Fraction(1)).draw(KeyedStream(b"k" * 32))
    7
    """

    def __init__(self, trials: int, chance: Fraction) -> None:
        """Find the most likely count and its probability."""
        self.trials, self.chance = trials, chance
        self._is_certain = chance in (0, 1) or trials == 0
        if self._is_certain:
            return
        self._mode = int((trials + 1) * chance)
        with localcontext(PRECISION):
            wins, losses = chance.numerator, chance.denominator - chance.numerator
            self._log_odds = Decimal(wins).ln() - Decimal(losses).ln()
            log_none = trials * (Decimal(losses).ln() - Decimal(chance.denominator).ln())
            self._log_top = self._log_weight(self._mode)
            log_height = log_none + _log_factorial(trials) + self._log_top
            # rounded down by far more than its error
            self._height = log_height.exp() * (1 - Decimal("1e-30"))

    def draw(self, source: KeyedStream) -> int:
        """One count.

        With p the probability of the mode m, that of m + i is at most p min(1, exp(1 - p |i|)): let it
        be p exp(-s); the law is log-concave, so 1 >= p sum over j < i of exp(-s j / i), which is at
        least p i (1 - exp(-s)) / s >= p i / (1 + s). So a point y is drawn under the two copies of
        min(1, exp(w - p y)) on y > 0 with w = 1 + p/2, and m +- round(y) is kept with the probability
        that makes up the difference. One in about four is.
        """
        if self._is_certain:
            return int(self.trials * self.chance)
        with localcontext(PRECISION):
            top = 1 + self._height / 2
            while True:
                log_cover, reach = Decimal(0), _uniform(source)
                if _uniform(source) * (1 + top) > top:
                    log_cover = reach.ln()
                    reach = (top - log_cover) / self._height
                else:
                    reach = reach * top / self._height
                away = int(reach + Decimal("0.5"))
                count = self._mode + (away if source.integer(1) else -away)
                if not 0 <= count <= self.trials:
                    continue
                log_share = self._log_weight(count) - self._log_top
                if _uniform(source).ln() + log_cover <= log_share:
                    return count

    def _log_weight(self, count: int) -> Decimal:
        """The log of the probability of a count, up to what does not depend on it."""
        ways = _log_factorial(count) + _log_factorial(self.trials - count)
        return count * self._log_odds - ways


def _uniform(source: KeyedStream) -> Decimal:
    """A uniform number strictly between 0 and 1: the middle of one of 2^128 cells."""
    return (source.integer(UNIFORM_BITS) + Decimal("0.5")) / Decimal(1 << UNIFORM_BITS)


def _log_factorial(number: int) -> Decimal:
    """log(number!) in the current context, to 1e-38 beyond its rounding."""
    if number < 64:  # from here on, the series is exact to 1e-38
        return Decimal(math.factorial(number)).ln()
    x = Decimal(number)
    power, series = 1 / x, Decimal(0)
    for term in STIRLING:
        series += power * term.numerator / term.denominator
        power /= x * x
    half_log_two_pi = Decimal("0.91893853320467274178032973640561763986139747363778")
    return (x + Decimal("0.5")) * x.ln() - x + half_log_two_pi + series
