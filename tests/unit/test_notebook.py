"""What notebooks show of answers: small, self-contained HTML that says what the text says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import sharpdp as dp

RUN = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)


class Checked(HTMLParser):
    """Collects the text, and counts on every element being closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in {"div", "table", "thead", "tbody", "tr", "th", "td", "span", "img"}
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def text_of(thing: Any) -> str:
    source = thing._repr_html_()
    assert len(source) < 20_000
    assert not re.search(r"<script|http|onload|url\(", source)
    parser = Checked()
    parser.feed(source)
    assert not parser.open
    return " ".join(parser.words)


def test_a_bracket_has_its_ends_and_its_rigor() -> None:
    words = text_of(dp.account(RUN).epsilon(delta=1e-5))
    assert "≤ epsilon ≤ 1.8282366" in words
    assert "at delta=1e-05 | Poisson batches, add/remove, certified" in words
    many = text_of(dp.account(RUN).epsilon(delta=np.geomspace(1e-9, 1e-2, 50)))
    assert "... and 42 more" in many
    assert text_of(dp.Bracket(1.0, 2.0)).startswith("1 ≤ epsilon ≤ 2")


def test_a_guarantee_answers_at_three_deltas() -> None:
    words = text_of(dp.account(RUN))
    assert RUN.describe() in words
    for delta in (1e-5, 1e-6, 1e-8):
        low, high = dp.account(RUN).epsilon(delta=delta).printed
        assert low[:8] in words
        assert high[:8] in words


def test_tables_and_curves_are_shown() -> None:
    table = dp.compare_samplers(
        noise_multiplier=1.0, dataset_size=60, batch_size=10, epochs=1, delta=1e-5
    )
    words = text_of(table)
    assert all(row.name in words for row in table)
    words = text_of(dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=1e-5))
    assert "gaussian_tight" in words
    assert "Gaussian noise" in text_of(dp.account(dp.Gaussian(noise_multiplier=1.0)).tradeoff())


@pytest.mark.parametrize(
    "thing",
    [RUN, dp.account(RUN), dp.account(RUN).tradeoff(), dp.account(RUN).epsilon(delta=1e-5)],
    ids=lambda thing: type(thing).__name__,
)
def test_reprs_are_short(thing: Any) -> None:
    assert len(repr(thing)) < 400
