"""The best of several runs: against brute force over all orders of results, and dp-accounting's event."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from mpmath import mp, mpf

import sharpdp as dp
from sharpdp.plans import mechanism_from_data, to_data

Generating = Callable[[float], float]


def generating(mechanism: dp.BestOf) -> Generating:
    """phi(z) = E[z^K], written from the definitions of the laws."""
    if isinstance(mechanism.repetitions, int):
        times = mechanism.repetitions
        return lambda z: z**times
    assert mechanism.mean is not None
    mean = mechanism.mean
    if mechanism.repetitions == "poisson":
        return lambda z: math.exp(mean * (z - 1))
    gamma = mechanism.stopping_probability
    if mechanism.repetitions == "geometric":
        return lambda z: gamma * z / (1 - (1 - gamma) * z)
    shape = float(mechanism.shape or 0.0)
    if shape == 0.0:
        return lambda z: math.log1p(-(1 - gamma) * z) / math.log(gamma)
    return lambda z: ((1 - (1 - gamma) * z) ** -shape - 1) / (gamma**-shape - 1)


def best_law(masses: list[float], phi: Generating) -> list[float]:
    """The law of the best result, results given from the worst score to the best."""
    steps = [phi(total) for total in np.minimum(np.cumsum([0.0, *masses]), 1.0)]
    return [after - before for before, after in itertools.pairwise(steps)]


def delta(p: list[float], q: list[float], x: float) -> float:
    forth = sum(max(a - x * b, 0.0) for a, b in zip(p, q, strict=True))
    back = sum(max(b - x * a, 0.0) for a, b in zip(p, q, strict=True))
    return max(forth, back)


LAWS: list[dict[str, object]] = [
    {"repetitions": "geometric", "mean": 4.0},
    {"repetitions": "geometric", "mean": 50.0},
    {"repetitions": "poisson", "mean": 3.0},
    {"repetitions": "poisson", "mean": 0.2},
    {"repetitions": "poisson", "mean": 0.9},
    {"repetitions": "negative-binomial", "mean": 5.0, "shape": 0.0},
    {"repetitions": "negative-binomial", "mean": 8.0, "shape": 2.5},
    {"repetitions": "negative-binomial", "mean": 6.0, "shape": -0.5},
    {"repetitions": 3},
]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_no_order_of_results_reveals_more_than_the_upper_side(law: dict[str, object]) -> None:
    rng = np.random.default_rng(11)
    for _ in range(8):
        p = rng.dirichlet(np.full(4, 2.0))
        q = p * np.exp(rng.normal(0.0, rng.uniform(0.05, 1.0), 4))
        q /= q.sum()
        mechanism = dp.BestOf(dp.FinitePair(p=p.tolist(), q=q.tolist()), **law)  # type: ignore[arg-type]
        phi = generating(mechanism)
        answer = dp.account(mechanism)
        epsilons = np.array([0.0, 0.3, 1.0, 2.0])
        brackets = answer.delta(epsilon=epsilons)
        worst, split = np.zeros(4), np.zeros(4)
        for order in itertools.permutations(range(4)):
            laws = [best_law(side[list(order)].tolist(), phi) for side in (p, q)]
            worst = np.maximum(worst, [delta(*laws, math.exp(e)) for e in epsilons])
            # each result told apart further by coin flips
            fine = [np.repeat(side[list(order)] / 40, 40).tolist() for side in (p, q)]
            laws = [best_law(side, phi) for side in fine]
            split = np.maximum(split, [delta(*laws, math.exp(e)) for e in epsilons])
        assert np.all(worst <= split + 1e-12)
        assert np.all(split <= np.asarray(brackets.upper) + 1e-9)
        # and what is claimed from below is attained by one of the orders
        assert np.all(np.asarray(brackets.lower) <= split * (1 + 1e-2) + 1e-9)


def test_the_lower_side_of_a_known_pair_is_that_of_its_likelihood_ratio() -> None:
    """Golden: randomized response, its two results told apart further by many coin flips."""
    phi = generating(dp.BestOf(dp.PureDP(epsilon=math.log(3)), "geometric", mean=4.0))
    low, high = [0.25 / 4000] * 4000, [0.75 / 4000] * 4000
    laws = best_law([*low, *high], phi), best_law([*high, *low], phi)
    answer = dp.account(dp.BestOf(dp.PureDP(epsilon=math.log(3)), "geometric", mean=4.0))
    for epsilon in (0.0, 0.2, 0.4):
        attained = delta(*laws, math.exp(epsilon))
        assert 0.9 * attained <= answer.delta(epsilon=epsilon).lower <= attained * (1 + 1e-5)


def test_pure_dp_costs_at_most_the_published_factor() -> None:
    """2110.03620, Corollary 3: the best of a geometric number of epsilon-DP runs is 3 epsilon-DP."""
    for mean in (2.0, 10.0, 1e6):
        answer = dp.account(dp.BestOf(dp.PureDP(epsilon=0.2), "geometric", mean=mean))
        assert answer.epsilon(delta=1e-12).upper <= 0.6 * (1 + 1e-6)
    many = dp.account(dp.BestOf(dp.PureDP(epsilon=0.2), "geometric", mean=1e6))
    assert many.epsilon(delta=1e-12).upper > 0.59


@pytest.mark.parametrize(
    ("law", "mean", "shape"),
    [("geometric", 10.0, 1.0), ("geometric", 100.0, 1.0), ("negative-binomial", 30.0, 0.5)],
)
def test_profiles_beat_the_renyi_version_of_dp_accounting(
    law: str, mean: float, shape: float
) -> None:
    accounting = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    event = accounting.dp_event.RepeatAndSelectDpEvent(accounting.GaussianDpEvent(4.0), mean, shape)
    theirs = rdp.RdpAccountant().compose(event).get_epsilon(1e-6)
    said = {"shape": shape} if law == "negative-binomial" else {}
    run = dp.BestOf(dp.Gaussian(noise_multiplier=4.0), law, mean=mean, **said)
    ours = dp.account(run).epsilon(delta=1e-6)
    one = dp.account(dp.Gaussian(noise_multiplier=4.0)).epsilon(delta=1e-6)
    assert one.upper <= ours.upper < 0.85 * theirs
    assert ours.lower <= theirs


@pytest.mark.parametrize(("mean", "shape"), [(10.0, 1.0), (100.0, 0.0), (20.0, math.inf)])
def test_our_renyi_version_agrees_with_that_of_dp_accounting(mean: float, shape: float) -> None:
    accounting = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    one = accounting.GaussianDpEvent(4.0)
    event = accounting.dp_event.RepeatAndSelectDpEvent(one, mean, shape)
    theirs = rdp.RdpAccountant().compose(event).get_epsilon(1e-6)
    law = {"repetitions": "poisson"} if shape == math.inf else {"repetitions": "geometric"}
    if shape == 0.0:
        law = {"repetitions": "negative-binomial", "shape": 0.0}  # type: ignore[dict-item]
    best = dp.BestOf(dp.Gaussian(noise_multiplier=4.0), mean=mean, **law)  # type: ignore[arg-type]
    table = dp.compare(best, delta=1e-6)
    poisson = shape == math.inf
    ours = table[f"{'poisson' if poisson else 'random'}_repetitions_moments_upper"]
    assert ours.rigor is (dp.Rigor.UNREVIEWED if poisson else dp.Rigor.CERTIFIED)
    assert ours.value is not None
    # the optimal conversion, and for the Poisson law the profile of one run, are sharper than theirs
    assert 0.7 * theirs <= ours.value <= 1.005 * theirs
    assert table.best(dp.Side.UPPER).value <= ours.value  # type: ignore[operator,union-attr]


def test_moments_are_those_of_forty_digits() -> None:
    """Golden: formulas of the docstring for Gaussian noise, whose divergence is a / (2 noise^2)."""
    from sharpdp.bounds.selection.theorems import MOMENT_ORDERS, moments

    noise, mean = 4.0, 10.0
    run = dp.Gaussian(noise_multiplier=noise)
    with mp.workdps(40):
        order = mpf(8)

        def divergence(a: mpf) -> mpf:
            return a / (2 * mpf(noise) ** 2)

        # the best b of (1 - 1/b) D(b) + log(mean) / b is sqrt(2 noise^2 log(mean)), and 1 at least
        b = mp.sqrt(2 * mpf(noise) ** 2 * mp.log(mean))
        shift = (1 - 1 / b) * divergence(b) + mp.log(mean) / b
        geometric = divergence(order) + 2 * shift + mp.log(mean) / (order - 1)
        threshold, mu = mp.log(1 + 1 / (order - 1)), 1 / mpf(noise)
        profile = mp.ncdf(mu / 2 - threshold / mu) - mp.exp(threshold) * mp.ncdf(
            -mu / 2 - threshold / mu
        )
        excess = mp.expm1((order - 1) * divergence(order))
        poisson = mp.log1p(mean * mp.exp((order - 1) * mean * profile) * excess) / (order - 1)
        published = divergence(order) + mean * profile + mp.log(mean) / (order - 1)
    for law, exact, slack in (("geometric", geometric, 1e-3), ("poisson", poisson, 1e-6)):
        best = dp.BestOf(run, law, mean=mean)
        (value,) = moments(best, dp.Adjacency.NEIGHBORS, np.array([8.0]))
        assert float(exact) <= value <= float(exact) * (1 + slack)
    assert MOMENT_ORDERS.min() > 1.0
    table = dp.compare(dp.BestOf(run, "poisson", mean=mean), order=8.0)
    assert table["selection_moments_upper"].value == pytest.approx(float(published), rel=1e-6)
    assert poisson < published
    seldom = dp.compare(dp.BestOf(run, "poisson", mean=0.5), order=8.0)
    assert "mean 1 or more" in seldom["selection_moments_upper"].reason


@pytest.mark.parametrize("mean", [0.05, 0.7, 1.0, 4.0])
def test_moments_of_a_poisson_number_are_not_below_those_of_any_order(mean: float) -> None:
    from sharpdp.bounds.selection.theorems import moments

    rng = np.random.default_rng(8)
    closest = 0.0
    for _ in range(12):
        p = rng.dirichlet(np.full(3, 2.0))
        q = p * np.exp(rng.normal(0.0, rng.uniform(0.05, 1.0), 3))
        q /= q.sum()
        best = dp.BestOf(dp.FinitePair(p=p.tolist(), q=q.tolist()), "poisson", mean=mean)
        phi = generating(best)
        order = float(rng.choice([1.1, 2.0, 6.0]))
        (upper,) = moments(best, dp.Adjacency.NEIGHBORS, np.array([order]))
        for ranks in itertools.permutations(range(3)):
            laws = [
                np.array([phi(0.0), *best_law(np.repeat(side[list(ranks)] / 30, 30).tolist(), phi)])
                for side in (p, q)
            ]
            for a, b in (laws, laws[::-1]):
                truth = math.log(np.sum(a**order * b ** (1 - order))) / (order - 1)
                assert truth <= upper * (1 + 1e-9) + 1e-12
                closest = max(closest, truth / upper)
    assert closest > 0.75


def test_tiny_deltas_have_finite_epsilons() -> None:
    """The profile of one run is known down to 1e-18; 10^6 repetitions take that to 1e-12."""
    best = dp.BestOf(dp.Gaussian(noise_multiplier=4.0), "geometric", mean=1e6)
    table = dp.compare(best, delta=1e-14)
    assert table["random_repetitions_upper"].value == math.inf
    assert dp.account(best).epsilon(delta=1e-14).upper < 5.0


def test_runs_with_losses_beyond_all_doubles_have_an_answer() -> None:
    # at delta 0 three runs together are 900-DP, a promise that no curve has a point for
    best = dp.BestOf(dp.PureDP(epsilon=0.1) * 3000, 3)
    assert dp.account(best).epsilon(delta=1e-6).upper < 90.0


def test_published_bounds_say_where_they_do_not_apply() -> None:
    few = dp.compare(dp.BestOf(dp.Gaussian(noise_multiplier=4.0), 5), delta=1e-6)
    assert "geometric or negative-binomial" in few["pure_selection_upper"].reason
    laplace = dp.BestOf(dp.Laplace(scale=5.0), "geometric", mean=10.0)
    assert dp.compare(laplace, delta=1e-6)["pure_selection_upper"].value == pytest.approx(0.6)
    fixed = dp.compare(dp.BestOf(dp.Gaussian(noise_multiplier=4.0), 5), order=4.0)
    assert "random number" in fixed["selection_moments_upper"].reason
    known = dp.compare(laplace, order=4.0)["selection_moments_upper"]
    assert known.value is not None
    assert dp.account(laplace).renyi(order=4.0).lower <= known.value


def test_published_formulas_are_told_the_neighbors() -> None:
    run = dp.DPSGD(
        dp.DeterministicBatches(dataset_size=100, batch_size=10, epochs=2), noise_multiplier=3.0
    )
    best = dp.BestOf(run, "geometric", mean=5.0)
    values = {
        notion: dp.compare(best, order=4.0, adjacency=notion)["selection_moments_upper"].value
        for notion in ("zero-out", "replace-one")
    }
    assert values["replace-one"] > 1.3 * values["zero-out"]  # type: ignore[operator]


def test_the_shift_is_that_of_forty_digits() -> None:
    """Golden: geometric repetitions of Gaussian noise, the formula of the docstring in mpmath."""
    answer = dp.account(dp.BestOf(dp.Gaussian(noise_multiplier=4.0), "geometric", mean=10.0))
    with mp.workdps(40):
        mu, gamma = mpf(1) / 4, mpf(1) / 10

        def profile(k: mpf) -> mpf:
            return mp.ncdf(mu / 2 - k / mu) - mp.exp(k) * mp.ncdf(-mu / 2 - k / mu)

        # the best k solves delta(k) = gamma (e^k - 1) / (1 - gamma), and the ratio is e^k there
        def excess(k: mpf) -> mpf:
            return profile(k) - gamma * mp.expm1(k) / (1 - gamma)

        best = mp.findroot(excess, (0.05, 0.6), solver="anderson", tol=1e-30)
        reached = mp.findroot(
            lambda e: mp.log(profile(e)) - mp.log(mpf(10) ** -7), (0.9, 1.5), solver="anderson"
        )
        epsilon = reached + 2 * best
    upper = answer.epsilon(delta=1e-6).upper
    assert float(epsilon) * (1 - 1e-9) <= upper <= float(epsilon) * 1.02


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_numbers_of_repetitions_are_drawn_from_the_law(law: dict[str, object]) -> None:
    mechanism = dp.BestOf(dp.Gaussian(noise_multiplier=1.0), **law)  # type: ignore[arg-type]
    rng = np.random.default_rng(5)
    draws = np.array([mechanism.draw(rng) for _ in range(4000)])
    phi = generating(mechanism)
    for z in (0.3, 0.9):  # the generating function, within five standard deviations
        values = z**draws
        assert abs(values.mean() - phi(z)) <= 5 * values.std() / math.sqrt(draws.size) + 1e-12
    if mechanism.mean is not None:
        assert abs(draws.mean() - mechanism.mean) <= 5 * draws.std() / math.sqrt(draws.size)


def test_it_composes_and_can_be_planned() -> None:
    tuned = dp.BestOf(dp.Gaussian(noise_multiplier=8.0), repetitions="geometric", mean=10.0)
    assert mechanism_from_data(to_data(tuned)) == tuned
    both = dp.account(tuned + dp.Gaussian(noise_multiplier=8.0)).epsilon(delta=1e-6)
    assert both.upper > dp.account(tuned).epsilon(delta=1e-6).upper
    assert "best of a geometric number of runs (mean 10)" in dp.account(tuned).report()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"repetitions": "geometric"}, "mean must be given"),
        ({"repetitions": "geometric", "mean": 1.0}, "mean must be above 1"),
        ({"repetitions": "geometric", "mean": 5.0, "shape": 1.0}, "shape must be left out"),
        ({"repetitions": "negative-binomial", "mean": 5.0}, "shape must be given"),
        (
            {"repetitions": "negative-binomial", "mean": 5.0, "shape": -1.0},
            "shape must be above -1",
        ),
        ({"repetitions": 3, "mean": 3.0}, "mean must be left out"),
        ({"repetitions": -1}, "repetitions must be"),
        ({"repetitions": "often", "mean": 3.0}, "repetitions must be"),
    ],
)
def test_laws_that_say_too_much_or_too_little_are_refused(
    said: dict[str, object], words: str
) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        dp.BestOf(dp.Gaussian(noise_multiplier=1.0), **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "divergence"),
    [
        (dp.Gaussian(4.0), lambda a: a / 32),
        (
            dp.Laplace(scale=1.0),
            lambda a: (
                mp.log(a / (2 * a - 1) * mp.exp(a - 1) + (a - 1) / (2 * a - 1) * mp.exp(-a))
                / (a - 1)
            ),
        ),
    ],
    ids=["Gaussian", "Laplace"],
)
def test_divergences_are_those_of_the_theorems(
    run: dp.Mechanism, divergence: Callable[[mpf], mpf]
) -> None:
    """Theorems 2 and 6 of papernot2022 with forty digits, at the best second order, or a larger one."""
    every = [1 + mpf("0.05") * mpf("1.1") ** k for k in range(130)]
    with mp.workdps(40):
        values = {a: divergence(a) for a in every}
        for order, mean in ((mpf("1.16"), 10), (mpf(2), 10), (mpf(8), 2), (mpf(8), 100)):
            later = [a for a in [order, *every] if a >= order]
            gamma = mpf(1) / mean
            shift = min((1 - 1 / b) * values[b] - mp.log(gamma) / b for b in every)
            theorem2 = min(divergence(a) + 2 * shift + mp.log(mean) / (a - 1) for a in later)
            geometric = dp.account(dp.BestOf(run, "geometric", mean=float(mean)))
            bracket = geometric.renyi(order=float(order))
            assert 0.0 < bracket.lower <= bracket.upper <= theorem2 * (1 + mpf("1e-3"))
            advantage = mpf(float(dp.account(run).advantage().upper))
            theorem6 = min(divergence(a) + mean * advantage + mp.log(mean) / (a - 1) for a in later)
            poisson = dp.account(dp.BestOf(run, "poisson", mean=float(mean)))
            assert poisson.renyi(order=float(order)).upper <= theorem6


def test_divergences_are_not_above_those_of_dp_accounting() -> None:
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = np.array([1.16, 1.5, 2.0, 4.0, 16.0, 64.0])
    laplace = np.array([rdp._laplace_rdp(1.0, order) for order in orders])
    for run, values, mean, shape in (
        (dp.Gaussian(4.0), orders / 32, 10.0, np.inf),
        (dp.Gaussian(1.0), orders / 2, 2.0, np.inf),
        (dp.Gaussian(4.0), orders / 32, 10.0, 1.0),
        (dp.Laplace(scale=1.0), laplace, 1.0, np.inf),
        (dp.Laplace(scale=1.0), laplace, 100.0, np.inf),
    ):
        peer = rdp._compute_rdp_repeat_and_select(orders, values, mean, shape)
        law = "geometric" if shape == 1.0 else "poisson"
        ours = dp.account(dp.BestOf(run, law, mean=mean)).renyi(order=orders).upper
        assert np.all(ours <= peer * (1.0 + 1e-9))


def test_divergences_of_a_fixed_number_are_those_of_all_runs() -> None:
    best = dp.account(dp.BestOf(dp.Gaussian(10.0), 3))
    assert best.renyi(order=4.0).upper == pytest.approx(3 * 4 / 200, rel=1e-3)
    assert best.renyi(order=4.0).upper >= best.renyi(order=4.0).lower > 0.0


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_no_order_of_results_has_larger_divergences(law: dict[str, object]) -> None:
    rng = np.random.default_rng(5)
    p, q = (masses / masses.sum() for masses in rng.exponential(size=(2, 4)) + 0.05)
    best = dp.BestOf(dp.FinitePair(p=p, q=q), **law)  # type: ignore[arg-type]
    phi = generating(best)
    orders = [1.1, 1.5, 3.0, 10.0]
    uppers = np.asarray(dp.account(best).renyi(order=orders).upper)
    assert np.all(np.isfinite(uppers))
    for rank in itertools.permutations(range(4)):
        first, second = (np.array(best_law(list(masses[list(rank)]), phi)) for masses in (p, q))
        missing = phi(0.0)  # nothing is released
        first, second = np.append(first, missing), np.append(second, missing)
        kept = (first > 0) & (second > 0)
        for order, upper in zip(orders, uppers, strict=True):
            for a, b in ((first[kept], second[kept]), (second[kept], first[kept])):
                moment = float(np.sum(a**order * b ** (1.0 - order)))
                assert math.log(moment) / (order - 1.0) <= upper * (1.0 + 1e-9) + 1e-12
