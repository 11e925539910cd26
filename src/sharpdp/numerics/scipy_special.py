"""Special functions and rules of scipy and numpy, imported when they are first called.

Importing `scipy.special` takes as long as importing numpy and all of sharpdp, and describing a plan or
refusing a wrong one needs none of it. Accuracy is stated where the functions are used.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function.

    >>> float(betainc(1.0, 1.0, 0.25))
    0.25
    """
    return _special("betainc", a, b, x)


def betaincc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """One minus the regularized incomplete beta function.

    >>> float(betaincc(1.0, 1.0, 0.25))
    0.75
    """
    return _special("betaincc", a, b, x)


def betainccinv(a: ArrayLike, b: ArrayLike, y: ArrayLike) -> Array:
    """The x at which one minus the regularized incomplete beta function is y.

    >>> float(betainccinv(1.0, 1.0, 0.25))
    0.75
    """
    return _special("betainccinv", a, b, y)


def betaincinv(a: ArrayLike, b: ArrayLike, y: ArrayLike) -> Array:
    """The x at which the regularized incomplete beta function is y.

    >>> float(betaincinv(1.0, 1.0, 0.25))
    0.25
    """
    return _special("betaincinv", a, b, y)


def erfcx(x: ArrayLike) -> Array:
    """e^{x^2} erfc(x).

    >>> float(erfcx(0.0))
    1.0
    """
    return _special("erfcx", x)


def gammaln(x: ArrayLike) -> Array:
    """log Gamma(x).

    >>> float(gammaln(1.0))
    0.0
    """
    return _special("gammaln", x)


def log_ndtr(x: ArrayLike) -> Array:
    """log of the normal distribution function.

    >>> float(log_ndtr(0.0)) == float(np.log(0.5))
    True
    """
    return _special("log_ndtr", x)


def ndtr(x: ArrayLike) -> Array:
    """The normal distribution function.

    >>> float(ndtr(0.0))
    0.5
    """
    return _special("ndtr", x)


def ndtri(p: ArrayLike) -> Array:
    """The quantiles of the normal distribution.

    >>> float(ndtri(0.5))
    0.0
    """
    return _special("ndtri", p)


def ndtri_exp(log_p: ArrayLike) -> Array:
    """The quantiles of the normal distribution at the logarithm of a probability.

    >>> float(ndtri_exp(np.log(0.5))) < 1e-15
    True
    """
    return _special("ndtri_exp", log_p)


@cache
def gauss_rule(points: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss' quadrature on [-1, 1].

    >>> round(sum(gauss_rule(3)[1].tolist()), 12)
    2.0
    """
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights


def _special(name: str, *arguments: ArrayLike) -> Array:
    """A function of scipy.special."""
    import scipy.special

    return np.asarray(getattr(scipy.special, name)(*arguments))
