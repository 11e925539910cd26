"""Exact chords and tangents of a profile in balls, on given nodes: what discretization should give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import acb, arb

from sharpdp.pairs.pair import Pair
from tests.numerics import exact


@dataclass(frozen=True)
class ExactLosses:
    """Finite losses with P-masses, and the two infinite masses, as balls."""

    losses: list[arb]
    masses: list[arb]
    infinite_p: arb
    infinite_q: arb

    def moment(self, z: acb) -> acb:
        """sum p e^{z l}."""
        total = acb(0)
        for loss, mass in zip(self.losses, self.masses, strict=True):
            total += mass * (z * loss).exp()
        return total


def chords(pair: Pair, nodes: np.ndarray) -> ExactLosses:
    """The chords of the exact profile; zero is among the nodes and no mass of the pair is infinite."""
    at = [arb(float(loss)) for loss in nodes]
    x = [loss.exp() for loss in at]
    e = [exact.otm(pair, loss) for loss in at]
    zero = int(np.searchsorted(nodes, 0.0))
    slopes = [
        (e[i + 1] - e[i]) / (x[i + 1] - x[i]) for i in range(len(at) - 1)
    ]  # of the put below zero (rising), of the call above (falling)
    first = e[0] / x[0]
    rising = [first, *slopes[:zero]]
    falling = [*slopes[zero:], arb(0)]
    masses = [x[i] * (rising[i + 1] - rising[i]) for i in range(zero)]
    masses.append(1 - rising[zero] + falling[0])
    masses += [x[zero + i] * (falling[i] - falling[i - 1]) for i in range(1, len(falling))]
    return ExactLosses(at, masses, e[-1], first)


def tangents(pair: Pair, nodes: np.ndarray) -> ExactLosses:
    """The pair seen through the cell that its ratio falls into: Q-mass and mean ratio of each cell."""
    at = [arb(float(loss)) for loss in nodes]
    x = [loss.exp() for loss in at]
    e = [exact.otm(pair, loss) for loss in at]
    s = [exact.tail_q(pair, loss) for loss in at]
    zero = int(np.searchsorted(nodes, 0.0))
    # Q[L >= x_i] and E_Q[X; L >= x_i] at every node, from puts below zero and calls above
    above = [(1 - s[i]) if i < zero else s[i] for i in range(len(at))]
    carried = [1 - (x[i] * s[i] - e[i]) if i < zero else e[i] + x[i] * s[i] for i in range(len(at))]
    above, carried = [arb(1), *above, arb(0)], [arb(1), *carried, arb(0)]
    losses, masses, infinite_q = [], [], arb(0)
    for i in range(len(above) - 1):
        mass_q, mass_p = above[i] - above[i + 1], carried[i] - carried[i + 1]
        if mass_p > 0:
            losses.append((mass_p / mass_q).log())
            masses.append(mass_p)
        elif mass_q > 0:
            infinite_q += mass_q
    return ExactLosses(losses, masses, arb(0), infinite_q)
