"""What calibrate returns is accepted on every surface, and all of them show the same ends."""

from __future__ import annotations

from pathlib import Path

import pytest

import sharpdp as dp
from tests.laws.one_answer import KINDS, Question, disagreements, questions


@pytest.mark.parametrize("question", questions(len(KINDS) - 1), ids=str)  # the last kind is slow
def test_every_surface_accepts_what_calibrate_returned(question: Question, tmp_path: Path) -> None:
    assert disagreements(question, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("question", questions(500, seed=1), ids=str)
def test_every_surface_accepts_500_calibrated_plans(question: Question, tmp_path: Path) -> None:
    assert disagreements(question, tmp_path) == {}


def test_a_run_within_one_width_of_its_budget_is_settled_by_delta() -> None:
    """At default width the answer of this run is 3.0007; it is (3, 1e-5)-DP, by a finer grid 2.99994."""
    plan = dp.PoissonBatches(dataset_size=1500, batch_size=256, epochs=5)
    run = dp.DPSGD(plan, noise_multiplier=1.6543972871655457)
    answer = dp.account(run)
    assert answer.epsilon(delta=1e-5).upper > 3.0
    assert answer.meets(epsilon=3.0, delta=1e-5)
    assert dp.budget.Budget(epsilon=3.0, delta=1e-5, choice="fixed").affordable(run) == 1
    # one percent less noise costs more than any width
    less = dp.DPSGD(plan, noise_multiplier=1.638)
    assert dp.account(less, relative_width=1e-5).epsilon(delta=1e-5).lower > 3.0
    assert not dp.account(less).meets(epsilon=3.0, delta=1e-5)


def test_a_run_just_above_its_budget_is_refused() -> None:
    """By one part in a million, which answers of default width do not see."""
    run = dp.Laplace(scale=1.0) * 30
    narrow = dp.account(run, relative_width=1e-7).epsilon(delta=1e-5)
    limit = (1.0 - 1e-6) * float(narrow.lower)
    answer = dp.account(run)
    assert answer.delta(epsilon=limit).lower < 1e-5 < answer.delta(epsilon=limit).upper
    assert not answer.meets(epsilon=limit, delta=1e-5)


@pytest.mark.parametrize(
    ("target", "closed_form"),
    [
        ({"mu": 0.5}, 2.0),  # mu of Gaussian noise is one over its multiplier
        ({"advantage": 0.3829249225480263}, 1.0),  # 2 Phi(1/2) - 1
        ({"tpr": 0.5, "fpr": 0.022750131948179195}, 0.5),  # Phi(Phi^-1(fpr) + 2)
    ],
)
def test_targets_of_gaussian_noise(target: dict[str, float], closed_form: float) -> None:
    noise = dp.calibrate(lambda s: dp.Gaussian(s), **target)
    assert closed_form <= noise <= closed_form * 1.001
    assert dp.account(dp.Gaussian(noise)).meets(**target)
    assert not dp.account(dp.Gaussian(0.99 * closed_form)).meets(**target)


def test_meets_names_a_missing_target() -> None:
    with pytest.raises(dp.InvalidArgument, match=r"exactly one target must be given; got 0\."):
        dp.account(dp.Gaussian(1.0)).meets()
