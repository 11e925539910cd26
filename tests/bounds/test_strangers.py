"""Theorems that are registered from outside sharpdp are stated by their module, and never certified."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp import cli
from sharpdp.bounds import all_bounds, bound, bounds_for, registry, temporarily
from sharpdp.bounds.published import _REGISTERED as FORMULAS
from sharpdp.bounds.published import all_formulas, formula
from sharpdp.explore import curves_view
from sharpdp.pairs.finite import AtomicPair
from sharpdp.report import verify

ME = __name__
STATED = f"stated by {ME}"
RUN = dp.ShuffledReports(users=1000, local_epsilon=2.0, randomizer="individual")
TRUE_UPPER = 0.455
"""Between what sharpdp proves of RUN and what is attained, at delta 1e-5: 0.318 to 0.467."""


@bound(holds_when="one hopes so", source="me2026 Theorem 1", registered=False)
def hoped_for_upper(mechanism: dp.ShuffledReports, adjacency: dp.Adjacency):
    """Upper side that nobody has proved."""
    return ((AtomicPair.approximate(0.44, 1e-6), 1),)


@bound(holds_when="never", source="dong2022 Theorem 99", registered=False)
def too_small_upper(mechanism: dp.Laplace, adjacency: dp.Adjacency):
    """Upper side that is wrong."""
    return ((AtomicPair.pure(0.5 / mechanism.scale), 1),)


@bound(attained_when="never", source="dong2022", registered=False)
def too_large_lower(mechanism: dp.Laplace, adjacency: dp.Adjacency):
    """Lower side that is wrong."""
    return ((AtomicPair.pure(2.0 / mechanism.scale), 1),)


@pytest.fixture
def hoped() -> Iterator[None]:
    with temporarily(hoped_for_upper):
        yield


@pytest.mark.usefixtures("hoped")
def test_answers_say_who_states_them() -> None:
    answer = dp.account(RUN)
    epsilon = answer.epsilon(delta=1e-5)
    assert epsilon.upper < TRUE_UPPER
    assert epsilon.rigor is dp.Rigor.STATED
    assert str(epsilon).endswith(STATED)
    assert STATED in repr(epsilon)
    assert STATED in answer._repr_html_()
    assert STATED in str(dp.account(RUN, group_size=2).epsilon(delta=1e-5))
    assert STATED in str(dp.account(RUN + dp.Laplace(1000.0)).epsilon(delta=1e-5))
    swept = dp.sweep(lambda n: replace(RUN, users=n), n=[1000])
    assert STATED in str(swept.epsilon(delta=1e-5))
    assert answer.rigor is dp.Rigor.STATED
    assert STATED in str(dp.account(answer.tradeoff()).epsilon(delta=1e-5))


@pytest.mark.usefixtures("hoped")
def test_an_answer_that_does_not_rest_on_it_is_certified_as_before() -> None:
    delta = dp.account(RUN).delta(epsilon=0.1)
    assert delta.rigor is dp.Rigor.UNREVIEWED
    assert delta.upper < 0.02  # the stranger's is 0.18
    assert dp.account(RUN).advantage().rigor is dp.Rigor.UNREVIEWED


@pytest.mark.usefixtures("hoped")
def test_tables_and_pages_name_the_module_and_the_unknown_source() -> None:
    table = dp.compare(RUN, delta=1e-5)
    row = table["hoped_for_upper"]
    assert row.rigor is dp.Rigor.STATED
    assert row.stated_by == ME
    assert row.source == f"{STATED}: unknown source me2026 Theorem 1"
    (line,) = [
        line
        for line in str(table).splitlines()
        if "upper" in line and " stated by" in line.partition("(")[0]
    ]
    assert "hoped_for_upper" in line
    assert "certified" not in line
    assert [record["rigor"] for record in table.records() if record["bound"] == row.name] == [
        STATED
    ]
    words = "shuffle users=1000 local_epsilon=2 randomizer=individual"
    (shown,) = curves_view.bounds({"run": words, "delta": 1e-5})
    entry = next(one for one in shown["bounds"] if one["name"] == row.name)
    assert entry["rigor"] == STATED
    (known,) = [one for one in bounds_for(RUN) if one.name == row.name]
    assert known.rigor_words == STATED
    assert "unknown source" in known.grounds


@pytest.mark.usefixtures("hoped")
def test_reports_make_no_claim_of_it() -> None:
    answer = dp.account(RUN)
    for form in ("text", "markdown", "html", "model-card"):
        words = " ".join(answer.report(form, delta=1e-5).split())
        assert "To be quoted as" not in words
        assert "Not to be quoted as a result of sharpdp" in words
        assert "Certified: if the conditions" not in words
    assert f'rigor: "{STATED}"' in answer.report("model-card", delta=1e-5)
    data = json.loads(answer.report("json", delta=1e-5))
    assert data["epsilon"][0]["rigor"] == "stated by others"
    entry = next(one for one in data["theorems"] if one["name"] == "hoped_for_upper")
    assert entry["rigor"] == STATED
    assert entry["source"].startswith(STATED)


def test_a_report_is_confirmed_only_where_the_theorem_is_known() -> None:
    with temporarily(hoped_for_upper):
        report = dp.account(RUN).report("json", delta=1e-5)
        assert str(verify(report).verdict) == "confirmed"
    assert str(verify(report).verdict) == "contradicted"


@pytest.mark.usefixtures("hoped")
def test_budgets_and_ledgers_count_without_it(tmp_path: Path) -> None:
    for choice in ("fixed in advance", "adaptive"):
        ledger = dp.Ledger(tmp_path / choice, epsilon=TRUE_UPPER, delta=1e-5, choice=choice)
        assert ledger.would_exceed(RUN)
    ledger = dp.Ledger(tmp_path / "large", epsilon=5.0, delta=1e-5, choice="fixed in advance")
    ledger.add(RUN)
    assert ledger.total().upper > TRUE_UPPER
    assert ledger.total().rigor is dp.Rigor.UNREVIEWED
    with pytest.raises(dp.errors.BudgetExceeded):
        dp.Budget(epsilon=TRUE_UPPER, delta=1e-5, choice="fixed in advance").spend(RUN)


def test_the_command_line_does_not_call_it_certified(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    named = {"name": "still_hoped_for_upper", "source": "me2026 Theorem 1", "holds_when": "so"}
    bound(**named)(hoped_for_upper)
    run = "--users 1000 --local-epsilon 2 --randomizer individual --delta 1e-5"
    assert cli.main(["shuffle", *run.split()]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert f"replace-one, gap between best known bounds, {STATED}" in words
    assert f"still_hoped_for_upper ({STATED}: unknown source me2026 Theorem 1)" in words
    assert cli.main(["bounds", "still_hoped_for_upper"]) == 0
    assert STATED in capsys.readouterr().out


def test_a_contradiction_names_the_stranger() -> None:
    for theorem, own in ((too_small_upper, "laplace_tight"), (too_large_lower, "laplace_tight")):
        with temporarily(theorem), pytest.raises(dp.Contradiction) as alarm:
            dp.account(dp.Laplace(1.0)).epsilon(delta=1e-5)
        words = str(alarm.value)
        assert f"{theorem.__name__} ({STATED})" in words
        assert own in words
        assert f"sharpdp has checked nothing that {ME} states" in words
        assert "defect of sharpdp" not in words


def test_nothing_leaks_out_of_the_block() -> None:
    before = dp.account(RUN).epsilon(delta=1e-5)
    with temporarily(hoped_for_upper):
        kept = dp.account(RUN)
        inside = kept.epsilon(delta=1e-5)
    assert hoped_for_upper.__name__ not in [one.name for one in all_bounds()]
    assert dp.account(RUN).epsilon(delta=1e-5) == before
    assert kept.epsilon(delta=1e-6).rigor is dp.Rigor.STATED
    assert inside.upper < before.upper
    with pytest.raises(RuntimeError), temporarily(hoped_for_upper):
        raise RuntimeError
    assert dp.account(RUN).epsilon(delta=1e-5) == before


def test_blocks_are_those_of_a_thread_and_of_a_task() -> None:
    def names() -> list[str]:
        return [one.name for one in bounds_for(RUN)]

    found: list[list[str]] = []
    with temporarily(hoped_for_upper):
        thread = threading.Thread(target=lambda: found.append(names()))
        thread.start()
        thread.join()
        assert "hoped_for_upper" in names()
    assert "hoped_for_upper" not in found[0]

    async def inside(ready: asyncio.Event, done: asyncio.Event) -> list[str]:
        with temporarily(hoped_for_upper):
            ready.set()
            await done.wait()
            return names()

    async def both() -> tuple[list[str], list[str]]:
        ready, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(inside(ready, done))
        await ready.wait()
        beside = names()
        done.set()
        return await task, beside

    here, beside = asyncio.run(both())
    assert "hoped_for_upper" in here
    assert "hoped_for_upper" not in beside


def test_theorems_of_ours_do_not_build_on_it() -> None:
    """What a theorem asks about its parts is not seen in its rigor, and may be kept for later calls."""
    tuned = dp.BestOf(dp.Laplace(1.25), "geometric", mean=3)
    mixed = dp.Mixture(
        components=[dp.Laplace(1.25), dp.Laplace(2.0)], weights=[0.5, 0.5], index="released"
    )
    with temporarily(too_small_upper):
        inside = [dp.account(run).epsilon(delta=1e-5) for run in (tuned, mixed)]
    assert inside == [dp.account(run).epsilon(delta=1e-5) for run in (tuned, mixed)]


def test_what_cannot_be_registered() -> None:
    def named_by_us_upper(mechanism: dp.Laplace, adjacency: dp.Adjacency):
        """A theorem."""
        return ()

    with pytest.raises(
        dp.InvalidArgument, match="proof must be left out for theorems from outside"
    ):
        bound(source="me2026", proof="groups")(named_by_us_upper)
    for wrong in (named_by_us_upper, 3, None):
        is_refused = pytest.raises(dp.InvalidArgument, match="theorems must be bounds that are not")
        with is_refused, temporarily(wrong):  # type: ignore[arg-type]
            pass
    bound(source="me2026", name="laplace_tight", registered=False)(named_by_us_upper)
    with (
        pytest.raises(dp.InvalidArgument, match="names of their own"),
        temporarily(named_by_us_upper),
    ):
        pass


def test_formulas_of_others_are_stated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharpdp.bounds.published._REGISTERED", dict(FORMULAS))

    @formula(source="me2026")
    def guessed_upper(mechanism: dp.Laplace, delta: float) -> float:
        """A guess."""
        return 0.1

    row = dp.compare(dp.Laplace(1.0), delta=1e-5)["guessed_upper"]
    assert row.rigor is dp.Rigor.STATED
    assert row.stated_by == ME
    assert all(one.rigor is not dp.Rigor.STATED for one in all_formulas() if one.name != row.name)


def test_every_theorem_of_ours_has_our_rigor() -> None:
    ours: list[Callable[..., object]] = [one.theorem for one in all_bounds()]
    assert ours
    assert all(one.rigor in (dp.Rigor.CERTIFIED, dp.Rigor.UNREVIEWED) for one in all_bounds())


@pytest.mark.usefixtures("hoped")
def test_narrower_answers_rest_on_the_same_theorems() -> None:
    """A ledger that asks again more narrowly still counts without what others state."""
    with registry.only_ours():
        ours = dp.account(RUN)
    again = ours.refined(1e-4).epsilon(delta=1e-5)
    assert again.rigor is dp.Rigor.UNREVIEWED
    assert again.upper > TRUE_UPPER
    assert dp.account(RUN).refined(1e-4).epsilon(delta=1e-5).upper < TRUE_UPPER
