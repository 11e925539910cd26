"""Groups of records: exact where they are drawn singly, by chains of neighbors elsewhere."""

from __future__ import annotations

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.bounds import bounds_for
from sharpdp.bounds.groups import group_deterministic_tight
from sharpdp.cli import main
from sharpdp.mechanisms.composed import Grouped
from sharpdp.pairs.chained import chained
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.normal_cells import binned_normals
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair
from sharpdp.pairs.sampled_group import SampledGroupPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.plans import Plan

POISSON = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
BINS = dp.DPSGD(dp.BallsAndBins(dataset_size=1000, batch_size=100, epochs=2), noise_multiplier=1.5)
SUBSETS = dp.DPSGD(
    dp.FixedSizeBatches(dataset_size=1000, batch_size=50, steps=30), noise_multiplier=3.0
)
TRUNCATED = dp.DPSGD(
    dp.TruncatedPoissonBatches(
        dataset_size=1000, batch_size=100, steps=30, physical_batch_size=150
    ),
    noise_multiplier=3.0,
)
ORDERS = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=2), noise_multiplier=1.5
)
VACANT = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=1000, batch_size=90, epochs=2, drop_last=True),
    noise_multiplier=1.5,
)
REPORTS = dp.ShuffledReports(users=1000, local_epsilon=1.0)
EVERY = [
    POISSON,
    BINS,
    SUBSETS,
    TRUNCATED,
    ORDERS,
    VACANT,
    REPORTS,
    dp.Gaussian(2.0),
    dp.Laplace(3.0),
    dp.PureDP(0.3),
    dp.FinitePair(p=[0.5, 0.3, 0.2], q=[0.3, 0.3, 0.4]),
    dp.Gaussian(3.0) * 4 + dp.Laplace(5.0),
]


def value(pair: Pair, threshold: float) -> float:
    inside = max(-math.expm1(threshold), 0.0)
    return float(np.exp(pair.log_hockey_stick(np.array([threshold]))[0])) + inside + pair.infinite_p


# --- exact pairs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "golden"),
    [(1, 1.828), (2, 3.979), (4, 8.899)],  # from the issue: a mixture of normal laws, composed
)
def test_poisson_groups_have_the_known_values(size: int, golden: float) -> None:
    bracket = dp.account(POISSON, group_size=size, relative_width=1e-5).epsilon(delta=1e-5)
    assert abs(bracket.lower - golden) < 6e-4
    assert abs(bracket.upper - golden) < 6e-4
    assert bracket.upper - bracket.lower < 2e-5 * bracket.upper


def test_poisson_groups_agree_with_dp_accounting() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason="no peer here")
    size, rate, noise, steps = 3, 0.05, 1.5, 20
    law = stats.binom(size, rate).pmf(range(size + 1)).tolist()
    one = pld.from_mixture_gaussian_mechanism(
        noise, list(range(size + 1)), law, value_discretization_interval=2e-3
    )
    theirs = one.self_compose(steps).get_epsilon_for_delta(1e-5)
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=noise)
    ours = dp.account(run, group_size=size, relative_width=1e-5).epsilon(delta=1e-5)
    assert ours.lower <= theirs  # pessimistic
    assert theirs <= ours.upper * 1.01


def exact_values(mu: float, rate: float, size: int, loss: float) -> list[mpmath.mpf]:
    """Call or put and both tails in 50 digits, by bisection for the place."""
    with mpmath.workdps(50):
        m, r, k = (mpmath.mpf(x) for x in (mu, rate, loss))
        weights = [mpmath.binomial(size, j) * r**j * (1 - r) ** (size - j) for j in range(size + 1)]
        low, high = mpmath.mpf(-2000), mpmath.mpf(2000)
        for _ in range(250):
            z = (low + high) / 2
            terms = (w * mpmath.exp(j * m * z - (j * m) ** 2 / 2) for j, w in enumerate(weights))
            low, high = (low, z) if mpmath.log(mpmath.fsum(terms)) > k else (z, high)
        sign = -1 if loss >= 0 else 1

        def tail(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-sign * x / mpmath.sqrt(2)) / 2

        q = tail(z)
        p = mpmath.fsum(w * tail(z - j * m) for j, w in enumerate(weights))
        return [-sign * (p - mpmath.exp(k) * q), q, p]


def test_the_pair_of_a_sampled_group_is_as_accurate_as_it_says() -> None:
    rng = np.random.default_rng(17)
    for _ in range(12):
        mu, rate = np.exp(rng.uniform(-4.0, 1.0)), np.exp(rng.uniform(-8.0, -0.1))
        pair = SampledGroupPair(float(mu), float(rate), int(rng.integers(1, 7)))
        lowest = pair.accurate_range[0]
        losses = np.array(
            [lowest, 0.0, *rng.uniform(lowest, 0.0, 2), *np.exp(rng.uniform(-8, 2.5, 3))]
        )
        got = [pair.log_hockey_stick(losses), pair.log_tail_q(losses), pair.log_tail_p(losses)]
        for index, loss in enumerate(losses):
            exact = exact_values(pair.mu, pair.rate, pair.group_size, float(loss))
            for values, truth in zip(got, exact, strict=True):
                if truth > mpmath.exp(-800):
                    assert abs(float(values[index]) - float(mpmath.log(truth))) <= pair.accuracy


def test_one_sampled_record_is_a_group_of_one() -> None:
    losses = np.array([-0.05, 0.0, 1e-3, 0.5, 4.0])
    one, known = SampledGroupPair(0.7, 0.1, 1), PoissonSampledPair(GaussianPair(0.7), 0.1)
    for method in ("log_hockey_stick", "log_tail_q", "log_tail_p"):
        np.testing.assert_allclose(
            getattr(one, method)(losses), getattr(known, method)(losses), rtol=1e-11
        )


def test_the_tail_rate_of_a_sampled_group_is_a_lower_bound() -> None:
    pair = SampledGroupPair(0.5, 0.1, 3)
    for loss in (0.5, 2.0, 6.0):
        farther = loss + np.linspace(0.0, 5.0, 50)
        falls = -np.diff(pair.log_hockey_stick(farther)) / np.diff(farther)
        assert pair.hints.tail_rate(loss) <= np.min(falls) * (1 + 1e-9)
    assert pair.hints.tail_rate(6.0) > 0.0


def test_gradients_that_point_the_same_way_are_the_worst_in_the_plane() -> None:
    """Brute force: two or three records with any gradients of length at most one, by quadrature."""
    rng = np.random.default_rng(5)
    axis = np.linspace(-7.0, 11.0, 721)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    cell = (axis[1] - axis[0]) ** 2

    def density(mean: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * ((x - mean[0]) ** 2 + (y - mean[1]) ** 2)) / (2.0 * np.pi) * cell

    attained = 0
    for trial in range(40):
        size, rate, mu = int(rng.integers(2, 4)), rng.uniform(0.05, 0.9), rng.uniform(0.2, 2.0)
        angles, lengths = rng.normal(size=size) * 0.5, rng.uniform(0.5, 1.0, size)
        if trial % 8 == 0:
            angles, lengths = np.zeros(size), np.ones(size)
        gradients = mu * (lengths * np.stack([np.cos(angles), np.sin(angles)])).T
        p = np.zeros_like(x)
        for drawn in itertools.product([0, 1], repeat=size):
            weight = rate ** sum(drawn) * (1 - rate) ** (size - sum(drawn))
            p += weight * density(np.array(drawn) @ gradients)
        q = density(np.zeros(2))
        pair = SampledGroupPair(float(mu), float(rate), size)
        for threshold in (0.0, 0.3, 1.0):
            for one, other, bound in ((p, q, pair), (q, p, pair.reverse())):
                found = float(np.sum(np.maximum(one - np.exp(threshold) * other, 0.0)))
                limit = value(bound, threshold)
                assert found <= limit + 1e-4
                attained += abs(found - limit) < 1e-3 * limit
    assert attained >= 10


@pytest.mark.parametrize(("size", "batch", "distance"), [(3, 10, 3.0), (4, 2, math.sqrt(8.0))])
def test_deterministic_groups_fill_batches(size: int, batch: int, distance: float) -> None:
    plan = dp.DeterministicBatches(dataset_size=20, batch_size=batch, epochs=3)
    run = dp.DPSGD(plan, noise_multiplier=2.0)
    ((pair, epochs),) = group_deterministic_tight(Grouped(run, size), dp.Adjacency.ZERO_OUT)
    assert epochs == 3
    assert pair.mu == pytest.approx(distance / 2.0, rel=1e-15)
    ((pair, _),) = group_deterministic_tight(Grouped(run, size), dp.Adjacency.REPLACE_ONE)
    assert pair.mu == pytest.approx(distance, rel=1e-15)
    # no other arrangement is longer
    sizes = [min(batch, 20)] * (20 // batch)
    for counts in itertools.product(*(range(min(one, size) + 1) for one in sizes[:3])):
        if sum(counts) == size:
            assert sum(n * n for n in counts) <= distance**2 + 1e-9


def test_noise_for_groups_is_noise_of_a_larger_sensitivity() -> None:
    for run, louder in ((dp.Gaussian(6.0), dp.Gaussian(2.0)), (dp.Laplace(6.0), dp.Laplace(2.0))):
        group, alone = dp.account(run * 5, group_size=3), dp.account(louder * 5)
        assert group.epsilon(delta=1e-6).upper == alone.epsilon(delta=1e-6).upper


# --- chains -------------------------------------------------------------------------------------------


def profile(p: np.ndarray, q: np.ndarray, threshold: float) -> float:
    return float(np.sum(np.maximum(p - np.exp(threshold) * q, 0.0)))


def test_no_chain_of_pmfs_is_above_the_chained_pair() -> None:
    """Brute force: three or four random laws in a row, both directions."""
    rng = np.random.default_rng(23)
    for _ in range(300):
        laws = rng.dirichlet(np.full(int(rng.integers(2, 6)), 1.5), size=int(rng.integers(3, 5)))
        impossible = (rng.random(laws.shape) < 0.1) & (laws < 0.9)  # outcomes that some laws lack
        laws = np.where(impossible & (laws < np.max(laws, axis=1, keepdims=True)), 0.0, laws)
        laws /= laws.sum(axis=1, keepdims=True)
        links = [AtomicPair.from_pmfs(p, q) for p, q in itertools.pairwise(laws)]
        pair = chained(links)
        for threshold in (0.0, 0.1, 0.7, 2.0, 5.0):
            for p, q, bound in ((laws[0], laws[-1], pair), (laws[-1], laws[0], pair.reverse())):
                assert profile(p, q, threshold) <= value(bound, threshold) * (1 + 1e-12) + 1e-15


def test_a_chord_across_loss_zero_keeps_masses_that_one_law_hardly_has() -> None:
    """An outcome with P-mass 1e-17 and Q-mass 0.5 was dropped with both, and Q lost half of its mass."""
    laws = np.array(
        [[0.997, 2.5e-17, 0.003], [0.62, 0.379, 0.001], [0.08, 0.92, 0.0], [0.1, 0.5, 0.4]]
    )
    pair = chained([AtomicPair.from_pmfs(p, q) for p, q in itertools.pairwise(laws)])
    for threshold in (0.0, 1.0, 6.0):
        assert profile(laws[-1], laws[0], threshold) <= value(pair.reverse(), threshold)


def iterated(links: list[AtomicPair], threshold: float) -> float:
    """The profile of composed trade-off functions, by hand on a fine grid of rates."""
    rate = np.concatenate([np.geomspace(1e-9, 1e-3, 20_000), np.linspace(1e-3, 1.0, 200_001)])
    power = rate
    for link in reversed(links):
        order = np.argsort(link.losses)[::-1]
        ends_q = np.append(0.0, np.cumsum(np.exp(np.array(link.log_q))[order]))
        ends_p = np.append(0.0, np.cumsum(np.exp(np.array(link.log_p))[order])) + link.infinite_p
        power = np.interp(power, ends_q, ends_p)
    return float(np.max(power - np.exp(threshold) * rate))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_chained_pairs_are_the_composed_trade_off_functions(size: int) -> None:
    rng = np.random.default_rng(size)
    p, q = rng.dirichlet(np.ones(4), size=2)
    for link in (
        AtomicPair.pure(0.7),
        AtomicPair.approximate(0.4, 0.01),
        AtomicPair.from_pmfs(p, q),
    ):
        pair = chained([link] * size)
        for threshold in (0.0, 0.2, 0.9, 1.8):
            best = iterated([link] * size, threshold)
            assert best - 1e-9 <= value(pair, threshold) <= best * (1 + 1e-3) + 2e-5


def test_a_tabulated_gaussian_chains_like_a_gaussian() -> None:
    """A chain of values that happens to be Gaussian is the Gaussian, to four digits."""
    link = PoissonSampledPair(GaussianPair(0.4), 1.0)
    pair, exact = chained([link] * 3), GaussianPair(1.2)
    for threshold in (0.0, 0.5, 2.0, 5.0):
        assert value(exact, threshold) <= value(pair, threshold) <= value(exact, threshold) * 1.001


def test_chains_of_noise_add_up() -> None:
    assert chained([GaussianPair(0.25)] * 4) == GaussianPair(1.0)
    assert chained([LaplacePair(0.25)] * 4) == LaplacePair(1.0)
    assert chained([LaplacePair(0.25)]) == LaplacePair(0.25)


def test_group_privacy_of_each_step_is_better_than_of_the_run() -> None:
    """(f1 (x) f2)^k <= f1^k (x) f2^k; and the exact pair of a group is better than both."""
    one = PoissonSampledPair(GaussianPair(1.0), 0.05)
    steps = dp.account(Grouped(POISSON, 2)).mechanism.parts()[0][0].mechanism
    assert steps is POISSON
    chain, exact = chained([one, one]), SampledGroupPair(1.0, 0.05, 2)
    for threshold in (0.0, 0.5, 2.0):
        assert value(exact, threshold) <= value(chain, threshold)


def test_cells_are_below_the_mixture_and_close() -> None:
    weights, counts = stats.binom(3, 0.2).pmf(range(4)), np.arange(4.0)
    cells, exact = binned_normals(weights, counts, 0.0 * counts), SampledGroupPair(1.0, 0.2, 3)
    for threshold in (0.0, 0.5, 2.0):
        assert value(exact, threshold) * 0.999 <= value(cells, threshold) <= value(exact, threshold)


def test_subsets_attain_the_hypergeometric_law() -> None:
    """Brute force: every subset of 3 of 6, of which 2 belong to the group."""
    run = dp.DPSGD(
        dp.FixedSizeBatches(dataset_size=6, batch_size=3, steps=1), noise_multiplier=1.25
    )
    z = np.linspace(-12.0, 14.0, 52_001)
    means = {
        "silent": (lambda drawn: sum(drawn[:2]), lambda drawn: 0.0),
        "opposed": (
            lambda drawn: sum(drawn[:2]) - sum(drawn[2:]),
            lambda drawn: -sum(drawn[2:]),
        ),
    }
    subsets = [drawn for drawn in itertools.product([0, 1], repeat=6) if sum(drawn) == 3]
    answer = dp.account(run, group_size=2, adjacency="zero-out")
    for threshold in (0.0, 0.5, 1.5):
        found = []
        for one, other in means.values():
            p, q = (
                np.mean([stats.norm(mean(s), 1.25).pdf(z) for s in subsets], axis=0)
                for mean in (one, other)
            )
            for a, b in ((p, q), (q, p)):
                gap = np.maximum(a - np.exp(threshold) * b, 0.0)
                found.append(float(np.trapezoid(gap, z)))
        bracket = answer.delta(epsilon=threshold)
        assert max(found) * 0.998 <= bracket.lower <= max(found) * (1 + 1e-6)
        assert bracket.upper >= max(found)


# --- laws ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", EVERY, ids=lambda run: run.label)
def test_groups_of_one_are_what_they_were_and_larger_ones_are_less_private(
    run: dp.Mechanism,
) -> None:
    alone = dp.account(run)
    brackets = [dp.account(run, group_size=size).epsilon(delta=1e-4) for size in (1, 2, 3)]
    assert brackets[0] == alone.epsilon(delta=1e-4)
    for smaller, larger in itertools.pairwise(brackets):
        assert larger.lower <= larger.upper
        assert smaller.lower <= larger.upper
        assert smaller.upper <= larger.upper * (1 + 2e-3)
        assert smaller.lower <= larger.lower * (1 + 2e-3)


def test_group_privacy_is_named_with_the_bound_it_starts_from() -> None:
    names = {one.name for one in dp.account(BINS, group_size=2).bounds}
    assert {"group_privacy_upper", "random_allocation_upper", "group_of_one_lower"} <= names
    assert all(
        one.name != "group_privacy_upper" for one in dp.account(POISSON, group_size=2).bounds
    )
    every = bounds_for(Grouped(ORDERS, 2))
    premises = [
        one.premises(Grouped(ORDERS, 2), dp.Adjacency.ZERO_OUT, side)
        for one in every
        for side in one.sides
    ]
    assert all(len(listed) > 1 for listed in premises)
    assert (
        dp.account(ORDERS, group_size=2).epsilon(delta=1e-5).rigor
        == dp.account(ORDERS).epsilon(delta=1e-5).rigor
    )


def test_replaced_groups_of_poisson_batches_have_close_sides() -> None:
    run = dp.DPSGD(
        dp.DeterministicBatches(dataset_size=9, batch_size=3, epochs=1), noise_multiplier=4.0
    )
    doubled = dp.account(run, group_size=2, adjacency="replace-one").epsilon(delta=1e-5)
    assert doubled.upper == pytest.approx(
        float(dp.account(dp.Gaussian(1.0)).epsilon(delta=1e-5).upper), rel=1e-9
    )


# --- words and plumbing -------------------------------------------------------------------------------


def test_answers_say_that_they_are_about_groups() -> None:
    answer = dp.account(POISSON, group_size=4)
    assert "add/remove in groups of 4" in str(answer.epsilon(delta=1e-5))
    assert str(answer).endswith("add/remove in groups of 4")
    report = answer.report("text", delta=1e-5)
    assert "one data set has up to 4 records that the other lacks" in " ".join(report.split())
    assert "Unit of privacy: up to 4 together of: one training example" in " ".join(report.split())
    assert "people with more than 4 records" in " ".join(report.split())
    again = dp.Guarantee.from_json(answer.report("json", delta=1e-5))
    assert again.group_size == 4
    curve = answer.tradeoff()
    assert curve.describe().startswith("groups of 4 in DP-SGD")
    both = dp.account(curve).epsilon(delta=1e-5)
    assert both.upper >= answer.epsilon(delta=1e-5).lower


def test_plans_keep_the_size_of_groups() -> None:
    plan = Plan(POISSON, (1e-5,), group_size=4)
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.guarantee().group_size == 4
    assert "group_size" not in Plan(POISSON, (1e-5,)).to_dict()
    assert plan.hash != Plan(POISSON, (1e-5,)).hash


def test_the_command_line_takes_the_size_of_groups(
    capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    asked = "--sample-rate 0.01 --steps 1000 --noise-multiplier 1 --delta 1e-5 --group-size 2"
    assert main(["dpsgd", *asked.split(), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["plan"]["group_size"] == 2
    assert printed["adjacency"] == "add/remove in groups of 2"
    (tmp_path / "plan.json").write_text(json.dumps(printed["plan"]))
    assert main(["account", str(tmp_path / "plan.json")]) == 0
    assert "in groups of 2" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "plan.json")]) == 0
    assert "group_poisson_tight" in capsys.readouterr().out
    noise = "calibrate noise-multiplier --sample-rate 0.01 --steps 100 --epsilon 2 --delta 1e-5"
    assert main([*noise.split(), "--group-size", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["group_size"] == 3
    alone = dp.calibrate(
        lambda s: dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=100), noise_multiplier=s),
        epsilon=2.0,
        delta=1e-5,
    )
    assert found["value"] > alone


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: dp.account(POISSON, group_size=0),
            "group_size must be a whole number, at least 1",
        ),
        (lambda: dp.account(POISSON, group_size=1001), "group_size must be at most 1000"),
        (lambda: dp.account(BINS, group_size=1.5), "group_size must be"),
        (
            lambda: dp.account(
                dp.DPSGD(
                    dp.FixedSizeBatches(dataset_size=5, batch_size=2, steps=1),
                    noise_multiplier=1.0,
                ),
                group_size=6,
            ),
            "group_size must be at most the dataset_size of 5",
        ),
        (
            lambda: dp.account(TRUNCATED, group_size=2, adjacency="add/remove"),
            "adjacency add/remove has no theorem for groups of 2 in DP-SGD",
        ),
        (
            lambda: dp.account(dp.RenyiCurve.zcdp(rho=0.1), group_size=2),
            "no bound covers groups of 2 in",
        ),
    ],
)
def test_bad_sizes_are_refused(make, sentence: str) -> None:
    with pytest.raises(dp.SharpDPError) as caught:
        make()
    assert str(caught.value).startswith(sentence)


def test_the_gaussian_tail_of_a_group_of_everyone() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=1.0, steps=1), noise_multiplier=2.0)
    bracket = dp.account(run, group_size=4).delta(epsilon=1.0)
    exact = ndtr(1.0 - 0.5) - math.e * ndtr(-1.0 - 0.5)
    assert bracket.lower <= exact <= bracket.upper
