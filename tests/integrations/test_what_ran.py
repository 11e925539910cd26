"""Plans against the loaders that ran, in real Opacus training: what does not match is refused."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

import sharpdp as dp
from sharpdp.integrations.torch import BatchSampler, loader
from tests.docs.pages import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other

PAGE = ROOT / "docs" / "how-to" / "opacus.md"
ROW = re.compile(
    r"^\| `(dp\.[^|]+)` \| `([^|]+)` \| (True|False) \| (epsilon [\d.]+|refused: [^|]+) \|$"
)
NOISE, DELTA = 0.8, 1e-5
FEWEST_ROWS = 20


def mixed(examples: list[Any]) -> Any:
    """A collate function that puts the last example into every place."""
    return torch.utils.data.default_collate([examples[-1]] * len(examples))


NAMES: dict[str, Any] = {
    "BatchSampler": BatchSampler,
    "DataLoader": DataLoader,
    "RandomSampler": RandomSampler,
    "WeightedRandomSampler": WeightedRandomSampler,
    "data": TensorDataset(torch.ones(600, 2), torch.ones(600, 1)),
    "dp": dp,
    "loader": loader,
    "mixed": mixed,
    "sizes": {"dataset_size": 600, "batch_size": 60, "epochs": 2},
    "torch": torch,
}


def rows() -> list[tuple[str, str, str, str]]:
    found = (ROW.match(line) for line in PAGE.read_text("utf-8").splitlines())
    return [row.groups() for row in found if row]  # type: ignore[misc]


def privately(accountant: Any, data_loader: Any, *, poisson: bool = False) -> tuple[Any, ...]:
    """Opacus' engine with an accountant, and what its make_private returns."""
    from opacus import PrivacyEngine

    engine, model = PrivacyEngine(), nn.Linear(2, 1)
    engine.accountant = accountant
    private = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=data_loader,
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
        poisson_sampling=poisson,
    )
    return engine, *private


def train(model: Any, optimizer: Any, batches: Any) -> None:
    """One pass."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.MSELoss()(model(inputs), targets).backward()
        optimizer.step()


def certified(plan: dp.batches.BatchScheme, data_loader: Any, *, poisson: bool) -> float:
    """What the engine answers after two passes over the loader."""
    from sharpdp.integrations.opacus import SchemeAccountant

    engine, model, optimizer, batches = privately(
        SchemeAccountant(plan), data_loader, poisson=poisson
    )
    batches = engine.accountant.watch(batches)
    train(model, optimizer, batches)
    train(model, optimizer, batches)
    return float(engine.get_epsilon(delta=DELTA))


def test_the_table_is_long() -> None:
    assert len(rows()) >= FEWEST_ROWS


@pytest.mark.parametrize(("plan", "given", "poisson", "said"), rows())
def test_s1a_a_row_of_the_table_is_what_happens(
    plan: str, given: str, poisson: str, said: str
) -> None:
    scheme, data_loader = eval(plan, NAMES), eval(given, NAMES)
    if said.startswith("refused"):
        with pytest.raises((dp.InvalidArgument, dp.Unsupported)):
            certified(scheme, data_loader, poisson=poisson == "True")
        return
    exact = dp.account(dp.DPSGD(scheme, noise_multiplier=NOISE)).epsilon(delta=DELTA)
    found = certified(scheme, data_loader, poisson=poisson == "True")
    assert found == pytest.approx(exact.upper, rel=1e-5)
    assert f"epsilon {found:.2f}" == said


@pytest.mark.parametrize(
    ("given", "examples", "poisson", "ran"),
    [
        (dp.PoissonBatches, 600, False, dp.ShuffledBatches),
        (dp.BallsAndBins, 600, False, dp.ShuffledBatches),
        (dp.PoissonBatches, 6000, True, dp.PoissonBatches),
    ],
)
def test_s1a_what_is_certified_is_not_less_than_what_ran(
    given: Any, examples: int, poisson: bool, ran: Any
) -> None:
    """Through calls of a15ee80 alone, without a loader that was watched."""
    from sharpdp.integrations.opacus import SchemeAccountant

    plan = given(**NAMES["sizes"] | {"dataset_size": examples})
    try:
        engine, *private = privately(SchemeAccountant(plan), shuffled(), poisson=poisson)
        for _ in range(2):
            train(*private)
        found = engine.get_epsilon(delta=DELTA)
    except dp.InvalidArgument:
        return
    truth = dp.account(dp.DPSGD(ran(**NAMES["sizes"]), noise_multiplier=NOISE))
    assert found >= truth.epsilon(delta=DELTA).lower


def test_s1a_no_mismatch_of_a_plan_and_a_loader_passes() -> None:
    """Every pair from the table: certified where a row says so, refused everywhere else."""
    says = {(plan, given, flag): said for plan, given, flag, said in rows()}
    # the same batches by another way, for which the table has no row
    same = {("dp.ShuffledBatches(**sizes)", False), ("dp.PoissonBatches(**sizes)", True)}
    plans, loaders = ({row[place] for row in says} for place in (0, 1))
    for plan, given, flag in itertools.product(sorted(plans), sorted(loaders), ("True", "False")):
        if says.get((plan, given, flag), "").startswith("epsilon"):
            continue
        try:
            answer = certified(eval(plan, NAMES), eval(given, NAMES), poisson=flag == "True")
        except (dp.InvalidArgument, dp.Unsupported):
            continue
        expected = dp.account(dp.DPSGD(eval(plan, NAMES), noise_multiplier=NOISE))
        assert (plan, flag == "True") in same, (plan, given, flag)
        assert "batch_size=60" in given or "steps_per_pass=10" in given
        assert answer == pytest.approx(expected.epsilon(delta=DELTA).upper, rel=1e-5)


SHUFFLED = dp.ShuffledBatches(**NAMES["sizes"])


def shuffled() -> Any:
    return DataLoader(NAMES["data"], batch_size=60, shuffle=True)


def prepared(plan: Any, given: Any, *, watch: bool = True) -> tuple[Any, ...]:
    """Engine, model, optimizer and loader of a run that is ready to start."""
    from sharpdp.integrations.opacus import SchemeAccountant

    engine, model, optimizer, batches = privately(SchemeAccountant(plan), given)
    if watch:
        batches = engine.accountant.watch(batches, module=model, optimizer=optimizer)
    return engine, model, optimizer, batches


def test_s1a_an_accountant_that_saw_no_loader_certifies_nothing() -> None:
    engine, model, optimizer, batches = prepared(SHUFFLED, shuffled(), watch=False)
    with pytest.raises(dp.InvalidArgument, match="must have seen the loader"):
        engine.get_epsilon(delta=DELTA)
    before = model.weight.detach().clone() if hasattr(model, "weight") else None
    with pytest.raises(dp.InvalidArgument, match="must have seen the loader before the first step"):
        train(model, optimizer, batches)
    assert before is None or torch.equal(before, model.weight)
    assert len(engine.accountant) == 0
    with pytest.raises(dp.InvalidArgument, match="must have seen the loader"):
        engine.get_epsilon(delta=DELTA)


def test_s1a_batches_of_another_loader_are_no_steps() -> None:
    engine, model, optimizer, batches = prepared(SHUFFLED, shuffled())
    next(iter(batches))  # counted, and spent on nothing
    inputs, targets = next(iter(shuffled()))
    nn.MSELoss()(model(inputs), targets).backward()
    optimizer.step()  # one batch was handed out, one step is taken: nobody can tell
    with pytest.raises(dp.InvalidArgument, match="must use a new batch of the loader"):
        train(model, optimizer, shuffled())
    assert len(engine.accountant) == 1


def test_s1a_a_loader_that_opacus_replaced_is_not_the_one_that_was_seen() -> None:
    from sharpdp.integrations.opacus import SchemeAccountant

    accountant = SchemeAccountant(SHUFFLED, loader=shuffled())
    _, model, optimizer, batches = privately(accountant, accountant.loader, poisson=True)
    with pytest.raises(dp.InvalidArgument, match="poisson_sampling=True"):
        train(model, optimizer, batches)


def test_s1a_an_accountant_set_too_late_does_not_answer_zero() -> None:
    from opacus.accountants import RDPAccountant

    from sharpdp.integrations.opacus import SchemeAccountant

    engine, model, optimizer, batches = privately(RDPAccountant(), shuffled())
    engine.accountant = SchemeAccountant(SHUFFLED)
    train(model, optimizer, engine.accountant.watch(batches))
    with pytest.raises(dp.InvalidArgument, match="10 batches and no step"):
        engine.get_epsilon(delta=DELTA)


def test_s1a_passes_that_are_broken_off_count_as_whole_ones() -> None:
    """One step of each of two epochs: a record may be in both, which one epoch would not allow."""
    engine, model, optimizer, batches = prepared(SHUFFLED, shuffled())
    for _ in range(2):
        train(model, optimizer, itertools.islice(batches, 1))
    whole = dp.account(dp.DPSGD(SHUFFLED, noise_multiplier=NOISE)).epsilon(delta=DELTA)
    assert len(engine.accountant) == 2
    assert engine.get_epsilon(delta=DELTA) == whole.upper
    with pytest.raises(dp.InvalidArgument, match="counts as a whole one"):
        train(model, optimizer, batches)


def test_s1a_a_batch_without_a_step_is_refused() -> None:
    _, model, optimizer, batches = prepared(SHUFFLED, shuffled())
    with pytest.raises(dp.InvalidArgument, match="2 batches for one step"):
        train(model, optimizer, itertools.islice(batches, 1, None, 2))


def test_s1a_batches_added_up_by_virtual_steps_are_refused() -> None:
    _, model, optimizer, batches = prepared(SHUFFLED, shuffled())
    optimizer.signal_skip_step(do_skip=True)
    with pytest.raises(dp.InvalidArgument, match="2 batches for one step"):
        train(model, optimizer, batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_s1a_virtual_steps_of_a_memory_manager_count_once(workers: int) -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    sampler = BatchSampler(SHUFFLED, key=7, steps_per_pass=10)
    given = loader(NAMES["data"], sampler, num_workers=workers)
    engine, model, optimizer, batches = prepared(SHUFFLED, given)
    for _ in range(2):
        with BatchMemoryManager(
            data_loader=batches, max_physical_batch_size=25, optimizer=optimizer
        ) as parts:
            train(model, optimizer, parts)
    whole = dp.account(dp.DPSGD(SHUFFLED, noise_multiplier=NOISE)).epsilon(delta=DELTA)
    assert len(engine.accountant) == 20
    assert engine.get_epsilon(delta=DELTA) == whole.upper


def test_s1a_batches_added_up_behind_worker_processes_are_refused() -> None:
    sampler = BatchSampler(SHUFFLED, key=7, steps_per_pass=10)
    given = loader(NAMES["data"], sampler, num_workers=1)
    _, model, optimizer, batches = prepared(SHUFFLED, given)
    optimizer.signal_skip_step(do_skip=True)
    with pytest.raises(dp.InvalidArgument, match="batches for one step"):
        train(model, optimizer, batches)


def test_s1a_steps_that_are_no_noisy_sum_are_refused() -> None:
    from opacus import PrivacyEngine

    from sharpdp.integrations.opacus import SchemeAccountant

    engine, layer = PrivacyEngine(), nn.Linear(2, 1)
    engine.accountant = SchemeAccountant(SHUFFLED)
    model, optimizer, batches = engine.make_private(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=0.1),
        data_loader=shuffled(),
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
        poisson_sampling=False,
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=10.0,
    )
    with pytest.raises(dp.Unsupported, match="AdaClipDPOptimizer"):
        train(model, optimizer, engine.accountant.watch(batches))
