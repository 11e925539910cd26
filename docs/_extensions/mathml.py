"""Formulas as MathML, written when the site is built: a page needs no script and no network."""

from __future__ import annotations

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

REPAIRS = (
    # `\mathbb E` without braces loses its style
    (re.compile(r"\\(mathbb|mathrm|mathcal)\s+([A-Za-z])"), r"\\\1{\2}"),
)
"""What latex2mathml reads better in another spelling."""

MINUS, SLASH, BAR = "&#x02212;", "&#x0002F;", "&#x0007C;"
OPENING = "&#x00028;|&#x0005B;|&#x0003D;|&#x0002C;|&#x02264;|&#x02265;|&#x0003C;|&#x0003E;"
MENDS = (
    # the relation, not the character of the keyboard
    (re.compile("<mi>&#x0007E;</mi>"), "<mo>&#x0223C;</mo>"),
    # a sign, not a difference
    (
        re.compile(f"(<mo[^>]*>(?:{OPENING})</mo>)<mo>{MINUS}</mo>"),
        rf'\1<mo form="prefix">{MINUS}</mo>',
    ),
    # braces of a given size keep the backslash of their source
    (re.compile(r'(<mo minsize="[^>]*>)\\([{}])</mo>'), r"\1\2</mo>"),
    # brackets of a given size are brackets, also with an index
    (
        re.compile(r'<mo (minsize="[^>]*)>(&#x00028;|\(|\[|\{)</mo>'),
        r'<mo form="prefix" stretchy="true" \1>\2</mo>',
    ),
    (
        re.compile(r'<mo (minsize="[^>]*)>(&#x00029;|\)|\]|\})</mo>'),
        r'<mo form="postfix" stretchy="true" \1>\2</mo>',
    ),
    # fonts draw a prime raised already
    (
        re.compile("<msup>(<mi>[^<]+</mi>)<mi>&#x02032;</mi></msup>"),
        r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>',
    ),
    # a sign at the very start
    (
        re.compile(f"(<mrow>)<mo>(&#x0002B;|{MINUS})</mo>"),
        r'\1<mo form="prefix" lspace="0" rspace="0">\2</mo>',
    ),
    # no space around fractions in a line, nor inside of bars
    (re.compile(f"<mo([^>]*)>({SLASH}|{BAR})</mo>"), r'<mo\1 lspace="0" rspace="0">\2</mo>'),
)
"""What browsers lay out better otherwise."""


def mathml(source: str, display: str) -> str:
    """The MathML of a TeX formula, with its source beside it for those who copy it."""
    text = source
    for pattern, better in REPAIRS:
        text = pattern.sub(better, text)
    found = convert(text, display=display)
    for pattern, better in MENDS:
        found = pattern.sub(better, found)
    return found.replace("<math ", f'<math alttext="{escape(source, quote=True)}" ', 1)


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula within a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on a line of its own, which may be scrolled sideways."""
    formula = mathml(node.astext(), "block")
    translator.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Announce the renderer; `html_math_renderer` chooses it."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
