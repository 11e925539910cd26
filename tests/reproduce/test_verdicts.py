"""What is said of published statements: one table, and pages, tests and sources that agree with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reproduce import pages
from reproduce.catalog import PAPERS
from reproduce.sheets import Erratum
from reproduce.standing import ROWS, Row

ROOT = Path(__file__).resolve().parents[2]
REPAIRED = (ROOT / "docs" / "proofs" / "repaired.md").read_text("utf-8")
FIVE = {"wang2023", "girgis2021", "asoodeh2020", "chen2024", "chua2024"}
STATEMENTS = [(paper.key, one) for paper in PAPERS for one in paper.errata]
NAMES = [f"{key} {one.place}" for key, one in STATEMENTS]

AUTHORS_SAY = {"How many clones (Feldman, McMillan, Talwar 2023)": "unproved"}
"""Sections about what the authors themselves have published an erratum to."""

NATURAL_FILTER = {"budget/spending.py", "keep-a-budget.md"}
"""Where a way to stop, not a published statement, is called unsound."""


def sections() -> dict[str, str]:
    """The sections of the page by heading."""
    parts = re.split(r"^### (.+)$", REPAIRED, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_table_of_the_page_is_written_from_the_errata() -> None:
    """`python -m reproduce` writes it."""
    assert pages.with_verdicts(REPAIRED, PAPERS) == REPAIRED


@pytest.mark.parametrize(("key", "one"), STATEMENTS, ids=NAMES)
def test_every_statement_is_quoted_labeled_and_shown(key: str, one: Erratum) -> None:
    assert key in FIVE
    assert "“" in one.words
    assert "”" in one.words
    assert one.label in pages.LABELS
    if one.label in ("refuted", "asymptotic"):
        assert one.evidence
        assert one.section
    if one.evidence:
        file, _, name = one.evidence.partition("::")
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text("utf-8")
    if one.section:
        verdict = re.search(r"^\*Verdict:\* (\w+)", sections()[one.section], re.M)
        assert verdict is not None
        assert verdict[1] == one.label


def test_every_section_is_about_a_statement_of_the_table() -> None:
    listed = {one.section: one.label for _, one in STATEMENTS if one.section}
    assert sections().keys() == listed.keys() | AUTHORS_SAY.keys()
    for heading, label in AUTHORS_SAY.items():
        assert f"*Verdict:* {label}" in sections()[heading]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.paper} {row.item}")
def test_every_row_of_the_index_leads_to_pages_that_exist(row: Row) -> None:
    assert row.paper in FIVE
    targets = re.findall(r"\]\(([^)#]+)", row.where)
    assert targets
    assert all((ROOT / "docs" / "papers" / target).exists() for target in targets)


def files(*folders: str) -> list[Path]:
    return [
        file
        for folder in folders
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in (".py", ".md", ".svg") and "_build" not in file.parts
    ]


def test_nothing_but_a_natural_filter_is_called_unsound() -> None:
    """Papers have labels, and only `refuted` says that a statement is wrong."""
    found = {
        "/".join(file.parts[-2:]) if file.suffix == ".py" else file.name
        for file in files("src", "reproduce", "docs")
        if re.search(r"\bunsound\b", file.read_text("utf-8"))
    }
    assert found == NATURAL_FILTER


def test_sources_call_repaired_what_is_refuted() -> None:
    """`X, repaired` in a docstring or in `compare_mixture` is a refuted statement; others are not."""
    pattern = re.compile(
        r"(\w+20\d\d) ((?:Lemma|Proposition|Theorem|Corollary) [\w.]*\w)[^;\n]*, repaired"
    )
    found = {match for file in files("src") for match in pattern.findall(file.read_text("utf-8"))}
    refuted = {(key, one.place) for key, one in STATEMENTS if one.label == pages.FALSE}
    assert found
    assert found <= refuted


def test_compare_says_nothing_of_corrections_to_what_is_only_misprinted() -> None:
    from sharpdp.bounds import published

    corrected = {one.source for one in published.all_formulas() if "corrected" in one.source}
    asymptotic = [one.place for _, one in STATEMENTS if one.label == "asymptotic"]
    for source in corrected:  # the limit of chen2024 with the factor that it lacks
        statement = re.search(r"(Theorem|Corollary) \d", source)
        assert statement is not None
        assert any(statement[0] in place for place in asymptotic)
