"""The small networks, as functions of one vector of parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reproduce.learning.images import Images

__all__ = ["accuracy", "flattened", "linear", "load", "network"]


def network(pixels: int, seed: int) -> nn.Sequential:
    """The network of girgis2021's Table for 28 x 28 pixels (26 010 parameters); a small one for 8 x 8."""
    torch.manual_seed(seed)
    if pixels == 8:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def linear(inputs: int) -> nn.Sequential:
    """Softmax over ten classes, from zero."""
    layer = nn.Linear(inputs, 10)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(layer)


def flattened(model: nn.Module) -> NDArray[np.float64]:
    """All parameters in one vector."""
    return np.concatenate([one.detach().numpy().ravel() for one in model.parameters()]).astype(
        float
    )


def load(model: nn.Module, vector: NDArray[np.float64]) -> None:
    """Set all parameters from one vector."""
    start = 0
    with torch.no_grad():
        for one in model.parameters():
            part = vector[start : start + one.numel()]
            one.copy_(torch.from_numpy(part).view_as(one))
            start += one.numel()


def accuracy(model: Callable[[Tensor], Tensor], images: Images) -> float:
    """The share of test images that are recognized."""
    with torch.no_grad():
        found = model(torch.from_numpy(images.test)).argmax(1).numpy()
    return float(np.mean(found == images.test_labels))
