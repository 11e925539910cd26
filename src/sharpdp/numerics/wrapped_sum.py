"""Probabilities that a sum of independent variables lands on an arc, at a cost free of their number.

S = A_1 + ... + A_n + B + v Z modulo a window W: the A_i have equal laws on few values, B has a law of its
own on the same values, and Z is normal. With t_k = 2 pi k / W and the transforms of A and B

    P[S in (w, top)] = (1/W) sum_k B(t_k) A(t_k)^n e^{-(v t_k)^2 / 2} int_w^top e^{-i t_k x} dx.

Nothing is approximated but the last frequencies, which the normal damps away, and rounding. Laws may
have total mass below one. n log A is a sum of n small numbers, kept to about sqrt(n) units by log1p.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray

_LAST = 9.0
"""Frequencies reach this far in units of one over the noise: what is left out is below e^-40."""

_LEFT_OUT = 2e-17
"""Bound on all frequencies beyond, and on those within whose power is negligible."""

_NEGLIGIBLE_LOG = -46.0
_BLOCK = 32
"""Exponentials at all frequencies are products of those at so many; this finds the ones that matter."""

_UNITS = 64.0
"""sin, cos, exp and rounded phases: so many units for each term, besides one for each summand."""

_FEW = 500
"""Up to so many frequencies exponentials are taken one by one."""

_HARMLESS, _HARMLESS_OF_MANY = 1e-11, 3e-9
"""n times the error of the first transforms may be this large before they are summed again: for few
frequencies, and for many, where that takes time."""

_SINGLE_THREAD = 1 << 15
"""Matrix products this small stay on one thread: on a busy machine a second one takes longer."""

_SMALL, _TINY, _LEAST_LOG = 0.1, 1e-290, -600.0


@dataclass(frozen=True)
class CircularSum:
    """n copies of a variable with these values, masses and log total mass, and normal noise.

    `mass_error` bounds the relative error of all masses; log_total is exact to a few units.
    """

    values: Array
    masses: Array
    log_total: float
    mass_error: float
    count: int
    noise: float
    window: float

    @property
    def units(self) -> float:
        """Relative error of a sum over the values."""
        return self.mass_error + (_UNITS + self.values.size) * UNIT_ROUNDOFF

    @property
    def _step(self) -> float:
        return 2.0 * np.pi / self.window

    @property
    def _size(self) -> int:
        """How many frequencies there are."""
        return int(np.ceil(_LAST / (self.noise * self._step))) + 1

    @cached_property
    def _factors(self) -> tuple[ComplexArray, ComplexArray]:
        """Exponentials at the first frequencies, and at the first one of every block."""
        fine = self._step * np.arange(_BLOCK)
        coarse = self._step * _BLOCK * np.arange(-(-self._size // _BLOCK))
        return (
            np.exp(1j * np.multiply.outer(fine, self.values)),
            np.exp(1j * np.multiply.outer(coarse, self.values)),
        )

    def _everywhere(self, masses: Array) -> ComplexArray:
        """The transform of a law at all frequencies."""
        fine, coarse = self._factors
        rows = max(_SINGLE_THREAD // fine.size, 1)
        weighted, across = coarse * masses, fine.T
        parts = [weighted[at : at + rows] @ across for at in range(0, coarse.shape[0], rows)]
        return np.asarray(np.concatenate(parts).ravel()[: self._size])

    def _transform_error(self, masses: Array, t: Array) -> Array:
        """Bound on the error of a transform: rounding of sums, masses and phases."""
        size = float(masses @ np.abs(self.values))
        return 4.0 * self.units * (float(np.sum(masses)) + t * size)

    @cached_property
    def _alive(self) -> tuple[NDArray[np.int64], Array, ComplexArray]:
        """Numbers k, frequencies and transforms where the power matters."""
        k = np.arange(self._size)
        t = np.asarray(self._step * k, dtype=float)
        phi = self._everywhere(self.masses)
        largest = np.minimum(np.abs(phi) + self._transform_error(self.masses, t), 1.0)
        with np.errstate(divide="ignore"):
            log_size = self.count * np.log(largest)
        alive = log_size - 0.5 * (self.noise * t) ** 2 > _NEGLIGIBLE_LOG
        return k[alive], t[alive], phi[alive]

    @cached_property
    def _moves(self) -> tuple[ComplexArray, Array]:
        """A(t)/A(0) - 1 and a bound on its error, where the power matters."""
        k, t, phi = self._alive
        harmless = _HARMLESS if k.size <= _FEW else _HARMLESS_OF_MANY
        total = float(np.exp(self.log_total))
        error = self._transform_error(self.masses, t)
        if self.count * float(np.max(error)) < harmless:
            return phi / total - 1.0, 2.0 * error / total
        half = 0.5 * np.multiply.outer(t, self.values)
        sine = np.sin(half)
        real, imaginary = -sine * sine * self.masses, sine * np.cos(half) * self.masses
        move = 2.0 * (np.sum(real, axis=1) + 1j * np.sum(imaginary, axis=1))
        size = float(self.masses @ np.abs(self.values))
        return move / total, 4.0 * self.units * t * size / total

    @cached_property
    def _powers(self) -> tuple[ComplexArray, Array]:
        """A(t)^n e^{-(v t)^2/2} and a bound on its error, where it matters."""
        _, t, _ = self._alive
        move, error = self._moves
        x, y = move.real, move.imag
        modulus = np.hypot(1.0 + x, y)
        with np.errstate(divide="ignore"):
            log_modulus = 0.5 * np.log1p(np.maximum(x * (2.0 + x) + y * y, -1.0))
        log_size = np.clip(self.count * np.maximum(log_modulus, _LEAST_LOG), _LEAST_LOG, 0.0)
        turn = self.count * np.arctan2(y, 1.0 + x)
        log_damp = self.count * self.log_total - 0.5 * (self.noise * t) ** 2
        relative = self.count * error / np.maximum(modulus - error, _TINY)
        relative += 8.0 * UNIT_ROUNDOFF * (4.0 + np.abs(turn) + np.abs(log_size) + np.abs(log_damp))
        power, damp = np.exp(log_size), np.exp(log_damp)
        small = (modulus > error) & (relative < _SMALL)
        bound = np.where(
            small,
            power * np.expm1(np.where(small, relative, 0.0)),
            power + np.exp(self.count * np.log(np.minimum(modulus, 1.0) + error + _TINY)),
        )
        return damp * power * np.exp(1j * turn), damp * bound

    def arcs(self, last: Array, thresholds: Array, top: float) -> tuple[Array, float]:
        """P[S in (w, top)] for each threshold w, B having the masses `last`; and a bound on the errors.

        Numerics: each frequency k > 0 enters with at most 2 / (pi k) of its error.
        """
        k, t, _ = self._alive
        powers, bound = self._powers
        if k.size > _FEW:
            b = self._everywhere(last)[k]
        else:
            b = np.sum(np.exp(1j * np.multiply.outer(t, self.values)) * last, axis=1)
        terms, b_error = b * powers, self._transform_error(last, t)
        rounding = 8.0 * UNIT_ROUNDOFF * (_UNITS + 2.0 * np.pi * k)
        error = np.abs(b) * bound + b_error * (np.abs(powers) + bound) + np.abs(terms) * rounding
        weight = np.where(k > 0, 2.0 / (np.pi * np.maximum(k, 1)), 1.0)
        total_error = float(error @ weight) + _LEFT_OUT * (1.0 + float(np.log(1.0 + self._size)))
        later = k > 0
        kernel = np.exp(-1j * np.multiply.outer(np.append(thresholds, top), t[later]))
        scaled = terms[later] / (1j * t[later])
        waves = 2.0 * np.sum((kernel[:-1] - kernel[-1]) * scaled, axis=1).real
        flat = (top - thresholds) * float(np.sum(terms[~later].real))
        return np.asarray((flat + waves) / self.window), total_error
