"""Checkpoints: written whole or not at all, and read only by the run that wrote them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from sharpdp.errors import InvalidArgument
from sharpdp.learn.journal import replaced

__all__ = ["fingerprint", "restored", "stored"]

OWNER_ONLY = 0o600
"""Who may read a checkpoint: it holds the key."""


def fingerprint(words: str, *tensors: Tensor) -> str:
    """A hash of a description and of all values of some tensors.

    >>> fingerprint("a", torch.zeros(2)) == fingerprint("a", torch.zeros(3))
    False
    """
    digest = hashlib.blake2b(words.encode())
    for one in tensors:
        digest.update(repr((tuple(one.shape), one.dtype)).encode())
        digest.update(one.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def stored(path: Path, state: dict[str, Any]) -> None:
    """Write the state; a crash leaves the old file or the new one, never half of it."""

    def write(file: BinaryIO) -> None:
        Path(file.name).chmod(OWNER_ONLY)  # before the key is in it
        torch.save(state, file)

    replaced(path, write)


def restored(path: Path, run: str) -> dict[str, Any]:
    """The state that was written by a run with this fingerprint."""
    if not path.is_file():
        raise InvalidArgument(
            f"path must be a checkpoint; got {str(path)!r}, which does not exist."
        )
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        written = state["run"]
    except Exception as fault:  # torch, pickle, zip and struct each have their own
        raise InvalidArgument(
            f"path must be a checkpoint of this very run; got {str(path)!r}, which is none."
        ) from fault
    if written != run:
        raise InvalidArgument(
            f"path must be a checkpoint of this very run; got {str(path)!r}, written with another "
            "mechanism, clip, model or data. Its noise may not be added to other sums."
        )
    return state
