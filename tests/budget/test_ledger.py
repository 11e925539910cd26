"""Ledgers: what they claim, and that crashes, other processes and damage lose nothing unsaid."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.budget import Entry
from sharpdp.budget.ledger import Ledger
from sharpdp.cli import main
from sharpdp.plans import Plan
from sharpdp.storage.hash_chain import HashChain

NOISE = dp.Gaussian(noise_multiplier=20.0)
TRAINING = dp.DPSGD(
    dp.PoissonBatches(dataset_size=1000, batch_size=10, epochs=1), noise_multiplier=2.0
)
SURVEY = dp.ShuffledReports(users=1000, local_epsilon=1.0)


def begun(folder: Path, choice: str = "fixed in advance", epsilon: float = 3.0) -> Ledger:
    return dp.Ledger(folder / "budget.jsonl", epsilon=epsilon, delta=1e-6, choice=choice)


# --- what it claims ---


def test_fixed_releases_cost_what_their_composition_costs(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE * 3, note="three tables")
    ledger.add(dp.Laplace(scale=10.0))
    total, exact = (
        ledger.total(),
        dp.account(NOISE * 3 + dp.Laplace(scale=10.0)).epsilon(delta=1e-6),
    )
    assert (total.lower, total.upper) == (exact.lower, exact.upper)
    assert "2 releases fixed in advance" in total.context
    assert ledger.remaining().lower == pytest.approx(1 - exact.upper / 3.0)


def test_a_survey_and_a_training_run_are_added_up_for_the_neighbors_they_share(
    tmp_path: Path,
) -> None:
    ledger = begun(tmp_path)
    ledger.add(SURVEY)
    ledger.add(TRAINING)
    assert "replace-one" in ledger.total().context
    together = dp.account(SURVEY + TRAINING, adjacency="replace-one").epsilon(delta=1e-6)
    assert ledger.total().upper == pytest.approx(together.upper, rel=1e-9)


def test_cohorts_compose_in_parallel(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE, note="everybody")
    ledger.add(NOISE * 4, cohort="north")
    ledger.add(NOISE * 9, cohort="south")
    north, south = (ledger.total(cohort=name).upper for name in ("north", "south"))
    assert north == dp.account(NOISE * 5).epsilon(delta=1e-6).upper
    assert south == dp.account(NOISE * 10).epsilon(delta=1e-6).upper
    assert ledger.total().upper == max(north, south)
    with pytest.raises(dp.InvalidArgument, match="cohort must be one of the ledger; got 'nroth'"):
        ledger.total(cohort="nroth")


def test_people_with_many_records_cost_more(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE, group_size=4)
    assert ledger.total().upper == pytest.approx(
        dp.account(NOISE, group_size=4).epsilon(delta=1e-6).upper
    )
    ledger.add(NOISE)
    both = dp.account(dp.Gaussian(noise_multiplier=5.0) + NOISE).epsilon(delta=1e-6)
    assert ledger.total().upper == pytest.approx(both.upper, rel=1e-6)


def test_an_adaptive_ledger_claims_its_budget_and_stops_at_it(tmp_path: Path) -> None:
    ledger = begun(tmp_path, "adaptive", 1.0)
    times = ledger.affordable(NOISE)
    assert times > 5
    for _ in range(times):
        assert not ledger.would_exceed(NOISE)
        ledger.add(NOISE)
    assert ledger.would_exceed(NOISE)
    with pytest.raises(dp.BudgetExceeded, match="Nothing was counted"):
        ledger.add(NOISE)
    assert len(ledger.entries) == times
    total = ledger.total()
    composed = dp.account(NOISE * times).epsilon(delta=1e-6)
    assert (total.lower, total.upper) == (composed.lower, 1.0)
    assert composed.upper < 1.0 < ledger.odometer()
    # what was released all the same is counted, and the promise is void
    assert ledger.add(NOISE, despite_budget=True).exceeded
    assert ledger.total().upper == float("inf")


def test_the_budget_of_fixed_releases_is_exact(tmp_path: Path) -> None:
    ledger = begun(tmp_path, epsilon=1.0)
    times = ledger.affordable(NOISE)
    assert dp.account(NOISE * times).epsilon(delta=1e-6).upper <= 1.0
    assert dp.account(NOISE * (times + 1)).epsilon(delta=1e-6).lower > 1.0
    adaptive = dp.Ledger(tmp_path / "other.jsonl", epsilon=1.0, delta=1e-6)
    assert adaptive.choice == "adaptive"  # the safe one, unless told otherwise
    assert adaptive.affordable(NOISE) < times


def test_an_adaptive_ledger_goes_on_with_neighbors_that_all_releases_have(tmp_path: Path) -> None:
    ledger = begun(tmp_path, "adaptive")
    before = ledger.add(TRAINING).cost
    assert "zero-out" in ledger.total().context
    ledger.add(SURVEY)
    assert "replace-one" in ledger.total().context
    # what was counted before is counted for the new neighbors, for whom it costs more
    replaced = ledger.filter.costs(TRAINING, adjacency="replace-one")  # type: ignore[union-attr]
    assert before is not None
    assert all(new > old for new, old in zip(replaced, before, strict=True))
    both = [r + s for r, s in zip(replaced, ledger.entries[1].cost or (), strict=True)]
    limits = ledger.filter.limits  # type: ignore[union-attr]
    used = min(cost / limit for cost, limit in zip(both, limits, strict=True))
    assert 1.0 - float(ledger.remaining().lower) == pytest.approx(used, rel=1e-9)
    assert Ledger.verify(ledger.path) == ()
    # a release that fits by itself is refused if the others do not fit for its neighbors
    tight = dp.Ledger(tmp_path / "tight.jsonl", epsilon=2.8, delta=1e-6)
    tight.add(dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0))
    with pytest.raises(dp.BudgetExceeded, match="Nothing was counted"):
        tight.add(SURVEY)
    given = dp.Ledger(tmp_path / "z.jsonl", epsilon=9.0, delta=1e-6, adjacency="zero-out")
    with pytest.raises(dp.Unsupported, match="Begin another ledger with adjacency replace-one"):
        given.add(SURVEY)
    either = dp.Ledger(tmp_path / "b.jsonl", epsilon=9.0, delta=1e-6, adjacency="replace-one")
    either.add(TRAINING)
    either.add(SURVEY)
    assert "replace-one" in either.total().context


def test_spans_of_time_are_totaled(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    for month in (1, 2, 3):
        ledger.add(NOISE, time=f"2026-0{month}-15")
    assert ledger.total(since="2026-02-01").upper == dp.account(NOISE * 2).epsilon(delta=1e-6).upper
    assert ledger.total(since="2026-02-01", until="2026-03-01").upper == (
        dp.account(NOISE).epsilon(delta=1e-6).upper
    )
    # a date is its first second: the day itself is after it
    assert ledger.total(until="2026-01-15").upper == 0.0
    assert ledger.total(until="2026-01-15T00:00:01").upper > 0.0
    with pytest.raises(dp.InvalidArgument, match="time must be"):
        ledger.add(NOISE, time="yesterday")


def test_spans_of_time_do_not_depend_on_how_times_are_written(tmp_path: Path) -> None:
    ledger = begun(tmp_path, epsilon=20.0)
    noise = dp.Gaussian(noise_multiplier=1.0)
    for when in ("20260131", "2026-06-30T23:00:00-10:00", "2026-W20-1"):
        ledger.add(noise, time=when)
    three, one = (dp.account(noise * n).epsilon(delta=1e-6).upper for n in (3, 1))
    assert ledger.total(since="2026-01-01", until="2026-12-31").upper == three
    assert ledger.total(since="20260101", until="2026-W53-4").upper == three
    assert ledger.total(until="2026-03-01").upper == one
    # 23:00 on June 30 in Honolulu is July 1 in Greenwich
    assert ledger.total(since="2026-07-01").upper == one
    assert ledger.total(since="2026-07-01T02:00+02:00", until="2026-07-01T09:00:00.5Z").upper == one
    assert [entry.time for entry in ledger.entries] == [
        "2026-01-31T00:00:00Z",
        "2026-07-01T09:00:00Z",
        "2026-05-11T00:00:00Z",
    ]


def test_cohorts_have_one_notion_of_neighbors(tmp_path: Path) -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    alone = dp.account(run, adjacency="replace-one").epsilon(delta=1e-6)
    ledger = begun(tmp_path, epsilon=2.5)
    ledger.add(SURVEY, cohort="north")
    assert ledger.would_exceed(run, cohort="south")  # about 3.2 for the neighbors of the survey
    with pytest.raises(dp.BudgetExceeded):
        ledger.add(run, cohort="south")
    # the other way round, the survey makes the training run cost more than the budget allows
    ledger = dp.Ledger(tmp_path / "b.jsonl", epsilon=2.5, delta=1e-6, choice="fixed in advance")
    ledger.add(run, cohort="south")
    assert "add/remove" in ledger.total().context
    assert ledger.would_exceed(SURVEY, cohort="north")
    ledger.add(SURVEY, cohort="north", despite_budget=True)
    assert ledger.total().upper >= alone.lower
    assert ledger.total(cohort="south").upper >= alone.lower
    assert "replace-one" in ledger.total().context
    # and in every span of time, also one without the survey
    assert ledger.total(until="1999-01-01").upper == 0.0
    assert "replace-one" in ledger.total(cohort="south", since="1999-01-01").context


def test_a_cohort_that_has_no_theorem_for_the_notion_of_the_ledger_is_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "budget.jsonl"
    fixed = {"epsilon": 9.0, "delta": 1e-6, "choice": "fixed in advance"}
    ledger = dp.Ledger(path, **fixed, adjacency="zero-out")  # type: ignore[arg-type]
    ledger.add(TRAINING, cohort="north")
    with pytest.raises(dp.Unsupported, match="adjacency zero-out has no theorem"):
        ledger.add(SURVEY, cohort="south")
    assert ledger.cohorts == ("north",)


@pytest.mark.parametrize(
    "spelled", ["North", " north ", "north\u00a0", "\uff4eorth", "NORTH", "north\u3000"]
)
def test_spellings_of_one_cohort_share_its_budget(tmp_path: Path, spelled: str) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE, cohort="north")
    assert ledger.add(NOISE, cohort=spelled).cohort == "north"
    assert ledger.cohorts == ("north",)
    both = dp.account(NOISE * 2).epsilon(delta=1e-6).upper
    assert ledger.total().upper == ledger.total(cohort=spelled).upper == both
    assert dp.Ledger(ledger.path).total().upper == both


@pytest.mark.parametrize(
    "spelled", ["n\u043erth", "norht", "nort", "noorth", "n0rth", "n\u00f6rth"]
)
def test_a_cohort_that_looks_like_another_must_be_said_to_be_new(
    tmp_path: Path, spelled: str
) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE, cohort="north")
    for ask in (ledger.add, ledger.would_exceed, ledger.affordable):
        with pytest.raises(dp.InvalidArgument, match=r"new_cohort be True.*Did you mean north\?"):
            ask(NOISE, cohort=spelled)
    assert not ledger.would_exceed(NOISE, cohort=spelled, new_cohort=True)
    ledger.add(NOISE, cohort=spelled, new_cohort=True)
    ledger.add(NOISE, cohort=spelled)  # now it is known
    assert len(ledger.cohorts) == 2


def test_cohorts_that_were_declared_are_all_there_are(tmp_path: Path) -> None:
    path = tmp_path / "budget.jsonl"
    ledger = dp.Ledger(path, epsilon=3.0, delta=1e-6, cohorts=["wave 1", "wave 2"])
    ledger.add(NOISE, cohort="wave 1")
    ledger.add(NOISE, cohort="Wave 2")
    with pytest.raises(dp.InvalidArgument, match=r"one of the ledger \(wave 1, wave 2\)"):
        ledger.add(NOISE, cohort="everybody else")
    ledger.add(NOISE, cohort="everybody else", new_cohort=True)
    assert dp.Ledger(path).cohorts == ("wave 1", "wave 2", "everybody else")
    with pytest.raises(dp.InvalidArgument, match="cohorts must be that of the ledger"):
        dp.Ledger(path, cohorts=["wave 1"])
    for wrong in (["a", "A "], [], "north", [3]):
        with pytest.raises(dp.InvalidArgument, match="cohorts must be"):
            dp.Ledger(tmp_path / "new.jsonl", epsilon=1.0, delta=1e-6, cohorts=wrong)


def test_reports_are_verified_before_they_are_counted(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    report, plan = tmp_path / "report.json", tmp_path / "plan.json"
    report.write_text(dp.account(NOISE).report("json", delta=1e-6))
    plan.write_text(Plan(NOISE * 2, delta=1e-6).to_json())
    entry = ledger.add(report)
    assert entry.mechanism == NOISE
    assert entry.report_hash is not None
    assert ledger.add(str(plan)).mechanism == NOISE * 2
    text = report.read_text().replace('"noise_multiplier": 20.0', '"noise_multiplier": 30.0')
    assert text != report.read_text()
    report.write_text(text)
    with pytest.raises(dp.InvalidArgument, match="must be a report that is confirmed"):
        ledger.add(report)
    assert len(ledger.entries) == 2


def test_a_key_is_counted_once(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    first = ledger.add(NOISE, key="run 1")
    assert ledger.add(NOISE, key="run 1") == first
    assert len(ledger.entries) == 1
    with pytest.raises(dp.InvalidArgument, match="key must be new for another release"):
        ledger.add(NOISE * 2, key="run 1")


def test_a_key_is_that_of_one_run(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    first = ledger.add(NOISE, key="run 1", run=b"a" * 32)
    assert ledger.add(NOISE, key="run 1", run=b"a" * 32) == first
    for other in (b"b" * 32, b"a" * 32 + b"\0"):
        with pytest.raises(dp.InvalidArgument, match=r"Resume it, or choose another name\."):
            ledger.add(NOISE, key="run 1", run=other)
    with pytest.raises(dp.InvalidArgument, match="key must be new for another release"):
        ledger.add(NOISE, key="run 1")  # nothing says that it is this run
    with pytest.raises(dp.InvalidArgument, match=r"key must be 'run 1'.*got 'run 2'"):
        ledger.add(NOISE, key="run 2", run=b"a" * 32)
    with pytest.raises(dp.InvalidArgument, match=r"key must be 'run 1'.*got None"):
        ledger.add(NOISE, run=b"a" * 32)
    assert len(ledger.entries) == 1
    for short, why in ((b"a" * 15, "at least 16 bytes; got 15"), ("a" * 16, "run must be bytes")):
        with pytest.raises(dp.InvalidArgument, match=why):
            ledger.add(NOISE, run=short)  # type: ignore[arg-type]


def test_a_fingerprint_shows_neither_the_secret_nor_other_ledgers(tmp_path: Path) -> None:
    secret = bytes(range(32))
    one = begun(tmp_path)
    one.add(NOISE, run=secret)
    other = dp.Ledger(tmp_path / "other.jsonl", epsilon=2.0, delta=1e-6)
    other.add(NOISE, run=secret)
    fingerprints = {str(ledger.entries[0].run) for ledger in (one, other)}
    assert len(fingerprints) == 2
    plain = {getattr(hashlib, name)(secret).hexdigest() for name in ("sha256", "blake2s")}
    assert not fingerprints & plain
    assert secret.hex() not in one.path.read_text() + other.path.read_text()


def test_a_budget_does_not_change_after_it_was_begun(tmp_path: Path) -> None:
    begun(tmp_path)
    assert dp.Ledger(tmp_path / "budget.jsonl").epsilon == 3.0
    with pytest.raises(
        dp.InvalidArgument, match=r"epsilon must be that of the ledger .*3\.0; got 4\.0"
    ):
        dp.Ledger(tmp_path / "budget.jsonl", epsilon=4.0)
    with pytest.raises(dp.InvalidArgument, match="choice must be"):
        dp.Ledger(tmp_path / "new.jsonl", epsilon=1.0, delta=0.1, choice="both")
    with pytest.raises(dp.InvalidArgument, match="delta must be given for a new ledger"):
        dp.Ledger(tmp_path / "new.jsonl", epsilon=1.0)
    assert not (tmp_path / "new.jsonl").exists()
    other = tmp_path / "notes.txt"
    other.write_text("notes\n")
    with pytest.raises(dp.InvalidArgument, match="breaks at line 1: it is no record"):
        dp.Ledger(other)


# --- crashes, processes, damage ---


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """A process that works and writes to a pipe; its number, and the end to read."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    try:
        os.close(read)
        work(write)
        os._exit(0)
    except BaseException:
        os._exit(1)


def said(read: int) -> list[str]:
    with os.fdopen(read) as pipe:
        return [line for line in pipe.read().split("\n") if line]


def adder(path: Path, name: str, first: int, count: int) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        ledger = Ledger(path)
        for index in range(first, first + count):
            ledger.add(NOISE, key=f"{name}{index}")
            os.write(pipe, f"{name}{index}\n".encode())

    return work


def survives_kills(folder: Path, kills: int) -> int:
    """Kill a process that adds, again and again; how often it had added something. All must be there."""
    path = begun(folder, "adaptive", 1000.0).path
    rng = random.Random(5)
    told: list[str] = []
    unfinished = 0
    for kill in range(kills):
        child, read = forked(adder(path, f"{kill}/", 0, 10_000))
        time.sleep(rng.uniform(0.01, 0.12))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told += said(read)
        problems = Ledger.verify(path) if kill % 10 == 0 else ()
        assert all("unfinished" in problem for problem in problems)
        unfinished += len(problems)
    keys = [entry.key for entry in Ledger(path).entries]
    assert len(set(keys)) == len(keys)
    assert set(told) <= set(keys)
    # at most one of each process was kept and not yet told: its key says which
    assert len(keys) - len(told) <= kills
    return len(told)


def test_nothing_told_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    assert survives_kills(tmp_path, 20) > 0


@pytest.mark.slow
def test_nothing_told_is_lost_when_500_processes_are_killed(tmp_path: Path) -> None:
    assert survives_kills(tmp_path, 500) > 100


def test_processes_that_add_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    path = begun(tmp_path, "adaptive", 1000.0).path
    children = [forked(adder(path, name, 0, 25)) for name in "ab"]
    told = [said(read) for _, read in children]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in children] == [0, 0]
    assert [len(lines) for lines in told] == [25, 25]
    entries = Ledger(path).entries
    assert sorted(str(entry.key) for entry in entries) == sorted(told[0] + told[1])
    assert [entry.number for entry in entries] == list(range(1, 51))
    assert Ledger.verify(path) == ()


def test_an_open_ledger_sees_what_others_add(tmp_path: Path) -> None:
    one = begun(tmp_path)
    two = dp.Ledger(one.path)
    two.add(NOISE)
    one.add(NOISE * 2)
    assert [len(each.entries) for each in (one, two)] == [2, 2]
    assert one.head == two.head


def test_what_is_appended_while_others_read_does_not_look_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = begun(tmp_path)
    writer = dp.Ledger(ledger.path)
    read = HashChain._content

    def slowly(chain: HashChain) -> tuple[bytes, tuple[int, int]]:
        content = read(chain)
        if chain is ledger._chain and len(writer._entries) < 2:
            writer.add(NOISE)  # after the lines were read, before anything else is
        return content

    monkeypatch.setattr(HashChain, "_content", slowly)
    os.utime(ledger.path)  # a file that is as it was left is not read again
    assert [len(ledger.entries) for _ in range(3)] == [0, 1, 2]


def damaged(content: bytes, index: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[index] ^= 1 << bit
    return bytes(changed)


def test_every_flipped_bit_is_found_with_its_line(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    for index in range(4):
        ledger.add(NOISE * (index + 1), note=f"release {index}")
    ledger.checkpoint()
    content = ledger.path.read_bytes()
    rng = random.Random(1)
    for _ in range(300):
        place, bit = rng.randrange(len(content)), rng.randrange(8)
        ledger.path.write_bytes(damaged(content, place, bit))
        line = content[:place].count(b"\n") + 1
        problem = Ledger.verify(ledger.path)[0]
        numbers = (
            f"line {line}:",
            f"line {line + 1}:",
            f"line {line - 1}:",
        )  # an end of line moved
        assert problem.startswith(numbers)
        if "unfinished" not in problem:
            with pytest.raises(dp.InvalidArgument, match="breaks at line"):
                dp.Ledger(ledger.path)
    ledger.path.write_bytes(content)
    assert Ledger.verify(ledger.path) == ()


@pytest.mark.parametrize("change", ["removed", "last removed", "repeated", "exchanged"])
def test_lines_that_are_removed_repeated_or_exchanged_are_found(
    tmp_path: Path, change: str
) -> None:
    ledger = begun(tmp_path)
    for index in range(3):
        ledger.add(NOISE * (index + 1))
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    changed = {
        "removed": [*lines[:2], *lines[3:]],
        "last removed": lines[:3],
        "repeated": [*lines, lines[3]],
        "exchanged": [lines[0], lines[2], lines[1], lines[3]],
    }[change]
    ledger.path.write_bytes(b"".join(changed))
    (problem,) = Ledger.verify(ledger.path)
    place = {"removed": 3, "last removed": 4, "repeated": 5, "exchanged": 2}[change]
    assert problem.startswith(f"line {place}:")
    with pytest.raises(dp.InvalidArgument, match="breaks at line"):
        ledger.add(NOISE)


def test_an_unfinished_line_is_said_and_removed_by_the_next_release(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE)
    whole = ledger.path.read_bytes()
    head = ledger.path.with_name("budget.jsonl.head")
    before = head.read_bytes()
    ledger.add(NOISE * 2)
    longer = ledger.path.read_bytes()
    for cut in (len(whole) + 1, len(longer) - 2):
        ledger.path.write_bytes(longer[:cut])
        head.write_bytes(before)  # a kill comes before the head is written
        (problem,) = Ledger.verify(ledger.path)
        assert "line 3: the last line is unfinished" in problem
        again = dp.Ledger(ledger.path)
        assert len(again.entries) == 1
        again.add(NOISE * 5)
        assert Ledger.verify(ledger.path) == ()
        assert [entry.mechanism for entry in again.entries] == [NOISE, NOISE * 5]
    # all of it but its end of line: it counts
    ledger.path.write_bytes(longer[:-1])
    head.write_bytes(before)
    again = dp.Ledger(ledger.path)
    assert len(again.entries) == 2
    again.add(NOISE * 7)
    assert [entry.mechanism for entry in again.entries] == [NOISE, NOISE * 2, NOISE * 7]
    assert Ledger.verify(ledger.path) == ()


def test_a_full_disk_counts_nothing_and_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE)
    before = ledger.path.read_bytes()

    def work(pipe: int) -> None:
        own = Ledger(ledger.path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, resource.RLIM_INFINITY))
        try:
            own.add(NOISE * 2)
        except dp.InvalidArgument as refused:
            os.write(pipe, f"{refused}\n".encode())

    child, read = forked(work)
    (line,) = said(read)
    os.waitpid(child, 0)
    assert "path must be one that can be written" in line
    assert ledger.path.read_bytes() == before
    assert Ledger.verify(ledger.path) == ()
    ledger.add(NOISE * 2)
    assert len(ledger.entries) == 2


def test_a_checkpoint_that_is_too_small_is_found(tmp_path: Path) -> None:
    ledger = begun(tmp_path)
    ledger.add(NOISE)
    ledger.checkpoint()
    ledger.add(NOISE)
    assert Ledger.verify(ledger.path) == ()
    chain = HashChain(ledger.path)
    with chain.locked():
        chain.read()
        small = {"releases": 2, "time": "2026-01-31T00:00:00Z", "epsilon": [0.0, 0.01]}
        chain.append({"kind": "checkpoint", **small})
    (problem,) = Ledger.verify(ledger.path)
    assert problem.startswith("line 5: the checkpoint says 0 to 0.01")


# --- the command line ---


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["ledger", *words])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_the_command_keeps_a_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "budget.jsonl")
    budget = ("--epsilon", "1", "--delta", "1e-6", "--choice", "fixed")
    assert told(capsys, "init", path, *budget)[0] == 0
    assert told(capsys, "init", path, *budget)[0] == 2
    noise = "gaussian noise_multiplier=20"
    code, text = told(capsys, "add", path, noise, "--note", "one", "--cohort", "north")
    assert (code, text.count("counted: 1. ")) == (0, 1)
    assert told(capsys, "would-exceed", path, noise)[0] == 0
    code, text = told(capsys, "would-exceed", path, "gaussian noise_multiplier=1")
    assert (code, text.startswith("yes")) == (1, True)
    assert told(capsys, "add", path, "gaussian noise_multiplier=1")[0] == 1
    code, text = told(capsys, "total", path, "--checkpoint")
    assert (code, "cohort north" in text) == (0, True)
    code, text = told(capsys, "show", path, "--json")
    assert (code, '"note": "one"' in text) == (0, True)
    assert told(capsys, "verify", path)[0] == 0
    content = Path(path).read_bytes()
    Path(path).write_bytes(damaged(content, len(content) // 2, 0))
    code, text = told(capsys, "verify", path)
    assert (code, "NOT CONFIRMED  line" in text) == (1, True)
    assert "only a head that was kept elsewhere proves" not in text
    Path(path).write_bytes(content)
    assert "only a head that was kept elsewhere proves" in told(capsys, "verify", path)[1]
    code, text = told(capsys, "add", path, noise, "--cohort", "norht")
    assert (code, "Did you mean north?" in text) == (2, True)
    assert told(capsys, "would-exceed", path, noise, "--cohort", "norht")[0] == 2
    assert told(capsys, "would-exceed", path, noise, "--cohort", "norht", "--new-cohort")[0] == 0
    assert told(capsys, "add", path, noise, "--cohort", "norht", "--new-cohort")[0] == 0
    code, text = told(capsys, "totl", path)
    assert (code, "Did you mean total?" in text) == (2, True)
    assert told(capsys, "total", str(tmp_path / "none.jsonl"))[0] == 2


def test_the_command_declares_cohorts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "budget.jsonl")
    words = ("--epsilon", "1", "--delta", "1e-6", "--cohorts", "north", "far south")
    assert told(capsys, "init", path, *words)[0] == 0
    assert dp.Ledger(path).cohorts == ("north", "far south")
    noise = "gaussian noise_multiplier=20"
    assert told(capsys, "add", path, noise, "--cohort", "Far South")[0] == 0
    assert told(capsys, "add", path, noise, "--cohort", "elsewhere")[0] == 2


def test_an_entry_says_what_it_is(tmp_path: Path) -> None:
    entry = begun(tmp_path).add(NOISE, note="a table", cohort="north", time="2026-01-31")
    assert isinstance(entry, Entry)
    assert entry.describe() == (
        "1. 2026-01-31T00:00:00Z Gaussian noise (noise multiplier 20) (a table), cohort north"
    )


@pytest.mark.parametrize("choice", ["fixed", "adaptive"])
def test_everybody_is_in_a_release_without_a_cohort_whenever_it_comes(
    tmp_path: Path, choice: str
) -> None:
    ledger = begun(tmp_path, choice)
    for cohort in ("north", None, "south", None):
        ledger.add(NOISE, cohort=cohort)
    three = dp.account(NOISE * 3).epsilon(delta=1e-6)
    for cohort in ("north", "south"):
        assert ledger.total(cohort=cohort).lower == pytest.approx(three.lower, rel=1e-6)
    alone = dp.Ledger(tmp_path / "alone.jsonl", epsilon=3.0, delta=1e-6, choice=choice)
    alone.add(NOISE * 3)
    assert float(ledger.remaining().lower) == pytest.approx(
        float(alone.remaining().lower), rel=1e-6
    )
