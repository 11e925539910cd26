"""Tokens in bins: the laws behind powers of a sum of likelihood ratios.

With U_t = e^(mu y_t - mu^2/2), a power (U_1 + ... + U_T)^b is a sum over all ways to throw b tokens into
T bins; n tokens in a bin shift its normal by n mu and weigh e^(mu^2 n (n - 1) / 2), times Phi(cut - n mu)
if normals stay below a cut. The k bins of the record have one token to begin with. Owns the total weights
and how tokens are drawn; everything is in logarithms, since weights reach e^1000.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import Array, log_ndtr, log_sum

__all__ = ["Tokens", "log_moments", "tokens"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tokens:
    """How b tokens fall: log weights of all continuations, by what is left to throw.

    `heads[j][r]` is log of the coefficient of x^r in g^(k-j) f^(T-k), `rest[c][r]` in f^(T-k-c), where
    f and g are the exponential generating functions of weights of bins without and with a first token.
    """

    bins: int
    marked: int
    thrown: int
    log_f: Array
    log_g: Array
    heads: tuple[Array, ...]
    rest: tuple[Array, ...]
    laws: dict[tuple[int, int], Array] = field(default_factory=dict, repr=False)

    def draw(self, rng: np.random.Generator, samples: int) -> Counts:
        """Tokens in the marked bins, first ones included, then in as many others as hold any.

        All other bins are alike, so those that hold tokens are written down first.
        """
        others = min(self.thrown, self.bins - self.marked)
        counts = np.zeros((samples, self.marked + others), dtype=np.int64)
        left = np.full(samples, self.thrown)
        for j in range(self.marked):
            taken = _chosen(rng, left, partial(self._marked_law, j))
            counts[:, j] = taken + 1
            left -= taken
        used = 0
        while left.any():
            taken = _chosen(rng, left, partial(self._other_law, used))
            counts[:, self.marked + used] = taken
            left -= taken
            used += 1
        return counts[:, : self.marked + used]

    def _marked_law(self, j: int, left: int) -> Array:
        """The chances that a marked bin takes 0, 1, 2, ... of the tokens left."""
        if (-1 - j, left) not in self.laws:
            shares = self.log_g[: left + 1] + self.heads[j + 1][left::-1]
            self.laws[-1 - j, left] = _rising(shares)
        return self.laws[-1 - j, left]

    def _other_law(self, used: int, left: int) -> Array:
        """The chances that the bin of the next token takes 1, 2, ... of the tokens left.

        It takes s of r with chance proportional to s f_s times the coefficient of x^(r-s) of the rest.
        """
        if left == 0:
            return np.ones(1)
        if (used, left) not in self.laws:
            size = np.arange(1.0, left + 1.0)
            shares = np.log(size) + self.log_f[1 : left + 1] + self.rest[used + 1][left - 1 :: -1]
            self.laws[used, left] = np.append(0.0, _rising(shares))
        return self.laws[used, left]


@lru_cache(maxsize=64)
def tokens(*, bins: int, marked: int, thrown: int, mu: float, cut: float = math.inf) -> Tokens:
    """The laws of b = `thrown` tokens in bins of which `marked` hold one from the start."""
    log_f, log_g = _series(thrown, mu, cut)
    others = bins - marked
    empty = max(others - thrown, 0)
    powers = [_power(log_f, empty)]
    for _ in range(min(thrown, others)):
        powers.append(_product(powers[-1], log_f))
    powers.reverse()
    heads = [powers[0]]
    for _ in range(marked):
        heads.append(_product(heads[-1], log_g))
    heads.reverse()
    return Tokens(bins, marked, thrown, log_f, log_g, tuple(heads), tuple(powers))


@lru_cache(maxsize=256)
def log_moments(*, bins: int, marked: int, last: int, mu: float, cut: float = math.inf) -> Array:
    """log E[(U_1 + ... + U_T)^b; all y <= cut] for b = 0, ..., last, the first k normals shifted by mu.

    >>> round(float(np.exp(log_moments(bins=2, marked=1, last=1, mu=1.0)[1])), 12)  # e + 1
    3.718281828459
    """
    log_f, log_g = _series(last, mu, cut)
    result = _product(_power(log_f, bins - marked), _power(log_g, marked))
    return np.asarray(result + np.array([math.lgamma(b + 1.0) for b in range(last + 1)]))


def _series(last: int, mu: float, cut: float) -> tuple[Array, Array]:
    """log of the coefficients of f and g."""
    n = np.arange(last + 1.0)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in n])
    log_f = 0.5 * mu**2 * n * (n - 1.0) - log_factorial + log_ndtr(cut - n * mu)
    log_g = 0.5 * mu**2 * n * (n + 1.0) - log_factorial + log_ndtr(cut - (n + 1.0) * mu)
    return log_f, log_g


def _chosen(rng: np.random.Generator, left: Counts, law: Callable[[int], Array]) -> Counts:
    """How many tokens each draw takes, by the law for what it has left.

    All laws are one ascending table, the i-th one from i to i + 1.
    """
    present = np.flatnonzero(np.bincount(left))
    laws = [law(number) for number in present.tolist()]
    index = np.zeros(int(present[-1]) + 1, dtype=np.int64)
    index[present] = np.arange(present.size)
    starts = np.cumsum([0, *(rising.size for rising in laws)])
    which = index[left]
    table = np.concatenate([i + rising for i, rising in enumerate(laws)])
    taken = np.searchsorted(table, which + rng.random(left.size), side="right") - starts[which]
    return np.asarray(np.minimum(taken, left))


def _rising(log_weights: Array) -> Array:
    """Weights as rising probabilities from the first to the last, which is 1."""
    rising = np.cumsum(np.exp(log_weights - np.max(log_weights)))
    return np.asarray(rising / rising[-1])


def _product(log_p: Array, log_q: Array) -> Array:
    """log of the coefficients of a product of two series with positive coefficients.

    >>> np.exp(_product(np.log([1.0, 1.0]), np.log([1.0, 1.0]))).round(12).tolist()
    [1.0, 2.0]
    """
    size = len(log_p)
    backwards = np.concatenate([log_q[::-1], np.full(size - 1, -np.inf)])
    return log_sum(log_p + np.lib.stride_tricks.sliding_window_view(backwards, size)[::-1])


def _power(log_p: Array, exponent: int) -> Array:
    """log of the coefficients of a power of a series, by squaring."""
    result = np.append(0.0, np.full(len(log_p) - 1, -np.inf))
    base = log_p
    while exponent:
        if exponent & 1:
            result = _product(result, base)
        exponent >>= 1
        if exponent:
            base = _product(base, base)
    return result
