"""Mechanisms: frozen data, composition that is never expanded, notions of adjacency."""

import dataclasses
import functools
import operator
import pickle

import numpy as np
import pytest

from sharpdp.batches import DeterministicBatches, FixedSizeBatches, PoissonBatches
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms import (
    DPSGD,
    Adjacency,
    ApproximateDP,
    BatchQueries,
    FinitePair,
    Gaussian,
    Laplace,
    ProfileMechanism,
    PureDP,
    RandomizedResponse,
    Repeated,
    Sequence,
)
from sharpdp.questions.account import account

POISSON = PoissonBatches(sample_rate=0.01, steps=1000)
FIXED = DeterministicBatches(dataset_size=100, batch_size=7, epochs=3)

EVERY = [
    Gaussian(noise_multiplier=1.0),
    Laplace(scale=1.0),
    PureDP(epsilon=1.0),
    ApproximateDP(epsilon=1.0, delta=1e-6),
    FinitePair(p=[0.75, 0.25], q=[0.25, 0.75]),
    RandomizedResponse(local_epsilon=1.0, categories=3),
    DPSGD(POISSON, noise_multiplier=0.8),
    DPSGD(FIXED, noise_multiplier=0.8),
]


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda one: one.describe())
def test_every_mechanism_keeps_the_contract(mechanism):
    assert mechanism.parts() == ((mechanism, 1),)
    assert hash(mechanism) == hash(pickle.loads(pickle.dumps(mechanism)))
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert "\n" not in mechanism.describe()
    assert mechanism.label
    assert mechanism.adjacency() is mechanism.adjacencies[0]
    for field in dataclasses.fields(mechanism):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mechanism, field.name, 1)
    assert eval(repr(mechanism)) == mechanism


def test_descriptions():
    assert [one.describe() for one in EVERY] == [
        "Gaussian noise (noise multiplier 1)",
        "Laplace noise (scale 1)",
        "any epsilon-DP mechanism (epsilon 1)",
        "any (epsilon, delta)-DP mechanism (epsilon 1, delta 1e-06)",
        "pair of pmfs on 2 points",
        "randomized response (local epsilon 1, 3 categories)",
        "DP-SGD (noise multiplier 0.8, Poisson batches: 1,000 steps at sample rate 0.01)",
        "DP-SGD (noise multiplier 0.8, deterministic batches: 3 epochs of 15 batches, "
        "7 of 100 examples each; the last batch of every epoch holds the remaining 2 examples)",
    ]


def test_parameters_become_plain_numbers():
    mechanism = Gaussian(np.float32(0.5))
    assert type(mechanism.noise_multiplier) is float
    assert mechanism == Gaussian(0.5)
    assert type(RandomizedResponse(local_epsilon=1, categories=4.0).categories) is int
    assert FinitePair(p=np.array([1, 0]), q=[0, 1]).p == (1.0, 0.0)


def test_zero_epsilon_and_zero_delta_are_allowed():
    assert PureDP(0).epsilon == 0.0
    assert ApproximateDP(epsilon=0, delta=0).delta == 0.0
    assert RandomizedResponse(local_epsilon=0).local_epsilon == 0.0


@pytest.mark.parametrize("count", [1, 10, np.int64(10), 10.0, 10**18])
def test_repetition_from_both_sides(count):
    mechanism = Gaussian(1.0)
    assert (mechanism * count).parts() == ((mechanism, int(count)),)
    assert count * mechanism == mechanism * count
    assert type((mechanism * count).count) is int


@pytest.mark.parametrize("count", [-1, 2.5, True, np.True_, "2", None, [2], np.array([1, 2])])
def test_repetition_by_nonsense(count):
    mechanism = Gaussian(1.0)
    for product in (lambda: mechanism * count, lambda: count * mechanism):
        with pytest.raises(
            InvalidArgument, match=r"^count must be a whole number, at least 0; got"
        ):
            product()


def test_counts_multiply_without_expansion():
    a, b = Gaussian(1.0), Laplace(1.0)
    nested = ((a * 10 + b) * 10**9) * 10**8
    assert nested.parts() == ((a, 10**18), (b, 10**17))
    with pytest.raises(InvalidArgument, match=r"^count must be at most 10\^18 for each part; got"):
        nested * 10
    with pytest.raises(InvalidArgument, match=r"^count must be at most 10\^18 for each part; got"):
        (nested + a).parts()


def test_equal_parts_come_together_in_order():
    a, b = Gaussian(1.0), Laplace(1.0)
    assert (a + b + Gaussian(1.0)).parts() == ((a, 2), (b, 1))
    assert Sequence([b, a * 2, a + b]).parts() == ((b, 2), (a, 3))


def test_sums_are_flat():
    many = [Gaussian(1.0 + i / 1000) for i in range(2000)]
    total = sum(many)
    assert isinstance(total, Sequence)
    assert len(total.mechanisms) == 2000
    assert total == functools.reduce(operator.add, many)
    assert total.parts() == tuple((one, 1) for one in many)
    assert total.describe().endswith("(noise multiplier 1.003), then 1,996 more")
    assert total.label == "sequence of 2,000 mechanisms"


def test_composed_mechanisms_are_data():
    plan = Sequence([Gaussian(1.0) * 3, Laplace(2.0)])
    assert plan == Gaussian(1.0) * 3 + Laplace(2.0)
    assert hash(plan) == hash(Gaussian(1.0) * 3 + Laplace(2.0))
    assert eval(repr(plan)) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert (Gaussian(1.0) * 3).label == "Gaussian noise"
    assert Sequence([Gaussian(1.0)]).label == "Gaussian noise"
    assert isinstance(Repeated(Gaussian(1.0), 2) * 3, Repeated)


@pytest.mark.parametrize(
    "text", ["add-remove", "add_remove", "add/remove", "ADD_REMOVE", "Add Remove"]
)
def test_adjacencies_by_name(text):
    assert Adjacency(text) is Adjacency.ADD_REMOVE
    assert Adjacency("zero_out") is Adjacency.ZERO_OUT
    assert Adjacency("replace one") is Adjacency.REPLACE_ONE
    assert f"{Adjacency.ZERO_OUT}" == str(Adjacency.ZERO_OUT) == "zero-out"
    for member in Adjacency:
        assert Adjacency(member.name) is Adjacency(member.value) is Adjacency(member) is member


@pytest.mark.parametrize("value", ["", "swap", "add", 3, None, ["add-remove"]])
def test_adjacencies_that_do_not_exist(value):
    with pytest.raises(
        InvalidArgument, match=r"^adjacency must be one of 'add/remove', 'zero-out'"
    ):
        Adjacency(value)


def test_adjacency_of_training():
    poisson, fixed = DPSGD(POISSON, noise_multiplier=1), DPSGD(FIXED, noise_multiplier=1)
    assert poisson.adjacency() is Adjacency.ADD_REMOVE
    assert poisson.adjacency("zero-out") is Adjacency.ZERO_OUT
    assert fixed.adjacency() is Adjacency.ZERO_OUT
    assert set(fixed.adjacencies) == set(Adjacency) - {Adjacency.NEIGHBORS}
    subsets = FixedSizeBatches(dataset_size=10, batch_size=2, steps=1)
    with pytest.raises(Unsupported, match=r"^adjacency add/remove has no theorem for DP-SGD"):
        DPSGD(subsets, noise_multiplier=1).adjacency("add/remove")


def test_adjacency_of_sequences():
    poisson, fixed = DPSGD(POISSON, noise_multiplier=1), DPSGD(FIXED, noise_multiplier=1)
    assert (Gaussian(1.0) + Laplace(1.0)).adjacencies == (Adjacency.NEIGHBORS,)
    assert (Gaussian(1.0) + poisson * 3).adjacencies == poisson.adjacencies
    assert (poisson + fixed).adjacencies == poisson.adjacencies
    assert (fixed + poisson).adjacency() is Adjacency.ZERO_OUT
    coin = RandomizedResponse(local_epsilon=1)
    assert (fixed + coin).adjacencies == (Adjacency.REPLACE_ONE,)
    assert (poisson + coin).adjacencies == (Adjacency.REPLACE_ONE,)
    with pytest.raises(Unsupported, match="must share a notion of neighboring data sets"):
        account(poisson).tradeoff() + coin  # the curve is about add/remove


def test_a_mechanism_that_speaks_of_neighbors_takes_every_notion():
    assert Gaussian(1.0).adjacency() is Adjacency.NEIGHBORS
    for adjacency in Adjacency:
        assert (Gaussian(1.0) * 2).adjacency(adjacency) is adjacency


def test_profiles():
    def profile(epsilon):
        return np.maximum(0.5 - epsilon / 2, 0)

    mechanism = ProfileMechanism(profile=profile, largest_loss=1, name="wedge")
    assert mechanism.describe() == (
        'mechanism known by its privacy profile (named by its author: "wedge")'
    )
    assert mechanism.largest_loss == 1.0
    assert (mechanism * 2 + mechanism).parts() == ((mechanism, 3),)
    assert mechanism != ProfileMechanism(profile=profile, largest_loss=1, name="wedge")


def test_a_scheme_of_ones_own_is_accepted():
    class Everyone:
        steps = 1
        dataset_size = 3
        expected_batch_size = 3.0
        label = "everyone"
        guarantees = ("Everyone is in.",)

        def describe(self):
            return "everyone at once"

        def batches(self, rng=None):
            yield np.arange(3)

    run = DPSGD(Everyone(), noise_multiplier=1)
    assert run.adjacencies == (Adjacency.ZERO_OUT,)
    assert run.describe() == "DP-SGD (noise multiplier 1, everyone at once)"
    with pytest.raises(WrongType, match=r"^batches must be a batch scheme; got the class Everyone"):
        DPSGD(Everyone, noise_multiplier=1)


@pytest.mark.parametrize("plan", [POISSON, FIXED], ids=lambda plan: plan.label)
def test_queries_on_batches_are_as_private_as_dpsgd(plan):
    queries, run = BatchQueries(plan, noise_multiplier=0.8), DPSGD(plan, noise_multiplier=0.8)
    assert queries.parts() == run.parts() == ((run, 1),)
    assert queries.adjacencies == run.adjacencies
    assert (queries * 2 + run).parts() == ((run, 3),)
    assert queries != run
    assert queries.describe() == run.describe().replace("DP-SGD", "adaptive queries on batches")
    assert pickle.loads(pickle.dumps(queries)) == queries
    assert eval(repr(queries)) == queries
    asked = [account(one).epsilon(delta=1e-5) for one in (queries, run)]
    assert (asked[0].lower, asked[0].upper) == (asked[1].lower, asked[1].upper)


def test_queries_on_batches_check_their_fields():
    with pytest.raises(WrongType, match=r"^batches must be a batch scheme; got \[\[0\]\]"):
        BatchQueries([[0]], noise_multiplier=1)
    with pytest.raises(InvalidArgument, match=r"^noise_multiplier must be at least 0; got -1"):
        BatchQueries(POISSON, noise_multiplier=-1)
