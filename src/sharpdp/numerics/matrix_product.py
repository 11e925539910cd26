"""Products that stay on one thread.

numpy's BLAS shares products of some hundred rows and columns out among all cores. That gains little at
these sizes. The other threads then wait for more work at full speed for a tenth of a second, which
doubles the CPU time of a computation with one such product now and then. And where another program uses
a core, every product waits for it: 14 ms instead of 0.4 ms were seen.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Number = TypeVar("Number", np.float64, np.complex128)

ONE_THREAD, ONE_THREAD_COMPLEX = 1 << 18, 1 << 16
"""OpenBLAS computes products of at most so many multiplications on one thread, of real and of complex
numbers; dot products up to ten thousand."""


def matrix_product(left: NDArray[Number], right: NDArray[Number]) -> NDArray[Number]:
    """`left @ right` for matrices, block by block, so that no block is shared out among threads.

    No sum over the inner dimension is cut: every entry has the rounding error of a dot product.

    >>> matrix_product(np.ones((300, 200)), np.ones((200, 300))).sum()
    np.float64(18000000.0)
    """
    (rows, inner), columns = left.shape, right.shape[1]
    most = ONE_THREAD_COMPLEX if left.dtype.kind == "c" else ONE_THREAD
    if rows * inner * columns <= most:
        return np.asarray(left @ right)
    entries = max(most // inner, 1)
    height = min(rows, max(math.isqrt(entries), entries // columns))
    width = max(entries // height, 1)
    product = np.empty((rows, columns), dtype=left.dtype)
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            block = np.s_[row : row + height, column : column + width]
            np.matmul(left[block[0]], right[:, block[1]], out=product[block])
    return product


def weighted_sums(rows: Array, weights: Array) -> Array:
    """`rows @ weights` for a vector of weights and one row or many, by pairwise sums.

    >>> weighted_sums(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([3.0, 4.0]))
    array([11.,  4.])
    """
    return np.asarray(np.sum(rows * weights, axis=-1))
