"""Theorems speak only where their premises hold, and the end that is safe decides."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds import bounds_for
from sharpdp.bounds.fixed_size.truncation import Overflow
from sharpdp.bounds.registry import Bound, reasons_against
from sharpdp.bracket import Rigor
from sharpdp.budget.filters import RenyiFilter
from sharpdp.curves.tradeoff import Polyline
from sharpdp.learn.budget import affordable
from sharpdp.pairs.from_loss_masses import pessimistic_loss_halves
from sharpdp.pairs.pair import log_delta_of
from sharpdp.questions.calibrate import Reading
from sharpdp.questions.targets import Target
from sharpdp.report import Verdict, verify
from tests.laws.registered import Subject, some, subjects

SURVEY = dp.ShuffledReports(users=1000, local_epsilon=2.0)
"""The two sides of its epsilon are seven percent apart."""


def names(mechanism: dp.Mechanism, adjacency: str | None = None) -> set[str]:
    return {bound.name for bound in bounds_for(mechanism, adjacency)}


def named(name: str, mechanism: dp.Mechanism) -> Bound:
    return next(bound for bound in bounds_for(mechanism) if bound.name == name)


COMPUTING = ("numerics", "pairs", "profile")
"""Folders of what works something out."""

# --- premises ---


@pytest.mark.parametrize(
    ("fresh", "batch_size", "noise", "left_out"),
    [
        ("vacant_seat_upper", 7, 1.0, 1),
        ("null_record_clones_upper", 100, 4.0, 0),
        ("displaced_example_upper", 10_000, 1.0, 0),
    ],
)
def test_what_needs_fresh_orders_says_nothing_about_kept_ones(
    fresh: str, batch_size: int, noise: float, left_out: int
) -> None:
    def run(order: str, epochs: int) -> dp.DPSGD:
        scheme = dp.ShuffledBatches(
            dataset_size=60 if left_out else 10**6,
            batch_size=batch_size,
            epochs=epochs,
            order=order,
            left_out=left_out,
        )
        return dp.DPSGD(scheme, noise_multiplier=noise)

    assert fresh in names(run("redrawn", 3), "zero-out")
    assert fresh in names(run("kept", 1), "zero-out")
    assert fresh not in names(run("kept", 3), "zero-out")


def test_what_needs_fresh_bins_says_nothing_about_kept_ones() -> None:
    def run(order: str) -> dp.DPSGD:
        scheme = dp.BallsAndBins(dataset_size=60, batch_size=6, epochs=3, order=order)
        return dp.DPSGD(scheme, noise_multiplier=1.0)

    fresh = {"random_allocation_upper", "random_allocation_lower", "revealed_allocation_upper"}
    assert fresh <= names(run("redrawn"), "zero-out")
    assert fresh.isdisjoint(names(run("kept"), "zero-out"))


def test_what_needs_subsets_says_nothing_about_draws_with_replacement() -> None:
    def run(*, replacement: bool) -> dp.DPSGD:
        scheme = dp.FixedSizeBatches(
            dataset_size=60, batch_size=6, steps=300, replacement=replacement
        )
        return dp.DPSGD(scheme, noise_multiplier=1.0)

    once = names(run(replacement=False), "zero-out")
    assert "random_subset_upper" in once
    assert once.isdisjoint(names(run(replacement=True), "zero-out"))


def test_losses_that_were_rounded_down_bound_nothing_from_above() -> None:
    def given(rounding: str) -> dp.PrivacyLoss:
        return dp.PrivacyLoss(
            losses=[-1.0, 1.0], masses=[0.26894142, 0.73105858], rounding=rounding
        )

    assert names(given("pessimistic")) == {"privacy_loss_upper"}
    assert names(given("optimistic")) == {"privacy_loss_lower"}


def test_a_curve_that_is_only_a_bound_shows_no_lower_end() -> None:
    half = Polyline((0, 1), (Fraction(1, 2), 0))
    for attained in (True, False):
        curve = dp.TradeoffCurve.between(half, half, attained=attained)
        assert float(dp.account(curve).advantage().lower) == pytest.approx(0.5 if attained else 0.0)


def test_a_theorem_is_about_what_it_names() -> None:
    class Shorter(dp.Gaussian):
        """Noise that may be something else."""

    gaussian = dp.Gaussian(noise_multiplier=1.0)
    assert named("gaussian_tight", gaussian).applies_to(gaussian)
    assert not named("gaussian_tight", gaussian).applies_to(Shorter(noise_multiplier=1.0))
    poisson = dp.DPSGD(dp.PoissonBatches(sample_rate=0.1, steps=3), noise_multiplier=1.0)
    fixed = dp.DPSGD(
        dp.DeterministicBatches(dataset_size=10, batch_size=1, epochs=3), noise_multiplier=1.0
    )
    assert named("poisson_batches_tight", poisson).applies_to(poisson)
    assert not named("poisson_batches_tight", poisson).applies_to(fixed)


# --- rigor ---


def test_an_answer_is_as_rigorous_as_the_weaker_of_its_ends() -> None:
    answer = dp.account(SURVEY)
    certified = tuple(d for d in answer.lower_derivations if d.rigor is Rigor.CERTIFIED)
    assert len(certified) == 1
    assert {d.rigor for d in answer.upper_derivations} == {Rigor.UNREVIEWED}
    mixed = replace(answer, lower_derivations=certified)
    assert mixed.epsilon(delta=1e-6).rigor is Rigor.UNREVIEWED


def test_a_conversion_is_as_rigorous_as_what_it_converts() -> None:
    scheme = dp.ShuffledBatches(dataset_size=10**6, batch_size=100, epochs=3)
    run = dp.DPSGD(scheme, noise_multiplier=4.0)
    bases = {
        bound.base.name: (bound.rigor, bound.base.rigor)
        for bound in bounds_for(run, "replace-one")
        if bound.base is not None and bound.name == "through_null_record_upper"
    }
    assert bases["null_record_clones_upper"] == (Rigor.UNREVIEWED, Rigor.UNREVIEWED)
    assert all(own is Rigor.UNREVIEWED or base is Rigor.CERTIFIED for own, base in bases.values())


def test_what_rests_on_an_unreviewed_curve_is_unreviewed() -> None:
    curve = dp.RenyiCurve(orders=[2.0, 8.0], values=[0.1, 0.4], rigor=Rigor.UNREVIEWED)
    assert dp.account(curve).epsilon(delta=1e-5).rigor is Rigor.UNREVIEWED


# --- which end ---


def test_the_upper_end_is_the_smallest_of_all_derivations_and_the_lower_end_the_largest() -> None:
    scheme = dp.ShuffledBatches(dataset_size=20, batch_size=5, epochs=1)
    answer = dp.account(dp.DPSGD(scheme, noise_multiplier=1.0))
    bracket = answer.epsilon(delta=1e-5)
    uppers = [answer.only(way).epsilon(delta=1e-5).upper for way in answer.upper_derivations]
    lowers = [answer.only(way).epsilon(delta=1e-5).lower for way in answer.lower_derivations]
    assert len(uppers) > 1
    assert float(bracket.upper) == pytest.approx(min(map(float, uppers)), rel=1e-9)
    assert float(bracket.lower) == pytest.approx(max(map(float, lowers)), rel=1e-9)


def test_the_upper_end_decides_whether_a_budget_is_exceeded(tmp_path: Path) -> None:
    ends = dp.account(SURVEY).epsilon(delta=1e-6)
    between = 0.5 * (float(ends.lower) + float(ends.upper))
    for target, exceeds in ((between, True), (float(ends.upper) * 1.01, False)):
        ledger = dp.Ledger(
            tmp_path / f"{exceeds}.jsonl", epsilon=target, delta=1e-6, choice="fixed in advance"
        )
        budget = dp.Budget(epsilon=target, delta=1e-6, choice="fixed in advance")
        assert ledger.would_exceed(SURVEY) is exceeds
        assert budget.would_exceed(SURVEY) is exceeds


def test_costs_are_upper_ends() -> None:
    divergence = dp.account(SURVEY).renyi(order=8.0)
    assert float(divergence.upper) > 1.05 * float(divergence.lower)
    assert RenyiFilter(1.0, 8.0).cost(SURVEY) >= float(divergence.upper)


def test_calibrated_noise_meets_its_target_by_the_upper_side() -> None:
    found = dp.calibrate(
        lambda e: dp.ShuffledReports(users=1000, local_epsilon=e), epsilon=0.4, delta=1e-6
    )
    reached = dp.account(dp.ShuffledReports(users=1000, local_epsilon=float(found)))
    answer = reached.epsilon(delta=1e-6)
    assert float(answer.lower) < 0.97 * float(answer.upper) < float(answer.upper) <= 0.4


def test_a_trial_of_a_calibration_is_judged_by_its_upper_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Reading, "_read", lambda self, answer, direct: (-0.1, 0.2))
    reading = Reading(Target("epsilon", 1.0, 1e-5), None)
    assert reading.excess(dp.Gaussian(noise_multiplier=1.0), 0.1)[0] == 0.2


def test_the_curve_of_a_guarantee_is_below_its_rates_where_its_sides_differ() -> None:
    answer = dp.account(SURVEY)
    curve, rates = answer.tradeoff(), answer.fnr(fpr=[0.1, 0.3, 0.5])
    for rate, low, high in zip((0.1, 0.3, 0.5), rates.lower, rates.upper, strict=True):
        assert curve.lower(rate) <= low + 1e-6
        assert curve.upper(rate) >= high - 1e-2
        assert curve.lower(rate) <= curve.upper(rate)


def test_a_report_below_what_is_attained_is_contradicted() -> None:
    text = dp.account(dp.Gaussian(noise_multiplier=1.0)).report("json", delta=1e-5)
    data = json.loads(text)
    data["versions"]["sharpdp"] = "0.0.1"
    data["epsilon"][0]["lower"] *= 0.5
    data["epsilon"][0]["upper"] *= 0.9
    (finding,) = (
        one for one in verify(json.dumps(data)).findings if one.field.startswith("/epsilon/0/")
    )
    assert finding.field == "/epsilon/0/upper"
    assert finding.verdict is Verdict.CONTRADICTED


def test_a_forged_report_is_not_counted(tmp_path: Path) -> None:
    """Its plan and its structure are in order; only an end is smaller than it was."""
    data = json.loads(dp.account(dp.Gaussian(noise_multiplier=1.0)).report("json", delta=1e-5))
    data["epsilon"][0]["upper"] *= 0.9999
    forged = tmp_path / "report.json"
    forged.write_text(json.dumps(data), "utf-8")
    ledger = dp.Ledger(
        tmp_path / "budget.jsonl", epsilon=9.0, delta=1e-5, choice="fixed in advance"
    )
    with pytest.raises(dp.InvalidArgument, match="/epsilon/0/upper"):
        ledger.add(forged)
    assert ledger.entries == ()


# --- what theorems count ---


def test_a_replaced_record_is_two_clips_away() -> None:
    """The same as half of the noise, wherever the whole run is one Gaussian for each epoch."""
    loss = dp.SmoothLoss(gradient_norm=1.0, smoothness=1.0, regularization=0.5)
    plan = dp.DeterministicBatches(dataset_size=50, batch_size=50, epochs=10)

    def last(noise: float) -> dp.LastIterate:
        return dp.LastIterate(plan, noise_multiplier=noise, learning_rate=1.0, loss=loss)

    def shuffled(noise: float) -> dp.DPSGD:
        scheme = dp.ShuffledBatches(dataset_size=10, batch_size=10, epochs=4)
        return dp.DPSGD(scheme, noise_multiplier=noise)

    for make in (last, shuffled):
        replaced = dp.account(make(2.0), adjacency="replace-one").epsilon(delta=1e-5)
        zeroed = dp.account(make(1.0), adjacency="zero-out").epsilon(delta=1e-5)
        assert float(replaced.upper) == pytest.approx(float(zeroed.upper), rel=1e-6)
        assert float(replaced.lower) == pytest.approx(float(zeroed.lower), rel=1e-2)


def test_kept_orders_add_up_their_epochs() -> None:
    """Of four epochs in one order the mean has half of the noise, and nothing else counts."""
    kept = dp.ShuffledBatches(dataset_size=20, batch_size=5, epochs=4, order="kept")
    once = dp.ShuffledBatches(dataset_size=20, batch_size=5, epochs=1)
    one = dp.account(dp.DPSGD(once, noise_multiplier=1.0)).epsilon(delta=1e-5)
    all_four = dp.account(dp.DPSGD(kept, noise_multiplier=2.0)).epsilon(delta=1e-5)
    assert float(all_four.lower) <= float(one.upper)
    assert float(all_four.upper) >= float(one.lower)
    assert float(all_four.lower) == pytest.approx(float(one.lower), rel=1e-2)


def test_examples_that_are_in_no_whole_batch_are_not_attacked_there() -> None:
    """Half of the examples sit out: what is attained is at most what half of the chance leaves."""
    scheme = dp.ShuffledBatches(dataset_size=20, batch_size=10, epochs=1, left_out=10)
    answer = dp.account(dp.DPSGD(scheme, noise_multiplier=0.2)).advantage()
    assert float(answer.lower) <= 0.5


def test_both_ends_of_the_chance_of_a_full_batch_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """With chances between 0.1 and 0.3, the upper side is at least that of either."""
    scheme = dp.TruncatedPoissonBatches(
        dataset_size=9, batch_size=3, steps=1, physical_batch_size=5
    )
    run = dp.DPSGD(scheme, noise_multiplier=1.0)

    def delta(low: float, high: float) -> float:
        monkeypatch.setattr(Overflow, "full", lambda self, others: (low, high))
        ((pair, _),) = named("overflow_mixture_upper", run)(run, run.adjacency("zero-out"))
        return math.exp(log_delta_of(pair, 0.5)[1])

    assert delta(0.1, 0.3) >= max(delta(0.1, 0.1), delta(0.3, 0.3))


def test_all_others_may_fill_a_batch_if_a_record_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = dp.TruncatedPoissonBatches(
        dataset_size=9, batch_size=3, steps=1, physical_batch_size=5
    )
    run, asked = dp.DPSGD(scheme, noise_multiplier=1.0), set[int]()
    real = Overflow.full

    def full(self: Overflow, others: int) -> tuple[float, float]:
        asked.add(others)
        return real(self, others)

    bound = named("overflow_mixture_upper", run)
    monkeypatch.setattr(Overflow, "full", full)
    bound(run, run.adjacency("add/remove"))
    assert asked == {8, 9}


def test_mass_that_is_missing_from_a_table_is_revealed() -> None:
    table = np.array([-1.0, 1.0]), np.array([0.2, 0.5]), 0.1
    pair = pessimistic_loss_halves(table, None)
    assert pair.infinite_p >= 0.3
    assert pair.infinite_q >= 0.3


def test_rounds_are_afforded_by_their_upper_end() -> None:
    ends = [dp.account(SURVEY * rounds).epsilon(delta=1e-6) for rounds in (1, 2)]
    between = 0.5 * (float(ends[1].lower) + float(ends[1].upper))
    assert float(ends[0].upper) < between
    assert affordable(lambda rounds: SURVEY * rounds, 2, epsilon=between, delta=1e-6) == 1


@pytest.mark.parametrize("subject", subjects(), ids=str)
def test_whether_a_theorem_applies_is_looked_up_and_not_computed(subject: Subject) -> None:
    """Parameters decide, or a theorem says no when it is asked: nothing is worked out before."""
    worked: set[str] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/underflow" not in file:
            worked.update(file for folder in COMPUTING if f"sharpdp/{folder}/" in file)

    for mechanism in some(subject, 23, 4):
        for part, _ in mechanism.parts():
            for bound in dp.all_bounds():
                sys.setprofile(look)
                try:
                    applies = bound.applies_to(part)
                finally:
                    sys.setprofile(None)
                assert not worked, bound.name
                if not applies and bound._is_about(part):
                    reasons = reasons_against(part, bound.adjacency[0])
                    assert reasons[bound.name], bound.name
