"""What is expected is set aside: enumerated adversaries, and what a budget then admits."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.budget.filters import AdaptiveFilter
from sharpdp.budget.meter import Meter
from sharpdp.budget.reserve import Reserve
from sharpdp.cli import main
from sharpdp.explore.officer_view import ledger as page_ledger
from sharpdp.explore.officer_view import reports
from sharpdp.storage.hash_chain import HashChain
from tests.budget.test_filters import Allowed, Masses, mechanism, pool, strongest

POISSON = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
MNIST = dp.DPSGD(
    dp.PoissonBatches(dataset_size=60_000, batch_size=512, epochs=30), noise_multiplier=0.8
)
SPARSE = dp.DPSGD(dp.PoissonBatches(sample_rate=0.001, steps=10_000), noise_multiplier=0.6)
SURVEY = dp.ShuffledReports(users=20_000, local_epsilon=1.0)
EPOCHS = dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=4)


# --- adversaries ---


def admitted(mechanisms: list[Masses], made: AdaptiveFilter) -> Allowed:
    """What a meter admits after some runs."""
    nouns = [mechanism(masses) for masses in mechanisms]
    known: dict[tuple[int, ...], Meter] = {(): Meter.begun(made)}

    def meter(run: tuple[int, ...]) -> Meter:
        if run not in known:
            known[run] = meter(run[:-1]).after(nouns[run[-1]])
        return known[run]

    return lambda run, more: not meter((*run, more)).exceeded


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.05), (1.0, 0.02)])
def test_orders_that_share_delta_admit_no_adversary_beyond_it(epsilon: float, delta: float) -> None:
    for seed in range(2):
        mechanisms = pool(seed)
        made = AdaptiveFilter.for_target(epsilon=epsilon, delta=delta)
        assert len(made.orders) == 3
        allowed = admitted(mechanisms, made)
        for direction in (mechanisms, [[(q, p) for p, q in masses] for masses in mechanisms]):
            assert strongest(direction, allowed, math.exp(epsilon), 3) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("slack", [1.0, 1.8])
def test_parts_of_a_plan_in_any_order_and_others_beside_it_stay_within_the_promise(
    seed: int, slack: float
) -> None:
    """Two runs of one mechanism and one of another are set aside; all six may be asked for."""
    mechanisms = pool(seed)
    nouns = [mechanism(masses) for masses in mechanisms]
    expected = nouns[3] * 2 + nouns[1]
    delta = 0.02
    epsilon = slack * float(dp.account(expected).epsilon(delta=delta).upper)
    made = AdaptiveFilter.for_target(epsilon=epsilon, delta=delta, expected=expected)
    allowed = admitted(mechanisms, made)
    for direction in (mechanisms, [[(q, p) for p, q in masses] for masses in mechanisms]):
        attained = strongest(direction, allowed, math.exp(epsilon), 4)
        assert attained <= delta * (1 + 1e-9)
    # all of the plan is admitted, in each order
    assert all(
        not Meter.begun(made).after(nouns[i] + nouns[j]).exceeded for i, j in ((1, 3), (3, 3))
    )


def test_a_reserve_that_were_spent_by_epsilon_alone_would_break() -> None:
    """The enumeration can tell: with either of two mechanisms in place of a plan it exceeds delta."""
    coins = [
        [(0.55, 0.45), (0.45, 0.55)],
        [(0.75, 0.25), (0.25, 0.75)],
        [(0.075, 0.0), (0.925, 0.925), (0.0, 0.075)],
    ]
    either = {(0, 1), (0, 2), (0,), (1,), (2,)}
    broken = strongest(coins, lambda run, more: tuple(sorted((*run, more))) in either, 3.0, 2)
    assert broken >= 87 / 800 - 1e-9  # each pair has 3/40
    plan = dp.Sequence([mechanism(masses) for masses in coins[:2]])
    made = AdaptiveFilter(math.log(3), 0.075 + 1e-9, (), plan)
    assert strongest(coins, admitted(coins, made), 3.0, 3) <= 0.075 + 1e-9


# --- what is covered ---


def test_parts_are_covered_as_often_as_they_are_set_aside() -> None:
    reserve = Reserve.of((POISSON + dp.Gaussian(10.0) * 40 + dp.Laplace(3.0)).parts())
    left, beyond = reserve.without((POISSON.stopped_after(700) + dp.Gaussian(5.0) * 9).parts())
    assert beyond == ()
    assert sum(left.runs.values()) == 300 + 1
    assert left.squared_mu == reserve.squared_mu * 1 / 10
    _, beyond = left.without((POISSON.stopped_after(400) + dp.Laplace(3.0) * 2).parts())
    assert sorted(times for _, times in beyond) == [1, 100]
    for other in (
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1), noise_multiplier=0.99),
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.011, steps=1), noise_multiplier=1.0),
        dp.Laplace(2.9),
        dp.Gaussian(1.5),
    ):
        assert not reserve.covers(other)


def test_a_run_in_epochs_may_end_early_but_not_begin_again() -> None:
    run = dp.DPSGD(EPOCHS, noise_multiplier=2.0)
    reserve = Reserve.of(run.parts())
    left, beyond = reserve.without(run.stopped_after(15).parts())
    assert beyond == ()
    assert not left.covers(run.stopped_after(15))  # its epochs would be shuffled anew
    longer = dp.DPSGD(
        dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=5), noise_multiplier=2.0
    )
    assert not reserve.covers(longer)
    assert not reserve.covers(dp.LastIterate(EPOCHS, noise_multiplier=2.0))


def test_units_with_several_records_are_another_plan() -> None:
    budget = dp.Budget(epsilon=6.0, delta=1e-6, expected=dp.Laplace(5.0) * 2, group_size=3)
    budget.spend(dp.Laplace(5.0))
    assert budget.remaining() > 0.5
    with pytest.raises(dp.BudgetExceeded):
        dp.Budget(epsilon=1.21, delta=1e-6, expected=dp.Laplace(5.0) * 2, group_size=3).spend(
            dp.Laplace(5.0), group_size=4
        )


# --- what a budget admits ---


@pytest.mark.parametrize(
    ("run", "truth", "several"), [(POISSON, 2.13, 2.8), (MNIST, 5.47, 6.6), (SPARSE, 3.15, 4.5)]
)
def test_what_is_expected_costs_what_it_costs(
    run: dp.Mechanism, truth: float, several: float, tmp_path: Path
) -> None:
    """Truths of another accountant: at most 5 % more is asked for; before it was up to 114 % more."""
    ledger = dp.Ledger(tmp_path / "l.jsonl", epsilon=1.05 * truth, delta=1e-6, expected=run)
    ledger.add(run)
    assert ledger.total().upper == ledger.epsilon
    assert ledger.would_exceed(run)
    assert dp.Ledger.verify(ledger.path) == ()
    assert dp.Ledger(ledger.path, expected=run).entries[0].exceeded is False
    budget = dp.Budget(epsilon=1.05 * truth, delta=1e-6, expected=run)
    budget.spend(run)
    dp.Budget(epsilon=several, delta=1e-6).spend(run)  # without a word about what is expected


def test_runs_that_are_expected_may_be_divided_and_others_run_beside_them(tmp_path: Path) -> None:
    plan = POISSON + dp.Gaussian(20.0) * 4
    ledger = dp.Ledger(tmp_path / "l.jsonl", epsilon=3.0, delta=1e-6, expected=plan)
    for release in (POISSON.stopped_after(300), dp.Gaussian(10.0), POISSON.stopped_after(700)):
        assert ledger.add(release).cost == (0.0,)
    beside = ledger.add(dp.Gaussian(30.0))
    assert beside.cost is not None
    assert beside.cost[0] > 0.0
    assert dp.Ledger.verify(ledger.path) == ()
    # each cohort has all of it to itself
    apart = dp.Ledger(tmp_path / "m.jsonl", epsilon=2.2, delta=1e-6, expected=POISSON)
    apart.add(POISSON, cohort="north")
    apart.add(POISSON, cohort="south")
    assert apart.would_exceed(POISSON.stopped_after(500))
    assert dp.Ledger.verify(apart.path) == ()


def test_what_is_expected_must_fit_and_stays_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    with pytest.raises(dp.InvalidArgument, match=r"expected must fit the budget of epsilon=2"):
        dp.Ledger(path, epsilon=2.0, delta=1e-6, expected=POISSON)
    assert not path.exists()
    dp.Ledger(path, epsilon=3.0, delta=1e-6, expected=POISSON)
    with pytest.raises(dp.InvalidArgument, match="expected must be that of the ledger"):
        dp.Ledger(path, expected=MNIST)
    for said in ({"choice": "fixed"}, {"filter_kind": "zcdp"}):
        with pytest.raises(dp.InvalidArgument, match="expected must be"):
            dp.Budget(epsilon=3.0, delta=1e-6, expected=POISSON, **said)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match="expected must be left out"):
        dp.Ledger(tmp_path / "b", epsilon=3.0, delta=1e-6, expected=POISSON, choice="fixed")
    with pytest.raises(dp.Unsupported, match="Begin another ledger with adjacency replace-one"):
        dp.Ledger(path).add(SURVEY)


# --- copies, words, files ---


def test_a_budget_can_be_pickled_and_copied_and_says_so() -> None:
    budget = dp.Budget(epsilon=2.0, delta=1e-6)
    budget.spend(dp.Gaussian(20.0))
    for copied in (copy.deepcopy(budget), copy.copy(budget), pickle.loads(pickle.dumps(budget))):
        assert copied.is_copy
        assert "a copy that counts by itself" in repr(copied)
        copied.spend(dp.Gaussian(10.0))
        assert copied.remaining() < budget.remaining()
        assert (len(budget.mechanisms), len(copied.mechanisms)) == (1, 2)
    assert not budget.is_copy


def test_fixed_is_one_word_and_the_former_one_is_understood(tmp_path: Path) -> None:
    for number, word in enumerate(("fixed", "fixed in advance")):
        ledger = dp.Ledger(tmp_path / f"{number}", epsilon=3.0, delta=1e-6, choice=word)
        assert ledger.choice == dp.Budget(epsilon=3.0, delta=1e-6, choice=word).choice == "fixed"
        assert dp.Ledger(ledger.path, choice="fixed").choice == "fixed"


def test_a_file_is_asked_about_if_its_plan_is_in_the_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = dp.account(dp.Gaussian(20.0))
    for kind in ("json", "html"):
        (tmp_path / f"a.{kind}").write_text(answer.report(kind, delta=1e-7))
    path = tmp_path / "l.jsonl"
    assert main(["ledger", "init", str(path), "--epsilon", "3", "--delta", "1e-6"]) == 0
    assert main(["ledger", "add", str(path), str(tmp_path / "a.json")]) == 0
    said = capsys.readouterr().out
    assert "guarantee 3 (the budget); " in said
    assert "<= epsilon <= 3" not in said
    for kind in ("json", "html"):
        assert main(["ledger", "add", str(path), str(tmp_path / f"a.{kind}")]) == 2
        assert "The same release again, or a second run?" in capsys.readouterr().err
    assert len(dp.Ledger(path).entries) == 1
    assert main(["ledger", "add", str(path), str(tmp_path / "a.html"), "--again"]) == 0
    dp.Ledger(path).add(dp.Gaussian(20.0))  # a program says what it adds
    assert len(dp.Ledger(path).entries) == 3
    # the page counts each file, says what they come to once, and takes the delta of the reports
    dropped = [
        {"name": f"a.{kind}", "text": (tmp_path / f"a.{kind}").read_text()}
        for kind in ("json", "html")
    ]
    *_, last = reports({"reports": dropped})
    total = last["total"]
    assert total["alike"] == [["a.json", "a.html"]]
    assert total["delta"] == total["smallest"] == 1e-7
    one, two = (float(dp.account(dp.Gaussian(20.0) * n).epsilon(delta=1e-7).upper) for n in (1, 2))
    assert total["once"]["upper"] == pytest.approx(one, rel=1e-6)
    assert total["epsilon"]["upper"] == pytest.approx(two, rel=1e-6)


def test_a_report_that_is_not_counted_has_a_verdict() -> None:
    answer = dp.account(dp.Gaussian(20.0))
    text = answer.report("json", delta=1e-5)
    forged = text.replace(repr(float(answer.epsilon(delta=1e-5).upper)), "0.1")
    fields = {"delta": 1e-5, "reports": [{"name": "f.json", "text": forged}]}
    (made,) = page_ledger({**fields, "budget": 3.0})
    assert made["made"]["lines"] == []
    assert [(one["name"], one["verdict"]) for one in made["refused"]] == [
        ("f.json", "contradicted")
    ]


def test_appending_does_not_read_the_chain_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = dp.Ledger(tmp_path / "l.jsonl", epsilon=3.0, delta=1e-6)
    ledger.add(dp.Gaussian(50.0))
    read: list[int] = []
    content = HashChain._content
    monkeypatch.setattr(HashChain, "_content", lambda self: read.append(1) or content(self))
    for _ in range(5):
        ledger.add(dp.Gaussian(50.0))
    assert read == []
    other = dp.Ledger(ledger.path)
    other.add(dp.Gaussian(50.0))
    assert len(ledger.entries) == 7  # what others append is read
    assert len(read) == 2
    assert dp.Ledger.verify(ledger.path) == ()


def test_a_ledger_that_was_deleted_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    dp.Ledger(path, epsilon=3.0, delta=1e-6).add(dp.Gaussian(50.0))
    path.unlink()
    for _ in range(2):
        with pytest.raises(
            dp.InvalidArgument, match=r"deleted; if on purpose, delete l\.jsonl\.head"
        ):
            dp.Ledger(path, epsilon=3.0, delta=1e-6)
        assert not path.exists()
    path.with_name("l.jsonl.head").unlink()
    assert dp.Ledger(path, epsilon=3.0, delta=1e-6).entries == ()
