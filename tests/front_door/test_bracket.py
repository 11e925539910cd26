"""Brackets: their ends, their words, and their refusal to guess."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharpdp.bracket import Bracket, Rigor, Side
from sharpdp.errors import InvalidArgument, Undecided, WrongType

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TINY = 1e-300


def test_the_sign_of_a_side_points_to_safety():
    assert (Side.LOWER.sign, Side.UPPER.sign) == (-1.0, 1.0)
    assert str(Side.UPPER) == "upper"


def test_the_weakest_rigor_wins():
    assert Rigor.weakest([]) is Rigor.CERTIFIED
    assert Rigor.weakest(reversed(Rigor)) is Rigor.APPROXIMATE
    assert Rigor.weakest([Rigor.APPROXIMATE, Rigor.MONTE_CARLO]) is Rigor.APPROXIMATE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lower": 2.0, "upper": 1.0}, "lower must be at most upper; got lower=2.0, upper=1.0."),
        ({"lower": math.nan, "upper": 1.0}, "lower must be a number; got nan."),
        ({"lower": 0.0, "upper": math.nan}, "upper must be a number; got nan."),
        ({"lower": "0", "upper": 1.0}, "lower must be a number or an array of numbers; got '0'."),
        ({"lower": True, "upper": 1.0}, "lower must be a number or an array of numbers; got True."),
        (
            {"lower": 1j, "upper": np.complex128(1)},
            "lower must be a number or an array of numbers; got 1j.",
        ),
        (
            {"lower": 0, "upper": np.complex128(1)},
            "upper must be a number or an array of numbers; got (1+0j).",
        ),
        ({"lower": None, "upper": 1.0}, "lower must be a number or an array of numbers; got None."),
        (
            {"lower": [0.0, 0.0], "upper": 1.0},
            "lower and upper must have the same shape; got (2,) and ().",
        ),
        (
            {"lower": [0.0, 3.0], "upper": [1.0, 2.0]},
            "lower must be at most upper; got lower=3.0, upper=2.0.",
        ),
        (
            {"lower": 0.0, "upper": 1.0, "rigor": "certified"},
            "rigor must be a Rigor; got 'certified'.",
        ),
        (
            {"lower": 0.0, "upper": 1.0, "rigor": Rigor.MONTE_CARLO},
            "confidence must be given for Monte Carlo, and only there; "
            "got confidence=None with rigor Monte Carlo.",
        ),
        (
            {"lower": 0.0, "upper": 1.0, "confidence": 0.99},
            "confidence must be given for Monte Carlo, and only there; "
            "got confidence=0.99 with rigor certified.",
        ),
        (
            {"lower": 0.0, "upper": 1.0, "rigor": Rigor.MONTE_CARLO, "confidence": 1},
            "confidence must be in (0, 1); got 1.",
        ),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(InvalidArgument) as caught:
        Bracket(**fields)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (1.828231, 1.828249, "1.82823 <= epsilon <= 1.82825"),
        (1.8282366649, 1.8282366682, "1.82823 <= epsilon <= 1.82824"),
        (0.4, 0.9, "0.4 <= epsilon <= 0.9"),
        (2 / 3, 2 / 3, "0.666666 <= epsilon <= 0.666667"),
        (0.0, math.inf, "0 <= epsilon <= inf"),
        (math.inf, math.inf, "inf <= epsilon <= inf"),
        (-2 / 3, 0.0, "-0.666667 <= epsilon <= 0"),
        (5.31961e-7, 5.31969e-7, "5.31961e-07 <= epsilon <= 5.31969e-07"),
        (1e-310, 2e-310, "1e-310 <= epsilon <= 2e-310"),
        (1234567.8, 1234568.1, "1234560 <= epsilon <= 1234570"),
        (1.0, math.nextafter(1.0, 2.0), "1 <= epsilon <= 1.00001"),
    ],
)
def test_printed_ends_are_rounded_outwards(lower, upper, text):
    assert str(Bracket(lower, upper)) == f"{text} | certified"


@given(NUMBERS, NUMBERS)
def test_what_is_printed_contains_the_bracket(a, b):
    lower, upper = min(a, b), max(a, b)
    low, _, _, _, high = str(Bracket(lower, upper)).removesuffix(" | certified").split()
    assert float(low) <= lower
    assert upper <= float(high)
    if TINY < abs(upper) < math.inf and math.isfinite(float(high)):
        assert abs(float(high) - upper) <= 1e-5 * abs(upper)


def test_the_context_and_the_rigor_are_printed():
    context = "at delta=1e-05 | Poisson batches, add/remove"
    bracket = Bracket(1.828231, 1.828249, context=context)
    assert str(bracket) == (
        "1.82823 <= epsilon <= 1.82825 at delta=1e-05 | Poisson batches, add/remove, certified"
    )
    guess = Bracket(0.0, 1.0, Rigor.MONTE_CARLO, "delta", "at epsilon=1", confidence=0.999)
    assert str(guess) == "0 <= delta <= 1 at epsilon=1, Monte Carlo with confidence 0.999"


def test_arrays_print_one_row_each():
    bracket = Bracket(np.zeros(9), np.ones(9), context="at nine deltas")
    rows = str(bracket).splitlines()
    assert rows[0] == "0 <= epsilon <= 1"
    assert rows[-2:] == ["... and 1 more", "at nine deltas, certified"]


def test_repr_names_every_end():
    assert repr(Bracket(0.5, 1.0)) == (
        "Bracket(lower=0.5, upper=1.0, rigor=certified, quantity='epsilon', context='')"
    )


def test_the_safe_float_is_the_upper_end():
    assert float(Bracket(1, 2)) == 2.0
    with pytest.raises(WrongType, match="only a bracket of one epsilon is a float"):
        float(Bracket([1.0], [2.0]))


def test_widths():
    assert Bracket(1.0, 3.0).width == 2.0
    assert Bracket(-4.0, 0.0).relative_width == 1.0
    assert Bracket(0.0, 0.0).relative_width == 0.0
    assert Bracket(1.0, math.inf).width == math.inf
    assert Bracket(1.0, math.inf).relative_width == math.inf
    assert Bracket(math.inf, math.inf).width == 0.0
    assert Bracket(math.inf, math.inf).relative_width == 0.0
    widths = Bracket([1.0, 0.0], [2.0, 0.0]).relative_width
    assert widths.tolist() == [0.5, 0.0]


def test_membership():
    bracket = Bracket(1.0, 2.0)
    assert 1 in bracket
    assert np.float64(2.0) in bracket
    assert 2.1 not in bracket
    assert [1.0, 2.0] in Bracket([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(WrongType, match="number must be a number or an array of numbers"):
        "1" in bracket  # noqa: B015


COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
GRID = [-1.0, 0.0, 1.0, 2.0]
BRACKETS = [(a, b) for a in GRID for b in GRID if a <= b]


@pytest.mark.parametrize("symbol", COMPARISONS)
@pytest.mark.parametrize("right", BRACKETS)
@pytest.mark.parametrize("left", BRACKETS)
def test_comparisons_answer_only_what_every_pair_of_truths_agrees_on(left, right, symbol):
    compare = COMPARISONS[symbol]
    truths = {compare(a, b) for a in left for b in right}
    if len(truths) == 2:
        with pytest.raises(Undecided, match=r"^undecided: whether epsilon in .* is not known"):
            compare(Bracket(*left), Bracket(*right))
    else:
        assert compare(Bracket(*left), Bracket(*right)) is truths.pop()


@pytest.mark.parametrize("number", [3, 3.0, np.float64(3.0), np.int64(3)])
def test_comparisons_with_numbers(number):
    assert Bracket(1.0, 2.0) < number
    assert number > Bracket(1.0, 2.0)
    assert number >= Bracket(1.0, 3.0)
    with pytest.raises(Undecided):
        number < Bracket(2.0, 4.0)  # noqa: B015


def test_comparisons_of_arrays():
    bracket = Bracket([1.0, 5.0], [2.0, 6.0])
    assert (bracket < 3.0).tolist() == [True, False]
    with pytest.raises(Undecided):
        bracket < 1.5  # noqa: B015


def test_comparisons_that_make_no_sense():
    with pytest.raises(InvalidArgument, match="only brackets of one quantity can be compared"):
        Bracket(0.0, 1.0) < Bracket(2.0, 3.0, quantity="delta")  # noqa: B015
    with pytest.raises(WrongType, match="number must be a number"):
        Bracket(0.0, 1.0) < "2"  # noqa: B015
    with pytest.raises(InvalidArgument, match="number must be a number; got nan"):
        Bracket(0.0, 1.0) < math.nan  # noqa: B015


def test_equality_is_of_data():
    assert Bracket(0.0, 1.0) == Bracket(0, 1)
    assert Bracket(0.0, 1.0) != Bracket(0.0, 1.0, quantity="delta")
    assert Bracket([0.0], [1.0]) != Bracket(0.0, 1.0)
    assert len({Bracket([0.0], [1.0]), Bracket([0.0], [1.0])}) == 1


def test_brackets_are_frozen():
    ends = np.zeros(2)
    bracket = Bracket(ends, ends + 1)
    ends[0] = 5
    assert bracket.lower.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        bracket.upper[0] = 7
    with pytest.raises(AttributeError):
        bracket.lower = 0.0


def test_arrays_of_another_shape_are_refused() -> None:
    three = Bracket(np.zeros(3), np.ones(3))
    for other in (np.zeros(2), np.zeros((2, 3)), Bracket(np.zeros(2), np.ones(2))):
        with pytest.raises(InvalidArgument, match="number must have the shape"):
            _ = three < other
    with pytest.raises(InvalidArgument, match="number must have the shape"):
        _ = np.zeros(2) in three
    assert (three < 2.0).all()


@pytest.mark.parametrize(
    ("ends", "spec", "text"),
    [
        ((0.1239, 0.1241), ".3f", "0.123 to 0.125"),
        ((0.9, 0.9), ".1f", "0.9 to 0.9"),
        ((1234.5, 1235.5), ".3g", "1230 to 1240"),
        ((31.228711, 42.4282988), "g", "31.2287 to 42.4283"),
        ((-0.25, math.inf), ".1f", "-0.3 to inf"),
        ((0.5, 0.75), "", "0.5 <= epsilon <= 0.75 | certified"),
    ],
)
def test_formats_round_outwards(ends: tuple[float, float], spec: str, text: str) -> None:
    assert format(Bracket(*ends), spec) == text


def test_other_formats_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"format must be such as g, \.3g or \.3f"):
        format(Bracket(0.5, 0.75), ">10")
    with pytest.raises(InvalidArgument, match="for one number"):
        format(Bracket(np.zeros(2), np.ones(2)), ".3f")
