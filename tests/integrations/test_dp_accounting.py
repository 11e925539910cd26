"""Events and privacy-loss distributions of the real dp-accounting, both ways."""

from __future__ import annotations

from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from mpmath import mp, mpf

import sharpdp as dp
from sharpdp.integrations.dp_accounting import (
    curve_of,
    event_of,
    mechanism_of,
    pld_of,
    privacy_loss_of,
)
from sharpdp.integrations.loss_tables import privacy_loss_of_prv

RUNS = [
    dp.Gaussian(noise_multiplier=1.5),
    dp.Laplace(scale=2.0) * 5,
    dp.RandomizedResponse(local_epsilon=1.25, categories=4),
    dp.Gaussian(noise_multiplier=2.0) * 3 + dp.Laplace(scale=1.5),
    dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=500), noise_multiplier=1.1),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.describe())
def test_events_there_and_back_answer_the_same(run: dp.Mechanism) -> None:
    back = mechanism_of(event_of(run))
    one, other = (dp.account(each).epsilon(delta=1e-5) for each in (run, back))
    assert one.upper == pytest.approx(other.upper, rel=1e-12)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.describe())
def test_their_accountant_agrees_on_our_events(run: dp.Mechanism) -> None:
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    if isinstance(run, dp.RandomizedResponse):  # that event is refused for other neighbors
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    theirs = PLDAccountant(relation, value_discretization_interval=1e-3).compose(event_of(run))
    ours = dp.account(run).epsilon(delta=1e-5)
    # theirs is an upper bound with a grid of 1e-3 in the loss of each step
    assert ours.lower - 1e-9 <= theirs.get_epsilon(1e-5) <= ours.upper * 1.05 + 1e-9


def test_batches_without_replacement_have_an_event() -> None:
    plan = dp.FixedSizeBatches(dataset_size=1000, batch_size=10, steps=20)
    event = event_of(dp.DPSGD(plan, noise_multiplier=1.0))
    assert event.event.sample_size == 10
    assert event.event.event.noise_multiplier == 0.5
    assert mechanism_of(event) == dp.DPSGD(plan, noise_multiplier=0.5)


REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE


def told_apart(rate: float, noise: float, with_record: float, without: float) -> float:
    """Epsilon at 1e-6 of one step by integration: the record or its replacement is drawn at this rate.

    All others contribute -1; sums are told relative to those of batches that lack the record.
    """
    x = np.linspace(-12.0 * noise, 2.0 + 12.0 * noise, 400_001)
    missing = (1.0 - rate) * np.exp(-0.5 * (x / noise) ** 2)
    p, q = (
        missing + rate * np.exp(-0.5 * ((x - 1.0 - value) / noise) ** 2)
        for value in (with_record, without)
    )
    mass, delta = float(p.sum()), 1e-6
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        ahead, behind = (
            np.maximum(one - np.exp(middle) * other, 0.0).sum() / mass
            for one, other in ((p, q), (q, p))
        )
        low, high = (middle, high) if max(ahead, behind) > delta else (low, middle)
    return low


def test_events_of_batches_without_replacement_hold_for_the_neighbors_they_claim() -> None:
    """A batch without the record has another one in its place: sums differ by up to twice the norm."""
    plan = dp.FixedSizeBatches(dataset_size=1000, batch_size=10, steps=1)
    event = event_of(dp.DPSGD(plan, noise_multiplier=1.0))
    claimed = RdpAccountant(neighboring_relation=REPLACE_ONE).compose(event).get_epsilon(1e-6)
    zeroed, replaced = (told_apart(0.01, 1.0, 1.0, other) for other in (0.0, -1.0))
    assert zeroed == pytest.approx(3.3203, abs=1e-4)
    assert claimed >= max(zeroed, replaced)
    whole = dp_accounting.SampledWithoutReplacementDpEvent(
        1000, 10, dp_accounting.GaussianDpEvent(1.0)
    )
    unhalved = RdpAccountant(neighboring_relation=REPLACE_ONE).compose(whole).get_epsilon(1e-6)
    assert unhalved == pytest.approx(1.2413, abs=1e-4)


def test_their_numbers_on_our_events_of_many_steps_are_not_below_our_lower_ends() -> None:
    plan = dp.FixedSizeBatches(dataset_size=1000, batch_size=10, steps=100)
    run = dp.DPSGD(plan, noise_multiplier=2.0)
    accountant = RdpAccountant(neighboring_relation=REPLACE_ONE)
    theirs = accountant.compose(event_of(run)).get_epsilon(1e-5)
    for adjacency in ("zero-out", "replace-one"):
        ours = dp.account(run, adjacency=adjacency).epsilon(delta=1e-5)
        assert theirs >= ours.lower, adjacency


def test_queries_on_the_same_batches_are_one_event() -> None:
    plan = dp.PoissonBatches(sample_rate=0.01, steps=500)
    both = dp.SameBatches([dp.DPSGD(plan, noise_multiplier=noise) for noise in (3.0, 4.0)])
    event = event_of(both)
    assert event.event.event.noise_multiplier == 2.4
    theirs = PLDAccountant(value_discretization_interval=1e-3).compose(event)
    ours = dp.account(both).epsilon(delta=1e-5)
    assert ours.lower - 1e-9 <= theirs.get_epsilon(1e-5) <= ours.upper * 1.05


def test_weighted_draws_have_no_event() -> None:
    """Their events know equal probabilities only, so that a weight must not be lost on the way."""
    draws = dp.FixedSizeBatches(
        dataset_size=3, batch_size=1, steps=2, replacement=True, weights=(1.0, 1.0, 2.0)
    )
    with pytest.raises(dp.Unsupported, match="dp-accounting has no event"):
        event_of(dp.DPSGD(draws, noise_multiplier=1.0))


def test_batches_with_replacement_have_another_event() -> None:
    plan = dp.FixedSizeBatches(dataset_size=1000, batch_size=10, steps=20, replacement=True)
    event = event_of(dp.DPSGD(plan, noise_multiplier=1.0))
    assert isinstance(event.event, dp_accounting.SampledWithReplacementDpEvent)
    assert mechanism_of(event) == dp.DPSGD(plan, noise_multiplier=0.5)


def test_what_has_no_counterpart_is_refused() -> None:
    with pytest.raises(dp.Unsupported):
        mechanism_of(dp_accounting.PoissonSampledDpEvent(0.5, dp_accounting.LaplaceDpEvent(1.0)))
    shuffled = dp.ShuffledBatches(dataset_size=100, batch_size=10, epochs=2)
    for run in (dp.DPSGD(shuffled, noise_multiplier=1.0), dp.PureDP(epsilon=1.0)):
        with pytest.raises(dp.Unsupported, match="dp-accounting has no event"):
            event_of(run)


def test_a_pld_of_theirs_is_composed_here() -> None:
    pld = privacy_loss_distribution.from_gaussian_mechanism(1.0, value_discretization_interval=1e-3)
    curve = curve_of(pld)
    for times in (1, 4):
        exact = dp.account(dp.Gaussian(noise_multiplier=1.0) * times).epsilon(delta=1e-6)
        found = dp.account(curve * times).epsilon(delta=1e-6).upper
        assert exact.lower <= found <= 1.002 * exact.upper


@pytest.mark.parametrize("bound", [-50.0, -3.0, -1.0, -0.1])
@pytest.mark.parametrize("dots", [True, False])
def test_tables_that_were_cut_off_early_stay_above_the_truth(bound: float, dots: bool) -> None:
    """The installed version counts what it cuts off as infinite loss; delta(0) is 0.38292."""
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        1.0,
        value_discretization_interval=0.3,
        log_mass_truncation_bound=bound,
        use_connect_dots=dots,
    )
    for read in (curve_of, privacy_loss_of):
        assert dp.account(read(pld)).delta(epsilon=0.0).upper >= 0.3829249


@pytest.mark.parametrize(
    "run",
    [dp.ShuffledReports(users=300, local_epsilon=2.0), dp.ApproximateDP(epsilon=0.5, delta=1e-4)],
)
def test_a_mechanism_of_ours_is_composed_there(run: dp.Mechanism) -> None:
    pld = pld_of(run, discretization=2e-2)
    epsilons = np.array([0.1, 0.3])
    ours = np.asarray(dp.account(run).delta(epsilon=epsilons).upper)
    theirs = np.asarray(pld.get_delta_for_epsilon(epsilons))
    assert np.all(theirs >= ours * (1.0 - 1e-9))
    np.testing.assert_allclose(theirs, ours, rtol=5e-2)
    three = pld.self_compose(3).get_epsilon_for_delta(1e-3)
    assert three >= dp.account(run * 3).epsilon(delta=1e-3).lower


def test_a_grid_that_is_too_fine_is_refused() -> None:
    with pytest.raises(dp.Unsupported, match="discretization must be at least"):
        pld_of(dp.Gaussian(noise_multiplier=1.0), discretization=1e-9)


def exact_delta(pmf: Any, epsilon: float) -> Any:
    """The hockey-stick divergence of the nonnegative masses of a table, at high precision."""
    dense = pmf.to_dense_pmf()
    total = mpf(float(dense._infinity_mass))
    for place, mass in enumerate(dense._probs.tolist(), start=int(dense._lower_loss)):
        loss = place * mpf(dense._discretization)
        if loss > epsilon and mass > 0:
            total += mpf(mass) * (1 - mp.exp(mpf(epsilon) - loss))
    return total


@pytest.mark.parametrize(
    "pld",
    [
        # this one has negative masses, and dp-accounting's delta is below the mass at infinite loss
        privacy_loss_distribution.from_gaussian_mechanism(
            5.0, value_discretization_interval=0.05
        ).self_compose(10),
        privacy_loss_distribution.from_laplace_mechanism(2.0, value_discretization_interval=0.01),
        privacy_loss_distribution.from_gaussian_mechanism(
            2.0, value_discretization_interval=0.1, sampling_prob=0.1
        ),
    ],
    ids=["composed", "Laplace", "sampled"],
)
def test_a_pld_is_read_upwards(pld: Any) -> None:
    curve = curve_of(pld)
    with mp.workprec(200):
        last = pld._pmf_remove.to_dense_pmf().size * pld._pmf_remove._discretization
        for epsilon in (0.0, 0.01, 0.1, 0.3, 0.4999, 0.5, *np.linspace(0.6, 0.55 * last, 12)):
            truth = max(exact_delta(pmf, epsilon) for pmf in (pld._pmf_remove, pld._pmf_add))
            assert dp.account(curve).delta(epsilon=float(epsilon)).upper >= truth


def test_a_grid_of_ours_is_not_below_the_upper_side() -> None:
    run = dp.ShuffledReports(users=300, local_epsilon=2.0)
    pld = pld_of(run, discretization=2e-2)
    with mp.workprec(200):
        for place in (0, 1, 10, 20, 50):
            upper = dp.account(run).delta(epsilon=place * 2e-2).upper
            assert exact_delta(pld._pmf_remove, place * 2e-2) >= upper


@pytest.mark.parametrize("runs", [1, 10, 1000])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_table_of_theirs_is_never_below_the_truth(runs: int, sampled: bool) -> None:
    rate = 0.01 if sampled else 1.0
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, value_discretization_interval=1e-3, sampling_prob=rate
    )
    table = privacy_loss_of(pld)
    truth = dp.account(
        dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=runs), noise_multiplier=1.0)
    ).epsilon(delta=1e-6)
    ours = dp.account(table * runs).epsilon(delta=1e-6)
    assert truth.lower <= ours.upper <= truth.upper * 1.005
    theirs = pld.self_compose(runs).get_epsilon_for_delta(1e-6)
    assert ours.upper == pytest.approx(theirs, rel=2e-3)


def test_an_optimistic_table_of_theirs_is_refused() -> None:
    pld = privacy_loss_distribution.from_laplace_mechanism(1.0, pessimistic_estimate=False)
    with pytest.raises(dp.Unsupported, match="optimistic"):
        privacy_loss_of(pld)


class _Prv:
    """What prv_accountant returns, for Gaussian noise with noise multiplier 1 on a grid of midpoints."""

    log_pmc_inf = 0.0

    def __init__(self, step: float) -> None:
        self.nodes = np.arange(-11.5, 12.5, step)
        edges = np.append(self.nodes - step / 2, self.nodes[-1] + step / 2)
        self.pmf = np.diff([float(mp.ncdf(mpf(edge) - mpf(0.5))) for edge in edges])
        self.domain = self

    def ts(self) -> Any:
        return self.nodes


def test_a_privacy_random_variable_is_moved_up_by_its_errors() -> None:
    prv = _Prv(0.02)
    table = privacy_loss_of_prv(prv, epsilon_error=0.01, delta_error=1e-10)
    truth = dp.account(dp.Gaussian(noise_multiplier=1.0))
    ours = dp.account(table)
    assert table.mass_at_infinity >= 1e-10
    for delta in (1e-3, 1e-6):
        exact = truth.epsilon(delta=delta)
        assert exact.lower <= ours.epsilon(delta=delta).upper <= exact.upper + 0.03
    with pytest.raises(dp.InvalidArgument, match="prv must be"):
        privacy_loss_of_prv(3, epsilon_error=0.0, delta_error=0.0)
