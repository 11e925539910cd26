"""One mixture, and what each inequality says about it: `compare_mixture`.

The mixture itself stands beside the bounds, so that what an inequality loses can be seen. Everything is
computed in exact fractions and rounded once, to the safe side.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import elementwise, nonnegative, probability, short_repr
from sharpdp.curves.mixtures.advanced_joint_concavity import (
    Goal,
    best_advanced,
    height_at,
    slack_at,
    transposed,
)
from sharpdp.curves.mixtures.inequalities import (
    averaged,
    coupled,
    hidden,
    nothing_lost,
    released,
    subsampled,
    swapped_bound,
)
from sharpdp.curves.tradeoff.exact import down, up
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.display import notebook
from sharpdp.display.outward_digits import ROUND_CEILING, ROUND_FLOOR, in_digits
from sharpdp.display.tabular import NamedRows, Plotted
from sharpdp.display.text_table import table_lines
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms import Mixture
from sharpdp.numerics.special import exp_down
from sharpdp.numerics.underflow import underflow_is_zero

__all__ = ["Inequality", "MixtureComparison", "compare_mixture"]

LARGEST_EPSILON = 700.0
"""Beyond this, e^epsilon leaves double precision; delta there is no larger than here."""

ExactLaw = Sequence[Fraction]


@dataclass(frozen=True)
class Inequality:
    """One curve, or the largest of several: what one theorem says, or why it says nothing.

    All curves are lower bounds on T(Q, P), P with the record; answers are for the worse direction.

    Args:
        name: Name of the inequality, such as "index released".
        source: The publication that proves it.
        curves: Lower bounds on the trade-off curve; the largest counts. Empty if it does not apply.
        reason: Why it does not apply; empty if it does.
    """

    name: str
    source: str
    curves: tuple[Polyline, ...]
    reason: str = ""

    @cached_property
    def _directions(self) -> tuple[tuple[Polyline, ...], tuple[Polyline, ...]]:
        return self.curves, tuple(curve.inverse() for curve in self.curves)

    def fnr(self, fpr: float) -> float:
        """Lower bound on the false-negative rate at this false-positive rate; not a number if none.

        Args:
            fpr: False-positive rate, in [0, 1]; not checked.

        Returns:
            The bound in the worse direction, rounded down.
        """
        if not self.curves:
            return np.nan
        worst = min(max(curve.at(fpr) for curve in curves) for curves in self._directions)
        return down(worst)

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at this epsilon; not a number if there is none.

        Args:
            epsilon: Epsilon, at least 0; not checked.

        Returns:
            The bound in the worse direction, rounded up.
        """
        if not self.curves:
            return np.nan
        # a smaller ratio has a larger delta
        ratio = Fraction(exp_down(min(epsilon, LARGEST_EPSILON)))
        return up(
            max(
                min(Fraction(curve.hockey_stick(ratio)) for curve in curves)
                for curves in self._directions
            )
        )


@dataclass(frozen=True)
class MixtureComparison(NamedRows[Inequality], Plotted):
    """What is known about one mixture, by inequality; the first row is the mixture itself.

    Args:
        mixture: The mixture.
        given: What it is asked at: "fpr" or "epsilon".
        at: The false-positive rates or epsilons.
        rows: The mixture, then the inequalities.
        nothing_lost: True if releasing the index changes nothing.
    """

    mixture: Mixture
    given: str
    at: tuple[float, ...]
    rows: tuple[Inequality, ...] = field(repr=False)
    nothing_lost: bool

    @property
    def quantity(self) -> str:
        """What the values are: fnr at a false-positive rate, delta at an epsilon."""
        return "fnr" if self.given == "fpr" else "delta"

    def values(self, row: Inequality) -> tuple[float, ...]:
        """The values of one row at everything that was asked for.

        Args:
            row: One of the rows.

        Returns:
            One number for each entry of `at`: an fnr or a delta; not a number if the row does not apply.

        Raises:
            WrongType: row is no `Inequality`.
        """
        if not isinstance(row, Inequality):
            raise WrongType(
                f"row must be one of the rows; got {short_repr(row)}. Try table['index released']."
            )
        return tuple(getattr(row, self.quantity)(argument) for argument in self.at)

    def __str__(self) -> str:
        """A table, then why the rows without values have none."""
        titles, *rows = self._table()
        lines = [self._head, *table_lines([titles, *rows], right=range(1, len(titles) - 1))]
        if self.nothing_lost:
            lines.append(
                "  Releasing the index changes nothing: the components agree where they meet."
            )
        silent = [f"  {row.name}: does not apply, {row.reason}." for row in self.rows if row.reason]
        return "\n".join([*lines, *silent])

    def __repr__(self) -> str:
        """What is compared, in one short line."""
        return notebook.shortened(f"<MixtureComparison: {self._head}>")

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        titles, *rows = self._table()
        return notebook.table(titles, rows, title=self._head)

    @property
    def _head(self) -> str:
        side = "lower bounds on" if self.quantity == "fnr" else "upper bounds on"
        return f"{side} {self.quantity}, the worse direction | {self.mixture.describe()}"

    def _table(self) -> list[list[str]]:
        """The titles, and the rows that apply."""
        titles = ["", *(f"{self.given}={argument:g}" for argument in self.at), "source"]
        return [titles, *(self._cells(row) for row in self.rows if row.curves)]

    def _cells(self, row: Inequality) -> list[str]:
        direction = ROUND_FLOOR if self.quantity == "fnr" else ROUND_CEILING
        shown = (in_digits(value, direction) for value in self.values(row))
        return [row.name, *shown, row.source]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON.

        Returns:
            A dictionary; the values of a row that does not apply are None.
        """
        from sharpdp import __version__

        return {
            "quantity": self.quantity,
            self.given: list(self.at),
            "mixture": self.mixture.describe(),
            "nothing_lost": self.nothing_lost,
            "rows": [
                {
                    "name": row.name,
                    "values": list(self.values(row)) if row.curves else None,
                    "reason": row.reason or None,
                    "source": row.source,
                }
                for row in self.rows
            ],
            "version": __version__,
        }

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw all curves (needs the extra `plots`)."""
        from sharpdp.plots import mixture

        return mixture(self, ax=ax, title=title)


@underflow_is_zero
def compare_mixture(
    mixture: Mixture, *, fpr: ArrayLike | None = None, epsilon: ArrayLike | None = None
) -> MixtureComparison:
    """What each inequality says about a mixture of FinitePairs, and the exact curve of the mixture.

    Args:
        mixture: A mixture all of whose components are `FinitePair`.
        fpr: False-positive rates in (0, 1], one or an array, at which to bound the false-negative rate of
            every attack from below. Either this or epsilon must be given.
        epsilon: Epsilons, at least 0, one or an array, at which to bound delta from above.

    Returns:
        The mixture and the inequalities, all for the worse of the two directions. An inequality that does
        not apply says why.

    Raises:
        InvalidArgument: Both fpr and epsilon are given or neither is, or a number is out of range.
        WrongType: mixture is no `Mixture`, or an argument is no number or array of numbers.
        Unsupported: A component is no `FinitePair`.

    >>> from sharpdp.mechanisms import FinitePair
    >>> coin = FinitePair(p=[0.75, 0.25], q=[0.25, 0.75])
    >>> back = FinitePair(p=[0.25, 0.75], q=[0.75, 0.25])
    >>> table = compare_mixture(Mixture(components=[coin, back], weights=[0.75, 0.25]), fpr=0.125)
    >>> table["index released"].fnr(0.125), table["index hidden, exact"].fnr(0.125)
    (0.625, 0.7916666666666666)
    """
    if not isinstance(mixture, Mixture):
        raise WrongType(f"mixture must be a Mixture; got {short_repr(mixture)}.")
    if not mixture.finite:
        raise Unsupported(
            "a mixture can be compared with its bounds if its components are FinitePairs; "
            f"got {mixture.describe()}. `account` bounds it by releasing the index."
        )
    if (fpr is None) == (epsilon is None):
        got = "neither" if fpr is None else "both"
        raise InvalidArgument(f"exactly one of fpr and epsilon must be given; got {got}.")
    if fpr is not None:
        given, clean = "fpr", elementwise(probability, fpr=fpr, hint="It is the rate of an attack.")
    else:
        given, clean = "epsilon", elementwise(nonnegative, epsilon=epsilon)
    at = tuple(np.atleast_1d(clean).ravel().tolist())
    components = _Laws.of(mixture)
    goals = [
        height_at(x) if given == "fpr" else slack_at(float(np.exp(min(x, LARGEST_EPSILON))))
        for x in at
    ]
    rows = (
        Inequality(
            "index hidden, exact", "blackwell1953", (hidden(components.laws, *components.shares),)
        ),
        Inequality(
            "index released",
            "wang2023 Lemma 3.1",
            (released([Polyline.from_pmfs(q, p) for p, q in components.laws], *components.shares),),
        ),
        _coupled(components),
        _advanced(components, goals),
        _one_side_released(components),
        _swapped(components),
        _subsampled(components),
    )
    return MixtureComparison(
        mixture, given, at, rows, nothing_lost(components.laws, *components.shares)
    )


@dataclass(frozen=True)
class _Laws:
    """The laws (P_i, Q_i) of a mixture, its weights under P and Q, and T(Q_i, P_j) for all of them."""

    laws: tuple[tuple[ExactLaw, ExactLaw], ...]
    shares: tuple[ExactLaw, ExactLaw]

    @classmethod
    def of(cls, mixture: Mixture) -> _Laws:
        laws, shares = mixture.component_laws(), mixture.exact_weights()
        indices = [i for i in range(len(laws)) if shares[0][i] or shares[1][i]]
        return cls(
            tuple(laws[i] for i in indices),
            (tuple(shares[0][i] for i in indices), tuple(shares[1][i] for i in indices)),
        )

    @cached_property
    def curves(self) -> list[list[Polyline]]:
        return [[Polyline.from_pmfs(q, p) for p, _ in self.laws] for _, q in self.laws]

    @property
    def same_weights(self) -> bool:
        return self.shares[0] == self.shares[1]

    @property
    def two(self) -> bool:
        return len(self.laws) == 2 and self.same_weights


def _coupled(components: _Laws) -> Inequality:
    name, source = "indices coupled", "wang2023 Proposition B.1"
    if components.same_weights:
        return Inequality(name, source, (), "the weights are the same for both data sets")
    return Inequality(name, source, (coupled(components.curves, *components.shares),))


def _advanced(components: _Laws, goals: Iterable[Goal]) -> Inequality:
    """The best parameters for each goal in each direction, both ways round."""
    name, source = "advanced joint concavity", "wang2023 Lemma 6.3, repaired"
    if not components.two:
        return Inequality(name, source, (), "it is about two components with the same weights")
    weight, table, back = components.shares[0][1], components.curves, transposed(components.curves)
    curves = []
    for goal in goals:
        for aim, other in itertools.permutations((goal, _mirrored(goal))):
            curves.append(best_advanced(table, weight, aim).curve)
            curves.append(best_advanced(back, weight, other).curve.inverse())
    return Inequality(name, source, tuple(dict.fromkeys(curves)))


def _mirrored(goal: Goal) -> Goal:
    """The same goal for the inverse of the curve."""
    return lambda null, alternative: goal(alternative, null)


def _one_side_released(components: _Laws) -> Inequality:
    """T(Q, P) >= sum of w_j T(Q, P_j), and the other way round."""
    alternative, null = (
        [sum(w * law[x] for w, law in zip(share, side, strict=True)) for x in range(len(side[0]))]
        for share, side in zip(components.shares, zip(*components.laws, strict=True), strict=True)
    )
    forth = averaged(
        [Polyline.from_pmfs(null, p) for p, _ in components.laws], components.shares[0]
    )
    back = averaged(
        [Polyline.from_pmfs(alternative, q) for _, q in components.laws], components.shares[1]
    )
    source = "wang2023 Lemma 6.3 with gamma = eta = w, repaired"
    return Inequality("one index released", source, (forth, back.inverse()))


def _swapped(components: _Laws) -> Inequality:
    name, source = "swapped distributions", "wang2023 Proposition 6.4, symmetrized"
    if not components.two or components.laws[0] != components.laws[1][::-1]:
        return Inequality(name, source, (), "it is about (P, Q) mixed with (Q, P)")
    larger = int(components.shares[0][1] > components.shares[0][0])
    curve = components.curves[larger][larger]
    return Inequality(name, source, (swapped_bound(curve, components.shares[0][1 - larger]),))


def _subsampled(components: _Laws) -> Inequality:
    name, source = "subsampling", "wang2023 Proposition E.1, repaired"
    common = [i for i, (p, q) in enumerate(components.laws) if p == q]
    if not components.two or not common:
        return Inequality(name, source, (), "it is about one component that is the same for both")
    still, other = common[0], 1 - common[0]
    between = components.curves[other][other]
    from_common = [components.curves[other][still].inverse(), components.curves[still][other]]
    largest = between.symmetric_hull()
    for curve in from_common:
        largest = largest.minimum(curve)
    weight = components.shares[0][other]
    return Inequality(
        name, source, (subsampled(largest, weight, between=between, from_common=from_common),)
    )
