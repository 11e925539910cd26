"""The reproduced methods give what their papers print, and what exact references say they should."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce import chen2024, wang2023

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
