"""The pair of laws behind a table of privacy losses and their masses, exact or rounded to one side."""

from __future__ import annotations

import math

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.finite import AtomicPair, TabulatedPair
from sharpdp.pairs.from_profile_values import CallSide, pair_from_halves
from sharpdp.pairs.pair import Pair

__all__ = [
    "exact_loss_pair",
    "pessimistic_loss_halves",
    "pessimistic_loss_pair",
    "pooled_loss_pair",
]

_MOST_ATOMS = 100
"""Larger tables keep sums over their outcomes."""

_SMALLEST_LOSS = 1e-150
"""Smaller positive losses are raised to this one: with other masses their ratios stay doubles."""

_LEAST_POOLED = 1e-5
"""Mass of the pooled outcome: what is left of 1 keeps ten digits."""


def exact_loss_pair(losses: Array, masses: Array, infinite: float) -> Pair:
    """The pair with these losses under P, which rise, and P-mass `infinite` where Q has none.

    Masses are divided by their sum. A Q-mass that misses 1 by rounding of the losses counts as 1; what it
    misses beyond that is Q-mass where P has none. By how much sums were off widens both sides.

    >>> pair = exact_loss_pair(np.array([0.0]), np.array([0.5]), 0.5)
    >>> pair.infinite_p, pair.infinite_q
    (0.5, 0.5)
    """
    off = math.fsum((*masses.tolist(), infinite, -1.0))
    log_p = np.log(masses) - math.log1p(off)
    log_q, error, other = _other_law(losses, log_p)
    missing = 1.0 - other
    # rounding to doubles moves a loss by half a unit, and the Q-mass with it
    slack = error + 4.0 * UNIT_ROUNDOFF * (1.0 + float(np.max(np.abs(losses))))
    has_rest = missing > slack
    share = infinite / (1.0 + off)
    return _pair(
        losses,
        log_p,
        log_q,
        (share, missing if has_rest else 0.0),
        loss_error=0.0 if has_rest else 2.0 * max(slack, -missing),
        mass_error=2.0 * (error + abs(off) + max(-missing, 0.0)),
        ends=(
            _around(share, 2.0 * abs(off) * share),
            (max(missing - slack, 0.0), missing + slack) if has_rest else (0.0, 0.0),
        ),
    )


def pessimistic_loss_pair(losses: Array, masses: Array, infinite: float) -> Pair:
    """A pair whose delta is at least that of the table at every epsilon.

    P-mass that is missing counts as revealed, and so does Q-mass where P has none.

    >>> pair = pessimistic_loss_pair(np.array([0.0]), np.array([0.5]), 0.25)
    >>> pair.infinite_p >= 0.5, pair.infinite_q >= 0.5
    (True, True)
    """
    off = math.fsum((*masses.tolist(), infinite, -1.0))
    log_p = np.log(masses) - math.log1p(max(off, 0.0))
    log_q, error, other = _other_law(losses, log_p)
    revealed = math.nextafter(infinite - min(off, 0.0), 1.0) if infinite or off < 0.0 else 0.0
    rest = max(1.0 - other, 0.0) + error
    return _pair(
        losses,
        log_p,
        log_q,
        (revealed, rest),
        loss_error=2.0 * (max(other - 1.0, 0.0) + error),
        mass_error=2.0 * (error + max(off, 0.0) + max(other - 1.0, 0.0)),
        ends=((infinite, revealed), (0.0, rest)),
    )


def pessimistic_loss_halves(
    ahead: tuple[Array, Array, float], behind: tuple[Array, Array, float] | None
) -> Pair:
    """A pair whose delta at epsilon >= 0 is at least that of the one table, and of the other in reverse.

    Each table is (losses, masses, mass at infinity); None stands for the same one. Of each table the
    losses above zero count, and both are scaled up to the larger delta at epsilon zero.

    >>> table = np.array([-0.99, 1.01]), np.array([0.26894142, 0.73105858]), 0.0
    >>> pair = pessimistic_loss_halves(table, None)
    >>> pair.infinite_q, pair.symmetric
    (0.0, True)
    """
    one, plus = _half(*ahead)
    other, minus = (one, plus) if behind is None else _half(*behind)
    outcomes = pair_from_halves(one, other, side=Side.UPPER, infinite=(plus, minus))
    return TabulatedPair(outcomes) if len(outcomes.losses) > _MOST_ATOMS else outcomes


def _half(losses: Array, masses: Array, infinite: float) -> tuple[CallSide, float]:
    """The losses above zero and their Q-masses, and the mass at infinity with what is missing."""
    off = math.fsum((*masses.tolist(), infinite, -1.0))
    revealed = math.nextafter(infinite - off, 1.0) if off < 0.0 else infinite
    above = losses > 0.0
    points, index = np.unique(np.maximum(losses[above], _SMALLEST_LOSS), return_inverse=True)
    own = np.bincount(index, weights=masses[above], minlength=points.size)
    log_p = np.log(own)
    calls = math.fsum((own * -np.expm1(-points)).tolist())
    return CallSide(points, log_p - points, math.log(calls) if calls else -math.inf), revealed


def pooled_loss_pair(losses: Array, masses: Array, infinite: float) -> Pair:
    """A pair whose delta is at most any that is at least that of the table at every epsilon.

    Losses that were rounded down make Q too large. Every delta is at least that of no information, so the
    larger of the two is a lower bound as well: the smallest losses are pooled into one outcome that takes
    what is left of P and of Q,

        delta(k) >= max over k of ((1 - e^k)_+, sum of mass (1 - e^(k - loss))_+ + infinite),

    and pooling more of them than that is a post-processing, which shows no more.

    >>> pair = pooled_loss_pair(np.array([-2.0, 1.0]), np.array([0.5, 0.5]), 0.0)
    >>> len(pair.losses), round(float(np.exp(pair.log_q).sum()), 12)
    (2, 1.0)
    """
    log_p = np.log(masses)
    log_q, error, _ = _other_law(losses, log_p)
    tail_p = _tails(masses) + infinite
    tail_q = _tails(np.exp(log_q))
    left_p, left_q = 1.0 - tail_p, 1.0 - tail_q
    # the ratio of what is left must not exceed that of the outcomes kept
    enough = (left_p >= _LEAST_POOLED) & (left_q >= _LEAST_POOLED)
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = enough & (np.log(left_p) - np.log(left_q) <= np.append(losses, np.inf))
    first = int(np.argmax(fits)) if fits.any() else losses.size
    if not fits[first]:  # hardly anything but what reveals
        return AtomicPair((0.0,), (0.0,), (0.0,))
    log_left_p, log_left_q = math.log(left_p[first]), math.log(left_q[first])
    lost = 4.0 * (error + UNIT_ROUNDOFF * losses.size) / _LEAST_POOLED
    return _pair(
        np.append(log_left_p - log_left_q, losses[first:]),
        np.append(log_left_p, log_p[first:]),
        np.append(log_left_q, log_q[first:]),
        (infinite, 0.0),
        loss_error=lost,
        mass_error=lost,
        ends=((infinite, infinite), (0.0, 0.0)),
    )


def _other_law(losses: Array, log_p: Array) -> tuple[Array, float, float]:
    """Logarithms of the masses of Q, a bound on the relative error of masses, and their sum."""
    log_q = log_p - losses
    largest = float(np.max(np.abs(log_p) + np.abs(losses)))
    error = 8.0 * UNIT_ROUNDOFF * (1.0 + largest)
    return log_q, error, math.fsum(np.exp(log_q).tolist())


def _tails(masses: Array) -> Array:
    """Sums from each entry on, and 0 after the last."""
    return np.append(np.cumsum(masses[::-1])[::-1], 0.0)


def _around(value: float, error: float) -> tuple[float, float]:
    if value == 0.0 or error == 0.0:
        return value, value
    return max(math.nextafter(value - error, 0.0), 0.0), min(
        math.nextafter(value + error, 1.0), 1.0
    )


def _pair(
    losses: Array,
    log_p: Array,
    log_q: Array,
    infinite: tuple[float, float],
    *,
    loss_error: float,
    mass_error: float,
    ends: tuple[tuple[float, float], tuple[float, float]],
) -> Pair:
    outcomes = AtomicPair(
        tuple(losses.tolist()),
        tuple(log_p.tolist()),
        tuple(log_q.tolist()),
        *infinite,
        loss_error,
        mass_error,
        infinite_ends=ends,
    )
    return TabulatedPair(outcomes) if losses.size > _MOST_ATOMS else outcomes
