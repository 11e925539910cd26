"""Checkpoints: what a training run needs to continue, read only by the run that wrote it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sharpdp._validate import count
from sharpdp.errors import InvalidArgument
from sharpdp.learn.gaussian_noise import secret
from sharpdp.storage.state_file import StateFile

__all__ = ["CHECKPOINT", "fingerprint", "load", "restored", "stored"]

CHECKPOINT = "a checkpoint of this very run"


def fingerprint(words: str, *tensors: Tensor) -> str:
    """A hash of a description and of all values of some tensors.

    >>> fingerprint("a", torch.zeros(2)) == fingerprint("a", torch.zeros(3))
    False
    """
    digest = hashlib.blake2b(words.encode())
    for tensor in tensors:
        digest.update(repr((tuple(tensor.shape), tensor.dtype)).encode())
        digest.update(
            tensor.detach()
            .cpu()
            .resolve_conj()
            .resolve_neg()
            .contiguous()
            .reshape(-1)  # a number by itself has no bytes to be viewed as
            .view(torch.uint8)
            .numpy()
            .tobytes()
        )
    return digest.hexdigest()


def stored(file: StateFile, state: dict[str, Any]) -> None:
    """Write the state; a crash leaves the old file or the new one, never half of it."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    file.write(buffer.getvalue())


def restored(file: StateFile, run: str) -> dict[str, Any]:
    """The state that was written by a run with this fingerprint."""
    payload = file.read()
    try:
        # nothing but tensors and plain data is read: a file cannot run code
        state: dict[str, Any] = torch.load(
            io.BytesIO(payload), map_location="cpu", weights_only=True
        )
        written, step = state["run"], count(least=0, step=state["step"])
        begun, key = count(least=step, begun=state["begun"]), secret(state["key"])
        weights, moved = dict(state["model"]), dict(state["optimizer"])
    except Exception as fault:  # torch, pickle, zip and struct each have their own
        raise InvalidArgument(
            f"path must be {CHECKPOINT}; got {str(file.path)!r}, which is none."
        ) from fault
    if written != run:
        raise InvalidArgument(
            f"path must be {CHECKPOINT}; got {str(file.path)!r}, written with another mechanism, clip, "
            "model or data. Its noise may not be added to other sums."
        )
    checked = {"step": step, "begun": begun, "key": key, "model": weights, "optimizer": moved}
    return state | checked


def load(state: Mapping[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put a state into a model and its optimizer; one that does not fit changes neither."""
    wanted = {name: value.shape for name, value in model.state_dict().items()}
    shapes = {name: getattr(value, "shape", None) for name, value in state["model"].items()}
    if wanted != shapes:
        raise InvalidArgument(
            "path must be a checkpoint of the same model; got one with other parameters or buffers."
        )
    own = [set(group) for group in optimizer.param_groups]
    try:
        if own != [set(group) for group in state["optimizer"]["param_groups"]]:
            raise ValueError("another optimizer")
        optimizer.load_state_dict(dict(state["optimizer"]))
    except Exception as fault:  # of whatever kind: it is not a state of this optimizer
        raise InvalidArgument(
            "path must be a checkpoint of a run with the same kind of optimizer; got another one."
        ) from fault
    model.load_state_dict(state["model"])
