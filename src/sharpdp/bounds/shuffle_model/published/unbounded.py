"""Published formulas for shuffled reports without a finite local epsilon, for comparison only."""

import math
from functools import lru_cache

import numpy as np

from sharpdp.bounds.published import formula
from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.curves.renyi.conversion import epsilon_from
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import ApproximateDP, ApproximateReports, Gaussian, LocalGaussian
from sharpdp.numerics.special import Array

LARGEST_ORDER = 256
"""Orders up to here are gone through; the authors' own program stops at about 20."""

__all__ = [
    "approximate_clones_upper",
    "shuffled_gaussian_moments",
    "shuffled_gaussian_moments_epsilon",
]

UNSAFE = (
    "neither an upper nor a lower bound: exact if all others hold one of the two values, too small if "
    "others may lie on the far side of one"
)


@formula(holds_when=UNSAFE, source="liew2022 Theorem 1", composes=True)
def shuffled_gaussian_moments(mechanism: ApproximateReports, order: float) -> float:
    """Renyi divergence of shuffled values with Gaussian noise if all others hold 0, of integer order.

        log( E[(mean_i e^{s z_i - s^2/2})^a] ) / (a - 1),   z_i ~ N(0, 1),  s = 1 / noise_multiplier

    It is exact for these data sets, and printed as a bound for all.

    >>> two = ApproximateReports(users=2, randomizer=LocalGaussian(1.0))
    >>> round(shuffled_gaussian_moments(two, 2.0), 6) == round(math.log((1 + math.e) / 2), 6)
    True
    """
    noise = _noise(mechanism)
    if order != int(order) or not 2.0 <= order <= LARGEST_ORDER:
        raise Inapplicable(f"it is for integer orders from 2 to {LARGEST_ORDER}")
    log_moment = _log_moments(noise, mechanism.users)[int(order)]
    return float(mechanism.rounds * log_moment / (order - 1.0))


@formula(holds_when=UNSAFE, source="liew2022 Theorem 1", composes=True)
def shuffled_gaussian_moments_epsilon(mechanism: ApproximateReports, delta: float) -> float:
    """Epsilon by the Renyi divergences of `shuffled_gaussian_moments`.

    >>> many = ApproximateReports(users=10_000, randomizer=LocalGaussian(2.0))
    >>> round(shuffled_gaussian_moments_epsilon(many, 1e-6), 2)
    0.12
    """
    orders = np.arange(2.0, LARGEST_ORDER + 1.0)
    moments = _log_moments(_noise(mechanism), mechanism.users)[2:]
    values = mechanism.rounds * moments / (orders - 1.0)
    return float(np.min(epsilon_from(orders, values, delta, conversion="balle")))


@formula(
    holds_when="each report is (epsilon, delta)-LDP; delta of all is more than 2 n delta",
    source="feldman2021 Theorem 3.8",
)
def approximate_clones_upper(mechanism: ApproximateReports, delta: float) -> float:
    """Upper bound by clones of an (epsilon_0, delta_0)-LDP randomizer.

        delta(epsilon) = delta of the clones + (e^epsilon + 1)(1 + e^-epsilon_0 / 2) n delta_0

    >>> some = ApproximateDP(epsilon=1.0, delta=1e-12)
    >>> many = ApproximateReports(users=10_000, randomizer=some)
    >>> round(approximate_clones_upper(many, 1e-6), 2)
    0.05
    """
    promise = mechanism.randomizer
    if not isinstance(promise, ApproximateDP) or mechanism.population is not None:
        raise Inapplicable("it is for (epsilon, delta)-LDP reports of all users")
    local = promise.epsilon
    if local == 0.0:
        raise Inapplicable("it needs an epsilon of more than 0")
    pair = ShufflePair(mechanism.users, local, math.exp(-local) * (1.0 - 2.0**-46))
    epsilons = local * np.geomspace(1e-6, 1.0, 2000)
    added = (np.exp(epsilons) + 1.0) * (1.0 + 0.5 * math.exp(-local))
    added = added * mechanism.users * promise.delta
    values = np.exp(pair.log_hockey_stick(epsilons) + 2.0 * pair.accuracy) + added * (1.0 + 1e-12)
    if not np.any(values <= delta):
        raise Inapplicable("n delta_0 alone is more than delta")
    return float(epsilons[np.argmax(values <= delta)])


def _noise(mechanism: ApproximateReports) -> float:
    if mechanism.population is not None:
        raise Inapplicable("it is for reports of all users")
    if not isinstance(mechanism.randomizer, LocalGaussian | Gaussian):
        raise Inapplicable("it is for Gaussian noise")
    return mechanism.randomizer.noise_multiplier


@lru_cache(maxsize=32)
def _log_moments(noise_multiplier: float, users: int) -> Array:
    """log E[(mean of n ratios)^k] for k = 0, 1, ...: the n-th power of a series, by squaring.

    The series is the sum of E[L^k] t^k / k! with E[L^k] = e^{k (k - 1) s^2 / 2}; all terms are positive.
    """
    k = np.arange(LARGEST_ORDER + 1.0)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(k[1:]))])
    base = 0.5 * k * (k - 1.0) / noise_multiplier**2 - log_factorial
    result = np.where(k == 0.0, 0.0, -np.inf)
    left = users
    while left:
        if left & 1:
            result = _product(result, base)
        base = _product(base, base)
        left >>= 1
    return np.asarray(result + log_factorial - k * math.log(users))


def _product(first: Array, second: Array) -> Array:
    """Logarithms of the coefficients of a product of two series."""
    return np.array(
        [np.logaddexp.reduce(first[: order + 1] + second[order::-1]) for order in range(first.size)]
    )
