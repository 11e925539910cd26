"""`python -m reproduce`: a quick run of everything, and what a wrong name is told."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from reproduce import __main__ as command
from reproduce import cache, pages, progress
from reproduce.catalog import EVERYTHING, PAPERS


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of a test goes to out/ or docs/, and nothing comes from there."""
    shelf = cache.Shelf
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(command, "QUICK_FOLDER", tmp_path / "quick")
    monkeypatch.setattr(command, "Shelf", lambda fresh: shelf(tmp_path / "cache", fresh=fresh))
    return tmp_path


@pytest.mark.slow
def test_a_quick_run_makes_everything_and_the_second_one_nothing(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--quick"]) == 0
    printed = capsys.readouterr().out
    for paper in EVERYTHING:
        for item in paper.items:
            assert (item.title in printed) is item.quick
    for paper in PAPERS:
        assert (elsewhere / "quick" / f"{paper.key}.md").exists()
    assert "\n0 computed" not in printed
    assert not (elsewhere / "docs").exists()
    assert command.main(["--quick"]) == 0
    again = capsys.readouterr().out
    assert "\n0 computed" in again
    assert again.partition("\n0 computed")[0] == printed[: again.index("\n0 computed")]


def test_one_item(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["wang2023", "--only", "statements"]) == 0
    printed = capsys.readouterr().out
    assert "17/50 = 0.34" in printed
    assert "Table 1" not in printed
    assert not list(elsewhere.glob("docs/papers/*.md"))


def test_a_page_that_differs_is_an_error_once(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["asoodeh2020", "--only", "figure1"]
    assert command.main(run) == 0
    (picture,) = elsewhere.glob("docs/papers/*.svg")
    text = picture.read_text("utf-8")
    first = next(word for word in pages.words(text, picture.name) if len(word) > 3)
    picture.write_text(text.replace(f">{first}<", ">something else<"), "utf-8")
    assert command.main(run) == 1
    assert f"differs from what was in docs: {picture.name}" in capsys.readouterr().out
    assert command.main(run) == 0
    picture.write_text(text + "\n", "utf-8")  # no word
    assert command.main(run) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wang2024"], "invalid choice: 'wang2024'"),
        (["wang2023", "--only", "figure9"], "wang2023 has table1, table2, figure1"),
        (["--only", "figure1"], "--only needs a paper"),
        (["--quik"], "unrecognized arguments: --quik"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_ones(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_ctrl_c_is_one_sentence(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", stopped)
    assert command.main([]) == command.INTERRUPTED
    assert "Interrupted. 0 new results are kept" in capsys.readouterr().out


def test_progress_shows_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for screen, shows in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", screen)
        progress.line("half way")
        assert ("half way" in screen.getvalue()) is shows
