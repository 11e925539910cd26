"""`python -m sharpdp.report report.json`: what is right about a report, or what is not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sharpdp.errors import SharpDPError
from sharpdp.report.data import verify

__all__ = ["main"]

WRONG = 2
"""The exit code if a report cannot be read or does not hold."""


def main(arguments: Sequence[str]) -> int:
    """The exit code; what was found is printed."""
    if len(arguments) != 1:
        sys.stderr.write("give one report that was written as JSON: report.json\n")
        return WRONG
    try:
        lines = verify(Path(arguments[0]).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, SharpDPError) as fault:
        sys.stderr.write(f"{arguments[0]}: {fault}\n")
        return WRONG
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
