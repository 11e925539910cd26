"""What to change for a smaller epsilon: `account(run).suggestions(delta=...)`.

A suggestion is a sentence with numbers, each an upper end that `account` gives for the changed run.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING
from typing import TYPE_CHECKING

from sharpdp.accounting import account
from sharpdp.batches import ShuffledBatches
from sharpdp.bracket import rounded
from sharpdp.mechanisms import DPSGD

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee

__all__ = ["suggested"]


def suggested(guarantee: Guarantee, delta: float) -> tuple[str, ...]:
    """Changes of the run that lower the certified epsilon at this delta by 5% or more.

    Args:
        guarantee: The answer for the present run.
        delta: Delta at which both are compared, in (0, 1).

    Returns:
        One sentence for each change; none if there is nothing to gain.
    """
    run = guarantee.mechanism
    if not isinstance(run, DPSGD) or not isinstance(run.batches, ShuffledBatches):
        return ()
    scheme = run.batches
    if scheme.batch_size == scheme.dataset_size:
        return ()
    change = []
    better = scheme
    if scheme.order == "kept":
        better = replace(better, order="redrawn")
        change.append('draw a new order for every epoch (order="redrawn")')
    if scheme.examples_per_epoch == scheme.dataset_size:
        better = replace(better, left_out=1)
        change.append("let one random example sit out every epoch (left_out=1)")
    if not change:
        return ()
    # a rough answer is an upper end as well, and quick
    answer = account(
        replace(run, batches=better), relative_width=0.05, adjacency=guarantee.adjacency
    )
    new = float(answer.epsilon(delta=delta).upper)
    present = float(guarantee.epsilon(delta=delta).upper)
    if new > 0.95 * present:
        return ()
    shown = [str(rounded(epsilon, 4, ROUND_CEILING)) for epsilon in (new, present)]
    words = " and ".join(change)
    return (
        f"{words[0].upper()}{words[1:]}: epsilon is then at most {shown[0]} at delta={delta:g}, "
        f"not {shown[1]}.",
    )
