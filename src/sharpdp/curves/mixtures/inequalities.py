"""Trade-off functions of mixtures: what is exact, and what each inequality gives, in exact fractions.

f = T(Q, P) is the smallest false-negative rate at a false-positive rate. The null hypothesis is Q, the
data without the record, and the alternative is P, as everywhere in sharpdp. As a convex falling
polyline f is a pair of laws again: a segment of width b and drop a is an outcome of mass b under Q and
a under P. All curves are made by moving such outcomes. Every inequality is a lower bound on T(Q, P),
the safe side, and rests on one fact: an attacker who also sees a label does no worse.

    Q = sum of b_ij Q_i,   P = sum of a_ij P_j   =>   T(Q, P) >= T of the outcomes (b_ij q_i, a_ij p_j)

Joint concavity tells an index that both laws share, a coupling tells two indices, and advanced joint
concavity (`mixtures.advanced_joint_concavity`) tells two indices with shares a and b that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from sharpdp._validate import LARGEST_SUM_ERROR, has_entries, invalid, short_repr
from sharpdp.curves.tradeoff.exact import Number, exactly, listed, up
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.errors import InvalidArgument, WrongType

__all__ = [
    "averaged",
    "coupled",
    "diagonal_coupling",
    "diluted",
    "hidden",
    "nothing_lost",
    "relabeled",
    "released",
    "subsampled",
    "swapped",
    "swapped_bound",
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
    every = [polyline_of(**{f"{name}[{index}]": curve}) for index, curve in enumerate(value)]
    if not every:
        raise InvalidArgument(f"{name} must be a list of at least one polyline; got none.")
    return every


def rows_of(**argument: object) -> list[list[object]]:
    """The argument as a list of lists."""
    ((name, value),) = argument.items()
    if not has_entries(value):
        raise WrongType(f"{name} must be a list of rows; got {short_repr(value)}.")
    rows = list(value)
    for index, row in enumerate(rows):
        if not has_entries(row):
            raise WrongType(f"{name}[{index}] must be a list; got {short_repr(row)}.")
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
    masses = [share(**{f"{name}[{index}]": mass}) for index, mass in enumerate(listed(name, value))]
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
    for name, masses in (("weights", alternative), ("other_weights", null)):
        if len(masses) != count:
            raise InvalidArgument(
                f"{name} must have one entry per component; got {len(masses)} for {count} components."
            )
    return null, alternative


def released(
    curves: Sequence[Polyline], weights: Law, other_weights: Law | None = None
) -> Polyline:
    """T of a mixture whose index is released; a lower bound on T of the mixture.

    The segments of curve i, scaled by its weights, are pooled and sorted by slope: tests at a common
    likelihood ratio, not at a common false-positive rate.

    Holds when: curves[i] = T(Q_i, P_i), or less, and the index has probabilities `weights` under P and
    `other_weights` under Q.

    Numerics: exact.

    Source: wang2023 Lemma 3.1.

    >>> even, sure = Polyline(fpr=(0, 1), fnr=(1, 0)), Polyline(fpr=(0, 1), fnr=(0, 0))
    >>> released([even, sure], [Fraction(1, 4), Fraction(3, 4)])(0)
    Fraction(1, 4)
    """
    every = polylines_of(curves=curves)
    null, alternative = weighted(len(every), weights, other_weights)
    return from_outcomes(
        (b * q, a * p)
        for curve, b, a in zip(every, null, alternative, strict=True)
        for q, p in outcomes(curve)
    )


def relabeled(curves: Table, null: Sequence[Law], alternative: Sequence[Law]) -> Polyline:
    """A lower bound on T(Q, P), Q = sum of null[i][j] Q_i and P = sum of alternative[i][j] P_j.

    Both laws draw a label (i, j), with these shares, then a result from Q_i or from P_j. Telling the
    label can only help the attacker, and given the label the curve is curves[i][j] = T(Q_i, P_j).

    Holds when: for any shares with sum one on either side, whatever they are.

    Numerics: exact.

    Source: blackwell1953; wang2023 Lemma 6.3, repaired.

    >>> even = Polyline(fpr=(0, 1), fnr=(1, 0))
    >>> relabeled([[even]], [[1]], [[1]])(Fraction(1, 4))
    Fraction(3, 4)
    """
    flat = polylines_of(curves=[curve for row in rows_of(curves=curves) for curve in row])
    b = law(null=[mass for row in rows_of(null=null) for mass in row])
    a = law(alternative=[mass for row in rows_of(alternative=alternative) for mass in row])
    if not len(a) == len(b) == len(flat):
        raise InvalidArgument(
            "null and alternative must have one share per curve; "
            f"got {len(b)} and {len(a)} for {len(flat)} curves."
        )
    return from_outcomes(
        (here * q, there * p)
        for curve, here, there in zip(flat, b, a, strict=True)
        for q, p in outcomes(curve)
    )


def diagonal_coupling(weights: Law, other_weights: Law) -> list[list[Fraction]]:
    """The coupling of two weight vectors that makes both indices equal as often as can be.

    Its row sums are `weights`, its column sums `other_weights`.

    >>> diagonal_coupling([0.5, 0.5], [0.75, 0.25])
    [[Fraction(1, 2), Fraction(0, 1)], [Fraction(1, 4), Fraction(1, 4)]]
    """
    rows, columns = law(weights=weights), law(other_weights=other_weights)
    if len(rows) != len(columns):
        raise InvalidArgument(
            "weights and other_weights must have equally many entries; "
            f"got {len(rows)} and {len(columns)}."
        )
    shared = [min(pair) for pair in zip(rows, columns, strict=True)]
    rest = 1 - sum(shared)
    return [
        [
            (shared[i] if i == j else 0) + (a - shared[i]) * (b - shared[j]) / (rest or Fraction(1))
            for j, b in enumerate(columns)
        ]
        for i, a in enumerate(rows)
    ]


def coupled(
    curves: Table,
    weights: Law,
    other_weights: Law,
    coupling: Sequence[Law] | None = None,
) -> Polyline:
    """A lower bound on T(Q, P), P = sum of weights[j] P_j and Q = sum of other_weights[i] Q_i.

    Any coupling of the two indices does, entry [i][j] for Q_i and P_j; the maximal diagonal one unless
    another is given. Curves are pooled by slope, each at its own false-positive rate: added at equal
    rates they are no bound.

    Holds when: curves[i][j] = T(Q_i, P_j), or less.

    Numerics: exact.

    Source: wang2023 Proposition B.1, each curve at its own rate.

    >>> even, sure = Polyline(fpr=(0, 1), fnr=(1, 0)), Polyline(fpr=(0, 1), fnr=(0, 0))
    >>> coupled([[even, sure], [sure, sure]], [0.5, 0.5], [0.5, 0.5])(Fraction(1, 4))
    Fraction(1, 4)
    """
    null, alternative = weighted(len(rows_of(curves=curves)), weights, other_weights)
    if coupling is None:
        joint = diagonal_coupling(null, alternative)
    else:
        joint = [[share(coupling=mass) for mass in row] for row in rows_of(coupling=coupling)]
        if {len(row) for row in joint} != {len(alternative)}:
            raise InvalidArgument(
                f"coupling must have rows of {len(alternative)} entries; "
                f"got rows of {', '.join(str(len(row)) for row in joint) or 'none'}."
            )
    columns = [sum(column) for column in zip(*joint, strict=True)]
    if [sum(row) for row in joint] != list(null) or columns != list(alternative):
        raise InvalidArgument(
            "coupling must have the row sums other_weights and the column sums weights; "
            f"got {_sums(joint)} and {_sums(zip(*joint, strict=True))}. Give exact fractions."
        )
    return relabeled(curves, joint, joint)


def _sums(rows: object) -> list[float]:
    return [float(sum(row)) for row in rows]  # type: ignore[attr-defined]


def hidden(laws: Sequence[Laws], weights: Law, other_weights: Law | None = None) -> Polyline:
    """T(Q, P) of the mixture itself: P = sum of weights[i] P_i, Q = sum of other_weights[i] Q_i.

    Holds when: laws[i] = (P_i, Q_i) are probabilities of the same points in the same order.

    Numerics: exact.

    Source: blackwell1953.

    >>> half = Fraction(1, 2)
    >>> hidden([((1, 0), (0, 1)), ((0, 1), (1, 0))], [half, half])(Fraction(1, 4))
    Fraction(3, 4)
    """
    exact, null, alternative = _on_one_space(laws, weights, other_weights)
    zero = Fraction(0)
    return from_outcomes(
        (
            sum((b * q[x] for b, (_, q) in zip(null, exact, strict=True)), zero),
            sum((a * p[x] for a, (p, _) in zip(alternative, exact, strict=True)), zero),
        )
        for x in _points(exact)
    )


def nothing_lost(laws: Sequence[Laws], weights: Law, other_weights: Law | None = None) -> bool:
    """Whether releasing the index changes nothing: T of the mixture is the released curve.

    That is so if and only if, at every point, the components that can occur there have one ratio:
    w_i p_i w'_j q_j = w_j p_j w'_i q_i for all i, j.

    Numerics: exact.

    Source: wang2023 Proposition 6.1, for a mixture of laws.

    >>> nothing_lost([((1, 0), (1, 0)), ((0, 1), (0, 1))], [Fraction(1, 2)] * 2)
    True
    """
    exact, null, alternative = _on_one_space(laws, weights, other_weights)
    for x in _points(exact):
        vectors = [
            (b * q[x], a * p[x]) for b, a, (p, q) in zip(null, alternative, exact, strict=True)
        ]
        some = next((v for v in vectors if any(v)), (Fraction(0), Fraction(0)))
        if any(some[0] * a != some[1] * b for b, a in vectors):
            return False
    return True


def swapped(curve: Polyline, weight: Number) -> Polyline:
    """T of ((1-w) Q + w P, (1-w) P + w Q) exactly, from T(Q, P) alone.

    Both ratios rise and fall together, so an outcome (q, p) becomes ((1-w) q + w p, (1-w) p + w q).

    Holds when: for every pair; with w > 1/2 the two laws have changed places.

    Numerics: exact.

    Source: wang2023 Proposition 6.4, sharpened to an equality.

    >>> sure = Polyline(fpr=(0, 1), fnr=(0, 0))
    >>> swapped(sure, Fraction(1, 4))(Fraction(1, 4))
    Fraction(1, 4)
    """
    w, masses = share(weight=weight), outcomes(polyline_of(curve=curve))
    return from_outcomes(((1 - w) * q + w * p, (1 - w) * p + w * q) for q, p in masses)


def diluted(curve: Polyline, weight: Number) -> Polyline:
    """T(Q, w Q + (1-w) P) exactly: w (1 - fpr) + (1-w) f(fpr).

    Holds when: for every pair. Its inverse is T(w Q + (1-w) P, Q).

    Numerics: exact.

    Source: wang2023 Example F.3, an equality without symmetrization.

    >>> diluted(Polyline(fpr=(0, 1), fnr=(0, 0)), Fraction(1, 4))(Fraction(1, 2))
    Fraction(1, 8)
    """
    w, masses = share(weight=weight), outcomes(polyline_of(curve=curve))
    return from_outcomes((q, w * q + (1 - w) * p) for q, p in masses)


def averaged(curves: Sequence[Polyline], weights: Law) -> Polyline:
    """A lower bound on T(Q, sum of weights[i] P_i): the mean of curves[i] = T(Q, P_i) at equal rates.

    One test serves all alternatives, each curve allows its own.

    Holds when: the null law Q is the same for all curves. With different null laws, adding at equal
    rates is wrong: see `released`.

    Numerics: exact.

    Source: wang2023 Lemma 6.3 with gamma = eta = w, repaired.

    >>> even, sure = Polyline(fpr=(0, 1), fnr=(1, 0)), Polyline(fpr=(0, 1), fnr=(0, 0))
    >>> averaged([even, sure], [Fraction(1, 2)] * 2)(Fraction(1, 2))
    Fraction(1, 4)
    """
    every = polylines_of(curves=curves)
    shares, _ = weighted(len(every), weights, None)
    rates = sorted({rate for curve in every for rate in curve.fpr})
    values = [
        sum((w * curve.at(rate) for w, curve in zip(shares, every, strict=True)), Fraction(0))
        for rate in rates
    ]
    return Polyline(tuple(rates), tuple(values))


def subsampled(
    curve: Polyline,
    weight: Number,
    *,
    between: Polyline,
    from_common: Sequence[Polyline],
) -> Polyline:
    """A lower bound on T((1-w) C + w Q, (1-w) C + w P): (1-w) Id + w f below its diagonal, mirrored.

    `between` is T(Q, P), `from_common` are T(C, Q) and T(C, P). With x' = 1 + w (x - 1), x >= 1,

        H_x'(P' || Q') = w H_x(P || (1-b) C + b Q) <= w times the larger of H_x(P || C), H_x(P || Q)

    Holds when: `curve` lies below `between`, its inverse and both curves from the common part, which
    is checked. Below `between` alone, as printed, is not enough.

    Numerics: exact.

    Source: wang2023 Proposition E.1, repaired; balle2018subsampling Theorem 2.

    >>> sure = Polyline(fpr=(0, 1), fnr=(0, 0))
    >>> subsampled(sure, Fraction(1, 2), between=sure, from_common=[sure, sure])(Fraction(1, 4))
    Fraction(1, 4)
    """
    names = ("T(Q, P)", "T(P, Q)", "T(C, Q)", "T(C, P)")
    common, apart = polylines_of(from_common=from_common), polyline_of(between=between)
    limits = (apart, apart.inverse(), *common)
    if len(limits) != len(names):
        raise InvalidArgument(f"from_common must be T(C, Q) and T(C, P); got {len(common)} curves.")
    for name, limit in zip(names, limits, strict=True):
        if not polyline_of(curve=curve) <= limit:
            raise InvalidArgument(
                f"curve must lie below {name}; got one that is above it somewhere. "
                "Without that the subsampling form is false."
            )
    return diluted(curve, 1 - share(weight=weight)).symmetrized()


def swapped_bound(curve: Polyline, weight: Number) -> Polyline:
    """The lower bound 2w Id + (1-2w) f, symmetrized, on what `swapped` gives exactly; w <= 1/2.

    f is the convex hull of T(Q, P) and its inverse, the curve itself if that is symmetric; without the
    hull it is no bound for other curves. It is `subsampled` with the common part (P + Q) / 2.

    Numerics: exact.

    Source: wang2023 Proposition 6.4, symmetrized.

    >>> sure = Polyline(fpr=(0, 1), fnr=(0, 0))
    >>> swapped_bound(sure, Fraction(1, 4))(Fraction(1, 4))  # exactly, too
    Fraction(1, 4)
    """
    w = share(weight=weight)
    if w > Fraction(1, 2):
        raise InvalidArgument(
            f"weight must be at most 1/2; got {weight!r}. Swap the two distributions."
        )
    return diluted(polyline_of(curve=curve).symmetric_hull(), 2 * w).symmetrized()


def _points(laws: Sequence[tuple[Sequence[Fraction], Sequence[Fraction]]]) -> range:
    return range(len(laws[0][0]))


def _on_one_space(
    laws: Sequence[Laws], weights: Law, other_weights: Law | None
) -> tuple[list[tuple[list[Fraction], list[Fraction]]], list[Fraction], list[Fraction]]:
    """The laws and both weights as fractions; all laws on equally many points."""
    every = rows_of(laws=laws)
    for index, row in enumerate(every):
        if len(row) != 2:
            raise InvalidArgument(f"laws[{index}] must be two laws; got {len(row)} entries.")
    if not every:
        raise InvalidArgument("laws must be a list of at least one pair of laws; got none.")
    exact = [
        (law(**{f"laws[{i}][0]": p}), law(**{f"laws[{i}][1]": q})) for i, (p, q) in enumerate(every)
    ]
    null, alternative = weighted(len(exact), weights, other_weights)
    sizes = [len(row) for pair in exact for row in pair]
    if len(set(sizes)) > 1:
        raise InvalidArgument(
            f"laws must be on the same points; got {', '.join(map(str, sizes))} of them. "
            "Give a point that a law never takes the probability 0."
        )
    return exact, null, alternative
