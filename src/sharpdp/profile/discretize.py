"""From a Pair to LossDistributions that are safe on one side, on nodes chosen by the question.

Write h(x) = H_x(P||Q), convex in x = e^loss. At nodes x_0 < ... < x_N

- upper: the chords of h. A mean-preserving spread of X = dP/dQ, so it dominates (P, Q);
- lower: the largest of the tangents of h. It is the pair seen through the index of the cell that X falls
  into, a post-processing, so it is dominated by (P, Q).

Both orders are kept by composition. Nodes need no common unit: the transforms take any points.
Everything is done on the out-of-the-money values in log space, so tails keep relative accuracy.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Rigor, Side
from sharpdp.numerics.contour import Atoms
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log1mexp, log_diff, log_expm1, safe_log
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import Pair


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


@dataclass(frozen=True)
class Nodes:
    """Thresholds in increasing order (zero among them) with a pair's log values and log Q-tails."""

    pair: Pair
    losses: Array
    log_hockey_stick: Array
    log_tail: Array

    @classmethod
    def at(cls, pair: Pair, losses: Array) -> Nodes:
        """Evaluate the pair at the given losses."""
        return cls(pair, losses, pair.log_hockey_stick(losses), pair.log_tail_q(losses))

    def only(self, selection: slice | NDArray[np.bool_]) -> Nodes:
        """The nodes in a slice or under a mask."""
        return Nodes(
            self.pair,
            self.losses[selection],
            self.log_hockey_stick[selection],
            self.log_tail[selection],
        )

    @cached_property
    def zero(self) -> int:
        """Index of the node at loss zero."""
        return int(np.searchsorted(self.losses, 0.0))

    @cached_property
    def chords(self) -> LossDistribution:
        """The upper loss distribution on these nodes, made once."""
        return upper(self)

    @cached_property
    def gaps(self) -> Array:
        """`cell_gaps` of these nodes, computed once."""
        return cell_gaps(self)

    @property
    def cell_values(self) -> tuple[Array, Array]:
        """log values at the left and right end of each cell; the put's at zero for the cell below it.

        With P-mass m at +inf and Q-mass m' at -inf, parity at zero reads put = call + m - m'.
        """
        left, right = self.log_hockey_stick[:-1], self.log_hockey_stick[1:].copy()
        gap = self.pair.infinite_p - self.pair.infinite_q
        if self.zero > 0 and gap != 0.0:
            right[self.zero - 1] = safe_log(max(float(np.exp(right[self.zero - 1])) + gap, 0.0))
        return left, right


def first_look(pair: Pair, log_floor: float) -> Nodes:
    """Coarse nodes that cover all losses whose value is above e^log_floor, spaced by their own scale.

    Candidates are quarter octaves from 2^-110 to 2^40 on both sides of zero. Cells are then split until
    the logarithm of the value changes by at most 0.6 in each.
    """
    low, high = pair.accurate_range
    octaves = 2.0 ** (np.arange(-110 * 4, 40 * 4 + 1) / 4.0)
    look = octaves[pair.hints.smallest_threshold <= octaves]
    raw = np.concatenate([-look[::-1], [0.0], look])
    raw = raw[(raw > low) & (raw < high)]
    edges = [end for end in (*pair.accurate_range, *pair.support, *pair.atoms) if np.isfinite(end)]
    losses = np.unique(np.concatenate([raw, edges, [0.0]]))
    nodes = Nodes.at(pair, losses)
    nodes = nodes.only(_visible(nodes))
    losses = nodes.losses
    visible = np.flatnonzero((nodes.log_hockey_stick > log_floor) | (losses == 0.0))
    first, last = max(int(visible[0]) - 1, 0), min(int(visible[-1]) + 1, losses.size - 1)
    nodes = nodes.only(slice(first, last + 1))
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff(nodes.log_hockey_stick))
    change = np.where(np.isfinite(change), change, 2.4)
    return refined(nodes, np.ceil(change / 0.6).clip(1, 64).astype(np.int64))


def coarse_distribution(pair: Pair, log_floor: float, side: Side) -> LossDistribution:
    """A loss distribution of one side, from a first look unless the pair has finitely many outcomes."""
    if isinstance(pair, AtomicPair):
        return exact(pair, side)
    nodes = first_look(pair, log_floor)
    return upper(nodes) if side is Side.UPPER else lower(nodes)


def _visible(nodes: Nodes) -> NDArray[np.bool_]:
    """Nodes at which the log value differs from the one at zero by more than rounding can blur."""
    at_zero = nodes.log_hockey_stick[nodes.zero]
    moved = np.abs(nodes.log_hockey_stick - at_zero) > 2.0**-12
    return np.asarray(moved | (nodes.losses == 0.0))


def refined(nodes: Nodes, pieces: NDArray[np.int64]) -> Nodes:
    """The nodes with each cell cut into the given number of equal pieces."""
    if nodes.losses.size < 2 or int(pieces.max(initial=1)) == 1:
        return nodes
    start = np.repeat(nodes.losses[:-1], pieces)
    width = np.repeat(np.diff(nodes.losses) / pieces, pieces)
    offset = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    inner = start + offset * width
    inner[offset == 0] = nodes.losses[:-1]
    low, high = nodes.pair.accurate_range
    losses = np.unique(np.append(inner, nodes.losses[-1]))
    is_old = np.isin(losses, nodes.losses)
    return Nodes.at(nodes.pair, losses[is_old | ((losses >= low) & (losses <= high))])


def pieces_of(shares: Array, factor: float) -> NDArray[np.int64]:
    """Into how many pieces to cut each cell: factor times the cube root of its share, at least one.

    Rounded to a power of two, so that the nodes of one question come again in the next.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        octaves = np.round(np.log2(factor * shares))
        wanted = np.nan_to_num(2.0**octaves, nan=1.0, posinf=1e5)
    pieces: NDArray[np.int64] = np.clip(wanted, 1, 100_000).astype(np.int64)
    return pieces


def _cells(nodes: Nodes) -> tuple[Array, Array]:
    """Of each cell: the tangents' crossing as log(y / x_left), and the log-mass of Q assigned to it."""
    losses, log_s = nodes.losses, nodes.log_tail
    log_left, log_right = nodes.cell_values
    width = np.diff(losses)
    with np.errstate(over="ignore"):
        grow = np.expm1(width)
    call = losses[:-1] >= 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # everything in units of the larger tail of the cell, which is at the end nearer to zero
        near = np.where(call, log_s[:-1], log_s[1:])
        value_left = np.exp(log_left - near - losses[:-1])
        value_right = np.exp(log_right - near - losses[:-1])
        beyond = np.where(call, log_s[1:], log_s[:-1]) - near
        mass = -np.expm1(beyond)
        log_mass = near + np.log(mass)
        far_tail = np.exp(beyond) * grow
        rise_call = (value_left - value_right - far_tail) / mass
        rise_put = (grow - (value_right - value_left)) / mass
        rise = np.where(call, rise_call, rise_put)
        # the same where exponentials may be beyond all doubles: the logarithm of the mean ratio
        log_p = np.where(
            call,
            log_diff(
                np.logaddexp(log_left, losses[:-1] + log_s[:-1]),
                np.logaddexp(log_right, losses[1:] + log_s[1:]),
            ),
            losses[1:]
            + near
            + np.log(
                1.0 - np.exp(log_right - near - losses[1:]) + np.exp(log_left - near - losses[1:])
            ),
        )
        huge = (width > 600.0) | (np.maximum(log_left, log_right) - near - losses[:-1] > 600.0)
        mean = log_p - log_mass - losses[:-1]
    zero = nodes.zero
    if zero > 0:
        rise[zero - 1], log_mass[zero - 1] = _cell_below_zero(nodes, zero)
        huge[zero - 1] = False
    rise = np.where(np.isfinite(rise), rise, 0.0).clip(0.0, grow)
    mean = np.where(np.isfinite(mean), mean, 0.0).clip(0.0, width)
    crossing = np.where(huge, mean, np.minimum(np.log1p(rise), width))
    return crossing, np.where(np.isnan(log_mass), -np.inf, log_mass)


def _cell_below_zero(nodes: Nodes, zero: int) -> tuple[float, float]:
    """Crossing and log-mass of the cell that ends at loss zero: the put's tangent meets the call's."""
    left, right = nodes.cell_values
    e_a, e_b = np.exp(left[zero - 1]), np.exp(right[zero - 1])
    s_a, s_b = np.exp(nodes.log_tail[zero - 1 : zero + 1])
    drop = -np.expm1(nodes.losses[zero - 1])
    # rounded up: more of it at ratio one, gathered with the rest
    mass = max(1.0 - nodes.pair.infinite_q - s_a - s_b + 4.0 * UNIT_ROUNDOFF, 0.0)
    if mass <= 8.0 * UNIT_ROUNDOFF:
        return 0.0, -np.inf
    back = min(max((e_b - e_a - s_a * drop) / mass, 0.0), drop)
    return float((drop - back) / (1.0 - drop)), float(np.log(mass))


def cell_gaps(nodes: Nodes) -> Array:
    """log of (chord - tangents) in each cell, at its largest, relative to nothing: in units of h."""
    losses, log_s = nodes.losses, nodes.log_tail
    log_left, log_right = nodes.cell_values
    crossing, _ = _cells(nodes)
    log_rise = log_expm1(crossing)
    with np.errstate(invalid="ignore"):
        share = np.exp(log_rise - log_expm1(np.diff(losses)))
    call = losses[:-1] >= 0.0
    near = np.maximum(log_left, log_right)
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = np.exp(log_left - near), np.exp(log_right - near)
        chord = left + (right - left) * share
        slope = np.exp(log_s[:-1] + losses[:-1] - near + log_rise)
        tangent = np.where(call, left - slope, left + slope)
        return np.asarray(near + np.log(np.maximum(chord - tangent, 0.0)))


def node_shares(nodes: Nodes, theta: float, count: float, heaviest: float = np.inf) -> Array:
    """log of each cell's share in the gap between chords and tangents of log M^count at this tilt.

    The gap is count theta (theta + 1) / M(theta) times the integral of e^{theta u} (chord - tangents),
    a triangle in each cell; a cell cut into k pieces has 1/k^2 of its share. No loss may weigh more
    than e^heaviest.
    """
    middle = 0.5 * (nodes.losses[:-1] + nodes.losses[1:])
    log_m = nodes.chords.atoms.log_moment(theta)
    with np.errstate(divide="ignore"):
        log_area = nodes.gaps + np.log(0.5 * count * np.diff(nodes.losses))
    weight = np.minimum(theta * middle - log_m, heaviest)
    return np.asarray(log_area + np.log(theta * (theta + 1.0)) + weight)


def upper(nodes: Nodes) -> LossDistribution:
    """The chords of the profile: dominates the pair (also under adaptive composition).

    Beyond the last node the remaining value becomes P-mass at +inf; below the first node the chord
    from (0, 1) becomes Q-mass at -inf. Source: doroshenko2022.
    """
    nodes, log_slope = _convex(nodes)
    losses, log_e, zero = nodes.losses, nodes.log_hockey_stick, nodes.zero
    with np.errstate(divide="ignore", invalid="ignore"):
        first = log_e[0] - losses[0]
        before = np.concatenate([[first], log_slope[: max(zero - 1, 0)]])[:zero]
        after = np.concatenate([log_slope[zero + 1 :], [-np.inf]])[: losses.size - 1 - zero]
        near, far = log_slope[:zero], log_slope[zero:]
        put = losses[:zero] + near + log1mexp(np.minimum(before - near, 0.0))
        call = losses[zero + 1 :] + far + log1mexp(np.minimum(after - far, 0.0))
        left = np.exp(near[-1] if zero > 0 else first)
        right = np.exp(far[0]) if far.size else 0.0
        middle = np.log(max(1.0 - nodes.pair.infinite_q - left - right, 0.0))
    log_mass = np.concatenate([put, [middle], call])
    log_lost_p = float(np.logaddexp(log_e[-1], safe_log(nodes.pair.infinite_p_ends[1])))
    lost_q = float(np.exp(first)) + nodes.pair.infinite_q
    masses = np.where(np.isnan(log_mass), -np.inf, log_mass)
    atoms = _atoms(nodes, losses, masses, log_lost_p, lost_q)
    revealed = min(log_lost_p + 4.0 * nodes.pair.accuracy, 0.0)
    return LossDistribution(Side.UPPER, atoms, revealed, lost_q)


def _convex(nodes: Nodes) -> tuple[Nodes, Array]:
    """The nodes whose chords are convex, and log |slope| of each cell.

    Rounding can make a node concave where the profile is nearly straight; chords that skip it are
    still above a convex profile. The same slopes serve both ends of a cell, so that their rounding
    telescopes in every sum over masses. Where one node after the other comes out concave, as in the
    long straight pieces of pairs with little noise, their neighbors are skipped, too.
    """
    for turn in itertools.count():
        losses, (left, right) = nodes.losses, nodes.cell_values
        large, small = np.maximum(left, right), np.minimum(left, right)
        with np.errstate(divide="ignore", invalid="ignore"):
            rise = np.where(np.isneginf(large), -np.inf, large + log1mexp(small - large))
            log_slope = rise - losses[:-1] - log_expm1(np.diff(losses))
            bend = np.diff(log_slope)
        toward_zero = losses[1:-1] < 0.0
        concave = np.where(toward_zero, bend < 0.0, bend > 0.0) & (losses[1:-1] != 0.0)
        if not concave.any():
            break
        if turn >= 16:
            concave = _widened(concave, 1 << (turn - 16)) & (losses[1:-1] != 0.0)
        nodes = nodes.only(np.concatenate([[True], ~concave, [True]]))
    return nodes, log_slope


def _widened(marked: NDArray[np.bool_], reach: int) -> NDArray[np.bool_]:
    """True within `reach` places of a mark."""
    passed = np.concatenate([[0], np.cumsum(marked)])
    index = np.arange(marked.size)
    first, last = np.maximum(index - reach, 0), np.minimum(index + reach + 1, marked.size)
    return np.asarray(passed[last] > passed[first])


def lower(nodes: Nodes) -> LossDistribution:
    """The tangents of the profile: dominated by the pair; cells become atoms at their mean ratio."""
    if nodes.pair.tails_are_lower_bounds:
        nodes = nodes.only(_falling(nodes))
    losses, log_e, log_s = nodes.losses, nodes.log_hockey_stick, nodes.log_tail
    crossing, log_q = _cells(nodes)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reach = log_e - log_s - losses
        first = losses[0] + log1mexp(np.minimum(reach[0], 0.0)) if losses[0] < 0 else -np.inf
        last = losses[-1] + np.logaddexp(0.0, reach[-1])
    points = np.concatenate([[first], losses[:-1] + crossing, [last]])
    log_mass = np.concatenate([[log_s[0]], log_q, [log_s[-1]]])
    infinite_q = nodes.pair.infinite_q
    if losses[0] >= 0.0:
        points[0], log_mass[0] = _below_zero(nodes)
    # a first cell whose mean ratio is zero is Q-mass at -inf
    lost_q = infinite_q + (float(np.exp(log_mass[0])) if np.isneginf(points[0]) else 0.0)
    keep = np.isfinite(points) & np.isfinite(log_mass)
    points, log_mass = points[keep], log_mass[keep]
    atoms = _atoms(nodes, points, log_mass + points, safe_log(nodes.pair.infinite_p), lost_q)
    revealed = safe_log(nodes.pair.infinite_p_ends[0])
    return LossDistribution(Side.LOWER, atoms, revealed, lost_q)


def _falling(nodes: Nodes) -> NDArray[np.bool_]:
    """The nodes whose tails fall away from zero: lines of other tests would make negative masses."""
    zero = nodes.zero
    is_falling = np.ones(nodes.losses.size, dtype=np.bool_)
    for side in (slice(zero, None), slice(zero - 1, None, -1) if zero > 0 else slice(0, 0)):
        tail = nodes.log_tail[side]
        lowest = np.minimum.accumulate(np.append(np.inf, tail))[:-1]
        is_falling[side] = tail <= lowest
    return is_falling


def _below_zero(nodes: Nodes) -> tuple[float, float]:
    """Mean loss and log Q-mass of everything below zero, where the first node is zero itself."""
    at_zero, tail = float(np.exp(nodes.log_hockey_stick[0])), float(np.exp(nodes.log_tail[0]))
    # rounded up: more of it at ratio one, gathered with the rest
    mass = 1.0 - nodes.pair.infinite_q - tail + 4.0 * UNIT_ROUNDOFF
    if mass <= 8.0 * UNIT_ROUNDOFF:
        return -np.inf, -np.inf
    put = max(at_zero + nodes.pair.infinite_p - nodes.pair.infinite_q, 0.0)
    return safe_log(max(1.0 - put / mass, 0.0)), safe_log(mass)


def _atoms(
    nodes: Nodes, points: Array, log_mass: Array, log_deficit: float, dual_deficit: float
) -> Atoms:
    """Points with their masses and the noise of the slopes that the masses came from.

    Rounding of a slope times its cell, relative to the value at the cell's end, is that of a difference
    of two logarithms, an expm1 and two products: eight units.
    """
    positive = np.isfinite(log_mass)
    size = np.maximum(*nodes.cell_values)
    reach = np.maximum(np.abs(nodes.losses[:-1]), np.abs(nodes.losses[1:]))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_noise = size + np.log(8.0 * UNIT_ROUNDOFF * (4.0 + np.abs(size) + reach))
    log_noise = np.where(np.isfinite(size), log_noise, -np.inf)
    return Atoms(
        points[positive],
        log_mass[positive],
        np.concatenate([nodes.losses[:-1], nodes.losses[1:]]),
        np.concatenate([log_noise, log_noise]),
        log_deficit,
        dual_deficit,
        2.0 * nodes.pair.accuracy,
        nodes.pair.loss_error,
    )


def exact(pair: AtomicPair, side: Side) -> LossDistribution:
    """The loss distribution of finitely many outcomes: exact, hence safe on both sides."""
    atoms = Atoms(
        np.array(pair.losses),
        np.array(pair.log_p),
        log_deficit=safe_log(pair.infinite_p),
        dual_deficit=pair.infinite_q,
        accuracy=pair.accuracy,
        point_error=pair.loss_error,
    )
    revealed = safe_log(pair.infinite_p_ends[1 if side is Side.UPPER else 0])
    return LossDistribution(side, atoms, revealed, pair.infinite_q)
