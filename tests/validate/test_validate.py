"""Every check with every kind of bad input: which exception, and what the message says."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sharpdp import _validate
from sharpdp.errors import InvalidArgument, WrongType

NUMBERS = {
    _validate.real: "a finite number",
    _validate.positive: "a finite number greater than 0",
    _validate.nonnegative: "a finite number, at least 0",
    _validate.positive_scale: "greater than 0",
    _validate.zero_or_scale: "at least 0",
    _validate.half_open_probability: "in [0, 1)",
    _validate.probability: "in (0, 1]",
    _validate.open_probability: "in (0, 1)",
    _validate.count: "a whole number, at least 1",
}

NOT_NUMBERS = {
    "text": ("one", "'one' (of type str)", "Pass a plain number."),
    "quoted": ("0.5", "'0.5' (of type str)", "Pass the number without quotes."),
    "bytes": (b"1", "b'1' (of type bytes)", "Pass the number without quotes."),
    "None": (None, "None", "It has no default."),
    "True": (True, "True", "True and False are not taken for 1 and 0."),
    "numpy True": (np.True_, "True", "True and False are not taken for 1 and 0."),
    "array": (np.array([0.5, 0.5]), "an array of shape (2,)", "Pass one number."),
    "array of one": (np.array([0.5]), "an array of shape (1,)", "Pass one number."),
    "list": ([0.5], "[0.5] (of type list)", "Pass one number."),
    "dict": ({}, "{} (of type dict)", "Pass one number."),
    "complex": (1j, "1j (of type complex)", "Pass its real part if that is what you mean."),
    "class": (float, "the class float", "Pass a plain number."),
}


@pytest.mark.parametrize("kind", NOT_NUMBERS)
@pytest.mark.parametrize("check", NUMBERS)
def test_what_is_no_number(check, kind):
    value, seen, hint = NOT_NUMBERS[kind]
    with pytest.raises(WrongType) as caught:
        check(steps=value, hint="Not shown.")
    assert str(caught.value) == f"steps must be {NUMBERS[check]}; got {seen}. {hint}"


@pytest.mark.parametrize("check", NUMBERS)
def test_not_a_number_gets_its_own_hint(check):
    with pytest.raises(InvalidArgument) as caught:
        check(delta=math.nan, hint="Not shown.")
    assert str(caught.value) == (
        f"delta must be {NUMBERS[check]}; got nan. "
        "It is not a number: look for 0/0 or inf - inf before this call."
    )


@pytest.mark.parametrize("value", [math.inf, -math.inf, 10**400, -(10**400)])
@pytest.mark.parametrize("check", [_validate.real, _validate.positive, _validate.nonnegative])
def test_infinities_and_integers_beyond_floats(check, value):
    with pytest.raises(InvalidArgument, match=r"^width must be .*; got .*\. Shown\.$"):
        check(width=value, hint="Shown.")


OUTSIDE = {
    _validate.positive: [0, -0.0, -1, -1e-320],
    _validate.nonnegative: [-1e-320, -3],
    _validate.zero_or_scale: [-1, -1e-101, -math.inf],
    _validate.positive_scale: [0, -1, -math.inf],
    _validate.half_open_probability: [1, -1e-9, math.inf],
    _validate.probability: [0, -0.5, 1.7, 1 + 1e-15],
    _validate.open_probability: [0, 1, 1.0, 2, -1e-9],
    _validate.count: [0, -1, 2.5, 0.999, -(10**30), Fraction(1, 3), math.inf],
}


@pytest.mark.parametrize(
    ("check", "value"), [(check, value) for check in OUTSIDE for value in OUTSIDE[check]]
)
def test_numbers_outside(check, value):
    with pytest.raises(InvalidArgument) as caught:
        check(sample_rate=value, hint="Shown.")
    assert type(caught.value) is InvalidArgument
    expected = f"sample_rate must be {NUMBERS[check]}; got {_validate.short_repr(value)}. Shown."
    assert str(caught.value) == expected


@pytest.mark.parametrize("value", [1e-31, 1e-320, 1e31, 10**400, math.inf])
@pytest.mark.parametrize("check", [_validate.positive_scale, _validate.zero_or_scale])
def test_absurd_scales(check, value):
    with pytest.raises(InvalidArgument) as caught:
        check(noise_multiplier=value, hint="Not shown.")
    assert str(caught.value) == (
        f"noise_multiplier must be between 1e-30 and 1e+30; got {_validate.short_repr(value)}. "
        "Beyond that, double precision breaks down."
    )


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        (2, 2.0),
        (1e-30, 1e-30),
        (np.float32(0.5), 0.5),
        (np.int64(1), 1.0),
        (np.array(0.25), 0.25),
        (Fraction(1, 4), 0.25),
        (Decimal("0.125"), 0.125),
    ],
)
def test_numbers_of_every_library_become_floats(value, clean):
    assert _validate.positive_scale(noise_multiplier=value) == clean
    assert type(_validate.positive_scale(noise_multiplier=value)) is float


@pytest.mark.parametrize("value", [3, 3.0, np.int8(3), np.uint64(3), np.array(3), Decimal(3)])
def test_whole_numbers_become_integers(value):
    assert _validate.count(steps=value) == 3
    assert type(_validate.count(steps=value)) is int


@pytest.mark.parametrize("value", [-1, 0.5, 1.5, -0.5, math.nan, math.inf])
def test_a_count_that_may_be_zero_is_still_whole(value):
    with pytest.raises(InvalidArgument, match=r"^start must be a"):
        _validate.count(least=0, start=value)
    assert _validate.count(least=0, start=0) == 0


def test_counts_are_exact_up_to_the_largest():
    assert _validate.count(steps=10**18) == 10**18
    assert _validate.count(steps=10**18 - 1) == 10**18 - 1
    with pytest.raises(InvalidArgument, match=r"^steps must be at most 10\^18; got 10{17}1\.$"):
        _validate.count(steps=10**18 + 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**400, "10^400"),
        (-(10**30), "-10^30"),
        ("x" * 200, "'" + "x" * 56 + "..."),
        (np.float64(1.7), "1.7"),
        (np.zeros((2, 3)), "an array of shape (2, 3)"),
    ],
)
def test_values_are_shown_short_and_plain(value, text):
    assert _validate.short_repr(value) == text


LIST = "p must be a list of at least one probability; got "
PER_OUTCOME = ". Give one probability per outcome, such as [0.25, 0.75]."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.5, LIST + "0.5 (of type float)" + PER_OUTCOME),
        ("ab", LIST + "'ab' (of type str)" + PER_OUTCOME),
        (None, LIST + "None" + PER_OUTCOME),
        ({0: 1.0}, LIST + "{0: 1.0} (of type dict)" + PER_OUTCOME),
        ([], LIST + "an empty one" + PER_OUTCOME),
        (
            [0.5, 0.4],
            "p must be probabilities with sum 1; got masses with sum 0.9. "
            "Divide them by their sum if that is what you mean.",
        ),
        (
            [1.5, -0.5],
            "p[1] must be a finite number, at least 0; got -0.5. It is a probability.",
        ),
        ([0.5, None], "p[1] must be a finite number, at least 0; got None. It has no default."),
        (
            np.full((2, 2), 0.25),
            "p[0] must be a finite number, at least 0; got an array of shape (2,). "
            "Pass one number.",
        ),
    ],
)
def test_bad_pmfs(value, message):
    with pytest.raises(InvalidArgument) as caught:
        _validate.pmf(p=value)
    assert str(caught.value) == message


def test_pmfs_keep_their_masses_unless_the_sum_is_off():
    assert _validate.pmf(p=[0.1] * 10) == (0.1,) * 10
    assert _validate.pmf(p=np.array([0.25, 0.75])) == (0.25, 0.75)
    assert _validate.pmf(p=(x for x in [1])) == (1.0,)
    assert math.fsum(_validate.pmf(p=[1, 1e-10])) == 1.0


@pytest.mark.parametrize("value", [[0.1, 0.2], (0.1, 0.2), np.array([0.1, 0.2])])
def test_each_takes_lists_and_arrays(value):
    result = _validate.elementwise(_validate.open_probability, delta=value)
    assert result.dtype == np.float64
    assert result.tolist() == [0.1, 0.2]


def test_each_keeps_shapes_and_scalars():
    assert _validate.elementwise(_validate.real, epsilon=np.ones((2, 3))).shape == (2, 3)
    assert type(_validate.elementwise(_validate.real, epsilon=np.array(1))) is float
    assert _validate.elementwise(_validate.real, epsilon=range(3)).tolist() == [0, 1, 2]


def test_each_sees_what_an_array_of_numbers_hides():
    masked = np.ma.masked_array([0.1, 7.0], mask=[False, True])
    with pytest.raises(
        InvalidArgument, match=r"^delta must be numbers without a mask; got a masked"
    ):
        _validate.elementwise(_validate.open_probability, delta=masked)
    for wrong in (np.array([0.1, np.nan, 0.2]), np.array([0.1, -np.inf])):
        with pytest.raises(InvalidArgument, match=r"delta\[1\] must be in \(0, 1\)"):
            _validate.elementwise(_validate.open_probability, delta=wrong)
    with pytest.raises(WrongType, match=r"epsilon\[0\]"):
        _validate.elementwise(_validate.real, epsilon=np.array([True, False]))
    given = np.array([1, 2], dtype=np.uint8)
    checked = _validate.elementwise(_validate.real, epsilon=given)
    assert checked.dtype == np.float64
    same = np.array([1.0, 2.0])
    assert _validate.elementwise(_validate.real, epsilon=same) is not same


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0.1, 2], "delta[1] must be in (0, 1); got 2. Hint."),
        (np.array([[0.1, 0.2], [0.3, 1]]), "delta[1, 1] must be in (0, 1); got 1.0. Hint."),
        ([], "delta must be a number or an array with at least one number; "
             "got an array of shape (0,). Hint."),
        ("a", "delta must be in (0, 1); got 'a' (of type str). Pass a plain number."),
        (["0.1"], "delta[0] must be in (0, 1); got '0.1' (of type str). "
                  "Pass the number without quotes."),
    ],
)  # fmt: skip
def test_each_names_the_entry(value, message):
    with pytest.raises(InvalidArgument) as caught:
        _validate.elementwise(_validate.open_probability, delta=value, hint="Hint.")
    assert str(caught.value) == message


class Single:
    """What arrays and tensors without dimensions of any library have in common."""

    shape = ()

    def __init__(self, value: object) -> None:
        self.value = value

    def item(self) -> object:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_a_tensor_without_dimensions_is_a_number():
    assert _validate.real(epsilon=Single(2.5)) == 2.5
    assert _validate.count(steps=Single(10**17 + 1)) == 10**17 + 1
    assert _validate.elementwise(_validate.open_probability, delta=Single(1e-5)) == 1e-5
    assert _validate.scale_or_inf(clip=Single(math.inf)) == math.inf
    for wrong in (Single(True), Single("1"), Single(RuntimeError("no data")), Single(1j)):
        with pytest.raises(WrongType, match=r"^epsilon must be"):
            _validate.real(epsilon=wrong)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_tensors_of_torch_without_dimensions_are_numbers(dtype):
    torch = pytest.importorskip("torch")
    one = torch.tensor(1, dtype=getattr(torch, dtype))
    assert _validate.real(epsilon=one) == 1.0
    assert _validate.count(steps=one) == 1
    with pytest.raises(WrongType, match="got a tensor of shape"):
        _validate.real(epsilon=one[None])


def test_masked_entries_are_refused_by_name():
    hidden = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    shown = np.ma.masked_array([1.0, 2.0])
    for check in (_validate.real, _validate.nonnegative):
        assert _validate.elementwise(check, epsilon=shown).tolist() == [1.0, 2.0]
        with pytest.raises(InvalidArgument, match="got a masked array of shape"):
            _validate.elementwise(check, epsilon=hidden)
        with pytest.raises(InvalidArgument, match="got a masked number"):
            check(epsilon=hidden[1])
    with pytest.raises(InvalidArgument, match=r"p\[1\] must be numbers without a mask"):
        _validate.pmf(p=hidden)
    assert _validate.doubles(hidden).size == 0
