"""The local page in a real browser: each view used as a person would, its numbers against the API.

Needs playwright (in the extra test) and Chromium (Debian: apt-get install chromium); skipped, with these
words, where one of them is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.display.outward_digits import ROUND_CEILING, ROUND_FLOOR, in_digits
from sharpdp.explore import ExploreServer
from sharpdp.explore.workers import Pool

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
    # two processes, so that most questions find what earlier ones have left
    with ExploreServer(0, Pool(2)) as made:
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
        # no turning wheel, which costs a third of a processor for as long as one waits
        self.context = browser.new_context(
            accept_downloads=True, reduced_motion="reduce", **options
        )
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
        tab = place.lstrip("#").partition("?")[0]
        self.page.locator(f"#tab-{tab}[aria-selected=true]").wait_for()

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


SMALL = "noise_multiplier=1&dataset_size=600&batch_size=60&epochs=1"
SIZES: dict[str, Any] = {"dataset_size": 600, "batch_size": 60, "epochs": 1}
SMALL_SURVEY = "users=500&rounds=1"
"""Fields that are answered soon; those that the page starts with describe a large run."""


def most(bracket: dp.Bracket) -> str:
    """The upper end as the page shows it."""
    return f"{bracket:g}".partition(" to ")[2]


def saved(visit: Visit, button: str) -> str:
    """The file that a button saves."""
    with visit.page.expect_download(timeout=SECONDS) as file:
        visit.page.get_by_role("button", name=button, exact=True).first.click()
    return Path(file.value.path()).read_text("utf-8")


def test_training_is_compared_over_all_batch_schemes(visit: Visit) -> None:
    line = "DataLoader(data, batch_size=60, shuffle=True)"
    visit.open(f"#training?{SMALL}&loader={line}")
    visit.answered()
    words = visit.text()
    table = dp.compare_samplers(noise_multiplier=1.0, **SIZES, delta=1e-5)
    assert "these are shuffled batches, not Poisson" in words
    for row in table:
        assert row.name in words
        assert row.epsilon is None or most(row.epsilon) in words, row.name
    assert visit.page.locator("svg rect.open").count() == len(table) + 1
    rows = saved(visit, "Save CSV").splitlines()
    assert rows[0] == '"batches","lower","upper","what is drawn"'
    assert len(rows) == len(table) + 2
    assert saved(visit, "Save SVG").startswith("<svg")
    assert "@" in saved(visit, "BibTeX")
    report = json.loads(saved(visit, "Report (JSON)"))
    assert report["epsilon"][0]["upper"] == pytest.approx(table["shuffled"].upper, rel=0.02)
    visit.page.get_by_role("button", name="Command").click()
    assert "sharpdp dpsgd --noise-multiplier 1 --batches shuffled" in visit.text()
    visit.page.get_by_label("Batches:").select_option("Poisson")
    visit.page.get_by_text("sharpdp dpsgd --noise-multiplier 1 --batches poisson").wait_for()
    assert "scheme=Poisson" in visit.page.url
    visit.page.get_by_role("button", name="Training with sharpdp").click()
    assert "Training(" in visit.text()


def test_a_slider_moves_the_field_the_line_and_the_answer(visit: Visit) -> None:
    line = "DataLoader(data, batch_size=60, shuffle=True)"
    visit.open(f"#training?{SMALL}&loader={line}")
    visit.answered()
    visit.page.get_by_label("Batch size, slider").focus()
    for _ in range(12):  # faster than anything is computed
        visit.page.keyboard.press("ArrowRight")
    size = int(visit.page.get_by_label("Batch size", exact=True).input_value())
    assert size > 60
    assert f"batch_size={size}" in visit.page.get_by_label("Your loader, as code").input_value()
    visit.page.get_by_text(f"{size} of 600 examples each").first.wait_for(timeout=SECONDS)
    visit.answered()
    answer = dp.account(
        dp.DPSGD(dp.PoissonBatches(**{**SIZES, "batch_size": size}), noise_multiplier=1.0),
        adjacency="zero-out",
    )
    assert most(answer.epsilon(delta=1e-5)) in visit.text()
    visit.page.get_by_label("Your loader, as code").fill(line.replace("60", "30"))
    visit.page.get_by_text("30 of 600 examples each").first.wait_for(timeout=SECONDS)
    assert visit.page.get_by_label("Batch size", exact=True).input_value() == "30"


def test_the_batch_size_that_is_shown_is_the_one_that_counts(visit: Visit) -> None:
    """Whether the line has it by name, by place, not at all, or an address has it alone."""
    field = visit.page.get_by_label("Batch size", exact=True)
    loader = visit.page.get_by_label("Your loader, as code")
    visit.open(f"#training?{SMALL.replace('600', '100')}")
    assert "batch_size=60" in loader.input_value()
    for line, size in (
        ("DataLoader(data, 30, shuffle=True)", "30"),
        ("data.shuffle(buffer_size=20).batch(40)", "40"),
    ):
        loader.fill(line)
        assert field.input_value() == size
    field.fill("50")
    assert ".batch(50)" in loader.input_value()
    loader.fill("DataLoader(data, shuffle=True)")  # torch's default
    visit.page.get_by_text("1 epoch of 100 batches").first.wait_for(timeout=SECONDS)
    assert field.input_value() == "1"


def test_a_slider_says_its_value(visit: Visit) -> None:
    visit.open("#training?dataset_size=600&batch_size=60&epochs=1")
    slider = visit.page.get_by_label("Noise multiplier, slider")
    assert slider.get_attribute("aria-valuetext") == "0.8"  # its place is a logarithm
    visit.page.get_by_label("Noise multiplier", exact=True).fill("2")
    assert slider.get_attribute("aria-valuetext") == "2"
    slider.press("ArrowRight")
    shown = visit.page.get_by_label("Noise multiplier", exact=True).input_value()
    assert slider.get_attribute("aria-valuetext") == shown != "2"
    target = visit.page.get_by_label("Target epsilon, slider")
    assert target.get_attribute("aria-valuetext") == "none"
    visit.open(f"#collection?{SMALL_SURVEY}")
    dishonest = visit.page.get_by_label("Dishonest share of users, slider")
    assert dishonest.get_attribute("aria-valuetext") == "0"
    assert visit.page.get_by_role("tabpanel", name="Collection").count() == 1


@pytest.mark.slow
def test_noise_for_a_target_is_told_for_every_scheme(visit: Visit) -> None:
    visit.open(f"#training?{SMALL}&loader=")
    visit.answered()
    assert "noise for" not in visit.text()
    visit.page.get_by_label("Target epsilon", exact=True).fill("2")
    visit.page.get_by_text("noise for").wait_for(timeout=SECONDS)
    visit.answered()
    noise = dp.calibrate(
        lambda noise: dp.DPSGD(dp.PoissonBatches(**SIZES), noise_multiplier=noise),
        epsilon=2.0,
        delta=1e-5,
        adjacency="zero-out",
        relative_error=1e-2,
    )
    row = visit.page.locator("tr", has=visit.page.get_by_text("Poisson", exact=True))
    shown = float(row.locator("td").nth(2).inner_text())
    assert float(noise) <= shown <= float(noise) * 1.001
    assert "…" not in visit.text()


def test_a_changed_field_is_in_the_address_and_survives_a_reload(visit: Visit) -> None:
    visit.open("#curves")
    visit.answered()
    answer = dp.account(dp.Gaussian(noise_multiplier=5.0)).epsilon(delta=1e-5)
    words = f"ε ≤ {most(answer)}"
    visit.page.get_by_label("Runs, one per line").fill("gaussian noise_multiplier=5")
    visit.page.get_by_text(words).wait_for(timeout=SECONDS)
    assert "noise_multiplier%3D5" in visit.page.url
    visit.page.reload()
    visit.page.get_by_text(words).wait_for(timeout=SECONDS)
    visit.page.get_by_role("tab", name="Officer").click()
    visit.page.go_back()
    visit.page.get_by_text(words).wait_for(timeout=SECONDS)


def test_curves_of_every_kind_are_drawn_and_saved(visit: Visit) -> None:
    visit.open("#curves")
    for kind in ("profile", "renyi", "tradeoff"):
        visit.page.get_by_label("Curve", exact=True).select_option(kind)
        visit.answered()
        assert visit.page.locator("svg polyline").count() == 2
    picture = saved(visit, "Save SVG")
    assert picture.startswith("<svg")
    assert "false-positive rate" in picture
    assert "var(" not in picture
    assert "@" in saved(visit, "BibTeX")


def test_theorems_are_switched_on_and_read_off(visit: Visit) -> None:
    visit.open("#curves?kind=profile&runs=gaussian+noise_multiplier=2")
    visit.answered()
    table = dp.compare(dp.Gaussian(noise_multiplier=2.0), delta=1e-5)
    for row in table:
        assert row.shown in visit.text()
        assert row.condition[1:] in visit.text()  # as a sentence
    visit.page.get_by_label("Draw Gaussian moments (upper)").check()
    visit.page.locator("svg .dashed").wait_for(timeout=SECONDS)
    assert "bounds=upper" in visit.page.url
    picture = visit.page.locator("#answer svg").first
    picture.hover()
    readout = visit.page.locator("ul.readout")
    readout.get_by_text(table["gaussian_moments_upper"].condition).wait_for()
    at = readout.locator("li").first.inner_text()
    picture.focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("ArrowRight")
    assert readout.locator("li").first.inner_text() != at
    visit.page.get_by_role("button", name="lower bounds").click()
    visit.page.get_by_label("Draw Gaussian (lower)").wait_for(state="detached")


def test_digits_that_are_read_off_are_rounded_as_everywhere(visit: Visit) -> None:
    """The one function of the page that rounds says what `in_digits` says, but for 1e-5 for 1e-05."""
    visit.open("#curves")
    ask = """async (asked) => {
      const { shown } = await import("/pictures.js");
      return asked.map(([value, way, digits]) => shown(value, way, digits ?? 6));
    }"""
    asked = [(1.23456712, 1), (1.2345678, -1), (0.5, 1), (1.0000012e-12, 1), (0.0, 1), (None, 1)]
    words = ["1.23457", "1.23456", "0.5", "1.00001e-12", "0", "∞"]
    assert visit.page.evaluate(ask, asked) == words
    draws = np.random.default_rng(7)
    values = draws.uniform(0.1, 1.0, 400) * 10.0 ** draws.integers(-20, 14, 400)
    values = np.concatenate([values, np.round(values, 3), [0.9, 0.3, 999999.5, 99999.95]])
    values = values[values > 0.0]
    for way, direction in ((1, ROUND_CEILING), (-1, ROUND_FLOOR)):
        for digits in (2, 6):
            said = visit.page.evaluate(ask, [(value, way, digits) for value in values.tolist()])
            same = [in_digits(value, direction, digits) for value in values.tolist()]
            assert said == [re.sub(r"e([-+])0?", r"e\1", text) for text in same]


def test_zeros_and_level_curves_have_an_ordinary_axis(visit: Visit) -> None:
    """As of a delta of one half, of noise 1e9, and of a divergence that every order has."""
    visit.open("#curves?delta=none")  # nothing is asked
    draw = """async (level) => {
      const { bars, curves } = await import("/pictures.js");
      const ends = [level, level];
      const bar = bars([{ name: "", shown: "", lower: level, upper: level }], { label: "" });
      const axes = { label: "", xLabel: "", yLabel: "", yLog: true };
      const curve = curves([{ label: "", x: [0, 1], lower: ends, upper: ends }], axes);
      curve.follow(() => {});
      const soft = (picture) => [...picture.querySelectorAll("text.soft")];
      const marks = (picture) => soft(picture).map((node) => Number(node.textContent));
      const points = curve.querySelector("polyline").getAttribute("points");
      return [Math.max(...marks(bar)), marks(curve), points];
    }"""
    top, marks, points = visit.page.evaluate(draw, 0.0)
    assert top == 1.0
    assert min(marks) == 0.0
    assert max(marks) == 1.0
    assert "NaN" not in points
    top, marks, points = visit.page.evaluate(draw, 3.0)
    assert 2.0 <= top <= 3.1
    assert 2.0 in marks
    assert "NaN" not in points


def test_bad_fields_get_a_sentence_and_never_a_traceback(visit: Visit) -> None:
    for view in ("training", "collection", "curves", "officer"):
        visit.open(f"#{view}?{SMALL}&{SMALL_SURVEY}")
        for field in visit.page.locator("#fields input[type=text]").all():
            good = field.input_value()
            label = field.evaluate("node => node.labels[0].textContent")
            for bad in ("zero", "1e", "--1", "1;2", "0,800"):
                field.fill(bad)
                visit.page.get_by_role("alert").get_by_text(f"{label} must be a").wait_for()
                assert field.get_attribute("aria-invalid") == "true"
            field.fill(good)
    visit.open(f"#training?{SMALL}")
    visit.page.get_by_label("Noise multiplier", exact=True).fill("-1")
    alert = visit.page.get_by_role("alert")
    alert.get_by_text("Noise multiplier must be").wait_for(timeout=SECONDS)
    visit.page.get_by_label("Noise multiplier", exact=True).fill("1")
    visit.page.get_by_label("Your loader, as code").fill("DataLoader(x, shuffle=maybe)")
    alert.get_by_text("shuffle=True or shuffle=False").wait_for(timeout=SECONDS)
    visit.open("#curves?runs=gausian+noise_multiplier=1&delta=abc&kind=none")
    alert.get_by_text("must be").wait_for(timeout=SECONDS)
    visit.page.evaluate("location.hash = '#toString'")  # no view has this name
    visit.page.locator("#tab-training[aria-selected=true]").wait_for()
    assert "Traceback" not in visit.page.content()


def test_a_wrong_value_is_told_under_the_name_of_its_field(visit: Visit) -> None:
    alert = visit.page.get_by_role("alert")
    for view, count in (("training", 6), ("collection", 8), ("curves", 1)):
        visit.open(f"#{view}?delta=none")  # nothing is asked
        fields = visit.page.locator("#fields input[type=text]").evaluate_all(
            "nodes => nodes.map(node => [node.id.slice(6), node.labels[0].textContent])"
        )
        assert len(fields) == count
        for name, label in fields:
            visit.open(f"#{view}?{SMALL}&{SMALL_SURVEY}&{name}=-1")
            alert.get_by_text(re.compile(f"^{label} must be .* got -1")).wait_for(timeout=SECONDS)
    visit.open("#training?batch_size=60&dataset_size=6")
    words = "Batch size must be at most data set size = 6; got 60. Did you swap the two?"
    alert.get_by_text(words).wait_for(timeout=SECONDS)
    visit.open("#officer")
    report = dp.account(dp.Gaussian(noise_multiplier=5.0)).report(format="json")
    file = {"name": "a.json", "mimeType": "application/json", "buffer": report.encode()}
    visit.page.get_by_label("Reports").set_input_files([file])
    for label, good in (("Budget epsilon", "3"), ("Attacker's prior", "0.5"), ("Delta", "1e-5")):
        field = visit.page.get_by_label(label, exact=True)
        field.fill("-1")
        alert.get_by_text(f"{label} must be").wait_for(timeout=SECONDS)
        field.fill(good)


def test_numbers_as_people_write_them_get_a_hint(visit: Visit) -> None:
    visit.open(f"#training?{SMALL}")
    noise, size = (
        visit.page.get_by_label(name, exact=True) for name in ("Noise multiplier", "Data set size")
    )
    for field, text, hint in (
        (noise, "0,8", "a number; got “0,8”. Write 0.8."),
        (noise, "5%", "a number; got “5%”. Write 0.05."),
        (noise, "0x10", "a number; got “0x10”."),
        (noise, "1e999", "a number; got “1e999”."),
        (noise, "1", ""),
        (size, "60k", "a whole number; got “60k”. Write 60000."),
        (size, "1.2M", "a whole number; got “1.2M”. Write 1200000."),
        (size, "2.5", "a whole number; got “2.5”."),
        (size, "60,00", "a whole number; got “60,00”."),
        (size, "1,000", ""),
    ):
        field.fill(text)
        label = field.evaluate("node => node.labels[0].textContent")
        words = f"{label} must be {hint}" if hint else ""
        assert visit.page.locator("#error").text_content() == words


def test_an_officer_drops_reports(visit: Visit, tmp_path: Path) -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=5.0))
    good = answer.report(format="json", delta=1e-5)
    forged = json.loads(good)
    forged["epsilon"][0]["upper"] = 0.1
    (tmp_path / "good.json").write_text(good, "utf-8")
    (tmp_path / "forged.json").write_text(json.dumps(forged), "utf-8")
    visit.open("#officer")
    chooser = visit.page.get_by_label("Reports")
    chooser.set_input_files([tmp_path / "good.json", tmp_path / "forged.json"])
    visit.page.get_by_text("A ledger of these reports").wait_for(timeout=SECONDS)
    words = visit.text()
    both = dp.account(dp.Gaussian(noise_multiplier=5.0) * 2)
    assert "confirmed" in words
    assert "contradicted" in words
    assert "2 runs" in words
    assert most(both.epsilon(delta=1e-5)) in words
    for sentence in both.risk(prior=0.5).sentences():
        visit.page.get_by_text(sentence).wait_for(timeout=SECONDS)
    visit.page.get_by_label("Attacker's prior", exact=True).fill("0.1")
    for sentence in both.risk(prior=0.1).sentences():
        visit.page.get_by_text(sentence).wait_for(timeout=SECONDS)
    # the ledger has the confirmed report, and is confirmed itself
    (tmp_path / "budget.jsonl").write_text(saved(visit, "Save budget.jsonl"), "utf-8")
    ledger = dp.Ledger(tmp_path / "budget.jsonl")
    assert [entry.note for entry in ledger.entries] == ["good.json"]
    chooser.set_input_files([tmp_path / "good.json", tmp_path / "budget.jsonl"])
    visit.page.get_by_text("ledger of 1 release").wait_for(timeout=SECONDS)
    visit.page.get_by_text("1 run", exact=False).first.wait_for(timeout=SECONDS)
    assert "1 runs" not in visit.text()


def test_a_collection_shows_privacy_and_accuracy(visit: Visit) -> None:
    visit.open("#collection?users=1000&rounds=1&categories=3&target_epsilon=")
    visit.answered()
    words = visit.text()
    assert "950 honest reports" in words
    randomizer = dp.RandomizedResponse(local_epsilon=4.0, categories=3)
    run = dp.ShuffledReports(users=950, randomizer=randomizer)
    truth = dp.account(run).epsilon(delta=1e-7)
    assert f"ε ≤ {most(truth)}" in words
    assert "If the shuffler fails, local randomization still gives ε ≤ 4 over all rounds" in words
    assert visit.page.locator("svg polyline").count() == 2
    # pointing at one picture shows the same place in the other; a click takes it
    central, exact = visit.page.locator("#answer svg").all()
    central.hover(position={"x": 200, "y": 80})
    assert exact.locator("line.axis").get_attribute("visibility") == "visible"
    assert "if the shuffler fails" in visit.page.locator("p.readout").inner_text()
    central.click(position={"x": 200, "y": 80})
    visit.answered()
    chosen = float(visit.page.get_by_label("Local epsilon of a report", exact=True).input_value())
    assert chosen < 2.0
    assert f"local_epsilon={chosen:g}" in visit.page.url


def test_keys_move_between_views(visit: Visit) -> None:
    visit.open("#officer")
    visit.page.get_by_role("tab", name="Officer").focus()
    visit.page.keyboard.press("ArrowLeft")
    assert visit.page.get_by_role("tab", name="Curves").get_attribute("aria-selected") == "true"
    assert visit.page.evaluate("document.activeElement.id") == "tab-curves"


def test_nothing_is_clipped_on_a_phone_and_every_control_has_a_name(
    browser: Any, server: ExploreServer
) -> None:
    visit = Visit(browser, server, viewport={"width": 400, "height": 800})
    for view in (f"training?{SMALL}", f"collection?{SMALL_SURVEY}", "curves", "officer"):
        visit.open(f"#{view}")
        if view == "officer":
            report = dp.account(dp.Gaussian(noise_multiplier=5.0)).report(format="json")
            file = {"name": "a.json", "mimeType": "application/json", "buffer": report.encode()}
            visit.page.get_by_label("Reports").set_input_files([file])
        visit.answered()
        for scheme in ("light", "dark"):  # of one answer: the style sheet alone tells them apart
            visit.page.emulate_media(color_scheme=scheme)
            wide = visit.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 400, (view, scheme)
            nameless = visit.page.evaluate(
                """[...document.querySelectorAll('input, textarea, select, button')].filter(node =>
                   !(node.labels?.length || node.ariaLabel || node.textContent.trim())).length"""
            )
            assert nameless == 0, (view, scheme)
            unnamed = visit.page.locator(
                "svg:not([aria-label]), section:not([aria-label]):not(.card)"
            )
            assert unnamed.count() == 0, (view, scheme)
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
