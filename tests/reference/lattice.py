"""Few Poisson-sampled Gaussian steps by adding up losses on a lattice: no tilt, no transform, no jumps.

Every product and sum is of positive numbers, so that values of 1e-20 keep their digits. One step's
masses are differences of normal tails, spread over the lattice so that both normalizations stay. This
can only raise delta, by less and less as the unit shrinks: two units tell by how much. Plain floats.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr


def step_masses(rate: float, mu: float, unit: float, highest: float) -> tuple[int, np.ndarray]:
    """(index of the first point, P-masses at unit * index) up to the loss `highest`."""
    first = int(np.floor(np.log1p(-rate) / unit))
    losses = unit * np.arange(first, int(np.ceil(highest / unit)) + 1)
    with np.errstate(divide="ignore"):
        y = (np.log(np.maximum(np.expm1(losses) + rate, 0.0)) - np.log(rate)) / mu + 0.5 * mu
    upper = y[:-1] > 0.0
    of_q = np.where(upper, ndtr(-y[:-1]) - ndtr(-y[1:]), ndtr(y[1:]) - ndtr(y[:-1]))
    far = y[:-1] > mu
    shifted = np.where(
        far, ndtr(mu - y[:-1]) - ndtr(mu - y[1:]), ndtr(y[1:] - mu) - ndtr(y[:-1] - mu)
    )
    # E_Q[X - x_left] of each cell over its width goes to the right end
    excess = rate * shifted - (np.expm1(losses[:-1]) + rate) * of_q
    right = np.clip(excess / (np.exp(losses[:-1]) * np.expm1(unit)), 0.0, of_q)
    mass_q = np.append(of_q - right, 0.0) + np.append(0.0, right)
    return first, mass_q * np.exp(losses)


def _power(first: int, mass: np.ndarray, count: int, size: int) -> tuple[int, np.ndarray]:
    """The count-fold sum, by doubling; sums are kept up to `size` points above zero."""
    total: tuple[int, np.ndarray] | None = None
    while True:
        if count % 2:
            total = (first, mass) if total is None else _sum(total, (first, mass), size)
        count //= 2
        if not count:
            assert total is not None
            return total
        first, mass = _sum((first, mass), (first, mass), size)


def _sum(
    one: tuple[int, np.ndarray], two: tuple[int, np.ndarray], size: int
) -> tuple[int, np.ndarray]:
    first = one[0] + two[0]
    return first, np.convolve(one[1], two[1])[: size - first]


def log_delta_on(
    rate: float, noise_multiplier: float, count: int, epsilon: float, unit: float, highest: float
) -> float:
    """log delta, record present under P, on one lattice."""
    first, mass = step_masses(rate, 1.0 / noise_multiplier, unit, highest)
    size = int(np.ceil(2.0 * highest / unit))
    start, total = _power(first, mass, count, size)
    losses = unit * np.arange(start, start + total.size)
    beyond = losses > epsilon
    value = np.sum(total[beyond] * -np.expm1(epsilon - losses[beyond]))
    # one step beyond the highest loss, which the lattice leaves out
    mu = 1.0 / noise_multiplier
    y = (np.log(np.expm1(highest) + rate) - np.log(rate)) / mu + 0.5 * mu
    far_q, far_p = ndtr(-y), (1.0 - rate) * ndtr(-y) + rate * ndtr(mu - y)
    return float(np.log(value + count * (far_p - np.exp(epsilon) * far_q)))


def log_delta(
    rate: float, noise_multiplier: float, count: int, epsilon: float, cells: int, highest: float
) -> tuple[float, float]:
    """(lower, upper) for log delta from lattices with `cells` and twice as many points up to epsilon.

    Halving the unit at least halves the error, up to higher orders, for which half as much is added.
    """
    coarse, fine = (
        log_delta_on(rate, noise_multiplier, count, epsilon, epsilon / n, highest)
        for n in (cells, 2 * cells)
    )
    return fine - 1.5 * (coarse - fine), fine
