"""The bibliography of the package as Markdown: one paragraph per entry, each with an anchor."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

ENTRY = re.compile(r"^@(\w+)\{([^,]+),(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(
    r"^\s*(\w+)\s*=\s*\{(.*?)\},?\s*$(?=\s*(?:\w+\s*=|\Z))", re.MULTILINE | re.DOTALL
)
ACCENT = re.compile(r"\{?\\([`'^\"~=.uvHck])\s*\{?\\?([A-Za-z])\}?\}?")
COMBINING = {
    "`": "\u0300",
    "'": "\u0301",
    "^": "\u0302",
    "~": "\u0303",
    '"': "\u0308",
    "v": "\u030c",
    "c": "\u0327",
}
PLACES = ("journal", "booktitle", "publisher", "howpublished", "institution")


@dataclass(frozen=True)
class Work:
    """One entry: its key and its fields, free of TeX."""

    key: str
    fields: dict[str, str]

    @property
    def authors(self) -> str:
        """The authors, first names first."""
        names = re.split(r"\s+and\s+", self.fields["author"])
        plain = [" ".join(reversed(name.split(", ", 1))) for name in names]
        return plain[0] if len(plain) == 1 else f"{', '.join(plain[:-1])} and {plain[-1]}"

    @property
    def place(self) -> str:
        """Where it appeared."""
        name = next((self.fields[field] for field in PLACES if field in self.fields), "")
        volume = self.fields.get("volume", "")
        pages = self.fields.get("pages", "")
        parts = [f"{name} {volume}".strip(), f"pages {pages}" if pages else ""]
        return ", ".join(part for part in parts if part)

    @property
    def link(self) -> str:
        """Its address, by doi, url or arXiv number."""
        if "doi" in self.fields:
            return f"[doi](https://doi.org/{self.fields['doi']})"
        if "url" in self.fields:
            return f"[page]({self.fields['url']})"
        return f"[arXiv](https://arxiv.org/abs/{self.fields['eprint']})"


def plain(text: str) -> str:
    """The text without TeX: accents composed, braces gone, dashes one character."""

    def accented(match: re.Match[str]) -> str:
        return unicodedata.normalize("NFC", match[2] + COMBINING.get(match[1], ""))

    text = ACCENT.sub(accented, text)
    text = re.sub(r"[{}]", "", text).replace("---", "\u2014").replace("--", "\u2013")
    return " ".join(text.replace("\\&", "&").split())


def works() -> list[Work]:
    """Every entry of references.bib, in its order."""
    text = files("sharpdp.bounds").joinpath("references.bib").read_text("utf-8")
    return [
        Work(key, {name: plain(value) for name, value in FIELD.findall(body)})
        for _, key, body in ENTRY.findall(text)
    ]


def lines(cited: dict[str, list[str]]) -> Iterator[str]:
    """The page, entry by entry; `cited` lists the bounds that rest on each."""
    for work in works():
        facts = [work.place, work.fields["year"]]
        note = work.fields.get("note", "")
        yield f"({work.key})="
        yield (
            f"**{work.key}**. {work.authors}. *{work.fields['title']}*. "
            f"{', '.join(fact for fact in facts if fact)}. {work.link}."
            + (f" {note}." if note else "")
        )
        if cited.get(work.key):
            names = ", ".join(f"[`{name}`](bounds.md#{name})" for name in cited[work.key])
            yield f"  \nBehind: {names}."
        yield ""
