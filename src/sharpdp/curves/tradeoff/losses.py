"""From a trade-off function to a distribution of privacy losses and back, on a stated side.

The null is Q and the alternative P: a segment (w, d) is an outcome with loss log(d / w).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sharpdp.bracket import Side
from sharpdp.curves.tradeoff.exact import ZERO, lines_outline, ratio_down, ratio_up
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.pairs.finite import AtomicPair, rational_pair
from sharpdp.profile.discretize import LossDistribution, exact

__all__ = ["from_losses", "to_losses", "to_pair"]


def to_pair(f: Polyline) -> AtomicPair:
    """The pair (P, Q) with this trade-off function: P the alternative, Q the null."""
    widths = [ZERO, *(width for width, _ in f.segments)]
    return rational_pair([f.jump, *(drop for _, drop in f.segments)], widths)


def to_losses(f: Polyline, side: Side) -> LossDistribution:
    """The losses of that pair, tagged with the side on which they are to be used."""
    return exact(to_pair(f), side)


def from_losses(distribution: LossDistribution) -> Polyline:
    """The trade-off function of a loss distribution: a lower curve for its upper side, and conversely.

    The hockey stick is straight between e^loss of neighboring losses, so that f is the largest of the
    lines 1 - H_x - x fpr at these x = e^loss.

    Numerics: losses, masses and the noise that is declared for them cost at most `_uncertainty` in H,
    which goes to the side that stays safe.
    """
    if distribution.side is Side.UPPER:
        return Polyline.from_lines((height, x) for height, _, x in _lines(distribution))
    lines = [(height, x) for height, x, _ in _lines(distribution)]
    return Polyline.from_points((fpr, max(fnr, ZERO)) for fpr, fnr in lines_outline(lines))


def _lines(distribution: LossDistribution) -> list[tuple[Fraction, Fraction, Fraction]]:
    """1 - H on the safe side at the larger of two ratios around e^loss, and both, for every loss.

    H falls with the ratio: for the upper side the larger ratio gives a line below f. For the lower side
    1 - H at the larger ratio with the slope of the smaller one is above every line between them.
    """
    if np.any(distribution.losses > 700.0):
        raise NotCertified(
            "losses must be at most 700 to be drawn as a curve; got "
            f"{float(distribution.losses.max()):.6g}. Beyond that, e^loss is no double."
        )
    slack = _uncertainty(distribution)
    more = slack if distribution.side is Side.UPPER else -slack
    mass, other, lines = Fraction(distribution.infinite_p) + more, ZERO, []
    mirrored = np.exp(distribution.atoms.log_weights - distribution.losses)
    rows = zip(
        distribution.losses.tolist(), distribution.masses.tolist(), mirrored.tolist(), strict=True
    )
    for loss, here, there in reversed(list(rows)):
        off = distribution.atoms.point_error
        low, high = ratio_down(loss - off), ratio_up(loss + off)
        lines.append((1 - max(mass - high * other, ZERO), low, high))
        mass, other = mass + Fraction(here), other + Fraction(there)
    return lines


def _uncertainty(distribution: LossDistribution) -> Fraction:
    """How far H may be from the sum over the masses at any threshold.

    Rounding of a mass e^x is eight units of x: that of x itself and of the library's exponential.
    """
    atoms = distribution.atoms
    sizes = 1.0 + np.abs(atoms.log_weights) + np.abs(atoms.points)
    rounding = 8.0 * (1.0 + float(np.sum(distribution.masses * sizes)))
    noise = float(np.sum(np.exp(atoms.log_noise))) * (1.0 + atoms.accuracy)
    return Fraction(atoms.accuracy + noise + atoms.point_error + rounding * UNIT_ROUNDOFF)
