"""Answers at their edges: the mass at infinite loss, the largest loss, rates of 0 and deltas of 0.

References are exact fractions of the given doubles, or closed forms in high precision.
"""

import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import inf, nextafter
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import sharpdp as dp
from sharpdp.bracket import Side
from sharpdp.cli import main
from sharpdp.curves.mixtures.compare import compare_mixture
from sharpdp.curves.mixtures.inequalities import coupled, hidden, relabeled, released
from sharpdp.curves.tradeoff.exact import down, up
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.pairs.finite import AtomicPair
from sharpdp.profile.discretize import exact

ONE = Fraction(1)


def steps_around(mass: Fraction, units: int) -> list[float]:
    """The doubles next to a mass, so many on each side."""
    below, above = down(mass), up(mass)
    found = {below, above}
    for _ in range(units):
        below, above = nextafter(below, 0.0), nextafter(above, 1.0)
        found |= {below, above}
    return sorted(found)


def revealed(*parts: tuple[float, int]) -> Fraction:
    """1 - prod (1 - delta)^count of doubles, exactly."""
    kept = ONE
    for delta, count in parts:
        kept *= (1 - Fraction(delta)) ** count
    return 1 - kept


MASSES = [
    (dp.ApproximateDP(epsilon=1.0, delta=1e-5) * 3, revealed((1e-5, 3)), 3.0),
    (dp.ApproximateDP(epsilon=1.0, delta=1e-6), Fraction(1e-6), 1.0),
    (dp.ApproximateDP(epsilon=0.5, delta=1e-250) * 10, revealed((1e-250, 10)), 5.0),
    (dp.ApproximateDP(epsilon=0.0, delta=1e-6), Fraction(1e-6), 0.0),
    (
        dp.FinitePair(p=[0.5, 0.25, 0.25], q=[0.75, 0.25, 0.0]) * 2,
        revealed((0.25, 2)),
        2 * np.log(1.5),
    ),
    (
        dp.Sequence(
            [
                dp.ApproximateDP(epsilon=0.5, delta=1e-7) * 4,
                dp.ApproximateDP(epsilon=0.25, delta=3e-9),
                dp.PureDP(0.125) * 3,
            ]
        ),
        revealed((1e-7, 4), (3e-9, 1)),
        2.625,
    ),
    (
        dp.TradeoffCurve.from_points(epsilons=[0.0, 1.0], deltas=[0.4, 1e-6], attained=True),
        Fraction(1e-6),
        1.0,
    ),
]


@pytest.mark.parametrize(("mechanism", "mass", "largest"), MASSES)
def test_v4_epsilon_beside_the_mass_at_infinity(
    mechanism: dp.Mechanism, mass: Fraction, largest: float
) -> None:
    answer = dp.account(mechanism)
    for delta in steps_around(mass, 3):
        found = answer.epsilon(delta=delta)
        if Fraction(delta) < mass:
            assert found.upper == inf
        else:
            assert found.lower <= largest * (1.0 + 1e-15)


def test_v4_finite_pair_beside_its_mass_at_infinity() -> None:
    pair = dp.FinitePair(p=[0.5 - 1e-7, 0.5, 1e-7], q=[0.5, 0.5, 0.0])
    assert dp.account(pair).epsilon(delta=9.99999999999999e-08).upper == inf


def test_v4_epsilon_at_the_mass_itself_is_finite() -> None:
    found = dp.account(dp.ApproximateDP(epsilon=1.0, delta=1e-6)).epsilon(delta=1e-6)
    assert found.lower <= 1.0 <= found.upper < 1.0 + 1e-9
    sequence = dp.Sequence([dp.ApproximateDP(epsilon=1.0, delta=1e-6), dp.PureDP(0.5) * 7])
    found = dp.account(sequence).epsilon(delta=1e-6)
    assert found.lower <= 4.5 <= found.upper < 4.5 + 1e-9


@pytest.mark.parametrize(
    ("delta", "count"),
    [(6.89050388475668e-259, 2), (1.7363128634611577e-116, 7), (1e-300, 3), (1e-5, 4)],
)
def test_v5_delta_at_the_largest_loss(delta: float, count: int) -> None:
    mechanism = dp.ApproximateDP(epsilon=0.5, delta=delta) * count
    truth = revealed((delta, count))
    for epsilon in (0.5 * count, 0.5 * count + 1.0):
        found = dp.account(mechanism).delta(epsilon=epsilon)
        assert Fraction(float(found.lower)) <= truth <= Fraction(float(found.upper))


def test_v4_at_least_once_is_an_enclosure() -> None:
    from sharpdp.numerics.special import at_least_once

    rng = np.random.default_rng(15)
    for _ in range(300):
        chances = 10.0 ** rng.uniform(-20, -0.01, size=int(rng.integers(1, 4)))
        counts = rng.integers(1, 30, size=chances.size)
        parts = list(zip(chances.tolist(), counts.tolist(), strict=True))
        low, high = at_least_once([((chance, chance), count) for chance, count in parts])
        assert Fraction(low) <= revealed(*parts) <= Fraction(high)
        assert high <= low * (1.0 + 1e-14)


def largest_tpr(p: list[Fraction], q: list[Fraction], fpr: float | Fraction) -> Fraction:
    """The power of the best test of q against p at this level, by the lemma of Neyman and Pearson."""
    revealing = [here for here, there in zip(p, q, strict=True) if there == 0]
    others = [(here, there) for here, there in zip(p, q, strict=True) if there > 0]
    left, power = Fraction(fpr), sum(revealing, Fraction(0))
    for here, there in sorted(others, key=lambda both: both[0] / both[1], reverse=True):
        share = min(left / there, ONE)
        left, power = left - share * there, power + share * here
    return power


def gaussian_tpr(mu: float, fpr: float) -> mpmath.mpf:
    """The power of the best test of N(0, 1) against N(mu, 1)."""
    with mpmath.workdps(40):

        def tail(z: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(z / mpmath.sqrt(2)) / 2

        level = mpmath.mpf(fpr)
        guess = mpmath.sqrt(2 * max(-mpmath.log(level), mpmath.mpf(1) / 10))
        z = mpmath.findroot(
            lambda at: mpmath.log(tail(at)) - mpmath.log(level), (guess - 1, guess), tol=1e-25
        )
        return tail(z - mpmath.mpf(mu))


@pytest.mark.parametrize("fpr", [1e-300, 1e-100, 1e-12, 1e-9, 1e-3])
def test_f2_tpr_of_gaussian_noise_at_small_rates(fpr: float) -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    found = answer.tpr(fpr=fpr)
    assert found.lower <= gaussian_tpr(1.0, fpr) <= found.upper
    assert found.relative_width < 1e-3
    assert answer.tradeoff().tpr(fpr=fpr).relative_width < 1e-3


@pytest.mark.parametrize("mu", [0.5, 5.0, 12.0, 20.0])
def test_f2_tpr_by_orders_holds_where_losses_exceed_all_thresholds(mu: float) -> None:
    """Orders bound delta at epsilons up to 64; with mu = 12 the median loss is 72 under P."""
    orders = [1.01, 1.1, 1.5, 2.0, 4.0, 16.0, 64.0]
    values = [0.5 * order * mu * mu for order in orders]
    answer = dp.account(dp.RenyiCurve(orders=orders, values=values))
    for fpr in (1e-300, 1e-100, 1e-30, 1e-9, 0.1):
        assert gaussian_tpr(mu, fpr) <= answer.tpr(fpr=fpr).upper


@pytest.mark.parametrize(
    "mechanism",
    [
        dp.Gaussian(noise_multiplier=1.0),
        dp.Laplace(scale=1.0),
        dp.ShuffledReports(users=1000, local_epsilon=2.0),
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0),
        dp.DPSGD(dp.PoissonBatches(sample_rate=1e-12, steps=10000), noise_multiplier=1e5),
        dp.RenyiCurve(orders=[8.0], values=[0.05]),
    ],
    ids=lambda mechanism: mechanism.label,
)
def test_f2_tpr_at_zero(mechanism: dp.Mechanism) -> None:
    answer = dp.account(mechanism)
    for asked in (answer, answer.tradeoff()):
        found = asked.tpr(fpr=0.0)
        assert found.lower == found.upper == 0.0  # no result gives the record away


def test_f2_tpr_at_zero_is_the_mass_at_infinity() -> None:
    answer = dp.account(dp.ApproximateDP(epsilon=1.0, delta=1e-6) * 3)
    found, truth = answer.tpr(fpr=0.0), revealed((1e-6, 3))
    assert Fraction(float(found.lower)) <= truth <= Fraction(float(found.upper))
    assert found.relative_width < 1e-14
    missed = answer.fnr(fpr=0.0)
    assert Fraction(float(missed.lower)) <= 1 - truth <= Fraction(float(missed.upper))
    assert found.upper <= answer.tpr(fpr=1e-12).upper
    assert found.lower <= answer.tpr(fpr=1e-12).lower


@pytest.mark.parametrize("fpr", [0.0, 1e-200, 1e-12, 1e-8, 0.1, 0.5, 0.9, 1.0])
def test_f2_tpr_of_pure_mechanisms(fpr: float) -> None:
    # randomized response, and Laplace noise up to fpr = 1 / (2 e)
    with mpmath.workdps(40):
        rising, falling = mpmath.e * fpr, 1 - (1 - mpmath.mpf(fpr)) / mpmath.e
    found = dp.account(dp.RandomizedResponse(local_epsilon=1.0)).tpr(fpr=fpr)
    assert found.lower <= min(rising, falling) <= found.upper
    assert found.relative_width < 1e-3
    if fpr <= 0.1:
        found = dp.account(dp.Laplace(scale=1.0)).tpr(fpr=fpr)
        assert found.lower <= rising <= found.upper
        assert found.relative_width < 1e-3


def test_f2_upper_ends_of_tpr_rise_with_fpr() -> None:
    rates = np.concatenate([[0.0], 10.0 ** np.arange(-300.0, 0.0, 10.0)])
    for mechanism in (
        dp.Gaussian(noise_multiplier=0.5),
        dp.RandomizedResponse(local_epsilon=1.0) * 5,
        dp.ApproximateDP(epsilon=0.5, delta=1e-9) * 4,
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.22, steps=1), noise_multiplier=0.56),
    ):
        found = dp.account(mechanism).tpr(fpr=rates)
        assert np.all(np.diff(found.lower) >= 0.0)
        assert np.all(np.diff(found.upper) >= 0.0)


def test_f7_tpr_of_a_nearly_private_run() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=1e-12, steps=10000), noise_multiplier=1e5)
    for fpr in (0.0, 1e-3, 0.5):
        found = dp.account(run).tpr(fpr=fpr)
        assert fpr == found.lower <= found.upper <= fpr * (1.0 + 1e-9)
    tiny = dp.account(run).tpr(fpr=1e-300)
    assert 1e-300 <= tiny.lower <= tiny.upper <= 1e-299


P = [Fraction(1, 2), Fraction(3, 8), Fraction(1, 16), Fraction(1, 16), Fraction(0)]
Q = [Fraction(1, 32), Fraction(1, 4), Fraction(0), Fraction(19, 32), Fraction(1, 8)]


def test_build_9_the_null_hypothesis_is_the_data_without_the_record() -> None:
    pair = dp.FinitePair(p=[float(one) for one in P], q=[float(one) for one in Q])
    ways = {
        "pmfs": dp.TradeoffCurve.from_pmfs(null=Q, alternative=P),
        "pair": dp.TradeoffCurve.from_pair(AtomicPair.from_pmfs(pair.p, pair.q)),
        "losses": dp.TradeoffCurve.from_losses(
            exact(AtomicPair.from_pmfs(pair.p, pair.q), Side.UPPER)
        ),
    }
    answer = dp.account(pair)
    for fpr in (0.0, 2.0**-20, 1 / 64, 1 / 8, 0.5, 0.9):
        truth, turned = largest_tpr(P, Q, fpr), largest_tpr(Q, P, fpr)
        assert truth != turned
        for name, curve in ways.items():
            found, missed = curve.tpr(fpr=fpr), curve.fnr(fpr=fpr)
            assert name == "losses" or Fraction(float(found.lower)) <= truth
            assert truth <= Fraction(float(found.upper))
            assert Fraction(float(missed.lower)) <= 1 - truth
            assert name == "losses" or 1 - truth <= Fraction(float(missed.upper))
            other = curve.inverse().tpr(fpr=fpr)
            assert name == "losses" or Fraction(float(other.lower)) <= turned
            assert turned <= Fraction(float(other.upper))
        worst = answer.tpr(fpr=fpr)
        assert Fraction(float(worst.lower)) <= max(truth, turned) <= Fraction(float(worst.upper))
        assert worst.relative_width < 1e-3


COMPONENTS = [
    (P, Q),
    (
        [Fraction(1, 4), Fraction(1, 8), Fraction(1, 8), Fraction(0), Fraction(1, 2)],
        [Fraction(1, 4), Fraction(1, 8), Fraction(0), Fraction(5, 8), Fraction(0)],
    ),
]
WEIGHTS, OTHER_WEIGHTS = [Fraction(3, 4), Fraction(1, 4)], [Fraction(3, 8), Fraction(5, 8)]
RATES = [Fraction(0), Fraction(1, 64), Fraction(1, 8), Fraction(1, 3), Fraction(1, 2)]


def mixed(laws: list[list[Fraction]], weights: list[Fraction]) -> list[Fraction]:
    """The law of a mixture, written out."""
    points = zip(*laws, strict=True)
    return [sum(w * mass for w, mass in zip(weights, point, strict=True)) for point in points]


@pytest.mark.parametrize("fpr", RATES)
def test_build_9_curves_of_mixtures_have_the_null_without_the_record(fpr: Fraction) -> None:
    """`weights` and `P_i` are those with the record, so that they belong to the alternative."""
    ps, qs = [p for p, _ in COMPONENTS], [q for _, q in COMPONENTS]
    p, q = mixed(ps, WEIGHTS), mixed(qs, OTHER_WEIGHTS)
    truth = 1 - largest_tpr(p, q, fpr)
    assert truth != 1 - largest_tpr(q, p, fpr)
    assert hidden(COMPONENTS, WEIGHTS, OTHER_WEIGHTS)(fpr) == truth

    told_p = [w * mass for w, law in zip(WEIGHTS, ps, strict=True) for mass in law]
    told_q = [w * mass for w, law in zip(OTHER_WEIGHTS, qs, strict=True) for mass in law]
    told = 1 - largest_tpr(told_p, told_q, fpr)
    assert told != 1 - largest_tpr(told_q, told_p, fpr)
    curves = [Polyline.from_pmfs(null=q, alternative=p) for p, q in COMPONENTS]
    assert released(curves, WEIGHTS, OTHER_WEIGHTS)(fpr) == told

    table = [[Polyline.from_pmfs(null=q, alternative=p) for p in ps] for q in qs]
    independent = [[w * v for w in WEIGHTS] for v in OTHER_WEIGHTS]
    labeled_p = [
        w * v * mass for v in OTHER_WEIGHTS for w, p in zip(WEIGHTS, ps, strict=True) for mass in p
    ]
    labeled_q = [
        w * v * mass for v, q in zip(OTHER_WEIGHTS, qs, strict=True) for w in WEIGHTS for mass in q
    ]
    labeled = 1 - largest_tpr(labeled_p, labeled_q, fpr)
    assert coupled(table, WEIGHTS, OTHER_WEIGHTS, independent)(fpr) == labeled <= truth
    assert relabeled(table, independent, independent)(fpr) == labeled


@pytest.mark.parametrize("other_weights", [None, OTHER_WEIGHTS], ids=["one index", "two indices"])
def test_build_9_rows_of_a_comparison_bound_the_curve_of_this_direction(
    other_weights: list[Fraction] | None,
) -> None:
    mixture = dp.Mixture(
        components=[
            dp.FinitePair(p=[float(one) for one in p], q=[float(one) for one in q])
            for p, q in COMPONENTS
        ],
        weights=[float(one) for one in WEIGHTS],
        other_weights=other_weights and [float(one) for one in other_weights],
    )
    p, q = mixture.laws()
    for row in compare_mixture(mixture, fpr=[0.125, 0.5]).rows:
        for fpr in RATES:
            truth = 1 - largest_tpr(list(p), list(q), fpr)
            assert all(curve(fpr) <= truth for curve in row.curves)
            assert row.name != "index hidden, exact" or row.curves[0](fpr) == truth


@pytest.mark.parametrize(
    ("mechanism", "truth"),
    [
        (dp.RandomizedResponse(local_epsilon=1.5) * 10, 15),
        (dp.RandomizedResponse(local_epsilon=1.5, categories=5), Fraction(3, 2)),
        (dp.Laplace(scale=2.0) * 3, Fraction(3, 2)),
        (dp.PureDP(0.0), 0),
        (dp.Sequence([dp.PureDP(0.0), dp.PureDP(0.5), dp.Laplace(scale=1.0)]), Fraction(3, 2)),
        (dp.ShuffledReports(users=100, local_epsilon=2.0, rounds=5), 10),
        (dp.Gaussian(noise_multiplier=1.0), inf),
        (dp.Sequence([dp.PureDP(0.5), dp.Gaussian(noise_multiplier=1.0)]), inf),
        (dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=9), noise_multiplier=1.0), inf),
        (dp.ApproximateDP(epsilon=1.0, delta=1e-300), inf),
        (dp.ApproximateDP(epsilon=1.0, delta=0.0), 1),
    ],
    ids=lambda one: one.describe() if isinstance(one, dp.Mechanism) else None,
)
def test_build_10_epsilon_at_delta_zero(mechanism: dp.Mechanism, truth: Fraction | float) -> None:
    answer = dp.account(mechanism)
    for asked in (answer, answer.tradeoff()):
        found = asked.epsilon(delta=0)
        assert found.lower <= truth <= found.upper
        assert found.relative_width < 1e-12


def test_build_10_ten_binary_responses_are_ten_log_three() -> None:
    ten = dp.RandomizedResponse(local_epsilon=np.log(3.0)) * 10
    found = dp.account(ten).epsilon(delta=0.0)
    # the budget is the double next to log 3
    assert Fraction(found.lower) <= 10 * Fraction(float(np.log(3.0))) <= Fraction(found.upper)
    with mpmath.workdps(30):
        assert abs(found.upper - 10 * mpmath.log(3)) < 1e-14
    several = dp.account(ten).epsilon(delta=[0.0, 1e-300, 1e-6])
    assert np.all(np.diff(several.upper) <= 0.0)


def test_build_10_renyi_curves_at_delta_zero() -> None:
    known = dp.RenyiCurve(orders=[2.0, inf], values=[0.1, 0.5])
    assert known.epsilon(delta=0.0).upper == pytest.approx(0.5, abs=1e-9)
    assert dp.account(known + dp.PureDP(1.0)).epsilon(delta=0.0).upper >= 1.5
    assert dp.account(known + dp.PureDP(1.0)).epsilon(delta=0.0).upper < 1.5 + 1e-3
    assert dp.RenyiCurve(orders=[2.0], values=[0.1]).epsilon(delta=0.0).upper == inf


def test_build_10_the_command_line_asks_for_pure_dp(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "pure-dp epsilon=1", "--delta", "0"]) == 0
    assert "1 <= epsilon <= 1 at delta=0" in capsys.readouterr().out


def test_build_10_comparisons_at_delta_zero() -> None:
    table = dp.compare(dp.Laplace(scale=2.0) * 3, delta=0)
    assert table.best(Side.LOWER).value <= 1.5 <= table.best(Side.UPPER).value < 1.5 + 1e-9
    gaussian = dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=0.0)
    assert gaussian.best(Side.UPPER).value == inf
    formulas = [row for row in gaussian.rows if row.value is None]
    assert formulas
    assert all("delta is 0" in row.reason for row in formulas)


def test_build_10_reports_at_delta_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"delta": [0, 1e-5], "mechanism": {"kind": "Laplace", "scale": 2.0}}', "utf-8")
    assert main(["account", str(plan)]) == 0
    assert "at delta=0" in capsys.readouterr().out
    assert main(["report", str(plan), "-o", str(tmp_path / "report.json")]) == 0
    assert main(["verify", str(tmp_path / "report.json")]) == 0
    text = " ".join(dp.account(dp.Laplace(scale=2.0)).report(delta=0).split())
    assert "plus a probability" not in text
    text = " ".join(dp.account(dp.Gaussian(noise_multiplier=1.0)).report(delta=0).split())
    assert "Epsilon is infinite at delta=0" in text
    assert "can be certain" not in text  # no outcome gives the record away


def test_build_10_calibration_at_delta_zero() -> None:
    found = dp.calibrate(lambda scale: dp.Laplace(scale=scale) * 3, epsilon=1.0, delta=0.0)
    assert 3.0 <= found <= 3.0 * (1.0 + 1e-4)
    with pytest.raises(dp.errors.InvalidArgument, match="epsilon 1 at delta 0 is not met"):
        dp.calibrate(lambda noise: dp.Gaussian(noise), epsilon=1.0, delta=0.0)
    with pytest.raises(dp.errors.InvalidArgument, match="epsilon or delta must be greater than 0"):
        dp.calibrate(lambda scale: dp.Laplace(scale=scale), epsilon=0.0, delta=0.0)


def test_s13_threads_may_share_a_guarantee() -> None:
    """Digits may depend on what other threads asked, but every bracket holds."""
    run = dp.RandomizedResponse(local_epsilon=0.5) * 30
    answer, rates = dp.account(run), [1e-6, 1e-3, 0.03, 0.2, 0.5]
    with mpmath.workdps(40):
        odds = mpmath.exp(mpmath.mpf("0.5"))
        p = [mpmath.binomial(30, k) * odds**k / (1 + odds) ** 30 for k in range(31)]
    q = p[::-1]

    def power(fpr: float) -> mpmath.mpf:
        with mpmath.workdps(40):
            left, total = mpmath.mpf(fpr), mpmath.mpf(0)
            for here, there in zip(p[::-1], q[::-1], strict=True):  # most likely under p first
                share = min(left / there, mpmath.mpf(1))
                left, total = left - share * there, total + share * here
            return total

    with ThreadPoolExecutor(8) as pool:
        places = [rates[(k + turn) % len(rates)] for turn in range(8) for k in range(len(rates))]
        found = list(pool.map(lambda fpr: answer.tpr(fpr=fpr), places))
    for fpr, bracket in zip(places, found, strict=True):
        assert bracket.lower <= power(fpr) <= bracket.upper
        assert bracket.relative_width <= 1.01e-3


EQUAL_ROWS = dp.DiscreteRandomizer([[0.3, 0.7], [0.3, 0.7], [0.3, 0.7]])


@pytest.mark.parametrize(
    "case",
    {
        "local": lambda: EQUAL_ROWS,
        "local, five times": lambda: EQUAL_ROWS * 5,
        "shuffled": lambda: dp.ShuffledReports(users=100, randomizer=EQUAL_ROWS),
        "rounds": lambda: dp.ShuffledReports(users=100, randomizer=EQUAL_ROWS, rounds=7),
        "sampled": lambda: dp.ShuffledReports(users=100, population=1000, randomizer=EQUAL_ROWS),
        "no budget": lambda: dp.ShuffledReports(users=100, local_epsilon=0.0),
        "no budget for Laplace": lambda: dp.ShuffledReports(
            users=100, randomizer=dp.LocalLaplace(0.0)
        ),
    }.items(),
    ids=lambda case: case[0],
)
def test_f8_a_randomizer_with_equal_rows_is_perfectly_private(
    case: tuple[str, Callable[[], dp.Mechanism]],
) -> None:
    mechanism = case[1]()
    answer = dp.account(mechanism)
    for found in (
        answer.epsilon(delta=1e-6),
        answer.epsilon(delta=0.0),
        answer.delta(epsilon=0.0),
        answer.advantage(),
        answer.tpr(fpr=0.0),
    ):
        assert found.lower == found.upper == 0.0
    together = dp.account(dp.Sequence([mechanism, dp.RandomizedResponse(local_epsilon=1.0)]))
    assert together.epsilon(delta=0.0).lower == together.epsilon(delta=0.0).upper == 1.0
    assert answer.report().startswith("Privacy report")


def test_f8_a_probability_is_at_most_one() -> None:
    with pytest.raises(dp.errors.InvalidArgument, match=r"between 1e-30 and 1; got 1e-300"):
        dp.PoissonBatches(sample_rate=1e-300, steps=1)


def test_f8_comparisons_are_iterable() -> None:
    table = dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=1e-5)
    assert list(table) == list(table.rows)
    assert len(table) == len(table.rows)
    samplers = dp.compare_samplers(
        dataset_size=100, batch_size=100, epochs=1, noise_multiplier=1.0, delta=1e-5
    )
    assert list(samplers) == list(samplers.rows)


# --- F5, F6: balls-and-bins, two of them, against a one-dimensional integral


def delta_of_two_bins(noise: float, epsilon: float) -> float:
    """E (X - e^epsilon)_+ for X the mean of two lognormal ratios, by quadrature over one of them."""
    mu, k = 1.0 / noise, math.exp(epsilon)
    y = np.linspace(-12.0, 12.0, 24_001)
    one = np.exp(mu * y - 0.5 * mu * mu)
    rest = 2.0 * k - one
    safe = np.where(rest > 0.0, rest, 1.0)
    d = -np.log(safe) / mu - 0.5 * mu
    call = 0.5 * (norm.cdf(d + mu) - safe * norm.cdf(d))
    value = np.where(rest > 0.0, call, 0.5 * (1.0 - rest))
    return float(np.sum(value * norm.pdf(y)) * (y[1] - y[0]))


def two_bins(noise: float) -> dp.DPSGD:
    plan = dp.BallsAndBins(dataset_size=20, batch_size=10, epochs=1)
    return dp.DPSGD(plan, noise_multiplier=noise)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3621560246896785, 1e-8)])
def test_f5_calibrate_keeps_the_tolerance_it_promises(epsilon: float, delta: float) -> None:
    noise = dp.calibrate(two_bins, epsilon=epsilon, delta=delta)
    assert dp.account(two_bins(noise)).epsilon(delta=delta).upper <= epsilon
    smallest = brentq(lambda s: delta_of_two_bins(s, epsilon) / delta - 1.0, 1.0, 20.0, rtol=1e-10)
    assert smallest <= noise <= smallest * (1.0 + getattr(noise, "within", 1e-4))
    assert noise.within <= 1e-3
    assert noise.words in (
        f"the best value may be up to {share} away, since the bounds leave a gap"
        for share in ("0.03%", "0.1%")
    )


def test_f5_a_gap_between_bounds_is_said_and_whole_numbers_are_exact() -> None:
    noise = dp.calibrate(
        lambda s: dp.ShuffledReports(users=1000, randomizer="individual", local_epsilon=s),
        epsilon=1.0,
        delta=1e-5,
    )
    assert noise.within >= 0.1
    assert "the bounds leave a gap" in noise.words
    steps = dp.calibrate(lambda n: dp.Gaussian(10.0) * n, epsilon=1.0, delta=1e-5)
    assert (type(steps + 0), steps.within) == (int, 0.0)
    assert pickle.loads(pickle.dumps(steps)).words == "no better whole number meets the target"


def test_f6_balls_and_bins_are_refined_and_say_if_they_are_wide() -> None:
    noise, epsilon = 3.492404552520612, 1.35776106182166
    truth = delta_of_two_bins(noise, epsilon)
    assert truth == pytest.approx(3.36286e-12, rel=1e-5)
    wide = dp.account(two_bins(noise), relative_width=1e-6).delta(epsilon=epsilon)
    assert wide.lower <= truth * (1.0 + 1e-9)
    assert truth * (1.0 - 1e-9) <= wide.upper
    assert wide.context.endswith("wider than asked")
    standard = dp.account(two_bins(noise)).delta(epsilon=epsilon)
    assert wide.relative_width < 1e-4 < 5e-3 < standard.relative_width


@pytest.mark.parametrize("fpr", [0.05, 0.1, 0.15, 0.16965522959075657, 0.176, 0.2, 0.5])
def test_error_rates_between_jumps_that_are_far_apart(fpr: float) -> None:
    """Three thresholds that were all rounded to e^-358,018 = 0 once stood for a maximum of zero."""
    p = [0.11357355117797852, 0.32555484771728516, 0.27060508728027344, 0.09569931030273438,
         0.08099365234375, 0.11357355117797852]  # fmt: skip
    q = [2.1191226551309228e-10, 5.4569682106375694e-11, 2.3193751985672861e-07,
         0.009663995781011181, 0.990335772014987, 0.0]  # fmt: skip

    def missed(null: list[Fraction], other: list[Fraction]) -> Fraction:
        """By Neyman and Pearson: outcomes with the largest ratio first, the last one in part."""
        left, total = Fraction(fpr), sum(other)
        order = sorted(range(6), key=lambda i: (null[i] / other[i]) if other[i] else math.inf)
        for i in order:
            share = min(left / null[i], 1) if null[i] else 1
            left, total = left - share * null[i], total - share * other[i]
        return total

    pair = [[Fraction(mass) / sum(map(Fraction, law)) for mass in law] for law in (p, q)]
    truth = float(min(missed(*pair), missed(*pair[::-1])))
    answer = dp.account(dp.FinitePair(p=p, q=q)).fnr(fpr=fpr)
    assert answer.lower <= truth * (1.0 + 1e-6)
    assert truth * (1.0 - 1e-6) <= answer.upper
    assert answer.upper <= 1.01 * truth + 1e-9


@pytest.mark.parametrize("epsilon", [1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-6])
def test_mu_of_the_most_private_mechanisms(epsilon: float) -> None:
    """A rounded unit of 1 - fpr gave a lower end of 6e-12 whatever the truth; equal points were an error.

    Randomized response asks for the most at its corner, where both error rates are 1 / (1 + e^epsilon).
    """
    with mpmath.workdps(60):
        corner = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        truth = 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * corner)
    for mechanism in (dp.PureDP(epsilon=epsilon), dp.RandomizedResponse(local_epsilon=epsilon)):
        found = dp.account(mechanism).mu()
        assert found.lower <= truth <= found.upper
