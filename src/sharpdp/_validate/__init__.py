"""Checks of arguments, and the one shape that every message about an argument has.

A check takes one keyword, the argument under the name its caller used, and returns the cleaned
value: ``positive(noise_multiplier=x)``. A message names the argument, what is allowed, the value
and, where one helps, a hint::

    sample_rate must be in (0, 1]; got 1.7. Did you mean batch_size / dataset_size?

What an argument means is left to the caller, who passes the hint.
"""

import inspect
import math
import numbers
import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import cache, wraps
from typing import Any, NoReturn, ParamSpec, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from sharpdp.errors import InvalidArgument, WrongType

__all__ = [
    "HintedKeywords",
    "LARGEST_COUNT",
    "LARGEST_SCALE",
    "SMALLEST_SCALE",
    "zero_or_scale",
    "scale_or_inf",
    "check_unmasked",
    "checked_executor",
    "closed_probability",
    "count",
    "doubles",
    "elementwise",
    "false_positive_rate",
    "invalid",
    "flag",
    "has_entries",
    "is_among",
    "is_masked",
    "is_unseen",
    "iso_date",
    "keyword_hint",
    "kind_of",
    "half_open_probability",
    "nonnegative",
    "normalized",
    "one_line",
    "open_probability",
    "pmf",
    "positive",
    "probability",
    "real",
    "renyi_order",
    "positive_scale",
    "short_repr",
    "single",
]

LARGEST_COUNT = 10**18
"""Counts stay within 64-bit integers, with room for a factor of nine."""

SMALLEST_SCALE, LARGEST_SCALE = 1e-30, 1e30
"""Scales whose cubes and inverses are still ordinary doubles."""

LARGEST_SUM_ERROR = 1e-9
"""How far the masses of a pmf may be from 1 in sum before it looks like a mistake."""

UNIT_ROUNDOFF = 2.0**-53
"""What rounding to a double moves a mass by, relative to it."""

Made = TypeVar("Made", bound="HintedKeywords")
Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class HintedKeywords:
    """Base of frozen classes: a keyword that a class does not take is answered with the one meant.

    >>> class Noise(HintedKeywords):
    ...     def __init__(self, *, noise_multiplier: float) -> None: ...
    >>> Noise(sigma=2.0)
    Traceback (most recent call last):
    TypeError: Noise takes no keyword sigma=. Did you mean noise_multiplier=?
    """

    __slots__ = ()

    def __new__(cls: type[Made], *_: object, **keywords: object) -> Made:
        """Check the keywords before any value is looked at."""
        parameters = _parameters(cls)  # type: ignore[arg-type]  # classes are hashable
        for name in keywords:
            if name not in parameters and parameters:
                from sharpdp.display.nearest_word import nearest

                meant = nearest(name, parameters)
                listed = ", ".join(f"{parameter}=" for parameter in parameters)
                hint = f"Did you mean {meant}=?" if meant else f"It takes {listed}."
                raise TypeError(f"{cls.__name__} takes no keyword {name}=. {hint}")
        return super().__new__(cls)


def keyword_hint(method: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """A method that takes keywords only, and says which one is meant if it is called without.

    >>> class Curve:
    ...     @keyword_hint
    ...     def epsilon(self, *, delta: float) -> float: ...
    >>> Curve().epsilon(1e-5)
    Traceback (most recent call last):
    TypeError: epsilon takes its argument by name: epsilon(delta=1e-05).
    """
    _, keyword, *_ = inspect.signature(method).parameters

    @wraps(method)
    def hinted(*values: Asked.args, **keywords: Asked.kwargs) -> Answer:
        if len(values) > 1:
            call = f"{method.__name__}({keyword}={short_repr(values[1])})"
            raise TypeError(f"{method.__name__} takes its argument by name: {call}.")
        return method(*values, **keywords)

    return hinted


def by_name(function: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """A function that takes keywords only, and names those that it needs if it is called without.

    >>> @by_name
    ... def train(*, model: object, data: object, epochs: int = 1) -> None: ...
    >>> train("model", "data")
    Traceback (most recent call last):
    TypeError: train takes its arguments by name: train(model=..., data=...).
    """
    parameters = inspect.signature(function).parameters.values()
    needed = [item for item in parameters if item.kind is item.KEYWORD_ONLY]
    given = ", ".join(f"{item.name}=..." for item in needed if item.default is item.empty)

    @wraps(function)
    def hinted(*values: Asked.args, **keywords: Asked.kwargs) -> Answer:
        if values:
            name = function.__name__
            raise TypeError(f"{name} takes its arguments by name: {name}({given}).")
        return function(*values, **keywords)

    return hinted


@cache
def _parameters(kind: type) -> tuple[str, ...]:
    """The names of what a class is made from, none if it takes any keyword."""
    parameters = inspect.signature(kind).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    return () if inspect.Parameter.VAR_KEYWORD in kinds else tuple(parameters)


def invalid(name: str, allowed: str, value: object, hint: str = "") -> InvalidArgument:
    """The exception that says: ``name`` must be ``allowed``; got ``value``. ``hint``."""
    return InvalidArgument(_sentence(name, allowed, short_repr(value), hint))


def short_repr(value: object) -> str:
    """The value as a message shows it: short, and plain for numbers of any library."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return f"{'a masked' if is_masked(value) else 'an'} array of shape {value.shape}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if type(value).__module__ == "torch" and hasattr(value, "shape"):  # no records in messages
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    # larger integers are shown as a power of ten
    if isinstance(value, int) and abs(value) > 10**24:
        return f"{'-' if value < 0 else ''}10^{math.log10(abs(value)):.4g}"
    try:
        text = repr(value)
    except Exception:  # integers of more than 4300 digits in a list, and objects of any kind
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def kind_of(value: object) -> str:
    """What kind of value this is, for messages about data that must not be told.

    >>> kind_of([[17.0]])
    'an object of type list'
    """
    if value is None:
        return "None"
    shape = getattr(value, "shape", None)
    more = f" and shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    return f"an object of type {type(value).__name__}{more}"


def flag(**argument: object) -> bool:
    """The argument, if it is True or False.

    >>> flag(strict=True)
    True
    """
    ((name, value),) = argument.items()
    if isinstance(value, bool):
        return value
    raise WrongType(_sentence(name, "True or False", short_repr(value), ""))


def checked_executor(executor: object) -> None:
    """An error unless this is None, or something that runs tasks as executors do."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise WrongType(f"executor must be one of concurrent.futures; got {short_repr(executor)}.")


def real(*, hint: str = "", **argument: object) -> float:
    """The argument as a finite float.

    >>> real(epsilon=-2)
    -2.0
    """
    number = _number(argument, allowed := "a finite number")
    return number if math.isfinite(number) else _refuse(argument, allowed, number, hint)


def positive(*, hint: str = "", **argument: object) -> float:
    """The argument as a finite float greater than 0.

    >>> positive(width=0.5)
    0.5
    """
    number = _number(argument, allowed := "a finite number greater than 0")
    return number if 0 < number < math.inf else _refuse(argument, allowed, number, hint)


def positive_scale(*, hint: str = "", **argument: object) -> float:
    """The argument as a float greater than 0 that can be squared and inverted without overflow.

    >>> positive_scale(noise_multiplier=1)
    1.0
    """
    number = _number(argument, allowed := "greater than 0")
    return _in_range(number, argument) if number > 0 else _refuse(argument, allowed, number, hint)


def scale_or_inf(*, hint: str = "", **argument: object) -> float:
    """The argument as for ``positive_scale``, or infinity where there is no ceiling.

    >>> scale_or_inf(clip=math.inf)
    inf
    """
    ((_, value),) = argument.items()
    value = single(value)
    if isinstance(value, float | np.floating) and value == math.inf:
        return math.inf
    return positive_scale(hint=hint, **argument)


def nonnegative(*, hint: str = "", **argument: object) -> float:
    """The argument as a finite float, 0 or more.

    >>> nonnegative(epsilon=0)
    0.0
    """
    number = _number(argument, allowed := "a finite number, at least 0")
    return number if 0 <= number < math.inf else _refuse(argument, allowed, number, hint)


def zero_or_scale(*, hint: str = "", **argument: object) -> float:
    """The argument as a float that is 0, or can be squared and inverted without overflow.

    >>> zero_or_scale(epsilon=0)
    0.0
    """
    number = _number(argument, allowed := "at least 0")
    if not number >= 0:
        _refuse(argument, allowed, number, hint)
    return _in_range(number, argument) if number else 0.0


def half_open_probability(*, hint: str = "", **argument: object) -> float:
    """The argument as a float in [0, 1).

    >>> half_open_probability(delta=0)
    0.0
    """
    number = _number(argument, allowed := "in [0, 1)")
    return number if 0 <= number < 1 else _refuse(argument, allowed, number, hint)


def probability(*, hint: str = "", **argument: object) -> float:
    """The argument as a float in (0, 1].

    >>> probability(sample_rate=1)
    1.0
    """
    number = _number(argument, allowed := "in (0, 1]")
    return number if 0 < number <= 1 else _refuse(argument, allowed, number, hint)


def closed_probability(*, hint: str = "", **argument: object) -> float:
    """The argument as a float in [0, 1].

    >>> closed_probability(sample_rate=0)
    0.0
    """
    number = _number(argument, allowed := "in [0, 1]")
    return number if 0 <= number <= 1 else _refuse(argument, allowed, number, hint)


def open_probability(*, hint: str = "", **argument: object) -> float:
    """The argument as a float in (0, 1).

    >>> open_probability(delta=1e-5)
    1e-05
    """
    number = _number(argument, allowed := "in (0, 1)")
    return number if 0 < number < 1 else _refuse(argument, allowed, number, hint)


def false_positive_rate(*, hint: str = "", **argument: object) -> float:
    """The argument as a float in [0, 1].

    >>> false_positive_rate(fpr=0)
    0.0
    """
    number = real(hint=hint, **argument)
    why = "It is the false-positive rate of an attack."
    return number if 0 <= number <= 1 else _refuse(argument, "in [0, 1]", number, why)


def renyi_order(*, hint: str = "", **argument: object) -> float:
    """The argument as a finite float greater than 1.

    >>> renyi_order(order=2)
    2.0
    """
    ((name, _),) = argument.items()
    number = real(hint=hint, **argument)
    if not number > 1.0:
        raise invalid(name, "greater than 1", number, hint)
    return number


def count(*, least: int = 1, hint: str = "", **argument: object) -> int:
    """The argument as an integer from ``least`` to 10^18; 3.0 counts as 3.

    >>> count(steps=3.0)
    3
    """
    ((name, value),) = argument.items()
    allowed = f"a whole number, at least {least}"
    number = _number(argument, allowed)
    value = single(value)
    if isinstance(value, numbers.Integral):
        exact = int(value)
    else:
        exact = int(number) if number.is_integer() else least - 1
    if exact < least:
        _refuse(argument, allowed, number, hint)
    if exact > LARGEST_COUNT:
        raise invalid(name, "at most 10^18", value, hint)
    return exact


def pmf(*, hint: str = "", **argument: object) -> tuple[float, ...]:
    """The argument as a tuple of masses, at least 0 each, whose sum is 1.

    A sum that is off by at most 1e-9 is taken for rounding, and the masses are divided by it.

    >>> pmf(p=[0.25, 0.75])
    (0.25, 0.75)
    """
    ((name, value),) = argument.items()
    allowed = "a list of at least one probability"
    hint = hint or "Give one probability per outcome, such as [0.25, 0.75]."
    if not has_entries(value):
        raise WrongType(_sentence(name, allowed, _kind(value), hint))
    masses = tuple(
        nonnegative(hint="It is a probability.", **{f"{name}[{index}]": entry})
        for index, entry in enumerate(value)
    )
    if not masses:
        raise InvalidArgument(_sentence(name, allowed, "an empty one", hint))
    total = math.fsum(masses)
    if abs(total - 1) > LARGEST_SUM_ERROR:
        got = f"masses with sum {total:.12g}"
        hint = "Divide them by their sum if that is what you mean."
        raise InvalidArgument(_sentence(name, "probabilities with sum 1", got, hint))
    return normalized(masses)


def normalized(masses: tuple[float, ...]) -> tuple[float, ...]:
    """The masses divided by their sum, unless that is off by no more than a division would leave.

    So masses that were divided once stay as they are.

    >>> normalized((0.2, 0.2))
    (0.5, 0.5)
    """
    total = math.fsum(masses)
    if abs(total - 1.0) <= len(masses) * UNIT_ROUNDOFF:
        return masses
    return tuple(entry / total for entry in masses)


def doubles(values: object) -> NDArray[np.float64]:
    """The values as an array of doubles; of no entries if they are no real numbers, ragged or masked.

    >>> doubles([1, 2]).tolist(), doubles("x").size, doubles([[1], [1, 2]]).size
    ([1.0, 2.0], 0, 0)
    """
    if is_masked(values):
        return np.zeros(0)
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return np.zeros(0)
    return array.astype(np.float64) if array.dtype.kind in "fiu" else np.zeros(0)


def is_masked(values: object) -> bool:
    """Whether some entries of an array are masked: they have values, which are not to be used.

    >>> is_masked(np.ma.masked_array([1.0, 2.0], [False, True])), is_masked(np.zeros(2))
    (True, False)
    """
    return isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any())


def check_unmasked(**argument: object) -> None:
    """An error if entries of the argument are masked.

    >>> check_unmasked(delta=np.ma.masked_array([1e-5, 1e-6]))
    """
    ((name, value),) = argument.items()
    if isinstance(value, np.ma.MaskedArray) and is_masked(value):
        hint = "Pass array.compressed(), or array.filled(...) with what masked entries stand for."
        got = "a masked number" if value.ndim == 0 else short_repr(value)
        raise InvalidArgument(_sentence(name, "numbers without a mask", got, hint))


def single(value: object) -> object:
    """The number in an array or a tensor without dimensions, of any library; other values as they are.

    >>> single(np.array(3)), single(np.array([3]))
    (3, array([3]))
    """
    item = getattr(value, "item", None)
    if isinstance(value, type) or not callable(item) or is_masked(value):
        return value
    if tuple(getattr(value, "shape", (1,))) != ():
        return value
    try:
        return item()
    except Exception:  # a tensor without data, or whatever else looks like one number
        return value


def is_among(words: Container[str], value: object) -> bool:
    """Whether the value is one of these words; an array is none, and is not compared with them.

    >>> is_among(("hidden", "released"), "hidden"), is_among(("hidden",), np.zeros(2))
    (True, False)
    """
    return isinstance(value, str) and value in words


def has_entries(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether one can go through the value entry by entry: no text, mapping, class or lone number.

    >>> has_entries([0.1]), has_entries("0.1"), has_entries(np.array(0.1))
    (True, False, False)
    """
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | type)


def one_line(*, hint: str = "", **argument: object) -> str:
    """The argument as text of one line, without control and formatting characters.

    Escape sequences would steer a terminal, and bidirectional marks would reorder what a reader sees.

    >>> one_line(name="first release")
    'first release'
    """
    ((name, value),) = argument.items()
    if not isinstance(value, str):
        raise WrongType(_sentence(name, "text", short_repr(value), hint))
    if unseen := next((character for character in value if is_unseen(character)), ""):
        got = f"the character U+{ord(unseen):04X}"
        allowed = "text of one line without control or formatting characters"
        raise InvalidArgument(_sentence(name, allowed, got, hint))
    return value


def iso_date(**argument: object) -> str:
    """The argument as a date: year, month and day.

    >>> iso_date(date="2026-01-31")
    '2026-01-31'
    """
    hint = "Such as '2026-01-31'."
    ((name, value),) = argument.items()
    text = one_line(**argument, hint=hint)
    with suppress(ValueError):
        if date.fromisoformat(text).isoformat() == text:  # some Pythons read other forms as well
            return text
    raise InvalidArgument(_sentence(name, "a date as YYYY-MM-DD", short_repr(value), hint))


def is_unseen(character: str) -> bool:
    """Whether a character is a control, formatting, surrogate or line-separating one.

    >>> is_unseen("a"), is_unseen(chr(27)), is_unseen(chr(0x202E))
    (False, True, True)
    """
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def elementwise(
    check: Callable[..., float], *, hint: str = "", **argument: object
) -> float | NDArray[np.float64]:
    """The argument through ``check``: a float for a number, an array for a list or an array.

    The check must pass every number between two that it passes, unchanged: of an array of real numbers
    the smallest and the largest are looked at, and the others only to name one that is wrong.

    >>> elementwise(open_probability, delta=[1e-6, 0.5])
    array([1.e-06, 5.e-01])
    """
    ((name, value),) = argument.items()
    # subclasses of arrays may hide some of their entries
    is_real = type(value) is np.ndarray and value.dtype.kind in "fiu"
    check_unmasked(**argument)
    if not is_real and (isinstance(value, list | tuple | range) or hasattr(value, "__array__")):
        value = np.asarray(value, dtype=object)
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        scalar: float = check(hint=hint, **argument)
        return scalar
    if value.size == 0:
        raise invalid(name, "a number or an array with at least one number", value, hint)
    if is_real:
        real_numbers = value.astype(np.float64)
        with suppress(InvalidArgument):
            for extreme in (real_numbers.min(), real_numbers.max()):  # NaN if there is one
                check(hint=hint, **{name: float(extreme)})
            return real_numbers
    entries = (
        check(hint=hint, **{f"{name}[{', '.join(map(str, index))}]": value[index]})
        for index in np.ndindex(value.shape)
    )
    checked: NDArray[np.float64] = np.array(list(entries), dtype=np.float64).reshape(value.shape)
    return checked


def _refuse(argument: dict[str, object], allowed: str, number: float, hint: str) -> NoReturn:
    """Raise what says that the argument, as a float the number, is not what is allowed."""
    ((name, value),) = argument.items()
    if math.isnan(number):
        hint = "It is not a number: look for 0/0 or inf - inf before this call."
    raise invalid(name, allowed, value, hint)


def _in_range(number: float, argument: dict[str, object]) -> float:
    """The number, if it is neither so small nor so large that double precision breaks down."""
    if SMALLEST_SCALE <= number <= LARGEST_SCALE:
        return number
    ((name, value),) = argument.items()
    allowed = f"between {SMALLEST_SCALE:g} and {LARGEST_SCALE:g}"
    raise invalid(name, allowed, value, "Beyond that, double precision breaks down.")


def _number(argument: dict[str, object], allowed: str) -> float:
    """The argument as a float, infinite if it is too large for one; WrongType if it is no number."""
    ((name, value),) = argument.items()
    check_unmasked(**argument)
    value = single(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        raise WrongType(_sentence(name, allowed, _kind(value), _type_hint(value)))
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # of Real
    except ValueError:  # a signaling NaN of decimals
        return math.nan


def _sentence(name: str, allowed: str, got: str, hint: str) -> str:
    text = f"{name} must be {allowed}; got {got}."
    return f"{text} {hint}" if hint else text


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool | np.bool_ | np.ndarray | type):
        return short_repr(value)
    return f"{short_repr(value)} (of type {type(value).__name__})"


def _type_hint(value: object) -> str:
    if value is None:
        return "It has no default."
    if isinstance(value, bool | np.bool_):
        return "True and False are not taken for 1 and 0."
    if isinstance(value, str | bytes) and _reads_as_number(value):
        return "Pass the number without quotes."
    if isinstance(value, complex):
        return "Pass its real part if that is what you mean."
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return "Pass one number."
    return "Pass a plain number."


def _reads_as_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
