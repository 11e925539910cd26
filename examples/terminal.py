"""What `sharpdp compare` shows on a terminal, as a picture: docs/terminal.svg.

Run it with `python examples/terminal.py` after the tables change. Needs the extra `cli`.
"""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from sharpdp.cli.commands import function_of, parsed
from sharpdp.cli.terminal import show

COLUMNS = 100
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "terminal.svg"
LINES = (
    "compare samplers --noise-multiplier 0.8 --dataset-size 60000 --batch-size 512 --epochs 30 "
    "--delta 1e-5",
    "compare shuffle --users 10000 --local-epsilon 1 --delta 1e-6",
)


def picture() -> str:
    """Both tables on one terminal, without fonts from the network."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        highlight=False,
    )
    for line in LINES:
        options = parsed(shlex.split(line), "")
        view = function_of(options.command)(options).view
        assert view is not None
        console.print(f"[dim]$[/dim] sharpdp {line}\n", soft_wrap=False)
        show(console, view)
        console.print()
    drawn = console.export_svg(title="sharpdp", theme=MONOKAI, unique_id="terminal")
    drawn = re.sub(r"<!--.*?-->\s*", "", drawn, flags=re.DOTALL)
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
    print(PICTURE)
