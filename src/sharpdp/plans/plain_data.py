"""Mechanisms as plain data and back: numbers, words, lists and mappings, as JSON and TOML hold them.

What a kind takes is read off its signature, so that reading, messages and the schema agree. Infinities
are written "inf", exact fractions "1/3". A curve is written as the call that makes it. What holds a
function that has no such call cannot be written.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, TypeAlias, TypeVar, get_args, get_origin

import numpy as np

from sharpdp import batches, mechanisms
from sharpdp._validate import count, short_repr
from sharpdp.bracket import STANDARD_WIDTH, Rigor
from sharpdp.curves.renyi import RenyiCurve
from sharpdp.curves.renyi.curve import Proportional, Summed
from sharpdp.curves.tradeoff.curve import PairOracle, TradeoffCurve
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.display.nearest_word import hint
from sharpdp.errors import InvalidArgument, SharpDPError, Unsupported, WrongType
from sharpdp.mechanisms import Mechanism, ProfileMechanism
from sharpdp.mechanisms.sensitivity import LeastSquares, Logistic, SensitivityDistribution
from sharpdp.pairs.pair import GaussianPair

__all__ = [
    "Maker",
    "admits",
    "arguments",
    "kinds",
    "mechanism_from_data",
    "number_from_data",
    "number_to_data",
    "to_data",
]

Maker: TypeAlias = Callable[..., Any]

MOST_NESTED = 64
"""How deep mechanisms may be nested in each other: far deeper than anyone would read."""

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
"""Numbers that JSON has no digits for."""

EXACT = re.compile(r"-?\d+(/\d*[1-9]\d*)?")
"""A fraction in words, such as 1/3."""


def answer_curve(
    *,
    mechanism: Mechanism,
    relative_width: float = STANDARD_WIDTH,
    adjacency: str | None = None,
    group_size: int = 1,
) -> TradeoffCurve:
    """The trade-off curve of a mechanism."""
    return TradeoffCurve.of(
        mechanism, relative_width=relative_width, adjacency=adjacency, group_size=group_size
    )


def summed_curve(
    *, curves: tuple[RenyiCurve, ...], counts: tuple[int, ...], name: str = "unnamed"
) -> RenyiCurve:
    """The sum of some Renyi curves, each with a count."""
    listed: dict[str, Any] = {"curves": curves, "counts": counts}
    for title, entries in listed.items():
        if not isinstance(entries, list | tuple) or not entries:
            raise WrongType(
                f"{title} must be a list with at least one entry; got {short_repr(entries)}."
            )
    if len(curves) != len(counts):
        raise InvalidArgument(
            f"counts must have one entry per curve; got {len(counts)} for {len(curves)} curves."
        )
    for index, curve in enumerate(curves):
        if not isinstance(curve, RenyiCurve):
            raise WrongType(f"curves[{index}] must be a RenyiCurve; got {short_repr(curve)}.")
    checked: list[dict[str, Any]] = [{f"counts[{index}]": n} for index, n in enumerate(counts)]
    times = [count(**argument) for argument in checked]
    return RenyiCurve.summed(tuple(zip(curves, times, strict=True)), name)


@lru_cache(maxsize=1)
def kinds() -> dict[str, Maker]:
    """Everything that a plan can be made of, by name.

    Returns:
        Classes, and functions that make an instance of one, by the name that a plan has for them.

    >>> kinds()["Gaussian"].__name__, "RenyiCurve.zcdp" in kinds()
    ('Gaussian', True)
    """
    members = [getattr(mechanisms, name) for name in mechanisms.__all__]
    members += [getattr(batches, name) for name in batches.__all__]
    members += [LeastSquares, Logistic, SensitivityDistribution, Polyline, RenyiCurve]
    classes = [kind for kind in members if inspect.isclass(kind) and is_dataclass(kind)]
    start, loss = mechanisms.RandomlyInitializedGD, mechanisms.SmoothLoss
    return {
        **{kind.__name__: kind for kind in classes if kind is not ProfileMechanism},
        "BallsInBins": batches.BallsAndBins,
        "SmoothLoss.least_squares": loss.least_squares,
        "SmoothLoss.logistic": loss.logistic,
        "SmoothLoss.softmax": loss.softmax,
        "RandomlyInitializedGD.least_squares": start.least_squares,
        "RandomlyInitializedGD.logistic": start.logistic,
        "RenyiCurve.summed": summed_curve,
        "RenyiCurve.zcdp": RenyiCurve.zcdp,
        "TradeoffCurve.between": TradeoffCurve.between,
        "TradeoffCurve.from_knots": TradeoffCurve.from_knots,
        "TradeoffCurve.from_pmfs": TradeoffCurve.from_pmfs,
        "TradeoffCurve.from_points": TradeoffCurve.from_points,
        "TradeoffCurve.gaussian": TradeoffCurve.gaussian,
        "TradeoffCurve.of": answer_curve,
    }


@cache
def arguments(made: Maker) -> dict[str, inspect.Parameter]:
    """Parameters of a kind by name; functions cannot be written and are left out.

    >>> list(arguments(SensitivityDistribution))
    ['atoms', 'interval']
    """
    parameters = inspect.signature(made, eval_str=True).parameters
    return {
        name: parameter.replace(annotation=_bound_of(parameter.annotation))
        for name, parameter in parameters.items()
        if not _is_function(parameter.annotation)
    }


def _bound_of(annotation: Any) -> Any:
    """The bound of a type variable, such as that of a batch scheme; other annotations as they are."""
    return annotation.__bound__ if isinstance(annotation, TypeVar) else annotation


def _is_function(annotation: Any) -> bool:
    """Whether only a function fits, or nothing."""
    if get_origin(annotation) is Callable:
        return True
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return len(parts) == 1 and _is_function(parts[0])


def admits(annotation: Any, kind: type) -> bool:
    """Whether a value of this kind fits somewhere.

    >>> admits(tuple[float, ...] | None, float), admits(str | int, float)
    (True, False)
    """
    if isinstance(annotation, str):  # a name in quotes, as some aliases are
        return kind.__name__ in annotation
    return annotation is kind or any(admits(part, kind) for part in get_args(annotation))


def to_data(value: object, *, depth: int = 0) -> Any:
    """A mechanism, a batch scheme or one of their fields as numbers, words, lists and mappings.

    Args:
        value: A mechanism, a batch scheme, a curve, or a field of one.
        depth: How deep the value is nested in others, at most 64; 0 for what is written itself.

    Returns:
        What JSON and TOML can hold. Fields that are None are left out.

    Raises:
        Unsupported: The value holds a function, a curve without a call that makes it, or an object of a
            kind that plans do not know; or it is nested too deeply.

    >>> from sharpdp.mechanisms import Gaussian
    >>> to_data(Gaussian(noise_multiplier=2.0) * 3)
    {'kind': 'Repeated', 'mechanism': {'kind': 'Gaussian', 'noise_multiplier': 2.0}, 'count': 3}
    >>> to_data(TradeoffCurve.gaussian(mu=0.5))
    {'kind': 'TradeoffCurve.gaussian', 'mu': 0.5}
    """
    if depth > MOST_NESTED:
        raise Unsupported(f"a plan cannot hold mechanisms nested more than {MOST_NESTED} deep.")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float | Fraction):
        return number_to_data(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, tuple | list):
        return [to_data(entry, depth=depth + 1) for entry in value]
    kind, call = _call(value)
    written = {name: to_data(argument, depth=depth + 1) for name, argument in call.items()}
    return {
        "kind": kind,
        **{name: argument for name, argument in written.items() if argument is not None},
    }


def number_to_data(number: float | Fraction) -> Any:
    """A number as JSON can hold it: infinities and fractions in words.

    >>> number_to_data(math.inf), number_to_data(Fraction(1, 3))
    ('inf', '1/3')
    """
    if isinstance(number, float):
        return str(number) if math.isinf(number) else number
    try:
        return str(number)
    except ValueError as fault:  # Python writes no integers of thousands of digits
        raise Unsupported(
            "a plan cannot hold fractions of thousands of digits. Round the knots of the curve: "
            "downwards for its lower side, upwards for its upper side."
        ) from fault


def number_from_data(data: object) -> Any:
    """The number that was written in words; anything else stays what it is.

    >>> number_from_data("inf"), number_from_data("1/3"), number_from_data("x")
    (inf, Fraction(1, 3), 'x')
    """
    if not isinstance(data, str):
        return data
    if data in INFINITIES:
        return INFINITIES[data]
    if not EXACT.fullmatch(data):
        return data
    try:
        return Fraction(data)
    except ValueError as fault:
        raise InvalidArgument(f"a fraction must have fewer digits; got {len(data)}.") from fault


def _call(value: Any) -> tuple[str, dict[str, object]]:
    """The kind and the arguments that make this again."""
    if isinstance(value, TradeoffCurve):
        return _tradeoff_call(value)
    if isinstance(value, RenyiCurve) and value.function is not None:
        return _renyi_call(value)
    name = type(value).__name__
    made: Any = kinds().get(name)
    if made is not type(value):
        raise Unsupported(
            f"a plan cannot hold {short_repr(value)}. Only mechanisms made of numbers, words and curves "
            "that are known by them can be written."
        )
    own = [field.name for field in fields(value) if not field.name.startswith("_")]
    return name, _said({field: getattr(value, field) for field in own})


def _said(call: dict[str, object]) -> dict[str, object]:
    """The arguments without a rigor that goes without saying."""
    return {name: argument for name, argument in call.items() if argument is not Rigor.CERTIFIED}


def _tradeoff_call(curve: TradeoffCurve) -> tuple[str, dict[str, object]]:
    guarantee = curve.oracle.guarantee
    if guarantee is not None:
        asked = ["mechanism", "relative_width", "adjacency"]
        if guarantee.group_size > 1:
            asked.append("group_size")
        return "TradeoffCurve.of", {name: getattr(guarantee, name) for name in asked}
    if isinstance(curve.oracle, PairOracle):
        steps = curve.oracle.pairs.merged_steps
        pair = steps[0][0]
        if len(steps) == 1 and steps[0][1] == 1 and type(pair) is GaussianPair:
            return "TradeoffCurve.gaussian", {"mu": pair.mu}
        raise Unsupported(
            f"a plan cannot hold {short_repr(curve)}, which is known by its pair only. "
            "Write curve.refined(width=1e-6), which is known by its knots."
        )
    lower, upper = curve.bounds
    certified = curve.rigor is Rigor.CERTIFIED
    if curve.attained and lower == upper and certified:
        return "TradeoffCurve.from_knots", {"fpr": lower.fpr, "fnr": lower.fnr, "name": curve.name}
    names = ("attained", "name", "rigor")
    between = {"lower": lower, "upper": upper, **{field: getattr(curve, field) for field in names}}
    return "TradeoffCurve.between", _said(between)


def _renyi_call(curve: RenyiCurve) -> tuple[str, dict[str, object]]:
    function = curve.function
    if isinstance(function, Proportional):
        return "RenyiCurve.zcdp", {"rho": function.rho}
    if isinstance(function, Summed):
        curves, counts = zip(*function.parts, strict=True)
        return "RenyiCurve.summed", {"curves": curves, "counts": counts, "name": curve.name}
    raise Unsupported(
        f"a plan cannot hold the function of {curve.describe()}. "
        "Write account(curve).renyi_curve(), which is known by its values at some orders."
    )


def mechanism_from_data(data: object, where: str = "mechanism", *, depth: int = 0) -> Any:
    """The mechanism or batch scheme that was written; what is wrong is named by its place in the plan.

    Args:
        data: What `to_data` gives: a mapping with a "kind", or a list of such; other values stay as
            they are.
        where: Place in the plan, for messages.
        depth: How deep the data are nested in others, at most 64; 0 for the whole.

    Returns:
        The object of that kind, or a list of them.

    Raises:
        InvalidArgument: A kind or a field is unknown or missing, or a value is out of range.
        WrongType: A value has the wrong type.

    >>> mechanism_from_data({"kind": "Gaussian", "noise_multiplier": 2.0})
    Gaussian(noise_multiplier=2.0)
    """
    if depth > MOST_NESTED:
        raise InvalidArgument(f"{where[:MOST_NESTED]}... is nested more than {MOST_NESTED} deep.")
    if isinstance(data, list | tuple):
        entries = ((entry, f"{where}[{index}]") for index, entry in enumerate(data))
        return [mechanism_from_data(entry, path, depth=depth + 1) for entry, path in entries]
    if not isinstance(data, Mapping):
        return data
    made = _maker(data, where)
    allowed = arguments(made)
    values = {}
    for name, value in data.items():
        if name == "kind":
            continue
        if name not in allowed:
            ask = hint(str(name), allowed, f"It has {', '.join(allowed)}.")
            raise InvalidArgument(f"{where}: {data['kind']} has no field {name!r}.{ask}")
        path = f"{where}.{name}"
        read = mechanism_from_data(value, path, depth=depth + 1)
        values[name] = _numbers(read, allowed[name].annotation, path)
    return _made(made, values, data["kind"], where)


def _maker(data: Mapping[Any, Any], where: str) -> Maker:
    """The class or class method of the kind that is written."""
    makers = kinds()
    if "kind" not in data:
        got = ", ".join(map(str, data)) or "nothing"
        raise InvalidArgument(f'{where} must have a kind, such as kind = "Gaussian"; got {got}.')
    name = data["kind"]
    if not isinstance(name, str) or name not in makers:
        ask = hint(str(name), makers, f"There are {', '.join(_fitting(where))}.")
        raise InvalidArgument(f"{where}.kind must be known; got {short_repr(name)}.{ask}")
    return makers[name]


def _fitting(where: str) -> list[str]:
    """The classes that fit a place, by name: batch schemes for batches, others elsewhere."""
    wants_batches = where.endswith(".batches")
    return [
        name
        for name, made in sorted(kinds().items())
        if name == made.__name__ and hasattr(batches, name) == wants_batches
    ]


def _numbers(value: Any, annotation: Any, where: str) -> Any:
    """The value with the numbers in it that are written in words, if numbers are wanted there."""
    if isinstance(value, list):
        return [_numbers(entry, annotation, where) for entry in value]
    if not isinstance(value, str) or not _is_number(value, annotation):
        return value
    try:
        return number_from_data(value)
    except InvalidArgument as fault:
        raise InvalidArgument(f"{where}: {fault}") from fault


def _is_number(word: str, annotation: Any) -> bool:
    """Whether the word stands for a number where numbers like it are wanted."""
    is_infinite = word in INFINITIES and admits(annotation, float)
    return is_infinite or admits(annotation, Fraction)


def _made(made: Maker, values: dict[str, Any], kind: str, where: str) -> Any:
    """The thing itself; what its own checks find is told with its place."""
    try:
        return made(**values)
    except SharpDPError as fault:
        raise type(fault)(f"{where}: {fault}") from fault
    except TypeError as fault:
        needed = [
            n
            for n, parameter in arguments(made).items()
            if parameter.default is inspect.Parameter.empty
        ]
        missing = [name for name in needed if name not in values]
        raise InvalidArgument(f"{where}: {kind} needs {', '.join(missing) or fault}.") from fault
