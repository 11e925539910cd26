"""Binary experiments to draw from: the loss of a draw, and tilts that make large losses common.

Owns the protocol, products of experiments, and the two simple kinds: Gaussian noise and Poisson-sampled
Gaussian noise. For a direction A against B the loss of a draw is l = log(dA/dB). A tilt of order a draws
from R with

    dR/dA = h^a / E_A[h^a],   h >= e^l,

so that the weighted payoff (1 - e^(epsilon - l))_+ dA/dR lies between 0 and

    E_A[h^a] max_l (1 - e^(epsilon - l)) e^(-a l) = E_A[h^a] e^(-a epsilon) a^a / (1 + a)^(1 + a):

the (epsilon, delta) that the Renyi divergence of order 1 + a implies. Draws start from that bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_mixture

__all__ = [
    "BLOCK",
    "Direction",
    "Draws",
    "Experiment",
    "GaussianRun",
    "LIKELY",
    "LOST",
    "PLAIN",
    "PoissonRun",
    "Product",
    "SIZE_ERROR",
    "STRENGTHS",
    "Tilt",
    "by_rows",
    "log_range",
    "normal_points",
    "row_blocks",
]

BLOCK = 2**16
"""Normal variables that are held at once: half a megabyte, which stays in the cache."""

LOST = 1e-30
"""Payoffs of this chance are given up for each normal that is drawn; upper ends add it."""

LIKELY = 0.05
"""Tilts by rejection are offered if at least this part of the proposals is kept."""

SIZE_ERROR = 16.0 * UNIT_ROUNDOFF
"""Rounding of logarithms of any size, relative to them."""


class Direction(Enum):
    """Which of the two laws is drawn from: with the record (P against Q), or without it."""

    WITH_RECORD = "with the record"
    WITHOUT_RECORD = "without the record"


class Tilt(NamedTuple):
    """How draws are moved towards large losses: by a power of the ratio, below a cut of the normals.

    With a cut, half of the draws have some normal beyond it, and the other half are tilted below it.
    """

    order: float
    cut: float = math.inf


PLAIN = Tilt(0.0)
"""No tilt."""


class Draws(NamedTuple):
    """The loss of every draw, and the logarithm of the density dR/dA that it was drawn with.

    ``error`` is how far the loss may be off beyond rounding, and the logarithm of the density over 1 +
    order; infinite for a draw of which nothing is known.
    """

    loss: Array
    log_density: Array
    error: Array | float = 0.0


class Experiment(Protocol):
    """Two laws P and Q, drawn from in either direction, tilted or not; without cuts by default."""

    @property
    def coordinates(self) -> int:
        """Normal variables of one draw; one by default."""
        return 1

    @property
    def work(self) -> int:
        """The cost of one draw, in normal numbers drawn; by default the coordinates."""
        return self.coordinates

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """The tilts on offer; no tilt comes first."""

    def log_moment(self, direction: Direction, tilt: Tilt) -> float:
        """log E_A[h^order] below the cut; infinite if the weighted payoff of this tilt has no bound."""

    def log_jump(self, tilt: Tilt) -> float:
        """log of the expected number of normals beyond the cut, with the record; -inf without a cut."""
        return -math.inf

    def log_known(self, direction: Direction, order: float) -> float:
        """log of an upper bound on E_A[e^(order loss)] that needs no draws; infinite if none is known."""
        return math.inf

    def draw(
        self, rng: np.random.Generator, samples: int, repeats: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """Independent draws, each the sum over repeats of the experiment."""


def by_rows(samples: int, repeats: int, width: int, draw: Callable[[int], Draws]) -> Draws:
    """Repeat after repeat, in rows of normals that fit into memory: sums over the repeats."""
    loss, log_density, error = np.zeros((3, samples))
    for _ in range(repeats):
        for part in row_blocks(samples, width):
            draws = draw(part.stop - part.start)
            loss[part] += draws.loss
            log_density[part] += draws.log_density
            error[part] += draws.error
    return Draws(loss, log_density, error)


def row_blocks(rows: int, width: int) -> list[slice]:
    """Rows of numbers in blocks that stay in the cache, one row at least.

    >>> row_blocks(3, 2**17)
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """
    step = max(1, BLOCK // max(width, 1))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def log_range(log_moment: float, order: float, epsilon: float) -> float:
    """log of the upper end of weighted payoffs, log E[h^a] - a epsilon + log(a^a / (1 + a)^(1 + a)).

    >>> log_range(0.0, 0.0, 1.0)
    0.0
    >>> round(math.exp(log_range(0.0, 1.0, 0.0)), 12)  # max of (1 - 1/x)/x
    0.25
    """
    if order == 0.0:
        return log_moment
    peak = order * math.log(order) - (1.0 + order) * math.log1p(order)
    return log_moment - order * epsilon + peak


@dataclass(frozen=True)
class Product:
    """Independent experiments, each with the number of its runs."""

    parts: tuple[tuple[Experiment, int], ...]

    @property
    def coordinates(self) -> int:
        """Normal variables of one draw of all parts."""
        return sum(part.coordinates * count for part, count in self.parts)

    @property
    def work(self) -> int:
        """The cost of one draw of all parts, in normal numbers drawn."""
        return sum(part.work * count for part, count in self.parts)

    @property
    def loss_error(self) -> float:
        """How far rounding may move the loss, or a logarithm of a density over 1 + order.

        Sums of positive terms, and 64 roundings of numbers below a thousand for each coordinate; larger
        losses add SIZE_ERROR of themselves.
        """
        return 64.0 * UNIT_ROUNDOFF * (1024.0 + self.coordinates)

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """Tilts that all parts offer; cuts only where there is one part."""
        offers = [part.tilts(direction) for part, _ in self.parts]
        if len(offers) == 1:
            return offers[0]
        shared = (tilt for tilt in offers[0] if all(tilt in offer for offer in offers))
        return tuple(tilt for tilt in shared if tilt.cut == math.inf)

    def log_range(self, direction: Direction, tilt: Tilt, epsilon: float) -> float:
        """log of the upper end of weighted payoffs at this epsilon; infinite if there is none."""
        return self._offer(direction, tilt).log_range(epsilon)

    def ranges(self, direction: Direction, epsilon: float) -> dict[Tilt, float]:
        """log of the upper end of weighted payoffs at this epsilon, for every tilt on offer."""
        offers = _offers(self, direction)
        return {offer.tilt: offer.log_range(epsilon) for offer in offers if offer.drawn}

    def _offer(self, direction: Direction, tilt: Tilt) -> Offer:
        moments = (part.log_moment(direction, tilt) * count for part, count in self.parts)
        log_moment, log_jump = math.fsum(moments), -math.inf
        if tilt.cut < math.inf:
            ((part, count),) = self.parts
            log_jump = part.log_jump(tilt) + math.log(count)
        return Offer(tilt, log_moment, log_jump, self.loss_error)

    def _known_offer(self, direction: Direction, order: float) -> Offer:
        logs = (part.log_known(direction, order) * count for part, count in self.parts)
        return Offer(Tilt(order), math.fsum(logs), -math.inf, self.loss_error, drawn=False)

    @property
    def lost(self) -> float:
        """The chance of all payoffs that are given up."""
        return LOST * self.coordinates

    def log_known(self, direction: Direction, epsilon: float) -> float:
        """log of an upper bound on delta in this direction that needs no draws."""
        least = min(offer.log_range(epsilon) for offer in _offers(self, direction))
        return float(np.logaddexp(least, math.log(self.lost)))

    def draw(
        self, rng: np.random.Generator, samples: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """Independent draws, summed over all parts."""
        loss, log_density, error = np.zeros((3, samples))
        for experiment, count in self.parts:
            part = experiment.draw(rng, samples, count, direction, tilt)
            loss += part.loss
            log_density += part.log_density
            error += part.error
        return Draws(loss, log_density, error)


@dataclass(frozen=True)
class Offer:
    """A tilt of a product: its moment, log of the expected number of jumps, rounding of a loss."""

    tilt: Tilt
    log_moment: float
    log_jump: float
    loss_error: float
    drawn: bool = True

    def log_range(self, epsilon: float) -> float:
        """`log_range`, not below the exact one; without a tilt payoffs end at 1."""
        order = self.tilt.order
        if order == 0.0:
            below = max(self.log_moment, 0.0)
        else:
            rounding = (1.0 + order) * (self.loss_error + SIZE_ERROR * epsilon)
            rounding += SIZE_ERROR * abs(self.log_moment)
            below = log_range(self.log_moment, order, epsilon) + rounding
        if self.tilt.cut == math.inf:
            return below
        return math.log(2.0) + max(below, self.log_jump)


@lru_cache(maxsize=64)
def _offers(product: Product, direction: Direction) -> tuple[Offer, ...]:
    """All tilts on offer, and the orders of which only a bound on the moment is known."""
    drawn = (product._offer(direction, tilt) for tilt in product.tilts(direction))
    offers = (product._known_offer(direction, order) for order in STRENGTHS)
    return (*drawn, *offers)


@dataclass(frozen=True)
class GaussianRun(Experiment):
    """N(mu, 1) against N(0, 1): the loss is normal, with mean and variance known under every tilt."""

    mu: float

    @property
    def work(self) -> int:
        """Repeats are drawn at once."""
        return 0

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """No tilt, and the tilts of all orders on offer."""
        return (PLAIN, *map(Tilt, STRENGTHS))

    def log_moment(self, direction: Direction, tilt: Tilt) -> float:
        """a (1 + a) mu^2 / 2.

        >>> GaussianRun(1.0).log_moment(Direction.WITH_RECORD, Tilt(1.0))
        1.0
        """
        return 0.5 * tilt.order * (1.0 + tilt.order) * self.mu**2

    def draw(
        self, rng: np.random.Generator, samples: int, repeats: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """Repeats add up to one Gaussian with mu times their root."""
        square = repeats * self.mu**2
        loss = (tilt.order + 0.5) * square + math.sqrt(square) * rng.standard_normal(samples)
        return Draws(loss, tilt.order * loss - repeats * self.log_moment(direction, tilt))


STRENGTHS = (
    *(x / 2.0 for x in range(1, 8)),
    *(2.0**octave * x for octave in range(6) for x in (4, 5, 6)),
    256.0,
)
"""Orders of tilts to choose from."""


@dataclass(frozen=True)
class PoissonRun(Experiment):
    """w = 1 - q + q e^(mu y - mu^2/2) times N(0, 1) against N(0, 1): one step of Poisson sampling."""

    sample_rate: float
    mu: float

    @property
    def work(self) -> int:
        """A normal, the count that shifts it, and a logarithm."""
        return 6

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """Whole orders with the record; without it those whose rejection keeps enough."""
        if direction is Direction.WITH_RECORD:
            return (PLAIN, *(Tilt(order) for order in STRENGTHS if order == round(order)))
        log_least, log_likely = math.log1p(-self.sample_rate), math.log(LIKELY)
        return (
            PLAIN,
            *(
                Tilt(order)
                for order in STRENGTHS
                if order * log_least + _inverse_moment(self.sample_rate, self.mu, order)
                > log_likely
            ),
        )

    def log_moment(self, direction: Direction, tilt: Tilt) -> float:
        """log E_Q[w^(1 + a)] with the record, log E_Q[w^(-a)] without it."""
        if direction is Direction.WITH_RECORD:
            return float(
                np.logaddexp.reduce(_log_shares(self.sample_rate, self.mu, round(tilt.order)))
            )
        return _inverse_moment(self.sample_rate, self.mu, tilt.order)

    def draw(
        self, rng: np.random.Generator, samples: int, repeats: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """Steps in blocks: shifted by how often the record counts, or without the record by rejection."""
        total = np.zeros(samples)
        width = max(1, BLOCK // samples)
        for start in range(0, repeats, width):
            shape = (min(width, repeats - start), samples)
            if direction is Direction.WITH_RECORD:
                log_w = self._log_ratio(self._shifted(rng, shape, round(tilt.order)))
            else:
                log_w = -self._log_ratio(self._kept(rng, shape, tilt.order))
            total += np.sum(log_w, axis=0)
        return Draws(total, tilt.order * total - repeats * self.log_moment(direction, tilt))

    def _log_ratio(self, y: Array) -> Array:
        return log_mixture(self.sample_rate, self.mu * y - 0.5 * self.mu**2)

    def _shifted(self, rng: np.random.Generator, shape: tuple[int, int], order: int) -> Array:
        """w^(1 + a) is a mixture of e^(j mu y): the normal moves by j mu."""
        shares = _log_shares(self.sample_rate, self.mu, order)
        rising = np.cumsum(np.exp(shares - np.logaddexp.reduce(shares)))
        times = np.searchsorted(rising / rising[-1], rng.random(shape), side="right")
        return np.asarray(rng.standard_normal(shape) + self.mu * times)

    def _kept(self, rng: np.random.Generator, shape: tuple[int, int], order: float) -> Array:
        """w^-a is at most (1 - q)^-a: a normal is kept with the ratio of both."""
        y = rng.standard_normal(shape)
        if order == 0.0:
            return y
        open_places = np.arange(y.size)
        flat = y.reshape(-1)
        while open_places.size:
            log_chance = order * (
                math.log1p(-self.sample_rate) - self._log_ratio(flat[open_places])
            )
            refused = np.log(rng.random(open_places.size)) > log_chance
            open_places = open_places[refused]
            flat[open_places] = rng.standard_normal(open_places.size)
        return y


@lru_cache(maxsize=256)
def _log_shares(rate: float, mu: float, order: int) -> Array:
    """log of C(1 + a, j) (1 - q)^(1 + a - j) q^j e^(mu^2 j (j - 1) / 2), for every j."""
    j = np.arange(order + 2.0)
    choices = [math.log(math.comb(order + 1, i)) for i in range(order + 2)]
    mixed = j * math.log(rate) + (order + 1.0 - j) * math.log1p(-rate)
    return np.asarray(choices + mixed + 0.5 * mu**2 * j * (j - 1.0))


@lru_cache(maxsize=256)
def _inverse_moment(rate: float, mu: float, order: float) -> float:
    """log E[w^-a] by the trapezoid rule: w has its zeros at distance pi / mu from the real line."""
    y = normal_points(mu)
    log_f = -order * log_mixture(rate, mu * y - 0.5 * mu**2) - 0.5 * y * y
    top = float(np.max(log_f))
    total = math.fsum(np.exp(log_f - top).tolist())
    return top + math.log(total * float(y[1] - y[0]) / math.sqrt(2.0 * math.pi))


def normal_points(mu: float, reach: float = 40.0) -> Array:
    """Equidistant points for integrals against the normal density of functions of mu y.

    So far from its center nothing of the density is left.
    """
    step = min(0.02, 0.2 / mu)
    return step * np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1.0)
