"""Random orders of a data set, of which a slice can be had without holding the whole.

Up to 2^20 examples an order is drawn and held: all orders are exactly equally likely. Beyond, it is a
Feistel network on a rectangle of about sqrt(size) by sqrt(size) places whose rounds add random
tables: some megabytes for 10^9 examples. Its orders cannot all be reached, so "uniformly random" then
means: not told apart from it by any known method, as with every cipher.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import invalid
from sharpdp.randomness.keyed_stream import KeyedStream

__all__ = ["Order", "orderable", "random_order", "random_places"]

Order: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""The examples at some places of an order."""

ROUNDS = 12
"""Rounds of the network. On the balanced network on bits, the best known attacks on k > 6 rounds need
about size^((k - 6) / 2) whole orders (Patarin, Generic Attacks on Feistel Schemes, 2001); an observer of
training sees none. Tables are cheap, so there are twelve."""


def random_order(source: KeyedStream, size: int, listed: int = 2**20) -> Order:
    """A random order of 0, ..., size - 1; one of at most ``listed`` examples is exactly uniform.

    Such an order is held: by default in at most eight megabytes.

    >>> order = random_order(KeyedStream(b"k" * 32), 4)
    >>> sorted(order(np.arange(4)).tolist())
    [0, 1, 2, 3]
    """
    if size <= listed:
        return _listed(source, size).__getitem__
    return _Network(source, size)


def random_places(source: KeyedStream, size: int, listed: int = 2**20) -> Order:
    """The places of some examples in the order that `random_order` draws from the same source.

    >>> key = b"k" * 32
    >>> order, places = (make(KeyedStream(key), 9) for make in (random_order, random_places))
    >>> places(order(np.arange(9))).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    if size <= listed:
        return np.argsort(_listed(source, size)).__getitem__
    return _Network(source, size).places_of


def orderable(dataset_size: int) -> int:
    """The size, if a random order of so many examples can be drawn.

    >>> orderable(10**9)
    1000000000
    """
    if dataset_size > 10**13:  # the tables would need hundreds of megabytes
        hint = "To draw batches of more examples, draw each by itself: PoissonBatches."
        raise invalid("dataset_size", "at most 10^13 for a random order", dataset_size, hint)
    return dataset_size


def _listed(source: KeyedStream, size: int) -> NDArray[np.int64]:
    """All places in order of a random number each; drawn again if two numbers are the same."""
    while True:
        keys = source.below(2**63, size)
        order = np.argsort(keys)
        if np.all(np.diff(keys[order]) > 0):
            return order.astype(np.int64)


class _Network:
    """A Feistel network on x * width + y with 0 <= x < height, 0 <= y < width; see the module.

    Round by round, a random function of y is added to x modulo height, then one of x to y modulo
    width. The rectangle has fewer than sqrt(size) places too many; who lands there goes on.
    """

    def __init__(self, source: KeyedStream, size: int) -> None:
        """Fill the tables."""
        self.size = size
        self.height = math.isqrt(size - 1) + 1
        self.width = -(-size // self.height)
        kind = np.int32 if self.height < 2**31 else np.int64
        self.tables = [
            source.below(
                *((self.height, self.width) if even else (self.width, self.height))
            ).astype(kind)
            for even in (True, False) * (ROUNDS // 2)
        ]

    def __call__(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        moved = self._once(places)
        while (outside := np.flatnonzero(moved >= self.size)).size:
            moved[outside] = self._once(moved[outside])
        return moved

    def places_of(self, examples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these examples are: all rounds in reverse, until that is a place of the order."""
        found = self._back(examples)
        while (outside := np.flatnonzero(found >= self.size)).size:
            found[outside] = self._back(found[outside])
        return found

    def _back(self, examples: NDArray[np.int64]) -> NDArray[np.int64]:
        x, y = np.divmod(examples, self.width)
        rounds = zip(self.tables[0::2], self.tables[1::2], strict=True)
        for onto_x, onto_y in reversed(list(rounds)):
            y -= onto_y[x]
            y += self.width * (y < 0)
            x -= onto_x[y]
            x += self.height * (x < 0)
        moved: NDArray[np.int64] = x * self.width + y
        return moved

    def _once(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        x, y = np.divmod(places, self.width)
        for onto_x, onto_y in zip(self.tables[0::2], self.tables[1::2], strict=True):
            x += onto_x[y]
            x -= self.height * (x >= self.height)
            y += onto_y[x]
            y -= self.width * (y >= self.width)
        moved: NDArray[np.int64] = x * self.width + y
        return moved
