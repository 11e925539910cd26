"""A report as one HTML file that needs nothing else: it can be mailed, printed, and read in the dark.

What it says is made in `content`; here it is only laid out.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Iterable

from sharpdp.bracket import Bracket
from sharpdp.display.outward_digits import ROUND_CEILING, in_digits
from sharpdp.errors import InvalidArgument
from sharpdp.report.content import (
    SIGNATURE,
    Block,
    Boxes,
    Brackets,
    Items,
    Picture,
    Section,
    Table,
    ends,
    header_rows,
    sections,
)
from sharpdp.report.picture import svg
from sharpdp.report.results import TITLE, VERIFY, Results, as_json

__all__ = ["embedded", "page"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --soft: #556070; --rule: #d5dce6; --pale: #f4f6f9;
  --box: #eaf1fa; --mark: #2b62a8; --grid: #e3e8ef; --guess: #8a93a3; --page: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #a3adba; --rule: #39424e;
  --pale: #1e242c; --box: #1c2a3d; --mark: #7db0ee; --grid: #2c343e; --guess: #7f8998;
  --page: #14181d; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink);
  background: var(--page); max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; padding-bottom: .2rem;
  border-bottom: 1px solid var(--rule); }
.of { color: var(--soft); margin: .2rem 0 1.2rem; }
.short { background: var(--box); border-left: 4px solid var(--mark); padding: 1rem 1.2rem;
  border-radius: 0 6px 6px 0; }
.short .claim { font-size: 1.6rem; font-weight: 650; line-height: 1.25; margin: 0; }
.short .claim small { font-size: 1rem; font-weight: 400; color: var(--soft); display: block; }
.short p { margin: .7rem 0 0; }
ul { padding-left: 1.2rem; margin: .5rem 0; } li { margin: .35rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; }
th, td { padding: .28rem 1.1rem .28rem 0; text-align: left; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th { font-weight: 600; color: var(--soft); font-size: .85rem; }
td { overflow-wrap: anywhere; } td + td { min-width: 5.5rem; }
td.number { font-variant-numeric: tabular-nums; }
table.answers td { white-space: nowrap; min-width: 0; }
@media (max-width: 30rem) { table.answers { font-size: .8rem; } th, td { padding-right: .6rem; } }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .85em; }
code { overflow-wrap: anywhere; }
pre { background: var(--pale); padding: .8rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
details > summary { cursor: pointer; margin-top: 2.2rem; border-bottom: 1px solid var(--rule); }
summary::marker { color: var(--mark); }
summary h2 { display: inline-block; border: 0; margin: 0; padding: .2rem 0; }
.about { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .5rem 1.4rem;
  margin: 0 0 1.4rem; padding: .7rem 0; border: solid var(--rule); border-width: 1px 0; }
.about dt { font-size: .8rem; color: var(--soft); } .about dd { margin: 0; overflow-wrap: anywhere; }
.about dt::first-letter { text-transform: uppercase; }
ul.boxes { list-style: none; padding: 0; }
ul.boxes li { position: relative; padding-left: 1.9rem; margin: .6rem 0; }
ul.boxes li::before { content: ""; position: absolute; left: .1rem; top: .28rem; width: .85rem;
  height: .85rem; border: 1.4px solid var(--soft); border-radius: 2px; }
.sign { display: flex; flex-wrap: wrap; gap: 1rem 1.6rem; margin: 1.6rem 0 0; }
.sign span { flex: 1 1 10rem; font-size: .85rem; color: var(--soft); }
.sign b { display: block; min-height: 1.9rem; border-bottom: 1px solid var(--soft);
  font-weight: 400; font-size: 1rem; color: var(--ink); }
figure { margin: 1rem 0; } figcaption { font-size: .88rem; color: var(--soft); max-width: 30rem; }
svg.curve { max-width: 100%; height: auto; }
svg.curve path { stroke: var(--grid); } svg.curve text { fill: var(--soft); }
svg.curve line { stroke: var(--guess); } svg.curve polygon { fill: var(--mark); }
svg.curve polyline { stroke: var(--mark); }
@media print { :root { --ink: #000; --soft: #444; --rule: #bbb; --pale: #fff; --box: #fff;
  --mark: #1d4f8f; --grid: #ddd; --guess: #777; --page: #fff; color-scheme: light; }
  body { font-size: 10.5pt; margin: 0; max-width: none; } h2 { break-after: avoid; }
  li, tr, figure { break-inside: avoid; } .short { border: 1px solid var(--rule);
  border-left: 4px solid var(--mark); } details > summary { list-style: none; }
  details::details-content { content-visibility: visible; block-size: auto; }
  pre { font-size: 8pt; } .sign { break-inside: avoid; } @page { margin: 18mm 16mm; } }
"""

START, END = '<script type="application/json" id="sharpdp-report">', "</script>"
"""What the data of the report stand between; a browser does not run them."""


def page(results: Results) -> str:
    """The report as one self-contained HTML document, with its data inside.

    >>> from sharpdp.questions.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> print(page(Results.of(account(Gaussian(noise_multiplier=1.0)), delta=1e-5))[:15])
    <!doctype html>
    """
    first, *others = sections(results)
    parts = [_headline(results, first)]
    for section in others:
        heading = f"<h2>{_escaped(section.title)}</h2>"
        body = "\n".join(_block(block) for block in section.blocks)
        if section.is_folded:
            heading, body = f"<details>\n<summary>{heading}</summary>", f"{body}\n</details>"
        parts.append(f"<section>\n{heading}\n{body}\n</section>")
    body = "\n".join(parts)
    # a browser may use this one style, and neither run nor load anything
    style = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{style}'"
    title = html.escape(f"Privacy of {results.guarantee.mechanism.label}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
        f"{START}\n{_embedded(results)}{END}\n</body>\n</html>\n"
    )


def embedded(page: str) -> str:
    """The JSON inside a page that `page` wrote."""
    start, end = page.find(START), page.find(END)
    if not 0 <= start < end or page.count("<script") != 1:
        raise InvalidArgument(
            f"a page must hold one report as JSON, after {START}; got none, or something else. "
            "Pages that sharpdp wrote before it embedded the report cannot be verified."
        )
    return page[start + len(START) : end]


def _embedded(results: Results) -> str:
    """The report as JSON that cannot end the element it stands in, nor open another one."""
    text = as_json(results)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _headline(results: Results, section: Section) -> str:
    """The answer as large as it deserves, and the sentences of the short answer."""
    delta, epsilon = results.epsilons[0]
    claim = _claim(epsilon)
    where = f"at δ = {delta:g}, {results.guarantee.neighbors}, {epsilon.rigor}"
    run, *sentences = (
        line for block in section.blocks if isinstance(block, Items) for line in block.lines
    )
    paragraphs = "\n".join(f"<p>{_escaped(line)}</p>" for line in sentences)
    rows = header_rows(results)
    about = f"{_header(rows)}\n" if rows else ""
    return (
        f'<h1>{TITLE}</h1>\n<p class="of">{_escaped(run.partition(": ")[2])}</p>\n{about}'
        f'<div class="short">\n<p class="claim">{claim} <small>{_escaped(where)}</small></p>\n'
        f"{paragraphs}\n</div>"
    )


def _header(rows: Iterable[tuple[str, str]]) -> str:
    """The header of the report."""
    entries = "\n".join(
        f"<div><dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd></div>" for name, value in rows
    )
    return f'<dl class="about">\n{entries}\n</dl>'


def _boxes(block: Boxes) -> str:
    """Sentences with a box each, and a line to sign."""
    entries = "\n".join(f"<li>{_escaped(line)}</li>" for line in block.lines)
    fields = "".join(
        f"<span>{label}<b>{_escaped(block.signer) if label == 'Name' else ''}</b></span>"
        for label in SIGNATURE
    )
    return f'<ul class="boxes">\n{entries}\n</ul>\n<p class="sign">{fields}</p>'


def _claim(epsilon: Bracket) -> str:
    """The safe end."""
    if float(epsilon) < math.inf:
        return f"ε ≤ {in_digits(float(epsilon), ROUND_CEILING)}"
    return "ε is infinite" if epsilon.lower == math.inf else "no finite ε is known"


def _block(block: Block) -> str:
    if isinstance(block, Boxes):
        return _boxes(block)
    if isinstance(block, Items) and len(block.lines) == 1:
        return f"<p>{_escaped(block.lines[0])}</p>"
    if isinstance(block, Items):
        entries = "\n".join(f"<li>{_escaped(line)}</li>" for line in block.lines)
        return f"<ul>\n{entries}\n</ul>"
    if isinstance(block, Table):
        return _table(block.head, block.rows, "parameters")
    if isinstance(block, Brackets):
        rows = [
            (condition, bracket.quantity, *ends(block, bracket))
            for condition, bracket in block.rows
        ]
        return _table(("given", "asked", "at least", "at most"), rows, "answers")
    if isinstance(block, Picture):
        caption = f"<figcaption>{_escaped(block.caption)}</figcaption>"
        return f"<figure>\n{svg(block.points)}\n{caption}\n</figure>"
    return f"<h3>{_escaped(block.title)}</h3>\n<pre>{html.escape(block.text)}</pre>"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], kind: str) -> str:
    named = "".join(f"<th>{_escaped(cell)}</th>" for cell in head)
    body = "\n".join(
        "<tr>" + "".join(f"<td{_kind(cell)}>{_escaped(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table class="{kind}">\n<tr>{named}</tr>\n{body}\n</table></div>'


def _kind(cell: str) -> str:
    """Numbers stand below each other."""
    return ' class="number"' if re.fullmatch(r"[-+.e\d]+|inf", cell) else ""


def _escaped(words: str) -> str:
    """The words as HTML shows them; hashes and commands as code."""
    plain = html.escape(words.replace("<=", "≤").replace(">=", "≥"))
    code = rf"\b[0-9a-f]{{64}}\b|{re.escape(VERIFY)}"
    return re.sub(code, lambda match: f"<code>{match[0]}</code>", plain)
