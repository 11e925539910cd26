"""The accountant inside a real Opacus run, fed by our sampler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.errors import InvalidArgument, Unsupported, WrongType

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other

EXAMPLES = 60


def run(plan: dp.batches.BatchScheme, passes: int = 2) -> tuple[Any, Any]:
    """An Opacus engine after training on the batches of a scheme, and its accountant."""
    from opacus import PrivacyEngine

    from sharpdp.integrations.opacus import SchemeAccountant
    from sharpdp.integrations.torch import BatchSampler, loader

    torch.manual_seed(1)
    dataset = TensorDataset(torch.randn(EXAMPLES, 4), torch.randn(EXAMPLES, 1))
    model = nn.Linear(4, 1)
    engine = PrivacyEngine()
    sampler = BatchSampler(plan, key=7, steps_per_pass=plan.steps // passes)
    engine.accountant = SchemeAccountant(plan, loader=loader(dataset, sampler))
    model, optimizer, batches = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=engine.accountant.loader,
        noise_multiplier=1.5,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    for _ in range(passes):
        for inputs, targets in batches:
            optimizer.zero_grad()
            nn.MSELoss()(model(inputs), targets).backward()
            optimizer.step()
    return engine, engine.accountant


SIZES = {"dataset_size": EXAMPLES, "batch_size": 10, "epochs": 2}


@pytest.mark.parametrize(
    "plan",
    [dp.PoissonBatches(**SIZES), dp.DeterministicBatches(**SIZES), dp.BallsAndBins(**SIZES)],
    ids=lambda plan: plan.label,
)
def test_opacus_reports_the_scheme_that_ran(plan: dp.batches.BatchScheme) -> None:
    engine, accountant = run(plan, passes=2)
    whole = dp.account(dp.DPSGD(plan, noise_multiplier=1.5))
    assert len(accountant) == plan.steps
    assert engine.get_epsilon(delta=1e-5) == whole.epsilon(delta=1e-5).upper
    assert str(accountant.guarantee.adjacency) == "zero-out"


def watching(plan: Any, **options: Any) -> tuple[Any, Any]:
    """An accountant that watches the batches of its plan, and an iterator over them."""
    from sharpdp.integrations.opacus import SchemeAccountant
    from sharpdp.integrations.torch import BatchSampler, loader

    scheme = plan.batches if isinstance(plan, dp.DPSGD) else plan
    data = TensorDataset(torch.zeros(scheme.dataset_size, 2))
    accountant = SchemeAccountant(plan, loader=loader(data, BatchSampler(scheme, key=7), **options))
    return accountant, iter(accountant.loader)


def test_state_goes_through_opacus_and_back() -> None:
    from sharpdp.integrations.torch import BatchSampler

    plan = dp.DeterministicBatches(**SIZES)
    _, accountant = run(plan)
    again, _ = watching(plan)
    again.load_state_dict(accountant.state_dict())
    assert len(again) == len(accountant) == plan.steps
    assert again.get_epsilon(delta=1e-5) == accountant.get_epsilon(delta=1e-5)
    assert isinstance(accountant.loader.batch_sampler, BatchSampler)


def test_s1a_a_resumed_run_goes_on_where_its_sampler_does() -> None:
    plan = dp.BallsAndBins(**SIZES)
    accountant, batches = watching(plan)
    for _ in range(7):
        next(batches)
        accountant.step(noise_multiplier=1.5, sample_rate=1 / 6)
    state, place = accountant.state_dict(), accountant.loader.batch_sampler.state_dict()
    behind, batches = watching(plan)
    behind.load_state_dict(state)
    next(batches)
    with pytest.raises(dp.InvalidArgument, match="set the sampler to its state"):
        behind.step(noise_multiplier=1.5, sample_rate=1 / 6)
    resumed, _ = watching(plan)
    resumed.load_state_dict(state)
    resumed.loader.batch_sampler.load_state_dict(place)
    next(iter(resumed.loader))
    resumed.step(noise_multiplier=1.5, sample_rate=1 / 6)
    assert len(resumed) == 8


def test_what_no_bound_covers_is_refused() -> None:
    from sharpdp.integrations.opacus import SchemeAccountant

    plan = dp.PoissonBatches(sample_rate=0.1, steps=2, dataset_size=30)
    accountant, batches = watching(plan)
    assert accountant.get_epsilon(delta=1e-5) == 0.0
    with pytest.raises(dp.InvalidArgument, match="no step was taken"):
        accountant.guarantee.epsilon(delta=1e-5)
    next(batches)
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(dp.InvalidArgument, match=r"must stay 1\.0"):
        accountant.step(noise_multiplier=2.0, sample_rate=0.1)
    next(batches)
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(dp.InvalidArgument, match="at most the 2"):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(WrongType, match="plan must be a DPSGD or a batch scheme"):
        SchemeAccountant(0.1)  # type: ignore[arg-type]


def test_s1a_the_noise_of_the_plan_is_the_noise_of_the_run() -> None:
    scheme = dp.PoissonBatches(sample_rate=0.1, steps=2, dataset_size=30)
    accountant, batches = watching(dp.DPSGD(scheme, noise_multiplier=1.0))
    next(batches)
    with pytest.raises(dp.InvalidArgument, match=r"must stay 1\.0"):
        accountant.step(noise_multiplier=0.5, sample_rate=0.1)
    with pytest.raises(dp.InvalidArgument, match=r"with noise 1\.0 of the plan"):
        accountant.load_state_dict({**accountant.state_dict(), "history": [(0.5, 0.1, 1)]})


@pytest.mark.parametrize("told", [0.05, 0.2, 1 / 9, 1 / 11, 1.0])
def test_s1a_a_sample_rate_that_is_not_the_plans_is_refused(told: float) -> None:
    scheme = dp.PoissonBatches(sample_rate=0.1, steps=2, dataset_size=30)
    accountant, batches = watching(scheme)
    with pytest.raises(dp.InvalidArgument, match="sample_rate must be 1 / 10"):
        accountant.get_optimizer_hook_fn(told)
    next(batches)
    with pytest.raises(dp.InvalidArgument, match="sample_rate must be 1 / 10"):
        accountant.step(noise_multiplier=1.0, sample_rate=told)


def test_sample_rates_may_be_rounded_to_whole_batches() -> None:
    accountant, _ = watching(dp.PoissonBatches(dataset_size=100, batch_size=30, epochs=2))
    for told in (1 / 3, 1 / 4):  # 1 / 0.3, rounded down or up
        accountant.get_optimizer_hook_fn(told)
    with pytest.raises(dp.InvalidArgument, match="1 / 3 or 4"):
        accountant.get_optimizer_hook_fn(0.3)


def test_s12_a_divisor_of_zero_is_refused() -> None:
    """40 records in batches of 2 for 3 epochs: Opacus would divide by int(40 / 60)."""
    from opacus import PrivacyEngine

    from sharpdp.integrations.opacus import SchemeAccountant
    from sharpdp.integrations.torch import BatchSampler, loader

    plan = dp.BallsAndBins(dataset_size=40, batch_size=2, epochs=3)
    model, data = nn.Linear(2, 1), TensorDataset(torch.zeros(40, 2))
    engine = PrivacyEngine()
    engine.accountant = SchemeAccountant(plan)
    with pytest.raises(dp.InvalidArgument, match="sample_rate must be 1 / 20"):
        engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=loader(data, BatchSampler(plan)),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
        )


def test_s12_make_private_divides_by_the_batch_size_of_the_plan() -> None:
    from sharpdp.integrations.opacus import make_private

    plan = dp.DPSGD(dp.BallsAndBins(dataset_size=40, batch_size=2, epochs=3), noise_multiplier=1.0)
    model = nn.Linear(2, 1)
    _, optimizer, batches, engine = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        plan=plan,
        data=TensorDataset(torch.zeros(40, 2)),
        max_grad_norm=1.0,
    )
    assert optimizer.expected_batch_size == 2.0
    assert len(batches) == 20
    assert engine.accountant.scheme == plan.batches
    assert optimizer.noise_multiplier == 1.0


@pytest.mark.parametrize(
    "scheme",
    [
        dp.PoissonBatches(**SIZES),
        dp.PoissonBatches(sample_rate=0.1, steps=3, dataset_size=EXAMPLES),  # less than an epoch
        dp.ShuffledBatches(dataset_size=EXAMPLES, batch_size=25, epochs=2, drop_last=True),
        dp.BallsAndBins(**SIZES),
        dp.FixedSizeBatches(dataset_size=EXAMPLES, batch_size=25, steps=5),
        dp.RandomAllocation(steps=4, participations=2, epochs=2, dataset_size=EXAMPLES),
        dp.TruncatedPoissonBatches(**SIZES, physical_batch_size=12),
    ],
    ids=lambda scheme: scheme.describe(),
)
def test_s1a_make_private_trains_and_accounts_one_plan(scheme: Any) -> None:
    from sharpdp.integrations.opacus import make_private

    torch.manual_seed(1)
    layer = nn.Linear(4, 1)
    plan = dp.DPSGD(scheme, noise_multiplier=1.5)
    model, optimizer, batches, engine = make_private(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=0.1),
        plan=plan,
        data=TensorDataset(torch.randn(EXAMPLES, 4), torch.randn(EXAMPLES, 1)),
        max_grad_norm=1.0,
        key=7,
    )
    assert engine.get_epsilon(delta=1e-5) == 0.0
    before = layer.weight.detach().clone()
    while len(engine.accountant) < scheme.steps:
        for inputs, targets in batches:
            optimizer.zero_grad()
            nn.MSELoss()(model(inputs), targets).backward()
            optimizer.step()
    whole = dp.account(plan, adjacency="zero-out").epsilon(delta=1e-5)
    assert engine.get_epsilon(delta=1e-5) == whole.upper
    assert torch.isfinite(layer.weight).all()
    assert not torch.equal(before, layer.weight)
    with pytest.raises(dp.InvalidArgument, match="is over"):
        next(iter(batches))


def test_steps_of_the_optimizer_that_was_passed_are_refused() -> None:
    """It would move the model along gradients without clipping and noise, in one step or between two."""
    from sharpdp.integrations.opacus import make_private

    layer = nn.Linear(4, 1)
    own = torch.optim.SGD(layer.parameters(), lr=0.1)
    model, optimizer, batches, engine = make_private(
        module=layer,
        optimizer=own,
        plan=dp.DPSGD(dp.BallsAndBins(**SIZES), noise_multiplier=1.5),
        data=TensorDataset(torch.randn(EXAMPLES, 4), torch.randn(EXAMPLES, 1)),
        max_grad_norm=1.0,
    )
    for number, (inputs, targets) in enumerate(batches):
        before = layer.weight.detach().clone()
        optimizer.zero_grad()
        nn.MSELoss()(model(inputs), targets).backward()
        if number == 1:
            optimizer.step()
            before = layer.weight.detach().clone()
        with pytest.raises(dp.InvalidArgument, match="the one that make_private returned"):
            own.step()
        assert torch.equal(layer.weight, before)
        if number == 1:
            break
        optimizer.step()
    assert len(engine.accountant) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"plan": dp.BallsAndBins(**SIZES)}, "plan must be a DPSGD"),
        ({"noise_multiplier": 1.0}, "noise_multiplier must be left out"),
        ({"poisson_sampling": True}, "poisson_sampling must be left out"),
        ({"data_loader": None}, "data_loader must be left out"),
        ({"data": TensorDataset(torch.zeros(59, 4))}, "of dataset_size = 60"),
        ({"grad_sample_mode": "ghost_fsdp"}, "grad_sample_mode must be"),
        ({"module": nn.DataParallel(nn.Linear(4, 1))}, "must not be wrapped"),
        ({"loader_options": {"shuffle": True}}, "shuffle must be left out"),
    ],
)
def test_what_contradicts_the_plan_is_refused(options: dict[str, Any], words: str) -> None:
    from sharpdp.integrations.opacus import make_private

    layer = nn.Linear(4, 1)
    given = {
        "module": layer,
        "optimizer": torch.optim.SGD(layer.parameters(), lr=0.1),
        "plan": dp.DPSGD(dp.BallsAndBins(**SIZES), noise_multiplier=1.0),
        "data": TensorDataset(torch.zeros(EXAMPLES, 4)),
        "max_grad_norm": 1.0,
        **options,
    }
    with pytest.raises((dp.InvalidArgument, dp.Unsupported), match=words):
        make_private(**given)


def private_run(scheme: Any, key: int = 7, **options: Any) -> tuple[Any, Any, Any, Any]:
    from sharpdp.integrations.opacus import make_private

    torch.manual_seed(1)
    layer = nn.Linear(4, 1)
    return make_private(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=0.1),
        plan=dp.DPSGD(scheme, noise_multiplier=3.0),
        data=TensorDataset(torch.randn(EXAMPLES, 4), torch.randn(EXAMPLES, 1)),
        max_grad_norm=1.0,
        key=key,
        **options,
    )


def trained(model: Any, optimizer: Any, batches: Any, passes: int) -> None:
    for _ in range(passes):
        for inputs, targets in batches:
            optimizer.zero_grad()
            nn.MSELoss()(model(inputs), targets).backward()
            optimizer.step()


@pytest.mark.parametrize(
    "scheme",
    [
        dp.PoissonBatches(dataset_size=EXAMPLES, batch_size=10, epochs=9),
        dp.BallsAndBins(dataset_size=EXAMPLES, batch_size=10, epochs=9),
    ],
    ids=["Poisson", "balls-and-bins"],
)
def test_opacus_stops_where_the_budget_ends(scheme: Any, tmp_path: Path) -> None:
    plan = dp.DPSGD(scheme, noise_multiplier=3.0)
    most = float(dp.account(plan, adjacency="zero-out").epsilon(delta=1e-5).upper)
    ledger = dp.Ledger(
        tmp_path / "budget.jsonl",
        epsilon=0.6 * most,
        delta=1e-5,
        choice="fixed in advance",
        adjacency="zero-out",
    )
    model, optimizer, batches, engine = private_run(scheme, budget=ledger, budget_key="opacus")
    trained(model, optimizer, batches, passes=9)
    taken = len(engine.accountant)
    assert 0 < taken < scheme.steps
    assert engine.get_epsilon(delta=1e-5) <= 0.6 * most
    (entry,) = ledger.entries
    assert entry.mechanism == plan.stopped_after(taken)
    # one step more would have been too many; a whole epoch for batches that are drawn together
    assert ledger.epsilon < float(
        dp.account(plan.stopped_after(taken + 1), adjacency="zero-out").epsilon(delta=1e-5).upper
    )
    with pytest.raises(dp.BudgetExceeded):
        private_run(scheme, key=8, budget=ledger, budget_key="another")
    with pytest.raises(dp.InvalidArgument, match="batches must be drawn from a key of their own"):
        private_run(scheme, budget=ledger, budget_key="the same batches")


def test_a_run_that_begins_again_is_not_the_one_that_was_counted(tmp_path: Path) -> None:
    scheme = dp.PoissonBatches(dataset_size=EXAMPLES, batch_size=10, epochs=9)
    ledger = dp.Ledger(tmp_path / "budget.jsonl", epsilon=100.0, delta=1e-5, adjacency="zero-out")
    model, optimizer, batches, engine = private_run(scheme, budget=ledger, budget_key="opacus")
    # the same batches and fresh noise: nothing was resumed
    with pytest.raises(dp.InvalidArgument, match="Resume it, or choose another name"):
        private_run(scheme, budget=ledger, budget_key="opacus")
    for passes in (0, 1):  # also before its first step
        trained(model, optimizer, batches, passes=passes)
        *_, resumed = private_run(scheme)
        resumed.accountant.load_state_dict(engine.accountant.state_dict())
        assert resumed.accountant.count_in(ledger, key="opacus") == scheme.steps
    assert len(ledger.entries) == 1
    with pytest.raises(WrongType, match="run must be the name of a run"):
        resumed.accountant.load_state_dict({**engine.accountant.state_dict(), "run": 3})


def test_a_step_beyond_the_budget_is_refused_before_the_model_moves() -> None:
    scheme = dp.PoissonBatches(dataset_size=EXAMPLES, batch_size=10, epochs=9)
    model, optimizer, batches, engine = private_run(scheme)
    engine.accountant._counted = 2  # as if the loader were not ours, and went on
    with pytest.raises(dp.BudgetExceeded, match="the budget allows 2 steps"):
        trained(model, optimizer, batches, passes=1)
    assert len(engine.accountant) == 2


def test_a_budget_needs_the_noise_and_comes_first() -> None:
    from sharpdp.integrations.opacus import SchemeAccountant

    scheme = dp.PoissonBatches(dataset_size=EXAMPLES, batch_size=10, epochs=9)
    with pytest.raises(dp.InvalidArgument, match="plan must be a DPSGD to be counted"):
        SchemeAccountant(scheme).count_in(dp.Budget(epsilon=1.0, delta=1e-5))
    model, optimizer, batches, engine = private_run(scheme)
    trained(model, optimizer, batches, passes=1)
    with pytest.raises(dp.InvalidArgument, match="budget must be given before the run begins"):
        engine.accountant.count_in(dp.Budget(epsilon=1.0, delta=1e-5))


def test_users_with_several_records_take_fewer_steps() -> None:
    scheme = dp.PoissonBatches(dataset_size=EXAMPLES, batch_size=10, epochs=9)
    lengths = []
    for size in (1, 3):
        budget = dp.Budget(epsilon=2.5, delta=1e-5, adjacency="zero-out", unit="user")
        *_, engine = private_run(scheme, budget=budget, group_size=size)
        lengths.append(engine.accountant._counted)
    assert lengths[0] > lengths[1] > 0


@pytest.mark.parametrize("is_poisson", [True, False])
def test_a_run_that_has_ended_is_read_off_its_history_and_its_loader(*, is_poisson: bool) -> None:
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader

    from sharpdp.integrations.opacus import finished_run

    dataset = TensorDataset(torch.randn(EXAMPLES, 4), torch.randn(EXAMPLES, 1))
    model, engine = nn.Linear(4, 1), PrivacyEngine()
    model, optimizer, batches = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(dataset, batch_size=10, shuffle=True),
        noise_multiplier=1.5,
        max_grad_norm=1.0,
        poisson_sampling=is_poisson,
    )
    with pytest.raises(InvalidArgument, match="empty history"):
        finished_run(engine, batches)
    for _ in range(2):
        for inputs, targets in batches:
            optimizer.zero_grad()
            nn.MSELoss()(model(inputs), targets).backward()
            optimizer.step()
    scheme: dp.batches.BatchScheme = dp.ShuffledBatches(**SIZES)
    if is_poisson:  # at the rate that Opacus really uses
        scheme = dp.PoissonBatches(
            sample_rate=-(-(2**24) // 6) / 2**24, steps=12, dataset_size=EXAMPLES
        )
    found = finished_run(engine, batches)
    assert found == finished_run(engine.accountant, batches)
    assert found == dp.DPSGD(scheme, noise_multiplier=1.5)
    engine.accountant.history.append((2.0, 1 / 6, 7))
    if is_poisson:
        both = finished_run(engine, batches)
        assert isinstance(both, dp.Sequence)
        assert "7 steps" in both.describe()
    else:  # its last epoch is not whole
        with pytest.raises(Unsupported, match="whole epochs of 6 steps"):
            finished_run(engine, batches)
    with pytest.raises(InvalidArgument, match="must be the one of the run"):
        finished_run(engine, DataLoader(dataset, batch_size=20, shuffle=True))
    with pytest.raises(WrongType, match="PrivacyEngine"):
        finished_run(model, batches)
