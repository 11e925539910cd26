"""Published formulas: values that others computed, the safe side of rounding, and every condition.

Values come from the specification's tables (mpmath, 11 digits), from tables and notebooks of the
authors, and from evaluations in 60-digit balls written here; none from our own code.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import pytest
from flint import arb, ctx

from sharpdp.bounds import all_bounds, published
from sharpdp.bounds.published import Formula, all_formulas, formulas_for
from sharpdp.bounds.shuffle_model.published.epsilon import _bennett
from sharpdp.bracket import Rigor, Side
from sharpdp.errors import Inapplicable, InvalidArgument, NotCertified
from sharpdp.mechanisms import Laplace, RandomizedResponse, ShuffledReports

EVERY = [one for one in all_formulas() if one.of is ShuffledReports]
FORMULAS = {one.name: one for one in EVERY}
TABLE = (10_000, 4.444)
"""Users and local epsilon of both tables of wang2023."""


def reports(users: int, local_epsilon: float, **more: object) -> ShuffledReports:
    return ShuffledReports(users=users, local_epsilon=local_epsilon, **more)  # type: ignore[arg-type]


# (formula, users, local epsilon, delta or order, value, digits to which it is known)
GOLDEN = [
    # the stored output of the notebook of balle2019's authors
    ("swap_upper", 5000, 0.4, 1e-6, 0.2523130449483328, 15),
    ("blanket_hoeffding_upper", 5000, 0.4, 1e-6, 0.05746164784348143, 10),
    ("blanket_bennett_upper", 5000, 0.4, 1e-6, 0.11301679081207759, 10),
    # a value of theirs that the specification quotes
    ("blanket_bennett_upper", 10_000, 1.0, 1e-6, 0.166, 3),
    # wang2023 Table 2, row "[23]", and Table 1 at the local epsilon that it states
    ("stronger_clones_closed_form_upper", *TABLE, 5e-5, 1.013965, 7),
    ("stronger_clones_closed_form_upper", *TABLE, 3e-6, 1.084936, 7),
    ("stronger_clones_closed_form_upper", *TABLE, 8.2062e-5, 1.0, 6),
    # wang2023 Table 2 with its own theorem, in the specification's digits
    ("mixture_tradeoff_upper", *TABLE, 5e-5, 0.39958914, 8),
    ("mixture_tradeoff_upper", *TABLE, 3e-6, 0.50034406, 8),
    ("mixture_tradeoff_upper", *TABLE, 1e-7, 0.60714325, 8),
    ("mixture_tradeoff_upper", *TABLE, 4e-9, 0.69881083, 8),
    ("mixture_tradeoff_upper", *TABLE, 9e-11, 0.79913570, 8),
    # Table 1, the other way round
    ("mixture_tradeoff_upper", *TABLE, 3.03086166696e-6, 0.5, 10),
    ("mixture_tradeoff_upper", *TABLE, 2.44552070902e-14, 1.0, 10),
    ("mixture_tradeoff_upper", 1000, 1.0, 1.32092640e-4, 0.1, 8),
    ("mixture_tradeoff_upper", 1000, 1.0, 3.66440824e-8, 0.2, 8),
    ("mixture_tradeoff_upper", 1000, 4.0, 4.54991722e-4, 1.0, 8),
    # the 2021 pair in the specification, one round; two printed digits more than needed
    ("clones_numeric_upper", *TABLE, 5e-5, 0.59225, 5),
    ("clones_numeric_upper", *TABLE, 9e-11, 1.21178, 6),
    ("clones_numeric_upper", 10_000, 1.0, 1e-6, 0.0530053, 6),
    ("clones_numeric_upper", 10_000, 1.0, 1e-8, 0.06888042, 6),
    ("clones_renyi_upper", 10_000, 2.0, 2, 1.71507455e-3, 4),
    ("clones_renyi_upper", 100, 4.0, 16, 3.938070, 4),
    # chen2024 Figure 2 (order 4) and Figure 3 (local epsilon 2)
    ("moments_upper", 10_000, 0.1, 4, 1.30396959e-5, 8),
    ("moments_upper", 10_000, 1.0, 4, 8.55794911e-3, 9),
    ("moments_upper", 10_000, 3.0, 4, 7.80203951, 9),
    ("moments_upper", 10_000, 2.0, 2, 0.241181907, 9),
    ("moments_upper", 10_000, 2.0, 20, 1.26937846, 9),
    ("binary_moments_lower", 10_000, 0.1, 4, 2.00166121e-6, 9),
    ("binary_moments_lower", 10_000, 1.0, 4, 2.17161500e-4, 9),
    ("binary_moments_lower", 10_000, 4.0, 4, 1.03605989e-2, 9),
    ("binary_moments_lower", 10_000, 2.0, 20, 5.25327606e-3, 9),
    ("gaussian_limit_renyi", 10_000, 0.1, 4, 8.84225157e-4, 9),
    ("gaussian_limit_renyi", 10_000, 4.0, 4, 4.36828883e-2, 9),
    ("gaussian_limit_renyi", 10_000, 2.0, 20, 2.95591803e-2, 9),
    # R3: the delta of the printed limit at epsilon 2.81, and of the corrected one at 0.64
    ("gaussian_limit", 1000, 4.0, 2.9e-10, 2.81, 2),
    ("corrected_limit", *TABLE, 9.4e-9, 0.64, 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "users", "local_epsilon", "at", "value", "digits"), GOLDEN)
def test_golden_values(
    name: str, users: int, local_epsilon: float, at: float, value: float, digits: int
) -> None:
    found = FORMULAS[name](reports(users, local_epsilon), at)
    assert found == pytest.approx(value, rel=10 ** (1 - digits))


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    precision, ctx.prec = ctx.prec, 200
    yield
    ctx.prec = precision


def _clones(n: arb, odds: arb, delta: arb) -> arb:
    growth = 8 * (odds * (4 / delta).log() / n).sqrt() + 8 * odds / n
    return (1 + (odds - 1) / (odds + 1) * growth).log()


def _stronger(n: arb, odds: arb, delta: arb) -> arb:
    root = (2 * (4 / delta).log()).sqrt()
    return (1 + (odds - 1) * (4 * root / ((odds + 1) * n).sqrt() + 4 / n)).log()


def _moments(n: arb, odds: arb, order: arb) -> arb:
    hidden = ((n - 1) / (2 * odds)).floor() + 1
    usual = (order**2 * (odds - 1) ** 2 / hidden).exp()
    return (usual + odds**order * (-(n - 1) / (8 * odds)).exp()).log() / (order - 1)


EXACT: dict[str, Callable[[arb, arb, arb], arb]] = {
    "swap_upper": lambda n, odds, delta: 12 * odds.log() * (-delta.log() / n).sqrt(),
    "clones_closed_form_upper": _clones,
    "stronger_clones_closed_form_upper": _stronger,
    "moments_upper": _moments,
    "binary_moments_lower": lambda n, odds, a: (
        (1 + a * (a - 1) * (odds - 1) ** 2 / (2 * n * odds)).log() / (a - 1)
    ),
}


def exactly(name: str, users: int, local_epsilon: float, at: float) -> arb:
    return EXACT[name](arb(users), arb(local_epsilon).exp(), arb(at))


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(
    ("users", "local_epsilon"),
    [(1000, 0.1), (2000, 0.49), (10**6, 1.0), (10**9, 7.5), (10**12, 1e-6), (10**12, 12.0)],
)
@pytest.mark.parametrize("small", [True, False])
def test_closed_forms_are_on_their_side_and_close(
    name: str, users: int, local_epsilon: float, small: bool
) -> None:
    one = FORMULAS[name]
    if one.quantity == "epsilon":
        at = 1e-12 if small else 5e-3
    else:
        at = 2.0 if small else 40.0
    try:
        value = one(reports(users, local_epsilon), at)
    except Inapplicable:
        assert name == "swap_upper"
        assert local_epsilon > 0.5
        return
    ratio = arb(value) / exactly(name, users, local_epsilon, at)
    if one.side is Side.UPPER:
        assert arb(1) <= ratio
        assert ratio < 1 + arb("1e-10")
    else:
        assert 1 - arb("1e-10") < ratio
        assert ratio <= arb(1)


def blanket(name: str, users: int, local_epsilon: float, epsilon: arb) -> arb:
    """delta of the blanket's bounds at an epsilon."""
    odds, x = arb(local_epsilon).exp(), epsilon.exp()
    mass, drift = 1 / odds, x - 1
    if name == "blanket_hoeffding_upper":
        width = (x + 1) * (odds - 1 / odds)
        factor, rate = width**2 / (4 * drift), 2 * drift**2 / width**2
    else:
        most, second = odds - x / odds, odds * (x**2 + 1) - 2 * x / odds**3
        u = drift * most / second
        factor = most / (1 + u).log()
        rate = second / most**2 * ((1 + u) * (1 + u).log() - u)
    return factor / (mass * users) * (1 - mass * (1 - (-rate).exp())) ** users


@pytest.mark.parametrize("name", ["blanket_hoeffding_upper", "blanket_bennett_upper"])
@pytest.mark.parametrize(
    ("users", "local_epsilon", "delta"),
    [(2000, 0.05, 1e-3), (5000, 0.4, 1e-6), (10**5, 2.0, 1e-9), (10**12, 1e-3, 1e-300)],
)
def test_the_blanket_is_inverted_on_the_safe_side(
    name: str, users: int, local_epsilon: float, delta: float
) -> None:
    epsilon = FORMULAS[name](reports(users, local_epsilon), delta)
    assert 0 < epsilon <= local_epsilon
    assert blanket(name, users, local_epsilon, arb(epsilon)) <= arb(delta)
    assert blanket(name, users, local_epsilon, arb(epsilon) * (1 - arb("1e-9"))) > arb(delta)


@pytest.mark.parametrize("rounds", [1, 30])
@pytest.mark.parametrize(("users", "local_epsilon"), [(10_000, 1.0), (10**8, 0.1), (50, 3.0)])
def test_moments_are_converted_at_the_best_whole_order(
    users: int, local_epsilon: float, rounds: int
) -> None:
    delta = 1e-6

    def at(order: int) -> float:
        divergence = rounds * exactly("moments_upper", users, local_epsilon, order)
        penalty = (order * arb(delta)).log() / (order - 1)
        return float(divergence + (1 - arb(1) / order).log() - penalty)

    orders = sorted({*range(2, 60), *(round(1.03**k) for k in range(130, 420))})
    value = FORMULAS["moments_epsilon_upper"](reports(users, local_epsilon, rounds=rounds), delta)
    best = min(max(at(order), 0.0) for order in orders)
    assert value <= best * (1 + 1e-10)
    assert value >= 0.999 * best  # the order is at most 1.5 % off, at a minimum


def test_the_threshold_has_no_floors() -> None:
    """With those of the proof, delta at epsilon 0.5 would be 2.91022718e-6: 4% below the theorem."""
    value = FORMULAS["mixture_tradeoff_upper"](reports(*TABLE), 2.91022718e-6)
    assert value > 0.501


def test_the_mixture_on_tiny_cases() -> None:
    """Exact rationals at E = 3: delta is 3/8 for two users and 9/32 for three, at e^epsilon 3/2 and 2."""
    mixture = FORMULAS["mixture_tradeoff_upper"]
    for users, delta in ((2, 3 / 8), (3, 9 / 32)):
        run = reports(users, math.log(3))
        assert mixture(run, delta * (1 + 1e-9)) <= math.log(1.5) * (1 + 1e-9)
        assert mixture(run, delta * (1 - 1e-9)) == math.log(3)
    assert mixture(reports(1, 2.0), 1e-6) == 2.0


def binary_renyi(users: int, local_epsilon: float, order: int) -> arb:
    """Binary randomized response, all others hold 0: victim 0 against victim 1."""
    odds = arb(local_epsilon).exp()
    lie = 1 / (odds + 1)
    total = arb(0)
    for ones in range(users + 1):
        mass = arb(math.comb(users, ones)) * lie**ones * (1 - lie) ** (users - ones)
        share = arb(ones) / users
        total += mass / (share * odds + (1 - share) / odds) ** (order - 1)
    return total.log() / (order - 1)


@pytest.mark.parametrize(
    ("users", "local_epsilon", "order", "real", "printed"),
    [
        (100, 4.0, 2, 2.282932, 2.205986),
        (1000, 4.0, 16, 2.790005, 1.748890),
        (1000, 3.0, 32, 1.432711, 1.286761),
    ],
)
def test_the_printed_limit_reports_too_little(
    users: int, local_epsilon: float, order: int, real: float, printed: float
) -> None:
    exact = binary_renyi(users, local_epsilon, order)
    assert float(exact) == pytest.approx(real, abs=1e-6)
    estimate = FORMULAS["gaussian_limit_renyi"](reports(users, local_epsilon), order)
    assert estimate == pytest.approx(printed, abs=1e-6)
    assert arb(estimate) < exact
    assert FORMULAS["gaussian_limit_renyi"].rigor is Rigor.APPROXIMATE


@pytest.mark.parametrize(
    ("users", "randomizer", "exact", "error"),
    [
        (1000, "individual", 2.323335e-3, 4.2e-4),
        (10_000, "individual", 2.322116e-4, 4.2e-5),
        (10_000, "shared", 1.588158e-4, 6.0e-5),
    ],
)
def test_the_corrected_limit_is_one(
    users: int, randomizer: str, exact: float, error: float
) -> None:
    """Against the exact Renyi divergence of order 2 at local epsilon 1: off by some 0.5 / n."""
    run = reports(users, 1.0, randomizer=randomizer)
    estimate = FORMULAS["corrected_limit_renyi"](run, 2.0)
    assert estimate / exact - 1 == pytest.approx(error, rel=0.1)


def test_the_corrected_limit_is_no_bound_either() -> None:
    """n = 10^4, local epsilon 4.444, epsilon 0.64: it gives 9.4e-9, the exact pair has 2.6e-8."""
    run = reports(*TABLE)
    assert (
        FORMULAS["corrected_limit"](run, 2.6e-8)
        < 0.64
        < FORMULAS["mixture_tradeoff_upper"](run, 2.6e-8)
    )


@pytest.mark.parametrize(
    ("name", "fine", "wrong", "at", "why"),
    [
        ("swap_upper", (1000, 0.49), (999, 0.49), 1e-3, "at least 1000 users"),
        ("swap_upper", (1000, 0.49), (1000, 0.5), 1e-3, "local_epsilon below 0.5"),
        # n = 10^4, delta = 10^-6: log(n / (16 log(2/delta))) = 3.7628..., and 4.444478... for 2023
        ("clones_closed_form_upper", (10_000, 3.762), (10_000, 3.764), 1e-6, "about 10010 users"),
        ("stronger_clones_closed_form_upper", (10_000, 4.4444), (10_000, 4.4446), 1e-6, "10002 users"),
        ("blanket_hoeffding_upper", (10_000, 1.0), (10_000, 4.0), 1e-6, "no epsilon up to"),
        ("blanket_bennett_upper", (10_000, 1.0), (10_000, 4.0), 1e-6, "no epsilon up to"),
        ("gaussian_limit", (2, 1.0), (1, 1.0), 1e-6, "at least two users"),
        ("gaussian_limit_renyi", (2, 1.0), (1, 1.0), 2.0, "at least two users"),
        ("corrected_limit", (2, 1.0), (1, 1.0), 1e-6, "at least two users"),
        ("corrected_limit_renyi", (2, 1.0), (1, 1.0), 2.0, "at least two users"),
    ],
)  # fmt: skip
def test_conditions(
    name: str, fine: tuple[int, float], wrong: tuple[int, float], at: float, why: str
) -> None:
    assert FORMULAS[name](reports(*fine), at) > 0
    with pytest.raises(Inapplicable, match=why):
        FORMULAS[name](reports(*wrong), at)


def test_the_swap_needs_a_small_delta() -> None:
    assert FORMULAS["swap_upper"](reports(1000, 0.1), 0.0099) > 0
    with pytest.raises(Inapplicable, match=r"delta below 0\.01"):
        FORMULAS["swap_upper"](reports(1000, 0.1), 0.01)


@pytest.mark.parametrize("order", [1.5, 2.5, 1.0])
@pytest.mark.parametrize("name", ["moments_upper", "binary_moments_lower"])
def test_whole_orders_only(name: str, order: float) -> None:
    with pytest.raises(Inapplicable, match="whole orders"):
        FORMULAS[name](reports(100, 1.0), order)


NEEDS_SHARED = {
    "blanket_bennett_upper",
    "blanket_hoeffding_upper",
    "mixture_tradeoff_upper",
    "moments_epsilon_upper",
    "moments_upper",
    "stronger_clones_closed_form_upper",
}


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_individual_randomizers_are_covered_by_some(one: Formula) -> None:
    at = 1e-6 if one.quantity == "epsilon" else 2.0
    run = reports(4000, 0.3, randomizer="individual")
    if one.name in NEEDS_SHARED:
        with pytest.raises(Inapplicable, match="all users share"):
            one(run, at)
    else:
        assert one(run, at) > 0


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_rounds_are_covered_by_some(one: Formula) -> None:
    at = 1e-6 if one.quantity == "epsilon" else 2.0
    once, often = reports(4000, 0.3), reports(4000, 0.3, rounds=4)
    if not one.composes:
        with pytest.raises(Inapplicable, match="one round only"):
            one(often, at)
    elif one.quantity == "renyi" or one.name == "unshuffled_upper":
        assert one(often, at) == pytest.approx(4 * one(once, at), rel=1e-9)
    else:  # about the square root of the rounds
        assert 1.9 < one(often, at) / one(once, at) < 2.3


def test_a_known_randomizer_is_shared_but_not_the_worst() -> None:
    known = ShuffledReports(users=10_000, randomizer=RandomizedResponse(local_epsilon=1.0))
    for name in ("stronger_clones_closed_form_upper", "blanket_hoeffding_upper"):
        assert FORMULAS[name](known, 1e-6) == FORMULAS[name](reports(10_000, 1.0), 1e-6)
    with pytest.raises(Inapplicable, match="the worst randomizer"):
        FORMULAS["binary_moments_lower"](known, 2.0)


def test_every_formula_has_a_value_from_elsewhere() -> None:
    tested = {name for name, *_ in GOLDEN} | EXACT.keys() | {
        "corrected_limit_renyi",  # test_the_corrected_limit_is_one
        "moments_epsilon_upper",  # test_moments_are_converted_at_the_best_whole_order
        "unshuffled_upper",  # test_rounds_are_covered_by_some, and its doctest
    }  # fmt: skip
    assert tested == set(FORMULAS)


def test_registrations_are_whole() -> None:
    assert not FORMULAS.keys() & {one.name for one in all_bounds()}
    for one in all_formulas():
        assert one.holds_when
        assert one.source
        assert one.rigor in (Rigor.CERTIFIED, Rigor.APPROXIMATE)
        if one.rigor is Rigor.APPROXIMATE:
            assert "neither an upper nor a lower bound" in one.holds_when
        else:
            assert one.name.endswith(f"_{one.side}")


def test_a_name_is_taken_once_and_the_quantity_is_known() -> None:
    with pytest.raises(InvalidArgument, match="a name of its own"):

        @published.formula(
            holds_when="never",
            source=FORMULAS["swap_upper"].source,
        )
        def swap_upper(mechanism: ShuffledReports, delta: float) -> float:
            return delta

    with pytest.raises(InvalidArgument, match="must be delta or order; got 'mu'"):

        @published.formula(
            holds_when="never",
            source=FORMULAS["swap_upper"].source,
        )
        def unknown_upper(mechanism: ShuffledReports, mu: float) -> float:
            return mu


def test_formulas_are_about_their_mechanism_only() -> None:
    assert formulas_for(Laplace(1.0), "epsilon") == ()
    quantities = {one.quantity for one in formulas_for(reports(10, 1.0), "renyi")}
    assert quantities == {"renyi"}


@pytest.mark.parametrize("u", [1e-12, 1e-4, 0.0199, 0.0201, 3.0])
def test_bennetts_function_does_not_cancel(u: float) -> None:
    exact = (1 + arb(u)) * (1 + arb(u)).log() - arb(u)
    assert abs(arb(_bennett(u)) / exact - 1) < arb("1e-13")


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
@pytest.mark.parametrize("users", [1, 10**12])
@pytest.mark.parametrize("local_epsilon", [1e-6, 30.0])
def test_extremes_give_a_number_or_a_reason(one: Formula, users: int, local_epsilon: float) -> None:
    """At the ends of what a mechanism may be; orders stay below 10, where numerical ones are quick."""
    for at in (1e-300, 1 - 1e-9) if one.quantity == "epsilon" else (1.5, 9.0):
        value = math.inf
        with contextlib.suppress(Inapplicable, NotCertified):
            value = one(reports(users, local_epsilon), at)
        assert value >= 0
