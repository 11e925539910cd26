"""The small changes that tests must notice, as `mutants.toml` lists them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """One small change that makes trust-critical code wrong.

    Args:
        name: A name for it, unique.
        file: The file that it changes, from the root of the tree.
        old: What is replaced: it occurs once in the file.
        new: What it is replaced by.
        why: What would be wrong: the reason why it is not equivalent.
        tests: Tests that should notice, as pytest names them.
        after: Where `old` occurs more often: a text that occurs once, and behind which the first `old` is
            meant.
        survives: Why no test notices; empty if one must.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    after: str = ""
    survives: str = ""

    def applied_to(self, source: str) -> str:
        """The changed file."""
        start = source.index(self.after) if self.after else 0
        return source[:start] + source[start:].replace(self.old, self.new, 1)

    def fault(self) -> str:
        """What is wrong with its place; empty if it is found, and is the only one."""
        source = (ROOT / self.file).read_text("utf-8")
        place = self.after or self.old
        if source.count(place) != 1:
            return f"{self.name}: {place!r} occurs {source.count(place)} times in {self.file}"
        if self.old not in source[source.index(place) :]:
            return f"{self.name}: {self.old!r} does not occur behind {place!r} in {self.file}"
        return ""


def mutants() -> list[Mutant]:
    """All of them, in the order of the file."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    text = (Path(__file__).parent / "mutants.toml").read_text("utf-8")
    return [
        Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in toml.loads(text)["mutant"]
    ]
