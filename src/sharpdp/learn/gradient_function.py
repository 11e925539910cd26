"""What a run asks its user for: gradients, one row for each client or record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.randomizers.validation import not_finite, rows_with_holes, table_of
from sharpdp.randomness.system_stream import Floats

__all__ = ["Gradients", "checked_gradients", "gradients_for"]

Gradients: TypeAlias = Callable[[Floats, NDArray[np.int64]], ArrayLike]
"""Parameters and the numbers of clients or records in; one gradient for each out, a row each."""


def checked_gradients(gradients: object) -> Gradients:
    """The argument, if it is a function.

    >>> checked_gradients(None)
    Traceback (most recent call last):
    sharpdp.errors.WrongType: gradients must be a function of the parameters and an array of numbers;
        got None.
    """
    if isinstance(gradients, type) or not callable(gradients):
        raise WrongType(
            "gradients must be a function of the parameters and an array of numbers; "
            f"got {short_repr(gradients)}."
        )
    return gradients


def gradients_for(
    gradients: Gradients,
    parameters: Floats,
    numbers: NDArray[np.int64],
    what: str,
    *,
    strict: bool,
) -> NDArray[Any]:
    """The gradients at these parameters, checked: a row for each, of finite numbers if ``strict``.

    What the function raises itself is left as it is.

    >>> ones = lambda theta, some: np.ones((len(some), 2))
    >>> gradients_for(ones, np.zeros(2), np.arange(3), "clients", strict=True).shape
    (3, 2)
    """
    rows = table_of(gradients(parameters.copy(), numbers), parameters.size, "gradients")
    if len(rows) != len(numbers):
        raise InvalidArgument(
            f"gradients must be one row for each of {len(numbers)} {what}; got {len(rows)} rows."
        )
    if strict and (bad := np.count_nonzero(rows_with_holes(rows))):
        raise not_finite("gradients", int(bad))
    return rows
