"""The reproduced methods give what their papers print, and what exact references say they should."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from reproduce import chen2024, wang2023, wang2023_mixtures

from tests.golden.printed import near

METHOD = wang2023.PrintedMethod(wang2023.USERS, wang2023.LOCAL)


@pytest.mark.parametrize(
    ("epsilon", "right", "as_printed"),
    [
        (0.5, "3.03086166696e-6", "2.91022718e-6"),
        (0.6, "1.27109926196e-7", "1.19761984e-7"),
        (0.8, "8.70092358e-11", "7.92735386e-11"),
        (1.0, "2.445520709e-14", "2.11376623e-14"),
    ],
)
def test_corollary_4_3_of_wang2023(epsilon: float, right: str, as_printed: str) -> None:
    assert near(METHOD.delta(epsilon, METHOD.right_threshold(epsilon)), right, 2)
    assert near(METHOD.delta(epsilon, METHOD.printed_threshold(epsilon)), as_printed, 2)


@pytest.mark.parametrize("epsilon", wang2023.TABLE_1)
def test_table_1_of_wang2023(epsilon: float) -> None:
    closed, ours = wang2023.TABLE_1[epsilon]
    assert near(METHOD.delta(epsilon, METHOD.right_threshold(epsilon)), ours, 0.5)
    assert near(wang2023.closed_form_delta(wang2023.UNROUNDED, epsilon), closed, 0.8)


@pytest.mark.parametrize(
    ("local", "printed"),
    [
        pytest.param(
            1.0,
            "0.98965317 0.94867061 0.89774927 0.69558723 0.49497260",
            marks=pytest.mark.slow,
        ),
        (4.0, "0.98691568 0.93853654 0.88089536 0.66370564 0.45950452"),
    ],
)
def test_theorem_4_2_of_wang2023(local: float, printed: str) -> None:
    """Drawn from tangents: never above the curve, and as close as a line is thin."""
    curve = wang2023.PrintedMethod(wang2023.USERS, local).symmetrised(np.array(wang2023.RATES))
    for value, text in zip(curve, printed.split(), strict=True):
        assert -1e-5 < value - float(text) < 1e-8


@pytest.mark.parametrize(
    ("users", "local", "first", "second", "exact"),
    [
        (110, log(2.0), "0.00198908", "3.19039e-7", "7.164e-13"),
        (10_000, 5.6, "0.00200862", "4.52865e-7", "4.55313e-12"),
    ],
)
def test_the_readings_of_figure_3_of_wang2023(
    users: int, local: float, first: str, second: str, exact: str
) -> None:
    """Neither gives the printed 1.5e-6 where the other is the printed 0.0020."""
    pair = wang2023_mixtures.SwappedPair(users, local)
    assert near(pair.released_delta(0.5), first)
    assert near(pair.advanced_delta(0.5), second)
    assert near(pair.exact_delta(0.5), exact)
    assert near(pair.released_delta(0.5), wang2023_mixtures.PRINTED[0], 0.5)
    assert not near(pair.advanced_delta(0.5), wang2023_mixtures.PRINTED[1])


def test_the_reading_with_a_factor_too_much_has_both_printed_numbers() -> None:
    pair = wang2023_mixtures.SwappedPair(10_000, 5.7244)
    assert near(pair.released_delta(0.5) * 2 / 3, "0.0020", 0.5)
    assert near(pair.advanced_delta(0.5), "1.5e-6", 0.5)


def test_the_curves_of_figure_3_are_in_order() -> None:
    """Lemma 3.1 below Lemma 6.3 below the mixture, whose bracket sharpdp gives."""
    pair = wang2023_mixtures.SwappedPair(110, log(2.0))
    fpr = np.linspace(0.01, 0.99, 21)
    first, second = pair.curve(fpr, 0.0), pair.advanced_curve(fpr)
    exact = pair.curve(fpr, pair.weight)
    assert np.all(first < second)
    assert np.all(second < exact + 1e-9)  # drawn from knots: chords, at most so much too high
    run = wang2023_mixtures.dp.ShuffledReports(users=110, local_epsilon=log(2.0))
    upper = wang2023_mixtures.dp.account(run).delta(epsilon=0.5).upper
    assert upper == pytest.approx(pair.exact_delta(0.5), rel=1e-2)


FIGURE_4 = {
    "diluted_curve": ".9350918346 .8103259848 .7072375389 .5580527815 .4447865802 "
    ".2724368360 .1424695640 .04083860968",
    "symmetrised_curve": ".9350918346 .8103259848 .7072375389 .5580527815 .4447865802 "
    ".2484632430 .1040814837 .01886511647",
    "released_curve": ".9193451332 .7799078388 .6763544030 .5447865802 .4447167183 "
    ".2447167183 .08676963021 .01390228516",
}


@pytest.mark.parametrize("name", FIGURE_4)
def test_the_curves_of_figure_4_of_wang2023(name: str) -> None:
    curve = getattr(wang2023_mixtures, name)(np.array(wang2023_mixtures.RATES))
    for value, text in zip(curve, FIGURE_4[name].split(), strict=True):
        assert near(float(value), text, 2)


def test_the_numbers_of_figure_4_of_wang2023() -> None:
    assert [round(x, 9) for x in wang2023_mixtures.turning_point()] == [0.308537539, 0.436179180]
    first, second = wang2023_mixtures.fourth_deltas(0.5)
    assert near(first, "0.1589478054")
    assert near(second, "0.1291862381")
    answer = wang2023_mixtures.dp.account(wang2023_mixtures.sampled_gaussian())
    bracket = answer.delta(epsilon=0.5)
    assert bracket.lower - 1e-9 <= second <= bracket.upper + 1e-9
    rates = np.array(wang2023_mixtures.RATES)
    both = np.minimum(
        wang2023_mixtures.diluted_curve(rates), wang2023_mixtures.inverse_curve(rates)
    )
    fnr = answer.fnr(fpr=rates)
    assert np.all(fnr.lower <= both + 1e-9)
    assert np.all(both <= fnr.upper + 1e-9)


@pytest.mark.parametrize(
    ("local", "printed"),
    [
        (0.1, "8.84225157e-4 2.00166121e-6 1.30396959e-5"),
        (1.0, "2.17484295e-3 2.17161500e-4 8.55794911e-3"),
        (2.0, "5.91183606e-3 1.10305118e-3 3.21575877e-1"),
        (3.5, "2.64950111e-2 6.17164188e-3 36.4292187"),
    ],
)
def test_the_formulas_of_figure_2_of_chen2024(local: float, printed: str) -> None:
    run = chen2024.dp.ShuffledReports(users=chen2024.USERS, local_epsilon=local)
    formulas = (
        chen2024.gaussian_limit_renyi,
        chen2024.binary_moments_lower,
        chen2024.moments_upper,
    )
    for formula, text in zip(formulas, printed.split(), strict=True):
        assert near(formula(run, chen2024.FIGURE_2_ORDER), text)
