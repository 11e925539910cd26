"""The header of a document: project, data set, people and version. No number depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sharpdp._validate import HintedKeywords, iso_date, one_line, short_repr
from sharpdp.display.nearest_word import hint
from sharpdp.errors import InvalidArgument, WrongType

__all__ = ["DATE", "Header"]

DATE = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
"""What a date looks like in a file."""


@dataclass(frozen=True, kw_only=True)
class Header(HintedKeywords):
    """Who answers for a report, and for what; every field is text of one line, or None.

    Nothing in it is computed or checked: reports show it, and `verify` lists it as not checked.

    Args:
        project: Name of the project, product or model.
        data_set: Name and version of the data.
        version: Version of the model or release that the report is about.
        owner: Team or organization that publishes it.
        contact: Address for questions.
        date: Date of the report as YYYY-MM-DD, such as "2026-01-31".
        reviewer: Who reviewed it, or is to sign it.

    Raises:
        InvalidArgument: A field is empty, has control or formatting characters, or date is no date.
        WrongType: A field is no text.

    >>> Header(project="Commute survey", owner="City of Linz").rows()
    [('project', 'Commute survey'), ('owner', 'City of Linz')]
    """

    project: str | None = None
    data_set: str | None = None
    version: str | None = None
    owner: str | None = None
    contact: str | None = None
    date: str | None = None
    reviewer: str | None = None

    def __post_init__(self) -> None:
        """Check that every field is a line of text."""
        for name, value in self._given().items():
            if not one_line(**{name: value}).strip():
                raise InvalidArgument(f"{name} must not be empty. Leave it out.")
        if self.date is not None:
            iso_date(date=self.date)

    @classmethod
    def of(cls, header: Header | Mapping[str, Any] | None) -> Header:
        """The header that these fields make.

        Args:
            header: A header, a mapping of its fields, or None for none.

        Returns:
            The header.

        Raises:
            InvalidArgument: There is no such field, or one has control characters.
            WrongType: header is neither a header nor a mapping, or a field is no text.
        """
        if isinstance(header, Header):
            return header
        if header is None:
            return cls()
        if not isinstance(header, Mapping):
            raise WrongType(
                f"header must be a mapping of its fields; got {short_repr(header)}. "
                "Try header={'project': 'Commute survey'}."
            )
        names = [field.name for field in fields(cls)]
        for name in header:
            if name not in names:
                ask = hint(str(name), names, f"It has {', '.join(names)}.")
                raise InvalidArgument(f"a header has no field {short_repr(name)}.{ask}")
        return cls(**header)

    def rows(self) -> list[tuple[str, str]]:
        """The fields that are given, in words.

        Returns:
            Name and text of each.
        """
        return [(name.replace("_", " "), value) for name, value in self._given().items()]

    def to_dict(self) -> dict[str, str]:
        """The fields that are given, as plain data.

        Returns:
            Text by name.
        """
        return self._given()

    def _given(self) -> dict[str, str]:
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in every.items() if value is not None}
