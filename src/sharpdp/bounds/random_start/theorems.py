"""Bounds on one step of gradient descent from a random start.

The start is an index of a mixture of Gaussians. If it is released, losses are those of the Gaussian that
was drawn; hiding it can only help, so that the released index serves as an upper side in any case.
"""

from dataclasses import replace
from functools import lru_cache, partial

from sharpdp.bounds.published import formula
from sharpdp.bounds.random_start.gaussian_mixture import gaussian_mixture_pair
from sharpdp.bounds.random_start.hidden_start_pair import HiddenStart
from sharpdp.bounds.random_start.sensitivity_law import cells_of, record_cells
from sharpdp.bounds.registry import Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import Adjacency, RandomlyInitializedGD
from sharpdp.mechanisms.sensitivity import LeastSquares, Logistic
from sharpdp.numerics.special import safe_log
from sharpdp.pairs.pair import GaussianPair, Pair, epsilon_of

__all__ = [
    "clipping_norm_tight",
    "fixed_record_lower",
    "hidden_start_lower",
    "hidden_start_upper",
    "noise_alone_upper",
    "public_start_lower",
    "released_start_upper",
]

bound = partial(
    register, adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT), source="wang2023 Theorem 5.1"
)


def _is_instance(mechanism: RandomlyInitializedGD) -> bool:
    return mechanism.claim == "instance"


def _is_known_step(mechanism: RandomlyInitializedGD) -> bool:
    return mechanism.initialization == "public" and _is_instance(mechanism) and mechanism.steps == 1


def _has_fixed_record(mechanism: RandomlyInitializedGD) -> bool:
    """True if the claim is about all records of a step of logistic regression from a known start."""
    worst_case = mechanism.initialization == "public" and mechanism.claim == "worst-case"
    return worst_case and isinstance(mechanism.sensitivity, Logistic) and mechanism.steps == 1


def _is_bounded_later(mechanism: RandomlyInitializedGD) -> bool:
    """True unless the start amplifies nothing, or later steps have no largest sensitivity."""
    if mechanism.amplifies_nothing:
        return False
    return mechanism.steps == 1 or mechanism.sensitivity.largest < float("inf")


@bound(
    holds_when="records are arbitrary, each gradient is clipped, and one record is added or removed: "
    "the random start amplifies nothing",
    attained_when="other records cancel the start, and the record in question is far away",
    source="dong2022 Theorem 2.7; wang2023 Section 5",
    applies=needs(
        lambda mechanism: mechanism.amplifies_nothing,
        "arbitrary records, which the start does not hide",
    ),
)
def clipping_norm_tight(mechanism: RandomlyInitializedGD, adjacency: Adjacency) -> PairCounts:
    """Both sides of clipped least squares over arbitrary records: the noise against the clipping norm.

    At each start a record has a gradient of at most the clipping norm c, and one with a large label
    has it at almost every start. Records with x^2 = 1/n and y = 0 cancel the start up to n c, so that
    the result is N(0, s^2) or N(c, s^2) in the limit, though the start is hidden.

    Figure 2 of wang2023 is about one data set instead.

    Numerics: c/s is the nearest double.

    >>> run = RandomlyInitializedGD.least_squares(slope=1.0, clip=2.0, claim="worst-case")
    >>> clipping_norm_tight(run, Adjacency.ADD_REMOVE)
    ((GaussianPair(mu=2.0), 1),)
    """
    return ((GaussianPair(mechanism.sensitivity.largest / mechanism.noise_deviation), 1),)


@bound(
    adjacency=Adjacency.NEIGHBORS,
    holds_when="the start is drawn as stated, whatever the data, and used for one run; claimed for "
    "an instance: for this data set and this neighbor only, nothing is promised for other records; "
    "claimed for the worst case: the sensitivity is the largest over all neighbors at each start",
    applies=needs(
        _is_bounded_later, "a start that amplifies, and later steps of bounded sensitivity"
    ),
    effort=Effort(yields_to=("hidden_start_upper",)),
)
def released_start_upper(mechanism: RandomlyInitializedGD, adjacency: Adjacency) -> PairCounts:
    """Upper side by releasing the start: Gaussian pairs at distance m = sensitivity / noise deviation.

        delta(k) = E[delta_m(k)],   delta_m that of N(m, 1) against N(0, 1)

    Replacing m by the largest over all neighbors is safe, since delta_m rises with m. Of several steps,
    those after the first one count as released, at the largest sensitivity.

    Numerics: the law of m is cut into bins and spread to their ends, see
    `bounds.random_start.gaussian_mixture`; this raises
    log delta by 1e-6 or less unless the law is known by a rough distribution function only.

    >>> run = RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, claim="instance")
    >>> released_start_upper(run, Adjacency.ADD_REMOVE)[0][0].shifts[-1] < 1.0 + 1e-12
    True
    """
    first = (_pair(mechanism, Side.UPPER), 1)
    if mechanism.steps == 1:
        return (first,)
    later = GaussianPair(mechanism.sensitivity.largest / mechanism.noise_deviation)
    return (first, (later, mechanism.steps - 1))


@bound(
    adjacency=Adjacency.NEIGHBORS,
    attained_when="the attacker knows the start, and the two data sets differ by the given sensitivity",
    applies=needs(_is_known_step, "one step from a public start, for an instance"),
)
def public_start_lower(mechanism: RandomlyInitializedGD, adjacency: Adjacency) -> PairCounts:
    """Lower side for a known start: the same Gaussian pairs, which are what the attacker sees.

    Numerics: the law of the distance is gathered in bins, see `bounds.random_start.gaussian_mixture`.

    >>> run = RandomlyInitializedGD.least_squares(
    ...     slope=1.0, clip=1.0, claim="instance", initialization="public"
    ... )
    >>> public_start_lower(run, Adjacency.ADD_REMOVE)[0][0].shifts[-1] <= 1.0
    True
    """
    return ((_pair(mechanism, Side.LOWER), 1),)


@bound(
    attained_when="the attacker knows the start, and the record in question has the largest margin",
    applies=needs(
        _has_fixed_record, "one step of logistic regression from a public start, for all records"
    ),
)
def fixed_record_lower(mechanism: RandomlyInitializedGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of logistic regression over all records: one of them, with x y = margin.

    Its gradient is margin / (1 + e^{I margin}). No record has the largest gradient at every start, so
    that this side does not meet the upper one.

    Numerics: as for `public_start_lower`.

    >>> run = RandomlyInitializedGD.logistic(
    ...     margin=1.0, claim="worst-case", initialization="public"
    ... )
    >>> fixed_record_lower(run, Adjacency.ADD_REMOVE)[0][0].shifts[-1] < 1.0
    True
    """
    return ((_pair(mechanism, Side.LOWER), 1),)


def _hidden_start(mechanism: RandomlyInitializedGD) -> HiddenStart | None:
    """The laws for a hidden start; None if the number of points is unknown, or the laws are too long."""
    sensitivity = mechanism.sensitivity
    if not isinstance(sensitivity, LeastSquares) or sensitivity.points is None:
        return None
    if mechanism.initialization == "public" or not _is_instance(mechanism):
        return None
    start = HiddenStart(
        slope=sensitivity.slope,
        clip=sensitivity.clip,
        points=sensitivity.points,
        noise_deviation=mechanism.noise_deviation,
        learning_rate=mechanism.learning_rate,
        steps=mechanism.steps,
    )
    return start if start.is_resolved else None


@lru_cache(maxsize=16)
def _hidden_pair(mechanism: RandomlyInitializedGD, side: Side) -> Pair:
    start = _hidden_start(mechanism)
    assert start is not None
    return start.pair(side)


hidden_bound = partial(
    bound,
    source="wang2023 Section 5; blackwell1953",
    applies=needs(
        lambda mechanism: _hidden_start(mechanism) is not None,
        "least squares on a known number of points, from a hidden start, and laws that are not too long",
    ),
)


@hidden_bound(
    holds_when="the start is drawn as stated, whatever the data, and kept secret, and only the last "
    "result is released; claimed for an instance: the data set is the one described, with that many "
    "points, and one of them is removed; nothing is promised for other records",
)
def hidden_start_upper(mechanism: RandomlyInitializedGD, adjacency: Adjacency) -> PairCounts:
    """Upper side of least squares on n points with a hidden start: the two laws of the result.

        I - n clip(I - slope) + noise   against   I - (n - 1) clip(I - slope) + noise

    for one step of learning rate 1. Without clipping, t steps of rate h keep r^t of the distance to the
    slope, r = 1 - h n, and the result is normal:

        N(slope (1 - r^t), r^(2t) + (h noise deviation)^2 (1 + r^2 + ... + r^(2t-2))).

    Numerics: cells of the line, spread to their ends; see `pairs.line_densities`.

    >>> run = RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, points=2, claim="instance")
    >>> hidden_start_upper(run, Adjacency.ADD_REMOVE)[0][0].infinite_p < 1e-43
    True
    """
    return ((_hidden_pair(mechanism, Side.UPPER), 1),)


@hidden_bound(
    attained_when="the data set is the one described, with that many points, and the attacker knows "
    "everything but the start",
)
def hidden_start_lower(mechanism: RandomlyInitializedGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of least squares on n points with a hidden start: which cell the result lies in.

    Every point has y = slope x and x^2 = 1. For the two laws see `hidden_start_upper`.

    Numerics: log masses of cells to within 1e-9; see `bounds.random_start.hidden_start_pair`.

    >>> run = RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, points=2, claim="instance")
    >>> hidden_start_lower(run, Adjacency.ADD_REMOVE)[0][0].infinite_p
    0.0
    """
    return ((_hidden_pair(mechanism, Side.LOWER), 1),)


@formula(
    holds_when="no sensitivity is above the largest one; the start is not used at all",
    source="dong2022 Theorem 2.7",
)
def noise_alone_upper(mechanism: RandomlyInitializedGD, delta: float) -> float:
    """Upper side without the random start: Gaussian noise against the largest sensitivity in every step.

    For clipped least squares any record is covered.
    """
    largest = mechanism.sensitivity.largest / mechanism.noise_deviation
    if largest == float("inf"):
        raise Inapplicable("the sensitivity has no bound")
    largest *= mechanism.steps**0.5
    return epsilon_of(GaussianPair(largest), safe_log(delta))[1] if largest > 0.0 else 0.0


@lru_cache(maxsize=16)
def _pair(mechanism: RandomlyInitializedGD, side: Side) -> Pair:
    """The Gaussian pairs on one side; logistic regression over all records has a fixed one below."""
    sensitivity = mechanism.sensitivity
    if isinstance(sensitivity, Logistic) and (side is Side.LOWER or _is_instance(mechanism)):
        cells = record_cells(sensitivity, side)
    else:
        cells = cells_of(sensitivity, side)
    low, high = cells.low / mechanism.noise_deviation, cells.high / mechanism.noise_deviation
    return gaussian_mixture_pair(replace(cells, low=low, high=high).within(side), side)
