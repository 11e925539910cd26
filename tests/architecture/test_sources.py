"""Every paper that a docstring or a registration names is an entry of references.bib."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.source_tree import PACKAGE, Module, docstrings, modules

KEY = re.compile(r"\b[a-z]+(?:19|20)\d{2}[a-z]*\b")
# From `Source:` to the next blank line or doctest.
SOURCE = re.compile(r"^\s*\*?Sources?\*?:\*?(.*?)(?=\n\s*\n|\n\s*>>>|\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^@(\w+)\{([^,]+),(.*?)^\}", re.MULTILINE | re.DOTALL)
NEEDED_FIELDS = ("author", "title", "year")
PLACES = ("doi", "url", "eprint")


def bibliography() -> dict[str, str]:
    text = (PACKAGE / "bounds" / "references.bib").read_text("utf-8")
    entries = ENTRY.findall(text)
    assert len(entries) == text.count("\n@") + text.startswith("@"), "an entry does not parse"
    keys = [key for _, key, _ in entries]
    assert keys == sorted(set(keys)), "entries are sorted by key, each once"
    return {key: body for _, key, body in entries}


def cited(module: Module) -> list[tuple[int, str]]:
    """(line, text) of every `Source:` paragraph and every `source=` argument of a call."""
    found = [
        (line, " ".join(paragraph.split()))
        for line, text in docstrings(module)
        for paragraph in SOURCE.findall(text)
    ]
    for node in ast.walk(module.tree) if re.search(r"\bsource\s*=", module.text) else ():
        if isinstance(node, ast.keyword) and node.arg == "source":
            if isinstance(node.value, ast.Constant):
                found.append((node.value.lineno, str(node.value.value)))
            elif not isinstance(node.value, ast.Name | ast.Attribute):
                found.append((node.value.lineno, ""))
    return found


def source_violations(module: Module, known: set[str]) -> list[str]:
    found = []
    for line, text in cited(module):
        keys = KEY.findall(text)
        if not keys:
            found.append(f"{module.path}:{line}: no key in {text!r}")
        found += [f"{module.path}:{line}: {key}" for key in keys if key not in known]
    return found


def test_every_source_resolves() -> None:
    known = set(bibliography())
    assert [v for module in modules() for v in source_violations(module, known)] == []


def test_every_entry_is_whole() -> None:
    entries = bibliography()
    assert "dong2022" in entries
    for key, body in entries.items():
        fields = re.findall(r"^\s*(\w+)\s*=", body, re.MULTILINE)
        assert set(NEEDED_FIELDS) <= set(fields), key
        assert set(PLACES) & set(fields), f"{key} says where to find it"
        year = re.search(r"year\s*=\s*\{(\d{4})\}", body)
        assert year is not None, key
        assert year[1] in key, f"{key} carries its year"
        assert body.count("{") == body.count("}"), key


@pytest.mark.parametrize(
    "text",
    [
        'def f():\n    """Fact.\n\n    Source: nobody2031 Theorem 1.\n    """',
        'def f():\n    """Fact.\n\n    Source: a well-known book.\n    """',
        'def f():\n    """Fact.\n\n    *Source*: dong2022 Theorem 2.7,\n    nobody2031.\n    """',
        '@bound(source="nobody2031 Theorem 1")\ndef f(): ...',
        '@bound(source="")\ndef f(): ...',
    ],
)
def test_the_rule_catches_what_it_should(text: str) -> None:
    assert source_violations(Module("m", "m.py", text), {"dong2022"}) != []


def test_the_rule_allows_what_it_should() -> None:
    text = (
        'def f():\n    """Fact.\n\n    Source: dong2022 Theorem 2.7.\n\n    other2031\n    """\n'
        '@bound(source="dong2022 Theorem 2.7")\ndef g(): ...'
    )
    assert source_violations(Module("m", "m.py", text), {"dong2022"}) == []
