"""The registry, and the pairs of each bound against values computed in other ways."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from sharpdp.batches import (
    BallsAndBins,
    DeterministicBatches,
    FixedSizeBatches,
    PoissonBatches,
    ShuffledBatches,
)
from sharpdp.bounds import Bound, all_bounds, bound, bounds_for, temporarily
from sharpdp.bracket import Rigor, Side
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms import (
    DPSGD,
    ApproximateDP,
    FinitePair,
    Gaussian,
    Laplace,
    PureDP,
    RandomizedResponse,
    SampledReports,
    ShuffledReports,
)
from sharpdp.mechanisms.composed import Adjacency, Grouped
from sharpdp.pairs.pair import Pair

POISSON = PoissonBatches(sample_rate=0.2, steps=1000)
FIXED = DeterministicBatches(dataset_size=100, batch_size=7, epochs=3)

EXAMPLES = {
    "gaussian_tight": Gaussian(noise_multiplier=0.8),
    "laplace_tight": Laplace(scale=0.7),
    "pure_dp_tight": PureDP(epsilon=1.0),
    "approximate_dp_tight": ApproximateDP(epsilon=1.0, delta=0.01),
    "finite_pair_tight": FinitePair(p=[0.5, 0.3, 0.2, 0.0], q=[0.1, 0.3, 0.2, 0.4]),
    "randomized_response_tight": RandomizedResponse(local_epsilon=1.0, categories=3),
    "poisson_batches_tight": DPSGD(POISSON, noise_multiplier=0.8),
    "deterministic_batches_tight": DPSGD(FIXED, noise_multiplier=0.8),
}
EPSILONS = np.array([-2.0, -0.9, -0.1, 0.0, 0.1, 0.9, 2.0, 5.0])


def only_pair(mechanism, adjacency=None):
    """The pair of the only bound on a mechanism, with its count."""
    (one,) = bounds_for(mechanism, adjacency)
    ((pair, count),) = one(mechanism, mechanism.adjacency(adjacency))
    return pair, count


def deltas(pair):
    """H(P, Q) at every epsilon, from the out-of-the-money form and the masses at infinity."""
    values = np.exp(pair.log_hockey_stick(EPSILONS))
    below = values - np.expm1(EPSILONS) + np.exp(EPSILONS) * pair.infinite_q
    return np.where(EPSILONS >= 0, values + pair.infinite_p, below)


def by_sum(p, q):
    """H(P, Q) of two pmfs."""
    p, q = np.array(p), np.array(q)
    return np.array([np.sum(np.maximum(p - math.exp(e) * q, 0)) for e in EPSILONS])


def by_integral(p, q, low, high, breaks=()):
    """H(P, Q) of two densities."""
    pieces = sorted({low, high, *breaks})
    return np.array(
        [
            sum(
                integrate.quad(lambda x, t=t: max(p(x) - t * q(x), 0), a, b, limit=400)[0]
                for a, b in itertools.pairwise(pieces)
            )
            for t in np.exp(EPSILONS)
        ]
    )


def test_every_bound_has_an_example():
    registered = {one.name for one in all_bounds() if one.theorem.__module__.startswith("sharpdp.")}
    assert set(EXAMPLES) <= registered


@pytest.mark.parametrize("one", all_bounds(), ids=lambda one: one.name)
def test_every_bound_says_what_it_is(one):
    assert isinstance(one, Bound)
    assert bool(one.holds_when) == (Side.UPPER in one.sides)
    assert bool(one.attained_when) == (Side.LOWER in one.sides)
    assert (one.rigor is Rigor.UNREVIEWED) == bool(one.proof)
    assert one.source
    assert one.theorem.__doc__.split()[0] in ("Both", "Lower", "Upper")
    for title, words in (*one.conditions, ("source", one.grounds)):
        assert one.theorem.__doc__.count(f"\n\n{title.capitalize()}: {words}.") == 1
    assert list(one.sides) in ([Side.LOWER, Side.UPPER], [Side.LOWER], [Side.UPPER])
    assert one.adjacency
    assert isinstance(one.rigor, Rigor)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_bound_gives_pairs_for_every_adjacency(name):
    mechanism = EXAMPLES[name]
    for adjacency in mechanism.adjacencies:
        (one,) = bounds_for(mechanism, adjacency)
        assert one.name == name or not one.covers(mechanism.adjacency())  # a theorem of its own
        for pair, count in one(mechanism, adjacency):
            assert isinstance(pair, Pair)
            assert type(count) is int
            assert count >= 1


def test_gaussian():
    pair, count = only_pair(EXAMPLES["gaussian_tight"])
    p, q = stats.norm(1, 0.8).pdf, stats.norm(0, 0.8).pdf
    assert count == 1
    np.testing.assert_allclose(deltas(pair), by_integral(p, q, -12, 12), atol=1e-9)


def test_laplace():
    pair, count = only_pair(EXAMPLES["laplace_tight"])
    p, q = stats.laplace(1, 0.7).pdf, stats.laplace(0, 0.7).pdf
    assert count == 1
    np.testing.assert_allclose(deltas(pair), by_integral(p, q, -30, 30, (0, 0.5, 1)), atol=1e-9)


@pytest.mark.parametrize("categories", [2, 3, 10])
def test_randomized_response(categories):
    pair, count = only_pair(RandomizedResponse(local_epsilon=1.0, categories=categories))
    p = np.ones(categories)
    q = np.ones(categories)
    p[0] = q[1] = math.e
    assert count == 1
    np.testing.assert_allclose(deltas(pair), by_sum(p / p.sum(), q / q.sum()), atol=1e-14)


@pytest.mark.parametrize("epsilon", [0, 1e-9, 1.0])
@pytest.mark.parametrize("delta", [0, 1e-9, 0.01, 0.5])
def test_approximate_and_pure_dp(epsilon, delta):
    coin = (1 - delta) * np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
    expected = by_sum([delta, *coin, 0], [0, *coin[::-1], delta])
    pair, count = only_pair(ApproximateDP(epsilon=epsilon, delta=delta))
    assert count == 1
    np.testing.assert_allclose(deltas(pair), expected, atol=1e-15)
    if delta == 0:
        pure, _ = only_pair(PureDP(epsilon))
        np.testing.assert_allclose(deltas(pure), expected, atol=1e-15)


@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 50.0, 1000.0])
def test_promises_are_kept_to_the_letter(epsilon):
    """The worst (epsilon, delta)-DP mechanism has exactly this delta at this epsilon."""
    pair, _ = only_pair(ApproximateDP(epsilon=epsilon, delta=1e-5))
    beyond = np.exp(pair.log_hockey_stick(np.array([epsilon]))) + pair.infinite_p
    np.testing.assert_allclose(beyond, 1e-5, rtol=1e-12)


def test_finite_pairs():
    mechanism = EXAMPLES["finite_pair_tight"]
    pair, count = only_pair(mechanism)
    assert count == 1
    np.testing.assert_allclose(deltas(pair), by_sum(mechanism.p, mechanism.q), atol=1e-15)
    np.testing.assert_allclose(deltas(pair.reverse()), by_sum(mechanism.q, mechanism.p), atol=1e-15)


@pytest.mark.parametrize("adjacency", ["add/remove", "zero-out"])
def test_poisson_batches(adjacency):
    """P is with the record: its loss has no upper end, that of its reverse has."""
    pair, count = only_pair(EXAMPLES["poisson_batches_tight"], adjacency)
    q = stats.norm(0, 0.8).pdf
    shifted = stats.norm(1, 0.8).pdf

    def p(x):
        return 0.8 * q(x) + 0.2 * shifted(x)

    assert count == 1000
    np.testing.assert_allclose(deltas(pair), by_integral(p, q, -12, 12), atol=1e-9)
    np.testing.assert_allclose(deltas(pair.reverse()), by_integral(q, p, -12, 12), atol=1e-9)
    assert pair.support[1] == math.inf
    assert pair.reverse().support[1] == pytest.approx(-math.log(0.8))


def test_poisson_batches_of_everyone_are_gaussian():
    everyone = DPSGD(PoissonBatches(sample_rate=1, steps=7), noise_multiplier=2.0)
    gaussian, _ = only_pair(Gaussian(2.0))
    assert only_pair(everyone) == (gaussian, 7)


def test_deterministic_batches_count_epochs_and_double_for_replacement():
    run = EXAMPLES["deterministic_batches_tight"]
    single, _ = only_pair(Gaussian(0.8))
    double, _ = only_pair(Gaussian(0.4))
    assert only_pair(run) == (single, 3)
    assert only_pair(run, "add/remove") == (single, 3)
    assert only_pair(run, "replace-one") == (double, 3)


def test_notions_without_a_theorem():
    subsets = FixedSizeBatches(dataset_size=10, batch_size=2, steps=3)
    with pytest.raises(Unsupported) as caught:
        bounds_for(DPSGD(subsets, noise_multiplier=1), "add/remove")
    assert str(caught.value) == (
        "adjacency add/remove has no theorem for DP-SGD (noise multiplier 1, fixed-size batches: 3 steps "
        "with 2 of 10 examples each, drawn without replacement). What exists: zero-out and replace-one."
    )
    with pytest.raises(Unsupported) as caught:
        bounds_for(RandomizedResponse(local_epsilon=1), "add/remove")
    assert str(caught.value) == (
        "adjacency add/remove has no theorem for randomized response (local epsilon 1, "
        "2 categories). What exists: replace-one."
    )


def test_mechanisms_without_a_theorem():
    class Louder(Gaussian):
        """A subclass may run anything, so the bound of its parent is not taken."""

    with pytest.raises(
        Unsupported, match=r"^no bound covers Gaussian noise \(noise multiplier 1\)"
    ):
        bounds_for(Louder(1.0))
    with pytest.raises(Unsupported, match=r"DPSGD over PoissonBatches, .*FinitePair, Gaussian"):
        bounds_for(Louder(1.0))


def test_bounds_yield_to_proved_bounds_on_the_same_side():
    known = {one.name: one for one in all_bounds()}
    yielding = [one for one in all_bounds() if one.effort.yields_to]
    assert yielding
    for one in yielding:
        for name in one.effort.yields_to:
            other = known[name]
            assert other.rigor.proved
            assert set(one.sides) <= set(other.sides)
            assert set(one.of) <= set(other.of)
            assert set(one.batch_scheme) <= set(other.batch_scheme)


def test_a_bound_that_yields_is_not_asked():
    bins = BallsAndBins(dataset_size=100, batch_size=10, epochs=1)
    names = [one.name for one in bounds_for(DPSGD(bins, noise_multiplier=1.0))]
    assert "random_allocation_lower" in names
    assert "allocated_sum_lower" not in names
    names = [one.name for one in bounds_for(DPSGD(bins, noise_multiplier=1e-3))]  # no table
    assert "random_allocation_lower" not in names
    assert {"allocated_sum_lower", "allocated_step_lower"} <= set(names)


def test_the_name_of_a_bound_states_its_side():
    with pytest.raises(InvalidArgument, match=r"^the name of a bound must end in _lower, _upper"):
        bound(of=Gaussian, source="dong2022")(lambda mechanism, adjacency: ())


def test_a_bound_is_about_what_its_first_parameter_is_annotated_with():
    def unstated_upper(mechanism, adjacency):
        return ()

    with pytest.raises(
        InvalidArgument, match=r"^of must be stated .* got unstated_upper\(mechanism,"
    ):
        bound(source="dong2022")(unstated_upper)
    kinds = {entry.name: entry.of for entry in all_bounds()}
    assert kinds["fixed_others_lower"] == (ShuffledReports, SampledReports)
    assert kinds["own_blanket_upper"] == (ShuffledReports,)


def test_a_bound_is_about_what_stands_in_the_brackets():
    @bound(adjacency=Adjacency.ZERO_OUT, source="dong2022", holds_when="never", registered=False)
    def bracketed_upper(
        mechanism: DPSGD[PoissonBatches]
        | DPSGD[BallsAndBins | ShuffledBatches]
        | Grouped[DPSGD[PoissonBatches]]
        | Grouped[Gaussian],
        adjacency,
    ):
        return ()

    class Mine(PoissonBatches):
        """Batches that may be drawn otherwise."""

    def run(scheme):
        return DPSGD(scheme, noise_multiplier=1.0)

    sizes = {"dataset_size": 100, "batch_size": 10, "epochs": 1}
    poisson, bins = run(PoissonBatches(**sizes)), run(BallsAndBins(**sizes))
    with temporarily(bracketed_upper):
        entry = next(one for one in all_bounds() if one.name == "bracketed_upper")
    assert entry.of == (DPSGD, Grouped)
    assert entry.batch_scheme == (PoissonBatches, BallsAndBins, ShuffledBatches)
    assert all(
        entry.applies_to(each)
        for each in (poisson, bins, run(ShuffledBatches(**sizes)), Grouped(poisson, 2))
    )
    assert entry.applies_to(Grouped(Gaussian(1.0), 2))
    assert not any(
        entry.applies_to(each)
        for each in (
            Gaussian(1.0),
            Grouped(bins, 2),
            Grouped(Laplace(1.0), 2),
            run(DeterministicBatches(**sizes)),
            run(Mine(**sizes)),
            Grouped(run(Mine(**sizes)), 2),
        )
    )


def test_composed_mechanisms_are_taken_apart_first():
    with pytest.raises(InvalidArgument) as caught:
        bounds_for(Gaussian(1.0) * 3)
    assert str(caught.value) == (
        "mechanism must not be composed of others; got 3 x Gaussian noise (noise multiplier 1). "
        "Ask for each of its parts()."
    )


def test_two_bounds_cannot_share_a_name():
    register = bound(
        of=Gaussian,
        holds_when="never",
        source="dong2022",
    )

    def gaussian_tight(mechanism, adjacency):
        return ()

    before = all_bounds()
    with pytest.raises(
        InvalidArgument, match=r"^a bound must have a name of its own; got a second"
    ):
        register(gaussian_tight)
    assert all_bounds() == before


def test_training_runs_have_several_notions_of_neighbors():
    register = bound(of=DPSGD, batch_scheme=PoissonBatches, holds_when="never", source="dong2022")

    def unstated_upper(mechanism, adjacency):
        return ()

    with pytest.raises(InvalidArgument, match=r"^adjacency must be stated for bounds on DPSGD"):
        register(unstated_upper)


def test_whether_a_theorem_applies_is_said_by_a_reason():
    """What returned whether it applies would now say the opposite: it is refused."""

    @bound(source="blackwell1953", applies=lambda mechanism: True, registered=False)
    def answered_upper(mechanism: Gaussian, adjacency):
        """Upper side that answers by yes or no."""
        return ()

    with temporarily(answered_upper), pytest.raises(WrongType, match="reason or None; got True"):
        bounds_for(Gaussian(1.0))
