"""Random pairs of pmfs in fractions, with zero masses and equal likelihood ratios among them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

Pmf = list[Fraction]


def normalized(weights: list[int]) -> Pmf:
    return [Fraction(weight, sum(weights)) for weight in weights]


@st.composite
def pairs(draw: st.DrawFn, most: int = 5) -> tuple[Pmf, Pmf]:
    """(null, alternative) on up to `most` points; small weights, so that ties and zeros are common."""
    size = draw(st.integers(1, most))
    weights = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return normalized(draw(weights)), normalized(draw(weights))


def rates() -> st.SearchStrategy[Fraction]:
    return st.fractions(0, 1, max_denominator=40)


def ratios() -> st.SearchStrategy[Fraction]:
    return st.fractions(Fraction(1, 20), 20, max_denominator=20)
