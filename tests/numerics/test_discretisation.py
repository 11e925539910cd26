"""Chords and tangents in doubles against the exact ones in balls, and the profile between them."""

from __future__ import annotations

import numpy as np
import pytest
from flint import acb, arb

from sharpdp.numerics.contour import Tilted
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.discretize import (
    LossDistribution,
    Nodes,
    _convex,
    first_look,
    lower,
    refined,
    upper,
)
from tests.numerics import exact
from tests.numerics.chords import ExactLosses, chords, tangents
from tests.reference.balls import precision

FORWARD = [
    GaussianPair(1e-3),
    GaussianPair(0.7),
    GaussianPair(12.0),
    LaplacePair(1e-3),
    LaplacePair(2.0),
    PoissonSampledPair(GaussianPair(1.0), 1e-6),
    PoissonSampledPair(GaussianPair(1.25), 1e-3),
    PoissonSampledPair(GaussianPair(0.1), 0.3),
    PoissonSampledPair(GaussianPair(3.0), 0.5),
    PoissonSampledPair(GaussianPair(0.5), 1.0 - 1e-6),
]
PAIRS = [each for pair in FORWARD for each in dict.fromkeys((pair, pair.reverse()))]


def some_nodes(pair: Pair) -> Nodes:
    """A first look, its cells cut at random."""
    nodes = first_look(pair, -50.0)
    pieces = np.random.default_rng(29).integers(1, 4, nodes.losses.size - 1)
    return refined(nodes, pieces)


def tilts(pair: Pair) -> list[float]:
    """Tilts from weak to strong, in units of one over the spread of the losses."""
    scale = upper(first_look(pair, -50.0)).atoms.tilted(1e-9)
    spread = float(np.sum(scale.weights * np.abs(scale.offsets)))
    return [0.03 / spread, min(1.0 / spread, 500.0), min(6.0 / spread, 500.0)]


def check_moments(side: LossDistribution, truth: ExactLosses, theta: float) -> None:
    """log M(theta) and M(theta + it) / M(theta) are as close to the exact ones as they claim."""
    tilted = side.atoms.tilted(theta)
    spread = float(np.sqrt(np.sum(tilted.weights * tilted.offsets**2)))
    frequencies = np.array([0.0, 0.01, 0.3, 2.0, 9.0, 60.0]) / spread
    psi, rounding = tilted.psi(frequencies)
    claimed = rounding + tilted.weight_error(frequencies)
    scale = arb(tilted.log_moment).exp()
    log_moment = truth.moment(acb(theta)).real.log()
    off = float(abs(log_moment - arb(tilted.log_moment)))
    assert off <= tilted.log_moment_error, (theta, off, tilted.log_moment_error)
    for t, value, error in zip(frequencies, psi, claimed, strict=True):
        check_one(truth, tilted, scale, float(t), complex(value), float(error))


def check_one(
    truth: ExactLosses, tilted: Tilted, scale: arb, t: float, value: complex, error: float
) -> None:
    z = acb(tilted.theta, t)
    turned = truth.moment(z) / scale * acb(0, -arb(t) * arb(tilted.center)).exp()
    off = float(abs(turned - 1 - acb(value.real, value.imag)))
    allowed = error + tilted.log_moment_error * abs(1.0 + value)
    assert off <= allowed, (tilted.theta, t, off, allowed)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_chords_are_within_their_claimed_noise(pair: Pair) -> None:
    nodes = some_nodes(pair)
    side = upper(nodes)
    kept, _ = _convex(nodes)
    with precision(exact.BITS):
        truth = chords(pair, kept.losses)
        # the end of the support is a rounded number: what lies beyond it is a rounding of the loss
        beyond = 1e-16 * exact.otm(pair, arb(float(kept.losses[-2])))
        noise = pair.accuracy * truth.infinite_p + beyond
        assert abs(truth.infinite_p - arb(side.atoms.deficit)) <= noise
        assert arb(side.infinite_p) + beyond >= truth.infinite_p
        for theta in tilts(pair):
            check_moments(side, truth, theta)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_tangents_are_within_their_claimed_noise(pair: Pair) -> None:
    nodes = some_nodes(pair)
    side = lower(nodes)
    with precision(exact.BITS):
        truth = tangents(pair, nodes.losses)
        assert arb(side.infinite_p) <= truth.infinite_p
        for theta in tilts(pair):
            check_moments(side, truth, theta)


def otm_of(side: LossDistribution, k: float) -> arb:
    """The out-of-the-money value of a loss distribution at one threshold, its doubles taken exactly."""
    at = arb(k)
    losses, logs = side.losses, side.atoms.log_weights
    if k >= 0.0:
        beyond = losses > k
        terms = [
            -arb(float(w)).exp() * (at - arb(float(x))).expm1()
            for x, w in zip(losses[beyond], logs[beyond], strict=True)
        ]
        return sum(terms, arb(float(side.infinite_p)))
    beyond = losses < k
    terms = [
        arb(float(w)).exp() * (at - arb(float(x))).expm1()
        for x, w in zip(losses[beyond], logs[beyond], strict=True)
    ]
    return sum(terms, arb(float(side.infinite_q)) * at.exp())


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_the_profile_lies_between_tangents_and_chords(pair: Pair) -> None:
    """At thresholds on and between nodes, beyond both ends, and next to zero."""
    nodes = some_nodes(pair)
    above, below = upper(nodes), lower(nodes)
    rng = np.random.default_rng(31)
    ends = nodes.losses[[0, -1]]
    between = rng.choice(
        nodes.losses[:-1] + np.diff(nodes.losses) * rng.random(nodes.losses.size - 1), 25
    )
    k = np.concatenate([between, rng.choice(nodes.losses, 10), 1.3 * ends, [0.0, 1e-12, -1e-12]])
    # noise of slopes and profile, relative to the value; masses are nearer than this to exact ones
    slack = 8.0 * pair.accuracy
    with precision(exact.BITS):
        for threshold in k.tolist():
            truth = exact.otm(pair, arb(threshold))
            assert otm_of(above, threshold) * (1 + slack) >= truth, threshold
            assert otm_of(below, threshold) * (1 - slack) <= truth, threshold
