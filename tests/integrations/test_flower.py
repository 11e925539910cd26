"""Flower's protocol on sharpdp, and an example federation: `make test-frameworks` installs Flower."""

from __future__ import annotations

import inspect
import json
import math
from importlib import util
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import WrongType
from tests.docs.pages import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")  # frameworks warn about each other

serverapp = pytest.importorskip(
    "flwr.serverapp", reason="make test-frameworks gets Flower", exc_type=ImportError
)

from flwr.app import ArrayRecord  # noqa: E402

from sharpdp.integrations.flower import CertifiedAccountant  # noqa: E402
from sharpdp.integrations.flower_strategy import CLDPStrategy, report  # noqa: E402
from sharpdp.learn import CLDPSGD, PrivUnitBall  # noqa: E402

POISSON = (serverapp.SamplingMethod.POISSON, serverapp.NeighboringRelation.ADD_OR_REMOVE_ONE)
FIXED = (serverapp.SamplingMethod.WITHOUT_REPLACEMENT, serverapp.NeighboringRelation.REPLACE_ONE)
KNOWN = (serverapp.SamplingMethod.NO_AMPLIFICATION, serverapp.NeighboringRelation.ADD_OR_REMOVE_ONE)


def config(model: Any = KNOWN, **options: Any) -> Any:
    settings = {"target_delta": 1e-5, "population_size": 1000, **options}
    return serverapp.PrivacyConfig(
        sampling_method=model[0], neighboring_relation=model[1], **settings
    )


def event(noise_multiplier: float = 2.0, sample_size: int = 50, population_size: int = 1000) -> Any:
    return serverapp.GaussianPrivacyEvent(noise_multiplier, sample_size, population_size)


def test_it_has_every_name_of_the_protocol_with_its_arguments() -> None:
    protocol = serverapp.PrivacyAccountant
    names = [name for name in vars(protocol) if not name.startswith("_")]
    assert len(names) >= 9
    for name in names:
        ours, theirs = vars(CertifiedAccountant)[name], vars(protocol)[name]
        assert isinstance(ours, property) == isinstance(theirs, property), name
        if not isinstance(theirs, property):
            asked = inspect.signature(theirs).parameters
            have = inspect.signature(ours).parameters
            assert [(one.name, one.default) for one in asked.values()] == [
                (one.name, one.default) for one in have.values()
            ], name


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Theorem 8 of arXiv 1805.06530, in high precision."""
    with mpmath.workdps(40):
        first = mpmath.ncdf(mu / 2 - epsilon / mu)
        second = mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
        return float(first - second)


def test_a_known_cohort_is_a_gaussian_mechanism() -> None:
    accountant = CertifiedAccountant(config())
    assert accountant.get_privacy_spent().epsilon == 0.0
    for _ in range(16):
        accountant.compose(event(noise_multiplier=4.0))
    truth = gaussian_delta(1.0, math.sqrt(16) / 4.0)
    assert truth <= accountant.get_delta(1.0) <= truth * 1.001
    assert accountant.guarantee.adjacency is dp.Adjacency.ZERO_OUT
    spent = accountant.get_privacy_spent(delta=truth)
    assert 1.0 <= spent.epsilon <= 1.001
    assert (spent.num_releases, spent.accounting_method) == (16, "sharpdp")


@pytest.mark.parametrize("model", [KNOWN, POISSON], ids=["known", "poisson"])
def test_it_is_at_most_the_renyi_accountant_of_flower(model: Any) -> None:
    pytest.importorskip("dp_accounting")
    ours, theirs = CertifiedAccountant(config(model)), serverapp.RdpAccountant(config(model))
    for noise in (1.0, 2.0):
        ours.compose(event(noise), count=10)
        theirs.compose(event(noise), count=10)
    assert ours.num_releases == theirs.num_releases == 20
    bound = theirs.get_epsilon(1e-5)
    assert 0.5 * bound < ours.get_epsilon(1e-5) < bound


def test_a_replaced_client_moves_the_sum_by_twice_the_norm() -> None:
    """With everyone in every round there is nothing to amplify: Gaussian noise at half the multiplier."""
    accountant = CertifiedAccountant(config(FIXED, population_size=50))
    accountant.compose(event(4.0, 50, 50), count=4)
    truth = gaussian_delta(1.0, 2.0 * math.sqrt(4) / 4.0)
    assert truth <= accountant.get_delta(1.0) <= truth * 1.01
    sampled = CertifiedAccountant(config(FIXED))
    sampled.compose(event(4.0), count=4)
    assert sampled.get_epsilon(1e-5) < accountant.get_epsilon(1e-5)


def test_shuffled_reports_are_counted_with_noisy_sums() -> None:
    accountant = CertifiedAccountant(config(FIXED))
    reports = dp.ShuffledReports(users=1000, local_epsilon=1.0)
    accountant.compose(reports, count=3)
    alone = float(dp.account(reports * 3).epsilon(delta=1e-5).upper)
    assert accountant.get_epsilon(1e-5) == alone
    accountant.compose(event(5.0))
    assert accountant.get_epsilon(1e-5) > alone
    assert accountant.num_releases == 4
    with pytest.raises(dp.SharpDPError, match="adjacency"):
        CertifiedAccountant(config()).compose(reports)


def test_a_limit_is_looked_at_before_it_is_passed() -> None:
    accountant = CertifiedAccountant(config(max_epsilon=2.0))
    while not accountant.would_exceed(event()):
        accountant.compose(event())
    assert 0 < accountant.num_releases < 20
    assert accountant.get_epsilon(1e-5) <= 2.0
    assert accountant.would_exceed(event(1e6), max_epsilon=1e-9)
    assert not accountant.would_exceed(event(), max_epsilon=50.0, count=3)
    with pytest.raises(dp.InvalidArgument, match="max_epsilon"):
        CertifiedAccountant(config()).would_exceed(event())


def test_states_go_through_json_and_back() -> None:
    first = CertifiedAccountant(config(FIXED))
    first.compose(event(3.0), count=2)
    first.compose(event(3.0))
    first.compose(dp.ShuffledReports(users=1000, local_epsilon=1.0))
    state = json.loads(json.dumps(first.state_dict()))
    assert [entry["count"] for entry in state["releases"]] == [3, 1]
    second = CertifiedAccountant(config(FIXED))
    second.load_state_dict(state)
    assert second.get_epsilon(1e-5) == first.get_epsilon(1e-5)
    with pytest.raises(dp.InvalidArgument, match="state must"):
        CertifiedAccountant(config(FIXED, target_delta=1e-6)).load_state_dict(state)
    for broken in ({}, {**state, "releases": [{"count": 1}]}, {**state, "releases": 3}):
        with pytest.raises(WrongType):
            second.load_state_dict(broken)
    with pytest.raises(dp.InvalidArgument, match="count"):
        second.load_state_dict({**state, "releases": [{**state["releases"][0], "count": 0}]})
    assert second.num_releases == 4  # nothing of a broken state was taken


def test_events_that_do_not_fit_are_refused() -> None:
    accountant = CertifiedAccountant(config())
    for wrong in (event(population_size=999), None, 1.0):
        with pytest.raises(dp.InvalidArgument):
            accountant.compose(wrong)
    with pytest.raises(dp.InvalidArgument, match="count"):
        accountant.compose(event(), count=0)
    with pytest.raises(dp.InvalidArgument, match="delta"):
        accountant.get_epsilon(0.0)
    with pytest.raises(dp.InvalidArgument, match="epsilon"):
        accountant.get_delta(-1.0)
    with pytest.raises(WrongType, match="PrivacyConfig"):
        CertifiedAccountant({})  # type: ignore[arg-type]
    assert accountant.num_releases == 0


def example() -> Any:
    spec = util.spec_from_file_location("federation", ROOT / "examples" / "flower_federation.py")
    assert spec is not None
    assert spec.loader is not None
    federation = util.module_from_spec(spec)
    spec.loader.exec_module(federation)
    return federation


def reporting(change: Any = None) -> Any:
    """A grid of 200 nodes that report gradients of the example; `change` is given the replies."""
    federation = example()
    federation.TaskIdentity.run_id = federation.TaskIdentity.node_id = 1
    federation.TaskIdentity.task_id = 1

    class Reporting(federation.OneProcess):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.asked: list[list[int]] = []

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
            replies, nodes = [], []
            for message in messages:
                node = message.metadata.dst_node_id
                (weights,) = message.content["arrays"].to_numpy_ndarrays()
                gradient = (weights - federation.client(node, weights)) / 0.2
                replies.append(report(message, gradient, BALL))
                nodes.append(node)
            self.asked += [nodes] if nodes else []  # nobody is asked to evaluate
            return change(replies) if replies and change else replies

    return Reporting(), federation


BALL = PrivUnitBall(dimension=3, local_epsilon=4.0, radius=1.0)
CLIENTS = CLDPSGD(randomizer=BALL, users=100, population=200, rounds=12, learning_rate=0.5)


def trained(strategy: CLDPStrategy, grid: Any, rounds: int) -> np.ndarray:
    weights = [np.zeros(3)]
    strategy.start(
        grid,
        ArrayRecord([np.zeros(3)]),
        num_rounds=rounds,
        evaluate_fn=lambda _, arrays: weights.extend(arrays.to_numpy_ndarrays()),
    )
    return weights[-1]


def test_clients_who_randomize_their_own_gradients_train_a_model() -> None:
    grid, federation = reporting()
    strategy = CLDPStrategy(CLIENTS)
    with pytest.raises(dp.InvalidArgument, match="no round was started"):
        _ = strategy.guarantee
    weights = trained(strategy, grid, 12)
    assert np.linalg.norm(weights - federation.TRUTH) < 0.7 * np.linalg.norm(federation.TRUTH)
    assert strategy.guarantee.mechanism == CLIENTS.mechanism
    scheme = dp.FixedSizeBatches(dataset_size=200, batch_size=100, steps=12)
    drawn = [[node - 1 for node in nodes] for nodes in grid.asked]
    assert dp.audit.sampler(batches=drawn, scheme=scheme).consistent
    with pytest.raises(dp.InvalidArgument, match="all of which were started"):
        trained(strategy, grid, 1)


def test_reports_are_summed_in_another_order_than_they_arrive_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrived, summed = [], []

    def sent(replies: list[Any]) -> list[Any]:
        rows = [reply.content["report"].to_numpy_ndarrays()[0] for reply in replies]
        arrived.append(np.concatenate(rows))
        return replies

    mean = PrivUnitBall.mean
    monkeypatch.setattr(
        PrivUnitBall, "mean", lambda self, rows: (summed.append(rows), mean(self, rows))[1]
    )
    grid, _ = reporting(sent)
    trained(CLDPStrategy(CLIENTS), grid, 2)
    for before, after in zip(arrived, summed, strict=True):
        assert sorted(map(tuple, before)) == sorted(map(tuple, after))
        assert not np.array_equal(before, after)


def test_rounds_with_other_reports_than_those_asked_for_count_and_move_nothing() -> None:
    for change in (
        lambda replies: replies[:-1],
        lambda replies: [*replies[:-1], replies[0]],
    ):
        grid, _ = reporting(change)
        strategy = CLDPStrategy(CLIENTS)
        assert not trained(strategy, grid, 2).any()
        assert strategy.begun == 2
    grid, _ = reporting()
    small = CLDPSGD(randomizer=BALL, users=10, population=100, rounds=5)
    with pytest.raises(dp.InvalidArgument, match="100 nodes; got 200"):
        trained(CLDPStrategy(small), grid, 1)
    assert grid.asked == []
    with pytest.raises(WrongType, match="plan must be a CLDPSGD"):
        CLDPStrategy(CLIENTS.mechanism)  # type: ignore[arg-type]


def test_rounds_of_clients_stop_at_a_budget_and_go_on_after_a_restart() -> None:
    limit = float(dp.account(CLIENTS.begun(5)).epsilon(delta=1e-5).upper) * (1 + 1e-9)
    budget = dp.Budget(
        epsilon=limit, delta=1e-5, adjacency="replace-one", choice="fixed in advance"
    )
    grid, _ = reporting()
    strategy = CLDPStrategy(CLIENTS, budget=budget)
    assert strategy.last == 5
    with pytest.raises(dp.BudgetExceeded):
        trained(strategy, grid, 12)
    assert strategy.begun == len(grid.asked) == 5
    later = CLDPStrategy(CLIENTS, begun=11)
    trained(later, grid, 1)
    assert later.guarantee.mechanism == CLIENTS.mechanism


def test_a_server_that_begins_again_is_not_the_run_that_was_counted(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.jsonl", epsilon=100.0, delta=1e-5)
    strategy = CLDPStrategy(CLIENTS, budget=ledger, budget_key="spring")
    with pytest.raises(dp.InvalidArgument, match="Resume it, or choose another name"):
        CLDPStrategy(CLIENTS, budget=ledger, budget_key="spring")
    assert CLDPStrategy(CLIENTS, begun=3, budget=ledger, budget_key="spring").last == strategy.last
    with pytest.raises(dp.InvalidArgument, match="budget must be given before the run begins"):
        CLDPStrategy(CLIENTS, begun=3, budget=ledger, budget_key="summer")
    assert len(ledger.entries) == 1


def test_the_example_federation_stops_at_its_budget(capsys: pytest.CaptureFixture[str]) -> None:
    federation = example()
    accountant, weights = federation.main()
    lines = capsys.readouterr().out.splitlines()
    rounds = [line for line in lines if line.startswith("round")]
    assert len(rounds) == accountant.num_releases > 3
    assert accountant.get_epsilon(1e-5) <= federation.MAX_EPSILON
    assert accountant.would_exceed(event(federation.NOISE, federation.COHORT, federation.CLIENTS))
    assert np.linalg.norm(weights - federation.TRUTH) < np.linalg.norm(federation.TRUTH)
