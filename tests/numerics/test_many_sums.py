"""Many sums at once, each with a law of its own, against enumeration, binomials and each other."""

import numpy as np
import pytest
from scipy.stats import binom

from sharpdp.numerics.expected_positive_part import Sums
from tests.numerics.test_positive_part import LAWS, UNIT, exact

COUNTS = (1, 2, 7, 16)


def padded(values: list[float], size: int = 4) -> list[float]:
    """The same with zeros at the end: of values, and of weights."""
    return [*values, *[0.0] * (size - len(values))]


def of_all_laws() -> tuple[Sums, np.ndarray]:
    """Each of the laws with each number of copies, and the logs of the truth."""
    cases = [(weights, values, count) for weights, values in LAWS for count in COUNTS]
    values = np.array([padded([v / 8 for v in values]) for _, values, _ in cases])
    weights = np.array([padded([w / 16 for w in weights]) for weights, _, _ in cases])
    sums = Sums(
        weights, values, 4.0 * UNIT * np.abs(values), np.array([float(n) for *_, n in cases])
    )
    return sums, np.log([float(exact(*case)) for case in cases])


def test_sums_over_all_results() -> None:
    sums, truth = of_all_laws()
    tilts = sums.tilts()
    for tolerance in (0.05, 1e-3):
        low, high = sums.log_values(tilts, tolerance)
        assert np.all((low <= truth) & (truth <= high))
        assert np.all((truth - 2.0 * tolerance < low) & (high < truth + 2.0 * tolerance))
    assert np.all(truth <= sums.log_ceilings(tilts))


@pytest.mark.parametrize("factor", [0.3, 0.8, 1.5, 3.0])
def test_any_tilt_is_safe(factor: float) -> None:
    sums, truth = of_all_laws()
    tilts = factor * sums.tilts()
    low, high = sums.log_values(tilts, 1e-2)
    assert np.all((low <= truth) & (truth <= high))


def test_rows_do_not_depend_on_their_company() -> None:
    sums, truth = of_all_laws()
    together = np.array(sums.log_values(sums.tilts(), 1e-3))
    for row in range(truth.size):
        alone = sums.chosen(np.array([row]))
        found = np.array(alone.log_values(alone.tilts(), 1e-3))[:, 0]
        assert found[0] <= truth[row] <= found[1]
        assert found == pytest.approx(together[:, row], abs=2e-3)


@pytest.mark.parametrize("count", [50, 10**4, 10**6, 10**8])
@pytest.mark.parametrize("rate", [1e-5, 0.03, 0.5])
def test_binomial_sums(count: int, rate: float) -> None:
    """E(Bin(n, p) - k)_+ at several k; with 10^6 copies transforms are summed again."""
    deviation = np.sqrt(count * rate * (1.0 - rate))
    steps = np.array([0.0, 0.5, 2.0, 5.0])
    thresholds = np.unique(np.floor(count * rate + steps * deviation) + 0.25)
    shares = thresholds / count
    weights = np.tile([rate, 1.0 - rate], (shares.size, 1))
    values = np.stack([1.0 - shares, -shares], axis=1)
    sums = Sums(
        weights, values, 4.0 * UNIT * np.ones(values.shape), np.full(shares.size, float(count))
    )
    found = sums.log_values(sums.tilts(), 1e-3)
    for threshold, low, high in zip(thresholds, *found, strict=True):
        results = np.arange(np.ceil(threshold), np.ceil(threshold + 12.0 * deviation) + 60.0)
        results = results[results <= count]
        truth = float(np.sum((results - threshold) * binom.pmf(results, count, rate)))
        # scipy's binomials, and what is beyond the last result
        assert np.log(truth) - 3e-3 < low <= np.log(truth) + 1e-7
        assert np.log(truth) - 1e-7 <= high < np.log(truth) + 3e-3


def test_heavy_tails() -> None:
    """A rare value that decides alone: n = 100 copies of -1/10 and, with probability 1e-6, 20."""
    rare, count = 1e-6, 100
    values = np.array([[20.0, -0.1]])
    sums = Sums(np.array([[rare, 1.0 - rare]]), values, 1e-15 * np.abs(values), np.array([100.0]))
    jumps = np.arange(1.0, 6.0)
    truth = np.sum((20.1 * jumps - 0.1 * count) * binom.pmf(jumps, count, rare))
    found = float(sums.log_values(sums.tilts(), 1e-3)[1][0])
    assert np.log(truth) - 1e-9 <= found < np.log(truth) + 3e-3


def test_impossible_and_hardly_possible_sums() -> None:
    """Nothing is positive but an error of a value; and weights below all normal doubles."""
    values = np.array([[2.0, -1e-3], [0.0, -1e-3], [-1.0, -1e-3]])
    errors = np.array([[0.0, 0.0], [1e-16, 0.0], [0.5, 0.0]])
    sums = Sums(np.tile([3e-310, 1.0], (3, 1)), values, errors, np.full(3, 3.0))
    _, found = sums.log_values(sums.tilts(), 1e-3)
    rare = np.log(3.0) + np.log(3e-310)
    assert rare + np.log(1.998) - 1e-6 <= found[0] <= rare + np.log(2.0) + 1e-6
    assert rare + np.log(1e-16) - 1e-6 <= found[1] <= rare + np.log(1e-16) + 1e-6
    assert found[2] == -np.inf
