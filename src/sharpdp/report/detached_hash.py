"""The hash of a report in a file of its own, as `sha256sum` writes and checks it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from sharpdp.errors import InvalidArgument

__all__ = ["check_hash", "write_hash"]

ENDING = ".sha256"
"""What is added to the name of a report."""


def write_hash(path: str | Path) -> Path:
    """Write the SHA-256 of a file next to it; `sha256sum -c report.html.sha256` checks it.

    Args:
        path: The report, as it is on disk.

    Returns:
        The file with the hash, which has the same name and the ending .sha256 in addition.

    Raises:
        InvalidArgument: The report cannot be read, or the file cannot be written.
    """
    report = Path(path)
    beside = Path(f"{report}{ENDING}")
    try:
        digest = hashlib.sha256(report.read_bytes()).hexdigest()
        beside.write_bytes(f"{digest}  {report.name}\n".encode())
    except OSError as fault:
        raise InvalidArgument(
            f"path must be a file beside which another can be written; got {str(report)!r}: "
            f"{fault.strerror}."
        ) from fault
    return beside


def check_hash(path: str | Path) -> bool | None:
    """Whether a report matches the SHA-256 file next to it.

    Args:
        path: The report.

    Returns:
        True or False; None if there is no such file.

    Raises:
        InvalidArgument: A file cannot be read, or holds no hash of a file of this name.
    """
    report = Path(path)
    beside = Path(f"{report}{ENDING}")
    if not beside.exists():
        return None
    try:
        written = beside.read_text("utf-8")
        digest = hashlib.sha256(report.read_bytes()).hexdigest()
    except (OSError, UnicodeDecodeError) as fault:
        raise InvalidArgument(f"{beside.name} must be a file with a hash; {fault}.") from fault
    match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)\n?", written)
    if match is None or match[2] != report.name:
        raise InvalidArgument(
            f"{beside.name} must be one line, a SHA-256 and the name {report.name}, as sha256sum "
            "writes it."
        )
    return match[1] == digest
