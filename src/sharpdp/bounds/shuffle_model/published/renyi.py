"""Published moments and limits of shuffled reports, and the epsilon that follows from them.

E = e^local_epsilon, n = users. Renyi divergences of rounds add up; so do squared distances of limits.
"""

import math
from functools import partial

import numpy as np

from sharpdp.bounds.published import formula as register
from sharpdp.bounds.shuffle_model.any_randomizer import individual_clones_upper
from sharpdp.bounds.shuffle_model.published import COMPOSED_WIDTH, SHARED, refuse_individual
from sharpdp.curves.renyi.conversion import epsilon_from
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import Adjacency, ShuffledReports
from sharpdp.numerics.special import CLOSED_FORM_ERROR, Array
from sharpdp.pairs.pair import GaussianPair, epsilon_of
from sharpdp.profile.renyi import log_moment

__all__ = [
    "binary_moments_lower",
    "clones_renyi_upper",
    "corrected_limit",
    "corrected_limit_renyi",
    "gaussian_limit",
    "gaussian_limit_renyi",
    "moments_epsilon_upper",
    "moments_upper",
]

UNSAFE = "asymptotic approximation for many users; neither an upper nor a lower bound"

formula = partial(register, composes=True)
printed_formula = partial(
    formula,
    holds_when=f"{UNSAFE}: too small for local_epsilon above about 2, too large for small ones",
)
corrected_formula = partial(
    formula, holds_when=f"{UNSAFE}: the limit of the clone pair, which it can fall below"
)


@formula(
    holds_when=f"{SHARED}; the order is a whole number, at least 2",
    source="girgis2021renyi Theorem 2; chen2024 (5)",
)
def moments_upper(mechanism: ShuffledReports, order: float) -> float:
    """Upper bound on the Renyi divergence of whole orders a >= 2.

        log( e^{a^2 (E - 1)^2 / m} + e^{a local_epsilon - (n - 1)/(8E)} ) / (a - 1)
        m = floor((n - 1) / (2E)) + 1

    chen2024 misprints (E - 1)^2 in (5) as (local_epsilon - 1)^2.

    The randomizer is discrete.

    Numerics: moved up by a relative 1e-12, m rounded down.

    >>> alone = ShuffledReports(users=1, local_epsilon=math.log(2))  # log(e^4 + 2^2)
    >>> abs(moments_upper(alone, 2) - math.log(math.exp(4) + 4)) < 1e-9
    True
    """
    refuse_individual(mechanism)
    return mechanism.rounds * float(_moments(mechanism, np.array([_whole(order)]))[0])


@formula(holds_when=SHARED, source="girgis2021renyi Theorem 2, converted by balle2020 Theorem 21")
def moments_epsilon_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound on epsilon from the bound on Renyi divergences D(a), over whole orders a.

        epsilon = min over a of  rounds D(a) + log(1 - 1/a) - log(a delta)/(a - 1)

    The randomizer is discrete.

    Numerics: every order is an upper bound, so it does not matter which ones are tried; rounded up.

    >>> wide = ShuffledReports(users=10**9, local_epsilon=0.1)
    >>> 0 < moments_epsilon_upper(wide, 1e-6) < 1e-4
    True
    """
    refuse_individual(mechanism)
    # all whole orders to 1024, then some more up to 1e15, beyond which doubles are no longer whole
    sparse = np.geomspace(1024, 1e15, 2000).round()
    orders = np.concatenate([np.arange(2, 1024, dtype=float), sparse])
    best = int(np.argmin(_converted(mechanism, orders, delta)))
    near = orders[max(best - 1, 0) : best + 2]
    closer = np.unique(np.linspace(near[0], near[-1], 2000).round())
    return max(0.0, float(np.min(_converted(mechanism, closer, delta))))


@formula(
    holds_when="users are put in random order first; the randomizer may depend on the place in it",
    source="chen2024 Theorem 1, feldman2021 Theorem 3.1",
)
def clones_renyi_upper(mechanism: ShuffledReports, order: float) -> float:
    """Upper bound on the Renyi divergence of any order: that of the pair with clones at rate 1/E.

    The pair is that of Proposition 1 of chen2024, which Theorem 1 is about; Theorem 1 misprints it.

    Numerics: the upper end of a bracket, at most 1e-4 wide relative to the divergence.

    >>> alone = ShuffledReports(users=1, local_epsilon=math.log(2))  # E[(P/Q)^2] = 3/2
    >>> round(math.exp(clones_renyi_upper(alone, 2.0)), 3)
    1.5
    """
    ((pair, rounds),) = individual_clones_upper(mechanism, Adjacency.REPLACE_ONE)
    log_upper = log_moment(pair, order, COMPOSED_WIDTH)[1]
    return rounds * log_upper / (order - 1.0) * (1.0 + CLOSED_FORM_ERROR)


@formula(
    holds_when="the randomizer is the worst one; the order is a whole number, at least 2",
    source="girgis2021renyi Theorem 3, as chen2024 (6)",
)
def binary_moments_lower(mechanism: ShuffledReports, order: float) -> float:
    """Lower bound on the Renyi divergence of whole orders a >= 2, from binary randomized response.

        log(1 + a (a - 1) (E - 1)^2 / (2 n E)) / (a - 1)

    Numerics: moved down by a relative 1e-12.

    >>> alone = ShuffledReports(users=1, local_epsilon=math.log(2))  # log(1 + 1/2)
    >>> round(math.exp(binary_moments_lower(alone, 2)), 9)
    1.5
    """
    if not isinstance(mechanism.randomizer, str):
        raise Inapplicable("it is about the worst randomizer, not about this one")
    a = _whole(order)
    # (E - 1)^2 / E = 4 sinh^2(local_epsilon / 2)
    square = 2.0 * math.sinh(0.5 * mechanism.local_epsilon) ** 2 / mechanism.users
    value = math.log1p(a * (a - 1.0) * square) / (a - 1.0)
    return mechanism.rounds * value * (1.0 - CLOSED_FORM_ERROR)


@printed_formula(source="chen2024 Theorem 2")
def gaussian_limit(mechanism: ShuffledReports, delta: float) -> float:
    """Estimate of epsilon, not a bound: that of Gaussian noise with mu = 2 sqrt(E rounds / (n - 1)).

    Binary randomized response exceeds it for local_epsilon from about 2.8 on, and as local_epsilon goes
    to 0 it does not.

    Numerics: the epsilon of the Gaussian, rounded up.

    >>> few = ShuffledReports(users=5, local_epsilon=math.log(4))  # mu = 2: delta(0) = 2 Phi(1) - 1
    >>> gaussian_limit(few, 0.69)
    0.0
    """
    return _gaussian_epsilon(mechanism, delta, _printed_mu(mechanism))


@printed_formula(source="chen2024 Corollary 2")
def gaussian_limit_renyi(mechanism: ShuffledReports, order: float) -> float:
    """Estimate of the Renyi divergence, not a bound: 2 E order / (n - 1) for each round.

    See `gaussian_limit`.

    Numerics: as computed.

    >>> few = ShuffledReports(users=5, local_epsilon=math.log(4))
    >>> round(gaussian_limit_renyi(few, 3.0), 9)
    6.0
    """
    return _gaussian_renyi(mechanism, order, _printed_mu(mechanism))


@corrected_formula(source="chen2024 Theorem 2, corrected by tanh(local_epsilon/2)")
def corrected_limit(mechanism: ShuffledReports, delta: float) -> float:
    """Estimate of epsilon, not a bound: that of the Gaussian limit of the clone pair.

        mu = 2 tanh(local_epsilon / 2) sqrt(rounds / ((n - 1) rate))

    with clones at rate 2/(E + 1), or 1/E for individual randomizers.

    Its error is not bounded. The proof of chen2024 takes a mixture for its parts.

    Numerics: the epsilon of the Gaussian, rounded up.

    >>> few = ShuffledReports(users=9, local_epsilon=math.log(3))  # mu = 1/2
    >>> round(corrected_limit_renyi(few, 8.0), 9)
    1.0
    """
    return _gaussian_epsilon(mechanism, delta, _corrected_mu(mechanism))


@corrected_formula(source="chen2024 Corollary 2, corrected by tanh(local_epsilon/2)")
def corrected_limit_renyi(mechanism: ShuffledReports, order: float) -> float:
    """Estimate of the Renyi divergence, not a bound: order mu^2 / 2, mu as in `corrected_limit`.

    Its error is not bounded.

    Numerics: as computed.
    """
    return _gaussian_renyi(mechanism, order, _corrected_mu(mechanism))


def _moments(mechanism: ShuffledReports, orders: Array) -> Array:
    """The bound of `moments_upper` for one round at each order, rounded up."""
    n, large = mechanism.users, math.exp(mechanism.local_epsilon)
    hidden = math.floor((n - 1) / (2.0 * large) * (1.0 - CLOSED_FORM_ERROR)) + 1
    usual = orders**2 * math.expm1(mechanism.local_epsilon) ** 2 / hidden
    # a difference: each term is moved on its own
    unusual = orders * mechanism.local_epsilon * (1.0 + CLOSED_FORM_ERROR)
    unusual = unusual - (n - 1) / (8.0 * large) * (1.0 - CLOSED_FORM_ERROR)
    return np.asarray(np.logaddexp(usual, unusual) / (orders - 1.0) * (1.0 + CLOSED_FORM_ERROR))


def _converted(mechanism: ShuffledReports, orders: Array, delta: float) -> Array:
    """Upper bounds on epsilon, one from each order."""
    divergence = mechanism.rounds * _moments(mechanism, orders) * (1.0 + CLOSED_FORM_ERROR)
    return epsilon_from(orders, divergence, delta, "balle")


def _gaussian_epsilon(mechanism: ShuffledReports, delta: float, mu: float) -> float:
    """The epsilon of N(mu, 1) against N(0, 1), `rounds` times."""
    whole = GaussianPair(mu * math.sqrt(mechanism.rounds))
    return epsilon_of(whole, math.log(delta))[1]


def _gaussian_renyi(mechanism: ShuffledReports, order: float, mu: float) -> float:
    return 0.5 * order * mu**2 * mechanism.rounds


def _printed_mu(mechanism: ShuffledReports) -> float:
    """The distance of the printed limit."""
    return 2.0 * math.exp(0.5 * mechanism.local_epsilon) / math.sqrt(_others(mechanism))


def _corrected_mu(mechanism: ShuffledReports) -> float:
    """The distance in the limit of the clone pair."""
    e = mechanism.local_epsilon
    individual = mechanism.randomizer == "individual"
    rate = math.exp(-e) if individual else 2.0 / (math.exp(e) + 1.0)
    return 2.0 * math.tanh(0.5 * e) / math.sqrt(_others(mechanism) * rate)


def _others(mechanism: ShuffledReports) -> int:
    """The number of other users, at least one."""
    if mechanism.users == 1:
        raise Inapplicable("it needs at least two users")
    return mechanism.users - 1


def _whole(order: float) -> float:
    """The order, if it is a whole number from 2 on."""
    if order < 2 or not float(order).is_integer():
        raise Inapplicable("it covers whole orders from 2 on only")
    return float(order)
