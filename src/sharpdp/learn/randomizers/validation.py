"""What clients hold, checked before anything is drawn: rows of finite numbers within a norm."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import (
    check_unmasked,
    count,
    flag,
    invalid,
    kind_of,
    positive_scale,
    short_repr,
)
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.shuffle import LARGEST_LOCAL_EPSILON, SMALLEST_LOCAL_EPSILON
from sharpdp.randomness.system_stream import Floats

__all__ = [
    "CACHED",
    "blocks",
    "checked_norms",
    "clipped",
    "codes_of",
    "dimensions",
    "local_budget",
    "norms_of",
    "not_finite",
    "products",
    "rows_of",
    "rows_with_holes",
    "table_of",
    "totals",
    "vector_of",
    "writable",
]


TOLERANCE = 1e-9
"""How far a norm may be above its bound, relative to it, before it is no rounding."""

_SHORTER = 2.0**-41
"""What a clipped vector is shorter by, at least, so that rounding does not lengthen it."""

CACHED = 2**17
"""Numbers that are worked on together: a megabyte, which stays in the cache."""

_EXTREME = 1e100
"""Norms from here on are taken again after scaling: squares may have overflowed."""

ONE_ROW_EACH = "Pass one row per client; one vector alone is vector[None, :]."


def local_budget(local_epsilon: object) -> float:
    """The budget of one report, within what the shuffle accounting takes.

    >>> local_budget(2)
    2.0
    """
    hint = "It is the budget of one report: log of the largest ratio of its probabilities."
    number = positive_scale(local_epsilon=local_epsilon, hint=hint)
    if SMALLEST_LOCAL_EPSILON <= number <= LARGEST_LOCAL_EPSILON:
        return number
    allowed = f"between {SMALLEST_LOCAL_EPSILON:g} and {LARGEST_LOCAL_EPSILON:g}"
    raise invalid("local_epsilon", allowed, local_epsilon, hint)


def dimensions(dimension: object, *, least: int = 1, hint: str = "") -> int:
    """Number of coordinates of a record, at most 10^8.

    >>> dimensions(784)
    784
    """
    number = count(dimension=dimension, least=least, hint=hint)
    # one vector of doubles then fills 800 megabytes
    if number > 10**8:
        raise invalid("dimension", "at most 10^8", dimension, "A vector must fit into memory.")
    return number


def rows_of(vectors: ArrayLike, dimension: int | None = None, name: str = "records") -> Floats:
    """The vectors as a two-dimensional array of doubles, one row per client; finiteness is not checked.

    >>> rows_of([[1, 2]]).shape
    (1, 2)
    """
    return table_of(vectors, dimension, name).astype(np.float64, copy=False)


def table_of(vectors: ArrayLike, dimension: int | None, name: str) -> NDArray[Any]:
    """The vectors as a two-dimensional array of real numbers of their own type, one row per client.

    >>> table_of(np.ones((1, 2), dtype=np.float32), 2, "vectors").dtype
    dtype('float32')
    """
    check_unmasked(**{name: vectors})
    try:
        rows = np.asarray(vectors)
    except ValueError as ragged:
        raise WrongType(f"{name} must have rows of equal length. {ONE_ROW_EACH}") from ragged
    if rows.dtype.kind not in "fiu":
        kind = f"an array of {rows.dtype}" if rows.ndim else kind_of(vectors)
        raise WrongType(f"{name} must be an array of real numbers; got {kind}. {ONE_ROW_EACH}")
    wanted = "(clients, d)" if dimension is None else f"(clients, {dimension})"
    is_fit = rows.ndim == 2 and dimension in (None, rows.shape[1]) and rows.shape[1] > 0
    if not is_fit:
        raise InvalidArgument(
            f"{name} must be an array of shape {wanted}; got shape {rows.shape}. {ONE_ROW_EACH}"
        )
    return rows


def codes_of(name: str, values: ArrayLike, hint: str) -> NDArray[np.int64]:
    """The values as a one-dimensional array of whole numbers below 2^63.

    >>> codes_of("reports", [1, 2], "").tolist()
    [1, 2]
    """
    allowed = f"{name} must be a one-dimensional array of whole numbers"
    try:
        codes = np.asarray(values)
    except ValueError as ragged:
        raise WrongType(f"{allowed}; got lists of different lengths. {hint}") from ragged
    if codes.ndim != 1 or (codes.dtype.kind not in "iu" and codes.size):
        raise WrongType(f"{allowed}; got shape {codes.shape} of {codes.dtype}. {hint}")
    if codes.dtype.kind == "u" and codes.size and codes.max() > np.iinfo(np.int64).max:
        raise InvalidArgument(f"{allowed} below 2^63; got a larger one. {hint}")
    return codes.astype(np.int64)


def writable(rows: int, columns: int) -> tuple[int, int]:
    """The shape of a table of doubles that may be written out: at most 4 gigabytes.

    >>> writable(10, 3)
    (10, 3)
    """
    if rows * columns > 5 * 10**8:  # doubles that fill 4 gigabytes
        hint = "Ask for the mean of fewer of them at a time, or of a smaller dimension."
        allowed = "few enough for a table of 5e+08 numbers"
        raise invalid("reports", allowed, rows * columns, hint)
    return rows, columns


def blocks(clients: int, dimension: int, numbers: int = CACHED) -> list[slice]:
    """Runs of clients whose vectors have so many numbers together, one client at least.

    >>> blocks(3, 10**6)
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """
    step = max(numbers // dimension, 1)
    return [slice(start, min(start + step, clients)) for start in range(0, clients, step)]


def norms_of(rows: Floats, norm: float) -> Floats:
    """The norm of every row (1, 2, infinity or any number above 1); not finite where an entry is not.

    Numerics: relative error below 2^-44 where neither squares nor powers overflow or underflow.

    >>> norms_of(np.array([[3.0, -4.0]]), 2).tolist()
    [5.0]
    """
    norms = np.empty(len(rows))
    for block in blocks(*rows.shape):
        norms[block] = _norms(rows[block], norm)
    return norms


def _norms(rows: Floats, norm: float) -> Floats:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        norms: Floats
        if norm == 2:
            norms = np.sqrt(products(rows, rows))
            return norms
        sizes = np.abs(rows)
        norms = totals(sizes) if norm == 1 else sizes.max(axis=1)
        if norm in (1, math.inf):
            return norms
        shares = sizes / np.where(norms > 0.0, norms, 1.0)[:, None]
        norms = norms * totals(shares**norm) ** (1.0 / norm)
        return norms


def totals(terms: Floats) -> Floats:
    """The sum of every row, added up block by block.

    Numerics: for numbers of one sign a relative error below 320 units of 2^-53, in up to 10^8 columns,
    since no number takes part in more than 5 times 63 additions.

    >>> totals(np.ones((2, 100))).tolist()
    [100.0, 100.0]
    """
    while terms.shape[1] > 64:
        terms = np.add.reduceat(terms, np.arange(0, terms.shape[1], 64), axis=1)
    sums: Floats = terms.sum(axis=1)
    return sums


def products(first: Floats, second: Floats) -> Floats:
    """The scalar product of each pair of rows, added up block by block as in `totals`.

    >>> products(np.array([[3.0, 4.0]]), np.array([[1.0, 2.0]])).tolist()
    [11.0]
    """
    rows, columns = first.shape
    whole = columns - columns % 64
    if not whole:
        return totals(first * second)
    shape = (rows, whole // 64, 64)
    sums = np.empty((rows, whole // 64 + 1))
    np.einsum(
        "ijk,ijk->ij",
        first[:, :whole].reshape(shape),
        second[:, :whole].reshape(shape),
        out=sums[:, :-1],
    )
    np.einsum("ij,ij->i", first[:, whole:], second[:, whole:], out=sums[:, -1])
    return totals(sums)


def checked_norms(rows: Floats, radius: float, norm: float) -> Floats:
    """The norm of every row, each at most radius up to a relative 1e-9; refused otherwise.

    >>> checked_norms(np.array([[3.0, -4.0]]), 7.0, 1).tolist()
    [7.0]
    """
    sizes = norms_of(rows, norm)
    clip = f"clipped(records, radius={radius:.12g}, norm={_word(norm)})"
    if not np.all(np.isfinite(sizes)) and (holes := np.count_nonzero(rows_with_holes(rows))):
        raise InvalidArgument(
            f"records must be finite numbers; got {holes} rows that are not. Nothing was reported. "
            f"{clip} takes them for zero."
        )
    bad = np.count_nonzero(~(sizes <= radius * (1.0 + TOLERANCE)))
    if bad:
        raise InvalidArgument(
            f"records must have l{_symbol(norm)} norm at most {radius:.12g}; got {bad} rows that are "
            f"longer. Use {clip}."
        )
    return sizes


def clipped(vectors: ArrayLike, *, radius: float, norm: float = 2, strict: bool = False) -> Floats:
    """The vectors, each scaled down to norm at most ``radius`` where it is larger.

        x min(1, radius / ||x||)

    A vector that is not finite counts as zero, so that nothing but its clipped value tells of a record.

    Numerics: the exact norm of what is returned never exceeds the radius. Vectors longer than
    radius (1 - 2^-43) are scaled to radius (1 - 2^-41). That pays for the computed norm, off by at most
    a relative 2^-44, and for the rounding of the factor and the products. Vectors longer than 1e100 are
    first scaled to a largest entry between 1/2 and 1, by a power of two, so that no factor is subnormal
    and no norm overflows. Source: abadi2016 Algorithm 1.

    Args:
        vectors: Array of shape (vectors, coordinates); it is not changed.
        radius: Largest norm that is kept, from 1e-30 to 1e30.
        norm: Order of the norm, from 1 to math.inf.
        strict: True to raise an error at a vector that is not finite. That tells whoever learns of it
            that there was such a record: no privacy guarantee covers it.

    Returns:
        A new array of doubles of the same shape.

    Raises:
        InvalidArgument: radius or norm is out of range, the shape is wrong, or strict is True and a
            vector is not finite.
        WrongType: vectors is no array of real numbers, or another argument has the wrong type.

    >>> clipped([[3.0, 4.0], [0.3, 0.4], [float("nan"), 0.0]], radius=2.5).round(9).tolist()
    [[1.5, 2.0], [0.3, 0.4], [0.0, 0.0]]
    """
    radius = positive_scale(radius=radius, hint="It is the largest norm that is kept.")
    norm = checked_norm(norm)
    table = table_of(vectors, None, "vectors")
    rows: Floats = np.empty(table.shape)
    holes = 0
    for block in blocks(len(rows), rows.shape[1]):
        with np.errstate(over="ignore"):  # numbers of more than double precision may be beyond it
            rows[block] = table[block]
        holes += _clip(rows[block], radius, norm)
    if flag(strict=strict) and holes:
        raise not_finite("vectors", holes)
    return rows


def _clip(rows: Floats, radius: float, norm: float) -> int:
    """Clip rows in place, and count those that are not finite: they become zero."""
    sizes = _norms(rows, norm)
    unknown = np.flatnonzero(~(sizes < _EXTREME))
    empty = unknown[rows_with_holes(rows[unknown])]
    rows[empty] = sizes[empty] = 0.0
    large = sizes > radius * (1.0 - _SHORTER / 4.0)
    extreme = np.flatnonzero(large & ~(sizes < _EXTREME))
    if extreme.size:  # scaled by a power of two first
        _, exponents = np.frexp(np.abs(rows[extreme]).max(axis=1))
        rows[extreme] = np.ldexp(rows[extreme], -exponents[:, None])
        sizes[extreme] = _norms(rows[extreme], norm)
    if large.any():
        with np.errstate(divide="ignore"):
            factors = np.where(large, radius * (1.0 - _SHORTER) / sizes, 1.0)
        rows *= factors[:, None]
    return int(empty.size)


def checked_norm(norm: object) -> float:
    """The order of a norm: 1, infinity or anything between.

    >>> checked_norm(2)
    2.0
    """
    number = norm if isinstance(norm, int | float | np.integer | np.floating) else math.nan
    if not isinstance(norm, bool) and (1 <= number <= sys.float_info.max or number == math.inf):
        return float(number)
    raise invalid("norm", "a number from 1 to math.inf", norm, "The usual one is 2.")


def rows_with_holes(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have an entry that is no finite number.

    >>> rows_with_holes(np.array([[1.0, np.nan], [1.0, 2.0]])).tolist()
    [True, False]
    """
    unusable: NDArray[np.bool_] = ~np.isfinite(rows).all(axis=1)
    return unusable


def not_finite(name: str, bad: int) -> InvalidArgument:
    """The error of a strict run at so many records whose gradients are no finite numbers."""
    return InvalidArgument(
        f"{name} must be finite; got {bad} that are not. Nothing of this step was released, but that the "
        "run stopped shows that there was such a record. Lower the learning rate, or check the data."
    )


def _symbol(norm: float) -> str:
    return "-infinity" if norm == math.inf else f"{norm:g}"


def _word(norm: float) -> str:
    return "math.inf" if norm == math.inf else f"{norm:g}"


def vector_of(parameters: ArrayLike, dimension: int) -> Floats:
    """Parameters as a new array of so many finite numbers.

    >>> vector_of([1, 2], 2).tolist()
    [1.0, 2.0]
    """
    allowed = f"parameters must be {dimension} finite numbers in one dimension"
    hint = "Flatten the model's parameters into one vector."
    try:
        array = np.array(parameters)
    except ValueError as ragged:
        raise WrongType(f"{allowed}; got lists of different lengths. {hint}") from ragged
    if array.dtype.kind not in "fiu":
        raise WrongType(f"{allowed}; got {short_repr(parameters)}. {hint}")
    if array.shape != (dimension,):
        raise InvalidArgument(f"{allowed}; got shape {array.shape}. {hint}")
    if not np.all(np.isfinite(array)):
        index = int(np.argmin(np.isfinite(array)))
        raise InvalidArgument(f"{allowed}; got {array[index]} as number {index}.")
    return array.astype(np.float64)
