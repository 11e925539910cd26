"""Which randomizer serves which norm."""

from __future__ import annotations

import math

from sharpdp.learn.randomizers.report import VectorRandomizer
from sharpdp.learn.randomizers.signs import CoordinateSigns, HadamardSigns
from sharpdp.learn.randomizers.sphere import PrivUnitBall
from sharpdp.learn.randomizers.validation import checked_norm

__all__ = ["vector_randomizer"]


def vector_randomizer(
    *, dimension: int, local_epsilon: float, radius: float = 1.0, norm: float = 2
) -> VectorRandomizer:
    """R_p: the randomizer of vectors with l_p norm at most the radius, p = ``norm``.

    Signs of Hadamard rows for p = 1, signs of coordinates for p = infinity, and otherwise PrivUnit in the
    Euclidean ball around the l_p ball. The first two send one number. PrivUnit sends a vector, and has
    the smaller variance from a local epsilon of about 1.8 on: ``PrivUnitBall(norm=...)`` takes any norm.

    Source: girgis2021 Algorithm 1.

    Args:
        dimension: Number d of coordinates, from 1 to 10^8; at least 2 unless norm is 1 or infinity.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        radius: Largest l_norm norm of a record, from 1e-30 to 1e30.
        norm: Order p of the norm, from 1 to math.inf.

    Returns:
        `HadamardSigns` for norm 1, `CoordinateSigns` for infinity, `PrivUnitBall` otherwise.

    Raises:
        InvalidArgument: An argument is out of range.
        WrongType: An argument has the wrong type.

    >>> vector_randomizer(dimension=10, local_epsilon=1.0, norm=math.inf)
    CoordinateSigns(dimension=10, local_epsilon=1.0, radius=1.0)
    """
    order = checked_norm(norm)
    if order == 1.0:
        return HadamardSigns(dimension=dimension, local_epsilon=local_epsilon, radius=radius)
    if order == math.inf:
        return CoordinateSigns(dimension=dimension, local_epsilon=local_epsilon, radius=radius)
    return PrivUnitBall(dimension=dimension, local_epsilon=local_epsilon, radius=radius, norm=order)
