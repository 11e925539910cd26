"""Images of digits: MNIST from a file, or the small set of scikit-learn.

The file has the arrays x_train, y_train, x_test and y_test, as Keras distributes it. The environment
variable MNIST, or the option --mnist, says where it lies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Images", "digits", "mnist", "pixels_of"]

MNIST = Path(__file__).resolve().parents[3] / "shared" / "data" / "mnist.npz"
"""Where the file is looked for if nothing is said."""

MEAN, DEVIATION = 0.1307, 0.3081
"""Of the pixels of MNIST's training images, public numbers."""

HELD_OUT = 297
"""The last digits of scikit-learn's set are for testing."""


@dataclass(frozen=True)
class Images:
    """Images with one channel, and what they show."""

    name: str
    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]

    @property
    def pixels(self) -> int:
        """How many an image has on each edge."""
        return int(self.train.shape[-1])

    def for_choosing(self) -> Images:
        """The training images alone, the last sixth of them in place of the test images.

        Settings are chosen on these, so that test images have no part in the choice.
        """
        first = len(self.train) - len(self.train) // 6
        return Images(
            f"{self.name}-choosing",
            self.train[:first],
            self.train_labels[:first],
            self.train[first:],
            self.train_labels[first:],
        )


def mnist() -> Images:
    """60,000 images of 28 x 28 pixels and 10,000 for testing.

    Raises:
        FileNotFoundError: The file is not there.
    """
    file = Path(os.environ.get("MNIST", MNIST))
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no MNIST at {file}. Say where it lies by --mnist FILE or the environment variable "
            "MNIST (an .npz file with x_train, y_train, x_test and y_test), or use --quick, which takes "
            "scikit-learn's digits."
        )
    with np.load(file) as kept:
        names = {name.lower(): name for name in kept.files}
        train, test = kept[names["x_train"]], kept[names["x_test"]]
        labels = kept[names["y_train"]], kept[names["y_test"]]
    return Images(
        "mnist",
        _scaled(train / 255.0, MEAN, DEVIATION),
        labels[0].astype(np.int64),
        _scaled(test / 255.0, MEAN, DEVIATION),
        labels[1].astype(np.int64),
    )


def digits() -> Images:
    """1500 images of 8 x 8 pixels and 297 for testing."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = _scaled(pixels.reshape(-1, 8, 8) / 16.0, 0.3, 0.38)
    labels = labels.astype(np.int64)
    return Images(
        "digits", images[:-HELD_OUT], labels[:-HELD_OUT], images[-HELD_OUT:], labels[-HELD_OUT:]
    )


def _scaled(pixels: NDArray[np.float64], mean: float, deviation: float) -> NDArray[np.float32]:
    return ((pixels - mean) / deviation).astype(np.float32)[:, None]


def pixels_of(images: Images) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Training and test images of MNIST as rows of pixels from 0 to 1; digits as they are."""
    halves = [half.reshape(len(half), -1) for half in (images.train, images.test)]
    if images.name == "mnist":
        halves = [half * np.float32(DEVIATION) + np.float32(MEAN) for half in halves]
    return halves[0], halves[1]
