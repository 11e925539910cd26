"""Draws in chunks: the same sums from any number of workers, kept when a run is interrupted.

A chunk has a size that depends on the mechanism alone and a stream of its own, numbered by the chunk, so
that who draws it does not matter. Sums of chunks are added in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import numpy as np

from sharpdp.errors import InvalidArgument
from sharpdp.numerics.special import Array
from sharpdp.questions.estimate.confidence import Bets
from sharpdp.questions.estimate.experiment import SIZE_ERROR, Direction, Draws, Product, Tilt

__all__ = [
    "Counts",
    "DrawCache",
    "Pilot",
    "Progress",
    "Score",
    "Task",
    "Weights",
    "chunk_size",
    "drawn",
    "payoff",
    "summed",
]

LARGEST_CHUNK = 4096
"""Draws of a chunk at most."""

CHUNK_WORK = 2**24
"""Numbers that a chunk draws at most, unless sixteen draws need more: about a tenth of a second."""

Progress = Callable[[int, int], None]


class Score(Protocol):
    """The sums over draws that are kept."""

    def sums(self, draws: Draws, rng: np.random.Generator, error: Array) -> Array:
        """The sums over these draws; losses are known up to their errors."""


@dataclass(frozen=True)
class Weights:
    """Sums of log(1 + b x) and log(1 - b x), x the weighted payoff over its scale, for each epsilon."""

    epsilons: tuple[float, ...]
    log_scales: tuple[float, ...]
    order: float
    lower: tuple[Bets, ...]
    upper: tuple[Bets, ...]

    def sums(self, draws: Draws, rng: np.random.Generator, error: Array) -> Array:
        """One row for each epsilon: sums of the bets for the lower end, then for the upper end."""
        rows = []
        allowance = (1.0 + self.order) * error
        for index, epsilon in enumerate(self.epsilons):
            log_scale = self.log_scales[index]
            low = payoff(draws, epsilon + error, log_scale) * np.exp(-allowance)
            high = payoff(draws, epsilon - error, log_scale) * np.exp(allowance)
            up, down = np.array(self.lower[index].amounts), np.array(self.upper[index].amounts)
            gains = np.sum(np.log1p(up[:, None] * low), axis=1)
            losses = np.sum(np.log1p(-down[:, None] * np.minimum(high, 1.0)), axis=1)
            rows.append(np.concatenate([gains, losses]))
        return np.array(rows)


@dataclass(frozen=True)
class Counts:
    """How many draws, thinned by their payoff, remain at each epsilon: at least, and at most."""

    epsilons: tuple[float, ...]

    def sums(self, draws: Draws, rng: np.random.Generator, error: Array) -> Array:
        """A draw remains if a uniform variable is below its payoff: the chance of that is delta."""
        uniform = rng.random(draws.loss.size)
        rows = [
            [
                np.count_nonzero(uniform < payoff(draws, epsilon + error, 0.0)),
                np.count_nonzero(uniform < payoff(draws, epsilon - error, 0.0)),
            ]
            for epsilon in self.epsilons
        ]
        return np.array(rows, dtype=float)


@dataclass(frozen=True)
class Pilot:
    """The draws themselves, losses first."""

    def sums(self, draws: Draws, rng: np.random.Generator, error: Array) -> Array:
        """Losses and logarithms of densities."""
        return np.array(draws[:2])


@dataclass(frozen=True)
class Task:
    """One chunk."""

    product: Product
    direction: Direction
    tilt: Tilt
    score: Score
    seed: int
    stream: tuple[int, ...]
    samples: int

    def run(self) -> Array:
        """The sums of the chunk."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=self.stream)
        rng = np.random.Generator(np.random.SFC64(sequence))
        draws = self.product.draw(rng, self.samples, self.direction, self.tilt)
        error = self.product.loss_error + SIZE_ERROR * np.maximum(draws.loss, 0.0) + draws.error
        return self.score.sums(draws, rng, error)


@dataclass
class DrawCache:
    """The draws made so far: hand it to `estimate` and, if that is interrupted, once more.

    Args:
        seed: Seed of the draws; set by the first call.
        question: What the draws are for; set by the first call.
        done: Sums of the chunks that are done, by stream.

    >>> cache = DrawCache()
    >>> len(cache)
    0
    """

    seed: int | None = None
    question: object = None
    done: dict[tuple[int, ...], Array] = field(default_factory=dict)

    def __len__(self) -> int:
        """Chunks of up to 4096 draws that are done."""
        return len(self.done)

    def settle(self, question: object, seed: int) -> int:
        """The seed to go on with; a cache serves one question only.

        Args:
            question: What the draws are for; compared by equality.
            seed: Seed to begin with if the cache is new.

        Returns:
            The seed of the first call.

        Raises:
            InvalidArgument: The cache belongs to another question.
        """
        if self.question is None:
            self.question, self.seed = question, seed
        if self.question != question:
            raise InvalidArgument(
                "cache must belong to the same question; got one of another mechanism, epsilon, "
                "delta, samples or confidence. Start a new one: DrawCache()."
            )
        assert self.seed is not None
        return self.seed


def payoff(draws: Draws, epsilon: float | Array, log_scale: float) -> Array:
    """(1 - e^(epsilon - loss))_+ over the density and the scale."""
    with np.errstate(over="ignore", divide="ignore"):
        log_part = np.log(-np.expm1(np.minimum(epsilon - draws.loss, 0.0)))
        return np.asarray(np.exp(log_part - draws.log_density - log_scale))


def drawn(task: Task) -> Draws:
    """The draws of a task whose score is Pilot."""
    return Draws(*task.run())


def chunk_size(work: int) -> int:
    """Draws of a chunk, by the work of one draw: a power of two from 16 to 4096.

    >>> chunk_size(1), chunk_size(10**5), chunk_size(10**9)
    (4096, 128, 16)
    """
    return max(16, min(LARGEST_CHUNK, 1 << (CHUNK_WORK // work).bit_length() >> 1))


def summed(
    tasks: Callable[[int, int], Task],
    samples: int,
    chunk_samples: int,
    stage: tuple[int, ...],
    cache: DrawCache,
    executor: Executor | None,
    progress: Progress,
) -> Array:
    """The sums over all draws; tasks(chunk, size) is a chunk, stage its name in the cache."""
    sizes = [min(chunk_samples, samples - start) for start in range(0, samples, chunk_samples)]
    wanted = [
        (chunk, size) for chunk, size in enumerate(sizes) if _key(stage, chunk) not in cache.done
    ]
    finished = samples - sum(size for _, size in wanted)
    todo = ((chunk, size, tasks(chunk, size)) for chunk, size in wanted)
    for chunk, size, result in _results(todo, executor):
        cache.done[_key(stage, chunk)] = result
        finished += size
        progress(finished, samples)
    total = np.zeros_like(cache.done[_key(stage, 0)])
    lost = np.zeros_like(total)  # compensated: what additions round away is added again
    for chunk in range(len(sizes)):
        term = cache.done[_key(stage, chunk)] - lost
        following = total + term
        lost = (following - total) - term
        total = following
    return total


def _key(stage: tuple[int, ...], chunk: int) -> tuple[int, ...]:
    return (*stage, chunk)


def _results(
    todo: Iterator[tuple[int, int, Task]], executor: Executor | None
) -> Iterator[tuple[int, int, Array]]:
    """Chunks as they are done, in their order; up to 64 are always under way."""
    if executor is None:
        for chunk, size, task in todo:
            yield chunk, size, task.run()
        return
    waiting: list[tuple[int, int, Future[Array]]] = []
    try:
        while True:
            for chunk, size, task in islice(todo, 64 - len(waiting)):
                waiting.append((chunk, size, executor.submit(Task.run, task)))
            if not waiting:
                return
            chunk, size, future = waiting.pop(0)
            yield chunk, size, future.result()
    finally:
        for _, _, future in waiting:
            future.cancel()
