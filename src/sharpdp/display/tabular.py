"""Common parts of answers: pictures, rows with names, tables for other programs (CSV, LaTeX, ...)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sharpdp._validate import count, invalid, is_among
from sharpdp.display import notebook
from sharpdp.display.outward_digits import (
    DIGITS,
    MOST_DIGITS,
    ROUND_CEILING,
    ROUND_FLOOR,
    in_digits,
)
from sharpdp.display.text_table import table_lines, wrapped
from sharpdp.errors import InvalidArgument, MissingExtra
from sharpdp.storage.run_lock import free_path_of

__all__ = ["NamedRows", "NotedTable", "Plotted", "Rows", "Tabular"]

Record = dict[str, Any]


class Named(Protocol):
    """A row with a name."""

    @property
    def name(self) -> str:
        """The name."""


AnyRow = TypeVar("AnyRow", covariant=True)
AnyNamed = TypeVar("AnyNamed", bound=Named, covariant=True)

ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$",
}  # fmt: skip
"""Characters that LaTeX takes for something else."""


class Plotted:
    """An answer with a picture."""

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw the answer (needs the extra `plots`).

        Args:
            ax: Matplotlib axes to draw on; None for a new figure.
            title: Heading of the picture; None for none, "auto" for its own.

        Returns:
            The axes.

        Raises:
            MissingExtra: matplotlib is not installed.
            WrongType: ax is neither axes nor None.
            NotCertified: double precision is not enough for what is drawn.
        """
        raise NotImplementedError


class Rows(Generic[AnyRow]):
    """An answer that is a list of rows."""

    rows: tuple[AnyRow, ...]

    def __iter__(self) -> Iterator[AnyRow]:
        """The rows, one after the other."""
        return iter(self.rows)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)


class NamedRows(Rows[AnyNamed]):
    """An answer whose rows are found by their names."""

    _row_word: ClassVar[str] = "row"
    """What messages call a row."""

    def __getitem__(self, name: str) -> AnyNamed:
        """The row of that name."""
        for row in self.rows:
            if is_among((row.name,), name):
                return row
        names = [row.name for row in self.rows]
        raise KeyError(f"there is no {self._row_word} {name!r}; there are {names}")


class Tabular:
    """An answer with rows: `records` lists them, and the methods here write them elsewhere."""

    def records(self, **asked: Any) -> list[Record]:
        """The rows as dictionaries with the same keys, every digit of their numbers.

        Args:
            **asked: What the answer still has to be asked, such as delta of a sweep.

        Returns:
            One dictionary per row. Keys of bounds end in _lower and _upper.
        """
        raise NotImplementedError

    def to_dataframe(self, **asked: Any) -> Any:
        """The rows as a data frame (needs pandas).

        Args:
            **asked: As of `records`.

        Returns:
            A `pandas.DataFrame`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as missing:
            raise MissingExtra(
                "pandas is needed for a data frame and is not installed: pip install pandas"
            ) from missing
        return pandas.DataFrame(self.records(**asked))

    def to_csv(self, path: str | Path | None = None, **asked: Any) -> str:
        """The rows as comma-separated values, every digit of them.

        Args:
            path: File to write as well; None for none.
            **asked: As of `records`.

        Returns:
            The text, with a line of names first.

        Raises:
            InvalidArgument: The file cannot be written.
            WrongType: path is no path.
        """
        file = None if path is None else free_path_of(path=path)
        rows = self.records(**asked)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        if file is not None:
            try:
                file.write_text(text.getvalue(), "utf-8")
            except OSError as wrong:
                raise InvalidArgument(
                    f"path must be a file that can be written; got {str(file)!r}: {wrong.strerror}."
                ) from wrong
        return text.getvalue()

    def to_latex(self, *, digits: int = DIGITS, **asked: Any) -> str:
        """The rows as a LaTeX table with rules of booktabs; numbers in a few digits, rounded outwards.

        Columns that are empty in every row are left out.

        Args:
            digits: Significant digits, from 1 to 15.
            **asked: As of `records`.

        Returns:
            A tabular environment, to stand in a table of yours.

        Raises:
            InvalidArgument: digits is out of range.
            WrongType: digits is no number.
        """
        shown_digits = count(digits=digits)
        if shown_digits > MOST_DIGITS:
            raise invalid("digits", f"at most {MOST_DIGITS}", shown_digits)
        rows = self.records(**asked)
        names = list(rows[0]) if rows else []
        names = [name for name in names if any(row[name] not in (None, "") for row in rows)]
        numeric = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
        body = [" & ".join(_cell(name, row[name], shown_digits) for name in names) for row in rows]
        lines = [
            rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}",
            r"\toprule",
            " & ".join(_escaped(name.replace("_", " ")) for name in names) + r" \\",
            r"\midrule",
            *(rf"{line} \\" for line in body),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


class NotedTable(Tabular):
    """An answer that is read as a table, with a line above it and notes below it."""

    _texts: ClassVar[int] = 0
    """How many columns, from the left, are texts; the others are numbers."""

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the table."""
        raise NotImplementedError

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Meanings of the columns, and conditions: a label and a sentence each."""
        raise NotImplementedError

    def cells(self) -> list[tuple[str, ...]]:
        """The rows in few digits, rounded outwards.

        Returns:
            For each row a text per heading.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """The subject of the table, in one line.

        Returns:
            What stands above it.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        """The table, with what it is about above it and what it means below it."""
        rows = [self.headings, *self.cells()]
        return "\n".join(
            [
                self.describe(),
                *table_lines(rows, right=range(self._texts, len(self.headings))),
                *(line for label, text in self.notes for line in wrapped(f"{label}: {text}")),
            ]
        )

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        return notebook.table(self.headings, self.cells(), title=self.describe())


def _cell(name: str, value: object, digits: int) -> str:
    """One cell; lower ends are rounded down, upper ends up."""
    if value is None:
        return "--"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _escaped(str(value))
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    if math.isnan(value):
        return "--"
    if isinstance(value, int):
        return f"{value:,}"
    ways = {"lower": ROUND_FLOOR, "upper": ROUND_CEILING}
    way = ways.get(name.rpartition("_")[2], ROUND_HALF_EVEN)
    text = in_digits(value, way, digits)
    mantissa, exponent, power = text.partition("e")
    return rf"${mantissa} \cdot 10^{{{int(power)}}}$" if exponent else text


def _escaped(text: str) -> str:
    return "".join(ESCAPED.get(char, char) for char in text)
