"""Print one of our own proofs, or list them: `python -m sharpdp.bounds.proofs [PAGE]`."""

from __future__ import annotations

import os
import sys

from sharpdp.bounds.proofs import PAGES, text_of
from sharpdp.errors import InvalidArgument


def main(arguments: list[str]) -> int:
    """Print the pages that are named; their names if none is."""
    try:
        for line in map(text_of, arguments) if arguments else PAGES:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except InvalidArgument as why:
        sys.stderr.write(f"sharpdp.bounds.proofs: {why}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
