"""How fast characteristic functions of tilted losses fall: bounds from uniform layers below densities.

They say at which frequency a contour may end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.special import Array, log_mixture
from sharpdp.profile.sampled_gaussian.moments import IntegrandGrid
from sharpdp.profile.sampled_gaussian.steps import StepRows


@dataclass(frozen=True, eq=False)
class Layers:
    """Masses and lengths of uniform layers below densities, a row for each kind of step."""

    rows: StepRows
    masses: Array
    lengths: Array

    def add_log_bounds(self, totals: Array, t: Array) -> None:
        """Add to each composition's total the log of a bound on |M(theta + it)/M(theta)|^T, at its t.

        The bound at one t holds for all larger ones.
        """
        frequencies = t[self.rows.owner][:, None, :]
        missing = _missing(0.5 * self.lengths[:, :, None] * frequencies)
        lost = (self.masses[:, :, None] * missing).sum(axis=1)
        self.rows.add_to(totals, self.rows.count * np.log1p(-lost))


def last_frequencies(
    layers: Sequence[Layers], largest_rest: Array, farthest: Array
) -> tuple[Array, Array]:
    """Frequencies t and bounds, at most largest_rest, on (1/pi) int |M_T(z)/M_T(theta)| / t^2 beyond.

    NaN where none is found; nothing much beyond `farthest` is looked for. All arrays are columns with a
    row for each composition.
    """
    variance = np.zeros(largest_rest.shape)
    for layer in layers:
        spread = layer.rows.count * layer.masses * layer.lengths**2
        layer.rows.add_to(variance, spread.sum(axis=1, keepdims=True) / 12.0)
    with np.errstate(divide="ignore"):
        first = 1.0 / np.sqrt(variance)
    ratio = 1.1  # by which blocks of frequencies grow
    with np.errstate(invalid="ignore"):
        reach = farthest / first
    longest = float(np.max(reach, where=np.isfinite(reach), initial=1.0))
    blocks = min(max(math.ceil(math.log(longest) / math.log(ratio)) + 15, 20), 400)
    t = first * ratio ** np.arange(blocks)
    log_bound = np.zeros(t.shape)
    with np.errstate(invalid="ignore"):
        for layer in layers:
            layer.add_log_bounds(log_bound, t)
        bound = np.exp(log_bound)
        block = bound * (1.0 / t - 1.0 / (ratio * t)) / np.pi
        last = bound[:, -1:] / (ratio * t[:, -1:] * np.pi)
        rest = np.cumsum(block[:, ::-1], axis=1)[:, ::-1] + last
    enough = rest <= largest_rest
    best = enough.argmax(axis=1)[:, None]
    index = np.arange(best.shape[0])[:, None]
    found = enough[index, best]
    return np.where(found, t[index, best], np.nan), np.where(found, rest[index, best], np.nan)


def _missing(x: Array) -> Array:
    """At most 1 - |sin y / y| for all y >= x >= 0: without cancellation where x is small.

    x^2/6 - x^4/120 below 0.1, 1 - sin x / x up to 2.5, then 1 - min(0.24, 1/x).
    """
    square = x * x
    direct = 1.0 - np.where(x < 2.5, np.sinc(x / np.pi), np.minimum(0.24, 1.0 / np.maximum(x, 2.5)))
    return np.where(x < 0.1, square / 6.0 * (1.0 - square / 20.0), direct)


_REACHES = np.array(
    [3, 6, 9, 12, 16, 20, 25, 30, 36, 42, 48, 55, 62, 70, 80, 90, 105, 120, 140, 160]
)
"""How far layers reach to the right of the mode, in points of a grid."""


def layers_of(grid: IntegrandGrid, s: Array, log_moment: Array) -> Layers:
    """Masses and lengths of uniform layers below the tilted densities of the loss.

    On a stretch around its mode the density is at least its smallest value at points of spacing h, times
    e^{-curvature h^2 / 8}. Layers reach so far to the right, and to the left as far as their height
    allows. A law with uniform layers of mass m and length l has a characteristic function of modulus at
    most 1 - sum m (1 - |sinc(t l / 2)|). `log_moment` is log A(s).
    """
    rows, index = grid.rows, np.arange(s.shape[0])
    mode = grid.points[index, grid.log_integrand(s).argmax(axis=1)][:, None]
    curvature = 1.0 + (np.abs(s) + 1.0) * rows.mu**2 / 4.0
    spacing = 0.05 * np.minimum(1.0, 4.0 / np.sqrt(curvature))
    y = mode + spacing * np.arange(-100.0, 101.0)
    a = rows.mu * y - 0.5 * rows.mu**2
    log_w = log_mixture(rows.rate, a)
    # the slope of log w is mu times the probability that the record took part, q e^a / w
    log_slope = np.log(rows.mu * rows.rate) + a - log_w
    log_f = s * log_w - 0.5 * y * y - 0.5 * np.log(2.0 * np.pi) - log_moment - log_slope
    density = np.exp(log_f - curvature * spacing**2 / 8.0 - 1e-6)
    place = np.arange(y.shape[1])
    # with little noise the density is highest where hardly any mass is: stay near that of y
    near = np.abs(y - mode) <= 1.0 / np.maximum(rows.mu, 1.0) ** 2
    top = np.where(near, density, 0.0).argmax(axis=1)[:, None]
    after = np.minimum.accumulate(np.where(place >= top, density, np.inf), axis=1)
    before = np.minimum.accumulate(np.where(place <= top, density, np.inf)[:, ::-1], axis=1)
    right = np.minimum(top + _REACHES, y.shape[1] - 1)
    height = after[index[:, None], right]
    # to the left of the top so many points are at least as high
    left = y.shape[1] - (before[:, None, :] >= height[:, :, None]).sum(axis=2)
    length = log_w[index[:, None], right] - log_w[index[:, None], left]
    below = np.concatenate([height[:, 1:], np.zeros((height.shape[0], 1))], axis=1)
    return Layers(rows, (height - below) * length, length)
