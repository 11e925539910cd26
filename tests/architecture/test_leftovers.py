"""Nothing in the source is left for later."""

from __future__ import annotations

import re

from tests.architecture.source_tree import modules

LEFT_FOR_LATER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def test_nothing_is_left_for_later() -> None:
    assert modules()
    assert [m.path for m in modules() if LEFT_FOR_LATER.search(m.text)] == []
