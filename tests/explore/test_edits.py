"""Fields edited while the page answers, in a real browser: whatever is shown belongs to one question.

The server is the real one, but the answers are made up: the words of a part repeat the fields that it was
asked with, so that each state of the page tells which questions it shows. Every state is looked at.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from sharpdp.explore import ExploreServer
from sharpdp.explore.workers import Gone, Message, Pool
from tests.explore.test_page import Visit, browser, pytestmark

__all__ = ["browser", "pytestmark"]  # used by pytest

PAUSE = 0.7
"""Seconds before each part of a slow answer; longer than the page waits for all parts."""

KINDS = {"Trade-off curve": "tradeoff", "Privacy profile": "profile", "Rényi divergence": "renyi"}


def told(fields: Mapping[str, Any]) -> str:
    """The fields of a question in words."""
    entries = {**fields, **fields.get("plan", {})}
    if "runs" in entries:
        entries["runs"] = "\n".join(entries["runs"])
    if "run" in entries:
        entries["runs"] = entries.pop("run")
    names = [name for name in entries if name not in ("plan", "largest", "reports", "bounds")]
    return " ".join(f"⟨{name}:{entries[name]}⟩" for name in names)


def bracket(words: str) -> dict[str, Any]:
    said = dict.fromkeys(("shown", "least", "most", "rigor", "note", "neighbors"), words)
    return {**said, "lower": 1.0, "upper": 2.0}


def row(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    words = told(fields)
    return {"name": name, **bracket(words), "snippets": {"python": words}, "plan": {}}


def point(fields: Mapping[str, Any], local_epsilon: float) -> dict[str, Any]:
    said = bracket(told(fields))
    more = {"error": 0.1, "users": fields["users"], "without_shuffler": said}
    return {**said, **more, "local_epsilon": local_epsilon}


def curve(fields: Mapping[str, Any]) -> dict[str, Any]:
    line = {"x": [0.1, 1.0], "lower": [0.5, 0.1], "upper": [0.6, 0.2], "index": 0, "runs": 1}
    return {**row(fields, ""), "label": told(fields), "epsilon": bracket(told(fields)), **line}


def bound(fields: Mapping[str, Any]) -> dict[str, Any]:
    said = dict.fromkeys(("title", "shown", "condition", "source"), told(fields))
    return {**said, "name": "it", "side": "upper", "kind": "upper", "value": 1.0, "reason": ""}


def report(fields: Mapping[str, Any]) -> dict[str, Any]:
    run, epsilon = told(fields), bracket(told(fields))
    return {"name": "", "verdict": "confirmed", "lines": [], "run": run, "epsilon": epsilon}


def total(fields: Mapping[str, Any]) -> dict[str, Any]:
    plan = {"plan": dict(fields), "delta": fields["delta"], "holds_when": []}
    return {**curve(fields), **plan}


def ledger(fields: Mapping[str, Any]) -> dict[str, Any]:
    said = {"epsilon": bracket(told(fields)), "lines": ["one"], "remaining": 0.5, "left": "50%"}
    return {"made": {**fields, **said}, "refused": [], "file": ""}


ANSWERS: dict[str, Callable[[Mapping[str, Any]], list[dict[str, Any]]]] = {
    "training-loader": lambda asked: [
        {"why": told(asked), "batch_size": asked["batch_size"]},
        {"row": row(asked, "your loader")},
        {"suggestions": [told(asked)]},
    ],
    "training-schemes": lambda asked: [
        {"row": row(asked, "Poisson")},
        {"row": row(asked, "fixed size")},
    ],
    "training-slow-schemes": lambda asked: [{"same": "shuffled"}, {"row": row(asked, "kept bins")}],
    "training-noise": lambda asked: [{"noise": {"name": "Poisson", "shown": told(asked)}}],
    "collection-design": lambda asked: [{"code": row(asked, "")}, {"chosen": point(asked, 4.0)}],
    "collection-picture": lambda asked: [{"point": point(asked, at)} for at in (2.0, 5.6)],
    "collection-limit": lambda asked: [{"limit": {"reason": told(asked)}}],
    "curves": lambda asked: [{"curve": curve(asked)}],
    "curves-bounds": lambda asked: [{"bounds": [bound(asked)]}],
    "curves-drawn": lambda _: [{"line": {"name": "upper it", "x": [0.1, 1.0], "y": [0.6, 0.3]}}],
    "officer-reports": lambda asked: [{"report": report(asked)}, {"total": total(asked)}],
    "officer-risk": lambda asked: [{"risk": [told(asked)], "assumptions": [told(asked)]}],
    "officer-ledger": lambda asked: [ledger(asked)],
}

AT_ONCE = ("training-schemes", "collection-design", "curves", "officer-reports")
"""The others take their time."""


class MadeUp(Pool):
    """Answers that say what they were asked."""

    def __init__(self) -> None:
        super().__init__(0)

    def answers(self, question: Message, is_waiting: Callable[[], bool]) -> Iterator[Message]:
        for part in ANSWERS[question["name"]](question["fields"]):
            later = time.monotonic() + (0.0 if question["name"] in AT_ONCE else PAUSE)
            while time.monotonic() < later:
                time.sleep(0.02)
                if not is_waiting():
                    raise Gone
            yield {"part": part}
        yield {"done": True}


@pytest.fixture(scope="module")
def server() -> Iterator[ExploreServer]:
    with ExploreServer(0, MadeUp()) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def visit(browser: Any, server: ExploreServer) -> Iterator[Visit]:
    made = Visit(browser, server)
    made.page.add_init_script(LOOK)
    yield made
    made.close()


LOOK = """addEventListener("DOMContentLoaded", () => {
  window.states = [];
  const look = () => {
    const answer = document.getElementById("answer");
    const state = JSON.stringify({
      fields: Object.fromEntries([...document.querySelectorAll("#fields [id]:not([type=file])")]
        .map((node) => [node.id.slice(6), node.value])),
      words: answer.textContent,
      dimmed: answer.matches(".stale") || [...answer.children].some((card) => card.matches(".stale")),
      saves: [...answer.querySelectorAll("button:enabled")].map((node) => node.textContent)
        .filter((label) => /^(Save|Copy|Report|BibTeX)/.test(label)),
    });
    if (window.states.at(-1) !== state) window.states.push(state);
  };
  const all = { subtree: true, childList: true, attributes: true };
  new MutationObserver(look).observe(document.getElementById("answer"), all);
  addEventListener("input", (event) => event.target.matches("select") || look());
  addEventListener("change", look); // which is what a choice is heard by
});"""
"""Notes every state of the page: after every change of the answer, and after every edit."""


def plain(value: str) -> str:
    """One spelling of every number."""
    try:
        return str(float(value))
    except ValueError:
        return value


def shown(words: str) -> dict[str, set[str]]:
    """What the words of a page say of every field, in parts of answers or in sentences of the page."""
    found = defaultdict(set)
    for name, value in re.findall(r"⟨(\w+):(.*?)⟩", words, re.DOTALL):
        found[name].add(plain(value))
    for name, pattern in {
        "delta": r"δ = ([\d.e-]+)",
        "target_epsilon": r"noise for ε = ([\d.]+)",
    }.items():
        found[name] |= {plain(value) for value in re.findall(pattern, words)}
    found["kind"] |= {kind for title, kind in KINDS.items() if title in words}
    return found


def looked_at(visit: Visit) -> tuple[int, int]:
    """Check every state so far; how many showed another question's answer, and that of the fields."""
    old = new = 0
    for state in visit.page.evaluate("window.states.map((state) => JSON.parse(state))"):
        said = shown(state["words"])
        fields = state["fields"]
        assert all(len(values) <= 1 for values in said.values()), said
        if not state["words"]:
            continue
        if all(
            value == plain(fields[name]) for name in said if name in fields for value in said[name]
        ):
            new += 1
        else:
            old += 1
            assert state["dimmed"], state
            assert not state["saves"], state
    return old, new


TRAINING = "dataset_size=600&epochs=1&target_epsilon=2&loader=DataLoader(data,batch_size=60)"


@pytest.mark.parametrize(
    ("place", "edits"),
    [
        (f"training?{TRAINING}", {"Data set size": "700", "Delta": "1e-7", "Target epsilon": "3"}),
        ("collection?users=500", {"Users": "700", "Delta": "1e-8", "Local epsilon of a report": "3"}),
        (
            "curves?bounds=upper it&runs=gaussian noise_multiplier=1",
            {"Runs, one per line": "gaussian noise_multiplier=2", "Delta": "1e-7", "Curve": "profile"},
        ),
        ("officer?delta=1e-5", {"Delta": "1e-7", "Budget epsilon": "4", "Attacker's prior": "0.25"}),
    ],
)  # fmt: skip
def test_parts_of_two_questions_never_meet(visit: Visit, place: str, edits: dict[str, str]) -> None:
    visit.open(f"#{place}")
    if place.startswith("officer"):
        file = {"name": "a.json", "mimeType": "application/json", "buffer": b"{}"}
        visit.page.get_by_label("Reports").set_input_files([file])
    visit.answered()
    first = visit.page.locator("#answer").text_content()
    for label, value in edits.items():  # each as soon as something comes of the one before
        field = visit.page.get_by_label(label, exact=True)
        field.select_option(value) if label == "Curve" else field.fill(value)
        before = looked_at(visit)[1]
        for _ in range(100):
            visit.page.wait_for_timeout(50)
            if looked_at(visit)[1] > before:
                break
    visit.answered()
    old, new = looked_at(visit)
    assert old > 0
    assert new > 3
    words = visit.page.locator("#answer").text_content()
    assert shown(words).keys() == shown(first).keys()  # all cards are there again
    assert not visit.page.locator("#answer button:disabled").count()
    assert not visit.page.locator("#answer.stale").count()


def test_a_wrong_field_dims_the_answer_until_it_is_right(visit: Visit) -> None:
    visit.open(f"#training?{TRAINING}")
    visit.answered()
    words = visit.page.locator("#answer").text_content()
    size, epochs = (
        visit.page.get_by_label(name, exact=True) for name in ("Data set size", "Epochs")
    )
    size.fill("many")
    epochs.fill("2")  # which is fine, but the other field still has no number
    visit.page.wait_for_timeout(500)
    assert visit.page.get_by_role("alert").inner_text().startswith("Data set size must be")
    assert visit.page.locator("#answer.stale").count() == 1
    assert visit.page.locator("#answer").text_content() == words
    size.fill("600")
    epochs.fill("1")
    visit.answered()
    assert visit.page.locator("#answer.stale").count() == 0
    assert visit.page.locator("#answer button:disabled").count() == 0
    looked_at(visit)
