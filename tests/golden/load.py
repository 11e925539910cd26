"""Golden cases as data: mechanism, question, and the exact rational enclosure of the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Golden:
    """One golden value; the truth lies in [lower, upper]."""

    family: str
    mechanism: dict[str, Any]
    ask: dict[str, Any]
    lower: Fraction
    upper: Fraction
    name: str = ""

    @property
    def middle(self) -> float:
        return float((self.lower + self.upper) / 2)

    def __str__(self) -> str:
        told = {k: v for k, v in self.mechanism.items() if k not in ("kind", "parts")}
        parts = self.mechanism.get("parts", [])
        if len(parts) == 1:
            told = parts[0]
        elif parts:
            told = {"parts": len(parts)}
        values = [self.name or self.family, *told.values(), *self.ask.values()]
        return "-".join(v if isinstance(v, str) else f"{v:g}" for v in values)


def golden(family: str) -> list[Golden]:
    """All cases of one file."""
    cases = []
    for entry in json.loads((HERE / f"{family}.json").read_text()):
        value, radius = Fraction(entry["value"]), Fraction(entry["radius"])
        cases.append(
            Golden(
                family,
                entry["mechanism"],
                entry["ask"],
                value - radius,
                value + radius,
                entry.get("name", ""),
            )
        )
    return cases
