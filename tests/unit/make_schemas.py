"""Write the published schemas anew: `python -m tests.unit.make_schemas`."""

from __future__ import annotations

import json
from pathlib import Path

import sharpdp
from sharpdp.plans import plan_schema
from sharpdp.report import report_schema

FOLDER = Path(sharpdp.__file__).parent / "schemas"


def texts() -> dict[Path, str]:
    """What each file should hold."""
    made = {"plan": plan_schema(), "report": report_schema()}
    return {
        FOLDER / f"{name}.schema.json": json.dumps(one, indent=2) + "\n"
        for name, one in made.items()
    }


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, "utf-8")
