"""Example notebooks, executed without Jupyter: every cell runs, and what it shows is recorded.

python -m tests.docs.notebooks      # executes all of them again, and keeps what they show
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT

__all__ = ["NOTEBOOKS", "executed", "read", "shown"]

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """A notebook as plain data."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def executed(path: Path) -> list[Cell]:
    """The cells of a notebook with what they show now, run in a folder of their own."""
    space: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            cells = [_run(cell, space) for cell in read(path)["cells"]]
        finally:
            os.chdir(before)
        text = json.dumps(cells).replace(f"{Path(folder).resolve()}{os.sep}", "")
    made: list[Cell] = json.loads(text)
    return made


def _run(cell: Cell, space: dict[str, Any]) -> Cell:
    """One cell; the value of its last line is shown as a notebook shows it."""
    if cell["cell_type"] != "code":
        return cell
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "cell", "exec"), space)
        value = (
            None
            if last is None
            else eval(compile(ast.Expression(last.value), "cell", "eval"), space)
        )
    outputs = []
    if said.getvalue():
        lines = said.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append(
            {
                "data": data,
                "execution_count": cell["execution_count"],
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return {**cell, "outputs": outputs}


def shown(cell: Cell) -> str:
    """All text that a cell shows."""
    texts = []
    for output in cell.get("outputs", []):
        texts.append("".join(output.get("text", [])))
        texts += ["".join(lines) for lines in output.get("data", {}).values()]
    return "\n".join(texts)


def main() -> None:
    """Execute all notebooks, and keep what they show."""
    for path in NOTEBOOKS:
        notebook = {**read(path), "cells": executed(path)}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
