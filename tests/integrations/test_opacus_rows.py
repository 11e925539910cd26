"""What reaches the model in a run with Opacus is the batch that was handed out, once, and with noise."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sharpdp as dp
from sharpdp.randomness.given_secret import SEEDED

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other

SIZE = 60
INPUTS, TARGETS = torch.randn(SIZE, 4), torch.arange(SIZE) % 2
DATA = TensorDataset(INPUTS, TARGETS)
POISSON = dp.PoissonBatches(dataset_size=SIZE, batch_size=6, steps=10)
BINS = dp.BallsAndBins(dataset_size=SIZE, batch_size=6, epochs=2)
SHUFFLED = dp.ShuffledBatches(dataset_size=SIZE, batch_size=6, epochs=2)
WORKERS: dict[str, Any] = {"num_workers": 2, "prefetch_factor": 8}
MODES = ("hooks", "functorch", "ew", "ghost")


def private(
    model: nn.Module | None = None, scheme: Any = POISSON, mode: str = "hooks", **options: Any
) -> tuple[Any, ...]:
    """Module, optimizer, loss, loader and engine of a run."""
    from sharpdp.integrations.opacus import make_private

    inside = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)) if model is None else model
    criterion = {"criterion": nn.CrossEntropyLoss()} if mode == "ghost" else {}
    module, optimizer, *loss, batches, engine = make_private(
        module=inside,
        optimizer=torch.optim.SGD(inside.parameters(), lr=0.1),
        plan=dp.DPSGD(scheme, noise_multiplier=1.0),
        **{"data": DATA, "max_grad_norm": 1.0, "key": 7, "grad_sample_mode": mode}
        | criterion
        | options,
    )
    return module, optimizer, loss[0] if loss else nn.CrossEntropyLoss(), batches, engine


Change = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def train(run: tuple[Any, ...], change: Change = lambda x, y: (x, y)) -> None:
    module, optimizer, loss, batches, _ = run
    for inputs, targets in batches:
        optimizer.zero_grad()
        x, y = change(inputs, targets)
        loss(module(x), y).backward()
        optimizer.step()


def state(module: Any) -> list[Tensor]:
    return [value.detach().clone() for value in module.state_dict().values()]


def refused(
    run: tuple[Any, ...], words: str, change: Change = lambda x, y: (x, y), steps: int = 0
) -> None:
    """Training raises, and not a parameter has moved since the last step that was counted."""
    module, *_, engine = run
    before = state(module)
    with pytest.raises(dp.SharpDPError, match=words):
        train(run, change)
    assert len(engine.accountant) == steps
    assert steps or all(map(torch.equal, before, state(module)))


@pytest.mark.parametrize("scheme", [POISSON, BINS, SHUFFLED], ids=lambda scheme: scheme.label)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [{}, WORKERS], ids=["alone", "workers"])
def test_runs_of_every_mode_take_all_their_steps(
    scheme: Any, mode: str, workers: dict[str, Any]
) -> None:
    run = private(scheme=scheme, mode=mode, loader_options=workers)
    while len(run[-1].accountant) < scheme.steps:
        train(run)
    whole = dp.account(dp.DPSGD(scheme, noise_multiplier=1.0), adjacency="zero-out")
    assert run[-1].get_epsilon(delta=1e-5) == whole.epsilon(delta=1e-5).upper


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scheme", [POISSON, SHUFFLED], ids=lambda scheme: scheme.label)
def test_b5_copies_of_examples_are_refused(scheme: Any, mode: str) -> None:
    """As by an augmentation that adds changed copies to the batch."""
    run = private(scheme=scheme, mode=mode)
    refused(
        run,
        r"gradients of \d+ examples for a batch of",
        lambda x, y: (torch.cat([x, x + 0.1]), y.repeat(2)),
    )


@pytest.mark.parametrize("mode", MODES)
def test_b5_a_step_on_all_data_is_refused(mode: str) -> None:
    run = private(mode=mode)
    refused(run, "gradients of 60 examples for a batch of", lambda *_: (INPUTS, TARGETS))


def test_b5_parts_of_a_batch_are_refused() -> None:
    run = private(scheme=SHUFFLED)
    refused(run, "gradients of 5 examples for a batch of 6", lambda x, y: (x[1:], y[1:]))


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
@pytest.mark.parametrize("scheme", [POISSON, SHUFFLED], ids=lambda scheme: scheme.label)
@pytest.mark.parametrize("together", [2, 10])
@pytest.mark.parametrize("workers", [{}, WORKERS], ids=["alone", "workers"])
def test_b5_batches_that_are_added_up_by_virtual_steps_are_refused(
    scheme: Any, mode: str, together: int, workers: dict[str, Any]
) -> None:
    run = private(scheme=scheme, mode=mode, loader_options=workers)
    for _ in range(together - 1):
        run[1].signal_skip_step(do_skip=True)
    refused(run, f"{together} batches for one step")


@pytest.mark.parametrize("workers", [{}, WORKERS], ids=["alone", "workers"])
def test_b5_a_batch_without_a_step_is_refused(workers: dict[str, Any]) -> None:
    """Batches of one size, of which lengths cannot tell that one was left out."""
    module, optimizer, loss, batches, engine = private(scheme=SHUFFLED, loader_options=workers)

    def others() -> Iterator[Any]:
        yield from (batch for number, batch in enumerate(batches) if number != 1)

    refused((module, optimizer, loss, others(), engine), "2 batches for one step", steps=1)


@pytest.mark.parametrize("workers", [{}, WORKERS], ids=["alone", "workers"])
def test_b5_a_second_step_on_one_batch_is_refused(workers: dict[str, Any]) -> None:
    module, optimizer, loss, batches, engine = private(scheme=SHUFFLED, loader_options=workers)
    inputs = iter(batches)
    batch = next(inputs)
    twice = (module, optimizer, loss, [batch, batch], engine)
    refused(twice, "a step must use a new batch of the loader", steps=1)


FEW: dict[str, Any] = {"num_workers": 1, "prefetch_factor": 2}


@pytest.mark.parametrize("is_kept", [False, True])
def test_b5_batches_that_were_loaded_ahead_are_not_left_out(*, is_kept: bool) -> None:
    module, optimizer, loss, batches, engine = private(scheme=SHUFFLED, loader_options=FEW)
    some = iter(batches)
    batch = next(some)
    train((module, optimizer, loss, [batch], engine))
    if not is_kept:
        del some
        gc.collect()
        again = (module, optimizer, loss, [batch], engine)
        refused(again, "a step must use a new batch of the loader", steps=1)
        optimizer.zero_grad()
    refused((module, optimizer, loss, batches, engine), "lost if a pass is broken off", steps=1)


def test_passes_that_are_broken_off_go_on_where_nothing_is_loaded_ahead() -> None:
    module, optimizer, loss, batches, engine = private(scheme=BINS)
    for _ in range(2):
        some = iter(batches)
        train((module, optimizer, loss, [next(some)], engine))
        del some
    assert len(engine.accountant) == 2


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
@pytest.mark.parametrize("workers", [{}, {"num_workers": 1}], ids=["alone", "workers"])
def test_pieces_of_a_memory_manager_are_counted(mode: str, workers: dict[str, Any]) -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    def pieces(change: Change) -> Any:
        run = private(scheme=SHUFFLED, mode=mode, loader_options=workers)
        with BatchMemoryManager(
            data_loader=run[3], max_physical_batch_size=4, optimizer=run[1]
        ) as parts:
            train((*run[:3], parts, run[4]), change)
        return run[4].accountant

    assert len(pieces(lambda x, y: (x, y))) == 10
    with pytest.raises(dp.InvalidArgument, match="gradients of 12 examples for a batch of 6"):
        pieces(lambda x, y: (x.repeat(2, 1), y.repeat(2)))


@pytest.mark.parametrize("workers", [{}, {"num_workers": 1}], ids=["alone", "workers"])
def test_b5_pieces_of_a_memory_manager_without_a_step_are_refused(workers: dict[str, Any]) -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    module, optimizer, loss, batches, engine = private(scheme=SHUFFLED, loader_options=workers)
    with BatchMemoryManager(
        data_loader=batches, max_physical_batch_size=6, optimizer=optimizer
    ) as parts:
        others = (batch for number, batch in enumerate(parts) if number != 1)
        refused((module, optimizer, loss, others, engine), "2 batches for one step", steps=1)


def test_b5_a_whole_batch_in_pieces_without_a_step_is_refused() -> None:
    """Of three pieces, so that workers load less than a batch ahead, and signals stay in order."""
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    module, optimizer, loss, batches, engine = private(scheme=SHUFFLED, loader_options=FEW)
    with BatchMemoryManager(
        data_loader=batches, max_physical_batch_size=2, optimizer=optimizer
    ) as parts:
        others = (piece for number, piece in enumerate(parts) if number // 3 != 1)
        refused((module, optimizer, loss, others, engine), "2 batches for one step", steps=1)


class Paired(nn.Module):
    """A model whose second layer sees two examples in each of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(6, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        both: Tensor = self.second(self.first(inputs).view(-1, 6))
        return both.view(-1, 2)


def test_b5_rows_of_several_examples_are_refused() -> None:
    """Opacus would clip the two together, layer by layer."""
    run = private(Paired(), scheme=SHUFFLED, clipping="per_layer", max_grad_norm=[1.0] * 4)
    refused(run, "got 3 and 6 of them for different parameters")


def of_opacus(mode: str = "hooks", **options: Any) -> tuple[Any, ...]:
    """A run of Opacus' own make_private with our accountant, whose loader is not watched yet."""
    from opacus import PrivacyEngine

    from sharpdp.integrations.opacus import SchemeAccountant

    engine, inside = PrivacyEngine(), nn.Linear(4, 2)
    engine.accountant = SchemeAccountant(SHUFFLED)
    module, optimizer, *loss, batches = engine.make_private(
        module=inside,
        optimizer=torch.optim.SGD(inside.parameters(), lr=0.1),
        data_loader=DataLoader(DATA, batch_size=6, shuffle=True, **options),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    return module, optimizer, loss[0] if loss else nn.CrossEntropyLoss(), batches, engine


@pytest.mark.parametrize("known", [False, True], ids=["from its first step", "from the start"])
@pytest.mark.parametrize("workers", [{}, WORKERS], ids=["alone", "workers"])
def test_b5_examples_are_counted_with_opacus_own_make_private(
    *, known: bool, workers: dict[str, Any]
) -> None:
    def run() -> tuple[Any, ...]:
        module, optimizer, loss, batches, engine = of_opacus(**workers)
        parts = {"module": module, "optimizer": optimizer} if known else {}
        return module, optimizer, loss, engine.accountant.watch(batches, **parts), engine

    whole = run()
    train(whole)
    assert len(whole[-1].accountant) == 10
    refused(
        run(),
        "gradients of 12 examples for a batch of 6",
        lambda x, y: (x.repeat(2, 1), y.repeat(2)),
    )


@pytest.mark.parametrize("rand_on_empty", [False, True])
def test_random_rows_stand_for_empty_batches_of_opacus(*, rand_on_empty: bool) -> None:
    from opacus import PrivacyEngine

    from sharpdp.integrations.opacus import SchemeAccountant

    engine, inside = PrivacyEngine(), nn.Linear(4, 2)
    engine.accountant = SchemeAccountant(
        dp.PoissonBatches(dataset_size=SIZE, batch_size=1, epochs=1)
    )
    torch.manual_seed(2**40 + 3)
    module, optimizer, batches = engine.make_private(
        module=inside,
        optimizer=torch.optim.SGD(inside.parameters(), lr=0.1),
        data_loader=DataLoader(DATA, batch_size=1),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        rand_on_empty=rand_on_empty,
    )
    lengths = []

    def noted(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        lengths.append(len(x))
        return x, y

    watched = engine.accountant.watch(batches, module=module, optimizer=optimizer)
    train((module, optimizer, nn.CrossEntropyLoss(), watched, engine), noted)
    assert len(engine.accountant) == SIZE
    assert (0 in lengths) is not rand_on_empty


def test_models_that_opacus_does_not_wrap_are_watched() -> None:
    model = Words(Renormed(50, 8))
    for part in (model, nn.Sequential(nn.Linear(4, 2))):
        data = TOKENS if part is model else DATA
        _, *rest = private(part, scheme=SHUFFLED, wrap_model=False, data=data)
        if part is model:
            with pytest.raises(dp.InvalidArgument, match=r"'embedding.weight' was written"):
                train((part, *rest))
        else:
            train((part, *rest))
            assert len(rest[-1].accountant) == 10


def test_b5_pieces_need_an_optimizer_that_is_known() -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    module, optimizer, loss, batches, engine = of_opacus()
    watched = engine.accountant.watch(batches)
    with BatchMemoryManager(
        data_loader=watched, max_physical_batch_size=4, optimizer=optimizer
    ) as parts:
        refused((module, optimizer, loss, parts, engine), "known before the first piece")


def test_ghost_clipping_of_opacus_alone_is_refused() -> None:
    """It adds noise to whatever gradients there are, such as those of a loss that does not clip."""
    module, optimizer, loss, batches, engine = of_opacus("ghost")
    watched = engine.accountant.watch(batches)
    refused((module, optimizer, loss, watched, engine), "optimizer must clip")
    with pytest.raises(dp.Unsupported, match="optimizer must clip"):
        engine.accountant.watch(batches, optimizer=optimizer)


def test_one_loss_for_a_batch_is_not_clipped_by_ghost_clipping() -> None:
    run = private(
        scheme=SHUFFLED, mode="ghost", criterion=lambda x, y: nn.CrossEntropyLoss()(x, y)[None]
    )
    refused(run, "one loss for each example; got 1 losses and norms of 6")


def test_loaders_that_hand_out_batches_as_they_are_ready_are_refused() -> None:
    with pytest.raises(dp.Unsupported, match="in_order=False"):
        private(loader_options={"num_workers": 1, "in_order": False})


def test_b5_a_second_optimizer_is_refused() -> None:
    module, optimizer, loss, batches, engine = private()
    other = torch.optim.SGD(module.parameters(), lr=0.1)
    inputs, targets = next(iter(batches))
    loss(module(inputs), targets).backward()
    before = state(module)
    with pytest.raises(dp.InvalidArgument, match="got a step of another SGD"):
        other.step()
    assert all(map(torch.equal, before, state(module)))
    optimizer.step()  # nothing has happened to it
    assert len(engine.accountant) == 1


def test_other_models_and_later_runs_have_optimizers_of_their_own() -> None:
    run = private()
    module = run[0]
    train(run)
    public = copy.deepcopy(module.to_standard_module())
    loss = nn.CrossEntropyLoss()(public(INPUTS), TARGETS)
    other = torch.optim.Adam(public.parameters())
    loss.backward()
    other.step()
    module.remove_hooks()
    train(private(module.to_standard_module()))


def test_nothing_is_left_of_a_run_that_is_forgotten() -> None:
    from torch.optim import optimizer as torch_optimizer

    run = private()
    train(run)
    model = run[0].to_standard_module()
    found = len(torch_optimizer._global_optimizer_pre_hooks)
    del run
    gc.collect()
    assert len(torch_optimizer._global_optimizer_pre_hooks) < found
    other = torch.optim.SGD(model.parameters(), lr=0.1)
    other.step()


# --- what a forward pass writes ------------------------------------------------------------------------


class Words(nn.Module):
    """A model over tokens, of which one part may be exchanged."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding, self.out = embedding, nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.embedding(tokens)
        return self.out(found.mean(1) if found.dim() == 3 else found)  # type: ignore[no-any-return]


class Renormed(nn.Embedding):
    """An embedding that renormalizes rows in its own way, which its attributes do not show."""

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.embedding(tokens, self.weight, max_norm=1.0)


TOKENS = TensorDataset(torch.randint(0, 50, (SIZE, 3)), TARGETS)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.Embedding(50, 8, max_norm=1.0), "max_norm=1.0"),
        (nn.EmbeddingBag(50, 8, max_norm=2.0), "max_norm=2.0"),
        (nn.InstanceNorm1d(8, track_running_stats=True), "track_running_stats=True"),
        (nn.BatchNorm1d(8), "track_running_stats=True"),
        (nn.utils.spectral_norm(nn.Linear(4, 8)), "a spectral norm"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8)), "a spectral norm"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_b4_layers_that_write_are_refused(layer: nn.Module, words: str, *, is_frozen: bool) -> None:
    model = Words(layer)
    layer.requires_grad_(not is_frozen)
    with pytest.raises(dp.Unsupported, match=words):
        private(model, data=TOKENS)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_b4_what_a_forward_pass_writes_is_refused(mode: str, *, is_frozen: bool) -> None:
    model = Words(Renormed(50, 8))
    model.embedding.requires_grad_(not is_frozen)
    run = private(model, mode=mode, data=TOKENS)
    with pytest.raises(dp.InvalidArgument, match=r"'embedding.weight' was written"):
        train(run)
    assert len(run[-1].accountant) == 0
    with pytest.raises(dp.InvalidArgument, match=r"'embedding.weight' was written"):
        run[-1].accountant.guarantee.epsilon(delta=1e-5)


class Noting(nn.Module):
    """A model that keeps something of the batch, in one of the ways there are."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.out, self.kept = how, nn.Linear(4, 2), Keeper()

    def forward(self, inputs: Tensor) -> Tensor:
        mean = inputs.detach().mean(0)
        if self.how == "in place":
            self.kept.mean.add_(mean)
        elif self.how == "behind torch's back":
            self.kept.mean.data.add_(mean)
        elif self.how == "replaced":
            self.kept.mean = mean
        elif self.how == "added":
            self.kept.register_buffer("other", mean)
        elif self.how == "weights":
            self.out.weight.data.add_(1.0)
        return self.out(inputs)  # type: ignore[no-any-return]


class Keeper(nn.Module):
    """A part without parameters, whose buffers Opacus does not look at."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "how", ["in place", "behind torch's back", "replaced", "added", "weights", "not at all"]
)
def test_b4_buffers_that_a_forward_pass_writes_are_refused(how: str, mode: str) -> None:
    run = private(Noting(how), mode=mode)
    if how == "not at all":
        train(run)
        assert len(run[-1].accountant) == 10
    else:
        with pytest.raises(dp.InvalidArgument, match="was written between"):
            train(run)
        assert len(run[-1].accountant) == 0


@pytest.mark.parametrize("how", ["changed", "exchanged"])
def test_b4_what_a_loss_writes_is_refused(how: str) -> None:
    module, optimizer, _, batches, engine = private()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        weight = next(module.parameters())
        with torch.no_grad():
            weight.copy_(weight.flip(0) if how == "exchanged" else weight + outputs.mean())
        return nn.functional.cross_entropy(outputs, targets)

    with pytest.raises(dp.InvalidArgument, match=r"'0.weight' was written between"):
        train((module, optimizer, loss, batches, engine))
    assert len(engine.accountant) == 0


def test_b4_what_evaluation_writes_is_refused() -> None:
    run = private(Noting("in place"))
    run[0].eval()
    with pytest.raises(dp.InvalidArgument, match=r"'kept.mean' was written"), torch.no_grad():
        run[0](INPUTS)


def test_parameters_may_be_loaded_and_averaged_between_steps() -> None:
    module, optimizer, loss, batches, engine = private()
    kept = module.state_dict()
    loss(module(INPUTS[:1]), TARGETS[:1]).backward()  # nothing is done with it
    module.load_state_dict(kept)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss(module(inputs), targets).backward()
        optimizer.step()
        swapped = [value.detach().clone() for value in module.parameters()]
        with torch.no_grad():  # evaluate with other weights, and go back
            for value in module.parameters():
                value.mul_(0.5)
            module.eval()(INPUTS)
            for value, old in zip(module.train().parameters(), swapped, strict=True):
                value.copy_(old)
    assert len(engine.accountant) == 10


# --- what nobody sees -------------------------------------------------------------------------------


def test_the_guarantee_says_what_nobody_sees() -> None:
    run = private(key=None)
    train(run)
    always = ("treat each by itself", "no record makes the model or the loss raise", "as exact")
    said = run[-1].accountant.guarantee.conditions
    assert all(word in one for word, one in zip(always, said, strict=True))
    given = private(key=7, noise_generator=torch.Generator().manual_seed(1))
    train(given)
    assert given[-1].accountant.guarantee.conditions == (
        *said,
        SEEDED,
        "the seed of the generator from which Opacus draws noise stays secret",
    )
    module, optimizer, loss, batches, engine = of_opacus()
    train((module, optimizer, loss, engine.accountant.watch(batches), engine))
    assert engine.accountant.guarantee.conditions == (
        *said,
        "nothing but the optimizer writes parameters and buffers of the model",
        "the seed of torch's generator, from which batches follow, stays secret",
        "the seed of the generator from which Opacus draws noise stays secret",
    )


def summed_by_opacus(rows: Tensor) -> Tensor:
    """The sum of rows, at a clipping norm that leaves those of length 1 as they are."""
    from opacus.optimizers import DPOptimizer

    parameter: Any = nn.Parameter(torch.zeros(rows.shape[1]))
    optimizer: Any = DPOptimizer(
        torch.optim.SGD([parameter], lr=0.1),
        noise_multiplier=1.0,
        max_grad_norm=1.001,
        expected_batch_size=1,
    )
    parameter.grad_sample = rows
    optimizer.clip_and_accumulate()
    found: Tensor = parameter.summed_grad.double()
    return found


@pytest.mark.parametrize("count", [64, 256, 1024, 4096])
def test_one_row_moves_a_sum_in_single_precision_by_what_the_page_says(count: int) -> None:
    """Rows that keep partial sums next to a power of two.

    With the record they are above it, where single precision has half as many numbers, so that every
    other row is rounded. How much this gives depends on the order in which a processor adds up.
    """
    gamma = (count + 1) * 2.0**-24 / (1 - (count + 1) * 2.0**-24)
    unit, half = 2.0 ** (count.bit_length() - 2 - 23), count // 2
    rows = torch.zeros(count, 4)
    rows[:half, 0] = 1.0
    rows[half:, 0] = 0.25 * (-1.0) ** torch.arange(half) - 0.4 * unit
    rows[half, 0] = 0.5
    other = rows.clone()
    other[0] = 0.0
    moved = float((summed_by_opacus(rows) - summed_by_opacus(other)).norm())
    assert abs(moved - 1.0) <= 2 * count * gamma
