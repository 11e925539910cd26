"""Pictures of the local page for the documentation: every view on a desktop, on a phone and in the dark.

    python examples/explore_screenshots.py docs/_static/explore

Needs playwright, Chromium and Pillow; all come with the extra `test` and the system's packages.
"""

import io
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import sharpdp as dp

VIEWS = {
    "training": "#training?target_epsilon=3",
    "collection": "#collection",
    "curves": "#curves?kind=profile&runs=shuffle+users%3D10000+local_epsilon%3D2"
    "&bounds=upper+clones_numeric_upper%2Cupper+stronger_clones_closed_form_upper"
    "%2Cupper+blanket_bennett_upper",
    "officer": "#officer",
}
DEVICES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1180, "height": 1000}},
    "phone": {"viewport": {"width": 400, "height": 1500}},
    "dark": {"viewport": {"width": 1180, "height": 1000}, "color_scheme": "dark"},
}


def reports() -> list[dict[str, Any]]:
    """A report that is true, one that is not, and one of another kind."""
    train = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.2)
    true = dp.account(train).report(format="json", delta=1e-5)
    table = dp.account(dp.Gaussian(noise_multiplier=6.0)).report(format="json", delta=1e-5)
    forged = table.replace('"rigor": "certified"', '"rigor": "exact"', 1)
    texts = {"training.json": true, "table.json": table, "forged.json": forged}
    return [
        {"name": name, "mimeType": "application/json", "buffer": text.encode()}
        for name, text in texts.items()
    ]


def shot(page: Page, view: str, address: str) -> Image.Image:
    """One view, answered."""
    page.goto(f"{address}{VIEWS[view]}")
    if view == "officer":
        page.get_by_label("Reports").set_input_files(reports())
        page.get_by_text("A ledger of these reports").wait_for(timeout=120_000)
    page.get_by_text("answered in").wait_for(timeout=120_000)
    if view == "curves":
        page.locator("#answer svg").first.hover()
    # how long it took depends on the machine
    page.locator("#status").evaluate("node => { node.textContent = 'answered'; }")
    return Image.open(io.BytesIO(page.screenshot()))


def main(folder: Path) -> None:
    """Write all pictures, small."""
    folder.mkdir(parents=True, exist_ok=True)
    with dp.explore.start(port=0) as server, sync_playwright() as tools:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = tools.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for device, options in DEVICES.items():
            page = browser.new_context(**options).new_page()
            for view in VIEWS:
                picture = (
                    shot(page, view, server.address)
                    .convert("RGB")
                    .quantize(128, dither=Image.Dither.NONE)
                )
                picture.save(folder / f"{view}-{device}.png", optimize=True)
                print(f"{view}-{device}.png")
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
