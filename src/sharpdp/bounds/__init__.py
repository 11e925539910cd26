"""One theorem per function, each registered with what it bounds and when it holds."""

from sharpdp.bounds import (
    mixture,
    noise,
    randomizers,
    renyi,
    sampled_formulas,
    shuffle_formulas,
    shuffle_model,
    shuffle_moments,
    strong_composition,
    structured_shuffle,
    subsampled,
    subsampled_shuffle,
    tradeoff,
)
from sharpdp.bounds.registry import Bound, Pieces, all_bounds, bound, bounds_for

__all__ = [
    "Bound",
    "Pieces",
    "all_bounds",
    "bound",
    "bounds_for",
    "mixture",
    "noise",
    "randomizers",
    "renyi",
    "sampled_formulas",
    "shuffle_formulas",
    "shuffle_model",
    "shuffle_moments",
    "strong_composition",
    "structured_shuffle",
    "subsampled",
    "subsampled_shuffle",
    "tradeoff",
]
