"""The training view edited while it answers, 200 times looked at: `python -m tests.explore.watch_edits`.

Every sample is compared with what the functions behind the page say of each question that was asked: its
bars, sentences and code must all be of one question, and if that is not the question in the fields, the
answer must be dimmed and nothing may be saved or copied.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

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
    {"batch_size": 256},
)
"""Fields that are edited together, one set after the other."""

ROUNDS, SAMPLES = 4, 10
"""How often the page is loaded and edited in all these ways, and how often it is looked at after each."""

SEEN = """() => {
  const text = (node) => node.textContent.trim();
  const all = (where, of = text) => [...document.querySelectorAll(where)].map(of);
  const within = (node, where) => [...node.querySelectorAll(where)].map(text);
  return {
    fields: Object.fromEntries(all("#fields input[type=text]", (node) => [node.id.slice(6), node.value])),
    dimmed: !!document.querySelector("#answer.stale, #answer .stale"),
    bars: all("#answer svg g", (bar) => within(bar, "text")),
    rows: all("#answer tbody tr", (row) => within(row, "td").slice(0, 2)),
    words: all("#answer .claim, #answer .card:first-child:has(.claim) > .note"),
    code: all("#answer pre"),
    saves: all("#answer button:enabled").filter((label) => /^(Save|Copy|Report|BibTeX)/.test(label)),
  };
}"""


@cache
def answer(question: Question) -> dict[str, list[Any]]:
    """Everything that may be shown for one question."""
    fields = dict(question)
    fields["loader"] = LINE.replace("512", str(fields["batch_size"]))
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


def watch(server: ExploreServer) -> list[Any]:
    """Samples of a page whose fields are edited while it answers, four in a second."""
    from playwright.sync_api import sync_playwright  # this module is collected where it is missing

    found = []
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_context(reduced_motion="reduce").new_page()
        page.goto(server.address)
        page.get_by_text("answered in").wait_for(timeout=SECONDS)
        for number in range(ROUNDS):
            page.goto("about:blank")
            page.goto(f"{server.address}#training?{urlencode({'loader': LINE})}")
            page.locator("#answer svg").first.wait_for(timeout=SECONDS)
            for edits in EDITS:
                for name, value in edits.items():
                    # no question comes twice, since answers are kept
                    page.locator(f"#field-{name}").fill(f"{value * (1 + number):g}")
                for _ in range(SAMPLES):
                    found.append(page.evaluate(SEEN))
                    time.sleep(0.25)
        browser.close()
    return found


def faults(seen: Mapping[str, Any], before: Collection[Question]) -> dict[str, bool]:
    """What is wrong with one sample, which shows what stands in the fields or what was asked before."""
    now = asked(seen["fields"])
    is_old = not is_of(seen, now)
    return {
        "of two questions": is_old and not any(is_of(seen, question) for question in before),
        "false sentences": is_old
        and all(set(seen["words"]) - set(answer(each)["words"]) for each in (now, *before)),
        "old but not dimmed": is_old and not seen["dimmed"],
        "old and can be saved": is_old and bool(seen["saves"]),
    }


def main() -> None:
    """Write how many samples show what; the exit code is 1 if something is wrong with one."""
    # one process: the questions of an answer wait for each other, as on a busy machine
    with ExploreServer(0, Pool(1)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = watch(server)
        server.shutdown()
    before = dict.fromkeys([tuple(FIRST.items()), *(asked(seen["fields"]) for seen in found)])
    about = sum(bool(seen["bars"]) and is_of(seen, asked(seen["fields"])) for seen in found)
    wrong: Counter[str] = Counter()
    for seen in found:
        wrong.update(faults(seen, before))
    lines = [f"{len(found)} samples, {about} of them about what stands in the fields"]
    lines += [f"{count:4d} {fault}" for fault, count in wrong.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(any(wrong.values()))


if __name__ == "__main__":
    main()
