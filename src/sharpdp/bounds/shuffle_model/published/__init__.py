"""Published formulas for the shuffle model, kept for comparison with the certified bounds."""

import math

from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import ShuffledReports
from sharpdp.numerics.special import CLOSED_FORM_ERROR

__all__ = ["COMPOSED_WIDTH", "SHARED", "closed_form", "refuse_individual"]

COMPOSED_WIDTH = 1e-4
"""Relative width that is asked of a composition, of an epsilon of one round, and of a moment."""

SHARED = "all users share one randomizer"


def refuse_individual(reports: ShuffledReports) -> None:
    """Raise Inapplicable for randomizers that may differ from user to user."""
    if reports.randomizer == "individual":
        raise Inapplicable("it needs a randomizer that all users share")


def closed_form(local_epsilon: float, clones: float, log_term: float) -> float:
    """log(1 + (E-1)/(E+1) (8 sqrt(log_term/c) + 8/c)), c the expected number of clones."""
    growth = 8.0 * (math.sqrt(log_term / clones) + 1.0 / clones)
    return math.log1p(math.tanh(0.5 * local_epsilon) * growth) * (1.0 + CLOSED_FORM_ERROR)
