"""Monte-Carlo accounting: delta and epsilon from draws, with a stated confidence."""

from sharpdp.montecarlo.draws import DrawCache
from sharpdp.montecarlo.estimates import estimate

__all__ = ["DrawCache", "estimate"]
