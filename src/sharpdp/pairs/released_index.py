"""Mixtures whose index is part of the output: hockey sticks and tails add up with the weights.

The loss of (index, result) is the loss of the component that was drawn, so for every threshold

    H_x(joint) = sum_i w_i H_x(i),    P[L >= k] = sum_i w_i P_i[L_i >= k],

and the same under Q. Hiding the index is post-processing: the joint pair dominates the mixture itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    log_ndtr,
    log_normal_calls,
    log_sum,
    safe_log,
)
from sharpdp.pairs.pair import SMALLEST_MOMENT, GaussianPair, Hints, Pair, for_composition

Kernel = Callable[[Array, Array], Array]
"""A function of shifts and thresholds, entry by entry."""

__all__ = ["ReleasedGaussians", "LabeledMixturePair", "released"]


def released(pairs: Sequence[Pair], weights: Sequence[float]) -> Pair:
    """The pair of (index, result), in its quickest form; weights are at least 0 with sum one.

    >>> released([GaussianPair(1.0)], [1.0])
    GaussianPair(mu=1.0)
    >>> released([GaussianPair(1.0), GaussianPair(0.5)], [0.25, 0.75]).shifts
    (0.5, 1.0)
    """
    parts: dict[Pair, float] = {}
    for pair, weight in zip(pairs, weights, strict=True):
        if weight > 0.0:
            parts[pair] = parts.get(pair, 0.0) + weight
    if len(parts) == 1:
        return next(iter(parts))
    shifts = [pair.mu for pair in parts if isinstance(pair, GaussianPair)]
    if len(shifts) == len(parts):
        ascending = sorted(zip(shifts, parts.values(), strict=True))
        return ReleasedGaussians(
            tuple(mu for mu, _ in ascending), tuple(weight for _, weight in ascending)
        )
    return LabeledMixturePair(tuple(parts), tuple(parts.values()))


@dataclass(frozen=True)
class LabeledMixturePair(Pair):
    """Any pairs with their weights, the index released; symmetric if all of them are.

    >>> from sharpdp.pairs.pair import LaplacePair
    >>> pair = LabeledMixturePair((LaplacePair(1.0), LaplacePair(2.0)), (0.5, 0.5))
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([1.0]))[0])), 10)  # (0 + 1 - e^-1/2) / 2
    0.1967346701
    """

    pairs: tuple[Pair, ...]
    weights: tuple[float, ...]

    @property
    def accuracy(self) -> float:
        # weights may be off by a unit, the sum by one for each term, and logarithms, of values down to
        # e^-800, by some of theirs
        units = 4.0 * UNIT_ROUNDOFF * (len(self.pairs) + 800.0)
        return max(pair.accuracy for pair in self.pairs) + units

    @property
    def support(self) -> tuple[float, float]:
        lows, highs = zip(*(pair.support for pair in self.pairs), strict=True)
        return (min(lows), max(highs))

    @property
    def accurate_range(self) -> tuple[float, float]:
        # beyond its own support a pair is known: it has nothing there
        lows, highs = zip(*(pair.accurate_range for pair in self.pairs), strict=True)
        ranges = list(zip(self.pairs, lows, highs, strict=True))
        low = max((low for pair, low, _ in ranges if low > pair.support[0]), default=-np.inf)
        high = min((high for pair, _, high in ranges if high < pair.support[1]), default=np.inf)
        return (max(low, self.support[0]), min(high, self.support[1]))

    @property
    def loss_error(self) -> float:
        return max(pair.loss_error for pair in self.pairs)

    @property
    def mean_loss_error(self) -> float:
        return self._mean([pair.mean_loss_error for pair in self.pairs])

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(sorted({atom for pair in self.pairs for atom in pair.atoms}))

    @property
    def infinite_p(self) -> float:
        return self._mean([pair.infinite_p for pair in self.pairs])

    @property
    def infinite_q(self) -> float:
        return self._mean([pair.infinite_q for pair in self.pairs])

    @property
    def symmetric(self) -> bool:
        return all(pair.symmetric for pair in self.pairs)

    def reverse(self) -> Pair:
        if self.symmetric:
            return self
        return LabeledMixturePair(tuple(pair.reverse() for pair in self.pairs), self.weights)

    @property
    def hints(self) -> Hints:
        every = [pair.hints for pair in self.pairs]
        lows, highs = zip(*(hints.unbounded for hints in every), strict=True)
        return Hints(
            composition=lambda: LabeledMixturePair(
                tuple(for_composition(pair) for pair in self.pairs), self.weights
            ),
            tail_rate=self._tail_rate,
            unbounded=(any(lows), any(highs)),
            smallest_threshold=min(hints.smallest_threshold for hints in every),
        )

    def _tail_rate(self, loss: float) -> float:
        # a sum falls at least as fast as the slowest of its terms
        return min(
            pair.hints.tail_rate(loss) if pair.support[1] > loss else np.inf for pair in self.pairs
        )

    def log_hockey_stick(self, loss: Array) -> Array:
        return self._log_mean([pair.log_hockey_stick(loss) for pair in self.pairs])

    def log_tail_q(self, loss: Array) -> Array:
        return self._log_mean([pair.log_tail_q(loss) for pair in self.pairs])

    def log_tail_p(self, loss: Array) -> Array:
        return self._log_mean([pair.log_tail_p(loss) for pair in self.pairs])

    def _mean(self, values: list[float]) -> float:
        return float(sum(w * value for w, value in zip(self.weights, values, strict=True)))

    def _log_mean(self, values: list[Array]) -> Array:
        logs = np.log(self.weights).reshape((-1,) + (1,) * values[0].ndim)
        return log_sum(np.stack(values) + logs, axis=0)


@dataclass(frozen=True)
class ReleasedGaussians(Pair):
    """N(mu_i, 1) against N(0, 1) with probability w_i, i released; many components at little cost.

    `shifts` are positive. With probability `still` nothing is learned (an atom at loss zero), with
    probability `revealed` everything. The weights are right to a relative `weight_error`; `coarser`
    is a pair with fewer components that is safe on the same side, for compositions.

    >>> pair = ReleasedGaussians((1.0,), (0.25,), still=0.75)
    >>> round(
    ...     float(np.exp(pair.log_hockey_stick(np.array([1.0]))[0])), 10
    ... )  # a quarter of 0.1269367375
    0.0317341844
    >>> float(np.exp(pair.log_tail_q(np.array([0.0]))[0])) > 0.75
    True
    """

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    still: float = 0.0
    revealed: float = 0.0
    weight_error: float = 0.0
    coarser: ReleasedGaussians | None = field(default=None, repr=False, compare=False)

    @property
    def accuracy(self) -> float:
        sums = 4.0 * UNIT_ROUNDOFF * len(self.shifts)
        return GaussianPair(self.shifts[-1]).accuracy + self.weight_error + sums

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def atoms(self) -> tuple[float, ...]:
        return (0.0,) if self.still > 0.0 else ()

    @property
    def infinite_p(self) -> float:
        return self.revealed

    @property
    def infinite_q(self) -> float:
        return self.revealed

    @property
    def hints(self) -> Hints:
        moved = len(self.shifts) > 0
        return Hints(
            composition=lambda: self.coarser or self,
            tail_rate=self._tail_rate,
            chance_of_loss=self._chance_of_loss,
            unbounded=(moved, moved),
        )

    def _chance_of_loss(self) -> float:
        units = 2.0 * UNIT_ROUNDOFF * (2.0 + len(self.weights)) + self.weight_error
        return min((sum(self.weights) + self.revealed) * (1.0 + units), 1.0)

    def _tail_rate(self, loss: float) -> float:
        return min(GaussianPair(mu).hints.tail_rate(loss) for mu in self.shifts)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        """Shifts and logs of the weights."""
        return np.array(self.shifts), np.log(np.array(self.weights))

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        return np.asarray(self._kept(np.abs(k), "call") + np.minimum(k, 0.0))

    def log_tail_q(self, loss: Array) -> Array:
        return self._log_tail(loss, "far", "near")

    def log_tail_p(self, loss: Array) -> Array:
        return self._log_tail(loss, "near", "far")

    def _log_tail(self, loss: Array, above: str, below: str) -> Array:
        """The tails of the two kinds above and below zero; losses at zero belong to the upper one."""
        k = np.asarray(loss, dtype=float)
        result = np.empty(k.shape)
        for some, kind in ((k < 0.0, below), (k >= 0.0, above)):
            result[some] = self._kept(np.abs(k[some]), kind)
        return np.where(k == 0.0, np.logaddexp(result, safe_log(self.still)), result)

    @cached_property
    def _known(self) -> dict[tuple[str, bytes], Array]:
        """Values at the thresholds that were asked for last; compositions ask for the same ones."""
        return {}

    def _kept(self, thresholds: Array, kind: str) -> Array:
        key = (kind, thresholds.tobytes())
        if key not in self._known:
            while len(self._known) >= 24:
                del self._known[next(iter(self._known))]
            self._known[key] = self._summed(thresholds.ravel(), *_KERNELS[kind])
        return self._known[key].reshape(thresholds.shape)

    def _summed(self, flat: Array, bound: Kernel, value: Kernel) -> Array:
        """log of the sum of weights times values; `bound` says which components matter."""
        rows = max((1 << 19) // len(self.shifts), 1)
        result = np.empty(flat.shape)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            for start in range(0, flat.size, rows):
                some = slice(start, start + rows)
                result[some] = self._some_summed(flat[some, None], bound, value)
        return result

    def _some_summed(self, k: Array, bound: Kernel, value: Kernel) -> Array:
        """The same for a few thresholds.

        Components whose value is bounded by 50 nats less than the largest bound are left out. A bound is
        off by a factor below 1e4 for values down to e^-800, so 10^5 of them change the sum by less than
        1e-12.
        """
        mu, log_w = self._columns
        bounds = log_w + bound(mu, k)
        row, column = np.nonzero(bounds > np.max(bounds, axis=1, keepdims=True) - 50.0)
        terms = np.full(bounds.shape, -np.inf)
        terms[row, column] = log_w[column] + value(mu[column], k[row, 0])
        return log_sum(terms, axis=1)

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}]; infinite if something is revealed."""
        if self.revealed > 0.0:
            return (np.inf, np.inf)
        mu, log_w = self._columns
        exponents = 0.5 * order * (order - 1.0) * mu * mu
        # log(e^x - 1) = x + log(1 - e^-x)
        with np.errstate(divide="ignore"):
            log_parts = log_w + exponents + np.log(-np.expm1(-exponents))
        exact = float(np.logaddexp(0.0, log_sum(log_parts, axis=0)))
        slack = 2.0 * self.accuracy * exact
        return (max(exact - slack - SMALLEST_MOMENT, 0.0), exact + slack + SMALLEST_MOMENT)


def _call_bound(mu: Array, k: Array) -> Array:
    """Not below the log of the value of a call, off by a factor below 1e4."""
    far = np.maximum(k / mu - 0.5 * mu, 0.0)
    return np.asarray(np.minimum(np.log(mu), 0.0) - 0.5 * far * far)


def _tail(mu: Array, k: Array, *, half: float) -> Array:
    """log of the normal tail from k/mu - half mu on."""
    return log_ndtr(half * mu - k / mu)


def _tail_bound(mu: Array, k: Array, *, half: float) -> Array:
    """Not below it, off by a factor below 1e3."""
    return np.asarray(-0.5 * np.minimum(half * mu - k / mu, 0.0) ** 2)


_KERNELS: dict[str, tuple[Kernel, Kernel]] = {
    "call": (_call_bound, log_normal_calls),
    "near": (partial(_tail_bound, half=0.5), partial(_tail, half=0.5)),
    "far": (partial(_tail_bound, half=-0.5), partial(_tail, half=-0.5)),
}
"""What is summed: a bound and the value. A tail is that of the nearer or of the farther center."""
