"""One report in every format, by name or by the ending of a file."""

from __future__ import annotations

from numpy.typing import ArrayLike

from sharpdp._validate import is_among, one_line, short_repr
from sharpdp.accounting import Guarantee
from sharpdp.errors import InvalidArgument
from sharpdp.nearest_word import hint
from sharpdp.report.json_data import to_json
from sharpdp.report.layout import markdown, text
from sharpdp.report.results import DELTAS, findings

__all__ = ["FORMATS", "SUFFIXES", "render"]

SUFFIXES = {".txt": "text", ".md": "markdown", ".html": "html", ".json": "json"}
"""What a report is written as, by the ending of the file's name."""

FORMATS = tuple(SUFFIXES.values())
"""What a report can be written as."""


def render(
    guarantee: Guarantee,
    format: str = "text",  # noqa: A002  # the word of the public call
    *,
    delta: ArrayLike = DELTAS,
    date: str | None = None,
) -> str:
    """The report in this format, asked at the given deltas.

    No date is in it unless one is given: the same run gives the same report.

    >>> from sharpdp.accounting import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> render(account(Gaussian(noise_multiplier=1.0)), "markdown").splitlines()[0]
    '## Privacy report'
    """
    if not is_among(FORMATS, format):
        allowed = ", ".join(map(repr, FORMATS))
        ask = hint(str(format), FORMATS)
        raise InvalidArgument(f"format must be one of {allowed}; got {short_repr(format)}.{ask}")
    if date is not None:
        one_line(date=date, hint="Such as '2026-01-31'.")
    if format == "html":
        from sharpdp.report.html import page

        return page(findings(guarantee, delta=delta, date=date))
    writers = {"text": text, "markdown": markdown, "json": to_json}
    return writers[format](guarantee, delta=delta, date=date)
