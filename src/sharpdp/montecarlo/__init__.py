"""Monte-Carlo accounting: delta and epsilon from draws, with a stated confidence."""

from sharpdp.montecarlo.draws import Tally
from sharpdp.montecarlo.estimates import estimate

__all__ = ["Tally", "estimate"]
