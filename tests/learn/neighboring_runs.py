"""Random models and rows at kinks: how far one record moves a sum, by every way of computing it.

    python -m tests.learn.neighboring_runs --triples 10000

A triple is a model, rows and a change: a record is spoiled (in all ways that must count as zero),
replaced or removed. Printed is, for each way and adjacency, the largest ||difference of sums|| / clip,
which must not exceed 1. A record that is replaced is compared with the sum in which it counts as zero.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import sharpdp as dp
from sharpdp.audit.adversarial import at_kinks, spoiled
from sharpdp.integrations.private_gradients import PrivateGradients
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gradients import ClippedGradients

KEY = b"k" * 32
SLACK = 1.0 + 2.0**-20
CLIP = 1.0
CLASSES, WIDTH, TOKENS, LENGTH = 3, 100, 11, 6


class Attention(nn.Module):
    """One head over tokens, with a residual connection, LayerNorm and weights that are tied."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.words, self.attend = (
            nn.Embedding(TOKENS, 8),
            nn.MultiheadAttention(8, 2, batch_first=True),
        )
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, TOKENS if tied else CLASSES)
        if tied:
            self.out.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        rows = self.words(tokens)
        mixed, _ = self.attend(rows, rows, rows, need_weights=False)
        return torch.relu(self.out(self.norm(rows + mixed))).mean(1)


class Words(nn.Module):
    """Embedded tokens, and hidden values whose bias puts a given row at a kink."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.hidden, self.out = (
            nn.Embedding(TOKENS, 8),
            nn.Linear(48, 6),
            nn.Linear(6, 3),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.relu(self.hidden(self.words(tokens).flatten(1))))

    def kink(self, row: Tensor) -> None:
        with torch.no_grad():
            self.hidden.bias -= self.hidden(self.words(row[None]).flatten(1))[0]


class Stubborn(nn.Sequential):
    """Layers of which torch cannot compute many examples at once."""

    def forward(self, rows: Tensor) -> Tensor:
        if rows.double().sum().item() == 1e300:
            raise ValueError("never")
        return super().forward(rows)


def _frozen(model: nn.Module) -> nn.Module:
    next(iter(model.parameters())).requires_grad_(False)
    return model


def _images(*more: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), *more, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, CLASSES)
    )


MODELS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "linear, one output": ("vectors", lambda: nn.Linear(WIDTH, 1, bias=False)),
    "one hidden value": (
        "vectors",
        lambda: nn.Sequential(nn.Linear(WIDTH, 1, bias=False), nn.ReLU(), nn.Linear(1, CLASSES)),
    ),
    "layers": (
        "vectors",
        lambda: nn.Sequential(
            nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 8), nn.LeakyReLU(), nn.Linear(8, CLASSES)
        ),
    ),
    "LayerNorm": (
        "vectors",
        lambda: nn.Sequential(
            nn.Linear(WIDTH, 12), nn.LayerNorm(12), nn.ReLU(), nn.Linear(12, CLASSES)
        ),
    ),
    "dropout": (
        "vectors",
        lambda: nn.Sequential(
            nn.Linear(WIDTH, 12), nn.ReLU(), nn.Dropout(0.4), nn.Linear(12, CLASSES)
        ),
    ),
    "frozen": (
        "vectors",
        lambda: _frozen(nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, CLASSES))),
    ),
    "images": ("images", _images),
    "images, GroupNorm": ("images", lambda: _images(nn.GroupNorm(2, 4))),
    "words": ("tokens", Words),
    "attention": ("tokens", lambda: Attention(tied=False)),
    "attention, tied weights": ("tokens", lambda: Attention(tied=True)),
    "one by one": (
        "vectors",
        lambda: Stubborn(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, CLASSES)),
    ),
}


@dataclass(frozen=True)
class Setting:
    """A model over rows at kinks, and how its sums are computed."""

    name: str
    model: nn.Module
    loss: nn.Module
    inputs: Tensor
    targets: Tensor
    pieces: int
    seed: int


def setting(name: str, rng: random.Random) -> Setting:
    """A random model of this name with rows that its gradients jump at."""
    form, make = MODELS[name]
    seed, size = rng.randrange(2**32), rng.randrange(3, 40)
    torch.manual_seed(seed)
    model = make()
    shape = {"vectors": (WIDTH,), "images": (1, 7, 7), "tokens": (LENGTH,)}[form]
    # what all have in common cancels in a kink, and leaves more rounding than what tells them apart
    inputs = torch.randn(4 * size, *shape) + torch.randn(shape) * 5.0
    if form == "tokens":
        inputs = torch.randint(0, TOKENS, (4 * size, *shape))
    one = name == "linear, one output"
    targets = torch.zeros(4 * size, 1) if one else torch.randint(0, CLASSES, (4 * size,))
    loss = nn.L1Loss() if one else nn.CrossEntropyLoss()
    if isinstance(model, Words):
        model.kink(inputs[0])
        inputs[: size // 2] = inputs[0]
    elif form != "tokens" and name not in ("dropout", "one by one"):
        inputs, targets = _sensitive(ClippedGradients(model, loss, CLIP), inputs, targets, size)
    pieces = rng.choice([1, 2, 3, 5, 7, 16, 256])
    return Setting(name, model, loss, inputs[:size], targets[:size], pieces, seed)


def _sensitive(
    gradients: ClippedGradients, inputs: Tensor, targets: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Rows at kinks, those first whose gradients change with the shape that they are computed in."""
    inputs, targets = at_kinks(gradients.each, (inputs, targets))

    def vectors(step: int) -> Tensor:
        pieces = zip(inputs.split(step), targets.split(step), strict=True)
        each = [gradients.each(*piece).values() for piece in pieces]
        return torch.cat([torch.cat([v.flatten(1) for v in one], 1) for one in each])

    change = (vectors(len(inputs)) - vectors(3)).norm(dim=1)
    first = change.argsort(descending=True)[:size]
    return inputs[first], targets[first]


class Summed(Exception):
    """Carries the sum out of a step before noise is added."""


def _sum_of(advance: Callable[[], object], noise: Any) -> Tensor:
    def caught(total: dict[str, Tensor], *_: object) -> object:
        raise Summed(torch.cat([value.flatten() for value in total.values()]))

    with mock.patch.object(noise, "added", caught):
        try:
            advance()
        except Summed as total:
            return total.args[0]
    raise AssertionError("a step without noise")


def by_training(given: Setting, data: tuple[Tensor, Tensor], adjacency: str) -> Tensor:
    """The sum of one step of `Training` over all rows."""
    size = len(data[0])
    scheme: Any = dp.DeterministicBatches(dataset_size=size, batch_size=size, epochs=1)
    options: dict[str, Any] = {"physical_batch_size": given.pieces}
    if adjacency == "add/remove":
        scheme = dp.PoissonBatches(sample_rate=1.0, steps=1)
        options = {"expected_batch_size": 1.0}
    plan = dp.DPSGD(scheme, noise_multiplier=1.0)
    torch.manual_seed(given.seed)
    run = Training(
        plan, given.model, given.loss, *data, clip=CLIP, key=KEY, adjacency=adjacency, **options
    )
    return _sum_of(run.advance, run._noise)


def by_private_gradients(given: Setting, data: tuple[Tensor, Tensor], _: str) -> Tensor:
    """The sum of one step of `PrivateGradients` over all rows."""
    size = len(data[0])
    scheme = dp.DeterministicBatches(dataset_size=size, batch_size=size, epochs=1)
    plan = dp.DPSGD(scheme, noise_multiplier=1.0)
    torch.manual_seed(given.seed)
    run = PrivateGradients(
        plan,
        given.model,
        lambda model, rows: given.loss(model(rows[0]), rows[1]),
        list(zip(*data, strict=True)),
        clip=CLIP,
        key=KEY,
        physical_batch_size=given.pieces,
        example=(torch.zeros_like(data[0][0]), torch.zeros_like(data[1][0])),
    )
    (batch,) = run.loader()
    torch.manual_seed(given.seed)
    return _sum_of(lambda: run.backward(batch), run._noise)


WAYS = {
    "Training, zero-out": (by_training, "zero-out"),
    "Training, add/remove": (by_training, "add/remove"),
    "PrivateGradients, zero-out": (by_private_gradients, "zero-out"),
}


def _bits(model: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in (*model.parameters(), *model.buffers())]


def ratios(given: Setting, way: str, rng: random.Random) -> Iterator[tuple[str, float]]:
    """How far each change of one record moves the sum, in clips, by the name of the change."""
    compute, adjacency = WAYS[way]
    if compute is by_training and given.name == "one by one":
        return
    data = given.inputs, given.targets
    before = _bits(given.model)
    index = rng.randrange(len(given.inputs))
    whole = compute(given, data, adjacency)
    if adjacency == "add/remove" and given.name != "dropout":  # whose draws go with places
        rest = [row for row in range(len(given.inputs)) if row != index]
        less = compute(given, (given.inputs[rest], given.targets[rest]), adjacency)
        yield "removed", float((whole - less).norm()) / CLIP
        null = torch.cat([given.inputs[:1] * 0, given.inputs])
        label = torch.cat([given.targets[:1] * 0, given.targets])
        more = compute(given, (null, label), adjacency)
        yield "null record in front", float((more - whole).norm()) / CLIP
    nothing = None
    for name, other in spoiled(data, index):
        if name == "targets inf":  # has a finite gradient: |x - inf| falls by one
            continue
        total = compute(given, other, adjacency)
        yield f"spoiled: {name}", float((whole - total).norm()) / CLIP
        if nothing is not None:  # whatever is wrong with it, others are the same
            yield "spoiled in two ways", 0.0 if torch.equal(nothing, total) else float("inf")
        nothing = total
    assert nothing is not None
    swapped = given.inputs.clone()
    swapped[index] = swapped[index - 1]
    replaced = compute(given, (swapped, given.targets), adjacency)
    yield "replaced", float((replaced - nothing).norm()) / CLIP
    after = _bits(given.model)
    same = all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    yield "parameters and buffers", 0.0 if same else float("inf")


def largest(triples: int, seed: int) -> dict[tuple[str, str], tuple[float, int]]:
    """The largest ratio, and how many were found, for every way and kind of change."""
    rng, found, done = random.Random(seed), dict[tuple[str, str], tuple[float, int]](), 0
    for name in itertools.cycle(MODELS):
        if done >= triples:
            break
        given = setting(name, rng)
        for way in WAYS:
            for change, ratio in ratios(given, way, rng):
                kind = way, change.partition(":")[0]
                most, often = found.get(kind, (0.0, 0))
                found[kind] = max(most, ratio), often + 1
                done += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for (way, change), (most, often) in sorted(largest(options.triples, options.seed).items()):
        sys.stdout.write(f"{way:28} {change:24} {often:6,} triples   largest {most:.9f}\n")


if __name__ == "__main__":
    main()
