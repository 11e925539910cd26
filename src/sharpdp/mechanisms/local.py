"""What each user runs on their own record: randomized response."""

from dataclasses import dataclass

from sharpdp._validate import budget, count
from sharpdp.mechanisms.adjacency import Adjacency
from sharpdp.mechanisms.composed import Mechanism
from sharpdp.mechanisms.noise import NO_LESS

__all__ = ["RandomizedResponse"]


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Mechanism):
    """One of k categories, reported truthfully with odds e^local_epsilon against each other one.

        Pr[report = y | record = x] = e^local_epsilon / (e^local_epsilon + k - 1)   if y = x
                                      1 / (e^local_epsilon + k - 1)                 otherwise

    with k = ``categories``. Source: warner1965 (k = 2), kairouz2016 (any k).

    >>> RandomizedResponse(local_epsilon=1).describe()
    'randomized response (local epsilon 1, 2 categories)'
    """

    local_epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        """Check both parameters."""
        epsilon = budget(local_epsilon=self.local_epsilon, hint=NO_LESS)
        hint = "It counts the possible answers."
        object.__setattr__(self, "local_epsilon", epsilon)
        object.__setattr__(
            self, "categories", count(categories=self.categories, least=2, hint=hint)
        )

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """One record changes from one category to another."""
        return (Adjacency.REPLACE_ONE,)

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "randomized response"

    def describe(self) -> str:
        """The mechanism in one line."""
        numbers = f"local epsilon {self.local_epsilon:.12g}, {self.categories} categories"
        return f"randomized response ({numbers})"
