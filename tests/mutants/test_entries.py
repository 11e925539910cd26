"""The list of mutants fits the code: every place is found, every test exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.mutants.entries import ROOT, Mutant, mutants

ALL = mutants()


def test_there_are_many_with_names_of_their_own() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL) >= 150


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_its_place_is_found_and_its_tests_exist(mutant: Mutant) -> None:
    assert mutant.fault() == ""
    source = (ROOT / mutant.file).read_text("utf-8")
    changed = mutant.applied_to(source)
    assert changed != source
    ast.parse(changed)
    assert mutant.why
    assert mutant.tests
    for test in mutant.tests:
        path, *names = test.split("::")
        text = (ROOT / path).read_text("utf-8")
        assert all(re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE) for name in names), (
            test
        )
