"""Changes that make epsilon smaller: `account(run).suggestions(delta=...)`.

A suggestion is a sentence with numbers, each an upper end that `account` gives for the changed run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sharpdp.batches import BallsAndBins, ShuffledBatches
from sharpdp.display.outward_digits import ROUND_CEILING, in_digits
from sharpdp.errors import InvalidArgument, Unsupported
from sharpdp.mechanisms import DPSGD
from sharpdp.questions.account import account

if TYPE_CHECKING:
    from sharpdp.batches import BatchScheme
    from sharpdp.questions.account import Guarantee

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
    bins = BallsAndBins(
        dataset_size=scheme.dataset_size, batch_size=scheme.batch_size, epochs=scheme.epochs
    )
    changes: list[tuple[str, BatchScheme]] = [
        ("Draw the batches by balls-and-bins sampling (dp.BallsAndBins, same sizes)", bins),
        *_of_the_shuffle(scheme),
    ]
    sentences = (_gain(guarantee, run, *change, delta) for change in changes)
    return tuple(sentence for sentence in sentences if sentence)


def _of_the_shuffle(scheme: ShuffledBatches) -> list[tuple[str, BatchScheme]]:
    """Changes that keep batches shuffled."""
    words, better = [], scheme
    if scheme.order == "kept":
        better = replace(better, order="redrawn")
        words.append('draw a new order for every epoch (order="redrawn")')
    if scheme.examples_per_epoch == scheme.dataset_size:
        better = replace(better, left_out=1)
        words.append("let one random example sit out every epoch (left_out=1)")
    text = " and ".join(words)
    return [(f"{text[0].upper()}{text[1:]}", better)] if words else []


def _gain(
    guarantee: Guarantee, run: DPSGD, words: str, scheme: BatchScheme, delta: float
) -> str | None:
    """The gain of a change in a sentence; None if it is next to nothing, or no theorem covers it."""
    try:
        answer = account(
            replace(run, batches=scheme),
            relative_width=guarantee.relative_width,
            adjacency=guarantee.adjacency,
        )
        new = float(answer.epsilon(delta=delta).upper)
    except (InvalidArgument, Unsupported):
        return None
    present = float(guarantee.epsilon(delta=delta).upper)
    if not new < 0.95 * present:  # nothing is below 0, or infinite on both sides
        return None
    shown = [in_digits(epsilon, ROUND_CEILING) for epsilon in (new, present)]
    return f"{words}: epsilon is then at most {shown[0]} at delta={delta:g}, not {shown[1]}."
