"""Local randomizers and training loops, tied to their accounting; only `Training` needs torch."""

from typing import TYPE_CHECKING

from sharpdp.learn.block_run import BlockRun, BlockSGD
from sharpdp.learn.cldp import CLDPSGD, ClientRun
from sharpdp.learn.convergence import Convergence
from sharpdp.learn.randomizers import (
    CompressedPrivUnit,
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    Randomizer,
    VectorRandomizer,
    clipped,
    vector_randomizer,
)
from sharpdp.learn.strategy_design import banded_strategy, buffered_strategy, prefix_error

if TYPE_CHECKING:
    from sharpdp.learn.dpsgd import Training as Training

__all__ = [
    "BlockRun",
    "BlockSGD",
    "CLDPSGD",
    "ClientRun",
    "CompressedPrivUnit",
    "Convergence",
    "CoordinateSigns",
    "HadamardSigns",
    "LatticeLaplace",
    "PrivUnit",
    "PrivUnitBall",
    "RandomizedAnswers",
    "Randomizer",
    "VectorRandomizer",
    "banded_strategy",
    "buffered_strategy",
    "clipped",
    "prefix_error",
    "vector_randomizer",
]


def __getattr__(name: str) -> object:
    """`Training`, imported when it is first used, since it needs torch."""
    if name == "Training":
        from sharpdp.learn.dpsgd import Training

        return Training
    raise AttributeError(f"module 'sharpdp.learn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, "Training"))
