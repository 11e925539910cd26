"""Pairs that someone knows by their privacy profile: delta as a function of epsilon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.curves.pair import Pair
from sharpdp.errors import InvalidArgument
from sharpdp.numerics.special import Array

Curve = Callable[[Array], Array]

_SECANT_FALL, _STEP_ROUNDS = 5e-5, 6
"""Relative fall along a secant, and how often its length is adapted to reach it."""

_ACCURACY = 1e-9
"""What is believed of a user's function, relative to its values above the one it falls to."""


@dataclass(frozen=True)
class ProfilePair(Pair):
    """The pair of a profile delta(epsilon), epsilon >= 0, and of the one with P and Q swapped.

    `slope` is the derivative of the profile in epsilon, -e^epsilon Q[L > epsilon]; without it secants
    so short that the profile falls by 5e-5 along them are used. A secant exceeds the profile only
    between its own ends, and by less than 1e-9 of it where it is smooth (at a kink by up to 1e-5, on a
    stretch so short that moments move by less than 1e-9). Whatever the profile falls to is P-mass at
    +inf.

    Numerics: the functions are believed to be right to a relative 1e-9, which covers the secants.

    >>> pair = ProfilePair(lambda k: np.maximum(0.0, 0.5 - k))
    >>> round(float(np.exp(pair.log_tail_q(np.array([0.25]))[0])), 4)  # e^-1/4
    0.7788
    """

    profile: Curve
    slope: Curve | None = None
    reverse_profile: Curve | None = None
    reverse_slope: Curve | None = None
    largest_loss: float = np.inf

    @property
    def accuracy(self) -> float:
        return _ACCURACY

    @property
    def support(self) -> tuple[float, float]:
        return (-self.largest_loss, self.largest_loss)

    @property
    def atoms(self) -> tuple[float, ...]:
        # the ends of bounded losses usually carry mass, and are kinks at least
        return self.support if np.isfinite(self.largest_loss) else ()

    @property
    def symmetric(self) -> bool:
        return self.reverse_profile is None

    @property
    def resolved(self) -> tuple[float, float]:
        return (-self._ends[1][0], self._ends[0][0])

    @property
    def infinite_p(self) -> float:
        return self._ends[0][1]

    @property
    def infinite_q(self) -> float:
        return self._ends[1][1]

    @cached_property
    def _ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """How far each of the two profiles can be evaluated, and its value there."""
        forward = _end(self.profile, self.largest_loss)
        backward = forward
        if self.reverse_profile is not None:
            backward = _end(self.reverse_profile, self.largest_loss)
        return forward, backward

    def reverse(self) -> Pair:
        if self.reverse_profile is None:
            return self
        return ProfilePair(
            self.reverse_profile, self.reverse_slope, self.profile, self.slope, self.largest_loss
        )

    def log_otm(self, loss: Array) -> Array:
        call = self._logged(self.profile, np.maximum(loss, 0.0), self.infinite_p)
        put = self._logged(
            self.reverse_profile or self.profile, np.maximum(-loss, 0.0), self.infinite_q
        )
        return np.where(loss < 0, put + loss, call)

    def log_tail_q(self, loss: Array) -> Array:
        ahead = np.maximum(loss, 0.0)
        call = _log_fall(self.profile, self.slope, ahead) - ahead
        # below zero: Q[L <= k] = P'[L' >= -k] = delta' + e^{-k} Q'[L' >= -k] of the swapped pair
        away = np.maximum(-loss, 0.0)
        swapped = self.reverse_profile or self.profile
        put = self._logged(swapped, away, self.infinite_q)
        tail = _log_fall(swapped, self.reverse_slope if self.reverse_profile else self.slope, away)
        return np.where(loss < 0, np.logaddexp(put, tail), call)

    def log_tail_p(self, loss: Array) -> Array:
        swapped = self.reverse()
        assert isinstance(swapped, ProfilePair)
        return swapped.log_tail_q(np.where(loss == 0.0, -np.finfo(float).tiny, -loss))

    @staticmethod
    def _logged(curve: Curve, epsilon: Array, rest: float) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(_read(curve, epsilon) - rest, 0.0)))


def _end(curve: Curve, largest_loss: float) -> tuple[float, float]:
    """The last power of two, or the largest loss, at which the curve gives a number, and that number."""
    last = 0.0
    for epsilon in (*2.0 ** np.arange(-4.0, 20.0), largest_loss):
        with np.errstate(all="ignore"):
            value = float(np.asarray(curve(np.array([min(epsilon, largest_loss)])))[0])
        if not np.isfinite(value):
            break
        last = min(float(epsilon), largest_loss)
    return last, float(_read(curve, np.array([last]))[0])


def _read(curve: Curve, epsilon: Array) -> Array:
    """The curve's values, refused if one is not a number in [0, 1]."""
    with np.errstate(all="ignore"):
        values = np.asarray(curve(epsilon), dtype=float)
    wrong = ~((values >= 0.0) & (values <= 1.0))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise InvalidArgument(
            "profile must give a delta in [0, 1] at every epsilon; got "
            f"{values.flat[place]!r} at epsilon = {np.ravel(epsilon)[place]!r}. "
            "Write it without cancellation, or give largest_loss."
        )
    return values


def _log_fall(profile: Curve, slope: Curve | None, epsilon: Array) -> Array:
    """log of e^epsilon Q[L > epsilon], the fall of the profile per epsilon."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if slope is not None:
            return np.asarray(np.log(np.maximum(-np.asarray(slope(epsilon)), 0.0)))
        value = _read(profile, epsilon)
        step = np.full(np.shape(epsilon), 1e-6)
        for _ in range(_STEP_ROUNDS):
            fall = value - _read(profile, epsilon + step)
            step = step * np.clip(_SECANT_FALL * value / fall, 1e-3, 1e3)
            step = np.where(np.isfinite(step), step, 1e-6)
        fall = value - _read(profile, epsilon + step)
        # the slope in x = e^epsilon, times x
        return np.asarray(np.log(np.maximum(fall, 0.0) / np.expm1(step)))
