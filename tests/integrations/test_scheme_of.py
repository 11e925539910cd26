"""The scheme of a loader: what it says is what the loader does, and what nobody can tell is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.integrations import torch as bridge
from sharpdp.integrations.torch import scheme_of

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other

SIZE = 10
DATA = TensorDataset(torch.arange(SIZE))
SEEDED = torch.Generator()
SEEDED.manual_seed(2**40 + 12345)


def poisson(**options: Any) -> Any:
    from opacus.data_loader import DPDataLoader

    return DPDataLoader(DATA, **options)


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"num_workers": 1}], ids=str)
@pytest.mark.parametrize("batch_size", [1, 3, 5, 10, 20])
@pytest.mark.parametrize("shuffle", [False, True])
def test_s1a_slices_of_an_order(options: dict[str, Any], batch_size: int, shuffle: bool) -> None:
    loader = DataLoader(DATA, batch_size=batch_size, shuffle=shuffle, **options)
    if options.get("drop_last") and batch_size > SIZE:
        with pytest.raises(dp.InvalidArgument, match="drop_last"):
            scheme_of(loader, epochs=3)
        return
    scheme: Any = scheme_of(loader, epochs=3)
    passes = [list(loader.batch_sampler) for _ in range(3)]  # type: ignore[arg-type]
    drawn = list(itertools.chain(*passes))
    ours = [batch.tolist() for batch in scheme.batches(rng=7)]
    assert [len(batch) for batch in ours] == [len(batch) for batch in drawn]
    assert isinstance(scheme, dp.ShuffledBatches if shuffle else dp.DeterministicBatches)
    if not shuffle:
        assert ours == drawn
    elif batch_size == 3:  # 10! / (3!)^3 ways; the same one twice is not to be expected thrice
        assert scheme.order == "redrawn"
        assert not passes[0] == passes[1] == passes[2]


def test_samplers_may_be_written_out() -> None:
    for order in (RandomSampler(DATA), RandomSampler(DATA, generator=SEEDED)):
        for loader in (
            DataLoader(DATA, batch_size=4, sampler=order),
            DataLoader(DATA, batch_sampler=BatchSampler(order, batch_size=4, drop_last=False)),
            DataLoader(Subset(TensorDataset(torch.arange(20)), range(SIZE)), 4, shuffle=True),
        ):
            expected = dp.ShuffledBatches(dataset_size=SIZE, batch_size=4, epochs=2)
            assert scheme_of(loader, epochs=2) == expected
    loader = DataLoader(DATA, batch_size=4, sampler=SequentialSampler(DATA))
    expected_order = dp.DeterministicBatches(dataset_size=SIZE, batch_size=4, epochs=2)
    assert scheme_of(loader, epochs=2) == expected_order


@pytest.mark.parametrize("rate", [0.1, 0.25, 1 / 3, 1 / 93, 1e-4, 3e-8, 0.9999999999, 1.0])
def test_s1a_opacus_draws_with_a_rounded_rate(rate: float) -> None:
    """Its random floats are k / 2^24, so the probability is the share of them below the rate."""
    loader = poisson(sample_rate=rate)
    scheme: Any = scheme_of(loader, epochs=2)
    assert isinstance(scheme, dp.PoissonBatches)
    assert scheme.dataset_size == SIZE
    assert scheme.steps == 2 * len(loader)
    share = Fraction(scheme.sample_rate) * 2**24
    assert share.denominator == 1
    ends = torch.tensor([share.numerator - 1, share.numerator], dtype=torch.float32) * 2.0**-24
    below = (ends < loader.sample_rate).tolist()
    assert below[0] is True
    assert below[1] is False or share == 2**24
    draws = torch.rand(10_000, dtype=torch.float32) * 2.0**24
    assert torch.equal(draws, draws.round())


def test_opacus_loaders_inside_a_memory_manager() -> None:
    from opacus.utils.batch_memory_manager import wrap_data_loader

    for loader in (poisson(sample_rate=0.5), DataLoader(DATA, batch_size=4, shuffle=True)):
        parts = wrap_data_loader(data_loader=loader, max_batch_size=2, optimizer=None)
        assert scheme_of(parts, epochs=3) == scheme_of(loader, epochs=3)


def test_loaders_of_ours_know_their_scheme() -> None:
    scheme = dp.BallsAndBins(dataset_size=SIZE, batch_size=5, epochs=3)
    loader = bridge.loader(DATA, bridge.BatchSampler(scheme))
    assert scheme_of(loader) == scheme_of(loader, epochs=3) == scheme
    with pytest.raises(dp.InvalidArgument, match="epochs must be those of the sampler's scheme, 3"):
        scheme_of(loader, epochs=2)


class Reversed(RandomSampler):
    """A subclass that draws in its own way."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(SIZE)[::-1])


class Stream(IterableDataset[int]):
    """Examples without indices."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(SIZE))


class Wrapped(DataLoader[Any]):
    """A loader that may change its batches."""


class Batches(Sampler[list[int]]):
    """A batch sampler of one's own."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1]])


def doubled(examples: list[Any]) -> Any:
    return torch.utils.data.default_collate(examples + examples)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"sampler": WeightedRandomSampler([1.0] * SIZE, SIZE, replacement=False)},
            "Without replacement",
        ),
        ({"sampler": SubsetRandomSampler(range(SIZE))}, r"SubsetRandomSampler .* Use shuffle=True"),
        ({"sampler": RandomSampler(DATA, replacement=True), "batch_size": 3}, "of several sizes"),
        ({"sampler": RandomSampler(DATA, num_samples=5)}, "num_samples=5 of 10"),
        ({"sampler": RandomSampler(DATA, num_samples=20)}, "num_samples=20 of 10"),
        ({"sampler": RandomSampler(range(5))}, "draws from 5 indices"),
        ({"sampler": SequentialSampler(range(5))}, "draws from 5 indices"),
        ({"sampler": Reversed(DATA)}, "Reversed"),
        ({"sampler": [1, 1, 1]}, "list draws"),
        ({"sampler": DistributedSampler(DATA, num_replicas=2, rank=0)}, "shard=shard_of_rank"),
        ({"shuffle": True, "generator": torch.Generator()}, "never seeded"),
        ({"shuffle": True, "collate_fn": doubled}, "collate function doubled"),
        ({"batch_size": None}, "batch_size=None"),
        ({"batch_size": 1, "batch_sampler": Batches()}, "Batches draws"),
        ({"dataset": Stream()}, "Stream hands out"),
        ({"dataset": Subset(DATA, [0, 1, 1]), "shuffle": True}, "record more than once"),
        ({"dataset": Subset(DATA, [0, 1, -SIZE]), "shuffle": True}, "record more than once"),
        ({"dataset": ConcatDataset([DATA, DATA])}, "record more than once"),
        ({"dataset": Subset(ConcatDataset([DATA, DATA]), [1, SIZE + 1])}, "record more than once"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_s1a_what_nobody_can_tell_is_refused_by_name(options: dict[str, Any], words: str) -> None:
    loader = DataLoader(**{"dataset": DATA, **options})
    with pytest.raises(dp.Unsupported, match=words):
        scheme_of(loader, epochs=2)


def test_weighted_draws_with_replacement() -> None:
    """Batches of one size, over as many epochs as are made; a smaller last batch is refused."""
    weights = [1.0] * (SIZE - 1) + [3.0]
    loader = DataLoader(DATA, batch_size=4, sampler=WeightedRandomSampler(weights, 12))
    expected = dp.FixedSizeBatches(
        dataset_size=SIZE, batch_size=4, steps=6, replacement=True, weights=tuple(weights)
    )
    assert scheme_of(loader, epochs=2) == expected
    ragged = WeightedRandomSampler(weights, SIZE)
    dropping = DataLoader(DATA, batch_size=4, sampler=ragged, drop_last=True)
    assert scheme_of(dropping, epochs=3) == expected
    with pytest.raises(dp.Unsupported, match="of several sizes from num_samples=10"):
        scheme_of(DataLoader(DATA, batch_size=4, sampler=ragged), epochs=2)
    with pytest.raises(dp.Unsupported, match="draws from 5 indices"):
        scheme_of(DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 5, 12)), epochs=2)


def test_loaders_that_are_none() -> None:
    with pytest.raises(WrongType, match="loader must be a torch DataLoader"):
        scheme_of([[0, 1]], epochs=2)
    with pytest.raises(dp.Unsupported, match="Wrapped may change the batches"):
        scheme_of(Wrapped(DATA), epochs=2)
    with pytest.raises(dp.InvalidArgument, match="epochs must be given"):
        scheme_of(DataLoader(DATA))
    with pytest.raises(dp.InvalidArgument, match="epochs must be"):
        scheme_of(DataLoader(DATA), epochs=0)


def test_a_collate_function_may_be_vouched_for() -> None:
    loader = DataLoader(DATA, batch_size=5, collate_fn=doubled)
    assert scheme_of(loader, epochs=2, collate=doubled).steps == 4
    with pytest.raises(dp.Unsupported, match="doubled"):
        scheme_of(loader, epochs=2, collate=torch.stack)
    with pytest.raises(dp.Unsupported, match="doubled"):
        scheme_of(poisson(sample_rate=0.5, collate_fn=doubled), epochs=2)


def test_s1a_shards_of_opacus_are_refused() -> None:
    """Its distributed sampler leaves empty batches out, and with them their noise."""
    from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler

    sampler = object.__new__(DistributedUniformWithReplacementSampler)
    with pytest.raises(dp.Unsupported, match=r"DistributedUniformWithReplacementSampler .*shard"):
        scheme_of(DataLoader(DATA, batch_sampler=sampler), epochs=2)
