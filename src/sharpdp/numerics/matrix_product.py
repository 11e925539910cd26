"""Matrix products that stay on one thread.

numpy's BLAS shares products of some hundred rows and columns out among all cores. That gains little at
these sizes, and where another program uses a core, every product waits for it: 14 ms instead of 0.4 ms
were seen.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float64, np.complex128)

ONE_THREAD = 1 << 18
"""OpenBLAS computes products of at most so many multiplications on one thread."""


def matrix_product(left: NDArray[Number], right: NDArray[Number]) -> NDArray[Number]:
    """`left @ right` for matrices, block by block, so that no block is shared out among threads.

    No sum over the inner dimension is cut: every entry has the rounding error of a dot product.

    >>> matrix_product(np.ones((300, 200)), np.ones((200, 300))).sum()
    np.float64(18000000.0)
    """
    (rows, inner), columns = left.shape, right.shape[1]
    if rows * inner * columns <= ONE_THREAD:
        return np.asarray(left @ right)
    entries = max(ONE_THREAD // inner, 1)
    height = min(rows, max(math.isqrt(entries), entries // columns))
    width = max(entries // height, 1)
    product = np.empty((rows, columns), dtype=left.dtype)
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            block = np.s_[row : row + height, column : column + width]
            np.matmul(left[block[0]], right[:, block[1]], out=product[block])
    return product
