"""Reports with Gaussian noise on [0, 1], in units of its standard deviation: pairs from both sides.

R_x = N(s x, 1) with s = 1 / noise_multiplier. With v the distance of a report from s/2, the ratio of R_1
to R_0 is e^{s v}; R_0 has the tail Q(v + s/2) and R_1 the tail Q(v - s/2), Q that of N(0, 1).

- From above, whatever the others hold: the blanket w = min(R_0, R_1). Beyond s/2 its ratios are
  (X, Y) = (e^{s v}, 1), and mirrored on the other side. No other two values of one user are worse
  (docs/proofs/gaussian-reports.md, Theorem 1).
- From below: all others hold 0, and the ratios are X = e^{s v}, Y = 1 with weights from R_0.

Ratios have heavy tails. They are cut at V, chosen for each threshold x = e^loss, where one such report
makes the sum positive whatever the others are like:

    E[S_+] <= E[(S with X cut at V)_+] + n E[(X - V)_+],

of which the last term is the mass of R_1 beyond the cut less V times that of w. From below all reports
beyond the cut are one. Cells in between are spread onto their ends, or put together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, dominated
from sharpdp.bracket import Side
from sharpdp.numerics.normal_tails import DIGITS, normal_tails
from sharpdp.numerics.special import Array, log_diff, safe_log
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves
from sharpdp.pairs.pair import GaussianPair

# Of the tail of R_1 no more than this is left beyond the last cell.
_REACH = 13.5
# A cut is at least so many deviations of the sum above what makes the sum positive.
_ROOM = 5.0
# Cuts that thresholds share are so many cells apart.
_LADDER = 6
# Thresholds: their distance in deviations, out to so many of those, then relative to the loss.
_STEP = 0.05
_CENTRAL = 7.0
_GROWTH = (0.01, 0.06)
# From below ratios are cut where this many deviations of the loss ask for it.
_LIKELY = 2.0
# Smaller values are not told from zero.
_LEAST_LOG = math.log(1e-42)
_TINY = 1e-300


@dataclass(frozen=True)
class NoiseCells:
    """Cells of v >= 0 and the tails at their edges.

    >>> cells = NoiseCells.of(1.0)
    >>> float(round(cells.near[0] - cells.far[0], 9))  # the mass between the two values
    0.382924923
    """

    scale: float
    edges: tuple[float, ...]
    near: tuple[Decimal, ...]
    far: tuple[Decimal, ...]

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, scale: float) -> NoiseCells:
        """The cells for noise of 1 / scale, a double of at most 26 bits."""
        step = 2.0 ** -max(4, 3 + math.ceil(math.log2(max(scale, 1.0))))
        bulk = math.ceil(3.0 + 1.5 * scale)
        edges = [step * k for k in range(round(bulk / step))]
        edges += np.arange(bulk, _REACH + 0.5 * scale + 4.0 * step, 4.0 * step).tolist()
        exact, half = [Decimal(edge) for edge in edges], Decimal(0.5 * scale)
        with localcontext(Context(prec=DIGITS)):
            near, far = [v - half for v in exact], [v + half for v in exact]
        return cls(scale, tuple(edges), tuple(normal_tails(near)), tuple(normal_tails(far)))

    @cached_property
    def log_ratios(self) -> Array:
        """log X at the edges, without rounding."""
        return self.scale * np.array(self.edges)

    @cached_property
    def exact_ratios(self) -> tuple[Decimal, ...]:
        """X at the edges."""
        with localcontext(Context(prec=DIGITS)):
            return tuple(Decimal(loss).exp() for loss in self.log_ratios.tolist())

    @cached_property
    def variances(self) -> Array:
        """About E[(X - Y)^2] under the blanket, cut at each edge."""
        far = np.array(self.far, dtype=float)
        middle = np.expm1(0.5 * (self.log_ratios[1:] + self.log_ratios[:-1]))
        inside = np.append(0.0, np.cumsum(-np.diff(far) * middle**2))
        return np.asarray(2.0 * (inside + far * np.expm1(self.log_ratios) ** 2))

    def blanket(self, cut: int, users: int, rate: float = 1.0) -> tuple[Reports, float]:
        """The blanket at the values 0 and 1, cells spread onto their ends; and what is beyond the cut."""
        with localcontext(Context(prec=DIGITS)):
            spread = self._spread_half(cut)
            rest = self.near[cut] - self.far[cut] * self.exact_ratios[cut]
            nothing = float(1 - 2 * sum(spread))
        half = tuple(float(weight) for weight in spread)
        ratios = tuple(float(ratio) for ratio in self.exact_ratios[: cut + 1])
        ones = (1.0,) * len(ratios)
        reports = Reports(
            (*half, *half, nothing), (*ratios, *ones, 0.0), (*ones, *ratios, 0.0), users, rate
        )
        return reports, math.nextafter(float(rest), 1.0)

    def _spread_half(self, cut: int) -> list[Decimal]:
        """Weights of w at the edges up to a cut; what lies beyond it is there."""
        weights = [Decimal(0)] * (cut + 1)
        ratio = self.exact_ratios
        for k in range(cut):
            mass = self.far[k] - self.far[k + 1]
            more = (self.near[k] - self.near[k + 1] - ratio[k] * mass) / (ratio[k + 1] - ratio[k])
            weights[k] += mass - more
            weights[k + 1] += more
        weights[cut] += self.far[cut]
        return weights

    def crowd(self, cut: int, users: int, rate: float = 1.0) -> Reports:
        """All others hold 0: reports put together in cells, those beyond the cut in one."""
        masses, firsts = self._line(cut)
        with localcontext(Context(prec=DIGITS)):
            together = _merged(masses, firsts)
            means = tuple(float(first / mass) for mass, first in together)
        weights = tuple(float(mass) for mass, _ in together)
        return Reports(weights, means, (1.0,) * len(weights), users, rate)

    def _line(self, cut: int) -> tuple[list[Decimal], list[Decimal]]:
        """Masses of R_0 and R_1 in all cells of the line from left to right, up to a cut.

        At -v the two tails change places: R_0 has 1 - near there, R_1 has 1 - far.
        """
        left = range(len(self.edges) - 1, 0, -1)
        with localcontext(Context(prec=DIGITS)):
            tails = [
                Decimal(1),
                *(1 - self.near[k] for k in left),
                *self.far[: cut + 1],
                Decimal(0),
            ]
            first = [
                Decimal(1),
                *(1 - self.far[k] for k in left),
                *self.near[: cut + 1],
                Decimal(0),
            ]
            masses = [a - b for a, b in pairwise(tails)]
            firsts = [a - b for a, b in pairwise(first)]
        return masses, firsts

    def largest_report(self, users: int, rate: float = 1.0) -> AtomicPair:
        """In which cell the largest report is, if one user holds 1 or 0 and all others hold 0.

        With tails a of R_1 and b of R_0 at an edge, the largest report lies beyond it with probability
        1 - (1 - b)^n if the user holds 0, and (1 - b)^(n-1) (a - b) more if it is drawn and holds 1.
        """
        masses, firsts = self._line(len(self.edges) - 1)
        with localcontext(Context(prec=DIGITS)):
            below = zero = one = last_zero = last_one = Decimal(0)
            share, p, q = Decimal(rate), [], []
            for mass, first in zip(masses, firsts, strict=True):
                below, one = below + mass, one + first
                log_below = below.ln() if below < 1 else Decimal(0)
                zero = (users * log_below).exp()
                with_one = ((users - 1) * log_below).exp() * one
                with_one = (1 - share) * zero + share * with_one
                p.append(with_one - last_one)
                q.append(zero - last_zero)
                last_zero, last_one = zero, with_one
        kept = [index for index in range(len(p)) if min(p[index], q[index]) > Decimal(_TINY)]
        return AtomicPair.from_rounded_pmfs(
            [float(p[index]) for index in kept], [float(q[index]) for index in kept]
        )

    def cuts(self, losses: Array, users: int, rate: float) -> list[int]:
        """Where ratios are cut at each threshold: where one of them decides, with some room."""
        needed = users * np.expm1(losses) / rate
        with np.errstate(over="ignore"):
            room = np.expm1(self.log_ratios) - _ROOM * np.sqrt(users * self.variances)
        enough = np.minimum.accumulate(room[::-1])[::-1]
        rungs = np.searchsorted(enough, needed)
        return [min(-(-int(k) // _LADDER) * _LADDER, len(self.edges) - 1) for k in rungs]

    def spread(self, users: int, rate: float) -> float:
        """About the deviation of the loss, without reports that decide alone."""
        # with next to no noise the first edge decides alone, and there the loss has no deviation
        cut = max(self.cuts(np.zeros(1), users, rate)[0], _LADDER)
        return min(rate * math.sqrt(self.variances[cut] / users), 0.5 * self.scale)

    def thresholds(self, users: int, rate: float, coarseness: float) -> Array:
        """Losses from zero on, spaced by the spread of the loss, then relative to themselves."""
        spread = self.spread(users, rate)
        step = _STEP * spread * coarseness
        central = np.arange(0.0, _CENTRAL * spread, step)
        losses, growth, end = [], _GROWTH[0], float(self.log_ratios[-1])
        loss = float(central[-1])
        while loss < end:
            loss += min(growth * coarseness, 0.2) * loss
            losses.append(loss)
            growth = min(growth * 1.01, _GROWTH[1])
        return np.concatenate([central, losses])


def _merged(masses: list[Decimal], firsts: list[Decimal]) -> list[tuple[Decimal, Decimal]]:
    """Cells in pairs, those without a double's worth of mass with the next ones."""
    together, mass, first = [], Decimal(0), Decimal(0)
    smallest = Decimal(_TINY)
    for index, (more, more_first) in enumerate(zip(masses, firsts, strict=True)):
        mass, first = mass + more, first + more_first
        last = index == len(masses) - 1
        if (index % 2 and mass > smallest and first > smallest and index < len(masses) - 2) or last:
            together.append((mass, first))
            mass = first = Decimal(0)
    return together


def noise_scale(noise_multiplier: float, side: Side) -> float:
    """1 / noise_multiplier with 26 bits, rounded to a side: less noise tells more.

    >>> noise_scale(2.0, Side.UPPER), noise_scale(2.0, Side.LOWER)
    (0.5, 0.5)
    """
    exact = Decimal(1) / Decimal(noise_multiplier)
    unit = 2.0 ** (math.frexp(float(exact))[1] - 26)
    whole = exact / Decimal(unit)
    rounded = math.ceil(whole) if side is Side.UPPER else math.floor(whole)
    return rounded * unit


@lru_cache(maxsize=32)
def dominating_noise(
    noise_multiplier: float, users: int, rate: float = 1.0, coarseness: float = 1.0
) -> AtomicPair:
    """A pair that dominates n shuffled reports with this noise, whatever the other users hold."""
    scale = noise_scale(noise_multiplier, Side.UPPER)
    cells = NoiseCells.of(scale)
    losses = cells.thresholds(users, rate, coarseness)
    alone = _log_alone(scale, rate, losses)
    last = int(np.argmax(alone < _LEAST_LOG)) or losses.size - 1
    losses, log_high = losses[: last + 1], alone[: last + 1]
    cuts = np.array(cells.cuts(losses, users, rate))
    for cut in np.unique(cuts):
        here = np.flatnonzero(cuts == cut)
        reports, rest = cells.blanket(int(cut), users, rate)
        values = reports.log_uppers(losses[here])
        values = np.logaddexp(values - np.log(users), safe_log(rate * rest)) + 1e-14
        log_high[here] = np.minimum(log_high[here], values)
    return pair_above(losses, np.minimum(log_high, 0.0))


def pair_above(losses: Array, log_high: Array) -> AtomicPair:
    """The pair from upper values, the last of which counts as revealed."""
    log_high = np.minimum.accumulate(log_high)
    last = int(np.argmax(log_high <= max(float(log_high[-1]), _LEAST_LOG)))
    if last == 0:
        last = losses.size - 1
    revealed = math.exp(log_high[last])
    calls = calls_above(losses[:last], log_diff(log_high[:last], log_high[last]), losses[last])
    return pair_from_halves(calls, calls, side=Side.UPPER, infinite=(revealed, revealed))


def _log_alone(scale: float, rate: float, losses: Array) -> Array:
    """log of the profile of one report, of a user who takes part at this rate, rounded up."""
    inner = losses if rate == 1.0 else np.log1p(np.expm1(losses) / rate * (1.0 - 1e-15))
    pair = GaussianPair(scale)
    # from 1e-14 less of the loss, for its rounding
    values = pair.log_hockey_stick(np.maximum(inner * (1.0 - 1e-14), 0.0))
    return np.asarray(values + np.log(rate) + 2.0 * pair.accuracy)


@lru_cache(maxsize=32)
def attained_noise(
    noise_multiplier: float, users: int, rate: float = 1.0, coarseness: float = 1.0
) -> AtomicPair:
    """A pair that n shuffled reports with this noise attain if one user holds 1 or 0, and others 0."""
    cells = NoiseCells.of(noise_scale(noise_multiplier, Side.LOWER))
    likely = np.array([_LIKELY * cells.spread(users, rate)])
    return dominated(cells.crowd(cells.cuts(likely, users, rate)[0], users, rate), coarseness)


@lru_cache(maxsize=32)
def largest_noise(noise_multiplier: float, users: int, rate: float = 1.0) -> AtomicPair:
    """The pair of the largest of n reports, in the same data sets."""
    return NoiseCells.of(noise_scale(noise_multiplier, Side.LOWER)).largest_report(users, rate)
