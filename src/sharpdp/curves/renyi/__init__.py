"""Renyi curves as mechanisms, alone and in a sequence with others; joint ranges of f-divergences."""

from sharpdp.curves.renyi.curve import RenyiCurve, compare_conversions
from sharpdp.curves.renyi.f_divergences import FDivergence
from sharpdp.curves.renyi.joint_range import JointRange, joint_range

__all__ = ["FDivergence", "JointRange", "RenyiCurve", "compare_conversions", "joint_range"]
