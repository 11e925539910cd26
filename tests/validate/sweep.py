"""Every public call with every wrong value: what can be called, and how it answers.

Calls are found by their signatures, so that a new name, method or parameter is swept as soon as it is
there. Values to call with are in `arguments`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import sharpdp as dp
from sharpdp.errors import InvalidArgument, SharpDPError
from tests.validate.arguments import EXAMPLES, GOOD, WRONG, Made

ROOMS = (
    "sharpdp",
    "sharpdp.batches",
    "sharpdp.mechanisms",
    "sharpdp.mechanisms.sensitivity",
    "sharpdp.learn",
    "sharpdp.curves.tradeoff",
    "sharpdp.curves.mixtures",
    "sharpdp.curves.mixtures.inequalities",
    "sharpdp.learn.dpsgd",
    "sharpdp.learn.gradients",
    "sharpdp.learn.gaussian_noise",
    "sharpdp.integrations.dp_accounting",
    "sharpdp.integrations.torch",
)
"""Where public names are; only what needs Opacus, which warns, is left to its own tests."""

INSIDE = {
    "CoordinateSigns.signs",
    "EnclosedSensitivity.bounds",
    "HadamardSigns.signs",
    "MinSeparation.batches",  # refused, whatever the arguments are
    "MonotoneSensitivity.values",
    "PrivUnit.code_of",
    "PrivUnit.drawn",
    "RenyiCurve.at",
    "RenyiCurve.best",
    "RenyiCurve.summed",
    "DrawCache.settle",
    "Training.epsilon",  # there is no step yet
    "distribution",
    "seed_generators",
}
"""What only the library itself calls, with arguments that were checked, and one that has its test."""


SLOW = {
    "compare_samplers",
    "SamplerComparison.smallest_noise",
    "estimate",
    "calibrate",
    "plan_collection",
}
"""Calls that take long if what they are given is right after all: no numbers are tried."""

QUICK = {"Budget": lambda: dp.Budget(divergence=1.0, order=8.0)}
"""For methods of classes whose usual objects take long to make, another object, made for each call."""

NUMBERS = {"0", "0.5", "1e308", "5e-324", "scalar array", "fraction", "decimal"}

ALIASES = {"Guarantee.from_json": "report"}
"""What else a message may call the argument."""


@dataclass(frozen=True)
class Call:
    """One public call: its name, the parameters that are swept, and how to call it."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[inspect.Parameter, ...]

    def arguments(self) -> dict[str, Any]:
        """A good value for each parameter that needs one."""
        found = {}
        for one in self.parameters:
            value = GOOD.get(f"{self.name}({one.name})", GOOD.get(one.name, one.default))
            found[one.name] = value.make() if isinstance(value, Made) else value
        return found

    def __call__(self, arguments: dict[str, Any]) -> Any:
        """The result; one that is lazy is asked for its first entry."""
        by_place = [
            arguments.pop(one.name) for one in self.parameters if one.kind is one.POSITIONAL_ONLY
        ]
        result = self.function(*by_place, **arguments)
        return next(result, None) if isinstance(result, Iterator) else result


def calls(rooms: tuple[str, ...] = ROOMS) -> list[Call]:
    """Every public function, constructor and method of these modules, once."""
    found: dict[str, Call] = {}
    for room in rooms:
        home = import_module(room)
        for name in home.__all__:
            thing = getattr(home, name)
            own = getattr(thing, "__module__", "").startswith("sharpdp")
            if own and callable(thing) and not is_fixed(thing):
                for call in _calls_of(name, thing):
                    found.setdefault(call.name, call)
    # a data frame needs pandas, and has its own test
    kept = (call for call in found.values() if not call.name.endswith(".to_dataframe"))
    return [call for call in kept if call.name not in INSIDE]


def is_fixed(thing: object) -> bool:
    """Exceptions and words of a fixed list."""
    return isinstance(thing, type) and issubclass(thing, Exception | Enum)


def _calls_of(name: str, thing: Any) -> Iterator[Call]:
    if name not in EXAMPLES:
        yield Call(name, thing, _parameters(thing))
    if not isinstance(thing, type):
        return
    for word in dir(thing):
        static = inspect.getattr_static(thing, word)
        if word.startswith("_") or not callable(getattr(thing, word)):
            continue
        if isinstance(static, classmethod | staticmethod):
            function = getattr(thing, word)
        elif inspect.isfunction(static):
            if word not in vars(thing) and _swept_above(thing, word):
                continue
            function = _method(name, thing, word)
        else:
            continue
        yield Call(f"{name}.{word}", function, _parameters(getattr(thing, word)))


def _swept_above(thing: type, word: str) -> bool:
    """Whether a method is swept with the class that it comes from."""
    return any(word in vars(base) and base.__name__ in EXAMPLES for base in thing.__mro__[1:])


def _method(name: str, thing: Any, word: str) -> Callable[..., Any]:
    """The method of an object that is made for each call."""

    def call(**arguments: Any) -> Any:
        return getattr(example(name, thing), word)(**arguments)

    return call


def example(name: str, thing: Any) -> Any:
    """One object of a class."""
    if name in EXAMPLES:
        return EXAMPLES[name]()
    if name in QUICK:
        return QUICK[name]()
    make = Call(name, thing, _parameters(thing))
    return make(make.arguments())


def _parameters(function: Any) -> tuple[inspect.Parameter, ...]:
    every = inspect.signature(function).parameters.values()
    return tuple(
        one
        for one in every
        if one.name != "self" and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    )


def faults(call: Call) -> list[str]:
    """What is wrong with the answers of a call to good and to wrong values; nothing if all is well."""
    found = [] if (fault := _fault(call, "", None)) is None else [f"good values: {fault}"]
    for one in call.parameters:
        for words, value in WRONG.items():
            if call.name in SLOW and words in NUMBERS:
                continue
            if (fault := _fault(call, one.name, value)) is not None:
                found.append(f"{one.name} = {words}: {fault}")
    return found


def _fault(call: Call, name: str, value: Any) -> str | None:
    """How a call fails other than by an error of sharpdp that names an argument; None if it does not."""
    arguments = call.arguments()
    if name:
        arguments[name] = value
    try:
        call(arguments)
    except InvalidArgument as refused:
        known = [one.name for one in call.parameters] + [ALIASES.get(call.name, "")]
        if not name or not any(word and word in str(refused) for word in known):
            return f"no argument is named: {refused}"
    except SharpDPError as refused:
        return None if name else str(refused)
    except Exception as raw:
        return f"{type(raw).__name__}: {raw}"
    finally:
        if "matplotlib.pyplot" in sys.modules:  # what was drawn
            sys.modules["matplotlib.pyplot"].close("all")
    return None
