"""Random mechanisms of every kind that has a bound; a kind without a maker makes the laws fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtr

import sharpdp as dp
from sharpdp.mechanisms import (
    ApproximateReports,
    BlanketRandomizer,
    NormalPair,
    ProfileMechanism,
    ReportsOfGroup,
    SampledReports,
    ShuffledGroups,
)
from sharpdp.mechanisms.composed import Grouped, Repeated

Maker = Callable[[np.random.Generator], dp.Mechanism]
Subject = tuple[type, type | None]


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def finite(rng: np.random.Generator) -> dp.FinitePair:
    size = int(rng.integers(2, 6))
    p = rng.dirichlet(np.full(size, 2.0))
    q = p * np.exp(rng.normal(0.0, 0.7, size))
    q = q / q.sum()
    if size > 3:  # outcomes that one of the two never takes
        p[0], q[1] = 0.0, 0.0
        p, q = p / p.sum(), q / q.sum()
    return dp.FinitePair(p=p.tolist(), q=q.tolist())


def loss_table(rng: np.random.Generator) -> dp.PrivacyLoss:
    """The losses of a pair of pmfs, or a table that is rounded to one side."""
    pair = finite(rng)
    rows = [(p, q) for p, q in zip(pair.p, pair.q, strict=True) if p > 0]
    rounding = str(rng.choice(["exact", "exact", "pessimistic", "optimistic"]))
    moved = {"exact": 0.0, "pessimistic": 0.05, "optimistic": -0.05}[rounding]
    return dp.PrivacyLoss(
        losses=[float(np.log(p / q)) + moved for p, q in rows if q > 0],
        masses=[p for p, q in rows if q > 0],
        mass_at_infinity=sum(p for p, q in rows if q == 0),
        rounding=rounding,
    )


def best_of(rng: np.random.Generator) -> dp.BestOf:
    """The best of a few runs of noise or of a pair of pmfs, by every law."""
    run = dp.Gaussian(log_uniform(rng, 1.0, 20.0)) if rng.random() < 0.5 else finite(rng)
    kind = int(rng.integers(4))
    if kind == 0:
        return dp.BestOf(run, int(rng.integers(1, 5)))
    mean = log_uniform(rng, 1.5, 50.0)
    if kind == 1:
        shape = float(rng.uniform(-0.5, 2.0))
        return dp.BestOf(run, "negative-binomial", mean=mean, shape=shape)
    return dp.BestOf(run, "geometric" if kind == 2 else "poisson", mean=mean)


def known_profile(rng: np.random.Generator) -> ProfileMechanism:
    """A mechanism known by its profile: that of Gaussian noise."""
    mu = log_uniform(rng, 0.1, 2.0)

    def profile(epsilon: np.ndarray) -> np.ndarray:
        far = 0.5 * mu + epsilon / mu
        return np.maximum(ndtr(mu - far) - np.exp(epsilon + log_ndtr(-far)), 0.0)

    return ProfileMechanism(profile=profile, name="Gaussian")


def poisson(rng: np.random.Generator) -> dp.DPSGD:
    batches = dp.PoissonBatches(
        sample_rate=log_uniform(rng, 1e-3, 0.5), steps=int(log_uniform(rng, 1, 3000))
    )
    return dp.DPSGD(batches, noise_multiplier=log_uniform(rng, 0.7, 8.0))


def cyclic(rng: np.random.Generator) -> dp.DPSGD:
    batches = dp.batches.CyclicPoissonBatches(
        sample_rate=log_uniform(rng, 1e-3, 0.5),
        steps=int(log_uniform(rng, 1, 3000)),
        cycle_length=int(rng.integers(1, 9)),
    )
    return dp.DPSGD(batches, noise_multiplier=log_uniform(rng, 0.7, 8.0))


def weighted(rng: np.random.Generator) -> dp.DPSGD:
    batches = dp.batches.WeightedPoissonBatches(
        weights=rng.uniform(0.0, 1.0, 20).tolist(),
        batch_size=int(rng.integers(1, 5)),
        steps=int(log_uniform(rng, 1, 3000)),
    )
    return dp.DPSGD(batches, noise_multiplier=log_uniform(rng, 0.7, 8.0))


def deterministic(rng: np.random.Generator) -> dp.DPSGD:
    batches = dp.DeterministicBatches(
        dataset_size=1000, batch_size=int(rng.integers(1, 200)), epochs=int(rng.integers(1, 50))
    )
    return dp.DPSGD(batches, noise_multiplier=log_uniform(rng, 0.5, 20.0))


def queries(run: dp.DPSGD) -> dp.BatchQueries:
    """Adaptive queries on the batches of a training run."""
    return dp.BatchQueries(run.batches, noise_multiplier=run.noise_multiplier)


def same_batches(run: dp.DPSGD) -> dp.SameBatches:
    """A training run, and queries on its batches."""
    return dp.SameBatches([run, queries(run)])


def bins(rng: np.random.Generator) -> dp.DPSGD:
    """Few different ones, since their tables are kept."""
    plan = dp.BallsAndBins(
        dataset_size=1000,
        batch_size=int(rng.choice([100, 300])),
        epochs=int(rng.choice([1, 3])),
        order=str(rng.choice(["redrawn", "kept"])),
    )
    least = 0.2 if plan.order == "kept" else 1.5
    return dp.DPSGD(plan, noise_multiplier=float(rng.choice([least, 1.5])))


def allocation(rng: np.random.Generator) -> dp.DPSGD:
    """One or two of the steps; few different ones."""
    plan = dp.RandomAllocation(steps=6, participations=int(rng.choice([1, 2])))
    return dp.DPSGD(plan, noise_multiplier=2.0)


def shuffled(rng: np.random.Generator) -> dp.DPSGD:
    """Orders drawn anew or kept, with left-over examples; few different ones, since they take time."""
    plan = dp.ShuffledBatches(
        dataset_size=80_030,
        batch_size=100,
        epochs=int(rng.choice([1, 4])),
        order=str(rng.choice(["redrawn", "kept"])),
    )
    return dp.DPSGD(plan, noise_multiplier=float(rng.choice([0.8, 3.0])))


def buffered(rng: np.random.Generator) -> dp.DPSGD:
    """A stream through a buffer of a few batches, or of less than one."""
    plan = dp.BufferedShuffle(
        dataset_size=8030,
        batch_size=100,
        epochs=int(rng.choice([1, 4])),
        buffer_size=int(rng.choice([20, 1000])),
    )
    return dp.DPSGD(plan, noise_multiplier=float(rng.choice([0.8, 3.0])))


def fixed_size(rng: np.random.Generator) -> dp.DPSGD:
    batches = dp.FixedSizeBatches(
        dataset_size=1000,
        batch_size=int(rng.choice([5, 50, 400])),
        steps=int(rng.choice([1, 30, 300])),
        replacement=bool(rng.random() < 0.5),
    )
    return dp.DPSGD(batches, noise_multiplier=float(rng.choice([2.0, 6.0])))


def truncated(rng: np.random.Generator) -> dp.DPSGD:
    batches = dp.TruncatedPoissonBatches(
        dataset_size=1000,
        batch_size=100,
        steps=int(rng.choice([30, 300])),
        physical_batch_size=int(rng.choice([110, 180])),
    )
    return dp.DPSGD(batches, noise_multiplier=float(rng.choice([3.0, 6.0])))


def table(rng: np.random.Generator) -> dp.DiscreteRandomizer:
    """Two to four records, two to four reports."""
    records, reports = rng.integers(2, 5, size=2)
    rows = rng.dirichlet(np.full(reports, 3.0), size=records) + 0.02
    return dp.DiscreteRandomizer((rows / rows.sum(axis=1, keepdims=True)).tolist())


def reports(rng: np.random.Generator) -> dp.ShuffledReports:
    """A known randomizer of few users; any randomizer of many has laws of its own."""
    known = dp.RandomizedResponse(
        local_epsilon=log_uniform(rng, 0.1, 4.0), categories=int(rng.integers(2, 5))
    )
    return dp.ShuffledReports(users=int(log_uniform(rng, 1, 12)), randomizer=known)


def sampled(rng: np.random.Generator) -> SampledReports:
    """One round of a few users of a larger population; many have laws of their own."""
    users = int(log_uniform(rng, 2, 6))
    reports = dp.ShuffledReports(
        users=users,
        local_epsilon=log_uniform(rng, 0.1, 3.0),
        randomizer=str(rng.choice(["shared", "individual"])),
    )
    return SampledReports(reports, int(users * log_uniform(rng, 2, 100)))


def promised(rng: np.random.Generator) -> ApproximateReports:
    """A few reports of randomizers of which a promise is known."""
    some = dp.ApproximateDP(epsilon=log_uniform(rng, 0.1, 3.0), delta=log_uniform(rng, 1e-9, 1e-3))
    return ApproximateReports(users=int(log_uniform(rng, 1, 30)), randomizer=some)


def renyi_curve(rng: np.random.Generator) -> dp.RenyiCurve:
    """Divergences of Gaussian noise at a few orders, or at all of them."""
    rho = log_uniform(rng, 1e-3, 1.0)
    if rng.random() < 0.5:
        return dp.RenyiCurve.zcdp(rho=rho)
    orders = np.sort(1.0 + np.exp(rng.uniform(-1.0, 4.0, 12)))
    return dp.RenyiCurve(orders=orders, values=rho * orders)


def mixture(rng: np.random.Generator) -> dp.Mixture:
    """Two or three pairs on the same points, or any mechanisms with the index told."""
    if rng.random() < 0.2:
        parts = [normal(rng), normal(rng)]
        return dp.Mixture(components=parts, weights=[0.25, 0.75], other_weights=[0.5, 0.5])
    if rng.random() < 0.3:
        noise = [dp.Gaussian(log_uniform(rng, 0.5, 4.0)), dp.Laplace(log_uniform(rng, 0.5, 4.0))]
        index = str(rng.choice(["hidden", "released"]))
        return dp.Mixture(components=noise, weights=[0.25, 0.75], index=index)
    size, count = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    laws = rng.dirichlet(np.full(size, 2.0), size=(count, 2))
    pairs = [dp.FinitePair(p=p.tolist(), q=q.tolist()) for p, q in laws]
    weights, other = rng.dirichlet(np.ones(count), size=2)
    return dp.Mixture(
        components=pairs,
        weights=weights.tolist(),
        other_weights=other.tolist() if rng.random() < 0.5 else None,
        index=str(rng.choice(["hidden", "released"])),
    )


def tradeoff_curve(rng: np.random.Generator) -> dp.TradeoffCurve:
    """That of a pair of pmfs, of some points of a profile, or of Gaussian noise."""
    kind = rng.integers(3)
    if kind == 0:
        pair = finite(rng)
        return dp.TradeoffCurve.from_pmfs(null=pair.q, alternative=pair.p)
    if kind == 1:
        epsilons = np.sort(rng.uniform(0.0, 3.0, 4))
        deltas = np.sort(np.exp(rng.uniform(-12.0, -1.0, 4)))[::-1]
        attained = bool(rng.random() < 0.5)
        return dp.TradeoffCurve.from_points(epsilons=epsilons, deltas=deltas, attained=attained)
    return dp.TradeoffCurve.gaussian(mu=log_uniform(rng, 0.05, 3.0))


def blocks(rng: np.random.Generator) -> dp.ShuffledBlocks:
    return dp.ShuffledBlocks(
        blocks=int(log_uniform(rng, 1, 300)),
        local_epsilon=log_uniform(rng, 0.1, 3.0),
        block_size=int(rng.choice([1, 1, 5])),
        unit=str(rng.choice(["record", "block"])),
    )


def user_groups(rng: np.random.Generator, *, known: bool = False) -> ShuffledGroups:
    """Two groups, none of which is surely the worst; the randomizers are known or not."""
    few = int(log_uniform(rng, 1, 300))
    smaller = log_uniform(rng, 0.1, 2.0)
    return ShuffledGroups(
        users=[few, few + int(log_uniform(rng, 1, 3000))],
        local_epsilon=[smaller, smaller * rng.uniform(1.1, 2.5)],
        categories=int(rng.choice([2, 3, 10])) if known or rng.random() < 0.5 else None,
    )


def random_start(rng: np.random.Generator) -> dp.RandomlyInitializedGD:
    """Least squares or logistic regression, with and without a lower side."""
    if rng.random() < 0.2:
        return dp.RandomlyInitializedGD.least_squares(
            slope=float(rng.normal()),
            clip=np.inf,
            points=int(rng.integers(1, 6)),
            learning_rate=log_uniform(rng, 0.05, 0.4),
            steps=int(rng.integers(1, 6)),
            claim="instance",
        )
    said = {
        "claim": str(rng.choice(["instance", "worst-case"])),
        "initialization": str(rng.choice(["hidden", "public"])),
        "noise_deviation": log_uniform(rng, 0.5, 2.0),
    }
    if rng.random() < 0.3:
        return dp.RandomlyInitializedGD.logistic(margin=log_uniform(rng, 1.0, 4.0), **said)
    return dp.RandomlyInitializedGD.least_squares(
        slope=float(rng.normal()), clip=log_uniform(rng, 0.2, 3.0), points=2, **said
    )


def last_iterate(rng: np.random.Generator) -> dp.LastIterate:
    """Over full, cyclic, shuffled and Poisson batches, with and without a projection or a loss."""
    size = 60
    counts = {"dataset_size": size, "batch_size": int(rng.choice([60, 20, 12])), "epochs": 4}
    scheme = [dp.DeterministicBatches, dp.ShuffledBatches, dp.PoissonBatches][int(rng.integers(3))]
    said: dict[str, object] = {"noise_multiplier": log_uniform(rng, 1.0, 8.0)}
    if rng.random() < 0.8:
        said["learning_rate"] = log_uniform(rng, 0.1, 2.0)
        said["loss"] = dp.SmoothLoss(
            gradient_norm=1.0,
            smoothness=float(rng.choice([0.5, 0.5, 0.0])),
            regularization=log_uniform(rng, 0.01, 0.6),
            convex=bool(rng.random() < 0.8),
        )
        said["diameter"] = log_uniform(rng, 0.05, 5.0) if rng.random() < 0.3 else None
        said["start_deviation"] = log_uniform(rng, 0.01, 2.0) if rng.random() < 0.4 else None
    return dp.LastIterate(scheme(**counts), **said)  # type: ignore[arg-type]


def correlated(rng: np.random.Generator) -> dp.CorrelatedNoise:
    """Over all schemes that are known, with signed and unsigned strategies of all three kinds."""
    counts = {"dataset_size": 60, "batch_size": int(rng.choice([60, 10, 5])), "epochs": 3}
    steps = 3 * 60 // counts["batch_size"]
    cyclic_plan = dp.batches.CyclicPoissonBatches(
        sample_rate=log_uniform(rng, 0.01, 0.5), steps=steps, cycle_length=int(rng.integers(2, 9))
    )
    plans = (
        dp.DeterministicBatches(**counts),
        dp.ShuffledBatches(**counts),
        dp.BallsAndBins(**counts),
        dp.BallsAndBins(**counts, order="kept"),
        cyclic_plan,
        dp.MinSeparation(steps=steps, separation=int(rng.integers(1, 9)), participations=3),
    )
    signed = np.tril(rng.normal(size=(steps, steps))) * 0.2 + np.eye(steps)
    strategies = (
        dp.BandedStrategy(coefficients=np.sort(rng.uniform(0.1, 1.0, 3))[::-1]),
        dp.BandedStrategy(coefficients=(1.0, -0.5, 0.25)),
        dp.BufferedLinearToeplitz(scales=(0.3, 0.1), decays=rng.uniform(size=2)),
        dp.MatrixStrategy(matrix=signed if rng.random() < 0.5 else np.abs(signed)),
    )
    return dp.CorrelatedNoise(
        plans[int(rng.integers(len(plans)))],
        strategy=strategies[int(rng.integers(len(strategies)))],
        noise_multiplier=log_uniform(rng, 1.0, 8.0),
    )


def normal(rng: np.random.Generator) -> NormalPair:
    """Two normal laws, of one deviation or of two."""
    deviation = log_uniform(rng, 0.5, 4.0)
    other = deviation if rng.random() < 0.5 else deviation * log_uniform(rng, 0.9, 1.1)
    return NormalPair(
        mean=float(rng.normal()), deviation=deviation, other_deviation=other, other_mean=0.5
    )


def grouped(rng: np.random.Generator) -> Grouped:
    """A group of a few records in a training run, in noise, or in a pair of pmfs."""
    runs = [poisson, deterministic, fixed_size, finite, lambda rng: dp.Laplace(5.0)]
    run = runs[int(rng.integers(len(runs)))](rng)
    return Grouped(run, int(rng.integers(2, 5)))


MAKERS: dict[Subject, Maker] = {
    (Grouped, None): grouped,
    (dp.Sequence, None): lambda rng: dp.Sequence([]),
    (Repeated, None): lambda rng: dp.Gaussian(1.0) * 0,
    (dp.Gaussian, None): lambda rng: dp.Gaussian(log_uniform(rng, 0.3, 50.0)),
    (dp.Laplace, None): lambda rng: dp.Laplace(log_uniform(rng, 0.3, 20.0)),
    (dp.RandomizedResponse, None): lambda rng: dp.RandomizedResponse(
        local_epsilon=log_uniform(rng, 0.05, 4.0), categories=int(rng.choice([2, 3, 20]))
    ),
    (dp.PureDP, None): lambda rng: dp.PureDP(log_uniform(rng, 0.05, 3.0)),
    (dp.ApproximateDP, None): lambda rng: dp.ApproximateDP(
        epsilon=log_uniform(rng, 0.05, 3.0), delta=log_uniform(rng, 1e-9, 1e-3)
    ),
    (dp.FinitePair, None): finite,
    (dp.BestOf, None): best_of,
    (dp.PrivacyLoss, None): loss_table,
    (dp.Mixture, None): mixture,
    (NormalPair, None): normal,
    (dp.LocalGaussian, None): lambda rng: dp.LocalGaussian(log_uniform(rng, 0.3, 5.0)),
    (dp.LocalLaplace, None): lambda rng: dp.LocalLaplace(log_uniform(rng, 0.05, 4.0)),
    (dp.DiscreteRandomizer, None): table,
    (BlanketRandomizer, None): lambda rng: BlanketRandomizer(
        local_epsilon=log_uniform(rng, 0.05, 4.0), blanket=rng.uniform(0.05, 0.95)
    ),
    (dp.ShuffledReports, None): reports,
    (dp.ShuffledBlocks, None): blocks,
    (ShuffledGroups, None): user_groups,
    (ReportsOfGroup, None): lambda rng: user_groups(rng, known=True).group(int(rng.integers(2))),
    (SampledReports, None): sampled,
    (ApproximateReports, None): promised,
    (ProfileMechanism, None): known_profile,
    (dp.RandomlyInitializedGD, None): random_start,
    (dp.LastIterate, None): last_iterate,
    (dp.CorrelatedNoise, None): correlated,
    (dp.RenyiCurve, None): renyi_curve,
    (dp.TradeoffCurve, None): tradeoff_curve,
    (dp.BatchQueries, None): lambda rng: queries(poisson(rng)),
    (dp.SameBatches, None): lambda rng: same_batches(poisson(rng)),
    (dp.DPSGD, dp.PoissonBatches): poisson,
    (dp.DPSGD, dp.batches.CyclicPoissonBatches): cyclic,
    (dp.DPSGD, dp.batches.WeightedPoissonBatches): weighted,
    (dp.DPSGD, dp.DeterministicBatches): deterministic,
    (dp.DPSGD, dp.ShuffledBatches): shuffled,
    (dp.DPSGD, dp.BufferedShuffle): buffered,
    (dp.DPSGD, dp.FixedSizeBatches): fixed_size,
    (dp.DPSGD, dp.TruncatedPoissonBatches): truncated,
    (dp.DPSGD, dp.BallsAndBins): bins,
    (dp.DPSGD, dp.RandomAllocation): allocation,
}
"""One maker for each kind of mechanism (and batch scheme) that some bound is about."""


def subjects() -> list[Subject]:
    """What the registered bounds are about, each once."""
    return list(
        dict.fromkeys(
            subject
            for bound in dp.all_bounds()
            for of in bound.of
            for subject in itertools.product(
                [of], (of is dp.DPSGD and bound.batch_scheme) or (None,)
            )
        )
    )


def kinds() -> list[type]:
    """Every kind of mechanism in the library that is not composed of others."""
    found: list[type] = []
    pending = [dp.Mechanism]
    while pending:
        for kind in pending.pop().__subclasses__():
            pending.append(kind)
            if (
                kind.__module__.startswith("sharpdp.mechanisms")
                and "composed" not in kind.__module__
            ):
                found.append(kind)
    return found


def some(subject: Subject, seed: int, count: int) -> list[dp.Mechanism]:
    """A few mechanisms of one kind."""
    rng = np.random.default_rng(seed)
    return [MAKERS[subject](rng) for _ in range(count)]


def repetitions(mechanism: dp.Mechanism, rng: np.random.Generator) -> dp.Mechanism:
    """The mechanism some number of times, so that compositions are tried too."""
    return mechanism * int(log_uniform(rng, 1, 40))
