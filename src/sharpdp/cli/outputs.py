"""Files that a command writes: whether they can be written is found out before the work."""

from __future__ import annotations

import argparse
from pathlib import Path

from sharpdp.cli.parser import UsageError, quoted

__all__ = ["check_output", "unwritable"]


def check_output(options: argparse.Namespace) -> None:
    """Refuse a picture that cannot be drawn, or a folder that does not exist."""
    output = getattr(options, "output", None)
    if output is None:
        return
    if options.command != "report":
        from sharpdp.plots.style import FORMATS, matplotlib

        if Path(output).suffix.lower() not in FORMATS:
            raise UsageError(f"--output must end in {', '.join(FORMATS)}; got {quoted(output)}.")
        matplotlib("figure")
    try:
        if not Path(output).parent.is_dir():
            raise unwritable(output, "No such file or directory")
        if Path(output).is_dir():
            raise unwritable(output, "Is a directory")
    except (OSError, ValueError) as fault:
        raise unwritable(output, getattr(fault, "strerror", None) or str(fault)) from fault


def unwritable(output: str, why: str) -> UsageError:
    """The refusal of a file that cannot be written."""
    return UsageError(f"--output must be a file that can be written; got {quoted(output)}: {why}.")
