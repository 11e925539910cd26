"""Answers that do not depend on what the caller's `np.seterr` says about underflow.

Tails and weights below the smallest double are zero here, and the error bounds count them. A caller who
looks for mistakes with `np.seterr(all="raise")` would get an error from the first one, so what users call
computes with underflow ignored. Divisions by zero, overflow and invalid operations are left as the caller
has them: where one is meant, the line itself says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from types import FunctionType
from typing import ParamSpec, TypeVar

import numpy as np

__all__ = ["underflow_is_zero", "underflow_is_zero_in_methods"]

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
Class = TypeVar("Class", bound=type)

_COMPUTING = {"__call__", "__post_init__"}


def underflow_is_zero(function: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """The function, with underflow ignored while it runs.

    >>> tail = underflow_is_zero(lambda x: np.exp(-x))
    >>> with np.errstate(all="raise"):
    ...     float(tail(1e3))
    0.0
    """

    @wraps(function)
    def computed(*values: Asked.args, **keywords: Asked.kwargs) -> Answer:
        with np.errstate(under="ignore"):  # numpy 1.26 cannot enter one twice
            return function(*values, **keywords)

    return computed


def underflow_is_zero_in_methods(kind: Class) -> Class:
    """The class, with underflow ignored in its methods and properties.

    Of the methods with two underscores only `__post_init__` and `__call__` compute.

    >>> @underflow_is_zero_in_methods
    ... class Tail:
    ...     def at(self, x):
    ...         return np.exp(-x)
    >>> with np.errstate(all="raise"):
    ...     float(Tail().at(1e3))
    0.0
    """
    for name, member in list(vars(kind).items()):
        if isinstance(member, cached_property):
            member.func = underflow_is_zero(member.func)
        elif isinstance(member, property) and member.fget is not None:
            setattr(kind, name, property(underflow_is_zero(member.fget), doc=member.__doc__))
        elif isinstance(member, classmethod):
            setattr(kind, name, classmethod(underflow_is_zero(member.__func__)))
        elif isinstance(member, FunctionType) and (name in _COMPUTING or not name.startswith("__")):
            setattr(kind, name, underflow_is_zero(member))
    return kind
