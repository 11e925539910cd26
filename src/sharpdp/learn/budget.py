"""How far a run may go within a privacy budget."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from sharpdp._validate import nonnegative, open_probability
from sharpdp.budget import check_counted
from sharpdp.budget.filters import by_our_theorems
from sharpdp.display.progress import progress
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.questions.targets import Target

__all__ = ["affordable", "check_left"]


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


def check_left(done: int, most: int, counted: int | None, rounds: str) -> None:
    """Refuse one more round of a run than its budget has counted, or than its plan has.

    Args:
        done: Number of rounds that were begun.
        most: Number of rounds of the plan.
        counted: Number of rounds that a budget has counted; None if there is no budget.
        rounds: What they are called, such as "steps".

    Raises:
        BudgetExceeded: The budget allows no more.
        InvalidArgument: The plan has no more.

    >>> check_left(3, 3, None, "steps")
    Traceback (most recent call last):
    sharpdp.errors.InvalidArgument: steps must be at most the 3 of the plan, all of which were started;
        got one more. Plan a longer run: its privacy is that of the whole.
    """
    if counted is not None and done >= counted:
        check_counted(counted, most, rounds)
    if done >= most:
        raise InvalidArgument(
            f"{rounds} must be at most the {most} of the plan, all of which were started; got one more. "
            "Plan a longer run: its privacy is that of the whole."
        )
