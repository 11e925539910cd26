"""Fourier sums and moments against exact sums in balls: every claimed error must hold."""

from __future__ import annotations

import numpy as np
import pytest
from flint import acb, arb

from sharpdp.numerics.contour import Atoms, gridded_transform
from tests.reference.balls import precision

BITS = 250


def exact_sums(points: np.ndarray, weights: np.ndarray, t: list[arb]) -> list[acb]:
    """sum_j w_j e^{i t x_j} for each t; points and weights are the doubles that they are."""
    totals = [acb(0)] * len(t)
    for x, w in zip(points.tolist(), weights.tolist(), strict=True):
        place, weight = arb(x), arb(w)
        totals = [a + weight * acb(0, at * place).exp() for a, at in zip(totals, t, strict=True)]
    return totals


def normalized(weights: np.ndarray) -> np.ndarray:
    return weights / np.sum(weights)


def layout(name: str, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points (in units of one over the step) with weights of sum one, of several shapes."""
    weights = {
        "equal": np.full(count, 1.0 / count),
        "random": normalized(rng.random(count)),
        "steep": normalized(np.exp(-np.linspace(0.0, 700.0, count))),
    }[name.split()[1]]
    points = {
        "spread": rng.uniform(-3.0, 3.0, count),
        "cluster": 1e-9 * rng.normal(size=count) + 0.3,
        "lattice": np.round(rng.normal(size=count) * 5.0) * 0.25,
        "same": np.full(count, 0.7),
        "offset": 1e6 + rng.normal(size=count),
        "edge": np.pi * np.sign(rng.normal(size=count)) * (1.0 - 1e-12 * rng.random(count)),
    }[name.split()[0]]
    return points, weights


SHAPES = [
    f"{where} {how}"
    for where in ("spread", "cluster", "lattice", "same", "offset", "edge")
    for how in ("equal", "random", "steep")
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 300])
def test_gridded_sums_are_within_their_claim(shape: str, count: int) -> None:
    rng = np.random.default_rng(count)
    points, weights = layout(shape, count, rng)
    check_gridded(points, weights, step=0.37, size=130, picks=[0, 1, 2, 64, 129])


@pytest.mark.parametrize(
    "shape", ["same equal", "cluster equal", "cluster random", "spread random"]
)
def test_gridded_sums_of_many_points_are_within_their_claim(shape: str) -> None:
    """Adding a hundred thousand weights into one grid cell must not go beyond the claim."""
    points, weights = layout(shape, 100_000, np.random.default_rng(1))
    check_gridded(points, weights, step=0.01, size=70, picks=[0, 35, 69])


def check_gridded(
    points: np.ndarray, weights: np.ndarray, step: float, size: int, picks: list[int]
) -> None:
    values, errors = gridded_transform(points, weights, step, size)
    check_sums(points, weights, step, values, errors, picks)


def check_sums(
    points: np.ndarray,
    weights: np.ndarray,
    step: float,
    values: np.ndarray,
    errors: np.ndarray,
    picks: list[int],
) -> None:
    with precision(BITS):
        t = [arb(step) * k for k in picks]
        truth = exact_sums(points, weights, t)
        spread = float(np.sum(weights * np.abs(points)))
        for k, exact in zip(picks, truth, strict=True):
            off = abs(exact - acb(float(values[k].real), float(values[k].imag)))
            # rounding of the angles is the caller's: 16 units of k step E|x|
            allowed = errors[k] + 16.0 * 2.0**-53 * k * step * spread
            assert off <= allowed, (k, float(off), float(allowed))


def atoms_of(name: str, rng: np.random.Generator) -> Atoms:
    """Masses on a few hundred losses, shifted so that both normalizations hold."""
    losses = {
        "narrow": 1e-6 * rng.normal(size=200),
        "wide": 8.0 * rng.normal(size=200),
        "skewed": np.concatenate([-1e-4 * rng.random(150), np.exp(rng.uniform(-9, 3, 50))]),
        "two": np.array([-0.3, 0.3]),
    }[name]
    losses = np.sort(losses)
    weights = normalized(rng.random(losses.size))
    return Atoms(losses, np.log(weights))


@pytest.mark.parametrize("name", ["narrow", "wide", "skewed", "two"])
@pytest.mark.parametrize("theta", [1e-3, 0.7, 15.0, 300.0])
def test_psi_is_within_its_claim(name: str, theta: float) -> None:
    """Both evaluators against exact sums over the tilted weights, whatever the weights are."""
    atoms = atoms_of(name, np.random.default_rng(23))
    if theta * float(np.max(np.abs(atoms.points))) > 600.0:
        pytest.skip("beyond doubles")
    tilted = atoms.tilted(theta)
    scale = float(np.sqrt(np.sum(tilted.weights * tilted.offsets**2)))
    step = 0.05 / max(scale, 1e-12)
    picks = [0, 1, 7, 60, 199]
    direct, direct_error = tilted.psi(step * np.array(picks, dtype=float))
    many, many_error = tilted.psi_many(step, 200)
    with precision(BITS):
        weight = [arb(float(w)).exp() for w in atoms.log_weights]
        place = [arb(float(x)) for x in atoms.points]
        total = sum(
            (w * (arb(theta) * x).exp() for w, x in zip(weight, place, strict=True)), arb(0)
        )
        for i, k in enumerate(picks):
            t = arb(step * k)
            exact = acb(0)
            for w, x in zip(weight, place, strict=True):
                turn = acb(arb(theta) * x, t * (x - arb(tilted.center)))
                exact += w * turn.exp()
            exact = exact / total - 1
            for value, error in ((direct[i], direct_error[i]), (many[k], many_error[k])):
                off = abs(exact - acb(float(value.real), float(value.imag)))
                assert off <= error + 1e-60, (k, float(off), float(error))
