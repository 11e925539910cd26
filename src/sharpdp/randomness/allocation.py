"""Which examples chose a step, found by halving the steps again and again.

Every example chooses some of the steps, by itself and uniformly. How many choose a step of the first
half is binomial, and so on within each half: a walk from all steps down to one draws how many examples
are there, without drawing where all others are. Who they are is settled by random orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import comb
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sharpdp.randomness.binomial import binomial_once
from sharpdp.randomness.keyed_stream import KeyedStream
from sharpdp.randomness.permutation import Order, random_order, random_places

__all__ = ["MOST_CHOICES", "chosen_once", "chosen_often", "choices_of", "held_choices"]

MOST_CHOICES = 16
"""Examples with more choices each are only drawn by holding all of them: halving would be slow."""

LARGEST_LISTED = 2**14
"""Orders of at most so many examples are held, within a halving: one is drawn for nearly every step."""

Node = TypeVar("Node")
Step = Callable[[int], NDArray[np.int64]]
"""The examples of a step."""


class _Walk(Generic[Node]):
    """Paths from all steps to one of them; what the next path shares with the last is kept."""

    def __init__(
        self, root: Node, steps: int, halves: Callable[[Node, int, int, int], tuple[Node, Node]]
    ) -> None:
        """Start at the root; ``halves(node, first, middle, last)`` are the two below a node."""
        self._halves = halves
        self._path: list[tuple[int, int, Node]] = [(0, steps, root)]
        self._below: list[tuple[Node, Node]] = []

    def to(self, step: int) -> list[Node]:
        """The nodes from the root to this step, both included."""
        while not self._path[-1][0] <= step < self._path[-1][1]:
            self._path.pop()
            del self._below[len(self._path) :]
        while (span := self._path[-1])[1] - span[0] > 1:
            first, last, node = span
            middle = (first + last) // 2
            if len(self._below) < len(self._path):
                self._below.append(self._halves(node, first, middle, last))
            left, right = self._below[-1]
            self._path.append((first, middle, left) if step < middle else (middle, last, right))
        return [node for _, _, node in self._path]


def chosen_once(source: KeyedStream, examples: int, steps: int) -> Step:
    """Every example chooses one step: the examples of a step are a slice of one random order.

    The sizes of all steps are multinomial, and given the sizes every way to distribute the examples is
    equally likely; cutting one random order at the sums of the sizes has the same law.

    >>> step = chosen_once(KeyedStream(b"k" * 32), 6, 2)
    >>> sorted([*step(0).tolist(), *step(1).tolist()])
    [0, 1, 2, 3, 4, 5]
    """
    order = random_order(source.derive("order"), examples)
    walk = _Walk((0, examples), steps, partial(_halved, source))
    return lambda step: np.sort(order(np.arange(*walk.to(step)[-1], dtype=np.int64)))


def choices_of(source: KeyedStream, examples: int, steps: int) -> Order:
    """A function of examples that gives the step each of them chose, if all do as in `chosen_once`.

    Few examples are followed down to their steps, by about log2(steps) draws each. For many, the ends of
    all steps are drawn once and kept: 8 bytes for each step.

    >>> step = chosen_once(KeyedStream(b"k" * 32), 6, 2)
    >>> first = choices_of(KeyedStream(b"k" * 32), 6, 2)
    >>> sorted(step(0).tolist()) == np.flatnonzero(first(np.arange(6)) == 0).tolist()
    True
    """
    ends_of = lru_cache(maxsize=1)(lambda: _ends(source, examples, steps))

    def chosen(some: NDArray[np.int64]) -> NDArray[np.int64]:
        places = random_places(source.derive("order"), examples)(some)  # which is not kept
        if places.size * steps.bit_length() < steps:
            return np.array([_step_at(source, examples, steps, place) for place in places.tolist()])
        return np.searchsorted(ends_of(), places, side="right").astype(np.int64)

    return chosen


def _step_at(source: KeyedStream, examples: int, steps: int, place: int) -> int:
    """The step in whose slice of the order a place lies."""
    span, first, last = (0, examples), 0, steps
    while last - first > 1:
        middle = (first + last) // 2
        left, right = _halved(source, span, first, middle, last)
        if place < left[1]:
            span, last = left, middle
        else:
            span, first = right, middle
    return first


def _ends(source: KeyedStream, examples: int, steps: int) -> NDArray[np.int64]:
    """Where the slice of each step ends in the order of all examples."""
    ends = np.empty(steps, dtype=np.int64)
    rest = [((0, examples), 0, steps)]
    while rest:
        span, first, last = rest.pop()
        if span[0] == span[1] or last - first == 1:  # nobody is there, or all are in one step
            ends[first:last] = span[1]
            continue
        middle = (first + last) // 2
        left, right = _halved(source, span, first, middle, last)
        rest += [(left, first, middle), (right, middle, last)]
    return ends


def _halved(
    source: KeyedStream, span: tuple[int, int], first: int, middle: int, last: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The places of the examples in each half of some steps, from those in all of them."""
    start, stop = span
    chance = Fraction(middle - first, last - first)
    cut = start + binomial_once(source.derive("half", first, last), stop - start, chance)
    return (start, cut), (cut, stop)


@dataclass(frozen=True)
class _Piece:
    """Examples that have ``above`` choices in the steps above: a slice of their random order there."""

    above: int
    order: Order
    start: int
    size: int


_Classes = dict[int, list[_Piece]]
"""For each number of choices, at least 1, within some steps: the examples that have so many."""


def chosen_often(source: KeyedStream, examples: int, steps: int, choices: int) -> Step:
    """Every example chooses ``choices`` different steps, all sets of steps equally likely.

    Among the examples that have c choices in some steps, how many have c' of them in the first half is
    hypergeometric for each of them, so multinomial in all; a random order of these examples, drawn for
    this cut alone and cut at the sums, tells who. A step goes back through the cuts above it.

    >>> step = chosen_often(KeyedStream(b"k" * 32), 6, 3, 2)
    >>> sorted(x for s in range(3) for x in step(s).tolist())
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    """

    def halves(classes: _Classes, first: int, middle: int, last: int) -> tuple[_Classes, _Classes]:
        left: _Classes = {}
        right: _Classes = {}
        for above, pieces in classes.items():
            own = source.derive("half", first, last, above)
            size = sum(piece.size for piece in pieces)
            order = random_order(own.derive("order"), size, LARGEST_LISTED) if size else np.copy
            start = 0
            for count, part in enumerate(_shares(own, size, above, middle - first, last - first)):
                piece = _Piece(above, order, start, part)
                left.setdefault(count, []).append(piece)
                right.setdefault(above - count, []).append(piece)
                start += part
        left.pop(0, None)
        right.pop(0, None)
        return left, right

    everyone = _Piece(choices, np.copy, 0, examples)
    walk = _Walk[_Classes]({choices: [everyone]}, steps, halves)
    return lambda step: np.sort(_traced(walk.to(step)))


def _shares(source: KeyedStream, size: int, choices: int, half: int, whole: int) -> list[int]:
    """How many of ``size`` examples have 0, 1, ..., choices of their choices in the first half."""
    ways = [comb(half, count) * comb(whole - half, choices - count) for count in range(choices + 1)]
    shares: list[int] = []
    for count, way in enumerate(ways):
        rest = sum(ways[count:])
        chance = Fraction(way, rest) if rest else Fraction(0)
        own = source.derive("share", count)
        shares.append(binomial_once(own, size - sum(shares), chance))
    return shares


def _traced(path: list[_Classes]) -> NDArray[np.int64]:
    """The examples with one choice at the end of the path, followed back to where it begins."""
    pieces = path[-1].get(1, [])
    places = {1: np.arange(sum(piece.size for piece in pieces), dtype=np.int64)}
    for classes in reversed(path[1:]):
        above: dict[int, list[NDArray[np.int64]]] = {}
        for count, some in places.items():
            begin = 0
            for piece in classes[count]:
                inside = some[(some >= begin) & (some < begin + piece.size)]
                examples = piece.order(inside - begin + piece.start)
                above.setdefault(piece.above, []).append(examples)
                begin += piece.size
        places = {count: np.concatenate(parts) for count, parts in above.items()}
    return next(iter(places.values()), np.zeros(0, dtype=np.int64))


def held_choices(source: KeyedStream, examples: int, steps: int, choices: int) -> Step:
    """Every example chooses ``choices`` different steps; the choices of all examples are held.

    The j-th choice is uniform on the first steps - choices + j steps, or the last of these if it was
    chosen before (Floyd's method): all sets of steps are equally likely.

    >>> step = held_choices(KeyedStream(b"k" * 32), 6, 3, 3)
    >>> [step(s).tolist() for s in range(3)] == [list(range(6))] * 3
    True
    """
    chosen = np.empty((examples, choices), dtype=np.int64)
    for index in range(choices):
        last = steps - choices + index
        drawn = source.below(last + 1, examples)
        again = np.any(chosen[:, :index] == drawn[:, None], axis=1)
        chosen[:, index] = np.where(again, last, drawn)
    flat = chosen.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ascending = flat[order]

    def examples_of(step: int) -> NDArray[np.int64]:
        start, stop = np.searchsorted(ascending, [step, step + 1])
        return (order[start:stop] // choices).astype(np.int64)

    return examples_of
