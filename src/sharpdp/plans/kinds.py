"""Everything that a plan can be made of, by name: classes, and class methods that make one.

What a kind takes is read off its signature, so that reading, messages and the schema agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias, get_args, get_origin

from sharpdp import batches, mechanisms
from sharpdp._validate import count, short_repr
from sharpdp.accounting import account
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import Mechanism, ProfileMechanism
from sharpdp.mechanisms.sensitivity import LeastSquares, Logistic, SensitivityDistribution
from sharpdp.renyi import RenyiCurve
from sharpdp.tradeoff import TradeoffCurve
from sharpdp.tradeoff.polyline import Polyline

__all__ = ["Maker", "admits", "arguments", "kinds"]

Maker: TypeAlias = Callable[..., Any]


def answer_curve(
    *, mechanism: Mechanism, relative_width: float = 1e-3, adjacency: str | None = None
) -> TradeoffCurve:
    """The trade-off curve of a mechanism."""
    return account(mechanism, relative_width=relative_width, adjacency=adjacency).tradeoff()


def summed_curve(
    *, curves: tuple[RenyiCurve, ...], counts: tuple[int, ...], name: str = "unnamed"
) -> RenyiCurve:
    """The sum of some Renyi curves, each so many times."""
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
    start = mechanisms.RandomlyInitializedGD
    return {
        **{kind.__name__: kind for kind in classes if kind is not ProfileMechanism},
        "BallsInBins": batches.BallsAndBins,
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
        name: parameter
        for name, parameter in parameters.items()
        if not _is_function(parameter.annotation)
    }


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
