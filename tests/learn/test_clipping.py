"""Clipping holds for every record: in floating point, for non-finite gradients and for raised errors."""

from __future__ import annotations

import math
import traceback
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gradients import ClippedGradients

KEY = b"k" * 32


def linear(entries: int, kind: torch.dtype = torch.float32) -> nn.Linear:
    """A model whose gradient under `product` is the input times the target."""
    model = nn.Linear(entries, 1, bias=False, dtype=kind)
    nn.init.zeros_(model.weight)
    return model


def product(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output * target).sum()


def clipped(rows: torch.Tensor, clip: float) -> torch.Tensor:
    take = ClippedGradients(linear(rows.shape[1], rows.dtype), product, clip)
    return take.sum(rows, torch.ones(len(rows), 1, dtype=rows.dtype))["weight"].flatten()


def only(rows: torch.Tensor, kept: slice) -> torch.Tensor:
    """These rows where they are, and zeros elsewhere: last bits may depend on shape and place."""
    left = torch.zeros_like(rows)
    left[kept] = rows[kept]
    return left


def square(values: torch.Tensor) -> Fraction:
    """The exact square of an l2 norm."""
    return sum((Fraction(one) ** 2 for one in values.tolist()), Fraction(0))


@pytest.mark.parametrize("clip", [1e-30, 1e-12, 1e-7, 1e-6, 1e-4, 1e-3, 0.1, 1.0, 1e30])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_s6_no_gradient_is_longer_than_the_clip(kind: torch.dtype, clip: float) -> None:
    generator = torch.Generator().manual_seed(3)
    largest = min(torch.finfo(kind).max, 1e150)
    shape = torch.rand(100, generator=generator, dtype=torch.float64) * 2 - 1
    for size in (largest, largest / 3, 1e30, 1.0, clip, 1e-30, torch.finfo(kind).tiny / 4):
        for row in (torch.full((100,), size, dtype=torch.float64), size * shape):
            total = clipped(row.to(kind)[None], clip)
            assert square(total) <= Fraction(clip) ** 2, (size, clip)
            kept = min(square(row.to(kind)) / Fraction(clip) ** 2, Fraction(1))
            if kept > 1e-6:  # and it is not much shorter than it may be
                assert square(total) >= kept * Fraction(clip) ** 2 * Fraction(99998, 100000)


@pytest.mark.parametrize(("clip", "size"), [(1e-3, 3.4e38), (1e-4, 3.4e38), (1e-6, 1.4e38)])
def test_s6_a_huge_gradient_keeps_a_small_clip(clip: float, size: float) -> None:
    """The factor is below the normal range of float32; rounded there, it made the norm 1.96 clips."""
    total = clipped(torch.full((1, 100), size), clip)
    assert math.sqrt(square(total) / Fraction(clip) ** 2) <= 1.0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    rows=st.lists(
        st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=6,
    ),
    exponent=st.floats(min_value=-30, max_value=30),
)
def test_s6_one_record_moves_an_exact_sum_by_at_most_the_clip(
    rows: list[list[float]], exponent: float
) -> None:
    clip = min(max(10.0**exponent, 1e-30), 1e30)
    values = torch.tensor(rows, dtype=torch.float32)
    whole = clipped(values, clip)
    others = clipped(only(values, slice(1, None)), clip)
    alone = [
        Fraction(a) - Fraction(b) for a, b in zip(whole.tolist(), others.tolist(), strict=True)
    ]
    assert sum(one**2 for one in alone) <= Fraction(clip) ** 2


def test_s6_sums_of_many_records_are_exact() -> None:
    generator = torch.Generator().manual_seed(4)
    values = torch.randn(3000, 4, generator=generator)
    whole, others = clipped(values, 1.0), clipped(only(values, slice(1, None)), 1.0)
    alone = clipped(only(values, slice(1)), 1.0)
    moved = [
        Fraction(a) - Fraction(b) for a, b in zip(whole.tolist(), others.tolist(), strict=True)
    ]
    assert moved == [Fraction(one) for one in alone.tolist()]


def with_record(value: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(60, 3, generator=generator)
    inputs[17, 1] = value
    return inputs, inputs.sum(1, keepdim=True).nan_to_num()


def trained(inputs: torch.Tensor, targets: torch.Tensor, **options: object) -> Training:
    plan = dp.PoissonBatches(dataset_size=60, batch_size=12, epochs=4)
    torch.manual_seed(0)
    return Training(
        dp.DPSGD(plan, noise_multiplier=1.0),
        nn.Linear(3, 1),
        options.pop("loss", nn.MSELoss()),  # type: ignore[arg-type]
        inputs,
        targets,
        clip=1.0,
        key=KEY,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 3e38])
def test_s5_a_record_without_a_finite_gradient_counts_as_zero(value: float) -> None:
    run = trained(*with_record(value)).run(progress=False)
    assert run.step == 20
    assert all(bool(torch.isfinite(one).all()) for one in run.model.parameters())
    rows = torch.tensor([[1.0, 2.0], [math.nan, 1.0], [3.0, -math.inf]])
    assert torch.equal(clipped(rows, 1.0), clipped(only(rows, slice(1)), 1.0))


def test_s5_a_strict_run_stops_and_says_what_that_shows() -> None:
    run = trained(*with_record(math.inf), strict=True)
    with pytest.raises(dp.InvalidArgument, match="shows that there was such a record"):
        run.run(progress=False)
    with pytest.raises(WrongType, match="strict must be True or False; got 'yes'"):
        trained(*with_record(0.0), strict="yes")


def labeled() -> tuple[torch.Tensor, torch.Tensor]:
    """Sixty records, one of which has a label that no class has."""
    labels = torch.arange(60) % 3
    labels[17] = 1789
    return with_record(0.0)[0], labels


def classes() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 3)


def test_s5_a_record_on_which_the_loss_fails_counts_as_zero() -> None:
    inputs, labels = labeled()
    take = ClippedGradients(classes(), nn.CrossEntropyLoss(), 1.0)
    keep = torch.arange(60) != 17
    found, wanted = take.sum(inputs, labels), take.sum(inputs[keep], labels[keep])
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], rtol=0.0, atol=1e-5)


def test_s5_errors_show_values_of_records_only_if_asked() -> None:
    inputs, labels = labeled()
    for strict in (False, True):
        take = ClippedGradients(classes(), nn.CrossEntropyLoss(), 1.0, strict=strict)
        with pytest.raises(dp.InvalidArgument, match="Nothing was released") as caught:
            take.each(inputs, labels)
        told = "".join(traceback.format_exception(caught.value))
        assert ("1789" in told) == strict
        assert (caught.value.__cause__ is None) == (not strict)
        assert caught.value.__context__ is None


def test_s5_an_error_that_no_record_is_to_blame_for_is_shown() -> None:
    inputs, labels = labeled()

    def broken(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise KeyError("a defect of the loss")

    take = ClippedGradients(classes(), broken, 1.0)
    with pytest.raises(dp.InvalidArgument, match="KeyError: 'a defect of the loss'"):
        take.sum(inputs, labels)
