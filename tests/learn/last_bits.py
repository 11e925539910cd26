"""The attack on last bits, against everything that sharpdp.learn releases.

    python -m tests.learn.last_bits --reports 1000000

Reports are drawn from one input with the system's randomness; noise from random words, some of which are
in the tails or next to the center. For every candidate input the attack inverts the sampler: it computes
the random words that lead to the report's coordinates, gives these words to the public function in
place of the system's, and compares what comes out with the report, bit for bit. If they agree, the
report is possible under the candidate. If not, the attack says that the report excludes the candidate; a
sound sampler leaves it none. Numbers come out as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, localcontext
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy.special import ndtr

from sharpdp.learn import (
    CLDPSGD,
    BlockRun,
    BlockSGD,
    ClientRun,
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
)
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.learn.randomizers import lattice_rounding, privunit
from sharpdp.learn.randomizers.lattice_laplace import FINENESS, steps_of
from sharpdp.learn.randomizers.validation import blocks
from sharpdp.randomness import normal_rectangles
from sharpdp.randomness import normals as normal_numbers
from sharpdp.randomness import system_stream as randomness

LAST = 2**64 - 1
"""The largest word: above the threshold of every coin."""

FEW = 2**46
"""Words nearer to an end than this are followed by further ones."""

BLOCK = 2**15
"""Reports of one number each that are attacked at once."""

Words = Any


# --- words in place of the system's


@contextmanager
def given(arrays: Sequence[Words]) -> Iterator[None]:
    """The system's randomness is these words, in order, and all are asked for."""
    rest = np.concatenate([np.array(array, dtype=np.uint64).reshape(-1) for array in arrays])
    drawn = 0

    def draw(count: int) -> Words:
        nonlocal drawn
        drawn += count
        assert drawn <= rest.size
        return rest[drawn - count : drawn]

    with mock.patch.object(randomness, "_system_words", draw):
        yield
    assert drawn == rest.size


def all_words(word: int, count: int) -> Words:
    return np.full(count, word, dtype=np.uint64)


def word_of(share: Any) -> Words:
    """The word of a probability below 1/2."""
    return np.ldexp(share, 64).astype(np.uint64)


def words_of_normals(numbers: Any) -> list[Words]:
    """The words of normal numbers, and the further ones that those in the tails ask for."""
    units = word_of(ndtr(-np.abs(numbers)).reshape(-1))
    units = np.minimum(units, np.uint64(2**63 - 1))
    further = all_words(2**63, int(np.count_nonzero(units < FEW)))
    return [np.where(numbers.reshape(-1) > 0.0, ~units, units), further]


def same_bits(first: Any, second: Any) -> Any:
    """Which rows agree, the signs of zeros included."""
    equal = first.view(np.int64) == second.view(np.int64)
    return equal if equal.ndim == 1 else equal.all(axis=1)


# --- PrivUnit and PrivUnitBall


def words_of_dither(numbers: Any, wanted: Any) -> list[Words]:
    """The words with which dithering makes these whole numbers of those points."""
    floor = np.floor(
        numbers
    )  # the coin 0 rounds down, unless the number is so near to the next one
    near = (numbers - floor).reshape(-1) >= 1.0 - 2.0**-16
    steps = (wanted - floor).astype(np.int64).reshape(-1)
    halves = np.zeros(4 * -(-steps.size // 2), dtype=np.uint16)
    # slots are sorted by step; one in the middle of those of a step, or the first that is left
    table = lattice_rounding._slots().astype(np.int64)[: lattice_rounding._slots_taken()]
    low, high = (np.searchsorted(table, steps, side=side) for side in ("left", "right"))
    far = low == high
    places = np.where(far, int(lattice_rounding._slots_taken()), (low + high) // 2)
    halves[steps.size : 2 * steps.size] = places
    thirds = lattice_rounding._thirds()
    edges = np.clip(steps[far], -17, 17)
    chosen = np.array([np.flatnonzero(thirds == step)[0] for step in edges.tolist()])
    beyond = np.abs(steps[far][np.abs(edges) == 17]) - 17
    undecided = all_words(LAST, int(np.count_nonzero(near)))
    return [
        halves.view(np.uint64),
        undecided,
        chosen,
        np.uint64(1) << beyond.astype(np.uint64),
    ]


def words_of_directions(points: Any) -> list[Words]:
    """The words of directions; normal vectors are a little longer than the shortest that are taken."""
    columns = points.shape[1]
    length = 2.0 if columns < 12 else 0.7 * math.sqrt(columns)
    return words_of_rectangles(points * length)


def words_of_rectangles(numbers: Any) -> list[Words]:
    """The words of normal numbers below 4 by rectangles: a slot of the cell, and the place.

    Cells that have no slot are reached through what is left, with further words and coins.
    """
    tables = normal_rectangles._tables()
    flat = numbers.reshape(-1)
    units = np.floor(np.abs(flat) * 2.0**54).astype(np.int64)
    cells, places = units >> 48, (units & (2**48 - 1)).astype(np.uint64)
    slots = np.arange(2**16, dtype=np.int64) << 48
    first = int(tables.first_left >> np.uint64(48))
    starts = (tables.starts + slots)[first // 2 : first] >> 48
    plus = np.searchsorted(starts, cells, side="right") - 1
    is_far = starts[plus] != cells
    # the slots of negative numbers mirror those of positive ones, and so do the places in them
    words = ((first // 2 + plus).astype(np.uint64) << np.uint64(48)) | places
    mirrored = np.uint64((first << 48) - 1) - words
    words = np.where(is_far, tables.first_left, np.where(flat < 0.0, mirrored, words))
    count = int(np.count_nonzero(is_far))
    if not count:
        return [words]
    left = np.searchsorted((tables.left_starts + slots) >> 48, cells[is_far]).astype(np.uint64)
    rest = count + 32  # tried, and not taken
    coins = (flat[is_far] < 0.0).astype(np.uint64)
    return [
        words,
        (left << np.uint64(48)) | places[is_far],
        all_words(0, rest),
        coins,
        all_words(LAST, rest),
    ]


def words_of_cap(unit: PrivUnit, axes: Any, points: Any) -> tuple[list[Words], list[Words]]:
    """The words of heights, and those of the directions, with which points of caps are drawn."""
    cap, d = unit.cap, unit.dimension
    if cap.height**2 * d < 0.25:
        return [], words_of_directions(points)
    heights = np.einsum("ij,ij->i", axes, points)
    # the reflection that takes the first axis to the candidate, backwards
    signs = np.where(axes[:, 0] < 0.0, -1.0, 1.0)
    mirrors = axes.copy()
    mirrors[:, 0] += signs
    share = np.einsum("ij,ij->i", mirrors, points) / (1.0 + np.abs(axes[:, 0]))
    across = (points - share[:, None] * mirrors)[:, 1:]
    across /= np.linalg.norm(across, axis=1)[:, None]
    widest = (1.0 - cap.height) * (1.0 + cap.height)
    fractions = ((1.0 - heights) * (1.0 + heights) / widest) ** (0.5 * (d - 1))
    units = word_of(0.5 * np.clip(fractions, 1e-17, 1.0 - 1e-15))
    further = all_words(2**63, int(np.count_nonzero(units < FEW)))
    accepted = all_words(0, len(points))
    return [units, further, accepted], words_of_directions(across)


def tilted(points: Any, cosine: float) -> Any:
    """Unit vectors at this angle to those."""
    across = np.random.default_rng(1).normal(size=points.shape)
    across -= points * np.einsum("ij,ij->i", points, across)[:, None]
    across /= np.linalg.norm(across, axis=1)[:, None]
    return cosine * points + math.sqrt(1.0 - cosine**2) * across


def sphere_excluded(randomizer: PrivUnit | PrivUnitBall, reports: Any, candidate: Any) -> Any:
    """Which reports on a sphere are impossible under the candidate, and which come from its cap."""
    is_ball = isinstance(randomizer, PrivUnitBall)
    unit = randomizer.unit if isinstance(randomizer, PrivUnitBall) else randomizer
    length = randomizer.reach if isinstance(randomizer, PrivUnitBall) else 1.0
    excluded, caps = np.zeros(len(reports), dtype=bool), np.zeros(len(reports), dtype=bool)
    size = float(np.linalg.norm(candidate))
    for block in blocks(*reports.shape):
        wanted = np.rint(reports[block] / (length * unit.step / unit.cap.mean))
        points = wanted / np.linalg.norm(wanted, axis=1)[:, None]
        records = np.tile(candidate, (len(points), 1))
        if size > 0.0:
            axes = records / size
        else:  # a zero vector takes a random direction: one in whose cap the report is
            axes = tilted(points, 0.5 + 0.5 * unit.height)
        heights = np.einsum("ij,ij->i", axes, points)
        inside = heights > unit.height * (1.0 + 1e-9) + 1e-12
        caps[block] = inside
        start = [all_words(0, len(points))] if is_ball else []  # the sign is plus
        start.append(np.where(inside, np.uint64(0), np.uint64(LAST)))
        scalars, sides = words_of_cap(unit, axes[inside], points[inside])
        centers = words_of_directions(axes[inside]) if size == 0.0 else []
        parts = []  # of the points of the sphere, then of those of the caps, if there are any
        if not inside.all():
            parts.append((words_of_directions(points[~inside]), wanted[~inside]))
        if inside.any():
            parts.append(([*scalars, *centers, *sides], wanted[inside]))
        seen: list[Any] = []

        def kept(numbers: Any, source: Any, space: Any, seen: list[Any] = seen) -> Any:
            seen.append(numbers.copy())
            return numbers

        with (
            given([*start, *(word for words, _ in parts for word in words)]),
            mock.patch.object(privunit, "dithered", kept),
        ):
            randomizer.reports(records)
        words = list(start)
        for (drawn, aims), numbers in zip(parts, seen, strict=True):
            words += [*drawn, *words_of_dither(numbers, aims)]
        with given(words):
            made = randomizer.reports(records)
        excluded[block] = ~same_bits(made, reports[block])
    return excluded, caps


# --- the other randomizers


def lattice_excluded(noise: LatticeLaplace, reports: Any, candidate: Any) -> Any:
    """Which reports of LatticeLaplace are impossible under the candidate."""
    cumulative = np.concatenate([np.zeros(1, dtype=np.uint64), steps_of().cumulative])
    excluded = np.zeros(len(reports), dtype=bool)
    size = max(float(np.abs(candidate).sum()) / noise.radius, 1.0)
    for block in blocks(*reports.shape):
        records = np.tile(candidate, (len(reports[block]), 1))
        whole = np.copysign(np.floor(np.abs(records) / (noise.step * size)), records)
        steps = (np.rint(reports[block] / noise.step) - whole).astype(np.int64).reshape(-1)
        blocks_, places = np.divmod(np.abs(steps), FINENESS)
        tails = np.uint64(1) << blocks_.astype(np.uint64)
        tails |= (steps < 0).astype(np.uint64) << np.uint64(63)
        with given([all_words(LAST, steps.size), cumulative[places], tails]):
            made = noise.reports(records)
        excluded[block] = ~same_bits(made, reports[block])
    return excluded


def signs_excluded(signs: CoordinateSigns | HadamardSigns, reports: Any, candidate: Any) -> Any:
    """Which reports of a randomizer of signs are impossible under the candidate."""
    coins = np.where(reports % 2 == 1, np.uint64(0), np.uint64(LAST))
    with given([reports // 2, coins]):
        return signs.reports(np.tile(candidate, (len(reports), 1))) != reports


def answers_excluded(answers: RandomizedAnswers, reports: Any, candidate: int) -> Any:
    """Which reports of randomized response are impossible under the candidate."""
    kept = np.where(reports == candidate, np.uint64(0), np.uint64(LAST))
    others = np.where(reports == candidate, 0, reports - (reports > candidate))
    with given([kept, others]):
        return answers.reports(np.full(len(reports), candidate)) != reports


# --- Gaussian noise


class GivenSource:
    """In place of the key's source: a word for each place, and the further bits of some places."""

    def __init__(self, words: Words, further: dict[int, list[int]], labels: tuple[Any, ...] = ()):
        self._words, self._further, self._labels = words, further, labels

    def derive(self, *labels: Any) -> GivenSource:
        return GivenSource(self._words, self._further, labels)

    def words(self, size: int) -> Words:
        assert size == self._words.size
        return self._words.copy()

    def integer(self, bits: int) -> int:
        return self._further[self._labels[0]].pop(0)


def released(sums: Any, words: Words, further: dict[int, list[int]], noise: float) -> Any:
    """What StepNoise releases for these sums if its random words are those."""
    step = StepNoise(noise_multiplier=noise, clip=1.0, key=b"k" * 32)
    step._source = GivenSource(words, further)  # type: ignore[assignment]
    return step.added({"w": torch.from_numpy(sums)}, 0)["w"].numpy()


def noise_excluded(releases: Any, candidate: float, noise: float) -> Any:
    """Which released numbers are impossible if the sum is the candidate."""
    step = StepNoise(noise_multiplier=noise, clip=1.0, key=b"k" * 32)
    sums = np.full(len(releases), candidate)
    whole = np.rint(sums / step.grid)
    numbers = releases / step.grid - whole  # in steps, and so are the shifts and the scale
    middle = (numbers - (sums / step.grid - whole)) / (step.deviation / step.grid)
    words, _ = words_of_normals(middle)
    further = {}
    for place in np.flatnonzero(np.minimum(words, ~words) < FEW).tolist():
        with localcontext() as context:  # 192 bits of the probability below the number
            context.prec = 70
            shift = Decimal(float(sums[place])) / Decimal(step.grid) - Decimal(float(whole[place]))
            z = (Decimal(float(numbers[place])) - shift) / Decimal(step.deviation / step.grid)
            bits = int(normal_numbers._distribution(z) * 2**192)
        words[place] = bits >> 128
        further[place] = [(bits >> 64) % 2**64, bits % 2**64]
    return ~same_bits(released(sums, words, further, noise), releases)


# --- all of it


def vectors(dimension: int) -> dict[str, Any]:
    """Gradients of length at most one: on an axis, none, anywhere, and hardly any."""
    rng = np.random.default_rng(dimension)
    general = rng.normal(size=dimension)
    general /= np.linalg.norm(general) * (1.0 + 1e-12)
    axes = np.eye(dimension)
    return {
        "first axis": axes[0],
        "last axis": -axes[-1],
        "zero": 0.0 * axes[0],
        "general": general,
        "short": 1e-3 * general,
    }


def attacked(
    draw: Callable[[Any, int], Any],
    attack: Callable[[Any, Any], Any],
    candidates: dict[str, Any],
    reports: int,
    block: int,
) -> dict[str, Any]:
    """So many reports in all, drawn from every candidate in turn, each attacked with all candidates."""
    start = time.process_time()
    tried = excluded = from_cap = done = 0
    while done < reports:
        for held in candidates.values():
            count = min(block, reports - done)
            if count:
                made = draw(held, count)
                for other in candidates.values():
                    found = attack(made, other)
                    if isinstance(found, tuple):
                        found, caps = found
                        from_cap += int(np.count_nonzero(caps))
                    tried += found.size
                    excluded += int(np.count_nonzero(found))
            done += count
    row = {"reports": done, "candidates": len(candidates), "tried": tried, "excluded": excluded}
    if from_cap:
        row["from the candidate's cap"] = from_cap
    return {**row, "cpu seconds": round(time.process_time() - start, 1)}


def sphere_attacks(reports: int, dimensions: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    for d in dimensions:
        count = min(reports, max(reports * 3 // d, 1))
        for kind in (PrivUnit, PrivUnitBall):
            for height in (None, 0.0):
                extra: dict[str, Any] = {} if height is None else {"height": height}
                if kind is PrivUnitBall:
                    extra["radius"] = 0.3
                one = kind(dimension=d, local_epsilon=1.0, **extra)
                held = {
                    name: v * getattr(one, "radius", 1.0)
                    for name, v in vectors(d).items()
                    if kind is PrivUnitBall or name not in ("zero", "short")
                }
                yield (
                    f"{kind.__name__}, d = {d}, {'best cap' if height is None else 'half sphere'}",
                    attacked(
                        lambda x, n, one=one: one.reports(np.tile(x, (n, 1))),  # type: ignore[misc]
                        partial(sphere_excluded, one),
                        held,
                        count,
                        max(BLOCK // d, 1),
                    ),
                )


def other_attacks(reports: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for d in (1, 3, 20):
        for budget in (1.0, 30.0):
            noise = LatticeLaplace(dimension=d, local_epsilon=budget, radius=0.7)
            held = {
                name: 0.7 * v / max(float(np.abs(v).sum()), 1.0) for name, v in vectors(d).items()
            }
            yield (
                f"LatticeLaplace, d = {d}, local epsilon {budget:g}",
                attacked(
                    lambda x, n, noise=noise: noise.reports(np.tile(x, (n, 1))),  # type: ignore[misc]
                    partial(lattice_excluded, noise),
                    held,
                    min(reports, reports * 3 // d),
                    max(BLOCK // d, 1),
                ),
            )
    for kind in (CoordinateSigns, HadamardSigns):
        signs = kind(dimension=20, local_epsilon=4.0)
        held = {
            name: v / max(float(np.abs(v).sum()), 1.0) if kind is HadamardSigns else v
            for name, v in vectors(20).items()
        }
        yield (
            f"{kind.__name__}, d = 20",
            attacked(
                lambda x, n, signs=signs: signs.reports(np.tile(x, (n, 1))),  # type: ignore[misc]
                partial(signs_excluded, signs),
                held,
                reports,
                BLOCK,
            ),
        )
    for categories in (2, 5):
        answers = RandomizedAnswers(local_epsilon=2.0, categories=categories)
        yield (
            f"RandomizedAnswers, {categories} categories",
            attacked(
                lambda x, n, answers=answers: answers.reports(np.full(n, x)),  # type: ignore[misc]
                partial(answers_excluded, answers),
                {str(x): x for x in range(categories)},
                reports,
                BLOCK,
            ),
        )


SUMS = {
    "zero": 0.0,
    "minus zero": -0.0,
    "below the grid": 1e-12,
    "below the grid, minus": -1e-12,
    "one gradient": 1.0,
    "general": 0.37 + 2.0**-30,
    "another one": -0.12345678901234567,
}
"""Sums of one coordinate that neighbors may have, the clip being 1."""

LARGE_SUMS = {"large": 1000.1, "large, and a gradient": 1000.6, "large, less one": 999.2}


def noise_attacks(reports: int) -> Iterator[tuple[str, dict[str, Any]]]:
    rng = np.random.default_rng()

    def words(place: str, count: int) -> Words:
        if place == "anywhere":
            return rng.integers(LAST, size=count, dtype=np.uint64, endpoint=True)
        units = (2.0 ** rng.uniform(0.0, 46.0 if place == "tails" else 42.0, count)).astype(
            np.uint64
        )
        if place == "center":
            return np.uint64(2**63) + units - np.uint64(2**41)
        return np.where(rng.random(count) < 0.5, units, ~units)

    def draw(held: float, count: int, place: str) -> Any:
        first = words(place, count)
        more = rng.integers(LAST, size=(count, 2), dtype=np.uint64, endpoint=True).tolist()
        return released(np.full(count, held), first, dict(enumerate(more)), 1.3)

    for place, share, sums in (
        ("anywhere", 1, SUMS),
        ("anywhere", 1, LARGE_SUMS),
        ("center", 10, SUMS),
        ("tails", 1000, SUMS),
    ):
        count = -(-reports // share)
        yield (
            f"StepNoise, {'large sums' if sums is LARGE_SUMS else 'sums'}, random words: {place}",
            attacked(
                partial(draw, place=place),
                partial(noise_excluded, noise=1.3),
                sums,
                count,
                min(BLOCK, -(-count // len(sums))),
            ),
        )


def run_attacks(reports: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Whole runs: what the server sees of clients, and of a block."""
    d, users = 3, min(reports, 20_000)
    ball = PrivUnitBall(dimension=d, local_epsilon=2.0)
    held = vectors(d)
    rounds = -(-reports // users)
    plan = CLDPSGD(randomizer=ball, users=users, population=users, rounds=rounds)
    asked: list[Any] = []
    run = ClientRun(plan, lambda theta, clients: np.tile(asked[-1], (len(clients), 1)), np.zeros(d))

    def draw(x: Any, count: int) -> Any:
        asked.append(x)
        return run.step()

    yield (
        "ClientRun through PrivUnitBall, d = 3",
        attacked(draw, partial(sphere_excluded, ball), held, users * rounds, users),
    )
    # one block and a learning rate of one: the parameters move by the report
    few = max(reports // 1000, 5)
    block = BlockSGD(
        records=1,
        blocks=1,
        epochs=few,
        local_epsilon=2.0,
        clip=1.0,
        dimension=d,
        learning_rate=1.0,
    )
    held = {name: v / max(float(np.abs(v).sum()), 1.0) for name, v in vectors(d).items()}
    blocks_run = BlockRun(
        block, lambda theta, records: np.tile(asked[-1], (len(records), 1)), np.zeros(d)
    )

    def draw_block(x: Any, count: int) -> Any:
        asked.append(x)
        blocks_run.parameters = np.zeros(d)
        return 0.0 - blocks_run.epoch()[None, :]

    yield (
        "BlockRun through LatticeLaplace, d = 3",
        attacked(draw_block, partial(lattice_excluded, block.randomizer), held, few, 1),
    )


def main(reports: int, dimensions: Sequence[int] = (2, 3, 20, 784)) -> dict[str, Any]:
    """All attacks with so many reports; 3 / d times as many in d > 3 dimensions."""
    found = {}
    for attacks in (
        sphere_attacks(reports, dimensions),
        other_attacks(reports),
        noise_attacks(reports),
        run_attacks(reports),
    ):
        for name, row in attacks:
            found[name] = row
            sys.stderr.write(f"{name}: {row}\n")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--reports", type=int, default=10**6)
    options = parser.parse_args()
    sys.stdout.write(json.dumps(main(options.reports), indent=1) + "\n")
