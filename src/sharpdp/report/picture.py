"""The trade-off curve as a picture that needs no library: a drawing in SVG, a sketch in characters."""

from __future__ import annotations

import base64

import numpy as np

__all__ = ["Points", "data_address", "sketch", "svg"]

Points = tuple[tuple[float, float, float], ...]
"""(false-positive rate, lower and upper false-negative rate) along the trade-off curve."""

SIDE = 320
"""Pixels of the side of the picture's square."""

LEFT, TOP = 62, 12
"""Pixels left of it and above it, for numbers and labels."""


def svg(points: Points, *, style: str = "") -> str:
    """The band of false-negative rates over false-positive rates as an SVG element.

    Colors come from classes that a page defines, or from `style`.
    """
    band = [*((x, high) for x, _, high in points), *((x, low) for x, low, _ in reversed(points))]
    area = " ".join(f"{_across(x):.2f},{_down(y):.2f}" for x, y in band)
    edge = " ".join(f"{_across(x):.2f},{_down(low):.2f}" for x, low, _ in points)
    width, height = LEFT + SIDE + 14, TOP + SIDE + 46
    middle = TOP + SIDE / 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="trade-off curve" class="curve" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f"<style>{style}</style>" if style else "",
        *(_tick(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)),
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
    style = (  # how the picture looks where no page says it
        "line{stroke:#8a93a3}path{stroke:#e3e8ef}text{fill:#556}"
        "polygon{fill:#2b62a8}polyline{stroke:#2b62a8}"
    )
    drawn = svg(points, style=style).encode()
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"


def sketch(points: Points) -> list[str]:
    """The curve in characters: # for the band, a dot for guessing.

    >>> len(sketch(((0.0, 1.0, 1.0), (1.0, 0.0, 0.0))))
    19
    """
    fpr, lower, upper = (np.array(column) for column in zip(*points, strict=True))
    width, height = 48, 16

    def row(fnr: float) -> int:
        return round((1.0 - float(fnr)) * (height - 1))

    grid = [[" "] * width for _ in range(height)]
    for column in range(width):
        share = column / (width - 1)
        grid[row(1.0 - share)][column] = "."
        first, last = row(np.interp(share, fpr, upper)), row(np.interp(share, fpr, lower))
        for index in range(first, last + 1):
            grid[index][column] = "#"
    names = {0: "1.0", height // 2: "0.5", height - 1: "0.0"}
    lines = [
        f"{names.get(index, ''):>4} |{''.join(marks).rstrip()}" for index, marks in enumerate(grid)
    ]
    axis = f"     +{'-' * width}"
    numbers = f"      0.0{'0.5':>{width // 2 - 2}}{'1.0':>{width // 2 - 1}}"
    return ["false-negative rate", *lines, axis, f"{numbers}  false-positive rate"]


def _labels(points: Points) -> list[str]:
    """Labels of the region below the curve and of the line of guessing, where there is room."""
    x, y = _across(0.72), _down(1.0 - 0.72) - 6  # a little above the line of guessing
    along = f'text-anchor="middle" transform="rotate(45 {x} {y})"'
    words = [f'<text x="{x}" y="{y}" {along}>guessing</text>']
    # the words stand at 0.04, reach to 0.45, and are 0.13 high
    if min(low for fpr, low, _ in points if fpr <= 0.45) > 0.13:
        words.append(f'<text x="{_across(0.04)}" y="{_down(0.04)}">no attack gets here</text>')
    return words


def _across(fpr: float) -> float:
    return LEFT + SIDE * fpr


def _down(fnr: float) -> float:
    return TOP + SIDE * (1.0 - fnr)


def _tick(share: float) -> str:
    """A grid line each way with its number."""
    x, y = _across(share), _down(share)
    left, right, top, bottom = _across(0.0), _across(1.0), _down(1.0), _down(0.0)
    return (
        f'<path d="M{x} {top}V{bottom}M{left} {y}H{right}" fill="none"/>'
        f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{share:g}</text>'
        f'<text x="{left - 7}" y="{y + 4}" text-anchor="end">{share:g}</text>'
    )
