"""The example notebooks run, and still show what is kept in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.notebooks import NOTEBOOKS, executed, read, shown

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "collection_design", "honest_epsilon", "privacy_officer",
    ]  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_kept_in_it(path: Path) -> None:
    """Words are the same; numbers may become sharper by a few percent before they are kept again."""
    kept, now = read(path)["cells"], executed(path)
    assert sum(bool(cell.get("outputs")) for cell in kept) >= 5
    for old, new in zip(kept, now, strict=True):
        before, after = shown(old), shown(new)
        assert NUMBER.sub("#", before) == NUMBER.sub("#", after), "".join(old["source"])
        assert numbers(before) == pytest.approx(numbers(after), rel=0.05, abs=0.5), old["source"]
        assert len(after) < 12_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_jupyter_executes_it(path: Path, tmp_path: Path) -> None:
    client = pytest.importorskip(
        "nbclient", reason="run by make test-frameworks; or pip install nbclient ipykernel"
    )
    formats = pytest.importorskip("nbformat")
    notebook = formats.read(path, as_version=4)
    formats.validate(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=300, resources=resources).execute()
