"""Finite pairs around the profile of shuffled reports: brute force, published values, hulls."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import exp, log

import numpy as np
import pytest

from sharpdp.bounds.shuffle_model import likelihood_ratio_sums as module
from sharpdp.bounds.shuffle_model.all_datasets import over_all_datasets, telling_datasets
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, dominated, dominating
from sharpdp.bracket import Side
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import above_all, calls_above, calls_below, pair_from_halves
from sharpdp.pairs.pair import GaussianPair, epsilon_of, log_delta_of

Exact = list[list[Fraction]]


def sixteenths(*rows: list[int]) -> Exact:
    return [[Fraction(mass, 16) for mass in row] for row in rows]


MATRICES = [
    sixteenths([12, 4], [4, 12]),
    sixteenths([8, 4, 4], [4, 8, 4], [4, 4, 8]),
    sixteenths([8, 5, 3], [3, 8, 5], [5, 5, 6]),
    sixteenths([4, 4, 8], [8, 2, 6]),
]
RATIOS = [Fraction(n, 8) for n in (8, 9, 10, 12, 15, 20)]


def histogram_law(matrix: Exact, records: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """The law of how often each report occurs."""
    law: dict[tuple[int, ...], Fraction] = {}
    reports = range(len(matrix[0]))
    for given in product(reports, repeat=len(records)):
        chance = Fraction(1)
        for record, report in zip(records, given, strict=True):
            chance *= matrix[record][report]
        key = tuple(given.count(report) for report in reports)
        law[key] = law.get(key, Fraction(0)) + chance
    return law


def hockey_stick(
    matrix: Exact, one: tuple[int, ...], other: tuple[int, ...], x: Fraction
) -> Fraction:
    p, q = histogram_law(matrix, one), histogram_law(matrix, other)
    return sum((max(p[key] - x * q[key], Fraction(0)) for key in p), Fraction(0))


def all_values(matrix: Exact, users: int, x: Fraction) -> list[Fraction]:
    """Every pair of neighboring data sets, both orders."""
    records = range(len(matrix))
    return [
        hockey_stick(matrix, (*others, a), (*others, b), x)
        for others in combinations_with_replacement(records, users - 1)
        for a, b in [*combinations(records, 2), *((b, a) for a, b in combinations(records, 2))]
    ]


def floats(matrix: Exact) -> list[list[float]]:
    return [[float(mass) for mass in row] for row in matrix]


def log_values(pair: AtomicPair, x: Fraction) -> tuple[float, float]:
    return log_delta_of(pair, log(x))


@pytest.mark.parametrize("users", [1, 2, 3])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("listing", [True, False])
def test_the_blanket_is_above_every_data_set(
    matrix: Exact, users: int, listing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listing:
        monkeypatch.setattr(module, "_MOST_RESULTS", 1)
        monkeypatch.setattr(module, "_FEWEST_STEPS", 40)
        monkeypatch.setitem(module._STEP, Side.UPPER, 0.2)
    rows = floats(matrix)
    pairs = combinations(range(len(rows)), 2)
    pair = dominating([Reports.blanket(rows, a, b, users) for a, b in pairs])
    assert listing or pair.symmetric
    for x in RATIOS:
        worst = max(all_values(matrix, users, x))
        if worst > 0:
            assert log(worst) <= log_values(pair, x)[1]


@pytest.mark.parametrize("users", [1, 2, 3])
@pytest.mark.parametrize("matrix", MATRICES)
def test_the_worst_data_sets_are_found(matrix: Exact, users: int) -> None:
    rows = floats(matrix)
    pair, single = over_all_datasets(rows, users), telling_datasets(rows, users, 3, len(rows))
    for x in RATIOS:
        worst = max(all_values(matrix, users, x))
        high = log_values(pair, x)[1]
        if worst > 0:
            assert log(worst) <= high <= log(worst) + 0.02
            for one in single:
                backward = one.reverse()
                assert isinstance(backward, AtomicPair)
                assert max(log_values(one, x)[0], log_values(backward, x)[0]) <= log(worst)
    best = float(max(all_values(matrix, users, Fraction(1))))
    assert np.exp(log_delta_of(single[0], 0.0)[1]) == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("listing", [True, False])
@pytest.mark.parametrize("matrix", MATRICES)
def test_fixed_others_are_one_pair_of_data_sets(
    matrix: Exact, listing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listing:
        monkeypatch.setattr(module, "_MOST_RESULTS", 1)
    last = len(matrix) - 1
    pair = dominated(Reports.others_hold(floats(matrix), 0, 1, last, 4))
    others = (last,) * 3
    for x in RATIOS:
        for one, a, b in ((pair, 0, 1), (pair.reverse(), 1, 0)):
            truth = float(hockey_stick(matrix, (*others, a), (*others, b), x))
            low = np.exp(log_delta_of(one, log(x))[0])
            assert low <= truth * (1 + 1e-12)
            assert low >= truth * (1 - (1e-9 if listing else 0.02)) - 2e-5


def randomized_response(local: float, categories: int) -> list[list[float]]:
    odds = exp(local)
    return [
        [(odds if x == y else 1.0) / (odds + categories - 1) for y in range(categories)]
        for x in range(categories)
    ]


@pytest.mark.parametrize(
    ("categories", "local", "users", "delta", "upper", "lower", "digits"),
    [
        (3, 1.0, 10**4, 1e-6, 0.0380013, 0.0379981, 1e-4),
        (2, 1.0, 10**4, 1e-6, 0.0432061581, 0.0356588, 1e-4),
        (3, 2.0, 10**6, 1e-8, 0.0122866, 0.0122866, 1.5e-4),
    ],
)
def test_published_values(
    categories: int,
    local: float,
    users: int,
    delta: float,
    upper: float,
    lower: float,
    digits: float,
) -> None:
    rows = randomized_response(local, categories)
    high = epsilon_of(dominating([Reports.blanket(rows, 0, 1, users)]), log(delta))[1]
    other = 2 if categories > 2 else 0
    pair = dominated(Reports.others_hold(rows, 0, 1, other, users))
    low = max(epsilon_of(one, log(delta))[0] for one in (pair, pair.reverse()))
    unit = 6e-8  # of the last printed digit
    assert upper - unit <= high <= upper * (1 + digits)
    assert lower * (1 - digits) <= low <= lower + unit


@pytest.mark.parametrize(
    ("delta", "ternary", "binary"),
    [(5e-5, 0.39470, 0.29858), (3e-6, 0.49365, 0.38499), (9e-11, 0.78482, 0.65185)],
)
def test_lower_bounds_of_the_printed_table(delta: float, ternary: float, binary: float) -> None:
    for categories, printed in ((3, ternary), (2, binary)):
        rows = randomized_response(4.444, categories)
        reports = Reports.others_hold(rows, 0, 1, 2 if categories > 2 else 0, 10_000)
        pair = _kept.setdefault(categories, None) or dominated(reports)
        _kept[categories] = pair
        low = max(epsilon_of(one, log(delta))[0] for one in (pair, pair.reverse()))
        assert printed * (1 - 3e-4) - 1e-5 <= low <= printed + 1e-5


_kept: dict[int, AtomicPair | None] = {}


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.5, 3.0])
@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_hulls_enclose_a_known_profile(mu: float, noise: float) -> None:
    known = GaussianPair(mu)
    losses = mu * np.concatenate([np.arange(0.0, 6.0, 0.05), np.geomspace(6.0, 30.0, 60)])
    values = known.log_hockey_stick(losses)
    rough = noise * np.random.default_rng(3).uniform(-1.0, 1.0, values.size)
    low, high = values - noise + 0.5 * rough, values + noise + 0.5 * rough
    above = calls_above(losses, high, 40.0 * mu)
    below = calls_below(losses, (low, high), (low, high), 40.0 * mu)
    top, bottom = (
        pair_from_halves(above, above, side=Side.UPPER),
        pair_from_halves(below, below, side=Side.LOWER),
    )
    inside = mu * np.linspace(0.0, 25.0, 777)
    truth = known.log_hockey_stick(inside)
    assert np.all(top.log_hockey_stick(inside) >= truth)
    assert np.all(bottom.log_hockey_stick(inside) <= truth)
    near = inside < 5.0 * mu
    assert np.max((top.log_hockey_stick(inside) - truth)[near]) < 0.02 + 4 * noise
    assert np.max((truth - bottom.log_hockey_stick(inside))[near]) < 0.06 + 20 * noise
    for pair in (top, bottom):
        assert np.sum(np.exp(pair.log_p)) == pytest.approx(1.0, abs=1e-12)
        assert np.sum(np.exp(pair.log_q)) == pytest.approx(1.0, abs=1e-12)


def test_values_that_say_nothing_reveal_nothing() -> None:
    losses, nothing = np.linspace(0.0, 0.9, 10), np.full(10, -np.inf)
    below = calls_below(losses, (nothing, np.zeros(10)), (nothing, np.zeros(10)), 1.0)
    pair = pair_from_halves(below, below, side=Side.LOWER)
    assert pair.losses == (0.0,)
    assert log_delta_of(pair, 0.0) == (-np.inf, -np.inf)


def test_above_all_is_above_each_and_near_the_largest() -> None:
    pairs = [
        AtomicPair.from_pmfs(p, q)
        for p, q in (([0.5, 0.3, 0.2], [0.3, 0.3, 0.4]), ([0.6, 0.4], [0.5, 0.5]))
    ]
    top = above_all(pairs)
    at = np.linspace(0.0, 0.69, 50)
    each = np.exp([one.log_hockey_stick(at) for pair in pairs for one in (pair, pair.reverse())])
    largest = np.max(each, axis=0)
    assert np.all(np.exp(top.log_hockey_stick(at)) >= largest)
    assert np.max(np.exp(top.log_hockey_stick(at)) - largest) < 1e-3


def test_what_is_not_listed_is_counted() -> None:
    # three reports carry all information; more than 100 of them are as good as impossible
    rows = [[1e-8, 2e-8, 1 - 3e-8], [2e-8, 1e-8, 1 - 3e-8]]
    reports = Reports.others_hold(rows, 0, 1, 0, 10**8)
    high = module.listed(reports, Side.UPPER)
    low = module.listed(reports, Side.LOWER)
    assert high is not None
    assert low is not None
    assert 0.0 < high.infinite_p < 1e-100
    assert low.infinite_p == 0.0
    assert np.sum(np.exp(high.log_p)) == pytest.approx(1.0, abs=1e-9)
