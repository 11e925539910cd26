"""Ex-post epsilon: what a run costs that is stopped early by looking at its results.

Epsilon of the steps that were run, at the whole delta, is a guarantee if their number was fixed in
advance. If it was chosen by results, each number at which the run might have ended has its own share of
delta; docs/proofs/early-stopping.md has the proof and a counterexample.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sharpdp._validate import (
    count,
    half_open_probability,
    has_entries,
    invalid,
    nonnegative,
    short_repr,
)
from sharpdp.bracket import Bracket
from sharpdp.budget.filters import by_our_theorems
from sharpdp.display.tabular import Tabular
from sharpdp.display.text_table import table_lines
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms import Adjacency, BestOf, LastIterate, Mechanism
from sharpdp.numerics.special import down
from sharpdp.numerics.underflow import underflow_is_zero

__all__ = ["ExPostEpsilon", "ex_post_epsilon"]


@dataclass(frozen=True)
class ExPostEpsilon(Tabular):
    """Epsilon by the step at which a run was stopped; made by `ex_post_epsilon`.

    Args:
        delta: The sum of all shares is at most this.
        adjacency: Which data sets are neighbors.
        group_size: In how many records neighbors differ at most.
        checkpoints: Numbers of steps, rising.
        shares: The share of delta of each checkpoint.
        epsilons: Upper bound on epsilon of each checkpoint at its share.
    """

    delta: float
    adjacency: Adjacency
    group_size: int
    checkpoints: tuple[int, ...]
    shares: tuple[float, ...] = field(repr=False)
    epsilons: tuple[float, ...]

    def epsilon(self, *, steps: int) -> float:
        """The ex-post epsilon of a run that was stopped after some steps: that of the next checkpoint.

        Args:
            steps: Number of steps after which it was stopped; at most the last checkpoint.

        Returns:
            An upper bound, rounded upwards.

        Raises:
            InvalidArgument: steps is below 1, or beyond the last checkpoint.
            WrongType: steps is no number.
        """
        taken = count(steps=steps)
        if taken > self.checkpoints[-1]:
            raise invalid("steps", f"at most the last checkpoint, {self.checkpoints[-1]}", taken)
        return self.epsilons[bisect_left(self.checkpoints, taken)]

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The checkpoints with their shares of delta and upper bounds on epsilon; nothing is asked."""
        rows = zip(self.checkpoints, self.shares, self.epsilons, strict=True)
        return [
            {"steps": steps, "delta": share, "epsilon_upper": epsilon}
            for steps, share, epsilon in rows
        ]

    def __str__(self) -> str:
        """The table, epsilon rounded upwards."""
        rows = [("stopped by step", "share of delta", "epsilon")]
        for row in self.records():
            shown = Bracket(0.0, row["epsilon_upper"]).printed[1]
            rows.append((f"{row['steps']:,}", f"{row['delta']:.3g}", shown))
        neighbors = f"{self.adjacency}" + (
            "" if self.group_size == 1 else f", groups of {self.group_size}"
        )
        head = (
            f"ex-post epsilon at delta={self.delta:g} | {neighbors}, certified (our proof, not peer "
            "reviewed)"
        )
        return "\n".join([head, *table_lines(rows, right={0, 1, 2})])


@underflow_is_zero
def ex_post_epsilon(
    begun: Callable[[int], Mechanism],
    *,
    checkpoints: Iterable[int],
    delta: float,
    shares: Iterable[float] | None = None,
    adjacency: Adjacency | str | None = None,
    group_size: int = 1,
) -> ExPostEpsilon:
    """The cost of a run whose results decide when it stops, by the step at which it was stopped.

    The run is written down before it begins: its mechanism, the checkpoints, delta and its shares. After
    any step it may be stopped by a rule that sees what was released so far, and nothing else of the data.
    With o the released results, K(o) the first checkpoint at or after the stop, and epsilon(o) the
    number of that checkpoint here, for all neighbors in both orders and all sets S of results

        P[o in S] <= E_Q[exp(epsilon(o)); o in S] + delta.

    So the privacy loss of o exceeds epsilon(o) + t with probability at most delta / (1 - exp(-t)), for
    each t > 0, and the run is (largest epsilon, delta)-DP. It is not claimed that results o with a small
    epsilon(o) are as if the run had been planned that short, nor that such numbers compose.

    Holds when: every result of the steps is released, or is computed from those that are. Scores on
    protected data are results: either they are private releases and part of the mechanism, or they must
    not be looked at.

    Args:
        begun: The mechanism of the first steps, by their number, such as `run.stopped_after`, or
            ``lambda rounds: mechanism * rounds``.
        checkpoints: Numbers of steps, rising; the run ends with the last one.
        delta: What all checkpoints may have together, in [0, 1).
        shares: Relative sizes of the checkpoints' shares of delta, at least 0 each; equal if None.
        adjacency: Which data sets are neighbors; None for the default of the mechanism.
        group_size: In how many records neighbors differ at most.

    Returns:
        A table that answers `epsilon(steps=...)`.

    Raises:
        InvalidArgument: The checkpoints are not rising, or a number is out of range.
        WrongType: An argument has the wrong type.
        Unsupported: The mechanism keeps results of its steps secret, or no theorem covers it.

    >>> from sharpdp.mechanisms import Gaussian
    >>> price = ex_post_epsilon(lambda k: Gaussian(20.0) * k, checkpoints=[10, 40, 160], delta=1e-6)
    >>> print(price)
    ex-post epsilon at delta=1e-06 | neighboring inputs, certified (our proof, not peer reviewed)
      stopped by step  share of delta   epsilon
                   10        3.33e-07  0.686236
                   40        3.33e-07   1.44177
                  160        3.33e-07   3.06644
    """
    if not callable(begun):
        raise WrongType(
            f"begun must be a function of a number of steps; got {short_repr(begun)}. Try "
            "run.stopped_after."
        )
    steps = _numbers(checkpoints=checkpoints)
    checkpoint_steps = tuple(count(checkpoints=value) for value in steps)
    if any(late <= early for early, late in pairwise(checkpoint_steps)):
        raise invalid("checkpoints", "rising numbers of steps", list(checkpoint_steps))
    whole = half_open_probability(delta=delta)
    parts = _shares(whole, len(checkpoint_steps), shares)
    notion, epsilons = adjacency, list[float]()
    for end, share in zip(checkpoint_steps, parts, strict=True):
        mechanism = begun(end)
        if not isinstance(mechanism, Mechanism):
            raise WrongType(f"begun({end}) must be a mechanism; got {short_repr(mechanism)}.")
        for part, _ in mechanism.parts():
            if isinstance(part, BestOf | LastIterate):
                raise Unsupported(
                    f"begun must release the results of its steps; got {part.describe()}. A rule that "
                    "looks at results that are kept secret reveals them. Take the number of the whole "
                    "plan and a number of steps that is fixed in advance."
                )
        answer = by_our_theorems(mechanism, adjacency=notion, group_size=group_size)
        notion = answer.adjacency
        epsilons.append(float(answer.epsilon(delta=share).upper))
    return ExPostEpsilon(
        whole, answer.adjacency, answer.group_size, checkpoint_steps, parts, tuple(epsilons)
    )


def _numbers(**argument: object) -> list[Any]:
    """The entries of an argument that must have some."""
    ((name, value),) = argument.items()
    if not has_entries(value):
        raise WrongType(f"{name} must be a list of numbers; got {short_repr(value)}.")
    entries = list(value)
    if not entries:
        raise InvalidArgument(f"{name} must have at least one entry; got none.")
    return entries


def _shares(delta: float, checkpoints: int, weights: Iterable[float] | None) -> tuple[float, ...]:
    """Shares of delta that are proportional to the weights; their exact sum is at most delta."""
    if weights is None:
        return (down(Fraction(delta) / checkpoints),) * checkpoints
    sizes = [Fraction(nonnegative(shares=weight)) for weight in _numbers(shares=weights)]
    if len(sizes) != checkpoints or not any(sizes):
        raise InvalidArgument(
            f"shares must be {checkpoints} numbers, one for each checkpoint, not all 0; got "
            f"{short_repr(weights)}."
        )
    total = sum(sizes)
    return tuple(down(Fraction(delta) * size / total) for size in sizes)
