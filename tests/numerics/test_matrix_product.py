"""Products by blocks against whole numbers, which doubles hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdp.numerics import matrix_product as module
from sharpdp.numerics.matrix_product import ONE_THREAD, ONE_THREAD_COMPLEX, matrix_product

SHAPES = [
    (3, 4, 5),
    (162, 252, 252),
    (1000, 20, 60),
    (1, 70_000, 9),
    (7, 300_000, 2),
    (2000, 1, 500),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_cover_every_entry_once(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    rng = np.random.default_rng(1)
    left, right = rng.integers(-99, 99, (rows, inner)), rng.integers(-99, 99, (inner, columns))
    product = matrix_product(left.astype(float), right.astype(float))
    np.testing.assert_array_equal(product, np.einsum("ij,jk->ik", left, right))


@pytest.mark.parametrize(("kind", "most"), [(float, ONE_THREAD), (complex, ONE_THREAD_COMPLEX)])
@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_no_block_is_shared_out(
    shape: tuple[int, int, int], kind: type, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, inner, columns = shape
    sizes = []

    def recorded(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
        sizes.append(left.shape[0] * inner * right.shape[1])
        out[...] = np.dot(left, right)

    monkeypatch.setattr(module.np, "matmul", recorded)
    matrix_product(np.ones((rows, inner), dtype=kind), np.ones((inner, columns), dtype=kind))
    assert sum(sizes) == rows * inner * columns
    assert max(sizes) <= max(most, inner)
