"""By how much the gradients of two neighboring data sets differ, as the start of a descent is drawn.

Given the start I, one noisy step has a Gaussian result whose mean moves by the sensitivity
|g(I, D) - g(I, D')| between neighbors. Each class here is one way to know that number: a ready-made
case, a monotone function of the start, bounds over intervals of the start, or its own distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import (
    HintedKeywords,
    count,
    doubles,
    has_entries,
    invalid,
    is_among,
    nonnegative,
    positive_scale,
    probability,
    real,
    scale_or_inf,
    short_repr,
)
from sharpdp.errors import InvalidArgument, WrongType

__all__ = [
    "EnclosedSensitivity",
    "LeastSquares",
    "Logistic",
    "MonotoneSensitivity",
    "Sensitivity",
    "SensitivityDistribution",
    "distribution",
]

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]
Enclosure = Callable[[Array, Array], tuple[Array, Array]]

SHAPES = ("rising", "falling", "rising in |start|", "falling in |start|")
"""How a sensitivity may depend on the start."""

LARGEST_SLOPE, LARGEST_MARGIN = 1e6, 1e3
"""Beyond these the distribution of the sensitivity is not resolved in double precision."""

PROBES = 33
"""Places at which a given function is looked at, once, to catch one that is not what it should be."""

STANDARD_RANGE = (-8.0, 8.0)
"""Where functions of a standard normal start are looked at."""

FUNCTION_ERROR, CDF_ERROR = 1e-12, 2.0**-50
"""What is believed of given functions: the first relative to a sensitivity, the second absolute."""

LARGEST_SUM_ERROR = 1e-9
"""How far atoms without a rest may be from 1 in sum."""


@dataclass(frozen=True, kw_only=True)
class LeastSquares(HintedKeywords):
    """Least squares in one dimension, from a standard normal start: min(|slope - I|, clip).

    Every record has y = slope x and x^2 = 1, its gradient is clipped, and one record is removed.

    Args:
        slope: the slope of all records; -1e6 to 1e6.
        clip: the norm at which each gradient is clipped; 1e-30 to 1e30, or infinite for no clipping.
        points: number of records, at least 1; None (default) if it is not known. An instance with a
            hidden start is accounted exactly only if it is.

    Raises:
        InvalidArgument: a value is out of range.
        WrongType: a value is not a number.
    """

    slope: float
    clip: float
    points: int | None = None

    def __post_init__(self) -> None:
        """Check both numbers."""
        slope = real(slope=self.slope)
        if abs(slope) > LARGEST_SLOPE:
            raise invalid("slope", f"between -{LARGEST_SLOPE:g} and {LARGEST_SLOPE:g}", self.slope)
        object.__setattr__(self, "slope", slope)
        hint = "Use inf for gradients that are not clipped."
        object.__setattr__(self, "clip", scale_or_inf(clip=self.clip, hint=hint))
        if self.points is not None:
            hint = "Leave it out if it is not known."
            object.__setattr__(self, "points", count(points=self.points, hint=hint))

    @property
    def largest(self) -> float:
        """The largest sensitivity: the clip."""
        return self.clip

    def describe(self) -> str:
        """The case in a few words."""
        clipped = "unclipped" if self.clip == np.inf else f"clipped at {self.clip:.12g}"
        points = "" if self.points is None else f" on {self.points} point{'s' * (self.points > 1)}"
        return f"least squares{points} with slope {self.slope:.12g}, {clipped}"


@dataclass(frozen=True, kw_only=True)
class Logistic(HintedKeywords):
    """Logistic regression in one dimension, from a standard normal start; |x y| is at most ``margin``.

    The gradient of a record is -x y / (1 + e^(x y I)). Its largest size over all records is
    margin / (1 + e^(-|I| margin)); the record with x y = margin has margin / (1 + e^(I margin)).

    Args:
        margin: a bound on |x y| over all records; 1e-30 to 1,000.

    Raises:
        InvalidArgument: the margin is out of range.
        WrongType: it is not a number.
    """

    margin: float

    def __post_init__(self) -> None:
        """Check the margin."""
        margin = positive_scale(margin=self.margin, hint="It bounds |x y|.")
        if margin > LARGEST_MARGIN:
            raise invalid("margin", f"at most {LARGEST_MARGIN:g}", self.margin)
        object.__setattr__(self, "margin", margin)

    @property
    def largest(self) -> float:
        """The largest sensitivity: the margin."""
        return self.margin

    def describe(self) -> str:
        """The case in a few words."""
        return f"logistic regression with margin {self.margin:.12g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class MonotoneSensitivity:
    """A sensitivity that is a monotone function of the start, or of its size.

    Args:
        function: maps an array of starts (of |start| for the last two shapes) to sensitivities of at
            least 0, right to a relative 1e-12.
        shape: "rising", "falling", "rising in |start|" or "falling in |start|".
        cdf: the distribution function of the start, right to 1e-15; None (default) for a standard normal
            start.
        start_range: two numbers between which the start always is; needed with a ``cdf``, else None.
        largest: a bound on all sensitivities, such as a clipping norm; 1e-30 to 1e30, or infinite
            (default) if there is none.

    Raises:
        InvalidArgument: ``shape`` is unknown, ``function`` or ``cdf`` fails a check at a few starts,
            ``start_range`` is not an interval or comes without a ``cdf``, or ``largest`` is out of range.
        WrongType: a function is not callable, ``start_range`` is not a pair, or ``largest`` is not a
            number.
    """

    function: Curve
    shape: str
    cdf: Curve | None = None
    start_range: tuple[float, float] | None = None
    largest: float = np.inf

    def __post_init__(self) -> None:
        """Check that the function has the shape, and that the distribution is one."""
        if not is_among(SHAPES, self.shape):
            allowed = ", ".join(repr(word) for word in SHAPES)
            hint = "For another shape give an enclosure of it, or the distribution of its values."
            raise invalid("shape", f"one of {allowed}", self.shape, hint)
        object.__setattr__(self, "start_range", _start(self.cdf, self.start_range))
        object.__setattr__(self, "largest", _largest(self.largest))
        _check_callable("function", self.function, "the start")
        self.values(np.linspace(*(self.start_range or STANDARD_RANGE), PROBES))

    def values(self, starts: Array) -> Array:
        """The sensitivities at increasing starts; an error if they are not what the shape says."""
        distances = np.abs(starts) if "|" in self.shape else starts
        values = _numbers("function", self.function(distances), distances)
        _check_largest(self.largest, values, distances)
        order = np.argsort(distances, kind="stable")
        sign = 1.0 if self.shape.startswith("rising") else -1.0
        with np.errstate(invalid="ignore"):  # between two infinite values
            wrong = sign * np.diff(values[order]) < -FUNCTION_ERROR * values[order][1:]
        if wrong.any():
            start = float(distances[order][int(np.argmax(wrong))])
            raise InvalidArgument(
                f"function must be {self.shape}; got one that is not, just after {start:.6g}. "
                "Give an enclosure of it, or the distribution of its values."
            )
        return values

    def describe(self) -> str:
        """The case in a few words."""
        return f"a given sensitivity, {self.shape}"


@dataclass(frozen=True, kw_only=True, eq=False)
class EnclosedSensitivity:
    """A sensitivity of any shape, known by its bounds over intervals of the start.

    Args:
        enclosure: maps the left and the right ends of some intervals, two arrays, to two arrays: a lower
            and an upper bound on the sensitivity over each interval, at least 0.
        cdf: the distribution function of the start, right to 1e-15; None (default) for a standard normal
            start.
        start_range: two numbers between which the start always is; needed with a ``cdf``, else None.
        largest: a bound on all sensitivities, such as a clipping norm; 1e-30 to 1e30, or infinite
            (default) if there is none.

    Raises:
        InvalidArgument: ``enclosure`` or ``cdf`` fails a check on a few intervals, ``start_range`` is not
            an interval or comes without a ``cdf``, or ``largest`` is out of range.
        WrongType: a function is not callable, ``enclosure`` does not return two arrays, ``start_range``
            is not a pair, or ``largest`` is not a number.
    """

    enclosure: Enclosure
    cdf: Curve | None = None
    start_range: tuple[float, float] | None = None
    largest: float = np.inf

    def __post_init__(self) -> None:
        """Look at a few intervals."""
        object.__setattr__(self, "start_range", _start(self.cdf, self.start_range))
        object.__setattr__(self, "largest", _largest(self.largest))
        _check_callable("enclosure", self.enclosure, "two arrays of ends")
        edges = np.linspace(*(self.start_range or STANDARD_RANGE), PROBES)
        self.bounds(edges[:-1], edges[1:])

    def bounds(self, left: Array, right: Array) -> tuple[Array, Array]:
        """The bounds over intervals; an error if they are none."""
        both: Any = self.enclosure(left, right)
        if not isinstance(both, tuple | list) or len(both) != 2:
            raise WrongType(
                "enclosure must return two arrays, lower and upper bounds on the sensitivity; got "
                f"{short_repr(both)}."
            )
        lower, upper = (_numbers("enclosure", part, left) for part in both)
        if np.any(lower > upper):
            start = float(left[int(np.argmax(lower > upper))])
            raise InvalidArgument(
                f"enclosure must return lower bounds first; got a larger one from {start:.6g} on."
            )
        _check_largest(self.largest, lower, left)
        return lower, np.minimum(upper, self.largest)

    def describe(self) -> str:
        """The case in a few words."""
        return "a sensitivity given by enclosures"


@dataclass(frozen=True, kw_only=True, eq=False)
class SensitivityDistribution(HintedKeywords):
    """The distribution of the sensitivity itself: ``atoms``, and a rest with a distribution function.

    What the atoms leave to 1, in exact arithmetic, is the probability of the rest. Atoms that exceed 1
    in sum by at most 1e-9, or miss it by that much where there is no ``cdf``, are divided by their sum.

    Args:
        atoms: maps sensitivities, at least 0, to their probabilities, in (0, 1]; none by default.
        cdf: the distribution function of the sensitivity given that it is no atom, right to 1e-15; None
            (default) if the atoms are all there is.
        interval: two numbers, at least 0, between which the rest is; needed with a ``cdf``, else None.

    Raises:
        InvalidArgument: atoms and rest are not one distribution, or a number is out of range.
        WrongType: ``atoms`` is not a mapping or a list of pairs, ``cdf`` is not callable, or ``interval``
            is not a pair of numbers.
    """

    atoms: Mapping[float, float] | Iterable[tuple[float, float]] = ()
    cdf: Curve | None = None
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Check that atoms and rest are one distribution."""
        atoms = _atoms(self.atoms)
        object.__setattr__(self, "atoms", atoms)
        total = math.fsum(share for _, share in atoms)
        if total > 1.0 + LARGEST_SUM_ERROR:
            raise InvalidArgument(f"atoms must have a sum of at most 1; got {total:.12g}.")
        if self.cdf is None:
            if self.interval is not None or abs(total - 1.0) > LARGEST_SUM_ERROR:
                got = f"atoms with sum {total:.12g} and interval={short_repr(self.interval)}"
                raise InvalidArgument(
                    f"atoms must have sum 1 if there is no cdf; got {got}. "
                    "Give the cdf of the rest with its interval."
                )
            return
        _check_callable("cdf", self.cdf, "the sensitivity")
        low, high = _interval("interval", self.interval)
        nonnegative(interval=low, hint="A sensitivity is not negative.")
        object.__setattr__(self, "interval", (low, high))
        level = distribution(self.cdf, np.linspace(low, high, PROBES))
        if not level[-1] >= 1.0 - LARGEST_SUM_ERROR:
            raise InvalidArgument(
                f"cdf must be 1 at the end of the interval; got {float(level[-1]):.6g} at {high:.6g}."
            )

    @property
    def largest(self) -> float:
        """The largest sensitivity that has a probability."""
        finite: list[float] = [value for value, _ in _atoms(self.atoms)]
        return max([*finite, *(self.interval or ())], default=0.0)

    def describe(self) -> str:
        """The case in a few words."""
        return "a sensitivity given by its distribution"


Sensitivity = (
    LeastSquares | Logistic | MonotoneSensitivity | EnclosedSensitivity | SensitivityDistribution
)
"""What a mechanism may be told about its sensitivity."""


def distribution(cdf: Curve, points: Array) -> Array:
    """The distribution function at increasing places; an error if it is none."""
    values = _numbers("cdf", cdf(points), points)
    if np.any(values > 1.0 + CDF_ERROR) or np.any(np.diff(values) < -CDF_ERROR):
        raise InvalidArgument(
            "cdf must rise from 0 to 1; got "
            f"{', '.join(f'{value:.6g}' for value in values[:: max(values.size // 4, 1)])} "
            f"between {points[0]:.6g} and {points[-1]:.6g}."
        )
    return np.asarray(np.maximum.accumulate(np.minimum(values, 1.0)))


def _numbers(name: str, values: object, points: Array) -> Array:
    """Values of a user's function as an array of numbers at least 0 (infinite ones allowed)."""
    array = doubles(values)
    if array.shape != points.shape:
        raise InvalidArgument(
            f"{name} must return one number for each entry of an array; got {short_repr(values)} for "
            f"{points.size} entries."
        )
    wrong = ~(array >= 0.0)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise InvalidArgument(
            f"{name} must return numbers that are at least 0; got {float(array[index])!r} at "
            f"{float(points[index]):.6g}."
        )
    return array


def _largest(value: object) -> float:
    """A bound on all sensitivities, infinite if there is none."""
    return scale_or_inf(largest=value, hint="Leave it out if there is none.")


def _check_callable(name: str, value: object, of: str) -> None:
    if isinstance(value, type) or not callable(value):
        raise WrongType(f"{name} must be a function of {of}; got {short_repr(value)}.")


def _check_largest(largest: float, values: Array, points: Array) -> None:
    wrong = values > largest * (1.0 + FUNCTION_ERROR)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise InvalidArgument(
            f"largest must be at least every sensitivity; got {largest!r}, and "
            f"{float(values[index])!r} at {float(points[index]):.6g}."
        )


def _start(cdf: Curve | None, start_range: object) -> tuple[float, float] | None:
    """The range of a given start; None for the standard normal one."""
    if cdf is None:
        if start_range is not None:
            raise InvalidArgument(
                f"start_range must be left out without a cdf; got {short_repr(start_range)}. "
                "The start is then standard normal."
            )
        return None
    _check_callable("cdf", cdf, "the start")
    low, high = _interval("start_range", start_range)
    level = distribution(cdf, np.linspace(low, high, PROBES))
    if not level[-1] > level[0]:
        raise InvalidArgument(
            f"cdf must rise over the start_range; got {float(level[0]):.6g} at both {low:.6g} and "
            f"{high:.6g}."
        )
    return low, high


def _interval(name: str, value: object) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise WrongType(
            f"{name} must be two numbers, such as (-1.0, 1.0); got {short_repr(value)}."
        )
    low, high = real(**{f"{name}[0]": value[0]}), real(**{f"{name}[1]": value[1]})
    if not low < high:
        raise invalid(name, "an interval with its lower end first", value)
    return low, high


def _atoms(atoms: object) -> tuple[tuple[float, float], ...]:
    """(sensitivity, probability) of each atom."""
    if not isinstance(atoms, Mapping) and not has_entries(atoms):
        raise WrongType(f"atoms must map sensitivities to probabilities; got {short_repr(atoms)}.")
    pairs: tuple[Any, ...] = tuple(atoms.items() if isinstance(atoms, Mapping) else atoms)
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise WrongType(
                f"atoms[{index}] must be a sensitivity and its probability; got {short_repr(pair)}."
            )
    return tuple(
        (
            nonnegative(**{f"atoms[{index}][0]": value}, hint="It is a sensitivity."),
            probability(**{f"atoms[{index}][1]": share}, hint="It is a probability."),
        )
        for index, (value, share) in enumerate(pairs)
    )
