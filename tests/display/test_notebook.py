"""What notebooks show of answers: small, self-contained HTML that says what the text says."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import sharpdp as dp
from sharpdp import audit, report
from sharpdp.display import notebook

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
    assert "1.82823 ≤ epsilon ≤ 1.82824" in words
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
        noise_multiplier=1.0, dataset_size=60, batch_size=60, epochs=1, delta=1e-5
    )
    words = text_of(table)
    assert all(row.name in words for row in table)
    words = text_of(dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=1e-5))
    assert "gaussian_tight" in words
    assert "Gaussian noise" in text_of(dp.account(dp.Gaussian(noise_multiplier=1.0)).tradeoff())


LONG = dp.Sequence([dp.Gaussian(noise_multiplier=1.0 + step) for step in range(40)])
PAIR = dp.FinitePair(p=[0.01] * 100, q=[0.01] * 100)
SCHEME = dp.ShuffledBatches(dataset_size=60, batch_size=10, epochs=2)


def answers() -> dict[str, Any]:
    """One of each kind of answer, about runs that are long to describe."""
    noise = np.random.default_rng(0)
    answer = dp.account(RUN)
    gaussian = dp.account(dp.Gaussian(noise_multiplier=1.0))
    return {
        "guarantee": answer,
        "guarantee of many": dp.account(LONG),
        "guarantee of a pair": dp.account(PAIR),
        "bracket": answer.epsilon(delta=1e-5),
        "brackets": answer.epsilon(delta=np.geomspace(1e-9, 1e-2, 50)),
        "trade-off curve": answer.tradeoff(),
        "Renyi curve": answer.renyi_curve(),
        "Renyi function": dp.RenyiCurve.zcdp(rho=0.1),
        "risk": gaussian.risk(),
        "comparison": dp.compare(LONG, delta=1e-5),
        "samplers": dp.compare_samplers(
            noise_multiplier=1.0, dataset_size=60, batch_size=60, epochs=1, delta=1e-5
        ),
        "mixture": dp.compare_mixture(
            dp.Mixture(components=[PAIR, PAIR], weights=[0.75, 0.25]), fpr=0.1
        ),
        "sweep": dp.sweep(
            lambda noise: dp.Gaussian(noise_multiplier=noise), noise=np.linspace(1.0, 5.0, 40)
        ),
        "design": dp.design_collection(users=500, local_epsilon=[1.0, 2.0], delta=1e-6),
        "verification": report.verify(gaussian.report(format="json")),
        "audit of scores": audit.many_runs(
            with_record=noise.normal(1.0, 1.0, 300),
            without_record=noise.normal(0.0, 1.0, 300),
            confidence=0.95,
        ),
        "audit of batches": audit.sampler(batches=list(SCHEME.batches(1)), scheme=SCHEME),
    }


def test_every_answer_is_short_and_shown_in_notebooks() -> None:
    for name, answer in answers().items():
        assert len(repr(answer)) <= 300, name
        assert "\n" not in repr(answer) or isinstance(answer, dp.Bracket), name
        assert text_of(answer).strip(), name


def test_a_report_as_a_page_is_shown_as_one() -> None:
    page = dp.account(dp.Gaussian(noise_multiplier=1.0)).report(format="html")
    assert isinstance(page, notebook.Page)
    framed = re.fullmatch(
        r'<iframe sandbox="" .*srcdoc="([^"]*)"></iframe>', page._repr_html_(), re.S
    )
    assert framed is not None
    assert html.unescape(framed[1]) == page
    lines: list[str] = []
    page._repr_pretty_(SimpleNamespace(text=lines.append), False)
    assert len(lines[0]) <= 300
    assert report.verify(page).verdict is report.Verdict.CONFIRMED


def test_a_ledger_says_what_is_left(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "b.jsonl", epsilon=2.0, delta=1e-6, choice="fixed in advance")
    for step in range(12):
        ledger.add(dp.Gaussian(noise_multiplier=30.0), note=f"table <{step}>")
    words = text_of(ledger)
    left = 100.0 * float(ledger.remaining().lower)
    assert f"{np.floor(10 * left) / 10:.1f}% of a budget of epsilon=2 at delta=1e-06" in words
    assert "table <11>" in words
    assert "table <1>" not in words
    assert "2 earlier releases are not shown" in words
    assert len(repr(ledger)) <= 300
    assert repr(ledger).endswith(": 12 releases)")


def test_long_reprs_are_cut_in_their_middle() -> None:
    text = "a" * 500 + "b" * 500
    assert len(notebook.shortened(text)) == notebook.LONGEST
    assert notebook.shortened(text).startswith("aaa")
    assert notebook.shortened(text).endswith("bbb")
    assert notebook.shortened("short") == "short"
