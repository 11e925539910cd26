"""The privacy-loss distribution of one experiment: finitely many losses, two infinite atoms, a side.

A LossDistribution on the upper side dominates the pair that it was made from, one on the lower side
is dominated by it; both orders survive composition. It is plain data: `discretize` makes it, engines add
up losses, and its generating function lives in `numerics.contour`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.bracket import Rigor, Side
from sharpdp.numerics.contour import Atoms
from sharpdp.numerics.special import Array


@dataclass(frozen=True)
class LossDistribution:
    """Masses of P at given losses; Q's mass at loss l is e^{-l} times P's.

    `atoms` carries the losses, the logarithms of the P-masses and a bound on their rounding noise.
    `log_infinite_p` is the log of P's mass at +inf, which may be below all doubles; `infinite_q` is Q's
    mass at -inf. `rigor` is what stands behind the profile values that the masses were made from.
    """

    side: Side
    atoms: Atoms
    log_infinite_p: float = -np.inf
    infinite_q: float = 0.0
    rigor: Rigor = Rigor.CERTIFIED

    @property
    def infinite_p(self) -> float:
        """P's mass at +inf; 0 if it is below all doubles."""
        return float(np.exp(self.log_infinite_p))

    @property
    def losses(self) -> Array:
        """Finite losses in increasing order."""
        return self.atoms.points

    @property
    def masses(self) -> Array:
        """P-mass at each finite loss."""
        return np.exp(self.atoms.log_weights)

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence of this distribution at e^epsilon, summed without rounding control."""
        excess = -np.expm1(np.minimum(epsilon - self.losses, 0.0))
        return float(self.infinite_p + np.sum(self.masses * excess))
