"""Names of cohorts: which spellings are one name, and which names may be a misspelling of another."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

__all__ = ["folded", "near_miss"]

LETTERS_PER_MISTAKE = 8
"""A name of 4 to 11 letters may have one mistake, one of 12 to 19 two, and so on."""


def folded(name: str) -> str:
    r"""The common form of all spellings of a name: width, case and blanks do not matter.

    >>> folded(" North  West "), folded("north\u00a0west"), folded("NORTH WEST")
    ('north west', 'north west', 'north west')
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(plain.split())


def near_miss(name: str, known: Iterable[str]) -> str | None:
    r"""A known name that this one may be a misspelling of, or may look like; None if there is none.

    Letters of different scripts may look alike, so any two of them do not count as a mistake.

    >>> near_miss("norht", ["south", "north"]), near_miss("n\u043erth", ["north"])
    ('north', 'north')
    >>> near_miss("south", ["north"]) is None
    True
    """
    wanted = folded(name)
    for other in known:
        against = folded(other)
        allowed = round(max(len(wanted), len(against)) / LETTERS_PER_MISTAKE + 1e-9)
        if abs(len(wanted) - len(against)) <= allowed and _mistakes(wanted, against) <= allowed:
            return other
    return None


def _mistakes(one: str, other: str) -> int:
    """Letters left out, put in, taken for another or exchanged with the next: the fewest of them."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one):
        two_before, before, row = before, row, [i + 1]
        for j, right in enumerate(other):
            best = min(before[j + 1] + 1, row[j] + 1, before[j] + (not _looks_alike(left, right)))
            if i and j and left == other[j - 1] and right == one[i - 1]:
                best = min(best, two_before[j - 1] + 1)
            row.append(best)
    return row[-1]


def _looks_alike(left: str, right: str) -> bool:
    if left == right:
        return True
    return left.isalpha() and right.isalpha() and _script(left) != _script(right)


def _script(letter: str) -> str:
    """The first word of a letter's name, such as LATIN or CYRILLIC."""
    return unicodedata.name(letter, "").partition(" ")[0]
