"""One epoch over shuffled batches by enumeration: every arrangement, adaptive contributions, quadrature.

Nothing here knows a theorem. An adversary chooses what each example contributes to each step, as a
function of which cell the earlier results lie in; the two laws of all results are sums over all ways to
assign examples to batches, and H_x is their integral on a grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtr


def assignments(
    examples: tuple[int, ...], sizes: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to draw batches of these sizes from the examples, without replacement."""
    if not sizes:
        yield ()
        return
    for batch in combinations(examples, sizes[0]):
        rest = tuple(example for example in examples if example not in batch)
        for others in assignments(rest, sizes[1:]):
            yield (batch, *others)


@dataclass(frozen=True)
class Adversary:
    """What is contributed: one array (cells of the past, examples, dimension) for each step.

    Example 0 is the record. `null` is what stands in its place in the other data set (zero, or another
    record). A step's cell is how many of its thresholds the first coordinate of the last result exceeds,
    and the cell of the step before it, if there is one.
    """

    contributions: tuple[np.ndarray, ...]
    null: tuple[np.ndarray, ...]
    thresholds: np.ndarray


Arrangement = tuple[tuple[int, ...], ...]


def divergences(
    adversary: Adversary,
    sizes: tuple[int, ...],
    noise: float,
    ratios: np.ndarray,
    points: int = 161,
    deviations: float = 7.0,
) -> np.ndarray:
    """H_x(P||Q) and H_x(Q||P) at all ratios x >= 1, in two rows; so many points in each dimension.

    Coordinates of a result that are noise alone are left out, and the others get more points instead.
    """
    examples = tuple(range(adversary.contributions[0].shape[1]))
    used = sum(len(coordinates) for coordinates in _coordinates(adversary))
    points = int(points ** (len(sizes) * adversary.contributions[0].shape[2] / used))
    line = _line(sizes, noise, points, deviations)
    return _divergences(adversary, list(assignments(examples, sizes)), noise, ratios, line)


def divergences_of_known_others(
    adversary: Adversary,
    sizes: tuple[int, ...],
    noise: float,
    ratios: np.ndarray,
    points: int = 161,
) -> np.ndarray:
    """The same for an attacker who knows where the others sat before the record took a seat.

    Everybody has a seat. One of the first batch is left vacant and the others fill all other seats; then
    the record takes one of all seats, and whoever sat there moves to the vacant one.
    """
    others = tuple(range(1, adversary.contributions[0].shape[1]))
    line = _line(sizes, noise, points, 7.0)
    found = []
    for first, *rest in assignments(others, (sizes[0] - 1, *sizes[1:])):
        after: list[Arrangement] = [((0, *first), *rest)] * sizes[0]
        for step, batch in enumerate(rest):
            for moved in batch:
                swapped = tuple(0 if other == moved else other for other in batch)
                after.append(((*first, moved), *rest[:step], swapped, *rest[step + 1 :]))
        found.append(_divergences(adversary, after, noise, ratios, line))
    return np.asarray(np.mean(found, axis=0))


def _line(sizes: tuple[int, ...], noise: float, points: int, deviations: float) -> np.ndarray:
    reach = max(sizes) + deviations * noise
    return np.linspace(-reach, reach, points)


def _coordinates(adversary: Adversary) -> list[np.ndarray]:
    """For each step the coordinates to which somebody may contribute; the first one always counts."""
    used = []
    for values, null in zip(adversary.contributions, adversary.null, strict=True):
        moved = np.any(values != 0.0, axis=(0, 1)) | np.any(null != 0.0, axis=0)
        moved[0] = True  # it says how the others react
        used.append(np.flatnonzero(moved))
    return used


def _divergences(
    adversary: Adversary,
    arrangements: list[Arrangement],
    noise: float,
    ratios: np.ndarray,
    line: np.ndarray,
) -> np.ndarray:
    """Both divergences if these arrangements are equally likely."""
    steps, coordinates = len(arrangements[0]), _coordinates(adversary)
    grids = [
        np.stack(np.meshgrid(*[line] * len(used), indexing="ij"), axis=-1).reshape(-1, len(used))
        for used in coordinates
    ]
    cells = adversary.thresholds.size + 1
    dimensions = sum(len(used) for used in coordinates)
    worlds = []
    for with_record in (True, False):
        total = np.zeros([len(grid) for grid in grids])
        for batches in arrangements:
            density, past = np.ones(()), np.zeros((), dtype=int)
            for step, batch in enumerate(batches):
                values = adversary.contributions[step].copy()
                if not with_record:
                    values[:, 0] = adversary.null[step]
                grid = grids[step]
                sums = values[:, list(batch)].sum(axis=1)[:, coordinates[step]]
                squares = np.sum((grid - sums[:, None]) ** 2, axis=-1)
                density = density[..., None] * np.exp(-0.5 * squares / noise**2)[past]
                if step + 1 < steps:
                    cell = np.searchsorted(adversary.thresholds, grid[:, 0])
                    past = past[..., None] * cells + cell
            total += density
        unit = (noise * np.sqrt(2.0 * np.pi)) ** dimensions
        worlds.append(total / (len(arrangements) * unit))
    volume = (line[1] - line[0]) ** dimensions
    p, q = worlds
    both = [[np.sum(np.maximum(a - x * b, 0.0)) for x in ratios] for a, b in ((p, q), (q, p))]
    return np.array(both) * volume


def vacancy_bound(
    sizes: tuple[int, ...],
    examples: int,
    noise: float,
    ratio: float,
    *,
    nodes: int = 2001,
    replace_one: bool = False,
) -> tuple[float, float]:
    """E((1 - rho)(1 - x) + sum w_t W_t)_+ for both directions, on a fine grid of cells.

    The laws of W and W' are read off their definition: normal cells with the value at their middle.
    """
    seated = sum(sizes) / examples
    results = []
    for forward in (True, False):
        law = _envelope(noise, ratio, forward, nodes if len(sizes) < 3 else nodes // 4, replace_one)
        values, masses = np.zeros(1), np.ones(1)
        for size in sizes[:-1]:
            values = np.add.outer(values, size / examples * law[0]).ravel()
            masses = np.multiply.outer(masses, law[1]).ravel()
        last = sizes[-1] / examples * law[0]
        order = np.argsort(last)
        last, weight = last[order], law[1][order]
        # E(a + last)_+ for all a by sums from the right
        mass_right = np.append(np.cumsum(weight[::-1])[::-1], 0.0)
        mean_right = np.append(np.cumsum((weight * last)[::-1])[::-1], 0.0)
        start = values + (1.0 - seated) * (1.0 - ratio)
        first = np.searchsorted(last, -start)
        results.append(float(masses @ (start * mass_right[first] + mean_right[first])))
    return results[0], results[1]


def _envelope(
    noise: float, x: float, forward: bool, nodes: int, replace_one: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Values and masses of W_x, or of W'_x if not forward."""
    edges = np.linspace(-9.0, 9.0 + 2.0 / noise, nodes)
    middle, mass = 0.5 * (edges[1:] + edges[:-1]), np.diff(ndtr(edges))
    one = np.exp(middle / noise - 0.5 / noise**2)  # of two laws at distance one
    two = np.exp(2.0 * middle / noise - 2.0 / noise**2)
    if replace_one:
        above, below = two - x, 1.0 - x * two
    elif forward:
        above, below = two - x * one, 1.0 - x * one
    else:
        above, below = one - x, one - x * two
    up, down = above > 0.0, below < 0.0
    rest = 1.0 - mass[up].sum() - mass[down].sum()
    return (
        np.concatenate([above[up], below[down], [0.0]]),
        np.concatenate([mass[up], mass[down], [rest]]),
    )
