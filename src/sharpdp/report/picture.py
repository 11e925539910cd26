"""The trade-off curve as a picture that needs no library: a drawing in SVG, a sketch in characters."""

from __future__ import annotations

import base64

import numpy as np

from sharpdp.report.results import Points

__all__ = ["data_address", "sketch", "svg"]

SIDE = 320
"""Pixels of the side of the picture's square."""

LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 46
"""Pixels around it, for numbers and labels."""

TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

GUESSING, ABOVE = 0.72, 6
"""Where along the line of guessing it is named, and how many pixels above it."""

FALLING = 45
"""Degrees by which that line falls."""

EDGE, REACH, FLOOR = 0.04, 0.45, 0.13
"""Where the region below the curve is named, how far the words reach, and how high the curve must be."""

COLUMNS, ROWS = 48, 16
"""Characters of a sketch."""

LIGHT = (
    "line{stroke:#8a93a3}path{stroke:#e3e8ef}text{fill:#556}"
    "polygon{fill:#2b62a8}polyline{stroke:#2b62a8}"
)
"""How the picture looks where no page says it."""


def svg(points: Points, *, style: str = "") -> str:
    """The band of false-negative rates over false-positive rates as an SVG element.

    Colors are those of classes that a page defines, or of `style`.
    """
    band = [*((x, high) for x, _, high in points), *((x, low) for x, low, _ in reversed(points))]
    area = " ".join(f"{_across(x):.2f},{_down(y):.2f}" for x, y in band)
    edge = " ".join(f"{_across(x):.2f},{_down(low):.2f}" for x, low, _ in points)
    width, height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    middle = TOP + SIDE / 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="trade-off curve" class="curve" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f"<style>{style}</style>" if style else "",
        *(_tick(at) for at in TICKS),
        *_labels(points),
        f'<line x1="{_across(0.0)}" y1="{_down(1.0)}" x2="{_across(1.0)}" y2="{_down(0.0)}" '
        'stroke-dasharray="4 4" stroke-width="1.2"/>',
        f'<polygon points="{area}" fill-opacity="0.3"/>',
        f'<polyline points="{edge}" fill="none" stroke-width="1.8"/>',
        f'<text x="{LEFT + SIDE / 2}" y="{height - 6}" text-anchor="middle">'
        "false-positive rate</text>",
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        "false-negative rate</text>",
        "</svg>",
    ]
    return "\n".join(line for line in lines if line)


def data_address(points: Points) -> str:
    """The picture as an address that holds it whole, for formats that only link to pictures."""
    drawn = svg(points, style=LIGHT).encode()
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"


def sketch(points: Points) -> list[str]:
    """The curve in characters: # for the band, a dot for guessing.

    >>> len(sketch(((0.0, 1.0, 1.0), (1.0, 0.0, 0.0))))
    19
    """
    fpr, lower, upper = (np.array(one) for one in zip(*points, strict=True))
    grid = [[" "] * COLUMNS for _ in range(ROWS)]
    for column in range(COLUMNS):
        at = column / (COLUMNS - 1)
        grid[_row(1.0 - at)][column] = "."
        first, last = _row(np.interp(at, fpr, upper)), _row(np.interp(at, fpr, lower))
        for row in range(first, last + 1):
            grid[row][column] = "#"
    names = {0: "1.0", ROWS // 2: "0.5", ROWS - 1: "0.0"}
    lines = [
        f"{names.get(row, ''):>4} |{''.join(marks).rstrip()}" for row, marks in enumerate(grid)
    ]
    axis = f"     +{'-' * COLUMNS}"
    numbers = f"      0.0{'0.5':>{COLUMNS // 2 - 2}}{'1.0':>{COLUMNS // 2 - 1}}"
    return ["false-negative rate", *lines, axis, f"{numbers}  false-positive rate"]


def _labels(points: Points) -> list[str]:
    """What the region below the curve and the line of guessing are, where there is room to say it."""
    x, y = _across(GUESSING), _down(1.0 - GUESSING) - ABOVE
    along = f'text-anchor="middle" transform="rotate({FALLING} {x} {y})"'
    words = [f'<text x="{x}" y="{y}" {along}>guessing</text>']
    if min(low for fpr, low, _ in points if fpr <= REACH) > FLOOR:
        words.append(f'<text x="{_across(EDGE)}" y="{_down(EDGE)}">no attack gets here</text>')
    return words


def _row(fnr: float) -> int:
    return round((1.0 - float(fnr)) * (ROWS - 1))


def _across(fpr: float) -> float:
    return LEFT + SIDE * fpr


def _down(fnr: float) -> float:
    return TOP + SIDE * (1.0 - fnr)


def _tick(at: float) -> str:
    """A grid line each way with its number."""
    x, y = _across(at), _down(at)
    left, right, top, bottom = _across(0.0), _across(1.0), _down(1.0), _down(0.0)
    return (
        f'<path d="M{x} {top}V{bottom}M{left} {y}H{right}" fill="none"/>'
        f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{at:g}</text>'
        f'<text x="{left - 7}" y="{y + 4}" text-anchor="end">{at:g}</text>'
    )
