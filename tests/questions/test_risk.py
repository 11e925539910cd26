"""Risk read off the trade-off curve: against closed forms, enumerated attacks, and riskcal's numbers."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import sharpdp as dp
from sharpdp.cli import main
from sharpdp.questions.risk import _identified, precision_of

# riskcal 1.5.1, one minus get_beta_from_gdp(1.0, alpha) and get_bayes_risk_from_gdp(1.0, prior)
RISKCAL_TPR = {0.001: 0.0182984684, 0.01: 0.0923622481, 0.1: 0.3891436916, 0.5: 0.8413447461}
RISKCAL_BAYES = {0.5: 0.6914624613, 0.2: 0.8138437732, 0.9: 0.9013363061}
# the same of 1000 Poisson-sampled steps, rate 0.01, noise 1, from dp-accounting's PLD with steps of 1e-3
RISKCAL_SAMPLED = {0.001: 0.0040700140, 0.01: 0.0291507068, 0.1: 0.1942537468}
RISKCAL_SAMPLED_BAYES = {0.5: 0.5805488922, 0.2: 0.8000477102}


def gaussian_tpr(fpr: float) -> mpf:
    with mp.workdps(30):
        quantile = mp.sqrt(2) * mp.erfinv(2 * mpf(fpr) - 1)
        return mp.ncdf(quantile + 1)


@pytest.mark.parametrize("baseline", [0.001, 0.01, 0.1, 0.5, 0.9])
def test_reconstruction_of_gaussian_noise_is_its_trade_off_curve(baseline: float) -> None:
    risk = dp.account(dp.Gaussian(noise_multiplier=1.0)).risk(baseline=baseline)
    truth = gaussian_tpr(baseline)
    assert truth <= risk.reconstruction.upper <= truth * (1 + 1e-3)
    assert baseline < risk.reconstruction.lower <= truth
    if baseline in RISKCAL_TPR:
        assert risk.reconstruction.upper == pytest.approx(RISKCAL_TPR[baseline], rel=1e-6)


@pytest.mark.parametrize("prior", RISKCAL_BAYES)
def test_guesses_have_riskcals_accuracy(prior: float) -> None:
    risk = dp.account(dp.Gaussian(noise_multiplier=1.0)).risk(prior=prior)
    assert risk.guess.lower <= risk.guess.upper
    assert risk.guess.upper == pytest.approx(RISKCAL_BAYES[prior], rel=1e-6)


def test_a_sampled_run_has_riskcals_numbers_from_below() -> None:
    """Theirs are pessimistic by their grid: never below ours, and close."""
    answer = dp.account(
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    )
    for baseline, theirs in RISKCAL_SAMPLED.items():
        ours = answer.risk(baseline=baseline).reconstruction.upper
        assert ours == pytest.approx(theirs, rel=5e-4)
        assert ours <= theirs * (1 + 1e-6)
    for prior, accuracy in RISKCAL_SAMPLED_BAYES.items():
        assert answer.risk(prior=prior).guess.upper == pytest.approx(accuracy, rel=1e-4)


def pair(rng: np.random.Generator) -> tuple[list[Fraction], list[Fraction]]:
    weights = [[Fraction(int(w)) for w in rng.integers(1, 30, 4)] for _ in range(2)]
    p, q = ([w / sum(row) for w in row] for row in weights)
    return p, q


def test_a_bayesian_who_lists_all_outcomes_is_inside_the_bracket() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        p, q = pair(rng)
        prior = float(rng.uniform(0.02, 0.98))
        mechanism = dp.FinitePair(p=[float(x) for x in p], q=[float(x) for x in q])
        risk = dp.account(mechanism).risk(prior=prior)
        # the prior may be that of either data set
        success = max(
            sum(
                max(Fraction(prior) * a, (1 - Fraction(prior)) * b)
                for a, b in zip(x, y, strict=True)
            )
            for x, y in ((p, q), (q, p))
        )
        assert risk.guess.lower - 1e-12 <= success <= risk.guess.upper + 1e-12


def test_no_attribute_with_this_baseline_is_found_more_often() -> None:
    """Attributes of three values drawn at random; each value's release dominated by the pair (P, Q)."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        p, q = pair(rng)
        mechanism = dp.FinitePair(p=[float(x) for x in p], q=[float(x) for x in q])
        prior = rng.dirichlet(np.ones(3))
        # a value that shows, and mixtures towards the release without it: all within the pair's reach
        mixes = [Fraction(1), *(Fraction(int(rng.integers(0, 9)), 8) for _ in range(2))]
        releases = [[m * a + (1 - m) * b for a, b in zip(p, q, strict=True)] for m in mixes]
        success = sum(
            max(Fraction(float(prior[v])) * releases[v][o] for v in range(3)) for o in range(4)
        )
        risk = dp.account(mechanism).risk(baseline=float(prior.max()))
        assert success <= risk.reconstruction.upper + 1e-12


def test_the_lower_end_of_a_reconstruction_is_attained() -> None:
    """Two values of the stated chance and others below it; one shows, the others look alike."""
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    mechanism = dp.FinitePair(p=[0.75, 0.25], q=[0.25, 0.75])
    for chance in (Fraction(1, 2), Fraction(1, 4), Fraction(1, 10)):
        success = sum(chance * max(a, b) for a, b in zip(p, q, strict=True))
        risk = dp.account(mechanism).risk(baseline=float(chance), candidates=round(1 / chance))
        assert risk.reconstruction.lower <= success <= risk.reconstruction.upper
        assert risk.reconstruction.lower == pytest.approx(float(success), rel=1e-6)
        assert risk.singling_out.lower <= success <= risk.singling_out.upper + 1e-15


def test_precision_is_bayes_rule() -> None:
    assert precision_of(0.5, 0.25, 0.75) == (0.75, 0.75)
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    risk = answer.risk(prior=0.01, fpr=0.001)
    tpr = gaussian_tpr(0.001)
    truth = 0.01 * tpr / (0.01 * tpr + 0.99 * 0.001)
    assert risk.precision.lower <= truth <= risk.precision.upper


def test_numbers_grow_with_what_is_revealed_and_are_one_if_all_is() -> None:
    noisy, clear = (
        dp.account(dp.Gaussian(noise_multiplier=noise)).risk(records=1000) for noise in (4.0, 0.5)
    )
    for name, bracket in noisy.brackets.items():
        assert bracket.upper < clear.brackets[name].upper
    everything = dp.account(dp.FinitePair(p=[1.0, 0.0], q=[0.0, 1.0])).risk(records=10, fpr=1e-9)
    uppers = [b.upper for b in everything.brackets.values()]
    assert uppers == pytest.approx([1.0, 1.0, 1.0, 1.0, 10.0], rel=1e-8)
    nothing = dp.account(dp.PureDP(epsilon=0.0)).risk(records=1000)
    uppers = [b.upper for b in nothing.brackets.values()]
    assert uppers == pytest.approx([0.5, 0.5, 0.1, 0.01, 1.0], rel=1e-6)


def test_the_size_of_the_data_set_is_taken_from_the_run() -> None:
    scheme = dp.PoissonBatches(dataset_size=1000, batch_size=10, epochs=1)
    risk = dp.account(dp.DPSGD(scheme, noise_multiplier=2.0)).risk()
    assert risk.records == 1000
    assert risk.identified is not None
    assert dp.account(dp.Gaussian(noise_multiplier=1.0)).risk().identified is None
    assert "Of 1,000 records" in str(risk)
    assert set(risk.assumptions) == set(risk.brackets)


@pytest.mark.parametrize(
    "said", [{"prior": 0.0}, {"fpr": 1.0}, {"baseline": 2.0}, {"candidates": 1}, {"records": 0}]
)
def test_what_is_no_probability_is_refused(said: dict[str, float]) -> None:
    (name,) = said
    with pytest.raises(dp.InvalidArgument, match=f"{name} must be"):
        dp.account(dp.Gaussian(noise_multiplier=1.0)).risk(**said)  # type: ignore[arg-type]


def test_the_picture_marks_what_was_asked() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = dp.account(dp.Gaussian(noise_multiplier=1.0)).risk(candidates=50).plot()
    labels = [line.get_label() for line in axes.get_lines()]
    assert labels[2:] == ["secret with a chance of 0.1", "one of 50 candidates"]
    matplotlib.pyplot.close(axes.figure)


def test_the_command_says_it_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["risk", "gaussian noise_multiplier=1", "--baseline", "0.1", "--records", "1000"]
    assert main([*words, "--plain"]) == 0
    text = capsys.readouterr().out
    assert "is found with at most 39% after it" in text
    assert "Of 1,000 records" in text
    picture = tmp_path / "risk.svg"
    assert main([*words, "--json", "-o", str(picture)]) == 0
    data = json.loads(capsys.readouterr().out)
    names = [answer["quantity"] for answer in data["answers"]]
    assert names == ["guess", "precision", "reconstruction", "singling_out", "identified"]
    assert data["answers"][2]["baseline"] == 0.1
    assert set(data["assumptions"]) == set(names)
    assert picture.read_text().startswith("<?xml")
    assert main(["risk", "gaussian noise_multiplier=1", "--baseline", "2"]) == 2
    assert "--baseline must be" in capsys.readouterr().err


def test_expected_numbers_of_records_are_rounded_outwards() -> None:
    for high in (0.1, 0.3, 0.7, 1.0 / 3.0):
        least, most = _identified(999_983, 0.001, high, high)
        assert Fraction(least) <= Fraction(high) + 999_982 * Fraction(0.001)
        assert Fraction(most) >= 999_983 * Fraction(high)
