"""Bounds by Renyi divergences: curves of the user, and what is published about Gaussian noise.

rho = 1 / (2 noise_multiplier^2) is the slope of the curve of Gaussian noise, rho * order. Several
rounds add up: T rounds are one with noise_multiplier / sqrt(T).
"""

import math
from functools import partial

import numpy as np

from sharpdp._validate import (
    count,
    half_open_probability,
    nonnegative,
    open_probability,
    positive_scale,
    probability,
)
from sharpdp.batches import PoissonBatches
from sharpdp.bounds.published import formula as register
from sharpdp.bounds.registry import PairCounts, bound
from sharpdp.curves.renyi.conversion import forcing_level, theorem4_g
from sharpdp.curves.renyi.curve import RenyiCurve, least_over
from sharpdp.errors import Inapplicable, InvalidArgument
from sharpdp.mechanisms import DPSGD, Adjacency, Gaussian
from sharpdp.numerics.special import CLOSED_FORM_ERROR, Array, gammaln

__all__ = [
    "gaussian_lemma2_upper",
    "gaussian_moments_upper",
    "gaussian_optimal_upper",
    "gaussian_rounds",
    "largest_rho",
    "renyi_curve_upper",
    "sampled_gaussian_moments_upper",
    "sampled_gaussian_published",
    "smallest_noise",
    "subset_curve",
]

ORDERS = 1.0 + np.geomspace(1e-3, 1e8, 400)
"""Where the best order is looked for first."""

MOST_TERMS = 4096
"""Largest whole order at which a sum over all moments is taken."""

formula = partial(register, composes=True)


@bound(
    holds_when="the values bound the Renyi divergences of both directions, for all neighbors",
    source="asoodeh2020 Theorem 3; riess2026; mironov2017 Proposition 1",
)
def renyi_curve_upper(mechanism: RenyiCurve, adjacency: Adjacency) -> PairCounts:
    """Upper side without a pair: `account` adds up divergences, or composes the pair of the conversion.

    All orders count together. Beside other parts the better route counts: docs/topics/renyi.md. Later
    parts may be chosen after seeing earlier results.

    Numerics: see `renyi.conversion` and `renyi.several_orders`.

    >>> renyi_curve_upper(RenyiCurve(orders=[2.0], values=[0.1]), Adjacency.NEIGHBORS)
    ()
    """
    return ()


@formula(source="abadi2016 Theorem 2, as asoodeh2020 (23)")
def gaussian_moments_upper(mechanism: Gaussian, delta: float) -> float:
    """Upper bound on epsilon by the moments accountant: rho + 2 sqrt(rho log(1/delta)).

    It is the classical conversion at its best order.

    Numerics: moved up by a relative 1e-12.

    >>> round(gaussian_moments_upper(Gaussian(math.sqrt(0.5)), math.exp(-4)), 9)  # rho = 1
    5.0
    """
    rho = _rho(mechanism)
    return (rho + 2.0 * math.sqrt(rho * -math.log(delta))) * (1.0 + CLOSED_FORM_ERROR)


@formula(source="asoodeh2020 Lemma 2")
def gaussian_lemma2_upper(mechanism: Gaussian, delta: float) -> float:
    """Upper bound on epsilon: the closed form of Lemma 1 at the best order, up to 1/delta.

    Numerics: every order is an upper bound, so that it does not matter which ones are tried; the
    formulas are rounded up.

    >>> round(gaussian_lemma2_upper(Gaussian(20.0), 1e-5), 6)
    0.177507
    """
    return _best(mechanism, delta, "lemma1")


@formula(source="asoodeh2020 Theorem 3")
def gaussian_optimal_upper(mechanism: Gaussian, delta: float) -> float:
    """Upper bound on epsilon: the optimal conversion of rho * order at the best order.

    No conversion of a single order is better; what the curve has lost against the exact answer
    (`gaussian_tight`) no conversion brings back.

    Numerics: rounded up; see `renyi.conversion`.

    >>> round(gaussian_optimal_upper(Gaussian(20.0), 1e-5), 6)
    0.177498
    """
    return _best(mechanism, delta, "optimal")


@formula(
    holds_when="batches are drawn by Poisson sampling; the order is a whole number, at least 2",
    source="mironov2019 Section 3.3",
)
def sampled_gaussian_moments_upper(mechanism: DPSGD, order: float) -> float:
    """Upper bound, and the exact value up to rounding, of the Renyi divergence of whole orders a.

        steps log( sum over k of C(a, k) (1 - r)^{a - k} r^k e^{k (k - 1) / (2 s^2)} ) / (a - 1)

    with r = sample_rate and s = noise_multiplier. Of the two directions it is the larger one.

    Numerics: summed in logarithms from k = 2 on, so that small divergences keep their digits; moved up
    by a relative 1e-12 and the rounding of the largest exponents.

    >>> one = DPSGD(PoissonBatches(sample_rate=0.5, steps=3), noise_multiplier=1.0)
    >>> round(math.exp(sampled_gaussian_moments_upper(one, 2.0) / 3), 9)  # 1 + (e - 1) / 4
    1.429570457
    """
    scheme = _poisson(mechanism)
    if order < 2 or order > MOST_TERMS or not float(order).is_integer():
        raise Inapplicable(f"it covers whole orders from 2 to {MOST_TERMS} only")
    if scheme.sample_rate == 1.0:
        return (
            scheme.steps * 0.5 * order / mechanism.noise_multiplier**2 * (1.0 + CLOSED_FORM_ERROR)
        )
    k = np.arange(2.0, order + 1.0)
    growth = 0.5 * k * (k - 1.0) / mechanism.noise_multiplier**2
    # sum C(a, k) (1 - r)^{a - k} r^k (e^growth - 1): the terms k = 0 and 1 are zero
    log_terms = _log_binomial(order, k) + k * math.log(scheme.sample_rate)
    log_terms += (order - k) * math.log1p(-scheme.sample_rate)
    log_terms += growth + np.log(-np.expm1(-growth))
    log_terms += CLOSED_FORM_ERROR * (1.0 + 1e-3 * np.abs(log_terms) + 1e-3 * growth)
    total = float(np.logaddexp(0.0, np.logaddexp.reduce(log_terms)))
    return scheme.steps * total / (order - 1.0) * (1.0 + CLOSED_FORM_ERROR)


@formula(
    holds_when="neither an upper nor a lower bound: a term of third order in the sample rate is left "
    "out; refused unless sample_rate < 1/(16 s), s = noise_multiplier >= 1, and order <= "
    "1 + s^2 log(1/(sample_rate s))",
    source="abadi2016 Lemma 3, as used by asoodeh2020 Figure 3",
)
def sampled_gaussian_published(mechanism: DPSGD, order: float) -> float:
    """Estimate of the Renyi divergence, not a bound: steps r^2 order / ((1 - r) s^2).

    Outside the range of its lemma the truth jumps above: at r = 0.001, s = 4 from order 222 on.

    Numerics: as computed.

    >>> one = DPSGD(PoissonBatches(sample_rate=0.001, steps=1), noise_multiplier=4.0)
    >>> round(1e8 * sampled_gaussian_published(one, 2.0), 6)
    12.512513
    """
    scheme, s = _poisson(mechanism), mechanism.noise_multiplier
    r = scheme.sample_rate
    if s < 1.0 or r >= 1.0 / (16.0 * s):
        raise Inapplicable("it needs a noise_multiplier of at least 1 and sample_rate < 1/(16 s)")
    largest = 1.0 + s * s * math.log(1.0 / (r * s))
    if order > largest:
        raise Inapplicable(f"it covers orders up to {largest:.4g} only")
    return scheme.steps * r * r * order / ((1.0 - r) * s * s)


def subset_curve(curve: RenyiCurve, *, sample_rate: float, largest_order: int = 256) -> RenyiCurve:
    """Upper curve of a mechanism that is run on a random subset, drawn without replacement.

        log(1 + r^2 C(a, 2) min(4 (e^{D(2)} - 1), e^{D(2)} A_2)
              + sum over j from 3 of r^j C(a, j) e^{(j - 1) D(j)} A_j) / (a - 1)
        A_j = min(2, (e^{D(inf)} - 1)^j)

    at whole orders a; never more than D(a).

    Holds when: `curve` is for the replacement of one record, r = sample_rate = size of the subset /
    size of the data set; the result is for replacement too.

    Numerics: moved up by a relative 1e-12.

    Source: wang2019 Theorem 9.

    >>> half = subset_curve(RenyiCurve(orders=[2.0], values=[math.log(2)]), sample_rate=0.5)
    >>> round(math.exp(half.values[0]), 9)  # 1 + 1/4 min(4, 2 * 2)
    2.0
    """
    rate = probability(sample_rate=sample_rate)
    last = count(largest_order=largest_order, least=2)
    orders = np.arange(2.0, last + 1.0)
    base = curve.at(orders)
    whole = orders[np.isfinite(base)]
    if whole.size == 0:
        raise InvalidArgument(
            "curve must be finite at some whole order from 2 on; got none. Give more orders."
        )
    base = base[: whole.size]
    top = float(curve.at(np.array([np.inf]))[0])
    apart = math.log(2.0) + np.zeros_like(whole)
    if 0.0 < top < math.inf:
        apart = np.minimum(apart, whole * (top + math.log(-math.expm1(-top))))
    with np.errstate(divide="ignore"):
        log_growth = (whole - 1.0) * base + apart
        log_growth[0] = min(log_growth[0], float(np.log(4.0 * np.expm1(base[0]))))
        log_terms = whole * math.log(rate) + log_growth
    moments = np.array(
        [
            np.logaddexp.reduce(_log_binomial(a, whole[: i + 1]) + log_terms[: i + 1])
            for i, a in enumerate(whole)
        ]
    )
    sizes = 1.0 + 1e-3 * (np.abs(moments) + (whole - 1.0) * base + whole * abs(math.log(rate)))
    values = (
        np.logaddexp(0.0, moments + CLOSED_FORM_ERROR * sizes)
        / (whole - 1.0)
        * (1.0 + CLOSED_FORM_ERROR)
    )
    bounds = np.minimum.accumulate(np.minimum(values, base)[::-1])[::-1]
    return RenyiCurve(
        orders=tuple(whole.tolist()), values=tuple(bounds.tolist()), rigor=curve.rigor
    )


def largest_rho(*, epsilon: float, delta: float, conversion: str = "optimal") -> float:
    """Lower bound on the largest rho such that a conversion proves rho-zCDP to be (epsilon, delta)-DP.

        max over a of level(a) / a, level the largest divergence that forces (epsilon, delta)

    With "balle" it is the inverse of equation (79), with "lemma1" that of Lemma 2, with "classical"
    that of the moments accountant, (sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2.

    Holds when: the divergences are at most rho * order, in both directions.

    Numerics: every order is safe, so that it does not matter which ones are tried; rounded down.

    Source: asoodeh2020 Theorems 3 and 4, equations (28) and (79).

    >>> round(largest_rho(epsilon=5.0, delta=math.exp(-4), conversion="classical"), 9)
    1.0
    """
    eps, d = nonnegative(epsilon=epsilon), open_probability(delta=delta)
    if conversion not in LEVELS:
        raise InvalidArgument(
            f"conversion must be one of {', '.join(map(repr, LEVELS))}; got {conversion!r}."
        )
    level = LEVELS[conversion]
    # a little beyond 1/delta, so that the product with delta is certainly not below one
    orders = np.unique(np.append(ORDERS, np.maximum((1.0 + 8.0 * 2.0**-52) / d, ORDERS[0])))
    with np.errstate(all="ignore"):
        ratio, _ = least_over(
            orders, lambda a: a / np.maximum(np.nan_to_num(level(a, eps, d)), 1e-300)
        )
    return (1.0 - CLOSED_FORM_ERROR) / ratio


def gaussian_rounds(
    *, noise_multiplier: float, epsilon: float, delta: float, conversion: str = "optimal"
) -> int:
    """Lower bound on the rounds of Gaussian noise that stay (epsilon, delta)-DP.

    What a conversion proves. The exact answer is
    ``calibrate(lambda t: Gaussian(..) * t, epsilon=.., delta=..)``.

    Holds when: each round has sensitivity 1.

    Numerics: rounded down.

    Source: asoodeh2020 Question Two, Lemma 2.

    >>> gaussian_rounds(noise_multiplier=20.0, epsilon=6.0, delta=1e-5, conversion="classical")
    501
    """
    s = positive_scale(noise_multiplier=noise_multiplier)
    return math.floor(
        2.0 * s * s * largest_rho(epsilon=epsilon, delta=delta, conversion=conversion)
    )


def smallest_noise(
    *, rounds: int, epsilon: float, delta: float, conversion: str = "optimal"
) -> float:
    """Upper bound on the noise multiplier that so many rounds need to be (epsilon, delta)-DP.

    What a conversion proves; "balle" is equation (79). Theorem 5, its expansion, is not offered: it
    drops a term and asks for too little noise. The exact answer is
    ``calibrate(lambda s: Gaussian(s) * rounds, epsilon=.., delta=..)``.

    Holds when: each round has sensitivity 1.

    Numerics: rounded up.

    Source: asoodeh2020 equation (79).

    >>> rho_one = {"epsilon": 5.0, "delta": math.exp(-4), "conversion": "classical"}
    >>> round(smallest_noise(rounds=8, **rho_one), 9)
    2.0
    """
    times = count(rounds=rounds)
    rho = largest_rho(epsilon=epsilon, delta=delta, conversion=conversion)
    return math.sqrt(times / (2.0 * rho)) * (1.0 + CLOSED_FORM_ERROR)


def _rho(mechanism: Gaussian) -> float:
    return 0.5 / mechanism.noise_multiplier**2


def _best(mechanism: Gaussian, delta: float, conversion: str) -> float:
    """The best epsilon of a conversion over all orders, with the order 1/delta among them."""
    rho = _rho(mechanism) * (1.0 + CLOSED_FORM_ERROR)
    last = max(rho / delta + math.log1p(-delta) + CLOSED_FORM_ERROR * (1.0 + rho / delta), 0.0)
    return min(
        RenyiCurve.zcdp(rho=rho).best("epsilon", half_open_probability(delta=delta), conversion)[0],
        last,
    )


def _poisson(mechanism: DPSGD) -> PoissonBatches:
    if not isinstance(mechanism.batches, PoissonBatches):
        raise Inapplicable("it is about Poisson batches")
    return mechanism.batches


def _log_binomial(n: float, k: Array) -> Array:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _classical_level(a: Array, epsilon: float, delta: float) -> Array:
    return np.asarray(epsilon + math.log(delta) / (a - 1.0))


def _balle_level(a: Array, epsilon: float, delta: float) -> Array:
    return np.where(a * delta < 1.0, theorem4_g(a, epsilon, delta), 0.0)


def _lemma1_level(a: Array, epsilon: float, delta: float) -> Array:
    s = a - 1.0
    flat = np.logaddexp(np.log1p(-a * delta), np.log(a * delta) + s * epsilon) / s
    below = np.maximum(theorem4_g(a, epsilon, delta), flat - 1e-15 * (epsilon + 1.0 / s))
    whole = (epsilon - math.log1p(-delta)) * (1.0 - 1e-15)
    return np.where(a * delta < 1.0 + 2.0**-52, below, whole)


LEVELS = {
    "optimal": forcing_level,
    "lemma1": _lemma1_level,
    "balle": _balle_level,
    "classical": _classical_level,
}
"""The level that forces (epsilon, delta) according to each conversion."""
