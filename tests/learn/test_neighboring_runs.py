"""One record moves a sum by one clipped gradient, whatever it holds and however sums are computed."""

from __future__ import annotations

import copy
import multiprocessing
import os
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp import audit
from sharpdp.integrations.private_gradients import PrivateGradients
from sharpdp.learn import gradients as gradients_module
from sharpdp.learn.cldp import CLDPSGD, ClientRun
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gradients import ClippedGradients
from sharpdp.learn.randomizers import PrivUnitBall
from tests.learn.neighboring_runs import SLACK, WAYS, largest, ratios, setting

KEY = b"k" * 32


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():  # torch tells that it maps attention slowly
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


def test_random_neighbors_move_sums_by_at_most_the_clip() -> None:
    found = largest(300, seed=3)
    assert {way for way, _ in found} == set(WAYS)
    for kind, (most, _) in found.items():
        assert most <= SLACK, kind


@pytest.mark.slow
def test_many_random_neighbors_move_sums_by_at_most_the_clip() -> None:
    for kind, (most, _) in largest(10_000, seed=4).items():
        assert most <= SLACK, kind


def test_it_notices_records_that_are_computed_in_another_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a piece is computed one by one because of one record, the search finds it."""

    def one_by_one(self: ClippedGradients, inputs: torch.Tensor, targets: torch.Tensor) -> Any:
        try:
            return self.each(inputs, targets), None
        except dp.SharpDPError:
            if len(inputs) == 1:
                zeros = {name: torch.zeros_like(v)[None] for name, v in self.parameters.items()}
                return zeros, None
            ones = [one_by_one(self, x[None], y[None])[0] for x, y in zip(inputs, targets)]  # noqa: B905
            return {name: torch.cat([one[name] for one in ones]) for name in ones[0]}, None

    monkeypatch.setattr(ClippedGradients, "_usable", one_by_one)
    rng = random.Random(0)
    worst = 0.0
    for _ in range(6):
        given = setting("one hidden value", rng)
        for _, ratio in ratios(given, "Training, zero-out", rng):
            worst = max(worst, ratio)
    assert worst > 1.5


def kinked(size: int, width: int = 100) -> tuple[nn.Module, torch.Tensor]:
    """A model with one hidden value, and rows at which it is 0 up to rounding, otherwise alone.

    Rows for which the sign of that value differs between a piece of all and a row alone come first.
    """
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(width, 1, bias=False), nn.ReLU(), nn.Linear(1, 2))
    weight = net[0].weight.detach()[0].double()
    rows = torch.randn(8000, width).double() * 0.05 + torch.randn(width).double() * 0.5
    rows = ((rows - (rows @ weight)[:, None] / (weight @ weight) * weight) * 100).float()
    with torch.no_grad():
        together = net[0](rows)[:, 0] > 0
        alone = torch.cat([net[0](row[None])[:, 0] for row in rows]) > 0
    flips = torch.nonzero(together & ~alone)[:, 0]
    return net, torch.cat([rows[flips], rows[: size + 1]])[:size]


def test_b1_a_label_that_does_not_exist_moves_its_own_gradient_only() -> None:
    net, rows = kinked(200)
    good = torch.zeros(200, dtype=torch.long)
    bad = good.clone()
    bad[-1] = 17
    take = ClippedGradients(net, nn.CrossEntropyLoss(), clip=1.0)
    sums = [
        torch.cat([value.flatten() for value in take.sum(rows, targets).values()])
        for targets in (good, bad)
    ]
    assert float((sums[0] - sums[1]).norm()) <= SLACK


def test_b1_an_attack_on_a_whole_run_finds_as_many_false_as_true_positives() -> None:
    """The score is the length of what a step moved, by which the record used to show in every batch."""
    net, rows = kinked(200)
    plan = dp.DPSGD(
        dp.PoissonBatches(dataset_size=200, batch_size=100, steps=1), noise_multiplier=5.0
    )
    targets = {False: torch.zeros(200, dtype=torch.long)}
    targets[True] = targets[False].clone()
    targets[True][-1] = 17
    scores: dict[bool, list[float]] = {False: [], True: []}
    for trial in range(60):
        for present, labels in targets.items():
            model = copy.deepcopy(net)
            before = torch.cat([value.detach().flatten() for value in model.parameters()])
            key = bytes([trial, present]) * 16
            run = Training(
                plan,
                model,
                nn.CrossEntropyLoss(),
                rows,
                labels,
                clip=1.0,
                key=key,
                learning_rate=1.0,
            ).run(progress=False)
            after = torch.cat([value.detach().flatten() for value in model.parameters()])
            scores[present].append(float((before - after).norm()))
    assert float(run.epsilon(delta=1e-5).upper) < 1.0
    # the sign test of Mann and Whitney: 60 and 60 scores of one law are this far apart once in 10^9
    larger = sum(x > y for x in scores[True] for y in scores[False])
    assert abs(larger - 1800) < 6.2 * np.sqrt(60 * 60 * 121 / 12)


def test_b1_dropout_of_others_does_not_change_with_a_record_that_raises() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 20), nn.Dropout(0.5), nn.Linear(20, 2))
    rows, good = torch.randn(12, 5), torch.zeros(12, dtype=torch.long)
    bad = good.clone()
    bad[4] = 9
    take = ClippedGradients(net, nn.CrossEntropyLoss(), clip=100.0)
    sums = []
    for targets in (good, bad):
        torch.manual_seed(1)
        sums.append(take.sum(rows, targets)["0.weight"])
    torch.manual_seed(1)
    alone = take.each(rows, good)["0.weight"][4].double()
    assert torch.allclose(sums[0] - sums[1], alone, atol=1e-4)


def test_b1_the_way_gradients_are_computed_does_not_depend_on_a_record() -> None:
    """A record that raised in the layers had all computed by vmap, where others round otherwise."""
    net = nn.Sequential(nn.Linear(4, 3))
    take = ClippedGradients(net, nn.CrossEntropyLoss(), clip=1.0)
    mapped: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients_module, "vmap", lambda *_, **__: mapped.append(1))
        total = take.sum(torch.randn(5, 4), torch.tensor([0, 1, 7, 2, 0]))
    assert not mapped
    assert float(total["0.weight"].norm()) > 0.0


def test_b1_an_error_that_does_not_come_again_leaves_all_records_counted() -> None:
    calls = []

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 2:  # the first one is about a record of zeros
            raise ValueError("once")
        return output.sum()

    net = nn.Sequential(nn.Linear(2, 2))
    total = ClippedGradients(net, loss, clip=9.0).sum(torch.ones(3, 2), torch.zeros(3))
    assert len(calls) > 2
    assert torch.allclose(total["0.weight"], torch.full((2, 2), 3.0).double(), atol=1e-4)


def test_b1_an_error_that_records_raise_together_only_is_said() -> None:
    with pytest.raises(dp.InvalidArgument, match="several raise together and none alone"):
        gradients_module._culprits(lambda rows: len(rows) > 1, torch.arange(4))


def test_b2_add_remove_is_claimed_for_records_that_are_computed_one_by_one() -> None:
    plan = dp.DPSGD(dp.PoissonBatches(sample_rate=0.5, steps=3), noise_multiplier=1.0)
    data = torch.randn(9, 2), torch.randn(9, 1)

    def made(**options: Any) -> Training:
        model, given = nn.Linear(2, 1), {"clip": 1.0, "expected_batch_size": 4.0, **options}
        return Training(plan, model, nn.MSELoss(), *data, **given)

    run = made()
    run.advance()
    assert run.guarantee.adjacency is dp.Adjacency.ZERO_OUT
    asked = made(adjacency="add/remove")
    asked.advance()
    assert asked.guarantee.adjacency is dp.Adjacency.ADD_REMOVE
    assert asked.gradients.physical_batch_size == 1
    both = [one.epsilon(delta=1e-5) for one in (run, asked)]
    assert both[0].upper == both[1].upper
    with pytest.raises(
        dp.InvalidArgument, match=r"physical_batch_size must be 1 under add/remove; got 7"
    ):
        made(adjacency="add/remove", physical_batch_size=7)


def test_b2_a_null_record_in_front_moves_nothing() -> None:
    torch.manual_seed(0)
    net = nn.Linear(100, 1, bias=False)
    weight = net.weight.detach()[0].double()
    rows = torch.randn(30_000, 100).double() * 0.05 + torch.randn(100).double() * 5
    rows = (rows - (rows @ weight)[:, None] / (weight @ weight) * weight).float()
    with torch.no_grad():
        full = net(rows)[:, 0] > 0
        edge = torch.cat([net(rows[i : i + 3])[:, 0] for i in range(0, 30_000, 3)]) > 0
    flips = torch.nonzero(full != edge)[:, 0]
    chosen = torch.cat([rows[flips[:20]], rows[:4]])
    data = {
        "without": (chosen, torch.zeros(len(chosen), 1)),
        "with": (torch.cat([chosen[:1] * 0, chosen]), torch.zeros(len(chosen) + 1, 1)),
    }
    plan = dp.DPSGD(dp.PoissonBatches(sample_rate=1.0, steps=1), noise_multiplier=1e-7)
    moved = {}
    for name, (inputs, targets) in data.items():
        model = copy.deepcopy(net)
        Training(
            plan,
            model,
            nn.L1Loss(),
            inputs,
            targets,
            clip=1.0,
            learning_rate=1.0,
            expected_batch_size=1.0,
            adjacency="add/remove",
        ).run(progress=False)
        moved[name] = model.weight.detach()
    assert float((moved["with"] - moved["without"]).norm()) < 1e-4


class Renormalized(nn.Module):
    """Shortens the rows that it looks up, as an embedding with max_norm does, by another way."""

    def __init__(self, through_data: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.out, self.through_data = nn.Embedding(20, 4), nn.Linear(4, 2), through_data

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = tokens.flatten().tolist()
        weight = self.words.weight.data if self.through_data else self.words.weight
        if sum(rows) > 0:
            with torch.no_grad():
                weight[rows] = weight[rows] / 2
        return self.out(self.words(tokens).mean(1))


TOKENS = torch.arange(40).reshape(20, 2) % 20
TOKENS[0] = 0  # on which nothing is written
LABELS = torch.arange(20) % 2
ONE_BATCH = dp.DPSGD(
    dp.DeterministicBatches(dataset_size=20, batch_size=20, epochs=1), noise_multiplier=1.0
)


def crossed(model: nn.Module, rows: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(rows[0]), rows[1])


@pytest.mark.parametrize(("kind", "width"), [(nn.Embedding, 8), (nn.EmbeddingBag, 4)])
def test_b4_embeddings_that_shorten_their_rows_are_refused(
    kind: type[nn.Module], width: int
) -> None:
    model = nn.Sequential(kind(20, 4, max_norm=1.0), nn.Flatten(), nn.Linear(width, 2))
    with pytest.raises(dp.errors.Unsupported, match=r"must not write .* with max_norm=1"):
        PrivateGradients(ONE_BATCH, model, crossed, TensorDataset(TOKENS, LABELS), clip=1.0)


@pytest.mark.parametrize("through_data", [False, True])
def test_b4_weights_that_a_loss_writes_to_are_not_released(through_data: bool) -> None:
    model = Renormalized(through_data)
    before = model.words.weight.detach().clone()
    run = PrivateGradients(ONE_BATCH, model, crossed, TensorDataset(TOKENS, LABELS), clip=1.0)
    (batch,) = run.loader()
    with pytest.raises(dp.InvalidArgument, match=r"must not write .* got 'model.words.weight'"):
        run.backward(batch)
    assert run.step == 0
    assert torch.equal(model.words.weight, before)


def released(data: Any, **options: Any) -> torch.Tensor:
    """The sum of one batch of all records, nearly without noise."""
    scheme = dp.DeterministicBatches(dataset_size=len(data), batch_size=len(data), epochs=1)
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    plan = dp.DPSGD(scheme, noise_multiplier=1e-6)
    run = PrivateGradients(plan, model, crossed, data, clip=1.0, key=KEY, **options)
    (batch,) = run.loader()
    run.backward(batch)
    return torch.cat([value.grad.flatten() for value in model.parameters()]) * len(data)


ROWS: list[Any] = [
    (torch.randn(4, generator=torch.Generator().manual_seed(i)), i % 2) for i in range(9)
]


class Broken:
    """A data set one of whose files cannot be read."""

    def __init__(self, record: int) -> None:
        self.record = record

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, number: int) -> Any:
        if number == self.record:
            raise OSError("unreadable")
        return ROWS[number]


@pytest.mark.parametrize("collate", [None, torch.utils.data.default_collate])
def test_b9_a_record_of_another_shape_or_type_moves_nothing_but_its_own_gradient(
    collate: Any,
) -> None:
    without = released([*ROWS[:5], (torch.full((4,), float("nan")), 0), *ROWS[6:]], collate=collate)
    others = {
        "longer": (torch.ones(5), 0),
        "shorter": (torch.ones(3), 0),
        "not a row": (torch.ones(2, 4), 0),
        "no tensor": ("text", 0),
        "one part": (torch.ones(4),),
        "label out of range": (torch.ones(4), 7),
        "label beyond 64 bits": (torch.ones(4), 2**70),
        "sparse": (torch.ones(4).to_sparse(), 0),
        "nothing": None,
    }
    for name, record in others.items():
        total = released([*ROWS[:5], record, *ROWS[6:]], collate=collate)
        assert torch.equal(total, without), name
    # a label that is a real number, one part more than the loss looks at: the others keep their types
    for record in ((torch.ones(4, dtype=torch.float64), 0.0), (torch.ones(4), 0, 0.5)):
        total = released([*ROWS[:5], record, *ROWS[6:]], collate=collate)
        assert float((total - without).norm()) <= SLACK
    with pytest.raises(Exception):  # noqa: B017, PT011  # of whatever kind: it is for looking at data
        released([*ROWS[:5], others["longer"], *ROWS[6:]], collate=collate, strict=True)


def test_b9_a_record_that_cannot_be_read_counts_as_zero() -> None:
    without = released([*ROWS[:5], (torch.full((4,), float("nan")), 0), *ROWS[6:]])
    assert torch.equal(released(Broken(5)), without)
    with pytest.raises(OSError, match="unreadable"):
        released(Broken(5), strict=True)


def test_b9_examples_of_many_shapes_all_count() -> None:
    """Each is computed by itself where it differs from the first; sums are those of one by one."""
    rows = [(torch.arange(1, 2 + i % 4).float()[:, None], i % 2) for i in range(9)]
    scheme = dp.DeterministicBatches(dataset_size=9, batch_size=9, epochs=1)
    sums = []
    for pieces in (1, 256):
        torch.manual_seed(0)
        model = nn.Linear(1, 2)
        run = PrivateGradients(
            dp.DPSGD(scheme, noise_multiplier=1e-6),
            model,
            lambda net, batch: nn.functional.cross_entropy(net(batch[0]).mean(1), batch[1]),
            rows,
            clip=1.0,
            key=KEY,
            physical_batch_size=pieces,
        )
        (batch,) = run.loader()
        assert len(batch.others) == 6
        run.backward(batch)
        sums.append(torch.cat([value.grad.flatten() for value in model.parameters()]))
    assert float(sums[0].norm()) > 0.05
    assert torch.allclose(*sums, atol=1e-5)


def test_a_batch_in_which_an_example_stands_twice_is_refused() -> None:
    data = [*ROWS[:5], (torch.ones(5), 0), *ROWS[6:]]
    scheme = dp.DeterministicBatches(dataset_size=9, batch_size=9, epochs=1)
    run = PrivateGradients(
        dp.DPSGD(scheme, noise_multiplier=1.0), nn.Linear(4, 2), crossed, data, clip=1.0
    )
    (batch,) = run.loader()
    assert [place for place, _ in batch.others] == [5]
    for changed in (
        batch._replace(others=batch.others * 2),
        batch._replace(others=((0, batch.others[0][1]),)),
        batch._replace(counted=None),
        batch._replace(counted=batch.counted[1:]),
    ):
        with pytest.raises(dp.InvalidArgument, match="every example once"):
            run.backward(changed)
    assert run.step == 0


class Draws(nn.Module):
    """Draws more random numbers for some records than for others, of which it makes no number."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        is_large = rows.sum().item() > 100
        for _ in range(3 if is_large else 0):
            torch.rand(1), random.random(), np.random.rand()  # noqa: NPY002
        scale = float(torch.rand(()) + random.random() + np.random.rand())  # noqa: NPY002
        return self.layer(rows) * (float("nan") if is_large else scale)


def test_what_a_record_draws_does_not_shift_what_others_draw() -> None:
    sums = []
    scheme = dp.DeterministicBatches(dataset_size=10, batch_size=10, epochs=1)
    for value in (float("nan"), 1e3):
        model, data = Draws(), [ROWS[0], (torch.full((4,), value), 0), *ROWS[1:]]
        plan = dp.DPSGD(scheme, noise_multiplier=1e-6)
        run = PrivateGradients(plan, model, crossed, data, clip=100.0, key=KEY)
        (batch,) = run.loader()
        torch.manual_seed(5), random.seed(5), np.random.seed(5)  # noqa: NPY002
        run.backward(batch)
        sums.append(model.layer.weight.grad)
    assert float(sums[0].norm()) > 0.0  # type: ignore[union-attr]
    assert torch.equal(*sums)  # type: ignore[arg-type]


def test_replay_with_adversarial_data_passes_training_and_catches_recomputed_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, rows = kinked(40)
    data = rows, torch.zeros(40, dtype=torch.long)
    plan = dp.DPSGD(
        dp.DeterministicBatches(dataset_size=40, batch_size=40, epochs=1), noise_multiplier=2.0
    )

    def make(some: Any) -> Training:
        model = copy.deepcopy(net)
        return Training(plan, model, nn.CrossEntropyLoss(), *some, clip=1.0, key=KEY)

    def verdict() -> audit.ReplayAudit:
        step = audit.training_step(make)
        return audit.replay(
            step, data=data, sensitivity=1.0, noise_multiplier=2.0, adversarial=True
        )

    result = verdict()
    assert result.consistent, str(result)
    assert result.neighbors >= 8
    usable = ClippedGradients._usable

    def mean_of_others(self: ClippedGradients, inputs: torch.Tensor, targets: torch.Tensor) -> Any:
        gradients, counted = usable(self, inputs, targets)
        if counted is not None:  # as if others moved by a tenth where a record raises
            gradients = {name: 0.9 * value for name, value in gradients.items()}
        return gradients, counted

    monkeypatch.setattr(ClippedGradients, "_usable", mean_of_others)
    assert not verdict().consistent
    with pytest.raises(dp.errors.WrongType, match="training_step"):
        audit.replay(lambda d, release: 0, data=data, sensitivity=1.0, adversarial=True)
    with pytest.raises(dp.errors.WrongType, match="two tensors"):
        audit.replay(audit.training_step(make), data=rows, sensitivity=1.0, adversarial=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_b13_a_fork_cannot_go_on_with_a_run() -> None:
    plan = dp.DPSGD(
        dp.DeterministicBatches(dataset_size=9, batch_size=3, epochs=2), noise_multiplier=1.0
    )
    training = Training(plan, nn.Linear(4, 2), nn.CrossEntropyLoss(), *_stacked(), clip=1.0)
    own = PrivateGradients(plan, nn.Linear(4, 2), crossed, ROWS, clip=1.0)
    (first, *_) = own.loader()
    ball = PrivUnitBall(dimension=2, local_epsilon=1.0)
    clients = ClientRun(
        CLDPSGD(randomizer=ball, users=2, population=5, rounds=3),
        lambda theta, some: np.ones((len(some), 2)),
        np.zeros(2),
    )
    runs = {
        "training": training.advance,
        "own loop": lambda: own.backward(first),
        "clients": clients.step,
    }
    read, write = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that a fork does not have
        child = os.fork()
    if child == 0:
        said = {}
        for name, advance in runs.items():
            try:
                advance()
            except dp.InvalidArgument as refusal:
                said[name] = str(refusal)
        write.send(said)
        os._exit(0)
    os.waitpid(child, 0)
    assert read.poll(10)
    said = read.recv()
    assert set(said) == set(runs)
    assert all("in the process that made it" in words for words in said.values())
    for advance in runs.values():
        advance()
    assert (training.step, own.step, clients.begun) == (1, 1, 1)


def _stacked() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.stack([row for row, _ in ROWS]), torch.tensor([label for _, label in ROWS])


def test_answers_say_which_conditions_a_run_has() -> None:
    plan = dp.DPSGD(
        dp.DeterministicBatches(dataset_size=9, batch_size=3, epochs=2), noise_multiplier=1.0
    )

    def conditions(**options: Any) -> tuple[str, ...]:
        run = Training(
            plan, nn.Linear(4, 2), nn.CrossEntropyLoss(), *_stacked(), clip=1.0, **options
        )
        run.advance()
        return run.guarantee.conditions

    assert ["bit for bit" in words for words in conditions()] == [True]
    assert conditions(physical_batch_size=1) == ()
    assert ["key that was given" in words for words in conditions(key=KEY)] == [False, True]
