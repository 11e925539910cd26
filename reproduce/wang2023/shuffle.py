"""wang2023, Tables 1 and 2 and Figure 1: the shuffle model.

10^4 users, local epsilon 4.444. The truth for "all users share some local_epsilon-LDP randomizer" lies
in sharpdp's bracket; its upper end is the pair of distributions that the paper bounds.
"""

from __future__ import annotations

from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import sharpdp as dp
from reproduce.drawing import (
    BLUE,
    GREEN,
    ORANGE,
    RATES,
    axes_of,
    band,
    finished,
    legend_in,
    tradeoff_axes,
    tradeoff_ends,
    tradeoff_labels,
)
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number, rate
from sharpdp.bounds.shuffle_model.published.epsilon import stronger_clones_closed_form_upper
from sharpdp.numerics.roots import last_true

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Values = list[dict[str, Any]]

USERS, LOCAL = 10_000, 4.444
UNROUNDED = 4.444478461269134
"""log(n / (8 log(2/delta)) - 1) at delta = n^-1.5, of which the paper prints 4.444."""

TABLE_1 = {  # epsilon: delta of feldman2023, delta of wang2023, as published
    0.5: ("0.9494", "3e-6"),
    0.6: ("0.3764", "1e-7"),
    0.7: ("0.1038", "4e-9"),
    0.8: ("0.0181", "9e-11"),
    0.9: ("0.0018", "2e-12"),
    1.0: ("8e-5", "2e-14"),
}
TABLE_2 = {  # delta: epsilon of wang2023, upper and lower bound beside it, as published
    5e-5: ("0.4", "1.014", "0.369"),
    3e-6: ("0.5", "1.085", "0.470"),
    1e-7: ("0.6", "ε₀", "0.575"),
    4e-9: ("0.7", "ε₀", "0.664"),
    9e-11: ("0.8", "ε₀", "0.758"),
}
STEPS = (300, 100)
"""Clones in an interval, of which the published row takes two."""

PANELS = (1.0, 2.0, 4.0, LOCAL, 6.0)
"""Local epsilons of Figure 1; beyond 4.444 the closed form says nothing."""

SOME_RATES = (0.01, 0.05, 0.1, 0.3, 0.5)
FIGURE_DELTA = 1e-6
"""n^-1.5, the delta at which Figure 1 takes the closed form."""

REACH, LINES = 5.0, 400
"""The curve of Theorem 4.2 is drawn from so many tangents, out to so many standard deviations."""

TAIL = 1e-18
"""Mass of the clones that a plain sum leaves out on each side: far below any published digit."""


class PublishedMethod:
    """Proposition 4.1, Theorem 4.2 and Corollary 4.3 by plain sums of binomial distributions."""

    def __init__(self, users: int, local: float) -> None:
        self.w = 1.0 / (exp(local) + 1.0)
        clones = binom(users - 1, 2.0 * self.w)
        self.i = np.arange(clones.ppf(TAIL), clones.isf(TAIL) + 1.0)
        self.weight = clones.pmf(self.i)

    def _last(self, t: float | Array) -> Array:
        return np.floor(self.i - (self.i + 1.0) / (np.asarray(t)[..., None] + 1.0))

    def errors(self, t: float | Array) -> tuple[Array, Array]:
        """(alpha, beta) of the bare pair at the threshold t, or at several."""
        last = self._last(t)
        alpha = binom.cdf(last, self.i, 0.5) @ self.weight
        return alpha, 1.0 - alpha - binom.pmf(last + 1.0, self.i, 0.5) @ self.weight

    def delta(self, epsilon: float, threshold: float) -> float:
        """Corollary 4.3 at a threshold: (2w - e^eps) alpha + (1 - 2w)(1 - beta)."""
        last = self._last(threshold)
        at = self.weight @ binom.pmf(last + 1.0, self.i, 0.5)
        alpha = float(self.errors(threshold)[0])
        # 1 - beta = alpha + at, so that nothing cancels but what must
        return (1.0 - 2.0 * self.w) * float(at) - (exp(epsilon) - 1.0) * alpha

    def threshold(self, epsilon: float) -> float:
        """t_eps of Corollary 4.3, the infimum of t with -2w + (1 - 2w) l(t) >= -e^eps, l(t) = -1/t."""
        return (1.0 - 2.0 * self.w) / (exp(epsilon) - 2.0 * self.w)

    @cached_property
    def lines(self) -> tuple[Array, Array]:
        """Theorem 4.2 up to its diagonal: (height at 0, slope) of lines that touch the curve.

        The curve is 2w (1 - alpha) + (1 - 2w) T0(alpha), and T0 has the slope -1/t at the knot of t.
        """
        spread = REACH * 2.0 / np.sqrt(1.0 + float(self.weight @ self.i))
        thresholds = np.exp(-np.linspace(0.0, spread, LINES)) * (1.0 - 1e-9)
        alpha, beta = self.errors(thresholds)
        steep = 2.0 * self.w + (1.0 - 2.0 * self.w) / thresholds
        value = 2.0 * self.w * (1.0 - alpha) + (1.0 - 2.0 * self.w) * beta
        return value + steep * alpha, steep

    def symmetrized(self, fpr: Array) -> Array:
        """The curve to the left of its diagonal, and its mirror image."""
        height, steep = (part[:, None] for part in self.lines)
        left, right = (height - steep * fpr).max(0), ((height - fpr) / steep).max(0)
        return np.asarray(np.maximum(left, right))


def closed_form_delta(local: float, epsilon: float) -> float:
    """The delta at which the closed form of feldman2023 reaches this epsilon."""
    run = dp.ShuffledReports(users=USERS, local_epsilon=local)

    def above(log_delta: float) -> bool:
        return stronger_clones_closed_form_upper(run, exp(log_delta)) > epsilon

    return exp(last_true(above, log(5e-5), -1e-9)[1])


def deltas(epsilon: float) -> dict[str, Any]:
    """One column of Table 1."""
    method = PublishedMethod(USERS, LOCAL)
    run = dp.ShuffledReports(users=USERS, local_epsilon=LOCAL)
    truth = dp.account(run).delta(epsilon=epsilon)
    return {
        "epsilon": epsilon,
        "closed": [closed_form_delta(local, epsilon) for local in (UNROUNDED, LOCAL)],
        "theorem": method.delta(epsilon, method.threshold(epsilon)),
        "truth": [truth.lower, truth.upper],
    }


def first_values(size: str) -> Values:
    """Table 1; quickly, its first and last column."""
    epsilons = list(TABLE_1)
    return each(deltas, [(one,) for one in (epsilons[::5] if size == QUICK else epsilons)])


def first_tables(values: Values) -> list[Table]:
    """Its two rows, each beside what gives it."""
    theirs, closed = [], []
    for one in values:
        epsilon, published = one["epsilon"], TABLE_1[one["epsilon"]]
        closed.append([number(epsilon), published[0], *(number(x, 4) for x in one["closed"])])
        cells = (number(one["theorem"]), bracket(one["truth"]))
        theirs.append([number(epsilon), published[1], *cells])
    return [
        Table(
            "δ of the paper",
            ("ε", "published", "Theorem 4.2, Corollary 4.3", "truth"),
            theirs,
        ),
        Table(
            "δ of [23], the closed form of feldman2023",
            ("ε", "published", "at ε₀ = 4.44448", "at ε₀ = 4.444"),
            closed,
        ),
    ]


def coarse_delta(epsilon: float, step: int) -> float:
    """The clones pair with rate 2/(E + 1) from below, on intervals of so many clones about the mean.

    For each interval the smaller divergence at its two ends, times its mass. This is what the public
    program of feldman2021 does, with that rate in place of its e^-local.
    """
    rate_of_clones, alpha = 2.0 / (exp(LOCAL) + 1.0), exp(LOCAL) / (exp(LOCAL) + 1.0)
    clones = binom(USERS - 1, rate_of_clones)

    def stick(count: int) -> float:
        places = np.arange(count + 2.0)
        same, other = binom.pmf(places, count, 0.5), binom.pmf(places - 1.0, count, 0.5)
        p, q = alpha * same + (1.0 - alpha) * other, (1.0 - alpha) * same + alpha * other
        return float(np.maximum(p - exp(epsilon) * q, 0.0).sum())

    middle, total = int(np.ceil((USERS - 1) * rate_of_clones)), 0.0
    intervals = [(middle, middle + step)]
    while intervals[-1][1] < USERS - 1 and clones.sf(intervals[-1][1]) > TAIL:
        first = intervals[-1][1] + 1
        intervals.append((first, min(first + step - 1, USERS - 1)))
    last = middle - 1
    while last >= 0 and clones.cdf(last) > TAIL:
        intervals.append((max(last - step + 1, 0), last))
        last -= step
    for first, last in intervals:
        mass = float(clones.cdf(last) - clones.cdf(first - 1))
        total += mass * min(stick(first), stick(last))
    return total


def coarse_epsilon(delta: float, step: int) -> float:
    """The epsilon at which `coarse_delta` falls to delta."""
    return last_true(lambda epsilon: coarse_delta(epsilon, step) > delta, 0.0, LOCAL)[1]


def epsilons(delta: float) -> dict[str, Any]:
    """One column of Table 2: every bound that it is about."""
    found = dp.compare(dp.ShuffledReports(users=USERS, local_epsilon=LOCAL), delta=delta)
    names = {
        "theorem": "mixture_tradeoff_upper",
        "closed": "stronger_clones_closed_form_upper",
        "pair": "clones_numeric_upper",
        "binary": "binary_response_lower",
        "ternary": "ternary_response_lower",
        "upper": "shared_clones_upper",
    }
    coarse = {f"step {step}": coarse_epsilon(delta, step) for step in STEPS}
    return {"delta": delta, **coarse, **{key: found[name].value for key, name in names.items()}}


def second_values(size: str) -> Values:
    """Table 2; quickly, its first and last column."""
    places = list(TABLE_2)
    return each(epsilons, [(one,) for one in (places[::4] if size == QUICK else places)])


def second_tables(values: Values) -> list[Table]:
    """Its three rows, each beside what gives it."""
    theirs, others, coarse = [], [], []
    for one in values:
        delta, (ours, upper, lower) = number(one["delta"]), TABLE_2[one["delta"]]
        truth = bracket([one["ternary"], one["upper"]])
        theirs.append([delta, ours, number(one["theorem"]), truth])
        closed = "does not hold" if one["closed"] is None else number(one["closed"])
        cells = (number(one["pair"]), lower, number(one["binary"]), number(one["ternary"]))
        others.append([delta, upper, closed, *cells])
        steps = (number(one[f"step {step}"], 4) for step in STEPS)
        coarse.append([delta, lower, *steps, number(one["upper"], 4)])
    return [
        Table("ε of the paper", ("δ", "published", "Theorem 4.2", "truth"), theirs),
        Table(
            "The bounds it is compared with",
            (
                "δ",
                "upper, published",
                "closed form",
                "pair of 2021",
                "lower, published",
                "2-RR",
                "3-RR",
            ),
            others,
        ),
        Table(
            "The lower bound again: the pair with clone rate 2/(e^ε₀ + 1) on intervals of clones",
            ("δ", "lower, published", *(f"of {step}" for step in STEPS), "the pair"),
            coarse,
        ),
    ]


def approximate_curve(epsilon: float, delta: float, fpr: Array) -> Array:
    """The trade-off function that (epsilon, delta)-DP promises."""
    first, second = 1.0 - delta - exp(epsilon) * fpr, exp(-epsilon) * (1.0 - delta - fpr)
    return np.maximum(0.0, np.maximum(first, second))


def closed_form_curve(local: float, fpr: Array) -> list[float] | None:
    """What the closed form promises at delta = n^-1.5; None where it does not hold."""
    run = dp.ShuffledReports(users=USERS, local_epsilon=local)
    try:
        epsilon = stronger_clones_closed_form_upper(run, FIGURE_DELTA)
    except dp.SharpDPError:
        return None
    found: list[float] = approximate_curve(epsilon, FIGURE_DELTA, fpr).tolist()
    return found


def panel(local: float) -> dict[str, Any]:
    """One panel of Figure 1: curves to draw, and some of their values."""
    answer = dp.account(dp.ShuffledReports(users=USERS, local_epsilon=local))
    method = PublishedMethod(USERS, local)
    some, many = np.array(SOME_RATES), np.array(RATES)
    ends = tradeoff_ends(answer, [*SOME_RATES, *RATES])
    return {
        "local": local,
        "closed": [closed_form_curve(local, rates) for rates in (some, many)],
        "theorem": [method.symmetrized(rates).tolist() for rates in (some, many)],
        "truth": [ends[: len(SOME_RATES)], ends[len(SOME_RATES) :]],
    }


def figure_values(size: str) -> Values:
    """Figure 1; quickly, its last panel."""
    return each(panel, [(one,) for one in (PANELS[-1:] if size == QUICK else PANELS)])


def figure_tables(values: Values) -> list[Table]:
    """The curves at five rates."""
    rows = []
    for one in values:
        name = number(one["local"])
        closed = one["closed"][0]
        cells = ["–"] * len(SOME_RATES) if closed is None else [rate(x, 4) for x in closed]
        rows.append([name, "closed form of feldman2023", *cells])
        rows.append([name, "Theorem 4.2", *(rate(x, 5) for x in one["theorem"][0])])
        rows.append([name, "truth", *(bracket(ends, 6) for ends in one["truth"][0])])
    return [Table("", ("ε₀", "curve", *(f"f({x:g})" for x in SOME_RATES)), rows)]


def draw_figure(canvas: Figure, values: Values) -> None:
    """Five panels; the sixth place is the legend's."""
    rows, columns = (2, 3) if len(values) > 1 else (1, 1)
    grid = axes_of(canvas, rows, columns, sharex=True, sharey=True)
    for axes, one in zip(grid, values, strict=False):
        tradeoff_axes(axes, f"local ε = {one['local']:g}")
        if (closed := one["closed"][1]) is not None:
            label = f"feldman2023, closed form, δ = {number(FIGURE_DELTA)}"
            axes.plot(RATES, closed, color=ORANGE, linewidth=1.2, label=label)
        label, theorem = "wang2023, Theorem 4.2", one["theorem"][1]
        axes.plot(RATES, theorem, color=GREEN, linewidth=3.0, alpha=0.5, label=label)
        band(axes, RATES, one["truth"][1], "sharpdp, certified bracket", BLUE, linewidth=0.9)
    tradeoff_labels(canvas)
    if len(values) == 1:
        finished(canvas, "What shuffling 10,000 reports\nleaves to an attacker", grid[0], ncols=1)
    else:
        legend_in(grid[-1], "What shuffling\n10,000 reports\nleaves to an attacker", grid[0])
        grid[2].tick_params(labelbottom=True)
