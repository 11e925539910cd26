"""Batch schemes: their numbers, the law of their batches, and what happens to an incomplete batch.

Each statistical test would fail with probability at most FALSE_ALARM if its seed were drawn
anew: limits are exact quantiles (binomial) or hold for every sample size (Dvoretzky, Kiefer,
Wolfowitz, Massart), and are shared among all comparisons of a test.
"""

import dataclasses
import hashlib
import itertools
import math

import numpy as np
import pytest
from scipy import stats

import sharpdp as dp
from sharpdp import batches
from sharpdp.batches import (
    BallsAndBins,
    BatchScheme,
    BufferedShuffle,
    CyclicPoissonBatches,
    DeterministicBatches,
    FixedSizeBatches,
    PoissonBatches,
    RandomAllocation,
    ShuffledBatches,
    TruncatedPoissonBatches,
    WeightedPoissonBatches,
)
from sharpdp.bounds import all_bounds
from sharpdp.bracket import Side
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms.training import ADJACENCIES

FALSE_ALARM = 1e-9
SEED = 20251115


def assert_binomial(observed, trials, probability, comparisons=1):
    """Every observed count is one that a binomial law gives with probability > FALSE_ALARM."""
    tail = FALSE_ALARM / (2 * comparisons)
    low = stats.binom.ppf(tail, trials, probability)
    high = stats.binom.isf(tail, trials, probability)
    assert np.all(low <= observed)
    assert np.all(observed <= high)


def membership(plan, rng=SEED):
    """A matrix of steps and examples: whether the example is in the batch of the step."""
    members = np.zeros((plan.steps, plan.dataset_size), dtype=bool)
    for step, batch in enumerate(plan.batches(rng)):
        members[step, batch] = True
    return members


@pytest.fixture(scope="module")
def poisson():
    plan = PoissonBatches(sample_rate=0.07, steps=4000, dataset_size=100)
    return plan, membership(plan)


def test_poisson_from_sizes():
    plan = PoissonBatches(dataset_size=60_000, batch_size=512, epochs=30)
    assert plan.sample_rate == 512 / 60_000
    assert plan.steps == 30 * 118
    assert plan.dataset_size == 60_000
    assert PoissonBatches(dataset_size=1000, batch_size=10, steps=7).steps == 7
    assert PoissonBatches(dataset_size=10, batch_size=10, epochs=2).sample_rate == 1.0


def test_both_forms_are_the_same_plan():
    sizes = PoissonBatches(dataset_size=1000, batch_size=10, epochs=2)
    rates = PoissonBatches(sample_rate=0.01, steps=200, dataset_size=1000)
    assert sizes == rates
    assert hash(sizes) == hash(rates)
    assert repr(sizes) == "PoissonBatches(sample_rate=0.01, steps=200, dataset_size=1000)"
    assert dataclasses.replace(rates, steps=5).steps == 5


@pytest.mark.parametrize(
    "plan",
    [
        PoissonBatches(sample_rate=0.5, steps=3, dataset_size=4),
        CyclicPoissonBatches(sample_rate=0.5, steps=5, cycle_length=2, dataset_size=5),
        WeightedPoissonBatches(weights=(1.0, 0.0, 2.5), batch_size=1, steps=5),
        DeterministicBatches(dataset_size=4, batch_size=3, epochs=2),
        ShuffledBatches(dataset_size=4, batch_size=3, epochs=2),
        ShuffledBatches(dataset_size=4, batch_size=3, epochs=2, order="kept"),
        ShuffledBatches(dataset_size=4, batch_size=3, epochs=2, drop_last=True),
        BufferedShuffle(dataset_size=7, batch_size=3, epochs=2, buffer_size=3),
        BallsAndBins(dataset_size=4, batch_size=2, epochs=3),
        BallsAndBins(dataset_size=4, batch_size=2, epochs=3, order="kept"),
        RandomAllocation(steps=3, epochs=2, dataset_size=4),
        RandomAllocation(steps=3, participations=2, epochs=2, dataset_size=4),
        TruncatedPoissonBatches(dataset_size=4, batch_size=2, steps=5, physical_batch_size=3),
        FixedSizeBatches(dataset_size=4, batch_size=2, steps=5),
        FixedSizeBatches(dataset_size=4, batch_size=2, steps=5, replacement=True),
        FixedSizeBatches(
            dataset_size=3, batch_size=2, steps=5, replacement=True, weights=(1.0, 0.0, 3.0)
        ),
    ],
    ids=lambda plan: plan.describe(),
)
def test_every_scheme_keeps_the_contract(plan):
    assert isinstance(plan, BatchScheme)
    assert eval(repr(plan)) == plan
    assert hash(plan) == hash(dataclasses.replace(plan))
    assert dataclasses.replace(plan) == plan
    assert all(sentence[0].isupper() and sentence[-1] == "." for sentence in plan.guarantees)
    assert "\n" not in plan.describe()
    assert plan.describe().startswith(plan.label)
    batches = list(plan.batches(0))
    assert len(batches) == plan.steps
    for batch in batches:
        assert batch.dtype == np.int64
        assert batch.ndim == 1
        assert np.all(np.diff(batch) >= (0 if getattr(plan, "replacement", False) else 1))
        assert np.all((batch >= 0) & (batch < plan.dataset_size))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.dataset_size = 5


def test_seeds_repeat_and_generators_go_on():
    plan = PoissonBatches(sample_rate=0.5, steps=20, dataset_size=50)
    first, second = membership(plan, 3), membership(plan, np.int64(3))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, membership(plan, 4))
    generator = np.random.default_rng(3)
    drawn = membership(plan, generator)
    assert not np.array_equal(drawn, membership(plan, generator))
    assert np.array_equal(drawn, membership(plan, np.random.default_rng(3)))
    assert not np.array_equal(membership(plan, None), membership(plan, None))


def test_batches_are_drawn_one_at_a_time():
    plan = PoissonBatches(sample_rate=1e-9, steps=10**18, dataset_size=10**12)
    batches = list(itertools.islice(plan.batches(SEED), 3))
    sizes = np.array([batch.size for batch in batches])
    assert_binomial(sizes, plan.dataset_size, plan.sample_rate, comparisons=3)
    endless = DeterministicBatches(dataset_size=10**15, batch_size=2, epochs=1000)
    assert next(endless.batches()).tolist() == [0, 1]


def test_arguments_are_checked_before_the_first_batch():
    with pytest.raises(InvalidArgument, match=r"^dataset_size must be given to draw batches"):
        PoissonBatches(sample_rate=0.5, steps=2).batches(0)
    with pytest.raises(InvalidArgument, match=r"^rng must be a key"):
        PoissonBatches(sample_rate=0.5, steps=2, dataset_size=2).batches(-1)
    with pytest.raises(InvalidArgument, match=r"^rng must be a key"):
        DeterministicBatches(dataset_size=2, batch_size=1, epochs=1).batches("seed")


def test_poisson_inclusion_rate(poisson):
    plan, members = poisson
    assert_binomial(members.sum(), members.size, plan.sample_rate)
    by_example = members.sum(axis=0)
    assert_binomial(by_example, plan.steps, plan.sample_rate, comparisons=by_example.size)


def test_poisson_batch_size_law(poisson):
    """The whole law of the size, by the inequality of Dvoretzky, Kiefer, Wolfowitz, Massart."""
    plan, members = poisson
    sizes = members.sum(axis=1)
    limit = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * plan.steps))
    points = np.arange(plan.dataset_size + 1)
    seen = np.searchsorted(np.sort(sizes), points, side="right") / plan.steps
    law = stats.binom.cdf(points, plan.dataset_size, plan.sample_rate)
    assert np.max(np.abs(seen - law)) <= limit


def test_poisson_batch_size_variance(poisson):
    """The spread, seen in how often the size is more than a standard deviation off its mean."""
    plan, members = poisson
    law = stats.binom(plan.dataset_size, plan.sample_rate)
    low, high = law.mean() - law.std(), law.mean() + law.std()
    far = law.cdf(math.ceil(low) - 1) + law.sf(math.floor(high))
    sizes = members.sum(axis=1)
    assert_binomial(np.sum((sizes < low) | (sizes > high)), plan.steps, far)


def test_poisson_examples_are_independent(poisson):
    plan, members = poisson
    together = members[:, 0::2] & members[:, 1::2]
    assert_binomial(together.sum(), together.size, plan.sample_rate**2)
    halves = members[:, :50] & members[:, 50:]
    assert_binomial(halves.sum(), halves.size, plan.sample_rate**2)


def test_poisson_steps_are_independent(poisson):
    plan, members = poisson
    again = members[0::2] & members[1::2]
    assert_binomial(again.sum(), again.size, plan.sample_rate**2)


def test_poisson_every_subset_has_its_probability():
    rate, steps = 0.3, 20_000
    plan = PoissonBatches(sample_rate=rate, steps=steps, dataset_size=3)
    codes = membership(plan) @ np.array([1, 2, 4])
    for code in range(8):
        size = code.bit_count()
        chance = rate**size * (1 - rate) ** (3 - size)
        assert_binomial(np.sum(codes == code), steps, chance, comparisons=8)


@pytest.mark.parametrize("rate", [0.01, 0.4])
def test_poisson_in_a_large_data_set(rate):
    """numpy draws small and large subsets of large sets in two ways; both are uniform."""
    plan = PoissonBatches(sample_rate=rate, steps=40, dataset_size=20_000)
    quarters = membership(plan).reshape(plan.steps, 4, -1).sum(axis=(0, 2))
    assert_binomial(quarters, plan.steps * 5000, rate, comparisons=4)


def test_poisson_empty_batches_are_real():
    plan = PoissonBatches(sample_rate=0.01, steps=500, dataset_size=10)
    sizes = [batch.size for batch in plan.batches(SEED)]
    assert len(sizes) == 500
    assert_binomial(sizes.count(0), 500, 0.99**10)


def test_poisson_with_rate_one_takes_everyone():
    plan = PoissonBatches(sample_rate=1, steps=2, dataset_size=3)
    assert [batch.tolist() for batch in plan.batches(0)] == [[0, 1, 2]] * 2


def test_deterministic_epochs_are_alike_and_nobody_is_dropped():
    plan = DeterministicBatches(dataset_size=11, batch_size=4, epochs=3)
    epoch = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert [batch.tolist() for batch in plan.batches()] == epoch * 3
    assert plan.steps == 9


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (
            (60_000, 512, 30),
            "deterministic batches: 30 epochs of 118 batches, 512 of 60,000 examples each; "
            "the last batch of every epoch holds the remaining 96 examples",
        ),
        (
            (5, 2, 1),
            "deterministic batches: 1 epoch of 3 batches, 2 of 5 examples each; "
            "the last batch of every epoch holds the remaining 1 example",
        ),
        (
            (6, 2, 2),
            "deterministic batches: 2 epochs of 3 batches, 2 of 6 examples each",
        ),
    ],
)
def test_deterministic_in_words(sizes, text):
    dataset_size, batch_size, epochs = sizes
    plan = DeterministicBatches(dataset_size=dataset_size, batch_size=batch_size, epochs=epochs)
    assert plan.describe() == text


def test_poisson_in_words():
    plan = PoissonBatches(dataset_size=1000, batch_size=10, epochs=2)
    assert plan.describe() == ("Poisson batches: 200 steps at sample rate 0.01 of 1,000 examples")
    assert plan.guarantees[0] == "Every example enters every batch with probability 0.01."
    assert "1 step at" in PoissonBatches(sample_rate=0.5, steps=1).describe()


def test_one_batch_is_no_plural() -> None:
    plan = DeterministicBatches(dataset_size=10, batch_size=10, epochs=1)
    assert "1 epoch of 1 batch," in plan.describe()


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (
            {"dataset_size": 10, "batch_size": 4, "epochs": 2},
            "shuffled batches: 2 epochs of 3 batches, 4 of 10 examples each, order redrawn in every "
            "epoch; the last batch of every epoch holds the remaining 2 examples",
        ),
        (
            {"dataset_size": 9, "batch_size": 4, "epochs": 1, "drop_last": True},
            "shuffled batches: 1 epoch of 2 batches, 4 of 9 examples each, order redrawn in every "
            "epoch; the remaining 1 example of every epoch is dropped",
        ),
        (
            {"dataset_size": 10, "batch_size": 5, "epochs": 2, "order": "kept"},
            "shuffled batches: 2 epochs of 2 batches, 5 of 10 examples each, one order for all "
            "epochs",
        ),
    ],
)
def test_shuffled_in_words(sizes, text):
    assert ShuffledBatches(**sizes).describe() == text


@pytest.mark.parametrize(
    ("plan", "digest"),
    [
        (PoissonBatches(dataset_size=100, batch_size=10, epochs=2), "033283bd3cc3"),
        (FixedSizeBatches(dataset_size=100, batch_size=10, steps=5), "3219b44b97ac"),
        (ShuffledBatches(dataset_size=100, batch_size=13, epochs=2), "c2667e80490b"),
        (BallsAndBins(dataset_size=100, batch_size=10, epochs=2), "fae6b33de43a"),
        (RandomAllocation(steps=10, participations=3, epochs=2, dataset_size=100), "cfc380766922"),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_a_key_gives_the_same_batches_in_every_version(plan, digest):
    drawn = b"".join(batch.tobytes() for batch in plan.batches(7))
    assert hashlib.sha256(drawn).hexdigest().startswith(digest)


def test_only_dropped_examples_miss_an_epoch():
    sizes = {"dataset_size": 10, "batch_size": 4, "epochs": 1}
    assert "in at most one batch" in ShuffledBatches(**sizes, drop_last=True).guarantees[0]
    assert "in exactly one batch" in ShuffledBatches(**sizes).guarantees[0]
    whole = {"dataset_size": 8, "batch_size": 4, "epochs": 1}
    assert "in exactly one batch" in ShuffledBatches(**whole, drop_last=True).guarantees[0]


def test_steps_of_an_epoch_and_of_a_run():
    for plan, per_epoch, steps in (
        (DeterministicBatches(dataset_size=10, batch_size=4, epochs=5), 3, 15),
        (ShuffledBatches(dataset_size=10, batch_size=4, epochs=5), 3, 15),
        (ShuffledBatches(dataset_size=10, batch_size=4, epochs=5, drop_last=True), 2, 10),
        (BallsAndBins(dataset_size=10, batch_size=4, epochs=5), 2, 10),
        (RandomAllocation(steps=7, participations=2, epochs=5), 7, 35),
        (RandomAllocation(steps_per_epoch=7, epochs=5), 7, 35),
    ):
        assert (plan.steps_per_epoch, plan.steps) == (per_epoch, steps)
    sizes = {"dataset_size": 10, "batch_size": 4, "physical_batch_size": 6}
    assert TruncatedPoissonBatches(**sizes, epochs=5).steps == 15
    assert TruncatedPoissonBatches(**sizes, epochs=5) == TruncatedPoissonBatches(**sizes, steps=15)
    assert TruncatedPoissonBatches(**sizes, steps=1).sample_rate == 0.4


SIZES = {"dataset_size": 10, "batch_size": 4, "epochs": 1}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        *(
            (lambda kind=kind, wrong=wrong: kind(**{**SIZES, **wrong}), sentence)
            for kind in (ShuffledBatches, BallsAndBins)
            for wrong, sentence in (
                (
                    {"batch_size": 11},
                    "batch_size must be at most dataset_size = 10; got 11. Did you",
                ),
                ({"batch_size": 0}, "batch_size must be a whole number, at least 1; got 0."),
                ({"epochs": -1}, "epochs must be a whole number, at least 0; got -1."),
                ({"epochs": math.nan}, "epochs must be a whole number, at least 0; got nan."),
                ({"epochs": 10**18}, "steps must be at most 10^18; got"),
                ({"dataset_size": "10"}, "dataset_size must be a whole number, at least 1; got"),
                ({"dataset_size": -1}, "dataset_size must be a whole number, at least 1; got -1."),
                (
                    {"dataset_size": math.inf},
                    "dataset_size must be a whole number, at least 1; got inf.",
                ),
            )
        ),
        (
            lambda: ShuffledBatches(**SIZES, order="sorted"),
            "order must be 'redrawn' or 'kept'; got 'sorted'.",
        ),
        (lambda: ShuffledBatches(**SIZES, order=1), "order must be 'redrawn' or 'kept'; got 1."),
        (
            lambda: ShuffledBatches(**SIZES, drop_last="drop"),
            "drop_last must be True or False; got 'drop'.",
        ),
        (
            lambda: RandomAllocation(steps=3, participations=4),
            "participations must be at most the 3 steps of an epoch; got 4. Did you swap the two?",
        ),
        (
            lambda: RandomAllocation(),
            "exactly one of steps and steps_per_epoch must be given; got n",
        ),
        (
            lambda: RandomAllocation(steps=3, steps_per_epoch=3),
            "exactly one of steps and steps_per_epoch must be given; got both.",
        ),
        (
            lambda: RandomAllocation(steps=0),
            "steps must be a whole number, at least 1; got 0. It counts batches of one epoch.",
        ),
        (lambda: RandomAllocation(steps=10**12, epochs=10**12), "steps must be at most 10^18; got"),
        (
            lambda: RandomAllocation(steps=3).batches(0),
            "dataset_size must be given to draw batches; got None.",
        ),
        (
            lambda: TruncatedPoissonBatches(**SIZES, physical_batch_size=3),
            "physical_batch_size must be from batch_size = 4 to dataset_size = 10; got 3.",
        ),
        (
            lambda: TruncatedPoissonBatches(**SIZES, physical_batch_size=11),
            "physical_batch_size must be from batch_size = 4 to dataset_size = 10; got 11.",
        ),
        (
            lambda: TruncatedPoissonBatches(**SIZES, physical_batch_size=5, steps=3),
            "exactly one of steps and epochs must be given; got both.",
        ),
        (
            lambda: CyclicPoissonBatches(
                cycle_length=11, sample_rate=0.1, steps=1, dataset_size=10
            ),
            "cycle_length must be at most dataset_size = 10; got 11.",
        ),
        (
            lambda: CyclicPoissonBatches(cycle_length=3, batch_size=4, epochs=1, dataset_size=10),
            "batch_size must be at most dataset_size / cycle_length = 10 / 3; got 4.",
        ),
        (
            lambda: CyclicPoissonBatches(cycle_length=3, sample_rate=0.1, steps=4).batches(0),
            "dataset_size must be given to draw batches; got only sample_rate and steps.",
        ),
        (
            lambda: WeightedPoissonBatches(weights=[1, 9], batch_size=2, steps=4),
            "batch_size must be at most 1, so that no probability is above 1; got 2. The largest weight",
        ),
        (
            lambda: WeightedPoissonBatches(weights=[1, -2], batch_size=1, steps=4),
            "weights must be one number for each example, at least 0, and some of them positive; got",
        ),
        (
            lambda: WeightedPoissonBatches(weights=[0, 0], batch_size=1, steps=4),
            "weights must be one number for each example, at least 0, and some of them positive; got",
        ),
        (
            lambda: WeightedPoissonBatches(weights=[1, 0], batch_size=1, steps=4).for_example(1),
            "index must be that of an example with a positive weight; got 1. It is never used",
        ),
        (
            lambda: FixedSizeBatches(dataset_size=2, batch_size=1, steps=1, weights=[1, 1]),
            "weights must be None without replacement; got 2. Use replacement=True",
        ),
        (
            lambda: FixedSizeBatches(
                dataset_size=3, batch_size=1, steps=1, replacement=True, weights=[1, 1]
            ),
            "weights must be one for each of dataset_size = 3 examples; got 2.",
        ),
        (
            lambda: BufferedShuffle(**SIZES, buffer_size=0),
            "buffer_size must be a whole number, at least 1; got 0. It counts slots of the buffer.",
        ),
        (
            lambda: BufferedShuffle(
                dataset_size=10**9, batch_size=4, epochs=1, buffer_size=5
            ).batches(0),
            "dataset_size must be at most 10^8 to draw batches; got 1000000000.",
        ),
        (
            lambda: BallsAndBins(**SIZES, order="sorted"),
            "order must be 'redrawn' or 'kept'; got 'sorted'.",
        ),
        (
            lambda: FixedSizeBatches(dataset_size=10, batch_size=4, steps=1, replacement="no"),
            "replacement must be True or False; got 'no'.",
        ),
        (
            lambda: FixedSizeBatches(dataset_size=10, batch_size=11, steps=1),
            "batch_size must be at most dataset_size = 10; got 11. Did you swap the two?",
        ),
        (
            lambda: FixedSizeBatches(dataset_size=10, batch_size=4, steps=-1),
            "steps must be a whole number, at least 0; got -1. It counts batches, over all epochs.",
        ),
    ],
)
def test_wrong_sizes_are_refused(make, sentence):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert str(caught.value).startswith(sentence)


def test_every_notion_of_neighbors_has_a_theorem_and_no_theorem_is_left_out():
    schemes = {getattr(batches, name) for name in batches.__all__} - {BatchScheme}
    assert set(ADJACENCIES) == schemes
    for scheme, listed in ADJACENCIES.items():
        about = [one for one in all_bounds() if scheme in one.batch_scheme and not one.degenerate]
        for side in Side:
            proved = [one for one in about if side in one.sides and one.rigor.proved]
            assert {notion for one in proved for notion in one.adjacency} == set(listed), scheme


def test_equal_weights_are_the_plain_schemes():
    plan = WeightedPoissonBatches(weights=[3.0] * 8, batch_size=2, epochs=3)
    same = PoissonBatches(dataset_size=8, batch_size=2, epochs=3)
    assert (plan.sample_rate, plan.steps) == (same.sample_rate, same.steps)
    draws = {"dataset_size": 8, "batch_size": 2, "steps": 3, "replacement": True}
    weighted = FixedSizeBatches(**draws, weights=[3.0] * 8)
    assert weighted.largest_share == FixedSizeBatches(**draws).largest_share


def test_weights_of_any_scale_are_rates():
    """Sums that would overflow, weights next to nothing, and rates that are exact doubles."""
    plan = WeightedPoissonBatches(weights=[1e308, 1e308, 1e-300, 0.0], batch_size=1, steps=1)
    assert plan.rates.tolist() == [0.5, 0.5, 2.0**-53, 0.0]
    draws = FixedSizeBatches(
        dataset_size=3, batch_size=1, steps=1, replacement=True, weights=[1e308, 1e-300, 0.0]
    )
    assert 0 < 1 - draws.largest_share < 2**-60


def test_a_weighted_run_is_that_of_the_largest_weight():
    """For everybody the largest rate counts; an example with half the weight has its own answer."""
    plan = WeightedPoissonBatches(weights=[1.0] * 60 + [2.0] * 20, batch_size=5, steps=40)
    run = dp.DPSGD(plan, noise_multiplier=1.5)
    for adjacency in ("zero-out", "add/remove", "replace-one"):
        bracket = dp.account(run, adjacency=adjacency).epsilon(delta=1e-5)
        same = dp.DPSGD(plan.for_example(79), noise_multiplier=1.5)
        other = dp.DPSGD(plan.for_example(0), noise_multiplier=1.5)
        expected = dp.account(same, adjacency=adjacency).epsilon(delta=1e-5)
        assert (bracket.lower, bracket.upper) == (expected.lower, expected.upper)
        assert dp.account(other, adjacency=adjacency).epsilon(delta=1e-5).upper < bracket.lower


def test_weighted_draws_are_those_of_the_largest_share():
    """1 of 20 weights is twice the others: J is that of 1 in 10.5 examples."""
    draws = {"batch_size": 3, "steps": 4, "replacement": True}
    weighted = FixedSizeBatches(dataset_size=20, **draws, weights=[1.0] * 19 + [2.0])
    answers = [
        dp.account(dp.DPSGD(plan, noise_multiplier=2.0)).epsilon(delta=1e-5)
        for plan in (
            FixedSizeBatches(dataset_size=10, **draws),
            weighted,
            FixedSizeBatches(dataset_size=11, **draws),
        )
    ]
    assert answers[0].lower > answers[1].lower > answers[2].lower
    assert answers[0].upper > answers[1].upper > answers[2].upper
