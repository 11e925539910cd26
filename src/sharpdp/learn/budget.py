"""How far a run may go within a privacy budget."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from sharpdp._validate import nonnegative, open_probability
from sharpdp.budget.filters import by_our_theorems
from sharpdp.display.progress import progress
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.questions.targets import Target

__all__ = ["affordable"]


def affordable(
    begun: Callable[[int], Mechanism],
    most: int,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str | None = None,
) -> int:
    """The most rounds, from 0 to ``most``, after which a run is certainly (epsilon, delta)-DP.

    Holds when: ``begun`` gives what is accounted after so many rounds, and more rounds reveal more.

    >>> from sharpdp.mechanisms import PureDP
    >>> affordable(lambda rounds: PureDP(epsilon=1.0) * rounds, 10, epsilon=3.5, delta=1e-12)
    3
    """
    target = Target("epsilon", nonnegative(epsilon=epsilon), open_probability(delta=delta))

    with progress() as task:

        def beyond(rounds: int) -> int:
            task.words = f"looking for what epsilon {target.limit:g} allows, trying {rounds}"
            return int(not target.is_met(by_our_theorems(begun(rounds), adjacency=adjacency)))

        return bisect_left(range(1, most + 1), 1, key=beyond)
