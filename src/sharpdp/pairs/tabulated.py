"""Pairs with thousands of outcomes, as numerical laws have them: read off a table, node by node.

An AtomicPair is composed with all its outcomes, however far away. A TabulatedPair is one whose outcomes
stand for a smooth law: compositions choose nodes for their question and leave out what lies beyond,
like for any other pair. Between two outcomes calls and puts are straight lines in e^loss, so a value is
that of the next outcome and a positive piece: no cancellation, at the cost of one search.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import Interval, Pair

# Sums over all outcomes one after the other, twice (calls are sums of sums), with a product in each.
_SUMS = 4.0
_UNITS = 64.0


@dataclass(frozen=True)
class TabulatedPair(Pair):
    """The pair of an AtomicPair's outcomes, for compositions that need not know all of them.

    >>> coin = AtomicPair.pure(float(np.log(3.0)))  # 3/4 against 1/4
    >>> pair = TabulatedPair(coin)
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([0.0]))[0])), 12)
    0.5
    """

    outcomes: AtomicPair

    @property
    def accuracy(self) -> float:
        # thresholds are up to hundreds: their exponentials carry that many units
        units = _SUMS * self._losses.size + _UNITS * (1.0 + float(np.max(np.abs(self._losses))))
        return self.outcomes.accuracy + units * UNIT_ROUNDOFF

    @property
    def loss_error(self) -> float:
        return self.outcomes.loss_error

    @property
    def mean_loss_error(self) -> float:
        return self.outcomes.mean_loss_error

    @property
    def support(self) -> tuple[float, float]:
        return self.outcomes.support

    @property
    def infinite_p(self) -> float:
        return self.outcomes.infinite_p

    @property
    def infinite_q(self) -> float:
        return self.outcomes.infinite_q

    @property
    def infinite_p_ends(self) -> Interval:
        return self.outcomes.infinite_p_ends

    @property
    def infinite_q_ends(self) -> Interval:
        return self.outcomes.infinite_q_ends

    @cached_property
    def _losses(self) -> Array:
        return np.array(self.outcomes.losses)

    @cached_property
    def _tails(self) -> tuple[Array, Array, Array]:
        """Of each outcome: log masses of Q and P from it on, and the call at it."""
        return _sums(self._losses, np.array(self.outcomes.log_p))

    @cached_property
    def _heads(self) -> tuple[Array, Array, Array]:
        """Of each outcome: log masses of P and Q up to it, and the call of (Q, P), from the end on."""
        return _sums(-self._losses[::-1], np.array(self.outcomes.log_q)[::-1])

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        call = _log_call(self._losses, self._tails, np.maximum(k, 0.0))
        # E_Q (e^k - X)_+ = e^k E_P (1/X - e^-k)_+
        put = k + _log_call(-self._losses[::-1], self._heads, np.maximum(-k, 0.0))
        return np.where(k < 0.0, put, call)

    def log_tail_q(self, loss: Array) -> Array:
        return self._log_tail(np.asarray(loss, dtype=float), self._tails[0], self._heads[1])

    def log_tail_p(self, loss: Array) -> Array:
        return self._log_tail(np.asarray(loss, dtype=float), self._tails[1], self._heads[0])

    def _log_tail(self, k: Array, tails: Array, heads: Array) -> Array:
        above = np.searchsorted(self._losses, k, side="left")
        below = np.searchsorted(-self._losses[::-1], -k, side="left")
        high, low = np.append(tails, -np.inf), np.append(heads, -np.inf)
        return np.asarray(np.where(k < 0.0, low[below], high[above]))


def _sums(losses: Array, log_p: Array) -> tuple[Array, Array, Array]:
    """Of each outcome, in rising order: log Q- and P-mass from it on, and E_Q (X - e^loss)_+.

    The Q-mass beyond a loss times e^loss is at most one, whatever the loss: it is summed in that unit.
    """
    masses = np.exp(log_p)
    tails, calls = np.zeros(losses.size), np.zeros(losses.size)
    tail = call = 0.0
    steps = np.append(np.diff(losses), 0.0)
    shrinks, grows = np.exp(-steps).tolist(), (-np.expm1(-steps)).tolist()
    for place in range(losses.size - 1, -1, -1):
        call += tail * grows[place]
        tail = tail * shrinks[place] + masses[place]
        tails[place], calls[place] = tail, call
    with np.errstate(divide="ignore"):
        return np.log(tails) - losses, np.log(np.cumsum(masses[::-1])[::-1]), calls


def _log_call(losses: Array, sums: tuple[Array, Array, Array], k: Array) -> Array:
    """log E_Q (X - e^k)_+ for k >= 0: the call at the next outcome, and the way to it."""
    log_tail_q, _, calls = sums
    place = np.searchsorted(losses, k, side="right")
    inside = np.minimum(place, losses.size - 1)
    way = np.maximum(losses[inside] - k, 0.0)
    rise = np.exp(log_tail_q[inside] + losses[inside]) * -np.expm1(-way)
    with np.errstate(divide="ignore"):
        return np.where(place < losses.size, np.log(calls[inside] + rise), -np.inf)
