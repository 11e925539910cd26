"""Local randomizers: running code whose budget is that of what it draws."""

from sharpdp.learn.randomizers.answers import RandomizedAnswers
from sharpdp.learn.randomizers.lattice import LatticeLaplace
from sharpdp.learn.randomizers.public_list import CompressedPrivUnit
from sharpdp.learn.randomizers.report import Randomizer, VectorRandomizer
from sharpdp.learn.randomizers.signs import CoordinateSigns, HadamardSigns
from sharpdp.learn.randomizers.sphere import PrivUnit, PrivUnitBall, vector_randomizer
from sharpdp.learn.randomizers.validation import clipped

__all__ = [
    "CompressedPrivUnit",
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
