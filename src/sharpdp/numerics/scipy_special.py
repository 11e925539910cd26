"""Special functions of scipy, imported when one is first called, and Gauss' rule.

Importing `scipy.special` takes as long as importing numpy and all of sharpdp, and describing a plan or
refusing a wrong one needs none of it. Accuracy is stated where the functions are used.

>>> float(ndtr(0.0)), float(betainc(1.0, 1.0, 0.25))
(0.5, 0.25)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def _lazy(name: str) -> Callable[..., Array]:
    """The function of scipy.special that has this name."""

    def function(*arguments: ArrayLike) -> Array:
        import scipy.special

        return np.asarray(getattr(scipy.special, name)(*arguments))

    return function


betainc, betaincc = _lazy("betainc"), _lazy("betaincc")
betaincinv, betainccinv = _lazy("betaincinv"), _lazy("betainccinv")
erfcx, gammaln = _lazy("erfcx"), _lazy("gammaln")
ndtr, log_ndtr = _lazy("ndtr"), _lazy("log_ndtr")
ndtri, ndtri_exp = _lazy("ndtri"), _lazy("ndtri_exp")


@cache
def gauss_rule(points: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss' quadrature on [-1, 1].

    >>> round(sum(gauss_rule(3)[1].tolist()), 12)
    2.0
    """
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights
