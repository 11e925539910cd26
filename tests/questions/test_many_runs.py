"""`sweep`: answers for many runs at once are those of each run alone, and golden values lie in them."""

from __future__ import annotations

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.profile.composition import Composition
from sharpdp.profile.planning import prepare_epsilons
from sharpdp.profile.sampled_gaussian.evaluation import SampledGaussianEvaluation
from tests.golden.load import golden
from tests.golden.test_answers import mechanism


def training(sample_rate: float, noise: float, steps: int = 1000) -> dp.DPSGD:
    batches = dp.PoissonBatches(sample_rate=sample_rate, steps=steps)
    return dp.DPSGD(batches, noise_multiplier=noise)


# one table's rows; directions that are nearly alike; rows that the table declines; other mechanisms
RUNS = [
    training(0.01, 1.0),
    training(0.01, 0.3),
    training(1e-3, 0.8, 10_000),
    training(0.02, 5.0, 50_000),
    training(0.3, 30.0, 100),
    training(1e-4, 0.5, 100),
    training(0.01, 1.0, 5),
    training(0.01, 1.0) * 2,
    training(0.01, 1.0) + training(0.02, 2.0),
    dp.Gaussian(noise_multiplier=3.0),
    dp.Laplace(scale=5.0) * 10,
    dp.ShuffledReports(users=1000, local_epsilon=1.0),
]


@pytest.mark.parametrize("delta", [1e-5, 1e-30, 0.1])
def test_every_row_is_the_answer_of_that_run_alone(delta: float) -> None:
    answer = dp.sweep(RUNS).epsilon(delta=delta)
    for run, low, high in zip(RUNS, answer.lower, answer.upper, strict=True):
        alone = dp.account(run).epsilon(delta=delta)
        assert low == pytest.approx(alone.lower, rel=1e-8, abs=1e-12), run
        assert high == pytest.approx(alone.upper, rel=1e-8, abs=1e-12), run
        assert max(low, alone.lower) <= min(high, alone.upper), run


def test_golden_values_lie_in_the_rows() -> None:
    """All golden epsilons over Poisson batches, those of one delta in one sweep."""
    cases = [case for case in golden("poisson") if case.ask["quantity"] == "epsilon"]
    assert len(cases) > 10
    for delta in {case.ask["delta"] for case in cases}:
        some = [case for case in cases if case.ask["delta"] == delta]
        answer = dp.sweep([mechanism(case) for case in some]).epsilon(delta=delta)
        for case, low, high in zip(some, answer.lower, answer.upper, strict=True):
            assert low <= case.upper, case
            assert high >= case.lower, case


def test_settings_are_axes_in_their_order() -> None:
    made = []

    def run(noise: float, steps: int) -> dp.DPSGD:
        made.append((noise, steps))
        return training(0.01, noise, steps)

    answers = dp.sweep(run, steps=[100, 1000], noise=np.array([0.8, 1.0, 2.0]), relative_width=1e-6)
    assert made[:4] == [(0.8, 100), (1.0, 100), (2.0, 100), (0.8, 1000)]
    assert answers.shape == (2, 3)
    assert str(answers) == "Sweep of 6 runs: steps (2) x noise (3)"
    assert answers.guarantees[1, 2].mechanism == training(0.01, 2.0)
    epsilon = answers.epsilon(delta=[1e-5, 1e-7])
    assert np.shape(epsilon.upper) == (2, 3, 2)
    assert np.all(np.diff(epsilon.upper, axis=0) > 0), "more steps reveal more"
    assert np.all(np.diff(epsilon.upper, axis=1) < 0), "more noise hides more"
    assert np.all(np.diff(epsilon.upper, axis=2) > 0), "a smaller delta asks for more"
    assert np.max(epsilon.relative_width) <= 1e-6
    assert epsilon.context == "at given delta | Poisson batches, add/remove"
    delta = answers.delta(epsilon=1.0)
    alone = dp.account(training(0.01, 2.0), relative_width=1e-6).delta(epsilon=1.0)
    assert float(delta.upper[1, 2]) == pytest.approx(float(alone), rel=1e-8)
    for bracket in (delta, answers.tpr(fpr=0.01), answers.renyi(order=4.0)):
        assert np.shape(bracket.lower) == (2, 3)


def test_the_context_of_different_runs_says_how_many_there_are() -> None:
    answer = dp.sweep(RUNS[:1] + RUNS[-1:]).epsilon(delta=1e-6)
    assert answer.context == "at delta=1e-06 | 2 runs, 1 of them wider than asked"


def test_a_table_has_every_run_in_a_line() -> None:
    table = dp.sweep(lambda noise: training(0.01, noise), noise=[1.0, 2.0]).table(delta=1e-5)
    lines = table.splitlines()
    assert lines[0].split() == ["noise", "epsilon", "at", "least", "at", "most"]
    assert lines[1].split() == ["1", "1.82823", "1.82824"]
    assert len(lines) == 3
    assert "Gaussian" in dp.sweep([dp.Gaussian(noise_multiplier=1.0)]).table(delta=1e-5)


def test_work_is_dropped_after_an_answer() -> None:
    answers = dp.sweep([training(0.01, 1.0), training(0.01, 5.0)])
    answers.epsilon(delta=1e-5)
    for guarantee in answers.guarantees:
        for way in guarantee.derivations:
            assert not way.composition.kept.works
            assert not way.composition.reverse().kept.works


def test_one_run_that_is_declined_leaves_the_others_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = []
    together = SampledGaussianEvaluation.enclose_each.__func__

    def counted(cls, compositions, *, log_deltas):  # type: ignore[no-untyped-def]
        sizes.append(len(compositions))
        return together(cls, compositions, log_deltas=log_deltas)

    monkeypatch.setattr(SampledGaussianEvaluation, "enclose_each", classmethod(counted))
    runs = [training(0.01, noise) for noise in np.linspace(0.7, 1.0, 20)]
    runs.append(training(1e-4, 0.5, 100))  # too many frequencies
    compositions = [dp.account(run).upper_derivations[0].composition for run in runs]
    prepare_epsilons(compositions, float(np.log(1e-5)))
    assert sizes[0] == 21
    assert [len(composition.kept.works) for composition in compositions] == [1] * 20 + [0]
    assert len(sizes) <= 2, "the other direction is settled, or made at once"


@pytest.mark.parametrize(
    ("sample_rate", "noise", "steps"),
    [(0.01, 1.0, 1000), (1e-3, 0.8, 10_000), (0.5, 4.0, 300), (0.9, 3.0, 64), (1e-4, 6.0, 10**6)],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-80])
def test_quick_bounds_are_never_below_epsilon(
    sample_rate: float, noise: float, steps: int, delta: float
) -> None:
    """In both directions, and the answer is the worse of them."""
    run = dp.account(training(sample_rate, noise, steps)).upper_derivations[0].composition
    assert isinstance(run, Composition)
    ends = []
    for way in (run, run.reverse()):
        low, high = way.epsilon(float(np.log(delta)), 1e-6, delta)
        log_delta = np.log(np.array([delta]))
        below = low * (1.0 - 1e-9) - 1e-12
        assert below < 0.0 or not way.shows(np.array([below]), log_delta)[0]
        if way is not run and 1e-20 < delta < 1e-3:
            assert way.shows(np.array([1.2 * high]), log_delta)[0], "and they are of use"
        ends.append((low, high))
    answer = dp.account(training(sample_rate, noise, steps), relative_width=1e-6).epsilon(
        delta=delta
    )
    assert max(low for low, _ in ends) == pytest.approx(answer.lower, rel=2e-6, abs=1e-12)
    assert max(high for _, high in ends) == pytest.approx(answer.upper, rel=2e-6, abs=1e-12)


def test_wrong_sweeps_are_refused() -> None:
    with pytest.raises(WrongType, match="no setting has values: give them by name"):
        dp.sweep(lambda noise: training(0.01, noise))
    with pytest.raises(WrongType, match="noise must be a list of values; got 1"):
        dp.sweep(lambda noise: training(0.01, noise), noise=1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="noise must be a list with at least one value"):
        dp.sweep(lambda noise: training(0.01, noise), noise=[])
    with pytest.raises(WrongType, match="must be a function if settings have values"):
        dp.sweep([training(0.01, 1.0)], noise=[1.0])
    with pytest.raises(
        WrongType, match="runs must be mechanisms, or a function that returns one; got 3"
    ):
        dp.sweep([3])  # type: ignore[list-item]
    with pytest.raises(WrongType, match="runs must be a list of values; got 3"):
        dp.sweep(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"epsilon\(delta=1e-05\)"):
        dp.sweep([training(0.01, 1.0)]).epsilon(1e-5)  # type: ignore[misc]
