"""From a trade-off function to a distribution of privacy losses and back, on a stated side.

The null is Q and the alternative P: a segment (w, d) is an outcome with loss log(d / w).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sharpdp.bracket import Side
from sharpdp.curves.atomic import AtomicPair
from sharpdp.curves.discretize import exact
from sharpdp.curves.loss import LossDistribution
from sharpdp.curves.rational import rational_pair
from sharpdp.numerics.directed import exp_up
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.tradeoffs.outlines import ZERO, Line, lines_outline
from sharpdp.tradeoffs.polyline import Polyline

__all__ = ["from_losses", "to_losses", "to_pair"]

LIBRARY_UNITS = 8.0
"""Rounding of a mass e^x, in units of x: that of x itself and of the library's exponential."""

CORNERS = 64.0
"""Units by which a line at a rounded threshold may miss the corner that it stands for."""


def to_pair(f: Polyline) -> AtomicPair:
    """The pair (P, Q) with this trade-off function: P the alternative, Q the null."""
    widths = [ZERO, *(width for width, _ in f.segments)]
    return rational_pair([f.jump, *(drop for _, drop in f.segments)], widths)


def to_losses(f: Polyline, side: Side) -> LossDistribution:
    """The losses of that pair, tagged with the side on which they are to be used."""
    return exact(to_pair(f), side)


def from_losses(distribution: LossDistribution) -> Polyline:
    """The trade-off function of a loss distribution: a lower curve for its upper side, and conversely.

    The hockey stick is straight between e^loss of neighbouring losses, so that f is the largest of the
    lines 1 - H - g x at these g.

    Numerics: losses, masses and the noise that is declared for them cost at most `_uncertainty` in H,
    which goes to the side that stays safe.
    """
    slack = _uncertainty(distribution)
    lines = _lines(distribution, slack if distribution.side is Side.UPPER else -slack)
    if distribution.side is Side.UPPER:
        return Polyline.from_lines((min(height, g, Fraction(1)), g) for height, g in lines)
    return Polyline.from_points((x, max(y, ZERO)) for x, y in lines_outline(lines))


def _lines(distribution: LossDistribution, more: Fraction) -> list[Line]:
    """(1 - H, g) at every loss, H with something added to it but at least 0."""
    losses = distribution.losses.tolist()
    mass = Fraction(distribution.infinite_p) + more
    other = ZERO
    lines = []
    masses = distribution.masses.tolist()
    mirrored = np.exp(distribution.atoms.log_weights - distribution.losses).tolist()
    for loss, here, there in reversed(list(zip(losses, masses, mirrored, strict=True))):
        g = Fraction(exp_up(loss))
        lines.append((1 - max(mass - g * other, ZERO), g))
        mass, other = mass + Fraction(here), other + Fraction(there)
    return lines


def _uncertainty(distribution: LossDistribution) -> Fraction:
    """How far H may be from the sum over the masses at any threshold."""
    atoms = distribution.atoms
    sizes = 1.0 + np.abs(atoms.log_weights) + np.abs(atoms.points)
    rounding = LIBRARY_UNITS * float(np.sum(distribution.masses * sizes)) + CORNERS
    noise = float(np.sum(np.exp(atoms.log_noise))) * (1.0 + atoms.accuracy)
    return Fraction(atoms.accuracy + noise + atoms.point_error + rounding * UNIT_ROUNDOFF)
