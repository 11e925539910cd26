"""Ask wild questions and judge the answers: `python -m tests.wild.run --count 500 --seed 1 --out f`.

Every question becomes one line of JSON: kind, seed, index, question, CPU seconds, ends, width and
verdict. Given a file, the run goes on after the last whole case of the seed that is in it.
`--summary FILE ...` prints what the files say together; `--compare BEFORE AFTER` prints the answers that
differ between two files of the same seed, say of two commits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import sharpdp as dp
from tests.wild.kinds import Case, case
from tests.wild.questions import laws, questions

LIMIT = 20.0  # CPU seconds that no answer may take
ASKED = 1e-3
PATIENCE = 1.0  # CPU seconds after which a case is asked nothing more
BAD = ("VIOLATION", "exception", "warning", "slow")
Record = dict[str, Any]


class TooSlow(BaseException):
    """Stopped; no `except Exception` may swallow it."""


@contextmanager
def stopwatch(limit: float) -> Iterator[list[float]]:
    """CPU seconds of what is inside, which is stopped some time after the limit."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 1.25 * limit)
    taken, start = [0.0], time.process_time()
    try:
        yield taken
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
        taken[0] = time.process_time() - start


def attempted(record: Record, work: Callable[[], Any], limit: float = LIMIT) -> Any:
    """The result of a call of sharpdp; the verdict of the record if there is none."""
    result = None
    taken = [0.0]
    try:
        with warnings.catch_warnings(), stopwatch(limit) as taken:
            warnings.simplefilter("error")
            result = work()
    except TooSlow:
        record["verdict"] = "slow"
    except (dp.NotCertified, dp.Unsupported) as refusal:
        text = str(refusal)
        record |= {"verdict": "refused", "detail": text[:300]}
        if "defect" in text:
            record["verdict"] = "VIOLATION"
    except dp.InvalidArgument as refusal:
        # every argument here is one that the documentation allows, but for delta = 0
        known = record["question"] == "epsilon(delta=0.0)"
        record |= {"verdict": "refused" if known else "exception", "detail": str(refusal)[:300]}
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind = "warning" if isinstance(error, Warning) else "exception"
        where = f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno}"
        record |= {"verdict": kind, "detail": f"{type(error).__name__} {error} in {where}"[:300]}
    record["seconds"] = round(taken[0], 4)
    if taken[0] > limit:
        record["verdict"] = "slow"
    return result


def _shown(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def asked(one: Case, seed: int, index: int, patience: float = PATIENCE) -> Iterator[Record]:
    """The questions about one case, answered and judged, until they have taken long."""
    rng = np.random.default_rng([seed, index, 16])
    base = {"kind": one.kind, "parts": len(one.parts), "seed": seed, "index": index}
    answer = attempted(made := {**base, "question": "account"}, lambda: dp.account(one.mechanism))
    if answer is None:
        yield {**made, "case": str(one)}
        return
    spent = 0.0
    for question in questions(one, rng):
        if spent > patience:
            return
        record: Record = {**base, "question": str(question), "quantity": question.quantity}
        bracket = attempted(record, lambda: question.ask(answer))  # noqa: B023
        if bracket is not None:
            low, high = float(bracket.lower), float(bracket.upper)
            width = (high - low) / high if math.isfinite(high) and high > 0.0 else 0.0
            record |= {"lower": _shown(low), "upper": _shown(high), "width": float(f"{width:.3g}")}
            record["wide"] = "wider than asked" in str(bracket)
            start = time.process_time()
            try:
                with np.errstate(all="ignore"):
                    wrong = question.judge(bracket)
            except Exception as error:  # the run goes on; such answers are counted by themselves
                wrong = f"the reference failed: {type(error).__name__} {error}"
                record["verdict"] = "no reference"
            record["reference_seconds"] = round(time.process_time() - start, 4)
            record.setdefault("verdict", "VIOLATION" if wrong else "right")
            if wrong:
                record["detail"] = wrong
        spent += record["seconds"] + record.get("reference_seconds", 0.0)
        if record["verdict"] != "right":
            record["case"] = str(one)
        yield record
    for name, law in laws(one, answer, rng):
        if spent > patience:
            return
        record = {**base, "question": name, "quantity": "law"}
        wrong = attempted(record, law)
        record.setdefault("verdict", "VIOLATION" if wrong else "right")
        spent += record["seconds"]
        if wrong:
            record["detail"] = wrong
        if record["verdict"] != "right":
            record["case"] = str(one)
        yield record


def run(
    seed: int, first: int = 0, patience: float = PATIENCE, kinds: Sequence[str] = ("",)
) -> Iterator[Record]:
    """The records of all questions of a seed, case by case, without end; of kinds with these words."""
    for index in itertools.count(first):
        one = case(seed, index)
        if any(word in one.kind for word in kinds):
            yield from asked(one, seed, index, patience)


def read(path: Path) -> list[Record]:
    """The whole lines of a file."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]


def summary(records: list[Record]) -> str:
    """Counts by kind and verdict, the slowest and the widest."""
    if not records:
        return "no questions"
    verdicts = Counter(one["verdict"] for one in records)
    alone = Counter(one["kind"] for one in records if one["parts"] == 1)
    together = sum(one["parts"] > 1 for one in records)
    inside = Counter(
        kind for one in records if one["parts"] > 1 for kind in one["kind"].split(" + ")
    )
    seconds = np.array([one["seconds"] for one in records])
    lines = [
        f"{len(records)} questions about {len({(r['seed'], r['index']) for r in records})} cases",
        f"verdicts: {dict(verdicts)}",
        f"alone: {dict(sorted(alone.items()))}",
        f"sequences: {together} questions; kinds in them: {dict(sorted(inside.items()))}",
        f"quantities: {dict(Counter(r.get('quantity', 'account') for r in records))}",
        f"CPU seconds: p50 {np.median(seconds):.4f}, p95 {np.quantile(seconds, 0.95):.3f}, "
        f"p99 {np.quantile(seconds, 0.99):.3f}, max {seconds.max():.2f}, "
        f"sum {seconds.sum():.0f}; over {LIMIT:g}: {int(np.sum(seconds > LIMIT))}",
        f"wider than asked: {sum(one.get('wide', False) for one in records)}",
        f"commits: {dict(Counter(one.get('commit', '?') for one in records))}",
    ]
    for one in sorted(records, key=lambda r: -r["seconds"])[:8]:
        place = f"#{one['seed']}/{one['index']}"
        lines.append(f"slow {one['seconds']:.2f} s {place} {one['kind']} {one['question']}")
    widest = [one for one in records if one.get("wide")]
    for one in sorted(widest, key=lambda r: -r["width"])[:8]:
        ends = f"{one['lower']}..{one['upper']}"
        lines.append(
            f"wide {one['width']} #{one['seed']}/{one['index']} {one['kind']} {one['question']} {ends}"
        )
    for one in records:
        if one["verdict"] in BAD:
            lines.append(
                f"{one['verdict']} #{one['seed']}/{one['index']} {one.get('case')} "
                f"{one['question']}: {one.get('lower')}..{one.get('upper')} {one.get('detail', '')}"
            )
    refusals = Counter(r.get("detail", "")[:100] for r in records if r["verdict"] == "refused")
    lines += [f"refused {n}: {text}" for text, n in refusals.most_common(6)]
    return "\n".join(lines)


def comparison(before: list[Record], after: list[Record]) -> str:
    """Which answers are identical, which differ, and which of those are wider or exclude each other."""

    def answers(records: list[Record]) -> dict[tuple[Any, ...], Record]:
        asked = [record for record in records if record.get("quantity") != "law"]
        return {(record["seed"], record["index"], record["question"]): record for record in asked}

    first, second = answers(before), answers(after)
    counts: Counter[str] = Counter()
    lines = []
    for key in first.keys() & second.keys():
        old, new = first[key], second[key]
        ends = [old.get("lower"), old.get("upper")], [new.get("lower"), new.get("upper")]
        if old["verdict"] != new["verdict"]:
            kind = f"{old['verdict']} became {new['verdict']}"
        elif ends[0] == ends[1]:
            kind = "identical"
        elif None in (*ends[0], *ends[1]):
            kind = "answered by one of them"
        else:
            (old_low, old_high), (new_low, new_high) = ([float(x) for x in pair] for pair in ends)
            apart = 1e-9 * abs(old_high)
            grown = (new_high - new_low) - (old_high - old_low) > apart
            kind = "differs, wider" if grown else "differs, not wider"
            if new_low > old_high + apart or new_high < old_low - apart:
                kind = "EXCLUDES the answer before"
        counts[kind] += 1
        if kind != "identical":
            lines.append(f"{kind} {key} {old['kind']} {ends[0]} -> {ends[1]}")
    total = f"{sum(counts.values())} questions in both: {dict(counts)}"
    return "\n".join([*sorted(lines), total])


def head() -> str:
    """The commit that is asked."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="questions in the file at the end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--index", type=int, help="one case only")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--patience", type=float, default=PATIENCE, help="CPU seconds per case")
    parser.add_argument("--kind", nargs="+", default=[""], help="cases whose kind has such a word")
    parser.add_argument("--commit", help="written into every record")
    parser.add_argument("--summary", nargs="+", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    chosen = parser.parse_args()
    if chosen.compare:
        sys.stdout.write(comparison(*(read(path) for path in chosen.compare)) + "\n")
        return
    if chosen.summary:
        records = [one for path in chosen.summary for one in read(path)]
        sys.stdout.write(summary(records) + "\n")
        return
    if chosen.index is not None:
        one = case(chosen.seed, chosen.index)
        sys.stdout.write(f"{one}\n")
        for record in asked(one, chosen.seed, chosen.index, math.inf):
            sys.stdout.write(json.dumps(record) + "\n")
        return
    records = read(chosen.out) if chosen.out else []
    mine = [one["index"] for one in records if one["seed"] == chosen.seed]
    first = max(mine, default=-1) + 1
    commit = chosen.commit or head()
    out = chosen.out.open("a") if chosen.out else None
    for record in run(chosen.seed, first, chosen.patience, chosen.kind):
        record["commit"] = commit
        if record["index"] > first and len(records) >= chosen.count:
            break
        first = max(first, record["index"])
        records.append(record)
        if record["verdict"] in BAD:
            sys.stdout.write(f"{json.dumps(record)}\n")
            sys.stdout.flush()
        if out:
            out.write(json.dumps(record) + "\n")
            out.flush()
    sys.stdout.write(summary(records) + "\n")


if __name__ == "__main__":
    main()
