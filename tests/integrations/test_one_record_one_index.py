"""A record at two indices is in twice as many batches: every way of torch to make one is refused."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, random_split

import sharpdp as dp
from sharpdp.integrations.torch import BatchSampler, check_records, loader, scheme_of

SIZE = 30
ROWS = torch.randn(SIZE, 3)
DATA = TensorDataset(ROWS, torch.arange(SIZE))
LISTED = [(index, "name") for index in range(SIZE)]


class Changed(Dataset[Any]):
    """A wrapper of one's own that changes examples, and maybe picks some."""

    def __init__(self, dataset: Any, indices: Any = None) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.dataset if self.indices is None else self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index if self.indices is None else self.indices[index]]


def halves() -> list[Any]:
    return list(random_split(DATA, [SIZE // 2, SIZE // 2]))  # type: ignore[arg-type]


TWICE: dict[str, Any] = {
    "overlapping subsets": lambda: ConcatDataset(
        [Subset(DATA, range(20)), Subset(DATA, range(10, 30))]
    ),
    "the whole and a part": lambda: ConcatDataset([DATA, Subset(DATA, range(10))]),
    "two subsets of the same indices": lambda: ConcatDataset(
        [Subset(DATA, [1, 2]), Subset(DATA, [1, 2])]
    ),
    "nested subsets": lambda: ConcatDataset(
        [Subset(Subset(DATA, range(5, 20)), [0]), Subset(DATA, [3, 5])]
    ),
    "negative indices": lambda: ConcatDataset([Subset(DATA, [-1]), Subset(DATA, [SIZE - 1])]),
    "tensors as indices": lambda: Subset(DATA, torch.tensor([4, 7, 4])),  # type: ignore[arg-type]
    "a concatenation in a concatenation": lambda: ConcatDataset(
        [ConcatDataset([Subset(DATA, [0]), Subset(LISTED, [0])]), Subset(LISTED, [3, 0])]
    ),
    "subset of a concatenation": lambda: Subset(ConcatDataset([DATA, DATA]), [3, SIZE + 3]),
    "a split and the whole": lambda: ConcatDataset([halves()[0], DATA]),
    "two splits": lambda: ConcatDataset([*halves(), *halves()]),
    "the same tensors in two data sets": lambda: ConcatDataset(
        [DATA, TensorDataset(ROWS, torch.arange(SIZE))]
    ),
    "slices that overlap": lambda: ConcatDataset(
        [TensorDataset(ROWS[:20]), TensorDataset(ROWS[19:])]
    ),
    "arrays that overlap": lambda: ConcatDataset([ROWS.numpy()[:20], ROWS.numpy()[19:]]),
    "two views of a list": lambda: ConcatDataset([Changed(LISTED), Changed(LISTED)]),
    "indices of one's own": lambda: Changed(DATA, np.array([2, 5, -SIZE + 2])),
}

ONCE: dict[str, Any] = {
    "splits": lambda: ConcatDataset(halves()),
    "parts": lambda: ConcatDataset([Subset(DATA, range(10)), Subset(DATA, range(10, SIZE))]),
    "half of a doubled one": lambda: Subset(ConcatDataset([DATA, DATA]), [3, SIZE + 4]),
    "slices": lambda: ConcatDataset([TensorDataset(ROWS[:20]), TensorDataset(ROWS[20:])]),
    "every second row": lambda: ConcatDataset([ROWS[::2], ROWS[1::2]]),
    "lists": lambda: ConcatDataset([LISTED, list(LISTED)]),
    "one row for all": lambda: Subset(TensorDataset(torch.zeros(1, 3).expand(SIZE, 3)), range(9)),
    "a label for all": lambda: Subset(TensorDataset(torch.zeros(1).expand(SIZE), ROWS), range(9)),
    "empty rows": lambda: Subset(TensorDataset(torch.zeros(SIZE, 0)), range(9)),
    "changed": lambda: Changed(DATA, range(4)),
}


@pytest.mark.parametrize("name", TWICE)
def test_b10_a_record_at_two_indices_is_refused(name: str) -> None:
    dataset = TWICE[name]()
    with pytest.raises(dp.Unsupported, match="has a record more than once"):
        check_records(dataset)
    with pytest.raises(dp.Unsupported, match="has a record more than once"):
        scheme_of(torch.utils.data.DataLoader(dataset, batch_size=1), epochs=1)
    scheme = dp.PoissonBatches(sample_rate=0.5, steps=3, dataset_size=len(dataset))
    with pytest.raises(dp.Unsupported, match="has a record more than once"):
        loader(dataset, BatchSampler(scheme))


@pytest.mark.parametrize("name", ONCE)
def test_records_at_one_index_each_are_taken(name: str) -> None:
    check_records(ONCE[name]())


def test_the_message_names_both_indices() -> None:
    with pytest.raises(dp.Unsupported, match="at index 2 is at index 4, too"):
        check_records(Subset(DATA, [9, 8, 7, 6, 7]))


@pytest.mark.parametrize("indices", [[0, SIZE], [-SIZE - 1]])
def test_indices_that_do_not_exist_are_refused(indices: list[int]) -> None:
    with pytest.raises(dp.Unsupported, match="of 30 examples"):
        check_records(Subset(LISTED, indices))


def test_a_million_records_take_a_second_at_most() -> None:
    many = TensorDataset(torch.zeros(1_000_000, 1))
    order = torch.randperm(1_000_000)
    parts = [Subset(many, part) for part in np.array_split(order.numpy(), 1000)]
    started = time.process_time()
    check_records(ConcatDataset(parts))
    check_records(Subset(many, order))  # type: ignore[arg-type]
    check_records(Subset(many, order.tolist()))
    assert time.process_time() - started < 5.0  # about 0.5 on one core
    with pytest.raises(dp.Unsupported, match="has a record more than once"):
        check_records(ConcatDataset([*parts, Subset(many, [123_456])]))


class Huge:
    """A data set that is far larger than memory."""

    def __len__(self) -> int:
        return 10**12

    def __getitem__(self, number: int) -> int:
        return number


def test_data_sets_larger_than_memory_are_followed_by_ranges() -> None:
    one, other = Huge(), Huge()
    check_records(ConcatDataset([one, other]))
    check_records(ConcatDataset([Subset(one, range(10**11)), Subset(one, range(10**11, 10**12))]))
    check_records(Subset(ConcatDataset([one, other]), [0, 10**12, 3]))
    with pytest.raises(dp.errors.Unsupported, match="at index 0 is at index 2, too"):
        check_records(Subset(ConcatDataset([one, other]), [5, 10**12, 5]))
