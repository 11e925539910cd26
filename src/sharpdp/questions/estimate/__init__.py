"""Monte-Carlo accounting: delta and epsilon from draws, with a stated confidence."""

from sharpdp.questions.estimate.draws import DrawCache
from sharpdp.questions.estimate.estimates import estimate

__all__ = ["DrawCache", "estimate"]
