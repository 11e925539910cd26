"""Polylines as pairs of laws, and laws as fractions: what the calculus of mixtures is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from sharpdp._validate import LARGEST_SUM_ERROR, has_entries, invalid, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.tradeoff.exact import Number, exactly, listed, up
from sharpdp.tradeoff.polyline import Polyline

__all__ = [
    "Law",
    "Laws",
    "Table",
    "from_outcomes",
    "law",
    "outcomes",
    "polyline_of",
    "polylines_of",
    "rows_of",
    "share",
    "weighted",
]

Law: TypeAlias = Sequence[Number]
"""Probabilities of some points, or weights of some components."""

Laws: TypeAlias = tuple[Law, Law]
"""(P_i, Q_i) on the same points."""

Table: TypeAlias = Sequence[Sequence[Polyline]]
"""Entry [i][j] is T(Q_i, P_j): rows for the null, columns for the alternative."""


def outcomes(curve: Polyline) -> tuple[tuple[Fraction, Fraction], ...]:
    """The pair of laws that a polyline is: (width, drop) of each segment, and its jump at zero.

    >>> outcomes(Polyline(fpr=(0, 1), fnr=(Fraction(3, 4), 0)))
    ((Fraction(0, 1), Fraction(1, 4)), (Fraction(1, 1), Fraction(3, 4)))
    """
    return ((Fraction(0), curve.jump), *curve.segments)


def from_outcomes(pairs: Iterable[tuple[Fraction, Fraction]]) -> Polyline:
    """T of a pair of laws given point by point, as (null, alternative)."""
    every = list(pairs)
    return Polyline.from_pmfs([p for p, _ in every], [q for _, q in every])


def polyline_of(**argument: object) -> Polyline:
    """The argument, if it is a polyline."""
    ((name, value),) = argument.items()
    if isinstance(value, Polyline):
        return value
    raise WrongType(
        f"{name} must be a Polyline; got {short_repr(value)}. Try curve.lower_polyline of a curve."
    )


def polylines_of(**argument: object) -> list[Polyline]:
    """The argument as a list of polylines, at least one."""
    ((name, value),) = argument.items()
    if not has_entries(value):
        raise WrongType(f"{name} must be a list of polylines; got {short_repr(value)}.")
    every = [polyline_of(**{f"{name}[{place}]": one}) for place, one in enumerate(value)]
    if not every:
        raise InvalidArgument(f"{name} must be a list of at least one polyline; got none.")
    return every


def rows_of(**argument: object) -> list[list[object]]:
    """The argument as a list of lists."""
    ((name, value),) = argument.items()
    if not has_entries(value):
        raise WrongType(f"{name} must be a list of rows; got {short_repr(value)}.")
    rows = list(value)
    for place, row in enumerate(rows):
        if not has_entries(row):
            raise WrongType(f"{name}[{place}] must be a list; got {short_repr(row)}.")
    return [list(row) for row in rows]


def share(**argument: object) -> Fraction:
    """The argument as an exact fraction in [0, 1].

    >>> share(weight=0.25)
    Fraction(1, 4)
    """
    ((name, value),) = argument.items()
    exact = exactly(hint="", **argument)
    if not 0 <= exact <= 1:
        raise invalid(name, "in [0, 1]", value, "It is a probability.")
    return exact


def law(**argument: object) -> list[Fraction]:
    """The argument as exact fractions of sum one; a sum off by at most 1e-9 is divided out.

    >>> law(weights=[0.25, 0.75])
    [Fraction(1, 4), Fraction(3, 4)]
    """
    ((name, value),) = argument.items()
    masses = [share(**{f"{name}[{place}]": mass}) for place, mass in enumerate(listed(name, value))]
    total = sum(masses, Fraction(0))
    if abs(total - 1) > LARGEST_SUM_ERROR:
        raise InvalidArgument(
            f"{name} must be probabilities with sum 1; got masses with sum {up(total):.12g}."
        )
    return masses if total == 1 else [mass / total for mass in masses]


def weighted(
    count: int, weights: Law, other_weights: Law | None
) -> tuple[list[Fraction], list[Fraction]]:
    """The weights under the null and the alternative, one per component.

    `weights` belong to P, the alternative, and `other_weights` to Q, the null; both to both if there
    are no others.
    """
    alternative = law(weights=weights)
    null = alternative if other_weights is None else law(other_weights=other_weights)
    for name, one in (("weights", alternative), ("other_weights", null)):
        if len(one) != count:
            raise InvalidArgument(
                f"{name} must have one entry per component; got {len(one)} for {count} components."
            )
    return null, alternative
