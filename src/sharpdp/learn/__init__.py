"""Local randomizers and training loops, tied to their accounting; nothing imported here needs torch."""

from sharpdp.learn.block_run import BlockRun, BlockSGD
from sharpdp.learn.cldp import CLDPSGD, ClientRun
from sharpdp.learn.convergence import Convergence
from sharpdp.learn.randomizers import (
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

__all__ = [
    "BlockRun",
    "BlockSGD",
    "CLDPSGD",
    "ClientRun",
    "Convergence",
    "CoordinateSigns",
    "HadamardSigns",
    "LatticeLaplace",
    "PrivUnit",
    "PrivUnitBall",
    "RandomizedAnswers",
    "Randomizer",
    "VectorRandomizer",
    "clipped",
    "vector_randomizer",
]
