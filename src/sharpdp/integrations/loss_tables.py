"""Tables of privacy losses from other libraries, with sums that rounding left off, made pessimistic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import nonnegative, probability, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import PrivacyLoss
from sharpdp.mechanisms.privacy_loss import LARGEST_LOSS

__all__ = ["pessimistic_table", "privacy_loss_of_prv"]

_LARGEST_REPAIR = 1e-6
"""A table whose sums are off by more was not made by rounding."""


def pessimistic_table(
    losses: ArrayLike,
    masses: ArrayLike,
    infinite: float,
    *,
    name: str,
    reverse: PrivacyLoss | str | None = None,
) -> PrivacyLoss:
    """The table as a pessimistic `PrivacyLoss`, mended upwards where its sums are off by rounding.

    Holds when: whatever was cut off is in the mass at infinite loss. A table from which it was dropped,
    and the rest scaled up, may be below the truth and looks like any other.

    A negative mass counts as none. What P has too much is taken from the smallest losses, where it
    matters least, and what it has too little counts as revealed. Where Q has too much,
    all losses are moved up.

    >>> table = pessimistic_table([-1.0, 1.0], [0.26894142, 0.73105858], 1e-9, name="rounded")
    >>> table.rounding, len(table.losses)
    ('pessimistic', 2)
    """
    values, weights = np.asarray(losses, dtype=float), np.asarray(masses, dtype=float)
    finite = np.isfinite(values) & np.isfinite(weights)
    if not finite.all() or weights.min(initial=0.0) < -_LARGEST_REPAIR or not 0 <= infinite <= 1:
        raise InvalidArgument(f"{name} must have finite losses, and masses between 0 and 1.")
    order = np.argsort(values, kind="stable")
    values, weights = values[order], np.maximum(weights[order], 0.0)
    too_large = values > LARGEST_LOSS
    infinite = min(infinite + math.fsum(weights[too_large].tolist()), 1.0)
    values, weights = values[~too_large], weights[~too_large]
    values = np.maximum(values, -LARGEST_LOSS)  # upwards is pessimistic
    off = math.fsum((*weights.tolist(), infinite, -1.0))
    if abs(off) > _LARGEST_REPAIR:
        raise InvalidArgument(f"{name} must have masses that sum to 1; got {1.0 + off:.9g}.")
    if off > 0.0:
        before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
        weights = np.clip(before + weights - off, 0.0, weights)
    else:
        infinite -= off
    kept = weights > 0.0
    values, weights = values[kept], weights[kept]
    other = math.fsum((weights * np.exp(-values)).tolist())
    if other > 1.0 + _LARGEST_REPAIR:
        raise InvalidArgument(
            f"{name} must be the losses of a pair of distributions: mass * e^-loss must sum to at most "
            f"1; got {other:.9g}."
        )
    if other > 1.0:
        values = np.minimum(values + math.log(other) + 1e-15, LARGEST_LOSS)
    return PrivacyLoss(
        losses=tuple(values.tolist()),
        masses=tuple(weights.tolist()),
        mass_at_infinity=infinite,
        rounding="pessimistic",
        name=name,
        reverse=reverse,
    )


def privacy_loss_of_prv(
    prv: Any,
    *,
    epsilon_error: float,
    delta_error: float,
    reverse: PrivacyLoss | str | None = "same",
) -> PrivacyLoss:
    """A discretized privacy random variable of prv_accountant as a mechanism, moved up by its errors.

        delta(epsilon) <= delta of the table at (epsilon - epsilon_error) + delta_error

    so that losses are moved up by the one and the other counts as revealed.

    Holds when: the two errors are those which prv_accountant states for this variable (`eps_error` and
    `delta_error` of its accountant, for the number of compositions that it was made for), and rounding of
    its Fourier transform and what was cut off are within them.

    Args:
        prv: A `DiscretePrivacyRandomVariable`, such as `PRVAccountant.compute_composition` returns: an
            object with `pmf`, `domain` and `log_pmc_inf`.
        epsilon_error: By how much its epsilons may be off, at least 0.
        delta_error: By how much its deltas may be off, in [0, 1].
        reverse: What bounds the other direction: "same" (default) for prv_accountant's own variables,
            whose epsilon is quoted for both; or another table.

    Returns:
        The table, with an upper side only.

    Raises:
        InvalidArgument: Its masses do not sum to 1, or an error is out of range.
        WrongType: prv is no such variable, or an error is no number.
    """
    moved = nonnegative(epsilon_error=epsilon_error)
    revealed = probability(delta_error=delta_error) if delta_error else 0.0
    if not (hasattr(prv, "pmf") and hasattr(prv, "domain") and hasattr(prv.domain, "ts")):
        raise WrongType(
            f"prv must be a DiscretePrivacyRandomVariable of prv_accountant; got {short_repr(prv)}."
        )
    masses = np.maximum(np.asarray(prv.pmf, dtype=float), 0.0)
    losses = np.asarray(prv.domain.ts(), dtype=float) + moved
    finite = math.exp(float(getattr(prv, "log_pmc_inf", 0.0)))
    order = np.argsort(losses)
    # the mass that counts as revealed is that of the smallest losses
    spare = np.clip(np.cumsum(masses[order] * finite) - revealed, 0.0, masses[order] * finite)
    infinite = min(1.0 - finite + revealed, 1.0)
    return pessimistic_table(losses[order], spare, infinite, name="PRV", reverse=reverse)
