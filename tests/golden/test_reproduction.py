"""The reproduced methods give what their papers print, and what exact references say they should."""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np
import pytest
from reproduce.asoodeh2020 import conversion, descent, gaussian, joint
from reproduce.chen2024 import blocks as chen2024_blocks
from reproduce.chen2024 import divergences as chen2024
from reproduce.chua2024 import crossing, schemes
from reproduce.girgis2021 import claims
from reproduce.wang2023 import mixtures, statements
from reproduce.wang2023 import shuffle as wang2023

import sharpdp as dp
from tests.golden.printed import near

METHOD = wang2023.PublishedMethod(wang2023.USERS, wang2023.LOCAL)


@pytest.mark.underflows
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0.5, "3.03086166696e-6"),
        (0.6, "1.27109926196e-7"),
        (0.8, "8.70092358e-11"),
        (1.0, "2.445520709e-14"),
    ],
)
def test_corollary_4_3_of_wang2023(epsilon: float, delta: str) -> None:
    """With l(t) = -1/t it is Theorem 4.2."""
    assert near(METHOD.delta(epsilon, METHOD.threshold(epsilon)), delta, 2)


@pytest.mark.underflows
@pytest.mark.parametrize("epsilon", wang2023.TABLE_1)
def test_table_1_of_wang2023(epsilon: float) -> None:
    closed, ours = wang2023.TABLE_1[epsilon]
    assert near(METHOD.delta(epsilon, METHOD.threshold(epsilon)), ours, 0.5)
    assert near(wang2023.closed_form_delta(wang2023.UNROUNDED, epsilon), closed, 0.8)


@pytest.mark.underflows
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
    curve = wang2023.PublishedMethod(wang2023.USERS, local).symmetrized(
        np.array(wang2023.SOME_RATES)
    )
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
    pair = mixtures.SwappedPair(users, local)
    assert near(pair.released_delta(0.5), first)
    assert near(pair.advanced_delta(0.5), second)
    assert near(pair.exact_delta(0.5), exact)
    assert near(pair.released_delta(0.5), mixtures.PRINTED[0], 0.5)
    assert not near(pair.advanced_delta(0.5), mixtures.PRINTED[1])


def test_the_reading_with_a_factor_too_much_has_both_printed_numbers() -> None:
    pair = mixtures.SwappedPair(10_000, 5.7244)
    assert near(pair.released_delta(0.5) * 2 / 3, "0.0020", 0.5)
    assert near(pair.advanced_delta(0.5), "1.5e-6", 0.5)


def test_the_curves_of_figure_3_are_in_order() -> None:
    """Lemma 3.1 below Lemma 6.3 below the mixture, whose bracket sharpdp gives."""
    pair = mixtures.SwappedPair(110, log(2.0))
    fpr = np.linspace(0.01, 0.99, 21)
    first, second = pair.curve(fpr, 0.0), pair.advanced_curve(fpr)
    exact = pair.curve(fpr, pair.weight)
    assert np.all(first < second)
    assert np.all(second < exact + 1e-9)  # drawn from knots: chords, at most so much too high
    run = mixtures.dp.ShuffledReports(users=110, local_epsilon=log(2.0))
    upper = mixtures.dp.account(run).delta(epsilon=0.5).upper
    assert upper == pytest.approx(pair.exact_delta(0.5), rel=1e-2)


FIGURE_4 = {
    "diluted_curve": ".9350918346 .8103259848 .7072375389 .5580527815 .4447865802 "
    ".2724368360 .1424695640 .04083860968",
    "symmetrized_curve": ".9350918346 .8103259848 .7072375389 .5580527815 .4447865802 "
    ".2484632430 .1040814837 .01886511647",
    "released_curve": ".9193451332 .7799078388 .6763544030 .5447865802 .4447167183 "
    ".2447167183 .08676963021 .01390228516",
}


@pytest.mark.parametrize("name", FIGURE_4)
def test_the_curves_of_figure_4_of_wang2023(name: str) -> None:
    curve = getattr(mixtures, name)(np.array(mixtures.SOME_RATES))
    for value, text in zip(curve, FIGURE_4[name].split(), strict=True):
        assert near(float(value), text, 2)


def test_the_numbers_of_figure_4_of_wang2023() -> None:
    assert [round(x, 9) for x in mixtures.turning_point()] == [0.308537539, 0.436179180]
    first, second = mixtures.fourth_deltas(0.5)
    assert near(first, "0.1589478054")
    assert near(second, "0.1291862381")
    answer = mixtures.dp.account(mixtures.sampled_gaussian())
    bracket = answer.delta(epsilon=0.5)
    assert bracket.lower - 1e-9 <= second <= bracket.upper + 1e-9
    rates = np.array(mixtures.SOME_RATES)
    both = np.minimum(mixtures.diluted_curve(rates), mixtures.inverse_curve(rates))
    fnr = answer.fnr(fpr=rates)
    assert np.all(fnr.lower <= both + 1e-9)
    assert np.all(both <= fnr.upper + 1e-9)


@pytest.mark.underflows
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


def test_the_claims_of_asoodeh2020() -> None:
    """The specification: 0.7588 at T = 1000; 501, 603 and 685.94 rounds at epsilon 6."""
    rounds = np.array([1.0, 500.0, 999.0, 1000.0])
    gaps = gaussian.moments(rounds * gaussian.RHO) - gaussian.balle(rounds * gaussian.RHO)
    assert near(float(gaps[-1]), "0.7588")
    assert np.all(np.diff(gaps) > 0)
    assert gaussian.allowed(6.0) == [501, 603, 685]


def test_theorem_5_of_asoodeh2020_by_three_and_four_terms() -> None:
    shares = []
    for epsilon in (0.01, 0.002, 0.001):
        three, four, equation, exact = gaussian.variances(epsilon)
        assert equation > exact
        shares.append((round(three / exact, 3), round(four / exact, 1)))
    assert shares == [(0.934, 3.2), (0.612, 5.5), (0.316, 7.4)]


def test_theorem_4_of_asoodeh2020_is_below_theorem_3() -> None:
    for order, epsilon in conversion.PAIRS:
        known = conversion.levels(order, epsilon)
        for f, g, optimal in zip(known["f"][1], known["g"][1], known["optimal"][1], strict=True):
            assert max(f, g) <= optimal


@pytest.mark.underflows
def test_figure_3_of_asoodeh2020() -> None:
    """The specification: epsilon after 25 epochs, extra epochs, and where the slope fails."""
    known = descent.curves([25])
    assert near(known["moments"][0], "0.269944")
    assert near(known["lemma"][0], "0.200362")
    assert known["truth"][0][1] <= known["own"][0] <= known["capped"][0]
    assert near(known["truth"][0][1], "0.1263")
    assert [lemma - old for old, lemma in map(descent.extra, (0.4, 0.6))] == [35, 69]
    below, above = descent.divergences([221, 222])
    assert below < 221 * descent.RHO
    assert above > 222 * descent.RHO


def test_the_gain_of_girgis2021() -> None:
    """The specification: 72.37 and 54.159 over 4.0862; ternary response 0.2758, a pair 0.308237."""
    known = claims.gain(10**5)
    assert near(known["strong composition of 2010"], "72.37")
    assert near(known["strong composition of kairouz2015"], "54.159", 2)
    assert near(known["Theorem 1"], "4.086200", 2)
    assert known["truth"][0] <= 0.2758 * (1 + 1e-3)
    assert 0.2758 * (1 - 1e-3) <= known["truth"][1] <= 0.308237 * (1 + 1e-3)


STATEMENTS = {  # the specification: printed, truth
    "Lemma 6.3": ("0.34", "0.15"),
    "Lemma 6.3, γ = 1/5, η = 3/5": ("0.1725", "0.15"),
    "Proposition 6.4": ("0.2171", "0.1417"),
    "Proposition B.1": ("0.375", "0.25"),
    "Proposition E.1": ("0.7667", "0.65"),
    "Proposition 6.1": ("0.46875", "0.75"),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_statements_of_wang2023_and_their_repairs(name: str) -> None:
    _, printed, truth, repaired = statements.STATEMENTS[name][0]()
    assert near(printed, STATEMENTS[name][0])
    assert near(truth, STATEMENTS[name][1])
    assert repaired <= truth
    assert (printed > truth) is (name != "Proposition 6.1")


def test_where_corollary_2_of_chen2024_is_unsafe() -> None:
    """The specification, R3."""
    for place, value in zip(chen2024.UNSAFE, ("2.282932", "2.790005", "1.432711"), strict=True):
        known = chen2024.unsafe(*place)
        assert known["limit"] < float(value)
        assert near(known["truth"][0], value, 2)


@pytest.mark.parametrize("delta", wang2023.TABLE_2)
def test_the_lower_row_of_table_2_of_wang2023(delta: float) -> None:
    _, _, lower = wang2023.TABLE_2[delta]
    assert near(wang2023.coarse_epsilon(delta, 300), lower, 0.6)


@pytest.mark.parametrize("place", range(len(joint.RANGES)))
def test_the_joint_range_is_the_known_one(place: int) -> None:
    found = joint.edge_of(place)
    for (lower, upper), known in zip(found["found"], found["known"], strict=True):
        assert lower <= upper <= lower * (1.0 + 1e-11)
        assert lower == pytest.approx(known, rel=1e-11)
    assert found["below"] == 0


def test_the_saving_over_28_of_asoodeh2020() -> None:
    one = gaussian.savings(1.0, 1e-5)
    # 2 log(1e5) + 1, and 2 (log(2 log(1e5)) + 1)
    assert one["expansion"] == pytest.approx(24.025850929940457)
    assert one["claimed"] == pytest.approx(2.0 * (log(23.025850929940457) + 1.0))
    assert one["classical"] == pytest.approx(one["expansion"], rel=1e-3)
    assert one["optimal"] < one["claimed"] < one["exact"]
    small = gaussian.savings(0.01, 1e-5)
    assert small["exact"] < small["claimed"]


@pytest.mark.underflows
def test_the_pair_of_chen2024_by_plain_sums() -> None:
    users, local = 1, 1.3
    # one report alone: binary response, whose divergence of order 2 is log(p^2/q + q^2/p)
    p = 1.0 / (1.0 + np.exp(-local))
    right = log(p**2 / (1.0 - p) + (1.0 - p) ** 2 / p)
    assert chen2024.pair_renyi(users, local, 2) == pytest.approx(right)
    errors = [chen2024.rate_of_limit(n, 2.0) for n in (1000, 3000)]
    near_n = [one["users"] * (one["corrected"] / one["pair"] - 1.0) for one in errors]
    assert near_n[1] == pytest.approx(near_n[0], rel=0.2)


@pytest.mark.underflows
def test_the_local_epsilons_that_keep_the_budget_of_chen2024() -> None:
    allowed = list(chen2024_blocks.ALLOWED.items())
    for (name, local), formula in zip(allowed[:-2], chen2024_blocks.FORMULAS, strict=True):
        found = chen2024_blocks.largest_local(formula)
        assert found == (None if local is None else pytest.approx(local, abs=2e-4)), name


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "place"), [(False, -2), (True, -1)])
def test_our_local_epsilons_keep_the_budget_of_chen2024(shared: bool, place: int) -> None:
    local = list(chen2024_blocks.ALLOWED.values())[place]
    assert local is not None
    for value, kept in ((local, True), (local + 2e-4, False)):
        run = dp.ShuffledReports(
            users=chen2024_blocks.RECORDS,
            local_epsilon=value,
            randomizer="shared" if shared else "individual",
        )
        spent = [dp.account(run).renyi(order=one).upper for one in chen2024_blocks.BUDGET_ORDERS]
        allowed = chen2024_blocks.BUDGET * np.array(chen2024_blocks.BUDGET_ORDERS)
        assert bool(np.all(chen2024_blocks.EPOCHS * np.array(spent) <= allowed)) is kept


@pytest.mark.slow
def test_deterministic_and_poisson_batches_cross_once() -> None:
    one = crossing.scan(0.5, 10)
    changes, ends = crossing.crossing(one)
    assert one["signs"][0] == 1
    assert one["signs"][-1] == -1
    assert (changes, 0 in one["signs"]) == (1, False)
    assert ends[0] < 7.6 < ends[1]


@pytest.mark.underflows
@pytest.mark.parametrize(("noise", "steps", "epsilon"), crossing.REMARK)
def test_far_others_hide_nothing(noise: float, steps: int, epsilon: float) -> None:
    values = [schemes.sets_delta(noise, steps, epsilon, reach) for reach in crossing.REACHES]
    alone = schemes.ours("D", noise, steps, "epsilon", epsilon)
    # up to rounding: far out, the next one differs by less than a unit
    assert all(after >= before * (1 - 1e-13) for before, after in pairwise(values))
    assert values[-1] == pytest.approx(alone.upper, rel=1e-6)


def test_how_far_epsilon_3_goes_in_girgis2021() -> None:
    assert claims.epochs_within("Theorem 1")["epochs"] == 50
    assert claims.epochs_within("clones, closed form")["epochs"] == 5
    assert claims.backwards()["epochs"] == 7
