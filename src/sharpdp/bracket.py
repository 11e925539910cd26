"""What an answer is made of: a side, a degree of rigor, and a bracket lower <= truth <= upper.

Nothing here computes a bound. A bracket only guards what has been computed: its ends are in
order, it prints outwards, and it refuses to compare what it cannot decide.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import count, elementwise, invalid, open_probability, short_repr, single
from sharpdp.display import notebook
from sharpdp.display.outward_digits import (
    DIGITS,
    MOST_DIGITS,
    ROUND_CEILING,
    ROUND_FLOOR,
    in_digits,
)
from sharpdp.errors import Contradiction, InvalidArgument, Undecided, WrongType

__all__ = ["STANDARD_WIDTH", "Bracket", "Rigor", "Side", "bracketed", "in_order"]

STANDARD_WIDTH = 1e-3
"""Relative width that is asked for unless another one is given, on every surface."""

NARROW = 2e-3
"""Relative width up to which a bracket is shown as one number."""

RELATIONS: dict[str, tuple[np.ufunc, np.ufunc]] = {
    "<": (np.less, np.greater_equal),
    "<=": (np.less_equal, np.greater),
    ">": (np.greater, np.less_equal),
    ">=": (np.greater_equal, np.less),
}
"""For each comparison of numbers, the one that holds exactly if it fails."""


class Side(Enum):
    """The side on which a number is safe: never above the truth, or never below it."""

    LOWER = "lower"
    UPPER = "upper"

    @property
    def sign(self) -> float:
        """+1 for numbers that may be rounded up, -1 for those that may be rounded down."""
        return 1.0 if self is Side.UPPER else -1.0

    def __str__(self) -> str:
        """The side as one word."""
        return self.value


class Rigor(Enum):
    """What stands behind a number, from the strongest to the weakest.

    - CERTIFIED: a published theorem, and an argument for every rounding error.
    - UNREVIEWED: the same, but the proof is our own: it ships with sharpdp and is not peer reviewed.
    - STATED: a theorem of somebody else's, registered from outside sharpdp, which has checked nothing.
    - MONTE_CARLO: true with a stated probability over our own random draws.
    - APPROXIMATE: a formula whose error is not bounded.
    """

    CERTIFIED = "certified"
    UNREVIEWED = "certified (our proof, not peer reviewed)"
    STATED = "stated by others"
    MONTE_CARLO = "Monte Carlo"
    APPROXIMATE = "approximate"

    @staticmethod
    def weakest(rigors: Iterable["Rigor"]) -> "Rigor":
        """The weakest of some degrees of rigor: what a result that uses all of them has.

        Args:
            rigors: Any number of degrees.

        Returns:
            The weakest one; CERTIFIED if there are none.

        >>> Rigor.weakest([Rigor.CERTIFIED, Rigor.MONTE_CARLO])
        <Rigor.MONTE_CARLO: 'Monte Carlo'>
        """
        return max(rigors, key=_FROM_STRONGEST.index, default=Rigor.CERTIFIED)

    @staticmethod
    def strongest(rigors: Iterable["Rigor"]) -> "Rigor":
        """The strongest of some degrees of rigor: what a result that needs only one of them has.

        Args:
            rigors: At least one degree.

        Returns:
            The strongest one.

        Raises:
            ValueError: there are none.

        >>> Rigor.strongest([Rigor.CERTIFIED, Rigor.MONTE_CARLO])
        <Rigor.CERTIFIED: 'certified'>
        """
        return min(rigors, key=_FROM_STRONGEST.index)

    @staticmethod
    def of_premise(*, rigor: object) -> "Rigor":
        """The rigor of something that guarantees may rest on, given as such or by its words.

        Args:
            rigor: CERTIFIED, UNREVIEWED or STATED, or the value of one of them as text.

        Returns:
            The degree.

        Raises:
            InvalidArgument: it is anything else, a weaker degree included.

        >>> Rigor.of_premise(rigor="certified")
        <Rigor.CERTIFIED: 'certified'>
        """
        proved = [degree for degree in Rigor if degree.proved]
        for degree in proved:
            if isinstance(rigor, Rigor | str) and rigor in (degree, degree.value):
                return degree
        allowed = " or ".join(repr(degree.value) for degree in proved)
        raise invalid("rigor", allowed, rigor, "No guarantee rests on anything weaker.")

    @property
    def proved(self) -> bool:
        """Whether a proof is said to stand behind the number, so that an answer may rest on it.

        >>> [rigor.name for rigor in Rigor if rigor.proved]
        ['CERTIFIED', 'UNREVIEWED', 'STATED']
        """
        return self in (Rigor.CERTIFIED, Rigor.UNREVIEWED, Rigor.STATED)

    def by(self, modules: Iterable[str]) -> str:
        """The degree of rigor in a few words, with the modules that state a theorem.

        Args:
            modules: The names of modules outside sharpdp; none if they are not known.

        Returns:
            The words.

        >>> Rigor.STATED.by(["my_bounds"]), Rigor.CERTIFIED.by([])
        ('stated by my_bounds', 'certified')
        """
        names = ", ".join(modules)
        return f"stated by {names}" if self is Rigor.STATED and names else self.value

    def __str__(self) -> str:
        """The degree of rigor in a few words."""
        return self.value


_FROM_STRONGEST = tuple(Rigor)


@dataclass(frozen=True, eq=False, repr=False)
class Bracket:
    """A quantity between two numbers, or two arrays of numbers: lower <= truth <= upper.

    ``float(bracket)`` is the upper end, the safe one for epsilon and delta. Comparing two
    brackets, or a bracket with a number, raises Undecided where they overlap; ``==`` asks
    whether two brackets are the same object of data, not whether two quantities are equal.

    Holds when: the bound behind it does; ``rigor`` says of which kind that bound is.

    Args:
        lower: The lower end, one number or an array of them; may be infinite, not NaN.
        upper: The upper end, of the same shape and nowhere below it.
        rigor: What stands behind both ends.
        quantity: The name of what is bounded; only brackets of one quantity can be compared.
        context: What was asked about what, as it is printed; empty prints nothing.
        confidence: The probability, in (0, 1), that a Monte Carlo bracket holds; None for every other
            rigor.
        stated_by: The modules outside sharpdp that state a theorem behind a bracket of rigor STATED.

    Raises:
        InvalidArgument: an end is NaN or empty, the ends differ in shape or are out of order, or
            confidence is outside (0, 1), missing for Monte Carlo or given for another rigor.
        WrongType: an end is not a number or an array of numbers, or rigor is not a Rigor.

    >>> width = Bracket(1.5, 1.75, quantity="epsilon", context="at delta=1e-05 | Gaussian")
    >>> print(width)
    1.5 <= epsilon <= 1.75 at delta=1e-05 | Gaussian, certified
    >>> 2.0 in width, width < 2.0, float(width)
    (False, True, 1.75)
    """

    lower: float | NDArray[np.float64]
    upper: float | NDArray[np.float64]
    rigor: Rigor = Rigor.CERTIFIED
    quantity: str = "epsilon"
    context: str = ""
    confidence: float | None = None
    stated_by: tuple[str, ...] = ()

    __array_ufunc__ = None  # numpy numbers leave comparisons to this class

    def __post_init__(self) -> None:
        """Check that the ends are in order, and that Monte Carlo states its confidence."""
        lower = elementwise(_not_nan, lower=self.lower)
        upper = elementwise(_not_nan, upper=self.upper)
        for end in (lower, upper):
            if isinstance(end, np.ndarray):
                end.flags.writeable = False
        if np.shape(lower) != np.shape(upper):
            raise InvalidArgument(
                "lower and upper must have the same shape; "
                f"got {np.shape(lower)} and {np.shape(upper)}."
            )
        if np.any(np.greater(lower, upper)):
            where = np.argmax(np.greater(lower, upper))
            low, high = np.ravel(lower)[where], np.ravel(upper)[where]
            raise InvalidArgument(
                f"lower must be at most upper; got lower={float(low)!r}, upper={float(high)!r}."
            )
        if not isinstance(self.rigor, Rigor):
            raise WrongType(f"rigor must be a Rigor; got {short_repr(self.rigor)}.")
        if (self.rigor is Rigor.MONTE_CARLO) != (self.confidence is not None):
            raise InvalidArgument(
                "confidence must be given for Monte Carlo, and only there; "
                f"got confidence={self.confidence} with rigor {self.rigor}."
            )
        if self.confidence is not None:
            open_probability(confidence=self.confidence)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def width(self) -> float | NDArray[np.float64]:
        """How far apart the two ends are; 0 where both are the same infinity."""
        same = np.equal(self.lower, self.upper)
        with np.errstate(invalid="ignore"):
            return _plain(np.where(same, 0.0, np.subtract(self.upper, self.lower)))

    @property
    def relative_width(self) -> float | NDArray[np.float64]:
        """The width divided by the larger end in absolute value; 0 where the width is 0.

        >>> Bracket(1.0, 2.0).relative_width
        0.5
        """
        width = np.asarray(self.width)
        size = np.maximum(np.abs(self.lower), np.abs(self.upper))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(np.isinf(width), np.inf, width / size)
        return _plain(np.where(width == 0, 0.0, ratio))

    def __contains__(self, number: object) -> bool:
        """Whether the number, or every number of an equally shaped array, is in the bracket."""
        value = self._alike(elementwise(_not_nan, number=number))
        return bool(np.all(np.less_equal(self.lower, value) & np.less_equal(value, self.upper)))

    def __float__(self) -> float:
        """The upper end, which is the safe one."""
        if isinstance(self.upper, np.ndarray):
            raise WrongType(
                f"only a bracket of one {self.quantity} is a float; "
                f"this one has shape {self.upper.shape}. Use .lower and .upper."
            )
        return self.upper

    def __lt__(self, other: object) -> "bool | NDArray[np.bool_]":
        """Whether the quantity is smaller; Undecided if the brackets leave it open."""
        return self._compare(other, "<")

    def __le__(self, other: object) -> "bool | NDArray[np.bool_]":
        """Whether the quantity is at most the other; Undecided if the brackets leave it open."""
        return self._compare(other, "<=")

    def __gt__(self, other: object) -> "bool | NDArray[np.bool_]":
        """Whether the quantity is larger; Undecided if the brackets leave it open."""
        return self._compare(other, ">")

    def __ge__(self, other: object) -> "bool | NDArray[np.bool_]":
        """Whether the quantity is at least the other; Undecided if the brackets leave it open."""
        return self._compare(other, ">=")

    def __eq__(self, other: object) -> bool:
        """Whether both are the same data, not whether the two quantities are equal."""
        return isinstance(other, Bracket) and self._data() == other._data()

    def __hash__(self) -> int:
        """A hash of the data."""
        return hash(self._data())

    @property
    def printed(self) -> tuple[str, str]:
        """The two ends of a single bracket in digits, rounded outwards.

        >>> Bracket(1.0, 1.25).printed
        ('1', '1.25')
        """
        return _ends(float(self.lower), float(self.upper))

    def __str__(self) -> str:
        """The bracket in words, its ends rounded outwards."""
        rigor = self.rigor.by(self.stated_by)
        if self.confidence is not None:
            rigor += f" with confidence {self.confidence:.12g}"
        tail = f"{self.context}, {rigor}" if self.context else f"| {rigor}"
        if not isinstance(self.lower, np.ndarray):
            return f"{_row(self.lower, float(self), self.quantity)} {tail}"
        intervals = zip(np.ravel(self.lower), np.ravel(self.upper), strict=True)
        limit = 8
        rows = [_row(low, high, self.quantity) for low, high in list(intervals)[:limit]]
        if self.lower.size > limit:
            rows.append(f"... and {self.lower.size - limit} more")
        return "\n".join([*rows, tail])

    def _repr_html_(self) -> str:
        """The bracket as a notebook shows it."""
        *rows, last = str(self).splitlines()
        if rows:
            return notebook.table([self.quantity], [[row] for row in rows], title=last)
        claim, separator, rest = last.partition(" at " if self.context.startswith("at ") else " | ")
        return notebook.headline(claim, f"{separator.strip(' |')} {rest}".strip())

    def __format__(self, spec: str) -> str:
        """Both ends rounded outwards: in the usual digits (g), in others (.3g), with some decimals (.3f).

        >>> f"{Bracket(0.1234567, 0.1235):g}", f"{Bracket(0.1234567, 0.1235):.3f}"
        ('0.123456 to 0.1235', '0.123 to 0.124')
        """
        if not spec:
            return str(self)
        match = re.fullmatch(r"\.(\d{1,2})([fg])", f".{DIGITS}g" if spec == "g" else spec)
        if match is None or isinstance(self.lower, np.ndarray):
            hint = "Brackets of arrays have no format: take entries of .lower and .upper."
            raise invalid("format", "such as g, .3g or .3f, for one number", spec, hint)
        digits, kind = int(match[1]), match[2]
        directed = zip((self.lower, float(self)), (ROUND_FLOOR, ROUND_CEILING), strict=True)
        if kind == "g":
            return " to ".join(in_digits(end, way, max(digits, 1)) for end, way in directed)
        return " to ".join(_fixed(end, digits, way) for end, way in directed)

    def __round__(self, digits: int = 0) -> "Bracket":
        """The bracket with this number of decimals, rounded outwards.

        >>> rounded_outwards = round(Bracket(0.12345, 0.12351), 3)
        >>> print(rounded_outwards.lower, rounded_outwards.upper)
        0.123 0.124
        """
        low, _, high = f"{self:.{count(digits=digits, least=0)}f}".partition(" to ")
        return replace(self, lower=float(low), upper=float(high))

    def shown(self, digits: int = DIGITS) -> str:
        """A bracket of one number in a few digits, rounded outwards: its upper end alone if it is narrow.

        Args:
            digits: Significant digits, from 1 to 15.

        Returns:
            One number if the ends differ by at most 0.2%, both otherwise.

        Raises:
            InvalidArgument: digits is out of range, or this is a bracket of an array.
            WrongType: digits is no number.

        >>> Bracket(4.5228512, 4.5229134).shown(), Bracket(31.2234, 51.8617).shown(3)
        ('4.52292', '31.2 to 51.9')
        """
        places = count(digits=digits)
        if places > MOST_DIGITS:
            raise invalid("digits", f"at most {MOST_DIGITS}", places)
        both = f"{self:.{places}g}"
        low, _, high = both.partition(" to ")
        return high if low == high or self.relative_width <= NARROW else both

    def __repr__(self) -> str:
        """The bracket as the call that makes it."""
        with np.printoptions(threshold=8, edgeitems=2):
            return notebook.shortened(
                f"Bracket(lower={self.lower!r}, upper={self.upper!r}, "
                f"rigor={self.rigor.by(self.stated_by)}, "
                f"quantity={self.quantity!r}, context={self.context!r})"
            )

    def _data(self) -> tuple[object, ...]:
        arrays = (
            np.shape(self.lower),
            np.ravel(self.lower).tobytes(),
            np.ravel(self.upper).tobytes(),
        )
        return (*arrays, self.rigor, self.quantity, self.context, self.confidence, self.stated_by)

    def _compare(self, other: object, symbol: str) -> "bool | NDArray[np.bool_]":
        low, high = self._ends_of(other)
        holds, fails = RELATIONS[symbol]
        if symbol.startswith("<"):
            yes, no = holds(self.upper, low), fails(self.lower, high)
        else:
            yes, no = holds(self.lower, high), fails(self.upper, low)
        if not np.all(np.logical_or(yes, no)):
            raise Undecided(
                f"undecided: whether {self.quantity} in {_brief(self)} is {symbol} {_brief(other)}"
                " is not known. Ask for a smaller relative_width, or compare .lower and .upper."
            )
        return bool(yes) if np.ndim(yes) == 0 else np.asarray(yes)

    def _ends_of(self, other: object) -> tuple[object, object]:
        if not isinstance(other, Bracket):
            number = self._alike(elementwise(_not_nan, number=other))
            return number, number
        if other.quantity != self.quantity:
            raise InvalidArgument(
                f"only brackets of one quantity can be compared; "
                f"got {self.quantity} and {other.quantity}."
            )
        self._alike(other.lower)
        return other.lower, other.upper

    def _alike(self, value: float | NDArray[np.float64]) -> float | NDArray[np.float64]:
        """The value, if it is one number or of the shape of the bracket."""
        mine, shape = np.shape(self.lower), np.shape(value)
        if mine and shape and mine != shape:
            raise InvalidArgument(f"number must have the shape {mine} of the bracket; got {shape}.")
        return value


def _not_nan(*, hint: str = "", **argument: object) -> float:
    """The argument as a float, infinite or not, but a number."""
    ((name, value),) = argument.items()
    value = single(value)
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, float | int | np.floating | np.integer
    ):
        raise WrongType(f"{name} must be a number or an array of numbers; got {short_repr(value)}.")
    try:
        number = float(value)
    except OverflowError:
        raise invalid(name, "a number that a double can hold", value, hint) from None
    if math.isnan(number):
        raise invalid(name, "a number", value, hint)
    return number


def _plain(value: NDArray[np.float64]) -> float | NDArray[np.float64]:
    return float(value) if np.ndim(value) == 0 else value


def _brief(value: object) -> str:
    if not isinstance(value, Bracket):
        return short_repr(value)
    if isinstance(value.lower, np.ndarray):
        return f"brackets of shape {value.lower.shape}"
    return "[{}, {}]".format(*value.printed)


def _row(low: float, high: float, quantity: str) -> str:
    """One bracket with its ends rounded outwards."""
    lower, upper = _ends(low, high)
    return f"{lower} <= {quantity} <= {upper}"


def _ends(low: float, high: float) -> tuple[str, str]:
    """The two ends in digits, rounded outwards."""
    return in_digits(low, ROUND_FLOOR), in_digits(high, ROUND_CEILING)


def _fixed(number: float, decimals: int, direction: str) -> str:
    """A number with so many decimals, rounded down or up."""
    if math.isinf(number):
        return str(number)
    # the largest double needs 309 digits before the point, and there are at most 99 after it
    exact = Context(prec=420, rounding=direction)
    return str(exact.quantize(Decimal(repr(float(number))), Decimal(1).scaleb(-decimals)))


def bracketed(
    quantity: str,
    given: str,
    values: float | NDArray[np.float64],
    intervals: Sequence[tuple[float, float]] | NDArray[np.float64],
    context: str,
    rigor: Rigor,
    stated_by: tuple[str, ...] = (),
) -> Bracket:
    """The bracket of one interval per value, which says at which values of `given` it was asked.

    >>> print(bracketed("delta", "epsilon", 1.0, [(0.0, 0.5)], "| an example", Rigor.CERTIFIED))
    0 <= delta <= 0.5 at epsilon=1 | an example, certified
    """
    if not isinstance(values, np.ndarray):
        low, high = map(float, intervals[0])
        return in_order(low, high, rigor, quantity, f"at {given}={values:g} {context}", stated_by)
    low, high = (side.reshape(values.shape) for side in np.array(intervals).T)
    return in_order(low, high, rigor, quantity, f"at given {given} {context}", stated_by)


def in_order(
    low: float | NDArray[np.float64],
    high: float | NDArray[np.float64],
    rigor: Rigor,
    quantity: str,
    context: str,
    stated_by: tuple[str, ...] = (),
) -> Bracket:
    """The bracket of ends that were computed: that they exclude each other is nobody's argument.

    >>> print(in_order(0.0, 0.5, Rigor.CERTIFIED, "delta", "| an example"))
    0 <= delta <= 0.5 | an example, certified
    """
    if np.any(np.greater(low, high)):
        where = int(np.argmax(np.greater(low, high)))
        ends = float(np.ravel(low)[where]), float(np.ravel(high)[where])
        raise Contradiction(
            f"the two sides of {quantity} {context} exclude each other: at least {ends[0]!r} and at most "
            f"{ends[1]!r}. This is a defect of sharpdp; please report it."
        )
    return Bracket(low, high, rigor, quantity, context, stated_by=stated_by)
