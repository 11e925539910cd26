"""Quick upper bounds on delta of Poisson-sampled Gaussians: Chernoff's, and the sizes of contour terms.

They settle the direction that is not the worse one, without a contour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.contour import log_call_constant
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.profile.engine import Declined, Steps
from sharpdp.profile.sampled_gaussian.characteristic_bounds import layers_of
from sharpdp.profile.sampled_gaussian.moments import (
    LOG_MOMENT_ERROR,
    IntegrandGrid,
    log_moments,
    moments_by_quadrature,
)
from sharpdp.profile.sampled_gaussian.steps import batches_of, kinds_of, typical_loss


@dataclass(frozen=True, eq=False)
class MomentBounds:
    """Quick upper bounds by Chernoff from moments by quadrature: c(s) M_T(s) e^{-s k} at some tilts s."""

    tilts: Array
    leads: Array

    @classmethod
    def of(
        cls, compositions: Sequence[Steps], smallest: float, largest: float
    ) -> list[MomentBounds]:
        """Bounds for deltas that lie between so many standard deviations of the loss.

        Of many compositions at once; declines if one of them is not made of sampled Gaussians.
        """
        every = [kinds_of(steps) for steps in compositions]
        scales = np.array([typical_loss(kinds) for kinds in every])
        octaves = math.log2(largest / smallest) + 3.5
        spread = 2.0 ** np.linspace(-2.0, octaves - 2.0, math.ceil(2.0 * octaves))
        tilts = smallest * spread / scales[:, None]
        leads = log_call_constant(tilts)
        size = np.abs(leads)
        for rows in batches_of(every):
            moments = rows.count * moments_by_quadrature(rows, tilts[rows.owner])[1]
            rows.add_to(leads, moments)
            rows.add_to(size, np.abs(moments))
        terms = np.array([[len(kinds)] for kinds in every])
        leads += (16.0 + terms) * UNIT_ROUNDOFF * size
        return [cls(*row) for row in zip(tilts, leads, strict=True)]

    def epsilons(self, log_deltas: Array) -> Array:
        """Upper bounds on the smallest epsilons >= 0 at these deltas."""
        gap = self.leads - log_deltas[:, None]
        bounds = (gap + 4.0 * UNIT_ROUNDOFF * np.abs(gap)) / self.tilts
        return np.asarray(np.maximum(bounds.min(axis=1) * (1.0 + 4.0 * UNIT_ROUNDOFF), 0.0))

    def best_tilt(self, epsilon: float) -> float:
        """About the tilt whose bound on delta at epsilon is the smallest, between the given ones."""
        bounds = self.leads - self.tilts * epsilon
        best = min(max(int(np.argmin(bounds)), 1), bounds.size - 2)
        before, middle, after = bounds[best - 1 : best + 2].tolist()
        bend = before + after - 2.0 * middle
        share = 0.5 * (before - after) / bend if bend > 0.0 else 0.0
        move = math.log(self.tilts[1] / self.tilts[0]) * min(max(share, -1.0), 1.0)
        return float(self.tilts[best]) * math.exp(move)


_STEPS = np.concatenate([np.arange(0.0, 6.0, 0.05), 6.0 * 1.1 ** np.arange(81.0)])
"""Frequencies at which a characteristic function is bounded, in units of one over the deviation."""


def log_delta_bounds(compositions: Sequence[Steps], tilts: Array, epsilons: Array) -> Array:
    """Upper bounds on log delta of each composition at its epsilon, from the sizes of contour terms.

    With the tilt s > 0, and layers below the tilted density of each loss as for the last frequency,

        delta(k) <= M_T(s) e^{-s k} (1/pi) int_0^inf |M_T(s + it) / M_T(s)| / |z (z + 1)| dt.

    The bound on the ratio falls with t, and so does the kernel: a sum over intervals takes both at their
    beginnings. Sharper than Chernoff's bound by what the density at its mode differs from one.
    """
    batches = batches_of([kinds_of(steps) for steps in compositions])
    s, k = tilts[:, None], epsilons[:, None]
    lead, size, variance = -s * k, s * k, np.zeros_like(s)
    layers = []
    for rows in batches:
        power = rows.exponent(s[rows.owner])
        ends = np.minimum(power, 0.0), np.maximum(power, 1.0)
        grid = IntegrandGrid.covering(rows, *ends)
        log_a, _ = log_moments(grid, power)
        layer = layers_of(grid, power, log_a)
        layers.append(layer)
        error = LOG_MOMENT_ERROR + 1e-12 * (1.0 + np.abs(log_a))
        rows.add_to(lead, rows.count * (log_a + error))
        rows.add_to(size, rows.count * np.abs(log_a))
        spread = (layer.masses * layer.lengths**2).sum(axis=1, keepdims=True)
        rows.add_to(variance, rows.count * spread / 12.0)
    if not (variance > 0.0).all():
        raise Declined("no layer fits below a density")
    t = _STEPS / np.sqrt(variance)
    log_bound = np.zeros(t.shape)
    for layer in layers:
        layer.add_log_bounds(log_bound, t)
    kernel = 1.0 / (np.hypot(s, t) * np.hypot(s + 1.0, t))
    bound = np.exp(log_bound)
    total = (bound[:, :-1] * kernel[:, :-1] * np.diff(t, axis=1)).sum(axis=1)
    total += bound[:, -1] / t[:, -1]
    # a sum of some two hundred positive terms, and the products that lead to each
    rounding = 1e-12 + 16.0 * UNIT_ROUNDOFF * (1.0 + len(layers)) * size[:, 0]
    return np.asarray(np.minimum(lead[:, 0] + np.log(total / np.pi) + rounding, 0.0))
