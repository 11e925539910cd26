"""All papers, and what else belongs to the whole."""

from __future__ import annotations

from reproduce import (
    asoodeh2020,
    bok2024,
    chen2024,
    choquette2025,
    chua2024,
    gallery,
    girgis2021,
    liew2022,
    reference,
    wang2023,
)

__all__ = ["EVERYTHING", "PAPERS"]

PAPERS = tuple(
    one.PAPER
    for one in (
        wang2023,
        girgis2021,
        asoodeh2020,
        chen2024,
        chua2024,
        bok2024,
        liew2022,
        choquette2025,
    )
)
EVERYTHING = (reference.PAPER, *PAPERS, gallery.PAPER)
