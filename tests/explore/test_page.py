"""The local page in a real browser: each view used as a person would, its numbers against the API.

Needs playwright (in the extra test) and Chromium (Debian: apt-get install chromium); skipped, with these
words, where one of them is missing.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.explore import ExploreServer, start

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
SECONDS = 120_000
"""Milliseconds that an answer may take on a busy machine."""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="the page is tested in Chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def server() -> Iterator[ExploreServer]:
    with start(port=0) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the page is tested with playwright: pip install playwright"
    )
    with playwright.sync_playwright() as tools:
        made = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


class Visit:
    """One page, with everything that it asked of the network and complained of."""

    def __init__(self, browser: Any, server: ExploreServer, **options: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on(
            "console",
            lambda message: message.type == "error" and self.faults.append(message.text),
        )
        self.address = server.address

    def open(self, place: str) -> None:
        self.page.goto(f"{self.address}{place}")

    def answered(self) -> None:
        self.page.get_by_text("answered in").wait_for(timeout=SECONDS)

    def text(self) -> str:
        return str(self.page.locator("#answer").inner_text())

    def close(self) -> None:
        self.context.close()
        assert not self.faults, self.faults
        assert all(url.startswith((self.address, "blob:")) for url in self.requests)


@pytest.fixture
def visit(browser: Any, server: ExploreServer) -> Iterator[Visit]:
    made = Visit(browser, server)
    yield made
    made.close()


SMALL = "noise_multiplier=1&dataset_size=600&batch_size=60&epochs=2"


def test_training_is_compared_over_all_batch_schemes(visit: Visit) -> None:
    line = "DataLoader(data, batch_size=60, shuffle=True)"
    visit.open(f"#training?{SMALL}&loader={line}")
    visit.answered()
    words = visit.text()
    table = dp.compare_samplers(
        noise_multiplier=1.0, dataset_size=600, batch_size=60, epochs=2, delta=1e-5
    )
    assert "these are shuffled batches, not Poisson" in words
    for row in table:
        assert row.name in words
    assert f"{table['Poisson'].epsilon:.4g}".partition(" to ")[2] in words
    visit.page.get_by_role("button", name="Command").click()
    assert "sharpdp dpsgd --noise-multiplier 1 --batches shuffled" in visit.text()


def test_a_changed_field_is_in_the_address_and_survives_a_reload(visit: Visit) -> None:
    visit.open("#curves")
    visit.answered()
    answer = dp.account(dp.Gaussian(noise_multiplier=5.0)).epsilon(delta=1e-5)
    words = f"ε ≤ {answer:.4g}".partition(" to ")[2]
    visit.page.get_by_label("Runs, one per line").fill("gaussian noise_multiplier=5")
    visit.page.get_by_text(words).wait_for(timeout=SECONDS)
    assert "noise_multiplier%3D5" in visit.page.url
    visit.page.reload()
    visit.page.get_by_text(words).wait_for(timeout=SECONDS)


def test_curves_of_every_kind_are_drawn_and_saved(visit: Visit, tmp_path: Path) -> None:
    visit.open("#curves")
    for kind in ("profile", "renyi", "tradeoff"):
        visit.page.get_by_label("Curve").select_option(kind)
        visit.answered()
        assert visit.page.locator("svg polyline").count() == 2
    with visit.page.expect_download() as file:
        visit.page.get_by_role("button", name="Save SVG").click()
    picture = Path(file.value.path()).read_text("utf-8")
    assert picture.startswith("<svg")
    assert "false-positive rate" in picture
    with visit.page.expect_download() as file:
        visit.page.get_by_role("button", name="Save BibTeX").click()
    assert "@" in Path(file.value.path()).read_text("utf-8")


def test_bad_fields_get_a_sentence_and_never_a_traceback(visit: Visit) -> None:
    visit.open(f"#training?{SMALL}")
    noise = visit.page.get_by_label("Noise multiplier", exact=True)
    for text, words in (("zero", "must be a number"), ("-1", "noise_multiplier must be")):
        noise.fill(text)
        visit.page.get_by_role("alert").get_by_text(words).wait_for(timeout=SECONDS)
    noise.fill("1")
    visit.page.get_by_label("Your loader, as code").fill("DataLoader(x, shuffle=maybe)")
    visit.page.get_by_role("alert").get_by_text("shuffle=True or shuffle=False").wait_for(
        timeout=SECONDS
    )
    assert "Traceback" not in visit.page.content()


def test_an_officer_drops_reports(visit: Visit, tmp_path: Path) -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=5.0))
    good = answer.report(format="json", delta=1e-5)
    forged = json.loads(good)
    forged["epsilon"][0]["upper"] = 0.1
    (tmp_path / "good.json").write_text(good, "utf-8")
    (tmp_path / "forged.json").write_text(json.dumps(forged), "utf-8")
    visit.open("#officer")
    visit.page.get_by_label("Reports").set_input_files(
        [tmp_path / "good.json", tmp_path / "forged.json"]
    )
    visit.answered()
    words = visit.text()
    assert "confirmed" in words
    assert "contradicted" in words
    assert "2 runs" in words


def test_a_collection_shows_privacy_and_accuracy(visit: Visit) -> None:
    visit.open("#collection?users=1000&rounds=1&categories=3&target_epsilon=")
    visit.answered()
    words = visit.text()
    assert "If the shuffler fails" in words
    assert "950 honest reports" in words
    assert visit.page.locator("svg polyline").count() == 2


def test_keys_move_between_views(visit: Visit) -> None:
    visit.open("#officer")
    visit.page.get_by_role("tab", name="Officer").focus()
    visit.page.keyboard.press("ArrowLeft")
    assert visit.page.get_by_role("tab", name="Curves").get_attribute("aria-selected") == "true"
    assert visit.page.evaluate("document.activeElement.id") == "tab-curves"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_clipped_on_a_phone_and_every_control_has_a_name(
    browser: Any, server: ExploreServer, scheme: str
) -> None:
    visit = Visit(browser, server, viewport={"width": 400, "height": 800}, color_scheme=scheme)
    for view in ("training", "collection", "curves", "officer"):
        visit.open(f"#{view}")
        visit.page.locator("#fields .field").first.wait_for()
        wide = visit.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 400, view
        nameless = visit.page.evaluate(
            """[...document.querySelectorAll('input, textarea, select, button')].filter(node =>
               !(node.labels?.length || node.ariaLabel || node.textContent.trim())).length"""
        )
        assert nameless == 0, view
        assert visit.page.evaluate(CONTRAST) == [], (view, scheme)
    visit.close()


CONTRAST = """(() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!color.endsWith(", 0)") && color !== "transparent") return color;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const texts = [...document.querySelectorAll("p, label, small, button, h1, h2, td, th")];
  return texts.filter((node) => node.textContent.trim() && node.offsetParent).filter((node) => {
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
  }).map((node) => node.textContent.trim().slice(0, 40));
})()"""
"""Texts whose contrast with what is behind them is below 4.5."""
