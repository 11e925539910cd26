"""Values and tails of every pair against balls, also at the ends of what is resolved."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair, epsilon_of, log_delta_of
from sharpdp.pairs.subsampled import PoissonSampledPair
from tests.numerics import exact
from tests.reference.balls import precision

PAIRS = [
    GaussianPair(1e-4),
    GaussianPair(0.7),
    GaussianPair(40.0),
    LaplacePair(1e-5),
    LaplacePair(1.0),
    LaplacePair(30.0),
    *(
        PoissonSampledPair(GaussianPair(1.0 / sigma), rate)
        for rate in (1e-8, 1e-3, 0.5, 0.9, 1.0 - 1e-9)
        for sigma in (0.1, 1.0, 30.0)
    ),
    PoissonSampledPair(LaplacePair(2.0), 0.2),
]
BOTH = [each for pair in PAIRS for each in (pair, pair.reverse())]


def losses(pair: Pair, rng: np.random.Generator) -> np.ndarray:
    """Thresholds inside what is resolved, where values are above e^-740, close to the ends too."""
    low, high = pair.accurate_range
    size = np.exp(rng.uniform(np.log(1e-12), np.log(800.0), 400))
    ends = [end for end in (low, high) if np.isfinite(end)]
    near = [end * (1 - share) for end in ends for share in (0.0, 1e-12, 1e-6, 1e-3, 0.1)]
    k = np.concatenate([size, -size, [0.0], near])
    k = np.unique(k[(k >= low) & (k <= high)])
    value = pair.log_hockey_stick(k)
    return rng.choice(k[value > -740.0], size=min(40, int(np.sum(value > -740.0))), replace=False)


@pytest.mark.parametrize("pair", BOTH, ids=repr)
def test_values_and_tails_are_as_accurate_as_claimed(pair: Pair) -> None:
    k = losses(pair, np.random.default_rng(17))
    got = {
        "otm": (pair.log_hockey_stick(k), exact.otm),
        "tail_q": (pair.log_tail_q(k), exact.tail_q),
        "tail_p": (pair.log_tail_p(k), exact.tail_p),
    }
    with precision(exact.BITS):
        for i, loss in enumerate(k):
            for name, (values, truth_of) in got.items():
                truth = truth_of(pair, arb(loss)).log()
                if truth > -740:
                    off = abs(truth - arb(values[i]))
                    assert off <= pair.accuracy, (name, loss, float(truth), float(off))


@pytest.mark.parametrize("pair", BOTH, ids=repr)
def test_one_pair_is_bracketed_at_every_threshold_also_beyond_what_is_resolved(pair: Pair) -> None:
    rng = np.random.default_rng(19)
    top = min(pair.support[1], 700.0)
    k = np.concatenate([top * (1.0 - 10.0 ** rng.uniform(-15, 0, 25)), [0.0, top]])
    with precision(exact.BITS):
        for epsilon in np.unique(k[k >= 0.0]):
            low, high = log_delta_of(pair, float(epsilon))
            value = exact.otm(pair, arb(epsilon))
            if value > arb(-740).exp():
                truth = value.log()
                assert arb(low) <= truth <= arb(high), (epsilon, low, high, float(truth))
            else:
                assert low < -739.0, epsilon


@pytest.mark.parametrize("pair", BOTH, ids=repr)
@pytest.mark.parametrize("log_delta", [-0.7, -12.0, -90.0, -690.0])
def test_epsilon_of_one_pair_is_where_delta_passes(pair: Pair, log_delta: float) -> None:
    low, high = epsilon_of(pair, log_delta)
    assert 0.0 <= low <= high
    with precision(exact.BITS):
        target = arb(log_delta).exp()
        if low > 0.0:
            assert exact.otm(pair, arb(low)) >= target
        if np.isfinite(high):
            assert exact.otm(pair, arb(high)) <= target


def finite_delta(p: list[float], q: list[float], epsilon: float) -> arb:
    """sum of (p - e^eps q)_+ of the normalized pmfs."""
    total_p, total_q = sum((arb(x) for x in p), arb(0)), sum((arb(x) for x in q), arb(0))
    terms = [
        arb(a) / total_p - arb(epsilon).exp() * arb(b) / total_q for a, b in zip(p, q, strict=True)
    ]
    return sum((term for term in terms if term > 0), arb(0))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.75, 0.25], [0.25, 0.75]),
        ([0.6, 0.4], [0.4, 0.6]),
        ([0.9, 0.1], [0.3, 0.7]),
        ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
        ([0.3, 0.7 - 1e-12, 1e-12], [0.3 + 1e-9, 0.7 - 1e-9, 0.0]),
    ],
)
def test_finite_pairs_are_bracketed_next_to_their_own_losses(
    p: list[float], q: list[float]
) -> None:
    for first, second in ((p, q), (q, p)):
        pair = AtomicPair.from_pmfs(first, second)
        for loss in pair.losses:
            around = [loss, *(np.nextafter(loss, way) for way in (0.0, 1e9))]
            around += [loss * (1 - 10.0**-k) for k in (15, 14, 13, 12, 10, 6)]
            for epsilon in around:
                if epsilon < 0.0:
                    continue
                low, high = log_delta_of(pair, float(epsilon))
                with precision(2000):
                    truth = finite_delta(first, second, float(epsilon))
                    if truth > 0:
                        assert arb(low) <= truth.log() <= arb(high), (epsilon, low, high, truth)
                    else:
                        assert low == -np.inf, (epsilon, low)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.3, 1.58, 7.0, 36.0, 60.0])
@pytest.mark.parametrize("delta", [0.4, 1e-2, 1e-5, 1e-40, 1e-280, 1e-300])
def test_epsilon_of_one_gaussian_encloses_the_crossing(mu: float, delta: float) -> None:
    """Also where the quick search in plain doubles gives up: tiny deltas, and shifts far above one."""
    low, high = epsilon_of(GaussianPair(mu), float(np.log(delta)), delta)
    with precision(400):

        def excess(epsilon: float) -> arb:
            k, m, root = arb(epsilon), arb(mu), arb(2).sqrt()
            tail_p = ((k / m - m / 2) / root).erfc() / 2
            return tail_p - k.exp() * ((k / m + m / 2) / root).erfc() / 2 - arb(delta)

        if low > 0.0:
            assert excess(low) >= 0
        assert excess(high) <= 0
    assert high - low <= 2e-10 * high
