"""wang2023, Figures 3 and 4: joint and advanced joint concavity beside the mixtures themselves.

Figure 3 mixes the shuffle pair (P0, Q0) with its exchange (Q0, P0), weight w = 1/3; which users and
which local epsilon is not said. Figure 4 is Example F.3: N(0, 1) against w N(0, 1) + (1 - w) N(1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr, ndtri
from scipy.stats import binom

import sharpdp as dp
from reproduce.cache import once
from reproduce.drawing import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    RATES,
    axes_of,
    band,
    finished,
    tradeoff_axes,
    tradeoff_ends,
    tradeoff_labels,
)
from reproduce.progress import each
from reproduce.sheets import Table, bracket, number, rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

WEIGHT, EPSILON = 1 / 3, 0.5
"""Of Figure 3; the weight of Figure 4 is the same."""

PRINTED = ("0.0020", "1.5e-6")
"""delta that the caption of Figure 3 gives for Lemma 3.1 and for Lemma 6.3."""

READINGS = {
    "w = 1/(e^ε₀ + 1), so ε₀ = log 2": (110, log(2.0), 1.0),
    "10^4 users as in Section 4": (10_000, 5.6, 1.0),
    "the same, Lemma 3.1 times 1 - w": (10_000, 5.7244, 1.0 - WEIGHT),
}
"""Users, local epsilon and a factor for which the value of Lemma 3.1 is the published one."""

SHIFT = 1.0
"""mu of Figure 4."""

SOME_RATES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
REACH = (12.0, 40.0)
"""Standard deviations and clones beyond the mean that a plain sum goes: what it leaves out is < 1e-25."""

CORNER = 0.02
"""Rates up to which Figure 3 (a) goes."""


@dataclass(frozen=True)
class SwappedPair:
    """(P0, Q0) of the shuffle model, P = (1-w) P0 + w Q0 against Q = (1-w) Q0 + w P0."""

    users: int
    local: float
    weight: float = WEIGHT

    @cached_property
    def masses(self) -> tuple[Array, Array]:
        """P0 and Q0 at (a, c + 1 - a), from the largest ratio Q0 / P0 to the smallest."""
        clones = binom(self.users - 1, 2.0 / (exp(self.local) + 1.0))
        reach = REACH[0] * clones.std() + REACH[1]
        first, last = max(0.0, clones.mean() - reach), min(self.users - 1.0, clones.mean() + reach)
        counts = np.arange(np.floor(first), np.ceil(last) + 1.0)
        points = [(c, a) for c in counts for a in np.arange(c + 2.0)]
        c, a = np.array(points).T
        log_ways = gammaln(c + 1.0) - c * log(2.0) + clones.logpmf(c)
        with np.errstate(divide="ignore"):
            # C(c, a - 1) = c!/(a-1)!/(c-a+1)! and C(c, a) with the factorials of a and c + 1 - a
            both = log_ways - gammaln(a + 1.0) - gammaln(c + 2.0 - a)
            p, q = a * np.exp(both), (c + 1.0 - a) * np.exp(both)
            order = np.argsort(np.where(a > 0, -(c + 1.0 - a) / np.maximum(a, 1.0), -np.inf))
        return p[order], q[order]

    def hockey_stick(self, ratio: float) -> float:
        """H(P0 || Q0) = H(Q0 || P0) at this ratio."""
        p, q = self.masses
        return float(np.sum(np.maximum(q - ratio * p, 0.0)))

    def released_delta(self, epsilon: float) -> float:
        """Lemma 3.1: both components have the curve of (P0, Q0)."""
        return self.hockey_stick(exp(epsilon))

    def advanced_delta(self, epsilon: float) -> float:
        """Lemma 6.3, as Proposition 6.4: (1 - 2w) H_g, g = (e^epsilon - 2w) / (1 - 2w)."""
        rest = 1.0 - 2.0 * self.weight
        return rest * self.hockey_stick((exp(epsilon) - 2.0 * self.weight) / rest)

    def exact_delta(self, epsilon: float) -> float:
        """The mixture itself: (1 - w - w e^epsilon) H_x, x = ((1-w) e^epsilon - w) / (...)."""
        w, x = self.weight, exp(epsilon)
        share = 1.0 - w - w * x
        return share * self.hockey_stick(((1.0 - w) * x - w) / share) if share > 0.0 else 0.0

    def curve(self, fpr: Array, weight: float) -> Array:
        """T of ((1-v) P0 + v Q0, (1-v) Q0 + v P0) with v = `weight`; 0 is Lemma 3.1."""
        p, q = self.masses
        null = np.cumsum((1.0 - weight) * p + weight * q)
        missed = 1.0 - np.cumsum((1.0 - weight) * q + weight * p)
        return np.asarray(np.interp(fpr, np.append(0.0, null), np.append(1.0, missed)))

    def advanced_curve(self, fpr: Array) -> Array:
        """2w Id + (1 - 2w) T0 up to its diagonal, and its mirror image."""
        p, q = self.masses
        steep = q > p
        x = np.append(0.0, np.cumsum(p[steep]))
        y = 2.0 * self.weight * (1.0 - x) + (1.0 - 2.0 * self.weight) * (
            1.0 - np.append(0.0, np.cumsum(q[steep]))
        )
        across, down = np.append(x, y[::-1]), np.append(y, x[::-1])
        return np.asarray(np.interp(fpr, across, down))

    @property
    def mixture(self) -> dp.Mixture:
        """What sharpdp is asked."""
        p, q = (tuple((side / side.sum()).tolist()) for side in self.masses)
        pairs = (dp.FinitePair(p=p, q=q), dp.FinitePair(p=q, q=p))
        return dp.Mixture(components=pairs, weights=(1.0 - self.weight, self.weight))


def reading(users: int, local: float, factor: float) -> dict[str, Any]:
    """The caption of Figure 3 in one of its readings."""
    pair = SwappedPair(users, local)
    return {
        "released": factor * pair.released_delta(EPSILON),
        "advanced": pair.advanced_delta(EPSILON),
        "exact": pair.exact_delta(EPSILON),
    }


def third_curves(users: int, local: float) -> dict[str, Any]:
    """Both panels of Figure 3, and sharpdp's bracket of delta."""
    pair = SwappedPair(users, local)
    answer = dp.account(pair.mixture)
    delta = answer.delta(epsilon=EPSILON)
    panels = []
    for reach in (CORNER, 1.0):
        fpr = reach * np.array(RATES)
        curves = {"released": pair.curve(fpr, 0.0), "advanced": pair.advanced_curve(fpr)}
        panels.append(
            {
                "reach": reach,
                **{name: curve.tolist() for name, curve in curves.items()},
                "truth": tradeoff_ends(answer, fpr),
            }
        )
    return {"users": users, "delta": [delta.lower, delta.upper], "panels": panels}


def third_values(_size: str) -> dict[str, Any]:
    """Figure 3, quick at any size, drawn in the reading that w is that of the shuffle model."""
    users, local, _ = READINGS[next(iter(READINGS))]
    return {
        "readings": each(reading, READINGS.values()),
        "curves": once(third_curves, users, local),
    }


def third_tables(values: dict[str, Any]) -> list[Table]:
    """The numbers of the caption in three readings."""
    rows = []
    for (name, (users, local, _)), one in zip(READINGS.items(), values["readings"], strict=True):
        cells = (PRINTED[0], number(one["released"], 4), PRINTED[1], number(one["advanced"], 4))
        rows.append([name, str(users), number(local), *cells, number(one["exact"], 4)])
    headings = (
        "reading",
        "users",
        "ε₀",
        "3.1 published",
        "Lemma 3.1",
        "6.3 published",
        "Lemma 6.3",
    )
    found = bracket(values["curves"]["delta"], 4)
    return [
        Table(f"δ at ε = {EPSILON:g}, w = 1/3", (*headings, "mixture"), rows),
        Table("The first reading", ("", "truth"), [["δ(0.5)", found]]),
    ]


def draw_third(canvas: Figure, values: dict[str, Any]) -> None:
    """Both panels."""
    grid = axes_of(canvas, 1, 2)
    for axes, one, letter in zip(grid, values["curves"]["panels"], "ab", strict=True):
        reach = one["reach"]
        low = 1.0 - 1.6 * reach if reach < 1.0 else 0.0
        place = "small rates" if reach < 1.0 else "all rates"
        tradeoff_axes(axes, f"({letter}) {place}", reach, low)
        fpr = reach * np.array(RATES)
        _bounds(axes, fpr, one["released"], one["advanced"])
        band(axes, fpr, one["truth"], "the mixture itself (certified bracket)", BLUE, linewidth=0.9)
        axes.locator_params(nbins=5)
    tradeoff_labels(canvas)
    finished(canvas, "Mixing a pair with its mirror image, weight 1/3", grid[0])


def _bounds(axes: Axes, fpr: Array, released: list[float], advanced: list[float]) -> None:
    """The two inequalities of the paper, in the order of its figures."""
    label = "Lemma 3.1: joint concavity"
    axes.plot(fpr, released, color=ORANGE, linewidth=1.3, linestyle="--", label=label)
    label = "Lemma 6.3: advanced joint concavity"
    axes.plot(fpr, advanced, color=GREEN, linewidth=3.0, alpha=0.5, label=label)


def gaussian_curve(fpr: Array) -> Array:
    """G_mu(fpr) = Phi(Phi^-1(1 - fpr) - mu)."""
    return np.asarray(ndtr(ndtri(1.0 - fpr) - SHIFT))


def diluted_curve(fpr: Array) -> Array:
    """T(N(0, 1), w N(0, 1) + (1-w) N(mu, 1)) exactly: w (1 - fpr) + (1-w) G_mu(fpr)."""
    return WEIGHT * (1.0 - fpr) + (1.0 - WEIGHT) * gaussian_curve(fpr)


def inverse_curve(fpr: Array) -> Array:
    """The other direction: the rate at which `diluted_curve` falls to this one."""

    def solved(level: float) -> float:
        return float(brentq(lambda x: float(diluted_curve(np.array(x))) - level, 0.0, 1.0))

    return np.array([solved(float(one)) for one in np.atleast_1d(fpr)])


def turning_point() -> tuple[float, float]:
    """Where the slope is -1, and the curve there: Phi(-mu/2), and w + (1 - 2w) Phi(-mu/2)."""
    x = float(ndtr(-SHIFT / 2.0))
    return x, float(diluted_curve(np.array(x)))


def symmetrized_curve(fpr: Array) -> Array:
    """Lemma 6.3: the curve to the left of its turning point, a diagonal, the mirror image."""
    x, y = turning_point()
    return np.where(
        fpr <= x, diluted_curve(fpr), np.where(fpr <= y, x + y - fpr, inverse_curve(fpr))
    )


def released_curve(fpr: Array) -> Array:
    """Lemma 3.1 as published in Example F.3: three pieces, the middle one of slope -1 and length w."""
    x = (1.0 - WEIGHT) * turning_point()[0]
    scaled = np.clip(fpr / (1.0 - WEIGHT), 0.0, 1.0)
    back = np.clip((1.0 - fpr) / (1.0 - WEIGHT), 0.0, 1.0)
    steep = WEIGHT + (1.0 - WEIGHT) * ndtr(ndtri(1.0 - scaled) - SHIFT)
    flat = (1.0 - WEIGHT) * ndtr(ndtri(back) - SHIFT)
    return np.where(fpr < x, steep, np.where(fpr > x + WEIGHT, flat, WEIGHT + 2.0 * x - fpr))


def gaussian_delta(epsilon: float) -> float:
    """delta of N(mu, 1) against N(0, 1)."""
    return float(
        ndtr(SHIFT / 2.0 - epsilon / SHIFT) - exp(epsilon) * ndtr(-SHIFT / 2.0 - epsilon / SHIFT)
    )


def fourth_deltas(epsilon: float) -> tuple[float, float]:
    """(Lemma 3.1, Lemma 6.3): the mean of the components, and the subsampling form."""
    keep = 1.0 - WEIGHT
    inner = log(1.0 + (exp(epsilon) - 1.0) / keep)
    return keep * gaussian_delta(epsilon), keep * gaussian_delta(inner)


def sampled_gaussian() -> dp.DPSGD:
    """The same pair as a mechanism: one Poisson-sampled step at the rate 1 - w."""
    batches = dp.PoissonBatches(sample_rate=1.0 - WEIGHT, steps=1)
    return dp.DPSGD(batches, noise_multiplier=1.0 / SHIFT)


def fourth(epsilon: float) -> dict[str, Any]:
    """Figure 4: every curve at some rates and at all that are drawn, and delta."""
    answer = dp.account(sampled_gaussian())
    some, many = np.array(SOME_RATES), np.array(RATES)
    found, delta = answer.fnr(fpr=some), answer.delta(epsilon=epsilon)
    curves = {"diluted": diluted_curve, "advanced": symmetrized_curve, "released": released_curve}
    return {
        **{name: [curve(x).tolist() for x in (some, many)] for name, curve in curves.items()},
        "truth": [
            np.stack([found.lower, found.upper], 1).tolist(),
            tradeoff_ends(answer, RATES),
        ],
        "deltas": fourth_deltas(epsilon),
        "delta": [delta.lower, delta.upper],
    }


def fourth_values(_size: str) -> dict[str, Any]:
    """Figure 4; quick at any size."""
    found: dict[str, Any] = once(fourth, EPSILON)
    return found


def fourth_tables(values: dict[str, Any]) -> list[Table]:
    """The curves at some rates, and delta."""
    first, second = values["deltas"]
    rows = [
        ["Lemma 3.1", *(rate(x) for x in values["released"][0]), number(first, 6)],
        ["Lemma 6.3, symmetrized", *(rate(x) for x in values["advanced"][0]), number(second, 6)],
        # the curve itself has the slope e^epsilon left of its turning point
        ["w Id + (1-w) G, exact", *(rate(x) for x in values["diluted"][0]), number(second, 6)],
    ]
    ends = [bracket(x, 6) for x in values["truth"][0]]
    rows.append(["truth, worse direction", *ends, bracket(values["delta"], 6)])
    return [Table("", ("curve", *(f"f({x:g})" for x in SOME_RATES), f"δ({EPSILON:g})"), rows)]


def draw_fourth(canvas: Figure, values: dict[str, Any]) -> None:
    """One panel."""
    (axes,) = axes_of(canvas)
    tradeoff_axes(axes, "N(0, 1) against w N(0, 1) + (1 - w) N(1, 1), w = 1/3")
    _bounds(axes, np.array(RATES), values["released"][1], values["advanced"][1])
    label = "its worse direction (certified bracket)"
    band(axes, RATES, values["truth"][1], label, BLUE, linewidth=0.9)
    label = "the mixture: T(P₀, w P₀ + (1-w) Q₀)"
    style: dict[str, Any] = {"color": INK, "linewidth": 1.0, "dashes": (4, 2), "label": label}
    axes.plot(RATES, values["diluted"][1], **style)
    tradeoff_labels(canvas)
    finished(canvas, "One sampled Gaussian step", axes, ncols=1)
