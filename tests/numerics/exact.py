"""Profiles of pairs in balls: the exact out-of-the-money values and tails at exact binary losses.

The parameters of a pair (mu, rate, epsilon) are taken as the exact binary numbers that they are.
"""

from __future__ import annotations

from functools import singledispatch

from flint import arb

from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair, ReversedPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from tests.reference.balls import normal_upper

BITS = 400


@singledispatch
def otm(pair: Pair, loss: arb) -> arb:
    """E_Q[(X - e^k)_+] for k >= 0, E_Q[(e^k - X)_+] for k < 0; X = dP/dQ."""
    raise NotImplementedError(type(pair).__name__)


@singledispatch
def tail_q(pair: Pair, loss: arb) -> arb:
    """Q[L >= k] for k >= 0, Q[L <= k] for k < 0."""
    raise NotImplementedError(type(pair).__name__)


@singledispatch
def tail_p(pair: Pair, loss: arb) -> arb:
    """P[L >= k] for k >= 0, P[L <= k] for k < 0."""
    raise NotImplementedError(type(pair).__name__)


@otm.register
def _(pair: GaussianPair, loss: arb) -> arb:
    m, k = arb(pair.mu), abs(loss)
    value = normal_upper(k / m - m / 2) - k.exp() * normal_upper(k / m + m / 2)
    return value if loss >= 0 else loss.exp() * value


@tail_q.register
def _(pair: GaussianPair, loss: arb) -> arb:
    m = arb(pair.mu)
    return normal_upper(loss / m + m / 2) if loss >= 0 else normal_upper(-loss / m - m / 2)


@tail_p.register
def _(pair: GaussianPair, loss: arb) -> arb:
    m = arb(pair.mu)
    return normal_upper(loss / m - m / 2) if loss >= 0 else normal_upper(-loss / m + m / 2)


@otm.register
def _(pair: LaplacePair, loss: arb) -> arb:
    e, k = arb(pair.epsilon), abs(loss)
    if not k < e:
        return arb(0)
    value = -((k - e) / 2).expm1()
    return value if loss >= 0 else loss.exp() * value


def _far(e: arb, k: arb) -> arb:
    """The tail at distance k under the center that is farther away."""
    return (-(e + k) / 2).exp() / 2 if k <= e else arb(0)


def _near(e: arb, k: arb) -> arb:
    return 1 - ((k - e) / 2).exp() / 2 if k <= e else arb(0)


@tail_q.register
def _(pair: LaplacePair, loss: arb) -> arb:
    return (_far if loss >= 0 else _near)(arb(pair.epsilon), abs(loss))


@tail_p.register
def _(pair: LaplacePair, loss: arb) -> arb:
    return (_near if loss >= 0 else _far)(arb(pair.epsilon), abs(loss))


def _base_loss(pair: PoissonSampledPair, loss: arb) -> arb | None:
    """log(1 + (e^k - 1)/rate), None below the support."""
    ratio = 1 + loss.expm1() / arb(pair.rate)
    return ratio.log() if ratio > 0 else None


@otm.register
def _(pair: PoissonSampledPair, loss: arb) -> arb:
    base = _base_loss(pair, loss)
    return arb(0) if base is None else arb(pair.rate) * otm(pair.base, base)


@tail_q.register
def _(pair: PoissonSampledPair, loss: arb) -> arb:
    base = _base_loss(pair, loss)
    return arb(0) if base is None else tail_q(pair.base, base)


@tail_p.register
def _(pair: PoissonSampledPair, loss: arb) -> arb:
    base = _base_loss(pair, loss)
    if base is None:
        return arb(0)
    rate = arb(pair.rate)
    return (1 - rate) * tail_q(pair.base, base) + rate * tail_p(pair.base, base)


@otm.register
def _(pair: ReversedPair, loss: arb) -> arb:
    # the put of (P, Q) at 0 equals the call there: nothing is infinite in the pairs above
    return loss.exp() * otm(pair.base, -loss)


@tail_q.register
def _(pair: ReversedPair, loss: arb) -> arb:
    return _at_or_below(tail_p, pair.base, loss)


@tail_p.register
def _(pair: ReversedPair, loss: arb) -> arb:
    return _at_or_below(tail_q, pair.base, loss)


def _at_or_below(tail: object, forward: Pair, loss: arb) -> arb:
    """The tail of the forward pair beyond -loss; at loss 0 it is the one at or below 0."""
    if loss > 0 or loss < 0:
        return tail(forward, -loss)  # type: ignore[operator]
    return 1 - tail(forward, arb(0))  # type: ignore[operator]  # no atom at zero in the pairs above
