"""The references of the shuffle model agree across independent routes, and with known values.

Nothing here imports sharpdp. Numbers in quotes are known to all their digits from other work, in
40 digits or exact fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import log

import pytest
from flint import arb

from tests.golden.printed import near
from tests.reference import finite, shuffle
from tests.reference import shuffle_small as small
from tests.reference.balls import ball, precision

ODDS = Fraction(3)
GENERIC = [Fraction(9, 8), Fraction(27, 16), Fraction(41, 16)]  # ratios that no point attains


def logs(x: Fraction) -> arb:
    with precision(300):
        return ball(x).log()


def worst(pair: small.Pair, x: Fraction) -> Fraction:
    """delta in the worse direction."""
    return max(finite.delta([pair], x), finite.delta([pair[::-1]], x))


def close(value: arb, exact: Fraction) -> bool:
    with precision(300):
        return bool(abs(value - ball(exact)) < ball(exact) * arb(10) ** -18)


# --- balls against enumeration ----------------------------------------------------------------------


@pytest.mark.parametrize("users", [1, 2, 3, 6, 13])
@pytest.mark.parametrize("x", GENERIC)
def test_balls_equal_enumeration(users: int, x: Fraction) -> None:
    local, epsilon = logs(ODDS), logs(x)
    shared = small.clones(users, ODDS, small.shared_rate(ODDS))
    own = small.clones(users, ODDS, small.individual_rate(ODDS))
    assert close(shuffle.delta(users, local, epsilon), finite.delta([shared], x))
    assert close(shuffle.delta(users, local, epsilon, "individual"), finite.delta([own], x))
    assert close(shuffle.binary_worst(users, local, epsilon), worst(small.binary(users, ODDS), x))
    if users <= 6:
        exact = worst(small.ternary(users, ODDS), x)
        assert close(shuffle.ternary_delta(users, local, epsilon), exact)


@pytest.mark.parametrize("users", [2, 5])
def test_renyi_in_balls_equals_enumeration(users: int) -> None:
    local = logs(ODDS)
    pair = small.clones(users, ODDS, small.shared_rate(ODDS))
    for order in (2, 3, 7):
        exact = logs(finite.renyi_sum([pair], order)) / (order - 1)
        assert abs(shuffle.renyi(users, local, order) - exact) < 1e-12
    counts = small.binary(users, ODDS)
    for victim in (0, 1):
        exact = logs(finite.renyi_sum([counts if victim == 0 else counts[::-1]], 5)) / 4
        assert abs(shuffle.binary_renyi(users, local, 5, victim) - exact) < 1e-12


@pytest.mark.parametrize("rate", [small.shared_rate(ODDS), small.individual_rate(ODDS)])
def test_the_tradeoff_function_of_balls_equals_enumeration(rate: Fraction) -> None:
    users = 7
    kind = "shared" if rate == small.shared_rate(ODDS) else "individual"
    pair = small.clones(users, ODDS, rate)
    for fpr in (Fraction(1, 100), Fraction(3, 10), Fraction(4, 5)):
        value = shuffle.fnr(users, logs(ODDS), fpr, kind)
        assert abs(value - ball(finite.tradeoff([pair], fpr))) < 1e-12


@pytest.mark.parametrize(
    ("users", "local", "epsilon"), [(10**4, 4.444, 0.0), (10**4, 4.444, 0.9), (10**5, 0.3, 0.002)]
)
def test_two_routes_to_the_shared_pair(users: int, local: float, epsilon: float) -> None:
    given_clones = shuffle.delta(users, local, epsilon)
    trinomial = shuffle.blanket_delta(users, local, epsilon)
    assert given_clones.overlaps(trinomial)


# --- exact fractions --------------------------------------------------------------------------------


def fractions(text: str) -> list[tuple[Fraction, Fraction]]:
    points = [point.split(",") for point in text.split()]
    return [(Fraction(a), Fraction(b)) for a, b in points]


FIXTURES = {
    2: {
        "bare": "0,1/4 1/4,0",
        "knots": "0,1 3/16,7/16 7/16,3/16 1,0",
        "delta": "3/8 9/32 3/16",
        "moments": "2 16/3",
    },
    3: {
        "bare": "0,7/16 1/16,5/16 5/16,1/16 7/16,0",
        "knots": "0,1 9/64,37/64 7/32,15/32 15/32,7/32 37/64,9/64 1,0",
        "delta": "5/16 27/128 9/64",
        "moments": "62/35 5288/1225",
    },
}


@pytest.mark.parametrize("users", FIXTURES)
def test_exact_fractions(users: int) -> None:
    known = FIXTURES[users]
    pair = small.clones(users, ODDS, Fraction(1, 2))
    assert small.knots(small.bare_clones(users, Fraction(1, 2))) == fractions(known["bare"])
    assert small.knots(pair) == fractions(known["knots"])
    levels = (Fraction(1), Fraction(3, 2), Fraction(2))
    assert [finite.delta([pair], x) for x in levels] == [
        Fraction(text) for text in known["delta"].split()
    ]
    assert [finite.renyi_sum([pair], order) for order in (2, 3)] == [
        Fraction(text) for text in known["moments"].split()
    ]


@pytest.mark.parametrize("users", [1, 2, 4, 9])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 3), Fraction(1, 50)])
def test_the_pair_is_the_mixture_of_the_bare_one(users: int, rate: Fraction) -> None:
    """Knots ((1-w) a + w (1-b), (1-w) b + w (1-a)): the exact curve from the bare one."""
    w = 1 / (ODDS + 1)
    bare = [(Fraction(0), Fraction(1)), *small.knots(small.bare_clones(users, rate))]
    bare.append((Fraction(1), Fraction(0)))
    mixed = {((1 - w) * a + w * (1 - b), (1 - w) * b + w * (1 - a)) for a, b in bare}
    corners = small.knots(small.clones(users, ODDS, rate))
    assert {*corners} <= mixed | {(Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))}


# --- every randomizer -------------------------------------------------------------------------------

LEVELS = [Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(2), Fraction(5, 2)]


def largest_share(users: int, records: int, odds: Fraction) -> tuple[Fraction, Fraction]:
    """The smallest and the largest, over levels, of the worst delta over that of the pair."""
    pair = small.clones(users, odds, small.shared_rate(odds))
    levels = [x for x in LEVELS if x < odds]
    found = dict.fromkeys(levels, Fraction(0))
    for matrix in small.staircases(records, odds):
        for others in small.datasets(users, records):
            seen = small.reports(matrix, others)
            for x in levels:
                found[x] = max(found[x], worst(seen, x))
    shares = [found[x] / finite.delta([pair], x) for x in levels]
    return min(shares), max(shares)


@pytest.mark.parametrize("odds", [Fraction(6, 5), Fraction(3), Fraction(20)])
@pytest.mark.parametrize(("users", "records"), [(1, 2), (2, 2), (2, 3), (3, 2), (3, 3), (4, 3)])
def test_no_extremal_randomizer_beats_the_pair(users: int, records: int, odds: Fraction) -> None:
    """Every data set, both directions. The pair is attained at some level, never far from it."""
    least, most = largest_share(users, records, odds)
    assert most <= 1
    if users <= 2:
        assert (least, most) == (1, 1)
    assert least > Fraction(4, 5)


@pytest.mark.slow
@pytest.mark.parametrize("odds", [Fraction(6, 5), Fraction(3), Fraction(20)])
@pytest.mark.parametrize("users", [2, 3, 4])
def test_no_extremal_randomizer_on_four_records_beats_the_pair(users: int, odds: Fraction) -> None:
    assert largest_share(users, 4, odds)[1] <= 1


@pytest.mark.parametrize("users", [2, 3])
def test_no_mixture_of_randomizers_beats_the_pair(users: int) -> None:
    """A shared randomizer may first draw, in each user's hands, which extremal one to run."""
    pair = small.clones(users, ODDS, small.shared_rate(ODDS))
    extremal = list(small.staircases(3, ODDS))
    for one, other in combinations_with_replacement(extremal, 2):
        matrix = small.mixture([(Fraction(1, 3), one), (Fraction(2, 3), other)])
        for others in small.datasets(users, 3):
            seen = small.reports(matrix, others)
            for x in LEVELS:
                assert worst(seen, x) <= finite.delta([pair], x)


@pytest.mark.parametrize(("users", "records"), [(2, 2), (2, 3), (3, 2)])
def test_no_choice_of_randomizers_by_place_beats_the_pair(users: int, records: int) -> None:
    """Records are mixed first, then place i runs its own randomizer, and its report is seen."""
    pair = small.clones(users, ODDS, small.individual_rate(ODDS))
    extremal = list(small.staircases(records, ODDS))
    for chosen in combinations_with_replacement(extremal, users):
        for others in small.datasets(users, records):
            seen = small.places(chosen, others)
            for x in LEVELS:
                assert worst(seen, x) <= finite.delta([pair], x)


# --- printed values ---------------------------------------------------------------------------------

N4 = 10**4
DELTAS = [  # users, local epsilon, epsilon, shared or individual, printed
    (N4, 4.444, 0.3, "shared", "5.185e-4"),
    (N4, 4.444, 0.4, "shared", "4.675e-5"),
    (N4, 4.444, 0.5, "shared", "2.74463804649e-6"),
    (N4, 4.444, 0.6, "shared", "1.08440971090e-7"),
    (N4, 4.444, 0.7, "shared", "3.0215266e-9"),
    (N4, 4.444, 0.8, "shared", "6.24305446380e-11"),
    (N4, 4.444, 0.9, "shared", "1.0154669e-12"),
    (N4, 4.444, 1.0, "shared", "1.37458264027e-14"),
    (N4, 4.444, 1.5, "shared", "2.5900377e-24"),
    (N4, 4.444, 2.0, "shared", "3.7232281e-33"),
    (N4, 4.444, 3.0, "shared", "2.6232238e-45"),
    (N4, 4.444, 0.5, "individual", "2.439e-4"),
    (N4, 1.0, 0.04, "shared", "2.624107126e-6"),
    (10**6, 2.0, 0.013, "shared", "1.05574e-8"),
    (1000, 1.0, 0.1, "shared", "8.20116625e-5"),
    (1000, 1.0, 0.2, "shared", "2.26567267e-9"),
    (1000, 4.0, 1.0, "shared", "3.81046783e-4"),
    (1000, 2.0, 0.5, "individual", "3.93363726e-6"),
    (1000, 4.0, 1.0, "individual", "6.47962897e-3"),
    (2, 1.0, 0.0, "shared", "0.33783471"),
    (2, 1.0, 0.1, "shared", "0.31715685"),
    (10, 1.0, 0.0, "shared", "0.15729814"),
    (10, 1.0, 0.1, "shared", "0.12149957"),
    (10, 1.0, 0.3, "shared", "0.061579790"),
    (1000, 1.0, 0.0, "shared", "0.015896506"),
    (1000, 1.0, 0.05, "shared", "0.0020484204"),
]

EPSILONS = [  # users, local epsilon, delta, shared or individual, printed
    (N4, 4.444, 5e-5, "shared", "0.39745190"),
    (N4, 4.444, 3e-6, "shared", "0.49706913"),
    (N4, 4.444, 1e-7, "shared", "0.60237224"),
    (N4, 4.444, 4e-9, "shared", "0.69249918"),
    (N4, 4.444, 9e-11, "shared", "0.79085444"),
    (N4, 4.444, 5e-5, "individual", "0.59225"),
    (N4, 4.444, 3e-6, "individual", "0.73968"),
    (N4, 4.444, 1e-7, "individual", "0.90159"),
    (N4, 4.444, 4e-9, "individual", "1.04604"),
    (N4, 4.444, 9e-11, "individual", "1.21178"),
    (N4, 1.0, 1e-6, "shared", "0.0432061581"),
    (N4, 1.0, 1e-6, "individual", "0.0530053"),
    (N4, 4.0, 1e-6, "shared", "0.410812"),
    (10**6, 2.0, 1e-8, "shared", "0.0130368696"),
    (10**6, 2.0, 1e-8, "individual", "0.0175589"),
    (1000, 1.0, 1e-6, "shared", "0.14867062"),
    (1000, 1.0, 1e-6, "individual", "0.18241235"),
    (1000, 3.0, 1e-6, "shared", "0.82311137"),
    (1000, 3.0, 1e-6, "individual", "1.26463330"),
    (N4, 1.0, 1e-8, "shared", "0.05644733"),
    (N4, 1.0, 1e-8, "individual", "0.06888042"),
]

BRACKETS = [  # users, local epsilon, delta, lower, upper of epsilon
    (10**8, 2.0, 1e-10, "0.001452387291", "0.001452387337"),
    (10**9, 4.0, 1e-12, "0.001770606743", "0.001770606801"),
]

LOWER = [  # delta, ternary and binary response at (N4, 4.444)
    (5e-5, "0.39470", "0.29858"),
    (3e-6, "0.49365", "0.38499"),
    (1e-7, "0.59812", "0.47871"),
    (4e-9, "0.68734", "0.56063"),
    (9e-11, "0.78482", "0.65185"),
]

CURVE = [0.01, 0.05, 0.1, 0.3, 0.5]
TRADEOFF = {  # local epsilon: false-negative rates at CURVE, N4 users
    1.0: "0.98965915 0.94868671 0.89777042 0.69560394 0.49497260",
    2.0: "0.98913735 0.94669828 0.89441422 0.68906542 0.48755654",
    4.0: "0.98693070 0.93857415 0.88094283 0.66373894 0.45950853",
    4.444: "0.98599236 0.93525347 0.87554565 0.65398605 0.44898637",
    6.0: "0.97891974 0.91248618 0.84014387 0.59497602 0.38838103",
}

ORDERS = [2, 4, 16, 64]
RENYI = {  # (users, local epsilon): individual; shared, at ORDERS
    (100, 0.5): "3.959842e-03;3.180177e-03 7.919531e-03;6.360176e-03 "
    "3.166388e-02;2.542435e-02 1.254825e-01;1.005623e-01",
    (100, 2.0): "1.833044e-01;1.003098e-01 4.064203e-01;2.051875e-01 "
    "1.529232e+00;1.157181e+00 1.887882e+00;1.798527e+00",
    (100, 4.0): "3.110583e+00;2.328119e+00 3.690372e+00;3.395135e+00 "
    "3.938070e+00;3.879000e+00 3.985255e+00;3.971191e+00",
    (1000, 0.5): "3.956343e-04;3.177931e-04 7.912684e-04;6.355860e-04 "
    "3.165060e-03;2.542328e-03 1.265935e-02;1.016825e-02",
    (1000, 1.0): "2.323335e-03;1.588727e-03 4.646709e-03;3.177462e-03 "
    "1.859043e-02;1.271063e-02 7.460205e-02;5.089451e-02",
    (1000, 4.0): "2.248483e-01;1.068266e-01 1.014198e+00;2.203499e-01 "
    "3.386069e+00;2.790005e+00 3.853826e+00;3.711906e+00",
    (N4, 0.5): "3.955991e-05;3.177704e-05 7.911982e-05;6.355408e-05 "
    "3.164793e-04;2.542163e-04 1.265916e-03;1.016864e-03",
    (N4, 1.0): "2.322116e-04;1.588158e-04 4.644232e-04;3.176316e-04 "
    "1.857696e-03;1.270527e-03 7.431024e-03;5.082161e-03",
    (N4, 2.0): "1.715075e-03;9.734108e-04 3.430168e-03;1.946825e-03 "
    "1.372241e-02;7.787598e-03 5.500583e-02;3.117026e-02",
}


@pytest.mark.parametrize(("users", "local", "epsilon", "kind", "printed"), DELTAS)
def test_printed_deltas(users: int, local: float, epsilon: float, kind: str, printed: str) -> None:
    assert near(shuffle.delta(users, local, epsilon, kind), printed)


@pytest.mark.parametrize(("users", "local", "delta", "kind", "printed"), EPSILONS)
def test_printed_epsilons(users: int, local: float, delta: float, kind: str, printed: str) -> None:
    """delta one unit of the last digit below and above encloses the target."""
    step = 10.0 ** -len(printed.partition(".")[2])
    below, above = float(printed) - step, float(printed) + step
    assert (
        shuffle.delta(users, local, below, kind) > delta > shuffle.delta(users, local, above, kind)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("users", "local", "delta", "lower", "upper"), BRACKETS)
def test_printed_brackets(users: int, local: float, delta: float, lower: str, upper: str) -> None:
    above = shuffle.delta(users, local, float(lower) * (1 - 1e-9), digits=12)
    below = shuffle.delta(users, local, float(upper) * (1 + 1e-9), digits=12)
    assert above > delta > below


@pytest.mark.parametrize(("delta", "ternary", "binary"), LOWER)
def test_printed_lower_sides(delta: float, ternary: str, binary: str) -> None:
    for curve, printed in ((shuffle.ternary_delta, ternary), (shuffle.binary_worst, binary)):
        assert curve(N4, 4.444, float(printed) - 1e-5) > delta
        assert curve(N4, 4.444, float(printed) + 1e-5) < delta


@pytest.mark.parametrize("local", TRADEOFF)
def test_printed_tradeoff_functions(local: float) -> None:
    for fpr, printed in zip(CURVE[:2], TRADEOFF[local].split()[:2], strict=True):
        assert near(shuffle.fnr(N4, local, fpr, digits=10), printed)


def renyi_cases() -> Iterator[object]:
    for (users, local), row in RENYI.items():
        for order, cell in zip(ORDERS, row.split(), strict=True):
            quick = users == 100 or (users == 1000 and local == 4.0)
            marks = [] if quick else [pytest.mark.slow]
            yield pytest.param(users, local, order, *cell.split(";"), marks=marks)


@pytest.mark.parametrize(("users", "local", "order", "individual", "shared"), list(renyi_cases()))
def test_published_renyi_divergences(
    users: int, local: float, order: int, individual: str, shared: str
) -> None:
    assert near(shuffle.renyi(users, local, order, "individual", 9), individual)
    assert near(shuffle.renyi(users, local, order, "shared", 9), shared)


def test_one_user_is_the_local_randomizer() -> None:
    local, epsilon = 1.0, 0.25
    odds, x = arb(local).exp(), arb(epsilon).exp()
    for kind in ("shared", "individual"):
        assert abs(shuffle.delta(1, local, epsilon, kind) - (odds - x) / (odds + 1)) < 1e-14


def test_delta_is_zero_from_the_local_epsilon_on() -> None:
    assert shuffle.delta(100, log(3), log(3)) == 0
    assert shuffle.delta(100, log(3), 1.0986122886681096) > 0
