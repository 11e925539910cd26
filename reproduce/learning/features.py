"""Oriented gradients of images: features that are computed without data, so that they cost no privacy.

The gradient of the pixels is sorted into eight directions and seven by seven places (four by four for
small images), linearly between neighbors in both. The features of an image are the roots of these sums,
less their mean, scaled to one length.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reproduce.learning.images import Images

__all__ = ["LENGTH", "oriented_gradients", "with_features"]

Floats = NDArray[np.float32]

DIRECTIONS, LENGTH = 8, 3.0
"""Directions of the gradient, and the length of the features of an image."""

PLACES = {28: 7, 8: 4}
"""Places on an edge, by the number of pixels."""

AT_ONCE = 2000
"""Images whose gradients are held at once."""


def with_features(images: Images) -> Images:
    """The features of the images in place of their pixels."""
    return replace(
        images, train=oriented_gradients(images.train), test=oriented_gradients(images.test)
    )


def oriented_gradients(pixels: Floats) -> Floats:
    """A row of features for each image; pixels have the axes image, channel, row and column."""
    parts = [_features(pixels[i : i + AT_ONCE, 0]) for i in range(0, len(pixels), AT_ONCE)]
    return np.concatenate(parts)


def _features(pixels: Floats) -> Floats:
    count, edge, _ = pixels.shape
    padded = np.pad(pixels, ((0, 0), (1, 1), (1, 1)), mode="edge")
    down = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    right = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    turns = np.arctan2(down, right) * (DIRECTIONS / (2.0 * np.pi))
    nearest = np.floor(turns)
    share, first = turns - nearest, nearest.astype(np.int64) % DIRECTIONS
    length = np.hypot(down, right)
    planes = np.zeros((count, edge, edge, DIRECTIONS), dtype=np.float32)
    for direction, part in ((first, 1.0 - share), ((first + 1) % DIRECTIONS, share)):
        np.put_along_axis(planes, direction[..., None], (length * part)[..., None], 3)
    near = _nearness(edge)
    sums = np.einsum("nijo,ia,jb->nabo", planes, near, near, optimize=True)
    roots = np.sqrt(sums).reshape(count, -1)
    roots -= roots.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(roots, axis=1, keepdims=True)
    found: Floats = (roots * (LENGTH / np.maximum(norms, 1e-6))).astype(np.float32)
    return found


def _nearness(edge: int) -> Floats:
    """How near each pixel of an edge is to each place: linear, 0 at the next place's center."""
    places = PLACES[edge]
    centers = (np.arange(edge) + 0.5) * places / edge - 0.5
    return np.maximum(0.0, 1.0 - np.abs(centers[:, None] - np.arange(places))).astype(np.float32)
