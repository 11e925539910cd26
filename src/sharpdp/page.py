"""An answer as one HTML file that needs nothing else: numbers, a picture, words, theorems, the plan.

The findings are those of `report`; here they are only laid out. Bands in the picture are certified
between its points too.
"""

from __future__ import annotations

import html
import json
import platform
from collections.abc import Iterable

import numpy as np

from sharpdp.account import Guarantee
from sharpdp.bracket import Bracket
from sharpdp.citations import bibtex
from sharpdp.errors import Unsupported
from sharpdp.plans import Plan
from sharpdp.report import DELTAS, Findings, findings, sections, short

__all__ = ["page"]

SIDE = 320
"""Pixels of the side of the picture's square."""

MARGIN = 44
"""Pixels around it, for numbers and labels."""

POINTS = 121
"""Points of each edge of the band."""

TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b2430; max-width: 46rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.answer { font-size: 1.25rem; background: #eef3fa; border-left: 4px solid #2b62a8; padding: .8rem 1rem; }
table { border-collapse: collapse; margin: .5rem 0; } th, td { padding: .25rem .9rem; text-align: right;
  border-bottom: 1px solid #d5dce6; font-variant-numeric: tabular-nums; }
th { font-weight: 600; } figure { margin: 1rem 0; } figcaption, .small { font-size: .85rem; color: #556; }
pre { background: #f5f7fa; padding: .8rem; overflow-x: auto; font-size: .8rem; white-space: pre-wrap; }
@media print { body { margin: 0; } details { display: block; } }
"""


def page(guarantee: Guarantee, *, delta: Iterable[float] = DELTAS, plan: Plan | None = None) -> str:
    """The report as one self-contained HTML document.

    >>> from sharpdp.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> page(account(Gaussian(noise_multiplier=1.0)), delta=[1e-5]).startswith("<!doctype html>")
    True
    """
    places = tuple(delta)
    found = findings(guarantee, delta=places)
    parts = [_headline(found)]
    for heading, lines in sections(found):
        parts.append(f"<h2>{html.escape(_renamed(heading))}</h2>")
        if lines and heading.startswith("How private"):
            parts.append(_table(found))
        elif heading.startswith("What an attacker"):
            parts += [_figure(guarantee), _list(lines)]
        else:
            parts.append(_list(lines))
    parts += [_sources(guarantee), _plan(guarantee, places, plan)]
    body = "\n".join(parts)
    title = html.escape(f"Privacy of {guarantee.mechanism.label}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _renamed(heading: str) -> str:
    """The title of the text report is the heading of its first section here."""
    return "What was run" if heading == "Privacy report" else heading


def _headline(found: Findings) -> str:
    """The answer in one line."""
    words = html.escape(short(found.guarantee, found.epsilons[0][1]).replace("<=", "≤"))
    return f'<h1>Privacy report</h1>\n<p class="answer">{words}</p>'


def _list(lines: Iterable[str]) -> str:
    entries = "\n".join(f"<li>{html.escape(line.replace('<=', '≤'))}</li>" for line in lines)
    return f"<ul>\n{entries}\n</ul>"


def _table(found: Findings) -> str:
    """Epsilon at each delta, delta at each epsilon."""
    known = bool(found.guarantee.lower_routes)
    rows = [("given", "", "not less than", "not more than")]
    for given, answers in (("delta", found.epsilons), ("epsilon", found.deltas)):
        rows += [
            (f"{given} = {at:g}", one.quantity, *_ends(one, known=known)) for at, one in answers
        ]
    head, *rest = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    body = "\n".join(f"<tr>{row}</tr>" for row in rest)
    return f"<table>\n<tr>{head.replace('td>', 'th>')}</tr>\n{body}\n</table>"


def _ends(bracket: Bracket, *, known: bool) -> tuple[str, str]:
    """Both ends as numbers, rounded outwards by the bracket itself; no lower one if none is known."""
    low, high = bracket.printed
    return (low if known else "not known"), high


def _figure(guarantee: Guarantee) -> str:
    """The trade-off curve as an inline picture."""
    from sharpdp.plots.bands import sampled, tradeoff_band

    fpr = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, POINTS))  # closer at both ends
    lower, upper = tradeoff_band(sampled(guarantee), fpr)
    band = [*zip(fpr, upper, strict=True), *zip(fpr[::-1], lower[::-1], strict=True)]
    area = " ".join(f"{_across(x):.2f},{_down(y):.2f}" for x, y in band)
    edge = " ".join(f"{_across(x):.2f},{_down(y):.2f}" for x, y in zip(fpr, lower, strict=True))
    size = SIDE + 2 * MARGIN
    lines = [
        f'<figure><svg viewBox="0 0 {size} {size}" width="{size}" role="img" '
        'aria-label="trade-off curve" font-family="system-ui, sans-serif" font-size="12" fill="#556">',
        *(_tick(at) for at in TICKS),
        f'<line x1="{_across(0.0)}" y1="{_down(1.0)}" x2="{_across(1.0)}" y2="{_down(0.0)}" '
        'stroke="#99a" stroke-dasharray="3 3"/>',
        f'<polygon points="{area}" fill="#2b62a8" fill-opacity="0.3"/>',
        f'<polyline points="{edge}" fill="none" stroke="#2b62a8" stroke-width="1.6"/>',
        f'<text x="{size / 2}" y="{size - 6}" text-anchor="middle">false-positive rate</text>',
        f'<text x="12" y="{size / 2}" text-anchor="middle" transform="rotate(-90 12 {size / 2})">'
        "false-negative rate</text>",
        "</svg><figcaption>The best attack lies inside the band; the dashed line is guessing."
        "</figcaption></figure>",
    ]
    return "\n".join(lines)


def _across(fpr: float) -> float:
    return MARGIN + SIDE * fpr


def _down(fnr: float) -> float:
    return MARGIN + SIDE * (1.0 - fnr)


def _tick(at: float) -> str:
    """A grid line each way with its number."""
    x, y, low, high = _across(at), _down(at), _across(0.0), _across(1.0)
    return (
        f'<path d="M{x} {low}V{high}M{low} {y}H{high}" stroke="#e3e8ef" fill="none"/>'
        f'<text x="{x}" y="{high + 16}" text-anchor="middle">{at:g}</text>'
        f'<text x="{low - 6}" y="{y + 4}" text-anchor="end">{at:g}</text>'
    )


def _sources(guarantee: Guarantee) -> str:
    entries = html.escape(bibtex(guarantee.bounds))
    return f"<details>\n<summary>BibTeX of the sources</summary>\n<pre>{entries}</pre>\n</details>"


def _plan(guarantee: Guarantee, deltas: tuple[float, ...], plan: Plan | None) -> str:
    """The plan with its hash, if it can be written, and the versions that computed the answer."""
    import scipy

    from sharpdp import __version__

    made = f"sharpdp {__version__}, numpy {np.__version__}, scipy {scipy.__version__}"
    versions = f'<p class="small">{made}, Python {platform.python_version()}.</p>'
    own = plan or Plan(
        guarantee.mechanism, deltas, str(guarantee.adjacency), guarantee.relative_width
    )
    try:
        text = html.escape(json.dumps(own.to_dict(), indent=2))
    except Unsupported as why:
        return f'<p class="small">No plan: {html.escape(str(why))}</p>\n{versions}'
    return (
        f"<details>\n<summary>The plan, SHA-256 {own.hash[:16]}…</summary>\n<pre>{text}</pre>\n"
        f'<p class="small">SHA-256 {own.hash}</p>\n</details>\n{versions}'
    )
