"""Finite pairs from attacks: what is known of two laws by the probabilities of some events.

An event A with P[A] = p and Q[A] = q shows that H_x(P||Q) >= p - x q for every x. The largest of such
lines, one for each event, is the profile of a finite pair: its steps are those of the concave hull of
the points (q, p) and of (0, 0) and (1, 1). Every pair whose events have these probabilities dominates
it, so it composes like any other lower side.

A point may be moved to the safe side: p down, q up. Events with small probabilities are given by those,
events with small complements by the complements', so that nothing is a difference from one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.hull import lower_hull
from sharpdp.numerics.special import Array, one_minus_down, one_minus_up
from sharpdp.pairs.finite import AtomicPair


@dataclass(frozen=True)
class Attacks:
    """Events: false positive rates q (not below) and true positive rates p (not above).

    `misses` are the complements of other events: Q-masses (not above) and P-masses (not below).
    """

    q: Array
    p: Array
    miss_q: Array
    miss_p: Array

    def joined(self, other: Attacks) -> Attacks:
        """Both sets of events."""
        mine = (self.q, self.p, self.miss_q, self.miss_p)
        theirs = (other.q, other.p, other.miss_q, other.miss_p)
        return Attacks(*(np.concatenate(both) for both in zip(mine, theirs, strict=True)))

    def pair(self) -> AtomicPair:
        """The finite pair whose profile is the largest of all lines p - x q.

        >>> coin = Attacks(np.array([0.25]), np.array([0.75]), np.array([0.75]), np.array([0.25]))
        >>> [round(loss, 12) for loss in coin.pair().losses]  # log 3 on both sides
        [-1.098612288668, 1.098612288668]
        """
        gains = np.concatenate([self.p - self.q, self.miss_q - self.miss_p, [0.0]])
        best = int(np.argmax(gains))
        if gains[best] <= 0.0:
            return AtomicPair((0.0,), (0.0,), (0.0,))
        if best < self.q.size:
            q, p = float(self.q[best]), float(self.p[best])
            miss_q, miss_p = one_minus_down(q), one_minus_up(p)
        else:
            miss_q = float(self.miss_q[best - self.q.size])
            miss_p = float(self.miss_p[best - self.q.size])
            q, p = one_minus_up(miss_q), one_minus_down(miss_p)
        if p <= q or miss_q <= miss_p:
            return AtomicPair((0.0,), (0.0,), (0.0,))
        q_steps, p_steps = _steps(self.q, self.p, q, p)
        # from the other end P and Q change places: false negatives against true negatives
        back_p, back_q = _steps(self.miss_p, self.miss_q, miss_p, miss_q)
        return AtomicPair.from_rounded_pmfs(
            np.concatenate([p_steps, back_p]), np.concatenate([q_steps, back_q])
        )


def _steps(x: Array, y: Array, last_x: float, last_y: float) -> tuple[Array, Array]:
    """Steps of the concave hull of (0, 0), the points with steepness above one, and the last point.

    Probabilities too close to the end of the doubles for a ratio of differences are left out, and points
    whose first coordinates are closer than a relative 1e-6 are thinned out.
    """
    usable = (x > 1e-290) & (y > x) & (x < last_x) & (y < last_y)
    order = np.argsort(x[usable], kind="stable")
    xs, ys = x[usable][order], y[usable][order]
    points = [(0.0, 0.0)]
    for point in [*zip(xs.tolist(), ys.tolist(), strict=True), (last_x, last_y)]:
        if point[0] <= points[-1][0] * (1.0 + 1e-6):
            if point[1] <= points[-1][1]:
                continue
            points.pop()
        points.append(point)
    corners = np.array(points)[lower_hull([(x, -y) for x, y in points])]
    return np.diff(corners[:, 0]), np.diff(corners[:, 1])
