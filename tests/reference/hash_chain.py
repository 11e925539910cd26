"""A hash chain as its documentation states it, made without the package."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["chain_lines"]


def chain_lines(records: list[Any]) -> tuple[list[str], str]:
    """The lines of a chain of these records, and the hash of the last one."""
    previous, lines = hashlib.sha256(b"sharpdp hash chain 1").hexdigest(), []
    for record in records:
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        lines.append(f'{{"hash":"{digest}","previous":"{previous}","record":{text}}}\n')
        previous = digest
    return lines, previous
