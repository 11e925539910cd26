"""Tables on a terminal: as wide as it is, the best bounds marked, the others told apart."""

from __future__ import annotations

import io
import math
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.cli import main
from sharpdp.cli.tables import bounds_on, schemes
from sharpdp.cli.terminal import Scale
from sharpdp.cli.views import Axis, Emphasis, Extent, Group, TableLine, View
from sharpdp.questions.compare_samplers import SamplerRow
from tests.cli.pseudo_terminal import pseudo_terminal, sent_to

STYLE = re.compile(r"\x1b\[[0-9;]*m")
REPORTS = "compare shuffle --users 300 --local-epsilon 1 --delta 1e-6"


def shown(words: str, columns: int, **environment: str) -> str:
    """What a terminal of so many columns is sent as the answer."""
    leader, follower = pseudo_terminal(columns)
    clean = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")
    }
    with subprocess.Popen(
        [sys.executable, "-m", "sharpdp", *words.split()],
        stdout=follower,
        stderr=subprocess.PIPE,
        env={**clean, "TERM": "xterm-256color", **environment},
    ) as process:
        os.close(follower)
        said = sent_to(leader)
        assert process.wait() == 0, process.stderr.read() if process.stderr else said
    os.close(leader)
    return said.decode().replace("\r\n", "\n")


class Terminal(io.StringIO):
    """A terminal of 400 columns for answers of this process, whose start takes longer than most."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def shown_here(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a wide terminal is sent as the answer."""
    screen = Terminal()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", screen)
        patched.delenv("NO_COLOR", raising=False)
        patched.setenv("TERM", "xterm-256color")
        patched.setenv("COLUMNS", "400")
        assert main(words) == 0
    return screen.getvalue()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_tables_fit_the_terminal(columns: int) -> None:
    text = STYLE.sub("", shown(REPORTS, columns))
    assert max(map(len, text.splitlines())) <= columns
    found = dp.compare(dp.ShuffledReports(users=300, local_epsilon=1), delta=1e-6)
    joined = re.sub(r"\s", "", text)
    for row in found.rows:
        assert row.shown in text
        assert row.name in joined  # a name may be folded
    best = [found.best(side) for side in dp.Side]
    marked = [line for line in text.splitlines() if line.startswith("▸")]
    assert [row.shown in line for row, line in zip(best, marked, strict=True)] == [True, True]  # type: ignore[union-attr]


def test_color_is_left_out_where_it_is_not_wanted() -> None:
    colors = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    words = "compare conversions --orders 2 8 --values 0.1 0.4 --delta 1e-5"
    plain = subprocess.run(
        [sys.executable, "-m", "sharpdp", *words.split()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert plain.startswith("epsilon at delta=1e-05 | mechanism known by its Renyi divergences")
    assert colors.search(shown(words, 80))
    assert not colors.search(shown(words, 80, NO_COLOR="1"))
    assert shown(f"{words} --plain", 80) == plain
    assert shown(words, 80, TERM="dumb") == plain
    assert shown(words, 80, PYTHONIOENCODING="ascii") == plain
    assert max(map(len, STYLE.sub("", shown(words, 80, COLUMNS="60")).splitlines())) <= 60


@pytest.mark.parametrize(
    "words",
    [
        "dpsgd --noise-multiplier 1 --sample-rate 0.1 --steps 10 --delta 1e-5 1e-6",
        "tradeoff --noise-multiplier 1 --sample-rate 1 --steps 10 --details",
        "compare shuffle --users 20 --local-epsilon 1 --delta 1e-6",
        "compare shuffle --users 20 --local-epsilon 1 --delta 1e-6 --details",
        "compare samplers --noise-multiplier 1 --dataset-size 100 --batch-size 50 --epochs 1 "
        "--delta 1e-3",
        "bounds",
    ],
)
def test_color_changes_no_content(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word of the plain answer stands in the colored one, too."""
    answer = shown_here(words.split(), monkeypatch)
    assert STYLE.search(answer)
    colored = set(STYLE.sub("", answer).split())
    said = shown_here([*words.split(), "--plain"], monkeypatch)
    plain = {word for word in said.split() if not set(word) <= set("#-|")}
    missing = {word for word in plain if not {word, word.strip(",|:")} & colored}
    assert not missing


def test_without_rich_the_text_is_plain(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError('there is no rich')\n", "utf-8")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # a module that cannot be imported is as good as none
    said = shown("bounds gaussian_tight", 80, PYTHONPATH=path)
    assert said.startswith("gaussian_tight: Gaussian")
    said = shown("compare conversions --orders 2 --values 0.1 --delta 1e-5", 80, PYTHONPATH=path)
    assert said.startswith("epsilon at delta=1e-05 | mechanism known by")


@pytest.mark.parametrize(
    "words",
    [
        "dpsgd --noise-multiplier 1 --sample-rate 0.1 --steps 10 --delta 1e-5 1e-6",
        "tradeoff --noise-multiplier 1 --sample-rate 1 --steps 10",
        "bounds",
        "account laplace\x00scale=1 --delta 1e-5",
    ],
)
def test_every_table_has_a_title(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [word.replace("\x00", " ") for word in words.split()]
    assert shown_here(parts, monkeypatch).startswith("\x1b[1m")


def test_rows_are_told_apart() -> None:
    found = dp.compare(dp.ShuffledReports(users=10_000, local_epsilon=1), delta=1e-6)
    view = bounds_on(found, details=False)
    headings = [group.heading for group in view.groups]
    assert headings[0] == "certified by a published theorem"
    assert headings[1] == "certified by our own proof, which is not peer reviewed"
    assert headings[2].startswith("approximate: neither an upper nor a lower bound")
    assert headings[-1] == "says nothing here"
    emphases = {line.cells[2]: line.emphasis for group in view.groups for line in group.lines}
    assert emphases["shared_clones_upper"] is Emphasis.BEST
    assert emphases["ternary_response_lower"] is Emphasis.BEST
    assert emphases["clones_closed_form_upper"] is Emphasis.HOLDS
    assert (
        emphases["corrected_limit"]
        is emphases["gaussian_limit"]
        is emphases["swap_upper"]
        is Emphasis.FAINT
    )
    assert list(emphases.values()).count(Emphasis.BEST) == 2
    silent = view.groups[-1].lines[0]
    assert silent.extent is None
    assert silent.remark == "it needs local_epsilon below 0.5"


def test_the_price_of_the_wrong_scheme_is_said() -> None:
    found = dp.compare_samplers(
        noise_multiplier=0.8, dataset_size=1000, batch_size=100, epochs=3, delta=1e-5
    )
    (warning,) = schemes(found, details=False).warnings
    claimed, true = (float(one) for one in re.findall(r"\d+\.\d+", warning))
    assert claimed >= found["Poisson"].upper
    assert true <= found["shuffled"].lower
    assert claimed < true


@pytest.mark.parametrize(
    ("extent", "emphasis", "text"),
    [
        (Extent(None, 5.0), Emphasis.HOLDS, "─────┤"),
        (Extent(5.0, None), Emphasis.HOLDS, "     ├────"),
        (Extent(None, 5.0), Emphasis.BEST, "━━━━━┫"),
        (Extent(2.0, 2.0), Emphasis.FAINT, "  ◆"),
        (Extent(None, math.inf), Emphasis.HOLDS, "─────────┤"),
    ],
)
def test_spans_end_where_their_bound_is(extent: Extent, emphasis: Emphasis, text: str) -> None:
    scale = Scale("spans", 10, 0.0, 10.0, logarithmic=False)
    assert "".join(piece for piece, _ in scale.drawn(TableLine((), emphasis, extent))) == text


@pytest.mark.parametrize(
    ("extent", "text"),
    [
        (Extent(5.0, 5.0), "█████"),
        (Extent(5.0, 10.0), "█████░░░░░"),
        (Extent(0.5, 0.5), "▌"),
        (Extent(5.0, math.inf), "█████░░░░░"),
        (Extent(0.0, 0.0), ""),
    ],
)
def test_bars_are_full_up_to_the_lower_end(extent: Extent, text: str) -> None:
    scale = Scale("bars", 10, 0.0, 10.0, logarithmic=False)
    assert "".join(piece for piece, _ in scale.drawn(TableLine((), Emphasis.HOLDS, extent))) == text


def test_the_axis_holds_all_values() -> None:
    def axis(*values: float) -> Scale | None:
        lines = tuple(TableLine(("",), Emphasis.HOLDS, Extent(None, value)) for value in values)
        return Scale.of(View("", groups=(Group("", lines),), axis=Axis("spans", "")), 40)

    near, far = axis(2.0, 3.0), axis(0.01, 3.0)
    assert near is not None
    assert far is not None
    assert (near.lower, near.logarithmic, far.logarithmic) == (0.0, False, True)
    assert near.upper > 3.0
    assert 0.0 < far.lower < 0.01
    assert far.place(0.01) < far.place(0.1) < far.place(1.0) < far.place(3.0) < 40
    assert axis(math.inf) is None
    zero = axis(0.0)
    assert zero is not None
    assert zero.place(0.0) == 0


def test_both_ends_are_rounded_outwards() -> None:
    def row(lower: float, upper: float) -> tuple[str, str]:
        both = dp.Bracket(lower, upper)
        return SamplerRow("any", None, dp.Adjacency.ZERO_OUT, both, both).shown

    assert row(1.000001, 1.000001) == ("1.00001", "1.01")
    assert row(1.2345678, 2.3456712) == ("1.23456 to 2.34568", "1.23 to 2.35")
    assert row(1.0, math.inf) == ("1 to inf", "1 to inf")
    assert row(0.0, 0.0) == ("0", "0")


@pytest.mark.slow
def test_the_picture_of_the_page_shows_what_is_shown_now() -> None:
    root = Path(__file__).resolve().parents[2]
    example = runpy.run_path(str(root / "examples" / "terminal.py"))
    assert example["picture"]() == (root / "docs" / "terminal.svg").read_text("utf-8")
