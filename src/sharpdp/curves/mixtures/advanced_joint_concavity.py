"""Advanced joint concavity: two components, two free parameters, and a search for good ones.

Every value of the parameters is a theorem, so the search need not be right to be safe: it runs in
doubles, and the curve at the parameters that it found is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sharpdp.curves.mixtures.inequalities import Table, outcomes, relabeled, share
from sharpdp.curves.tradeoff.exact import Number
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.errors import InvalidArgument

__all__ = ["Advanced", "advanced", "best_advanced", "height_at", "slack_at", "transposed"]

Array = NDArray[np.float64]
Goal = Callable[[Array, Array], float]
"""How good a bound is, from the null and alternative masses of its outcomes."""

AnyNumber = TypeVar("AnyNumber", Fraction, float)
Start = tuple[int, float, float]
"""Which of gamma and eta is the smaller, and how far they are from the weight."""

GRAIN = 2**12
"""Parameters found are rounded to multiples of one over this: short fractions are quick."""


@dataclass(frozen=True)
class Advanced:
    """One bound of the family: its parameters and its curve."""

    gamma: Fraction
    eta: Fraction
    curve: Polyline


def advanced(curves: Table, weight: Number, gamma: Number, eta: Number) -> Polyline:
    """A lower bound on T((1-w) Q_1 + w Q_2, (1-w) P_1 + w P_2), for any gamma and eta around w.

        conjugate(y) = sum over i, j of w_j v_ji f_ij*(c_j y),   f_ij = T(Q_i, P_j),
        v_1 = (1-gamma, gamma),  c_1 = (eta-w) / ((1-w)(eta-gamma)),
        v_2 = (1-eta, eta),      c_2 = (w-gamma) / (w (eta-gamma)),   (w_1, w_2) = (1-w, w)

    It is `relabeled` with the shares w_j v_ji of the alternative and w_j v_ji c_j of the null. With
    gamma = 0 and eta = 1 it is joint concavity.

    Holds when: curves[i][j] = T(Q_i, P_j), or less, and w is strictly between gamma and eta. No curve
    needs to be symmetric, but which law is the null matters: as printed, with T(P_j, Q_i), it is false.

    Numerics: exact.

    Source: wang2023 Lemma 6.3, repaired.

    >>> even, sure = Polyline(fpr=(0, 1), fnr=(1, 0)), Polyline(fpr=(0, 1), fnr=(0, 0))
    >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
    >>> advanced([[sure, even], [even, sure]], half, quarter, 3 * quarter)(Fraction(1, 8))
    Fraction(1, 8)
    """
    w, low, high = share(weight=weight), share(gamma=gamma), share(eta=eta)
    if not (low - w) * (w - high) > 0:
        raise InvalidArgument(
            "weight must lie strictly between gamma and eta; "
            f"got gamma {float(low):.6g}, weight {float(w):.6g}, eta {float(high):.6g}."
        )
    if [len(row) for row in curves] != [2, 2]:
        raise InvalidArgument(
            f"curves must be two rows of two; got {[len(row) for row in curves]}."
        )
    shares, stretch = _shares(w, low, high)
    null = [[part * c for part, c in zip(row, stretch, strict=True)] for row in shares]
    return relabeled(curves, null, shares)


def _shares(w: AnyNumber, gamma: AnyNumber, eta: AnyNumber) -> tuple[Any, Any]:
    """The shares of the alternative, [i][j], and what they are multiplied by for the null, [j]."""
    shares = (
        ((1 - w) * (1 - gamma), w * (1 - eta)),
        ((1 - w) * gamma, w * eta),
    )
    return shares, ((eta - w) / ((1 - w) * (eta - gamma)), (w - gamma) / (w * (eta - gamma)))


def transposed(curves: Table) -> list[list[Polyline]]:
    """The table of T(P_i, Q_j): with it a bound on T(P, Q) is found, whose inverse bounds T(Q, P)."""
    return [[curve.inverse() for curve in column] for column in zip(*curves, strict=True)]


def best_advanced(curves: Table, weight: Number, goal: Goal) -> Advanced:
    """The best bound of `advanced` that a search finds; `goal` says how good one is."""
    w = share(weight=weight)
    if not 0 < w < 1:
        raise InvalidArgument(
            f"weight must be in (0, 1); got {weight!r}. One component is no mixture."
        )
    masses = [[np.array(outcomes(curve), dtype=float).T for curve in row] for row in curves]

    def score(start: Start) -> float:
        shares, stretch = _shares(float(w), *map(float, _parameters(w, start)))
        cells = [(i, j) for i in (0, 1) for j in (0, 1)]
        null = [shares[i][j] * stretch[j] * masses[i][j][0] for i, j in cells]
        return goal(
            np.concatenate(null), np.concatenate([shares[i][j] * masses[i][j][1] for i, j in cells])
        )

    # how far gamma and eta are from the weight, as shares of the way; each factor as long as it helps
    shares = [2.0**-k for k in range(7)]
    starts = ((order, down, up) for order in (0, 1) for down in shares for up in shares)
    best = max(starts, key=score)
    for factor in (1.5, 1.2, 1.08, 1.03, 1.01):
        best = _climbed(score, best, factor)
    gamma, eta = _parameters(w, best)
    return Advanced(gamma, eta, advanced(curves, w, gamma, eta))


def _climbed(score: Callable[[Start], float], best: Start, factor: float) -> Start:
    """A start that no step by this factor improves."""
    turns = (1.0 / factor, 1.0, factor)
    while True:
        steps = [
            (best[0], min(best[1] * a, 1.0), min(best[2] * b, 1.0)) for a in turns for b in turns
        ]
        step = max(steps, key=score)
        if not score(step) > score(best) or min(step[1:]) < 1.0 / GRAIN:
            return best
        best = step


def _parameters(w: Fraction, start: Start) -> tuple[Fraction, Fraction]:
    """(gamma, eta): by shares of the way from the weight to 0 and to 1, in one order or the other."""
    down, up = (Fraction(max(round(part * GRAIN), 1), GRAIN) for part in start[1:])
    pair = (w * (1 - down), w + (1 - w) * up)
    return pair if start[0] == 0 else pair[::-1]


def height_at(fpr: float) -> Goal:
    """The goal "large at this false-positive rate"."""

    def goal(null: Array, alternative: Array) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(np.nan_to_num(-alternative / null, nan=0.0))
        x = np.concatenate([[0.0], np.cumsum(null[order])])
        y = 1.0 - np.concatenate([[0.0], np.cumsum(alternative[order])])
        last = int(np.searchsorted(x, fpr, side="right"))  # past every jump at the rate itself
        if last >= len(x):
            return float(y[-1])
        step = (fpr - x[last - 1]) / (x[last] - x[last - 1])
        return float(y[last - 1] + step * (y[last] - y[last - 1]))

    return goal


def slack_at(ratio: float) -> Goal:
    """The goal "small delta at this ratio e^epsilon"."""

    def goal(null: Array, alternative: Array) -> float:
        return -float(np.sum(np.maximum(alternative - ratio * null, 0.0)))

    return goal
