"""The least of several bounds, and thresholds whose chords are close, for functions in closed form."""

import math

import numpy as np
import pytest

from sharpdp.bounds.shuffled_batches.least_of_bounds import LeastOfBounds
from sharpdp.bounds.shuffled_batches.upper_envelope import pair_above, spaced_half
from sharpdp.pairs.pair import GaussianPair

SETTINGS = 20


def terms(
    places: np.ndarray, losses: np.ndarray, _: object = None
) -> tuple[np.ndarray, np.ndarray]:
    """First terms that rise with the setting and fall with the loss; second ones that fall."""
    return -losses * (3.0 - 0.1 * places), -1.0 - 0.8 * places


def misled(places: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimates that are off by two nats."""
    first, second = terms(places, losses)
    return first + 2.0, second


def test_the_least_bound_is_found_from_bad_estimates() -> None:
    first, later = np.linspace(0.0, 5.0, 11), np.linspace(0.55, 4.98, 60)
    least = LeastOfBounds(terms, misled, SETTINGS)
    least.log_estimates(first)
    for losses in (first, later):
        found = least.log_values(losses, np.zeros(losses.size))
        table = np.array(
            [np.logaddexp(*terms(np.full(losses.size, place), losses)) for place in range(SETTINGS)]
        )
        assert np.all(found >= table.min(axis=0))
        assert np.all(found <= table.min(axis=0) + (1e-6 if losses is first else 0.05))
    level = float(np.logaddexp(*terms(np.array([10]), np.array([3.0])))[0])
    assert abs(least.best_at(level) - 10) <= 2


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("tolerance", [5e-2, 2e-3])
@pytest.mark.parametrize("is_flat", [True, False])
def test_chords_are_close_to_a_known_profile(mu: float, tolerance: float, *, is_flat: bool) -> None:
    """Values of Gaussian noise; the pair is above it, by about the tolerance where it is large.

    Estimates that are flat at first once moved the first threshold away from zero, which made masses
    that were none.
    """
    exact, known = GaussianPair(mu), GaussianPair(2.0 * mu)

    def estimates(losses: np.ndarray) -> np.ndarray:
        logs = exact.log_hockey_stick(losses)
        return np.minimum(logs, logs[0] - 0.2) if is_flat else logs

    half = spaced_half(
        lambda losses, _: exact.log_hockey_stick(losses), estimates, known, tolerance
    )
    assert half[0][0] == 0.0
    pair = pair_above(half, half)
    masses = [math.fsum(np.exp(logs)) for logs in (pair.log_p, pair.log_q)]
    assert masses[0] + pair.at_plus_infinity == pytest.approx(1.0, abs=1e-9)
    assert masses[1] + pair.at_minus_infinity == pytest.approx(1.0, abs=1e-9)
    losses = np.linspace(0.0, 4.0 * mu + 0.5 * mu * mu, 400)
    excess = pair.log_hockey_stick(losses) - exact.log_hockey_stick(losses)
    assert np.all(excess >= -1e-9)
    assert float(np.max(excess)) < 8.0 * tolerance
    assert float(np.mean(excess)) < 2.0 * tolerance
