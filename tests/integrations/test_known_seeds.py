"""Seeds that can be found by trying: orders that follow from them count as known, draws are refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

import sharpdp as dp
from sharpdp.integrations import torch as bridge
from sharpdp.integrations.torch import scheme_of
from tests.reference import gaussian

SIZE = 100
DATA = TensorDataset(torch.arange(SIZE))
KNOWN = dp.DeterministicBatches(dataset_size=SIZE, batch_size=30, epochs=2)
SHUFFLED = dp.ShuffledBatches(dataset_size=SIZE, batch_size=30, epochs=2)
SMALL = [0, 42, 2**32 - 1, -1, 1 - 2**32]
LARGE = [2**32, 2**63 - 1, -(2**32), -(2**63)]


def by_default(seed: int, **options: Any) -> Any:
    """A loader over torch's own generator, after the script has seeded it."""
    torch.manual_seed(seed)
    return DataLoader(DATA, batch_size=30, shuffle=True, **options)


def by_its_own(seed: int, **options: Any) -> Any:
    """A loader with a generator of its own."""
    given = torch.Generator().manual_seed(seed)
    return DataLoader(DATA, batch_size=30, shuffle=True, generator=given, **options)


def by_sampler(seed: int, **options: Any) -> Any:
    """A loader whose sampler has a generator."""
    order = RandomSampler(DATA, generator=torch.Generator().manual_seed(seed))
    return DataLoader(DATA, batch_size=30, sampler=order, **options)


def by_accelerate(seed: int, **options: Any) -> Any:
    """What Accelerate makes of a loader, with its own sampler."""
    prepared = pytest.importorskip("accelerate.data_loader", reason="needs accelerate")
    torch.manual_seed(2**60 + 1)
    plain = DataLoader(DATA, batch_size=30, shuffle=True, **options)
    return prepared.prepare_data_loader(plain, use_seedable_sampler=True, data_seed=seed)


Made = Callable[..., Any]
MADE = [by_default, by_its_own, by_sampler, by_accelerate]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("seed", SMALL)
def test_an_order_that_follows_from_a_small_seed_is_known(seed: int, made: Made) -> None:
    once, again = ([batch[0].tolist() for batch in made(seed)] for _ in range(2))
    assert once == again  # anyone can draw them
    with pytest.warns(UserWarning, match=rf'from seed {seed}, .*say so: seed="secret"'):
        found: Any = scheme_of(made(seed), epochs=2)
    assert found == KNOWN
    assert found.seed == seed
    assert f"known seed {seed};" in found.describe()
    assert any(f"seed {seed} " in sentence for sentence in found.guarantees)
    assert scheme_of(made(seed), epochs=2, seed="secret") == SHUFFLED


@pytest.mark.parametrize(
    ("seed", "made"),
    [
        *((seed, made) for seed in LARGE for made in MADE[:3]),
        (2**32, by_accelerate),  # which adds the number of the epoch
    ],
)
def test_larger_seeds_count_as_secret(seed: int, made: Made) -> None:
    assert scheme_of(made(seed), epochs=2) == SHUFFLED


def test_a_seed_of_the_operating_system_counts_as_secret() -> None:
    torch.seed()
    assert scheme_of(DataLoader(DATA, batch_size=30, shuffle=True), epochs=2) == SHUFFLED


def test_a_stored_order_does_not_ask_for_the_seed() -> None:
    torch.manual_seed(0)
    given = torch.Generator().manual_seed(0)
    stored: Any = scheme_of(DataLoader(DATA, batch_size=30, generator=given), epochs=2)
    assert stored == KNOWN
    assert stored.seed is None


@pytest.mark.filterwarnings("ignore:the order")
def test_generators_are_followed_wherever_they_are_used() -> None:
    """A generator of two loaders, and seeds of workers, which draw no batches."""
    shared = torch.Generator().manual_seed(5)
    for _ in range(2):
        loader = DataLoader(DATA, batch_size=30, shuffle=True, generator=shared)
        assert len(list(loader.batch_sampler)) == 4  # type: ignore[arg-type]
        assert scheme_of(loader, epochs=2) == KNOWN
    for workers in ({"worker_init_fn": torch.manual_seed}, {"num_workers": 2}):
        assert scheme_of(DataLoader(DATA, 30, shuffle=True, **workers), epochs=2) == SHUFFLED
    seeded_again = torch.Generator().manual_seed(5)
    seeded_again.manual_seed(2**40)  # what was drawn before cannot be seen
    loader = DataLoader(DATA, batch_size=30, shuffle=True, generator=seeded_again)
    assert scheme_of(loader, epochs=2) == SHUFFLED


def test_the_seed_must_be_secret_or_left_out() -> None:
    for seed in ("public", 0, True):
        with pytest.raises(dp.InvalidArgument, match='seed must be "secret" or None'):
            scheme_of(by_default(0), epochs=2, seed=seed)  # type: ignore[arg-type]
    never = DataLoader(DATA, batch_size=30, shuffle=True, generator=torch.Generator())
    with pytest.raises(dp.Unsupported, match="never seeded"):
        scheme_of(never, epochs=2, seed="secret")


def uniform(seed: int) -> Any:
    from opacus.data_loader import DPDataLoader

    given = torch.Generator().manual_seed(seed)
    return DPDataLoader(DATA, sample_rate=0.25, generator=given)


def weighted(seed: int) -> Any:
    given = torch.Generator().manual_seed(seed)
    return DataLoader(
        DATA, batch_size=25, sampler=WeightedRandomSampler([2.0] * SIZE, SIZE, generator=given)
    )


def replaced(seed: int) -> Any:
    given = torch.Generator().manual_seed(seed)
    order = RandomSampler(DATA, replacement=True, generator=given)
    return DataLoader(DATA, batch_size=25, sampler=order)


@pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other
@pytest.mark.parametrize("made", [uniform, weighted, replaced])
def test_draws_that_follow_from_a_small_seed_are_refused(made: Made) -> None:
    once, again = (list(made(7).batch_sampler) for _ in range(2))
    assert once == again
    with pytest.raises(dp.Unsupported, match=r'draws with seed 7, .*seed="secret".*BatchSampler'):
        scheme_of(made(7), epochs=2)
    assert scheme_of(made(7), epochs=2, seed="secret") == scheme_of(made(2**40), epochs=2)


def test_draws_with_equal_weights_are_those_of_random_sampler() -> None:
    """Its batches, too, must have one size."""
    expected = dp.FixedSizeBatches(dataset_size=SIZE, batch_size=25, steps=8, replacement=True)
    assert scheme_of(weighted(2**40), epochs=2) == scheme_of(replaced(2**40), epochs=2) == expected
    ragged = RandomSampler(DATA, replacement=True)
    with pytest.raises(dp.Unsupported, match="of several sizes from num_samples=100"):
        scheme_of(DataLoader(DATA, batch_size=30, sampler=ragged), epochs=2)
    dropping = DataLoader(DATA, batch_size=30, sampler=ragged, drop_last=True)
    assert scheme_of(dropping, epochs=2).steps == 6
    with pytest.raises(dp.Unsupported, match="draws from 5 indices"):
        scheme_of(DataLoader(DATA, sampler=RandomSampler(range(5), replacement=True)), epochs=2)


@pytest.mark.filterwarnings("ignore:the order")
def test_known_orders_that_drop_examples() -> None:
    """The lower end is that of an example that is always used; if there may be none, it is refused."""
    found: Any = scheme_of(by_default(0, drop_last=True), epochs=2)
    assert found == dp.DeterministicBatches(dataset_size=90, batch_size=30, epochs=2)
    assert found.steps == 6
    with pytest.raises(dp.Unsupported, match="none is used in all epochs"):
        scheme_of(by_default(0, drop_last=True), epochs=20)
    assert scheme_of(by_default(0), epochs=20).steps == 80


@pytest.mark.filterwarnings("ignore:the order")
def test_the_answer_is_that_of_the_known_order_and_names_the_seed() -> None:
    run = dp.DPSGD(scheme_of(by_default(271828182), epochs=2), noise_multiplier=1.5)
    answer = dp.account(run)
    epsilon, truth = answer.epsilon(delta=1e-5), float(gaussian.epsilon(1.5, 2, 1e-5))
    assert epsilon.lower <= truth <= epsilon.upper <= 1.001 * epsilon.lower
    assert any(
        "noise does not follow from seed 271828182" in clause for clause in answer.holds_when
    )
    report = json.loads(answer.report(format="json"))
    assert any("seed 271828182" in line for line in report["checklist"])
    assert report["plan"]["mechanism"]["batches"]["seed"] == 271828182
    assert "the seed of the noise stay internal" in report["checklist"][-1]
    secret = dp.DPSGD(
        scheme_of(by_default(271828182), epochs=2, seed="secret"), noise_multiplier=1.5
    )
    assert "271828182" not in dp.account(secret).report()
    again = dp.plans.Plan.from_dict(report["plan"]).mechanism
    assert again == run
    assert again.batches.seed == 271828182  # type: ignore[union-attr]


def test_theorems_that_need_the_same_order_in_every_epoch_refuse_a_seed() -> None:
    seeded = dp.DeterministicBatches(dataset_size=SIZE, batch_size=30, epochs=2, seed=7)
    strategy = dp.BandedStrategy(coefficients=(1.0, 0.5))
    with pytest.raises(dp.InvalidArgument, match=r"seed 7\. ShuffledBatches"):
        dp.CorrelatedNoise(seeded, strategy=strategy, noise_multiplier=1.0)
    with pytest.raises(dp.InvalidArgument, match=r"seed 7\. DPSGD"):
        dp.LastIterate(seeded, noise_multiplier=1.0)
    run = dp.DPSGD(seeded, noise_multiplier=1.0)
    with pytest.raises(dp.SharpDPError, match="add/remove"):  # all others would change places
        dp.account(run, adjacency="add/remove")
    assert repr(KNOWN) == "DeterministicBatches(dataset_size=100, batch_size=30, epochs=2)"
    assert eval(repr(seeded), {"DeterministicBatches": dp.DeterministicBatches}).seed == 7
    for wrong, kind in (
        (True, dp.errors.WrongType),
        (0.5, dp.errors.WrongType),
        (2**63, ValueError),
    ):
        with pytest.raises(kind, match="seed must be"):
            dp.DeterministicBatches(dataset_size=1, batch_size=1, epochs=1, seed=wrong)  # type: ignore[arg-type]


def test_an_audit_of_known_orders_looks_for_whole_epochs() -> None:
    torch.manual_seed(0)
    batches = [batch for _ in range(2) for batch in one_epoch()]
    seeded = dp.DeterministicBatches(dataset_size=SIZE, batch_size=30, epochs=2, seed=0)
    assert dp.audit.sampler(batches=batches, scheme=seeded).consistent
    assert not dp.audit.sampler(batches=batches, scheme=KNOWN).consistent
    batches[1][0] = batches[0][0]
    assert not dp.audit.sampler(batches=batches, scheme=seeded).consistent


def one_epoch() -> list[list[int]]:
    return list(torch.utils.data.BatchSampler(RandomSampler(DATA), 30, drop_last=False))


def test_a_second_pass_says_how_to_make_passes_of_one_epoch() -> None:
    epochs = dp.BallsAndBins(dataset_size=SIZE, batch_size=25, epochs=2)
    for scheme, given in (
        (epochs, "scheme.steps_per_epoch"),
        (dp.PoissonBatches(dataset_size=SIZE, batch_size=25, steps=4), "..."),
    ):
        loader = bridge.loader(DATA, bridge.BatchSampler(scheme, key=7))
        list(loader)
        with pytest.raises(dp.InvalidArgument, match=rf"steps_per_pass={given}\)"):
            list(loader)
    passes = bridge.loader(DATA, bridge.BatchSampler(epochs, steps_per_pass=epochs.steps_per_epoch))
    assert [len(list(passes)) for _ in range(2)] == [4, 4]
    with pytest.raises(dp.InvalidArgument, match="a scheme with more steps"):
        list(passes)


def test_a_loader_in_place_of_data_is_told_apart() -> None:
    sampler = bridge.BatchSampler(dp.PoissonBatches(dataset_size=SIZE, batch_size=25, steps=4))
    with pytest.raises(
        dp.InvalidArgument, match=r"Pass the data set of the loader: loader\.dataset"
    ):
        bridge.loader(DataLoader(DATA), sampler)


def trained(seed: int, *, poisson_sampling: bool) -> tuple[Any, Any]:
    """Opacus' engine and loader after a script that seeds torch, as most do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus and torch warn about each other
        from opacus import PrivacyEngine

        torch.manual_seed(seed)
        data = TensorDataset(torch.randn(60, 4), torch.randn(60, 1))
        model, engine = nn.Linear(4, 1), PrivacyEngine()
        model, optimizer, batches = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data, batch_size=10, shuffle=True),
            noise_multiplier=1.5,
            max_grad_norm=1.0,
            poisson_sampling=poisson_sampling,
        )
        for inputs, targets in (batch for _ in range(2) for batch in batches):
            optimizer.zero_grad()
            nn.MSELoss()(model(inputs), targets).backward()
            optimizer.step()
    return engine, batches


def test_finished_runs_of_opacus_know_the_seed() -> None:
    from sharpdp.integrations.opacus import finished_run

    sizes = {"dataset_size": 60, "batch_size": 10, "epochs": 2}
    engine, batches = trained(0, poisson_sampling=False)
    with pytest.warns(UserWarning, match="from seed 0"):
        found: Any = finished_run(engine, batches)
    assert found == dp.DPSGD(dp.DeterministicBatches(**sizes), noise_multiplier=1.5)
    assert found.batches.seed == 0
    secret = dp.DPSGD(dp.ShuffledBatches(**sizes), noise_multiplier=1.5)
    assert finished_run(engine, batches, seed="secret") == secret
    engine, batches = trained(0, poisson_sampling=True)
    with pytest.raises(dp.Unsupported, match="draws with seed 0"):
        finished_run(engine, batches)
    assert "12 steps" in finished_run(engine, batches, seed="secret").describe()


@pytest.mark.filterwarnings("ignore:the order")
def test_finished_runs_that_drop_too_many_examples_are_refused() -> None:
    from sharpdp.integrations.opacus import finished_run

    accountant = SimpleNamespace(history=[(1.5, 1 / 3, 60)])  # 20 epochs of 3 batches
    with pytest.raises(dp.Unsupported, match="none is used in all epochs"):
        finished_run(accountant, by_default(0, drop_last=True))


def test_an_accountant_knows_the_seed() -> None:
    from sharpdp.integrations.opacus import SECRET_ORDER, SchemeAccountant

    plan = dp.DPSGD(SHUFFLED, noise_multiplier=1.5)
    with (
        pytest.warns(UserWarning, match="from seed 0"),
        pytest.raises(dp.InvalidArgument, match="known seed 0"),
    ):
        SchemeAccountant(plan, loader=by_default(0))
    assert SECRET_ORDER in SchemeAccountant(plan, loader=by_default(0), seed="secret")._conditions()
    known = dp.DPSGD(KNOWN, noise_multiplier=1.5)
    with pytest.warns(UserWarning, match="from seed 0"):
        accountant = SchemeAccountant(known, loader=by_default(0))
    assert SECRET_ORDER not in accountant._conditions()


def test_make_private_names_its_arguments() -> None:
    from sharpdp.integrations.opacus import make_private

    words = r"make_private\(module=..., optimizer=..., plan=..., data=..., max_grad_norm=...\)"
    with pytest.raises(TypeError, match=words):
        make_private(nn.Linear(1, 1), None, DataLoader(DATA), noise_multiplier=1.0)  # type: ignore[misc, call-arg]


def prepare(loader: Any, **options: Any) -> Any:
    prepared = pytest.importorskip("accelerate.data_loader", reason="needs accelerate")
    return prepared.prepare_data_loader(loader, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_processes": 2, "process_index": 0}, "each of 2 processes .*shard=shard_of_rank"),
        ({"dispatch_batches": True, "put_on_device": True}, "dispatch_batches=False"),
    ],
)
def test_loaders_that_accelerate_shares_out_are_refused(options: Any, words: str) -> None:
    with pytest.raises(dp.Unsupported, match=words):
        scheme_of(prepare(DataLoader(DATA, 30, shuffle=True), **options), epochs=2)


def test_one_process_gets_the_batches_of_the_loader() -> None:
    """Unless Accelerate fills up the last one, or leaves out the first."""
    prepared = pytest.importorskip("accelerate.data_loader", reason="needs accelerate")
    assert scheme_of(prepare(DataLoader(DATA, 30, shuffle=True)), epochs=2) == SHUFFLED
    with pytest.raises(dp.Unsupported, match="collate function doubled"):
        scheme_of(prepare(DataLoader(DATA, 30, shuffle=True, collate_fn=doubled)), epochs=2)
    with pytest.raises(dp.Unsupported, match="SkipBatchSampler"):
        scheme_of(prepared.skip_first_batches(prepare(DataLoader(DATA, 30)), 2), epochs=2)
    for size, options in ((30, {}), (25, {}), (30, {"even_batches": False})):
        inner = torch.utils.data.BatchSampler(RandomSampler(DATA), size, drop_last=False)
        shard = prepared.BatchSamplerShard(inner, **options)
        loader: Any = DataLoader(DATA, batch_sampler=shard)
        is_once = sum(len(batch) for batch in shard) == SIZE
        assert is_once == (size == 25 or bool(options))
        if is_once:
            assert scheme_of(loader, epochs=2) == dp.ShuffledBatches(
                dataset_size=SIZE, batch_size=size, epochs=2
            )
        else:
            with pytest.raises(dp.Unsupported, match="fills up the last batch"):
                scheme_of(loader, epochs=2)


def doubled(examples: list[Any]) -> Any:
    return torch.utils.data.default_collate(examples + examples)
