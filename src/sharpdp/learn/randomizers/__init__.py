"""Local randomizers: running code whose budget is that of what it draws."""

from sharpdp.learn.randomizers.compressed_privunit import CompressedPrivUnit
from sharpdp.learn.randomizers.lattice_laplace import LatticeLaplace
from sharpdp.learn.randomizers.privunit import PrivUnit, PrivUnitBall, vector_randomizer
from sharpdp.learn.randomizers.randomized_response import RandomizedAnswers
from sharpdp.learn.randomizers.report import Randomizer, VectorRandomizer
from sharpdp.learn.randomizers.sign_reports import CoordinateSigns, HadamardSigns
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
