"""Independent values in plain floats: delta of a composition by another contour and quadrature.

Nothing is shared with sharpdp: moments come from closed forms or from a fine trapezoid rule, the
contour lies at another tilt, and it is integrated by Gauss-Legendre panels over the whole line of
frequencies, without windows, images or smoothing. Values are compared at two resolutions and two
tilts, and are given only where all agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.fft import irfft, next_fast_len
from scipy.special import gammaln

Array = np.ndarray
COST = 2_000_000  # largest number of moment terms in one block of frequencies
MOST_BLOCKS = 12
AGREEMENT = 1e-8
MOST_OUTCOMES = 1_000_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class Unknown(Exception):
    """No independent value at a reasonable cost."""


@dataclass(frozen=True)
class Factor:
    """One kind of step: log E_P[e^(z L)] for complex z, how often, and the cost of one value."""

    log_moment: Callable[[Array], Array]
    count: float
    cost: int = 1
    top: float = np.inf  # largest loss
    revival: float = np.inf  # frequency at which atoms make the moments large again


def log1p(x: Array) -> Array:
    """log(1 + x) for complex x, also for tiny x."""
    a, b = x.real, x.imag
    return 0.5 * np.log1p(a * (2.0 + a) + b * b) + 1j * np.arctan2(b, 1.0 + a)


def gaussian(mu: float, count: float) -> Factor:
    return Factor(lambda z: 0.5 * mu * mu * z * (z + 1.0), count)


def laplace(scale: float, count: float) -> Factor:
    e = 1.0 / scale

    def log_moment(z: Array) -> Array:
        # (z+1)/(2z+1) e^(z e) + z/(2z+1) e^(-(z+1) e), the larger term taken out
        return z * e + np.log((z + 1.0 + z * np.exp(-(2.0 * z + 1.0) * e)) / (2.0 * z + 1.0))

    return Factor(log_moment, count, top=e, revival=np.pi / e)


def atoms(p: Sequence[float], q: Sequence[float], count: float) -> Factor:
    """Finitely many outcomes, none of them revealing."""
    weight = np.asarray(p, dtype=float)
    loss = np.log(weight) - np.log(np.asarray(q, dtype=float))
    top = float(np.max(loss))

    def log_moment(z: Array) -> Array:
        return z * top + np.log(np.exp(np.multiply.outer(z, loss - top)) @ weight)

    return Factor(log_moment, count, cost=weight.size, top=top)


def log_delta_of_atoms(p: Sequence[float], q: Sequence[float], count: int, epsilon: float) -> float:
    """log delta of finitely many outcomes, by summing over all compositions of the count."""
    log_p, log_q = np.log(np.asarray(p, dtype=float)), np.log(np.asarray(q, dtype=float))
    size = log_p.size
    if comb(count + size - 1, size - 1) > MOST_OUTCOMES:
        raise Unknown("too many outcomes")
    left = np.array([float(count)])
    log_mass, loss = np.array([gammaln(count + 1.0)]), np.zeros(1)
    for i in range(size):
        times = left.astype(int) + 1 if i < size - 1 else np.ones(left.size, dtype=int)
        row = np.repeat(np.arange(left.size), times)
        offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        used = offset.astype(float) if i < size - 1 else left[row]
        left = left[row] - used
        log_mass = log_mass[row] + used * log_p[i] - gammaln(used + 1.0)
        loss = loss[row] + used * (log_p[i] - log_q[i])
    beyond = loss > epsilon
    if not np.any(beyond):
        return -np.inf
    terms = log_mass[beyond] + np.log(-np.expm1(epsilon - loss[beyond]))
    top = float(np.max(terms))
    return top + float(np.log(np.sum(np.exp(terms - top))))


def log_delta_of_lattice(p: Sequence[float], unit: float, count: int, epsilon: float) -> float:
    """log delta of losses unit, -unit and perhaps 0 (in this order), by one tilted FFT."""
    if count > MOST_OUTCOMES:
        raise Unknown("too many repetitions")
    p = np.append(np.asarray(p, dtype=float), 0.0)[:3]
    size = next_fast_len(2 * count + 1)

    def fall(theta: float) -> float:
        weights = p * np.exp(theta * unit * np.array([1.0, -1.0, 0.0]))
        mean = unit * float(weights[0] - weights[1]) / float(np.sum(weights))
        return count * mean - 1.0 / theta - 1.0 / (1.0 + theta) - epsilon

    low, high = 1e-12, 1.0
    while fall(high) < 0.0 and high < 1e9:
        high *= 2.0
    for _ in range(80):
        theta = 0.5 * (low + high)
        low, high = (theta, high) if fall(theta) < 0.0 else (low, theta)
    theta = 0.5 * (low + high)
    weights = p * np.exp(theta * unit * np.array([1.0, -1.0, 0.0]) - theta * unit)
    total = float(np.sum(weights))
    weights /= total
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    phi = weights[0] * turn + weights[1] / turn + weights[2]
    # the angle of phi times the count is what loses digits: keep it near zero by a whole shift
    shift = round(count * float(weights[0] - weights[1]))
    log_phi = np.log(phi) * count - 1j * np.angle(turn) * shift
    mass = irfft(np.exp(log_phi), size)
    place = np.arange(size)
    place = np.where(place > size // 2, place - size, place) + shift
    loss = unit * place
    beyond = (loss > epsilon) & (np.abs(place) <= count) & (mass > 1e-13 * np.max(mass))
    if not np.any(beyond):
        raise Unknown("lost in rounding")
    terms = np.log(mass[beyond]) - theta * loss[beyond] + np.log(-np.expm1(epsilon - loss[beyond]))
    lead = count * (np.log(total) + theta * unit)
    top = float(np.max(terms))
    return lead + top + float(np.log(np.sum(np.exp(terms - top))))


def poisson(rate: float, noise_multiplier: float, direction: str, count: float) -> Factor:
    """A sampled Gaussian step; remove: the record is there under P."""
    mu = 1.0 / noise_multiplier
    top = np.inf if direction == "remove" or rate == 1.0 else -np.log1p(-rate)

    def log_moment(z: Array) -> Array:
        s = z + 1.0 if direction == "remove" else -z
        far = max(float(np.max(s.real)), 1.0) * mu
        step = min(0.02, 0.3 / (mu * np.sqrt(1.0 + float(np.max(np.abs(s))))))
        size = int((far + 24.0) / step)
        if size * z.size > COST:
            raise Unknown(f"{size} nodes at {z.size} frequencies")
        y = step * np.arange(-12.0 / step, far / step + 12.0 / step)
        a = mu * y - 0.5 * mu * mu
        log_w = np.where(
            a > 1.0,
            np.maximum(a, 0.0) + np.log(rate + (1.0 - rate) * np.exp(-np.abs(a))),
            np.log1p(rate * np.expm1(np.minimum(a, 1.0))),
        )
        log_phi = -0.5 * y * y - 0.5 * np.log(2.0 * np.pi) + np.log(step)
        peak = float(np.max(log_phi + np.max(s.real) * log_w))
        if peak > 200.0:
            exponent = np.multiply.outer(s, log_w) + (log_phi - peak)
            return peak + np.log(np.sum(np.exp(exponent), axis=-1))
        phi = np.exp(log_phi)
        gap = np.expm1(np.multiply.outer(s, log_w)) - np.multiply.outer(s, np.expm1(log_w))
        return log1p(gap @ phi)

    return Factor(log_moment, count, cost=1, top=float(top))


def _log_moment(factors: Sequence[Factor], z: Array) -> Array:
    return sum(f.count * f.log_moment(np.asarray(z, dtype=complex)) for f in factors)


def saddle(factors: Sequence[Factor], epsilon: float) -> float:
    """argmin over theta of K(theta) - theta eps - log theta - log(1 + theta), by golden section."""

    def height(x: float) -> float:
        theta = np.exp(x)
        value = float(_log_moment(factors, np.array([theta]))[0].real)
        return value - theta * epsilon - x - np.log1p(theta)

    x, step = -6.0, 1.0
    while height(x + step) < height(x) and x < 25.0:
        x += step
    low, high = x - step, x + step
    ratio = 0.618
    for _ in range(30):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if height(a) < height(b):
            high = b
        else:
            low = a
    return float(np.exp(0.5 * (low + high)))


def _integral(factors: Sequence[Factor], epsilon: float, theta: float, width: float) -> float:
    """log of (1/pi) int_0^inf Re M e^(-z eps) / (z (z+1)) dt in panels of the given width."""
    lead = float(_log_moment(factors, np.array([theta]))[0].real) - theta * epsilon
    total, edge, block = 0.0, 0.0, 16
    for _ in range(MOST_BLOCKS):
        left = edge + width * np.arange(block)
        t = (left[:, None] + 0.5 * width * (1.0 + _NODES)).ravel()
        z = theta + 1j * t
        log_f = _log_moment(factors, z) - z * epsilon - lead
        f = np.exp(np.minimum(log_f.real, 50.0) + 1j * log_f.imag) / (z * (z + 1.0))
        total += 0.5 * width * float(np.sum(np.tile(_WEIGHTS, block) * f.real)) / np.pi
        edge = float(left[-1] + width)
        tail = np.exp(float(np.max(log_f.real[-16 * 8 :]))) / (np.pi * edge)
        if tail < 1e-11 * abs(total):
            return lead + float(np.log(total)) if total > 0.0 else -np.inf
    raise Unknown("the moments do not decay")


def log_delta(factors: Sequence[Factor], epsilon: float) -> float:
    """log delta(epsilon), to about AGREEMENT; Unknown where the float contour is not good enough."""
    if epsilon >= sum(f.count * f.top for f in factors):
        return -np.inf
    with np.errstate(all="ignore"):
        theta = saddle(factors, epsilon)
        d = 0.02 * theta
        k = [
            float(_log_moment(factors, np.array([x]))[0].real)
            for x in (theta - d, theta, theta + d)
        ]
        curvature = max((k[0] - 2.0 * k[1] + k[2]) / d**2, 0.0) + theta**-2 + (1.0 + theta) ** -2
        width = 1.5 / np.sqrt(curvature)
        for f in factors:
            at = theta + 1j * f.revival * np.array([1.0, 2.0])
            if np.isfinite(f.revival) and np.max(_log_moment(factors, at).real) > k[1] - 35.0:
                raise Unknown("atoms make the moments revive")
        values = [
            _integral(factors, epsilon, 0.9 * theta, width),
            _integral(factors, epsilon, 0.75 * theta, 0.6 * width),
        ]
    if not abs(values[0] - values[1]) < AGREEMENT:
        raise Unknown(f"{values}")
    return values[0]
