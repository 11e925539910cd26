"""Random questions from a deliberately wild domain, each reproducible from a seed and an index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import sharpdp as dp
from tests.wild import oracle

SIGMAS = (0.1, 1000.0)
RATES = (1e-8, 1.0)
COUNTS = (1.0, 1e8)
DELTAS = (1e-300, 0.5)


@dataclass(frozen=True)
class Case:
    """One question: what is run, at which delta, and the same as factors of the oracle if it knows."""

    call: str
    mechanism: dp.Mechanism
    delta: float
    factors: dict[str, list[oracle.Factor]] | None  # direction -> factors
    exact: tuple[object, ...] = ()  # what an exact reference needs

    def __str__(self) -> str:
        return f"{self.call}  at delta={self.delta!r}"


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _count(rng: np.random.Generator, most: float = COUNTS[1]) -> int:
    return max(1, round(_log_uniform(rng, 0.7, most)))


def _delta(rng: np.random.Generator) -> float:
    """Mostly between 1e-20 and 0.5, now and then down to 1e-300."""
    least = 1e-300 if rng.random() < 0.3 else 1e-20
    return _log_uniform(rng, least, DELTAS[1])


def poisson(rng: np.random.Generator) -> Case:
    rate = _log_uniform(rng, *RATES)
    if rng.random() < 0.1:  # nearly every record, or every record
        rate = 1.0 - _log_uniform(rng, 1e-12, 0.1) if rng.random() < 0.5 else 1.0
    sigma = _log_uniform(rng, *SIGMAS) if rng.random() < 0.5 else _log_uniform(rng, 0.3, 5.0)
    steps = _count(rng)
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=sigma)
    factors = {
        direction: [oracle.poisson(rate, sigma, direction, steps)]
        for direction in ("remove", "add")
    }
    call = (
        f"dp.DPSGD(dp.PoissonBatches(sample_rate={rate!r}, steps={steps}), "
        f"noise_multiplier={sigma!r})"
    )
    if rate == 1.0:
        factors = {"both": [oracle.gaussian(1.0 / sigma, steps)]}
    return Case(call, run, _delta(rng), factors, ("poisson", rate, sigma, steps))


def gaussian(rng: np.random.Generator) -> Case:
    sigma, steps = _log_uniform(rng, *SIGMAS), _count(rng)
    return Case(
        f"dp.Gaussian({sigma!r}) * {steps}",
        dp.Gaussian(sigma) * steps,
        _delta(rng),
        {"both": [oracle.gaussian(1.0 / sigma, steps)]},
        ("gaussian", sigma, steps),
    )


def laplace(rng: np.random.Generator) -> Case:
    scale, steps = _log_uniform(rng, 0.05, 1000.0), _count(rng)
    return Case(
        f"dp.Laplace({scale!r}) * {steps}",
        dp.Laplace(scale) * steps,
        _delta(rng),
        {"both": [oracle.laplace(scale, steps)]},
        ("laplace", scale, steps),
    )


def randomized(rng: np.random.Generator) -> Case:
    epsilon, steps = _log_uniform(rng, 1e-4, 20.0), _count(rng)
    categories = int(rng.choice([2, 2, 2, 3, 10, 1000]))
    e = np.exp(epsilon)
    total = e + categories - 1.0
    p = [e / total, 1.0 / total, (categories - 2) / total]
    q = [1.0 / total, e / total, (categories - 2) / total]
    keep = 2 if categories == 2 else 3
    return Case(
        f"dp.RandomizedResponse(local_epsilon={epsilon!r}, categories={categories}) * {steps}",
        dp.RandomizedResponse(local_epsilon=epsilon, categories=categories) * steps,
        _delta(rng),
        {"both": [oracle.atoms(p[:keep], q[:keep], steps)]},
        ("randomized", epsilon, categories, steps),
    )


def approximate(rng: np.random.Generator) -> Case:
    epsilon, each = _log_uniform(rng, 1e-3, 5.0), _log_uniform(rng, 1e-15, 1e-2)
    steps = _count(rng, 1e5)
    return Case(
        f"dp.ApproximateDP(epsilon={epsilon!r}, delta={each!r}) * {steps}",
        dp.ApproximateDP(epsilon=epsilon, delta=each) * steps,
        _delta(rng),
        None,
        ("approximate", epsilon, each, steps),
    )


def finite(rng: np.random.Generator) -> Case:
    size = int(rng.integers(2, 8))
    p, q = rng.dirichlet(np.full(size, 0.5)), rng.dirichlet(np.full(size, 0.5))
    if rng.random() < 0.5:  # close to each other
        q = p * np.exp(rng.normal(0.0, _log_uniform(rng, 1e-6, 1.0), size))
    p, q = np.maximum(p, 1e-12), np.maximum(q, 1e-12)
    p, q = p / p.sum(), q / q.sum()
    steps = _count(rng)
    pair = dp.FinitePair(p=p.tolist(), q=q.tolist())
    factors = {"forward": [oracle.atoms(p, q, steps)], "backward": [oracle.atoms(q, p, steps)]}
    call = f"dp.FinitePair(p={p.tolist()!r}, q={q.tolist()!r}) * {steps}"
    return Case(call, pair * steps, _delta(rng), factors, ("finite", pair.p, pair.q, steps))


def mixture(rng: np.random.Generator) -> Case:
    """Several different mechanisms of moderate size together."""
    parts, factors = [], {"forward": [], "backward": []}
    for _ in range(int(rng.integers(2, 5))):
        make = (poisson, gaussian, laplace)[int(rng.integers(3))]
        one = make(rng)
        parts.append(one)
        assert one.factors is not None
        both = one.factors.get("both")
        factors["forward"] += both or one.factors["remove"]
        factors["backward"] += both or one.factors["add"]
    mechanism = dp.Sequence([one.mechanism for one in parts])
    call = "dp.Sequence([" + ", ".join(one.call for one in parts) + "])"
    return Case(call, mechanism, _delta(rng), factors)


KINDS = (poisson, poisson, poisson, gaussian, laplace, randomized, approximate, finite, mixture)


def case(seed: int, index: int) -> Case:
    """The index-th question of a seed."""
    rng = np.random.default_rng([seed, index])
    return KINDS[int(rng.integers(len(KINDS)))](rng)
