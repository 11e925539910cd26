"""Reserves of a budget: mechanisms written down in advance, run in any order or left out.

A plan that is fixed in advance costs what it costs, whichever of its parts results let one run next, and
whichever are never run: results of all parts could be drawn at once, before anything is released, and be
shown as they are asked for. So a part of a plan may be run at any time. Three kinds of parts may be
divided further: Gaussian noise by mu^2, as a path of Brownian motion is; Poisson batches into steps, each
of which draws its batch by itself; and runs in epochs, which may end early. The proof:
docs/proofs/filters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sharpdp.batches import PoissonBatches
from sharpdp.batches.scheme import EpochScheme
from sharpdp.mechanisms import DPSGD, Gaussian, Mechanism
from sharpdp.mechanisms.composed import Grouped, Parts

__all__ = ["Reserve"]


@dataclass(frozen=True)
class Reserve:
    """The rest of the mechanisms that were written down in advance.

    Args:
        runs: Mechanisms other than Gaussian noise, with how often each may still be run.
        squared_mu: What the mu^2 of Gaussian noise may still sum to.

    >>> reserve = Reserve.of((Gaussian(noise_multiplier=2.0) * 4).parts())
    >>> left, beyond = reserve.without(((Gaussian(noise_multiplier=1.0), 3),))
    >>> left.squared_mu, beyond
    (Fraction(0, 1), ((Gaussian(noise_multiplier=1.0), 2),))
    """

    runs: Mapping[Mechanism, int]
    squared_mu: Fraction

    @classmethod
    def of(cls, parts: Parts) -> Reserve:
        """Set aside these parts.

        Args:
            parts: What is expected, as groups see it.

        Returns:
            The whole reserve.
        """
        runs: dict[Mechanism, int] = {}
        squared_mu = Fraction(0)
        for part, times in parts:
            squared = _squared_mu(part)
            if squared is not None:
                squared_mu += times * squared
                continue
            unit, count = _in_steps(part, times)
            runs[unit] = runs.get(unit, 0) + count
        return cls(runs, squared_mu)

    def without(self, parts: Parts) -> tuple[Reserve, Parts]:
        """The reserve after some parts were run, and the parts that it does not cover.

        Args:
            parts: What is run, as groups see it.

        Returns:
            The reserve, and what must be paid for otherwise.
        """
        runs, squared_mu, beyond = dict(self.runs), self.squared_mu, []
        for part, times in parts:
            squared = _squared_mu(part)
            if squared is not None:
                covered = min(times, squared_mu // squared)
                squared_mu -= covered * squared
                left = times - covered, part
            else:
                unit, count = _in_steps(part, times)
                left = _taken(runs, unit, count), unit
            if left[0]:
                beyond.append((left[1], left[0]))
        return Reserve(runs, squared_mu), tuple(beyond)

    def covers(self, mechanism: Mechanism) -> bool:
        """Whether all of a mechanism is set aside.

        Args:
            mechanism: What is to be run.

        Returns:
            True if nothing of it must be paid for otherwise.
        """
        return not self.without(mechanism.parts())[1]

    def share(self, whole: Reserve) -> float:
        """How much of it is left, as the mean over its parts.

        Args:
            whole: The reserve before anything was run.

        Returns:
            From 1 at first to 0.
        """
        left = [self.runs.get(run, 0) / count for run, count in whole.runs.items()]
        if whole.squared_mu:
            left.append(float(self.squared_mu / whole.squared_mu))
        return sum(left) / len(left) if left else 0.0


def _squared_mu(part: Mechanism) -> Fraction | None:
    """The square of mu of Gaussian noise, exactly; None for everything else, and without noise."""
    size = part.group_size if isinstance(part, Grouped) else 1
    run = part.mechanism if isinstance(part, Grouped) else part
    if type(run) is not Gaussian or not run.adds_noise:
        return None
    return (size / Fraction(run.noise_multiplier)) ** 2


def _in_steps(part: Mechanism, times: int) -> tuple[Mechanism, int]:
    """A run over Poisson batches as that many single steps; everything else as it is."""
    if type(part) is not DPSGD or type(part.batches) is not PoissonBatches:
        return part, times
    step = replace(part, batches=replace(part.batches, steps=1))
    return step, times * part.batches.steps


def _taken(runs: dict[Mechanism, int], unit: Mechanism, count: int) -> int:
    """Take some runs, or longer ones of which they are the first epochs; how many are not covered."""
    longer = [run for run in runs if run != unit and _begins(run, unit)]
    for run in (unit, *longer):
        covered = min(count, runs.get(run, 0))
        if covered:
            runs[run] -= covered
            count -= covered
    return count


def _begins(whole: Mechanism, first: Mechanism) -> bool:
    """Whether a run is the first epochs of another one."""
    if isinstance(whole, Grouped) and isinstance(first, Grouped):
        return whole.group_size == first.group_size and _begins(whole.mechanism, first.mechanism)
    return (
        type(whole) is type(first) is DPSGD
        and isinstance(whole.batches, EpochScheme)
        and type(whole.batches) is type(first.batches)
        and first.batches.steps < whole.batches.steps
        and whole.stopped_after(first.batches.steps) == first
    )
