"""The training view edited while it answers, sampled in a real browser: `python -m tests.explore.watch_edits`.

Every sample is compared with what the functions behind the page say of each question that was asked: its
bars, sentences and code must all be of one question, and if that is not the question in the fields, the
answer must be dimmed and nothing may be saved or copied.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

from sharpdp.explore import ExploreServer
from sharpdp.explore.training_view import loader, schemes, slow_schemes
from sharpdp.explore.workers import Pool
from tests.explore.test_page import CHROMIUM, FLAGS, SECONDS

Question = tuple[tuple[str, Any], ...]
"""The fields of a question and their values."""

LINE = "DataLoader(data, batch_size=512, shuffle=True)"
FIRST: dict[str, Any] = {
    "noise_multiplier": 0.8, "dataset_size": 60_000, "batch_size": 512, "epochs": 30, "delta": 1e-5,
}  # fmt: skip
"""What the page starts with."""

EDITS: tuple[dict[str, Any], ...] = (
    {"dataset_size": 2200, "epochs": 1},
    {"noise_multiplier": 2},
    {"delta": 1e-7, "epochs": 3},
    {"dataset_size": 5000, "noise_multiplier": 0.6},
    {"epochs": 2, "delta": 1e-6},
)
"""One round each: the page is loaded, and these fields are edited within half a second."""

SEEN = """() => {
  const all = (where, of = (node) => node.textContent.trim()) => [...document.querySelectorAll(where)].map(of);
  return {
    fields: Object.fromEntries(all("#fields input[type=text]", (node) => [node.id.slice(6), node.value])),
    dimmed: !!document.querySelector("#answer.stale, #answer .stale"),
    bars: all("#answer svg g", (bar) => [...bar.querySelectorAll("text")].map((text) => text.textContent)),
    rows: all("#answer tbody tr", (row) => [...row.querySelectorAll("td")].slice(0, 2).map((cell) => cell.textContent)),
    words: all("#answer .claim, #answer .card:first-child:has(.claim) > .note"),
    code: all("#answer pre"),
    saves: all("#answer button:enabled").filter((label) => /^(Save|Copy|Report|BibTeX)/.test(label)),
  };
}"""


@cache
def answer(question: Question) -> dict[str, list[Any]]:
    """Everything that may be shown for one question."""
    fields = {**dict(question), "loader": LINE}
    said = [part for ask in (loader, schemes, slow_schemes) for part in ask(fields)]
    rows = {part["row"]["name"]: part["row"] for part in said if "row" in part}
    yours = rows["your loader"]
    rows |= {part["same"]: yours for part in said if "same" in part}
    note = yours["note"][0].upper() + yours["note"][1:]
    delta = f"{fields['delta']:e}".replace(".000000", "").replace("e-0", "e-")
    words = [
        f"ε ≤ {yours['most']} at δ = {delta}, zero-out, {yours['rigor']}. {note}.",
        f"Accounted as Poisson batches, this run would claim ε = {rows['Poisson']['most']}; "
        f"the true ε is at least {yours['least']}.",
        *(part["why"] for part in said if "why" in part),
        *(words for part in said for words in part.get("suggestions", ())),
    ]
    return {
        "bars": [[name, row.get("shown", "not covered by a theorem")] for name, row in rows.items()],
        "rows": [[name, row.get("shown", "-")] for name, row in rows.items()],
        "words": words,
        "code": [text.strip() for row in rows.values() for text in row.get("snippets", {}).values()],
    }  # fmt: skip


def is_of(seen: Mapping[str, Any], question: Question) -> bool:
    """Whether everything that is seen belongs to the answer of one question."""
    told = answer(question)
    return all(entry in told[kind] for kind in told for entry in seen[kind])


def asked(fields: Mapping[str, str]) -> Question:
    """The question that stands in the fields."""
    return tuple((name, type(first)(float(fields[name]))) for name, first in FIRST.items())


def samples(page: Page, address: str, edits: Mapping[str, Any], count: int) -> Iterator[Any]:
    """Load the page, edit fields while it answers, and look at it four times a second."""
    page.goto("about:blank")
    page.goto(f"{address}#training?{urlencode({'loader': LINE})}")
    page.locator("#answer svg").first.wait_for(timeout=SECONDS)
    for name, value in edits.items():
        page.locator(f"#field-{name}").fill(str(value))
    for _ in range(count):
        yield page.evaluate(SEEN)
        time.sleep(0.25)


def watch(server: ExploreServer, count: int) -> list[Any]:
    """Samples of all rounds."""
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_context(reduced_motion="reduce").new_page()
        page.goto(server.address)
        page.get_by_text("answered in").wait_for(timeout=SECONDS)
        each = -(-count // len(EDITS))
        found = [seen for edits in EDITS for seen in samples(page, server.address, edits, each)]
        browser.close()
    return found


def faults(seen: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with one sample."""
    now, first = asked(seen["fields"]), tuple(FIRST.items())
    if is_of(seen, now):
        return
    if not is_of(seen, first):
        yield "of two questions"
    if all(set(seen["words"]) - set(answer(each)["words"]) for each in (now, first)):
        yield "false sentences"
    if not seen["dimmed"]:
        yield "old but not dimmed"
    if seen["saves"]:
        yield "old and can be saved"


def main() -> None:
    """Print how many samples show what; the exit code is 1 if something is wrong with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    count = parser.parse_args().samples
    # one process: the questions of an answer wait for each other, as on a busy machine
    with ExploreServer(0, Pool(1)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = watch(server, count)
        server.shutdown()
    wrong = Counter(fault for seen in found for fault in faults(seen))
    print(f"{len(found)} samples, {sum(bool(seen['bars']) for seen in found)} with an answer")
    for fault in ("of two questions", "false sentences", "old but not dimmed", "old and can be saved"):
        print(f"{wrong[fault]:4d} {fault}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
