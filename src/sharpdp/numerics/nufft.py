"""Fourier sums over unequally spaced points at equally spaced frequencies, with an error bound.

Gaussian gridding: spread every weight over a fine periodic grid with a narrow Gaussian, take one FFT,
divide by the Gaussian's transform. Weights are nonnegative with sum one.

Source: greengard2004 (the method); the error bound is derived in `gridded_transform`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray

# With grid = 2 x frequencies and a Gaussian exp(-a) wide, aliasing is 2 e^{-a/2} and truncating the
# spread at SPREAD grid points costs e^{-pi^2 SPREAD^2 / a + a/16}; both are below 2e-15 here.
_OVERSAMPLING = 2
_WIDTH = 69.0
_SPREAD = 16
# Elementwise error of an FFT of nonnegative data relative to their sum, per radix-2 stage.
_FFT_STAGE_ERROR = (2.0 + np.sqrt(5.0)) * UNIT_ROUNDOFF
_FEWEST_FREQUENCIES = 64


def gridded_transform(
    points: Array, weights: Array, step: float, count: int
) -> tuple[ComplexArray, Array]:
    """sum_j w_j e^{i k step x_j} for k = 0 .. count-1 (complex), and a bound on each error.

    With period 2 pi / step the points become angles in [-pi, pi); grid size G >= 4 count, Gaussian
    exp(-angle^2 / (4 tau)) with tau = a / G^2. The k-th value is the FFT of the grid times
    sqrt(pi / tau) e^{tau k^2} / G.

    Numerics, for weights of sum one and k <= G/4:
    aliases sum to at most 2.1 e^{-tau (G^2 - 2 G k)}; the truncated spread costs at most
    2.1 sqrt(pi/a) e^{-pi^2 S^2 / a} e^{tau k^2}; the FFT's rounding is log2(G) stage errors of the
    grid's sum, times e^{tau k^2}. Reducing the angles moves each by a few units of |step x|, which
    the caller accounts for (it needs the weights' mean of |x|).
    """
    from scipy.fft import next_fast_len, rfft

    grid_size = next_fast_len(2 * _OVERSAMPLING * max(count, _FEWEST_FREQUENCIES), real=True)
    turns = points * (step / (2.0 * np.pi))
    position = (turns - np.rint(turns)) * grid_size
    nearest = np.floor(position)
    shifts = np.arange(-_SPREAD + 1, _SPREAD + 1)
    decay = np.pi**2 / _WIDTH
    distance = (position - nearest)[:, None] - shifts
    values = np.exp(-decay * distance * distance) * weights[:, None]
    grid, crowd = _gridded(values, nearest.astype(np.int64), shifts, grid_size)
    k = np.arange(count)
    tau = _WIDTH / grid_size**2
    growth = np.exp(tau * k.astype(float) ** 2)
    transform = np.conj(rfft(grid)[:count]) * (growth * np.sqrt(np.pi / _WIDTH))
    rounding = (np.log2(grid_size) + 4.0) * _FFT_STAGE_ERROR + (128.0 + crowd) * UNIT_ROUNDOFF
    truncation = 2.1 * np.sqrt(np.pi / _WIDTH) * np.exp(-decay * _SPREAD**2)
    aliases = 2.1 * np.exp(-tau * grid_size * (grid_size - 2.0 * k))
    return transform, growth * (rounding + truncation) + aliases


def _gridded(
    values: Array, nearest: NDArray[np.int64], shifts: NDArray[np.int64], grid_size: int
) -> tuple[Array, int]:
    """The values added up on the grid, and the most additions that any cell saw one after another.

    Points that follow each other into the same cell are summed pairwise first, so that the rounding of
    a crowded cell grows with the logarithm of the crowd.
    """
    starts = np.flatnonzero(np.append(True, np.diff(nearest) != 0))
    runs = np.add.reduceat(np.ascontiguousarray(values.T), starts, axis=1)
    index = ((nearest[starts] + shifts[:, None]) % grid_size).ravel()
    crowd = int(np.max(np.bincount(index, minlength=1)))
    grid: Array = np.bincount(index, weights=runs.ravel(), minlength=grid_size).astype(float)
    return grid, crowd
