"""A plugin of pytest: numpy's floating-point errors raise while a test runs. `-p tests.raising_floats`.

What users call ignores underflow by itself. Tests that call functions below that, or compute expected
values where small numbers vanish, are marked with `underflows`: there, all other errors raise.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    under = "ignore" if item.get_closest_marker("underflows") else "raise"
    with np.errstate(all="raise", under=under):
        return (yield)
