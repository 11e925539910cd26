"""Results are kept by what they were computed from, and a file that is not whole is not trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from reproduce import sources
from reproduce.cache import Shelf, once, shelved
from reproduce.drawing import drawn
from reproduce.wang2023 import statements

NAME = "Lemma 6.3"


def kept(folder: Path) -> Path:
    (file,) = folder.glob("*.json")
    return file


def test_the_second_time_nothing_is_computed(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with shelved(Shelf(tmp_path)) as shelf:
            found.append((once(statements.found, NAME), shelf.computed))
    assert found[0][0] == found[1][0] == ["3/20", "17/50 = 0.34", "3/20 = 0.15", "3/20 = 0.15"]
    assert [computed for _, computed in found] == [1, 0]


def test_fresh_computes_again_but_once_in_a_run(tmp_path: Path) -> None:
    for _ in range(2):
        with shelved(Shelf(tmp_path, fresh=True)) as shelf:
            once(statements.found, NAME)
            once(statements.found, NAME)
        assert shelf.computed == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("17/50", "18/50"),
        lambda text: "[]",
        lambda text: "null",
        lambda text: json.dumps({"key": {}, "digest": "", "result": 1}),
        lambda text: text.replace('"sources": "', '"sources": "0'),
        lambda text: text.replace(NAME, "Lemma 9"),
    ],
)
def test_what_is_damaged_or_stale_is_computed_again(
    damage: Callable[[str], str], tmp_path: Path
) -> None:
    with shelved(Shelf(tmp_path)):
        right = once(statements.found, NAME)
    file = kept(tmp_path)
    text = file.read_text("utf-8")
    file.write_text(damage(text), "utf-8")
    assert file.read_text("utf-8") != text
    with shelved(Shelf(tmp_path)) as shelf:
        assert once(statements.found, NAME) == right
        assert shelf.computed == 1
    assert file.read_text("utf-8") == text


def test_a_file_that_is_not_text_is_computed_again(tmp_path: Path) -> None:
    with shelved(Shelf(tmp_path)):
        right = once(statements.found, NAME)
    kept(tmp_path).write_bytes(b"\xff\xfe\x00")
    with shelved(Shelf(tmp_path)):
        assert once(statements.found, NAME) == right


def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    stopped.__module__, stopped.__qualname__ = statements.__name__, "tables"
    with shelved(Shelf(tmp_path)):
        once(statements.found, NAME)
        with pytest.raises(KeyboardInterrupt):
            once(stopped)
    assert len(list(tmp_path.iterdir())) == 1
    with shelved(Shelf(tmp_path)) as shelf:
        once(statements.found, NAME)
        assert shelf.computed == 0


def test_a_digest_covers_what_a_function_uses_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library, texts = sources.snapshot()
    file = Path(statements.__file__)

    def digest(text: str, library: str = library) -> str:
        sources.sources.cache_clear()
        sources._names.cache_clear()
        monkeypatch.setattr(sources, "snapshot", lambda: (library, {**texts, file: text}))
        return sources.sources("reproduce.wang2023.statements.found")

    text = texts[file]
    before = digest(text)
    assert digest(text.replace("F(3, 20)", "F(4, 20)")) != before  # by name, by name, in a table
    assert digest(text.replace("def mixed(", "def mixed(  # comment\n")) == before
    assert digest(text.replace('"at the rate"', '"rate"')) == before  # a heading
    assert digest(text, library="another") != before
    monkeypatch.undo()
    sources.sources.cache_clear()
    sources._names.cache_clear()


def test_a_digest_follows_imports() -> None:
    used: dict[str, str] = {}
    sources._collect("reproduce.girgis2021.claims", "gain", used)
    assert "reproduce.girgis2021.panels.published" in used
    assert "reproduce.girgis2021.panels.DELTA" in used
    assert "reproduce.girgis2021.panels.draw" not in used


def test_pictures_are_the_same_each_time(tmp_path: Path) -> None:
    texts = []
    for place in ("a", "b"):
        with shelved(Shelf(tmp_path / place)):
            texts.append(drawn("reproduce.asoodeh2020.conversion", "draw", (3.0, 3.0), []))
    assert texts[0] == texts[1]
    assert "<svg" in texts[0]
