"""The numbers of chua2024: the paper's own method to more digits, and certified brackets around them."""

from __future__ import annotations

import pytest
from reproduce.chua2024 import numbers, schemes

from tests.golden.printed import near

SETS = {  # the specification, section 3: E_C recomputed
    ("delta", 0.4, 10**5, 1e-6): "14.450700",
    ("epsilon", 0.4, 10**4, 4.0): "0.2260555",
    ("epsilon", 0.4, 10**4, 12.0): "7.473379e-5",
    ("delta", 0.5, 10**4, 1e-6): "10.994788",
    ("delta", 0.7, 1000, 1e-5): "6.528613",
    ("epsilon", 0.8, 1000, 1.0): "0.0179480",
    ("epsilon", 0.8, 1000, 4.0): "1.595814e-4",
    ("epsilon", 1.0, 1000, 0.5): "0.0043319",
    ("epsilon", 1.0, 1000, 1.0): "9.98743e-4",
    ("epsilon", 1.0, 1000, 4.0): "4.380701e-7",
}

POISSON = {  # the specification, section 3 and 5.1: contour integrals
    ("delta", 0.4, 10**5, 1e-6): 2.998041,
    ("epsilon", 0.4, 10**4, 4.0): 1.1683180e-5,
    ("delta", 0.5, 10**4, 1e-6): 1.953224,
    ("delta", 0.7, 1000, 1e-5): 0.6089493,
    ("epsilon", 0.8, 1000, 1.0): 9.8216786e-9,
    ("epsilon", 0.8, 1000, 4.0): 4.4558e-17,
    ("epsilon", 1.0, 1000, 0.5): 2.0582412e-10,
    ("epsilon", 1.0, 1000, 1.0): 2.5409304e-13,
    ("epsilon", 1.0, 1000, 4.0): 1.3395e-26,
}

DETERMINISTIC = {
    ("delta", 0.4, 10**5, 1e-6): 14.450777,
    ("epsilon", 0.4, 10**4, 4.0): 0.2438199,
    ("epsilon", 0.4, 10**4, 12.0): 7.474381e-5,
    ("delta", 0.5, 10**4, 1e-6): 10.997151,
    ("delta", 0.7, 1000, 1e-5): 6.652488,
}

FULL_TEST = {  # the specification: the best test on the pair, so at least every lower bound from it
    ("epsilon", 0.8, 1000, 1.0): 0.01826214,
    ("epsilon", 0.8, 1000, 4.0): 1.600681e-4,
    ("epsilon", 1.0, 1000, 0.5): 0.004657,
    ("epsilon", 1.0, 1000, 1.0): 1.014695e-3,
    ("epsilon", 1.0, 1000, 4.0): 4.398975e-7,
}

Question = tuple[str, float, int, float]


@pytest.mark.underflows
@pytest.mark.parametrize("question", SETS)
def test_the_sets_of_the_paper(question: Question) -> None:
    given, noise, steps, at = question
    method = schemes.sets_epsilon if given == "delta" else schemes.sets_delta
    assert near(method(noise, steps, at), SETS[question], 2)


@pytest.mark.parametrize("question", POISSON)
def test_poisson_batches_have_the_true_value(question: Question) -> None:
    """Printed to its last digit, which may be rounded."""
    given, noise, steps, at = question
    found = schemes.ours("P", noise, steps, given, at)
    assert found.lower <= POISSON[question] * (1 + 1e-4)
    assert found.upper >= POISSON[question] * (1 - 1e-4)
    assert found.relative_width < 2e-3


@pytest.mark.parametrize("question", DETERMINISTIC)
def test_deterministic_batches_in_closed_form(question: Question) -> None:
    given, noise, steps, at = question
    found = schemes.ours("D", noise, steps, given, at)
    assert float(found.upper) == pytest.approx(DETERMINISTIC[question], rel=1e-6)


@pytest.mark.underflows
@pytest.mark.parametrize("question", FULL_TEST)
def test_shuffled_batches_between_the_best_test_and_no_amplification(question: Question) -> None:
    given, noise, steps, at = question
    found = schemes.ours("S", noise, steps, given, at)
    lower = max(float(found.lower), schemes.sets_delta(noise, steps, at))
    assert 0.98 * FULL_TEST[question] < lower < FULL_TEST[question] * (1 + 1e-4)
    assert found.upper <= float(schemes.ours("D", noise, steps, given, at)) * (1 + 1e-9)


@pytest.mark.slow
def test_what_is_printed_is_judged() -> None:
    """One lower bound is rounded above what bounds it from above, and one upwards."""
    wrong = {}
    for one in numbers.TEXT:
        found = schemes.ours(one.scheme, one.noise, one.steps, one.given, one.at)
        said = numbers.verdict(one, found)
        if said != "so":
            wrong[one.published] = said
    assert wrong == {
        "7.5e-5": "more than δ_D",
        "1.6e-4": "rounded up",
        "2.06e-10": "published at 1",
        "0.004": "published at 1",
    }


def test_the_recorded_accountant_is_below_the_truth_where_it_says() -> None:
    """The specification, 5.1: at noise 1 and epsilon 1 a pessimistic value of 0.834 of the truth."""
    peer = numbers.PEER["7"]
    recorded = peer["pld"][peer["x"].index(1.0)]
    assert recorded / 2.5409304e-13 == pytest.approx(0.834, abs=2e-3)
