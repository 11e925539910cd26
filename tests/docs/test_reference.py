"""Pages that must keep in step with the code: bounds, bibliography, glossary, comparison, API."""

from __future__ import annotations

import importlib
import inspect
import re
from enum import Enum
from importlib.util import find_spec
from typing import Any

import pytest
from docs._extensions import bibliography, catalog
from docs._extensions.docstrings import inherited, restructured
from docs._extensions.mathml import mathml

from sharpdp.bounds.published import all_formulas
from sharpdp.bounds.registry import all_bounds
from tests.architecture.test_naming import SYNONYMS
from tests.architecture.test_sources import bibliography as entries
from tests.docs.pages import ROOT, blocks_of

DOCS = ROOT / "docs"
NUMBER = re.compile(r"\d[\d.]*(?:e-?\d+)?")
# Rooms whose public names belong into the reference.
ROOMS = (
    "sharpdp",
    "sharpdp.audit",
    "sharpdp.explore",
    "sharpdp.report.citations",
    "sharpdp.integrations.dp_accounting",
    "sharpdp.integrations.opacus",
    "sharpdp.integrations.torch",
    "sharpdp.learn",
    "sharpdp.plots",
    "sharpdp.report",
)


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


# --- all bounds -------------------------------------------------------------------------------------


def test_every_bound_and_formula_is_in_the_catalog_once() -> None:
    text = "\n".join(catalog.bounds())
    for one in [*all_bounds(), *all_formulas()]:
        assert text.count(f"\n`{one.name}`\n") == 1, one.name
        assert catalog.marked(one.holds_when) in text
        assert catalog.marked(getattr(one, "attained_when", "")) in text
        assert catalog.linked(one.source) in text
        assert catalog.statement(one.theorem), one.name


def test_every_bound_is_proved() -> None:
    assert all(bound.rigor.proved for bound in all_bounds())


def test_sources_lead_to_the_bibliography_and_to_our_proofs() -> None:
    assert catalog.linked("balle2019 Lemma 5.3") == "[balle2019](#balle2019) Lemma 5.3"
    proofs = {one.proof for one in all_bounds() if one.proof}
    text = "\n".join(catalog.bounds())
    assert proofs
    assert all(f"[ours](proofs/{page}.md), not peer reviewed" in text for page in proofs)


def test_pages_ask_for_what_is_written() -> None:
    assert catalog.MARK.findall(page("bounds.md")) == ["bounds"]
    assert catalog.MARK.findall(page("bibliography.md")) == ["bibliography"]


def test_subjects_are_complete() -> None:
    listed = [one.name for group in catalog.subjects().values() for one in group]
    assert sorted(listed) == sorted(one.name for one in all_bounds())


# --- bibliography -----------------------------------------------------------------------------------


def test_every_entry_is_in_the_bibliography_without_tex() -> None:
    works = bibliography.works()
    assert [work.key for work in works] == list(entries())
    for work in works:
        shown = f"{work.authors} {work.fields['title']} {work.place}"
        assert not re.search(r"[{}\\]", shown), shown
        assert work.link.startswith("[")
    text = "\n".join(bibliography.lines({}))
    assert text.count(")=") == len(works)


@pytest.mark.parametrize(
    ("tex", "plain"),
    [
        (r"{R{\'e}nyi} Differential", "Rényi Differential"),
        (r"Mart{\'\i}n", "Martín"),
        (r"J{\"a}lk{\"o}", "Jälkö"),
        (r"{\'U}lfar", "Úlfar"),
        ("308--318", "308–318"),
    ],
)
def test_tex_becomes_text(tex: str, plain: str) -> None:
    assert bibliography.plain(tex) == plain


# --- glossary ---------------------------------------------------------------------------------------


def test_the_glossary_knows_the_words_that_signatures_are_held_to() -> None:
    text = page("glossary.md")
    api = text[: text.index("## Words of the theory")]
    found = dict(re.findall(r"^(`.+)\n: ((?:.+\n(?:  .+\n)*))", api, re.MULTILINE))
    words = {word for term in found for word in re.findall(r"`(\w+)`", term)}
    for wrong, right in SYNONYMS.items():
        for word in right.split(" or "):
            assert word in words, word
        first = right.split(" or ")[0]
        banned = re.search(r"Not: (.+)\.", found[f"`{first}`"])
        assert banned is not None, first
        assert wrong in banned[1].split(", "), f"{first}: {wrong}"


def test_the_glossary_is_sorted() -> None:
    terms = re.findall(r"^(\S.*)\n: ", page("glossary.md"), re.MULTILINE)
    half = terms.index("amplification")
    for part in (terms[:half], terms[half:]):
        assert part == sorted(part), part


# --- comparison -------------------------------------------------------------------------------------


def test_numbers_about_others_are_those_that_were_measured() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    known = set(NUMBER.findall(measured))
    text = page("comparison.md")
    table = text[text.index("| question | peer |") : text.index("On the trade-off curve, riskcal")]
    rows = [line.split("|")[3:7] for line in table.splitlines()[2:] if line.startswith("|")]
    assert rows
    for row in rows:
        for cell in row:
            (number,) = NUMBER.findall(cell)
            assert number in known, number


# --- API --------------------------------------------------------------------------------------------


HEAVY = {
    "sharpdp.integrations.materialized": "pyarrow",
    "sharpdp.integrations.huggingface": "transformers",
    "sharpdp.integrations.lightning": "lightning",
    "sharpdp.integrations.flower": "flwr",
    "sharpdp.integrations.flower_strategy": "flwr",
}
"""Modules that need packages which `make test-frameworks` gets."""


def reference() -> str:
    """The pages of the reference, as one text."""
    return "\n".join(path.read_text("utf-8") for path in sorted((DOCS / "api").glob("*.md")))


def documented() -> set[str]:
    """Every name that the reference asks autodoc for."""
    text = reference()
    found = set(
        re.findall(r"^\.\. auto(?:class|exception|function):: ([\w.]+)", text, re.MULTILINE)
    )
    modules = re.findall(r"^\.\. automodule:: ([\w.]+)\n   :members: ?(.*)", text, re.MULTILINE)
    for room, listed in modules:
        names = listed.replace(",", " ").split() or importlib.import_module(room).__all__
        found |= {f"{room}.{name}" for name in names}
    return found


def test_every_public_name_is_in_the_reference() -> None:
    known = documented()
    for room in ROOMS:
        for name in importlib.import_module(room).__all__:
            assert f"{room}.{name}" in known, f"{room}.{name}"


def test_everything_in_the_reference_exists() -> None:
    for name in documented():
        room, _, last = name.rpartition(".")
        if any(room.startswith(one) and not find_spec(needs) for one, needs in HEAVY.items()):
            continue  # an extra that is not in `all`
        assert hasattr(importlib.import_module(room), last), name


def undocumented(name: str, thing: Any) -> list[str]:
    """Parameters of a callable that the reference does not explain."""
    text = "\n".join(inherited(name, (inspect.getdoc(thing) or "").splitlines()))
    names = [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]
    return [name for name in names if not re.search(rf"^    \*{{0,2}}{name}: ", text, re.MULTILINE)]


def public_callables() -> dict[str, Any]:
    """Functions and classes of the reference, and the public methods that these classes define."""
    found: dict[str, Any] = {}
    for room in (*ROOMS, "sharpdp.learn.dpsgd"):
        module = importlib.import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            is_class = inspect.isclass(thing)
            if inspect.ismodule(thing) or not callable(thing):
                continue
            if is_class and issubclass(thing, (Exception, Enum)):
                continue
            if not (is_class and inspect.isabstract(thing)):
                found[f"{room}.{name}"] = thing
            if is_class:
                methods = {key: getattr(thing, key) for key in vars(thing) if key[0] != "_"}
                found |= {
                    f"{room}.{name}.{key}": method
                    for key, method in methods.items()
                    if callable(method) and not inspect.isclass(method)
                }
    return found


def test_every_argument_in_the_reference_is_explained() -> None:
    missing = {name: undocumented(name, thing) for name, thing in public_callables().items()}
    assert {name: names for name, names in missing.items() if names} == {}


def test_a_method_has_what_its_base_explains() -> None:
    shown = inherited("sharpdp.PoissonBatches.batches", ["The batches of one run."])
    assert shown[0] == "The batches of one run."
    assert any(line.startswith("    rng: ") for line in shown)
    own = ["One.", "", "Args:", "    rng: A key."]
    assert inherited("sharpdp.PoissonBatches.batches", own) == own
    assert inherited("sharpdp.account", ["One."]) == ["One."]


# --- how docstrings and formulas are shown ------------------------------------------------------------


def test_a_docstring_keeps_its_shape() -> None:
    text = """Fact about H_x and local_epsilon.

        delta = 1 - e^{-x}

    - one `thing`
      goes on
    - two

    Holds when: it does.

    Source: dong2022 Theorem 2.7.
    >>> 1 + 1
    2"""
    lines = "\n".join(restructured([line.removeprefix("    ") for line in text.splitlines()]))
    assert "Fact about H\\_x and \\ ``local_epsilon``\\ ." in lines
    assert ".. code-block:: text\n\n    delta = 1 - e^{-x}" in lines
    assert "- one ``thing``\n  goes on\n- two" in lines
    assert "**Holds when:** it does." in lines
    fields = restructured(
        ["Args:", "    delta: One of", "        two.", "", "Raises:", "    Undecided: never."]
    )
    assert fields == [":param delta: One of two.", "", ":raises ~sharpdp.Undecided: never.", ""]
    assert "**Source:** :ref:`dong2022 <dong2022>` Theorem 2.7." in lines
    assert ".. code-block:: pycon\n\n    >>> 1 + 1\n    2" in lines


def test_formulas_need_no_script() -> None:
    letters, brackets = (r"\mathbb E X", "P'"), (r"\Big(x\Big)_+", r"\big\{x\big\}")
    for source in (*letters, *brackets, r"a \sim b", "1/(2s)", "(-w)"):
        found = mathml(source, "inline")
        assert found.startswith("<math ")
        assert found.endswith("</math>")
        assert "\\" not in found.replace(f'alttext="{source}"', "")


def test_every_page_with_a_formula_has_tex_that_is_read() -> None:
    formulas = 0
    for path in DOCS.rglob("*.md"):
        if "_build" in path.parts:
            continue
        text = path.read_text("utf-8")
        for block in blocks_of(path):
            text = text.replace(block.text, "")
        prose = re.sub(r"`[^`]*`", "", text)
        for display, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$]+?)\$", prose, re.DOTALL):
            found = mathml(display or inline, "inline")
            assert "<math" in found
            assert "\\" not in re.sub('alttext="[^"]*"', "", found), path
            formulas += 1
    assert formulas > 100
