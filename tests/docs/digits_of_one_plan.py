"""Every number of one plan on every surface: python -m tests.docs.digits_of_one_plan.

The plan is the run of the README, over shuffled, Poisson and balls-and-bins batches. A surface is what
a person or a program reads: the API, the command line, the local page, reports, a ledger, the table of
the demo, pages of the documentation, alternative texts and the words in pictures.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sharpdp as dp
from sharpdp.cli import main
from sharpdp.display.outward_digits import FEW, ROUND_CEILING, ROUND_FLOOR, in_digits
from sharpdp.explore import training_view
from sharpdp.questions.compare_samplers import padded_size
from tests.docs.pages import ROOT

DELTA, NOISE = 1e-5, 0.8
SIZES = {"dataset_size": 60_000, "batch_size": 512, "epochs": 30}
SCHEMES: dict[str, dp.batches.BatchScheme] = {
    "shuffled": dp.ShuffledBatches(**SIZES),
    "Poisson": dp.PoissonBatches(**SIZES),
    "balls-and-bins": dp.BallsAndBins(**SIZES),
}
LOADER = "DataLoader(data, batch_size=512, shuffle=True)"
TEXTS = (
    *(
        "README.md",
        "docs/index.md",
        "docs/topics/samplers.md",
        "docs/how-to/which-batches.md",
        "docs/faq.md",
    ),
    *("docs/terminal.svg", "docs/tutorials/landing-samplers.svg"),
    "docs/tutorials/shuffled-versus-claimed.png",
)
"""Files that show numbers of these runs, among others."""

NEAR = 1.75e-3
"""What differs from an end by no more than this share is meant to be that end."""

Found = tuple[str, str, str]
"""Surface, scheme, and a number as it is shown."""


def account(name: str) -> dp.Guarantee:
    """The answer for one scheme."""
    run = dp.DPSGD(SCHEMES[name], noise_multiplier=NOISE)
    return dp.account(run, adjacency="zero-out")


def allowed() -> dict[str, tuple[str, str]]:
    """By scheme both ends as they are to be shown."""
    return {name: account(name).epsilon(delta=DELTA).printed for name in SCHEMES}


def shown() -> Iterator[Found]:
    """Every number on every surface that is asked now."""
    for name in SCHEMES:
        answer = account(name)
        epsilon = answer.epsilon(delta=DELTA)
        yield from _ends("print(bracket)", name, str(epsilon))
        yield from _ends("f'{bracket:g}'", name, f"{epsilon:g}")
        yield from _ends("bracket.shown()", name, epsilon.shown())
        yield from _documents(name, answer)
        yield from _command_line(name)
        yield from _ledger(name, answer)
    sizes = {**SIZES, "noise_multiplier": NOISE, "delta": DELTA}
    table = dp.compare_samplers(**sizes)
    for name in SCHEMES:
        row = re.search(rf"^ +{name} {{2,}}(\S+(?: to \S+)?) ", str(table), re.MULTILINE)
        assert row is not None
        yield from _ends("compare_samplers, demo", name, row[1])
    fields = {**sizes, "loader": LOADER}
    parts = [*training_view.loader(fields), *training_view.schemes(fields)]
    for row in (part["row"] for part in parts if "row" in part):
        name = "shuffled" if row["name"] == training_view.YOURS else row["name"]
        if name in SCHEMES:
            for key in ("shown", "least", "most"):
                yield from _ends(f"local page, {key}", name, row[key])
    (said,) = (part["suggestions"] for part in parts if "suggestions" in part)
    numbers = re.findall(r"at most (\S+) at delta=1e-05, not (\S+)\.", said[0])
    yield "local page, suggestion", "balls-and-bins", numbers[0][0]
    yield "local page, suggestion", "shuffled", numbers[0][1]


def written() -> Iterator[Found]:
    """Numbers of these runs in files: what is next to one of their ends, and not about other batches."""
    ends = {name: tuple(map(float, both)) for name, both in allowed().items()}
    kept = padded_size(dataset_size=60_000, batch_size=512, steps=3540, delta=DELTA)
    truncated = dp.TruncatedPoissonBatches(**SIZES, physical_batch_size=kept)
    other = dp.account(dp.DPSGD(truncated, noise_multiplier=NOISE), adjacency="zero-out")
    others = other.epsilon(delta=DELTA).printed
    for path in TEXTS:
        content = (ROOT / path).read_bytes().decode("utf-8", errors="ignore")
        content = html.unescape(content)
        if path.endswith(".png"):
            content = content.partition("Description\0")[2].partition("; DP-SGD")[0]
        if path.endswith(".svg"):
            content = "\n".join(re.findall(r">([^<>]+)</(?:text|tspan)>", content))
        content = re.sub(r"^.*(truncated|buffer|last dropped).*$", "", content, flags=re.MULTILINE)
        for number in re.findall(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)", content):
            for name, both in ends.items():
                near = any(abs(float(number) - end) <= NEAR * end for end in both)
                if near and number not in others:
                    yield path, name, number


def agrees(number: str, ends: tuple[str, str], *, shorter: bool) -> bool:
    """Whether it is one of the ends; in prose also one of them in three digits, rounded outwards."""
    low, high = map(float, ends)
    few = (in_digits(low, ROUND_FLOOR, FEW), in_digits(high, ROUND_CEILING, FEW))
    return number in ends or (shorter and number in few)


def differing() -> list[Found]:
    """All numbers that are not what the API prints."""
    ends = allowed()
    asked = [one for one in shown() if not agrees(one[2], ends[one[1]], shorter=False)]
    return asked + [one for one in written() if not agrees(one[2], ends[one[1]], shorter=True)]


def _ends(surface: str, name: str, text: str) -> Iterator[Found]:
    found = re.findall(r"(?<![\w.-])\d+\.\d+", text.partition(" at delta")[0])
    assert found, (surface, text)
    yield from ((surface, name, number) for number in found)


def _documents(name: str, answer: dp.Guarantee) -> Iterator[Found]:
    data = json.loads(answer.report("json", delta=DELTA))["epsilon"][0]
    yield "report, JSON", name, in_digits(data["lower"], ROUND_FLOOR)
    yield "report, JSON", name, in_digits(data["upper"], ROUND_CEILING)
    for kind in ("text", "markdown", "html"):
        text = re.sub(r"\s+", " ", html.unescape(answer.report(kind, delta=DELTA)))
        for pattern in (
            r"([\d.]+) (?:<=|≤) epsilon (?:<=|≤) ([\d.]+) at delta=1e-05",
            r"To be quoted as \((\S+), 1e-05\)-DP",
            r"ε ≤ ([\d.]+)",
        ):
            for match in re.finditer(pattern, text):
                yield from ((f"report, {kind}", name, number) for number in match.groups())
    card = answer.report("model-card", delta=DELTA)
    for number in re.findall(r"^  epsilon(?:_lower)?: (\S+)$", card, re.MULTILINE):
        yield "model card", name, number


def _command_line(name: str) -> Iterator[Found]:
    words = f"dpsgd --batches {name.lower()} --noise-multiplier {NOISE} --delta {DELTA}"
    words += " --adjacency zero-out"
    words += "".join(f" --{key.replace('_', '-')} {value}" for key, value in SIZES.items())
    yield from _ends("command line", name, _said(words))
    data = json.loads(_said(f"{words} --json"))
    entry = data[0] if isinstance(data, list) else data
    entry = entry["answers"][0] if "answers" in entry else entry
    yield "command line, JSON", name, in_digits(entry["lower"], ROUND_FLOOR)
    yield "command line, JSON", name, in_digits(entry["upper"], ROUND_CEILING)


def _said(words: str) -> str:
    answer = io.StringIO()
    with contextlib.redirect_stdout(answer):
        assert main(words.split()) == 0
    return answer.getvalue()


def _ledger(name: str, answer: dp.Guarantee) -> Iterator[Found]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "budget.jsonl"
        kept = dp.Ledger(
            path, epsilon=100.0, delta=DELTA, choice="fixed in advance", adjacency="zero-out"
        )
        kept.add(answer.mechanism)
        yield from _ends("ledger", name, str(kept.total()))


def print_all() -> int:
    """One line per surface and scheme; the exit code is 1 if some number is another one."""
    lines: dict[tuple[str, str], list[str]] = {}
    for surface, name, number in (*shown(), *written()):
        lines.setdefault((name, surface), []).append(number)
    wrong = differing()
    for (name, surface), numbers in sorted(lines.items()):
        sys.stdout.write(f"{name:15} {surface:45} {' '.join(dict.fromkeys(numbers))}\n")
    for surface, name, number in wrong:
        sys.stdout.write(f"DIFFERS: {number}, {name}, {surface}\n")
    sys.stdout.write(f"{sum(map(len, lines.values()))} numbers, {len(wrong)} differ\n")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(print_all())
