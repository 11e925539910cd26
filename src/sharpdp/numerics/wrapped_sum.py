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

from sharpdp.numerics.contour import (
    MANY_POINTS,
    Gridding,
    PhaseTable,
    exponential,
    log_power,
    phase_moves,
)
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray

_RARELY = 0.003
"""The share of a harmless error that is left to each frequency whose sum is not taken again."""

_UNITS = 64.0
"""sin, cos, exp and rounded phases: so many units for each term, besides one for each summand."""


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
        """How many frequencies there are: those beyond nine over the noise are below e^-40."""
        return int(np.ceil(9.0 / (self.noise * self._step))) + 1

    def _phases(self, count: int) -> Gridding | PhaseTable:
        """Exponentials at the first frequencies, for sums with several masses."""
        if self.values.size >= MANY_POINTS:
            return Gridding(self.values, self._step, count)
        return PhaseTable(self.values, self._step, np.arange(count))

    def _transform(
        self, masses: Array, phases: Gridding | PhaseTable, count: int
    ) -> tuple[ComplexArray, Array]:
        """Transforms at the first frequencies, and bounds on their errors: of sums, masses and phases."""
        size = float(masses @ np.abs(self.values))
        t = self._step * np.arange(count)
        error = np.asarray(4.0 * self.units * (float(np.sum(masses)) + t * size), dtype=float)
        if isinstance(phases, PhaseTable):
            return phases.sums(masses), error
        values, gridding = phases.sums(masses)
        return values, error + gridding

    @cached_property
    def _alive(self) -> tuple[NDArray[np.int64], Array, ComplexArray, Array]:
        """Numbers k, frequencies, transforms and their errors where the power matters."""
        k = np.arange(self._size)
        t = np.asarray(self._step * k, dtype=float)
        phi, error = self._transform(self.masses, self._phases(k.size), k.size)
        with np.errstate(divide="ignore"):
            log_size = self.count * np.log(np.minimum(np.abs(phi) + error, 1.0))
        alive = log_size - 0.5 * (self.noise * t) ** 2 > -46.0
        return k[alive], t[alive], phi[alive], error[alive]

    @cached_property
    def _alive_phases(self) -> Gridding | PhaseTable:
        """Exponentials up to the last frequency that matters, often few of all."""
        return self._phases(int(self._alive[0][-1]) + 1)

    @cached_property
    def _moves(self) -> tuple[ComplexArray, Array]:
        """A(t)/A(0) - 1 and a bound on its error, where the power matters."""
        k, t, phi, error = self._alive
        # n times the error may be so large before sums are taken again, which takes time for many
        harmless = 1e-11 if k.size <= 500 else 3e-9
        total = float(np.exp(self.log_total))
        move, bound = phi / total - 1.0, 2.0 * error / total
        if self.count * float(np.max(error)) < harmless:
            return move, bound
        # an error counts as much as the power
        with np.errstate(divide="ignore"):
            log_power_up = self.count * np.log(np.minimum(np.abs(phi) + error, 1.0))
        log_power_up -= 0.5 * (self.noise * t) ** 2
        again = np.log(self.count * error) + log_power_up > np.log(_RARELY * harmless)
        size = float(self.masses @ np.abs(self.values))
        move[again] = phase_moves(self.values, self.masses, t[again]) / total
        bound[again] = 4.0 * self.units * t[again] * size / total
        return move, bound

    @cached_property
    def _powers(self) -> tuple[ComplexArray, Array]:
        """A(t)^n e^{-(v t)^2/2} and a bound on its error, where it matters."""
        _, t, _, _ = self._alive
        log_value, log_error, log_bound = log_power(*self._moves, self.count)
        log_damp = self.count * self.log_total - 0.5 * (self.noise * t) ** 2
        log_error = log_error + 8.0 * UNIT_ROUNDOFF * (4.0 + np.abs(log_damp))
        return exponential(log_value + log_damp, log_error, log_bound + log_damp)

    def arcs(self, last: Array, thresholds: Array, top: float) -> tuple[Array, float]:
        """P[S in (w, top)] for each threshold w, B having the masses `last`; and a bound on the errors.

        Numerics: each frequency k > 0 enters with at most 2 / (pi k) of its error.
        """
        k, _, b, b_error = self._alive
        powers, bound = self._powers
        if not np.array_equal(last, self.masses):
            every, every_error = self._transform(last, self._alive_phases, int(k[-1]) + 1)
            b, b_error = every[k], every_error[k]
        terms = b * powers
        rounding = 8.0 * UNIT_ROUNDOFF * (_UNITS + 2.0 * np.pi * k)
        error = np.abs(b) * bound + b_error * (np.abs(powers) + bound) + np.abs(terms) * rounding
        weight = np.where(k > 0, 2.0 / (np.pi * np.maximum(k, 1)), 1.0)
        # all frequencies beyond, and those within whose power is negligible
        left_out = 2e-17 * (1.0 + float(np.log(1.0 + self._size)))
        total_error = float(error @ weight) + left_out
        later = k > 0
        waves = 2.0 * np.sum(self._kernel(thresholds, top) * terms[later], axis=1).real
        flat = (top - thresholds) * float(np.sum(terms[~later].real))
        return np.asarray((flat + waves) / self.window), total_error

    @cached_property
    def _kernels(self) -> dict[tuple[bytes, float], ComplexArray]:
        return {}

    def _kernel(self, thresholds: Array, top: float) -> ComplexArray:
        """The integrals of e^{-itx} from each threshold to the top, t > 0; the same for every B."""
        key = thresholds.tobytes(), top
        if key not in self._kernels:
            _, t, _, _ = self._alive
            t = t[t > 0.0]
            angles = np.multiply.outer(np.append(thresholds, top), t)
            ends = np.empty(angles.shape, dtype=complex)
            np.cos(angles, out=ends.real)
            np.sin(angles, out=ends.imag)
            np.conj(ends, out=ends)
            self._kernels[key] = (ends[:-1] - ends[-1]) / (1j * t)
        return self._kernels[key]
