"""wang2023, Figures 3 and 4: joint and advanced joint concavity beside the mixtures themselves.

    python -m reproduce.wang2023 [--quick]

Figure 3 mixes the shuffle pair (P0, Q0) with its exchange (Q0, P0), weight w = 1/3; which users and
which local epsilon is not said. Figure 4 is Example F.3: N(0, 1) against w N(0, 1) + (1 - w) N(1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from reproduce.sheets import bracket, picture, remark, table
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr, ndtri
from scipy.stats import binom

import sharpdp as dp
from sharpdp.plots.bands import sampled, tradeoff_band
from sharpdp.plots.house import BLUE, GREY, ORANGE, finish, house, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

WEIGHT, EPSILON = 1 / 3, 0.5
"""Of Figure 3; the weight of Figure 4 is the same."""

PRINTED = ("0.0020", "1.5e-6")
"""delta that the caption of Figure 3 gives for Lemma 3.1 and for Lemma 6.3."""

READINGS = {
    "w = 1/(E+1), so E = 2": (110, log(2.0)),
    "10^4 users as in Section 4": (10_000, 5.6),
    "the same, Lemma 3.1 times 1 - w": (10_000, 5.7244),
}
"""Users and local epsilon for which the value of Lemma 3.1 is the printed one, by how it is read."""

DRAWN = "w = 1/(E+1), so E = 2"
SHIFT = 1.0
"""mu of Figure 4."""

RATES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
REACH = (12.0, 40.0)
"""Standard deviations and clones beyond the mean that a plain sum goes: what it leaves out is < 1e-25."""

GREEN = "#009E73"
BOX = (5.6, 5.9)
"""Inches of a panel."""


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
        return np.interp(fpr, np.append(0.0, null), np.append(1.0, missed))

    def advanced_curve(self, fpr: Array) -> Array:
        """2w Id + (1 - 2w) T0 up to its diagonal, and its mirror image."""
        p, q = self.masses
        steep = q > p
        x = np.append(0.0, np.cumsum(p[steep]))
        y = 2.0 * self.weight * (1.0 - x) + (1.0 - 2.0 * self.weight) * (
            1.0 - np.append(0.0, np.cumsum(q[steep]))
        )
        across, down = np.append(x, y[::-1]), np.append(y, x[::-1])
        return np.interp(fpr, across, down)

    @property
    def mixture(self) -> dp.Mixture:
        """What sharpdp is asked."""
        p, q = ((side / side.sum()).tolist() for side in self.masses)
        pairs = [dp.FinitePair(p=p, q=q), dp.FinitePair(p=q, q=p)]
        return dp.Mixture(components=pairs, weights=[1.0 - self.weight, self.weight])


def third_table() -> None:
    """The caption of Figure 3 in its readings."""
    rows = []
    for name, (users, local) in READINGS.items():
        pair = SwappedPair(users, local)
        first = pair.released_delta(EPSILON)
        factor = 1.0 - WEIGHT if "times" in name else 1.0
        rows.append(
            [
                name,
                str(users),
                f"{local:.5g}",
                PRINTED[0],
                f"{factor * first:.6g}",
                PRINTED[1],
                f"{pair.advanced_delta(EPSILON):.6g}",
                f"{pair.exact_delta(EPSILON):.6g}",
            ]
        )
    headings = ["reading", "users", "eps0", "3.1 printed", "3.1", "6.3 printed", "6.3", "truth"]
    table(f"Figure 3: delta at epsilon {EPSILON:g}, w = 1/3", headings, rows)
    remark(
        "The printed pair 0.0020 and 1.5e-6 was not reproduced: neither the users nor the local epsilon "
        "are told, and wherever Lemma 3.1 gives 0.0020, Lemma 6.3 gives 3e-7 to 5e-7. Both printed "
        "numbers come out together if the value of Lemma 3.1 is multiplied by 1 - w, which the lemma "
        "does not say."
    )
    remark(
        "The mixture itself is smaller than Lemma 6.3 by five orders of magnitude: with the weights "
        "w and 1 - w the exact curve follows from that of (P0, Q0)."
    )


def third_figure() -> None:
    """Both panels of Figure 3 in the reading that w is that of the shuffle model."""
    pair = SwappedPair(*READINGS[DRAWN])
    answer = dp.account(pair.mixture)
    truth = answer.delta(epsilon=EPSILON)
    run = f"{pair.users} users, local epsilon log 2: (P0, Q0) mixed with (Q0, P0), weight 1/3"
    remark(
        f"sharpdp's bracket for the first reading: delta in {bracket(truth.lower, truth.upper)}."
    )
    for name, reach in (("a", 0.02), ("b", 1.0)):
        write(
            picture(f"wang2023-figure3{name}.png"),
            BOX,
            lambda axes, reach=reach: _third_panel(axes, pair, answer, reach, run),
        )


def _third_panel(
    axes: Axes, pair: SwappedPair, answer: dp.Guarantee, reach: float, run: str
) -> Axes:
    house(axes)
    fpr = reach * (0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 201)))
    axes.plot(fpr, 1.0 - fpr, color=GREY, linewidth=1.0, dashes=(1.5, 1.5), label="perfect privacy")
    label = "Lemma 3.1: joint concavity"
    axes.plot(fpr, pair.curve(fpr, 0.0), color=ORANGE, linewidth=1.3, linestyle="--", label=label)
    label = "Lemma 6.3: advanced joint concavity"
    axes.plot(fpr, pair.advanced_curve(fpr), color=GREEN, linewidth=3.0, alpha=0.5, label=label)
    _truth(axes, answer, fpr, "the mixture (certified bracket)")
    axes.locator_params(nbins=5)
    low = 1.0 - 1.6 * reach if reach < 1.0 else 0.0
    title = f"wang2023, Figure 3 ({'a' if reach < 1.0 else 'b'})"
    return _finished(axes, (0.0, reach), (low, 1.0), title, run)


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


def symmetrised_curve(fpr: Array) -> Array:
    """Lemma 6.3: the curve to the left of its turning point, a diagonal, the mirror image."""
    x, y = turning_point()
    return np.where(
        fpr <= x, diluted_curve(fpr), np.where(fpr <= y, x + y - fpr, inverse_curve(fpr))
    )


def released_curve(fpr: Array) -> Array:
    """Lemma 3.1 as printed in Example F.3: three pieces, the middle one of slope -1 and length w."""
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


def fourth_table() -> None:
    """The curves of Figure 4 at some rates, and delta."""
    rates = np.array(RATES)
    answer = dp.account(sampled_gaussian())
    truth, delta = answer.fnr(fpr=rates), answer.delta(epsilon=EPSILON)
    first, second = fourth_deltas(EPSILON)
    direct = f"{second:.6g}"  # the curve itself has the slope e^epsilon left of its turning point
    rows = [
        ["w Id + (1-w) G, exact", *_cells(diluted_curve(rates)), direct],
        ["Lemma 6.3, symmetrised", *_cells(symmetrised_curve(rates)), f"{second:.6g}"],
        ["Lemma 3.1", *_cells(released_curve(rates)), f"{first:.6g}"],
        ["worse direction >=", *_cells(np.asarray(truth.lower)), f"{delta.lower:.6g}"],
        ["worse direction <=", *_cells(np.asarray(truth.upper)), f"{delta.upper:.6g}"],
    ]
    headings = ["curve", *(f"f({rate:g})" for rate in RATES), f"delta({EPSILON:g})"]
    table("Figure 4: Example F.3, mu = 1, w = 1/3", headings, rows)
    remark(
        "No numbers are printed for Figure 4. T(P0, w P0 + (1-w) Q0) = w Id + (1-w) T(P0, Q0) is an "
        "equality for every pair: what the figure shows as the better bound is the exact curve for "
        "rates up to 0.31, and less than it beyond, where symmetrising throws something away."
    )
    remark(
        "The last two rows are sharpdp's bracket for one Poisson-sampled Gaussian step at the rate "
        "2/3, the smaller of both directions: the exact curve, then its inverse."
    )


def _cells(values: Array) -> list[str]:
    return [f"{value:.6f}" for value in values]


def fourth_figure() -> None:
    """Figure 4."""
    run = "N(0, 1) against w N(0, 1) + (1 - w) N(1, 1), w = 1/3"
    write(picture("wang2023-figure4.png"), BOX, lambda axes: _fourth_panel(axes, run))


def _fourth_panel(axes: Axes, run: str) -> Axes:
    house(axes)
    fpr = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 201))
    axes.plot(fpr, 1.0 - fpr, color=GREY, linewidth=1.0, dashes=(1.5, 1.5), label="perfect privacy")
    label = "Lemma 3.1: joint concavity"
    axes.plot(fpr, released_curve(fpr), color=ORANGE, linewidth=1.3, linestyle="--", label=label)
    label = "Lemma 6.3: advanced joint concavity"
    axes.plot(fpr, symmetrised_curve(fpr), color=GREEN, linewidth=3.0, alpha=0.5, label=label)
    _truth(axes, dp.account(sampled_gaussian()), fpr, "its worse direction (certified bracket)")
    label = "the mixture, T(P0, w P0 + (1-w) Q0)"
    axes.plot(fpr, diluted_curve(fpr), color="#222222", linewidth=0.9, dashes=(4, 2), label=label)
    return _finished(axes, (0.0, 1.0), (0.0, 1.0), "wang2023, Figure 4", run)


def _truth(axes: Axes, answer: dp.Guarantee, fpr: Array, label: str) -> None:
    """The certified bracket, the worse of both directions."""
    lower, upper = tradeoff_band(sampled(answer), fpr)
    axes.fill_between(fpr, lower, upper, color=BLUE, alpha=0.25, linewidth=0.0)
    axes.plot(fpr, upper, color=BLUE, linewidth=0.9)
    axes.plot(fpr, lower, color=BLUE, linewidth=0.9, label=label)


def _finished(
    axes: Axes, across: tuple[float, float], up: tuple[float, float], title: str, run: str
) -> Axes:
    axes.set(xlim=across, ylim=up, aspect=(across[1] - across[0]) / (up[1] - up[0]))
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("false-negative rate of the best attack")
    finish(axes, title, run, loc="upper right" if across[1] == 1.0 else "lower left")
    return axes


def show() -> None:
    """Print the tables of both figures, draw them."""
    third_table()
    third_figure()
    fourth_table()
    fourth_figure()


if __name__ == "__main__":
    show()
