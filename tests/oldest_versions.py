"""Prints the lower ends of what sharpdp requires, as constraints for pip.

    python -m tests.oldest_versions cli plots

They are those of the core and of the extras that are named. `make test-oldest` installs them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import requires


def lower_ends(requirements: list[str], extras: list[str]) -> Iterator[str]:
    """`scipy==1.12` for `scipy>=1.12`; a marker stays, but for the one that names the extra."""
    for requirement in requirements:
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", requirement)
        if extra is None or extra[1] in extras:
            wanted, _, marker = requirement.partition(";")
            marker = re.sub(r"( and )?\(?extra == [^)]*\)?", "", marker).strip()
            yield wanted.strip().replace(">=", "==", 1) + (f"; {marker}" if marker else "")


if __name__ == "__main__":
    for line in lower_ends(requires("sharpdp") or [], sys.argv[1:]):
        sys.stdout.write(f"{line}\n")
