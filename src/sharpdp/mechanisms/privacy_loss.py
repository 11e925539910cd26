"""A mechanism that is known by its privacy-loss distribution: a table of losses and their masses."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sharpdp._validate import (
    LARGEST_SUM_ERROR,
    half_open_probability,
    has_entries,
    invalid,
    is_among,
    nonnegative,
    one_line,
    real,
    short_repr,
)
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import ANY_SAMPLES, Mechanism
from sharpdp.mechanisms.given_name import named_by_author

__all__ = ["ROUNDINGS", "PrivacyLoss"]

ROUNDINGS = ("exact", "pessimistic", "optimistic")
"""What a table can be: the distribution itself, or one that is rounded to either side."""

MOST_LOSSES = 10**6
"""Longer tables are refused; that of a Gaussian in steps of 1e-4 has about 10^5 rows."""

LARGEST_LOSS = 700.0
"""Beyond this e^loss is no double; such masses belong to `mass_at_infinity`."""


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss(Mechanism):
    """A mechanism known by its privacy-loss distribution: the loss log(P/Q) under P, as a table.

    The table stands for two distributions, P with masses ``masses`` and Q with ``mass * e^-loss``.
    Whatever Q then lacks is Q-mass where P has none. So one table answers both directions.

    ``rounding`` says what the table is:

    - "exact": the losses and masses of one pair of distributions, up to the last digits of doubles.
      Both sides of answers are known.
    - "pessimistic": delta of the table is at least the true one, as if losses were rounded up and what
      was cut off moved to infinity. Upper sides only. Rounding up leaves Q with too little, which
      reads as revealed the other way: say ``reverse``, and both tables count at epsilon >= 0 only.
      Without it, the one table must be pessimistic at negative epsilon as well.
    - "optimistic": delta of the table is at most the true one at every real epsilon. Lower sides only.

    A sum of all masses that is off by at most 1e-9 counts as rounding: "exact" divides by it and widens
    both sides by that much, "pessimistic" counts what is missing as revealed.

    Args:
        losses: finite losses, at most 700 in absolute value, in any order; equal ones are added up.
        masses: the probability of each loss under P, at least 0 each.
        mass_at_infinity: the probability under P of an outcome that Q never has, in [0, 1).
        rounding: "exact" (default), "pessimistic" or "optimistic".
        name: the name shown in descriptions, a single line; "unnamed" by default.
        reverse: for a pessimistic table, what bounds the other direction, log(Q/P) under Q: "same" if the
            table bounds both, or another pessimistic table. None (default) reads it off this one.

    Raises:
        InvalidArgument: the masses do not sum to 1, no distribution Q has these losses (mass *
            e^-loss sums to more than 1), a loss or mass is out of range, or the lengths differ.
        WrongType: an argument is not a list of numbers, or not a number.

    >>> import math
    >>> coin = PrivacyLoss(losses=[-math.log(3), math.log(3)], masses=[0.25, 0.75])
    >>> coin.describe()
    'privacy-loss distribution of 2 losses (exact, unnamed)'
    >>> PrivacyLoss(losses=[-1.0], masses=[1.0])
    Traceback (most recent call last):
    sharpdp.errors.InvalidArgument: masses * e^-losses must sum to at most 1, since they are probabilities
    under Q; got 2.71828. Did you exchange P and Q, or losses in bits?
    """

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    mass_at_infinity: float = 0.0
    rounding: str = "exact"
    name: str = "unnamed"
    reverse: PrivacyLoss | str | None = None

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check that the table is that of a pair of laws; sort it and add up equal losses."""
        if not is_among(ROUNDINGS, self.rounding):
            words = ", ".join(repr(word) for word in ROUNDINGS)
            raise invalid("rounding", f"one of {words}", self.rounding)
        one_line(name=self.name)
        self._check_reverse()
        infinite = half_open_probability(
            mass_at_infinity=self.mass_at_infinity, hint="It is a probability under P."
        )
        losses, masses = _losses(self.losses), _masses(self.masses)
        if len(losses) != len(masses):
            raise InvalidArgument(
                f"losses and masses must have equally many entries; got {len(losses)} and {len(masses)}."
            )
        table: dict[float, float] = {}
        for loss, mass in zip(losses, masses, strict=True):
            if mass > 0.0:
                table[loss] = table.get(loss, 0.0) + mass
        self._settle(dict(sorted(table.items())), infinite)

    def _check_reverse(self) -> None:
        if self.reverse is None:
            return
        if self.rounding != "pessimistic":
            raise InvalidArgument(
                f"reverse must be left out of a table that is {self.rounding}; got "
                f"{short_repr(self.reverse)}. Only a pessimistic one does not say what it is."
            )
        is_table = isinstance(self.reverse, PrivacyLoss) and self.reverse.reverse is None
        if not is_table and not is_among(("same",), self.reverse):
            raise invalid("reverse", 'None, "same", or a table without one', self.reverse)
        if isinstance(self.reverse, PrivacyLoss) and self.reverse.rounding != "pessimistic":
            raise invalid("reverse.rounding", '"pessimistic"', self.reverse.rounding)

    def _settle(self, table: dict[float, float], infinite: float) -> None:
        off = math.fsum((*table.values(), infinite, -1.0))  # rounded once: exact where it is tiny
        if abs(off) > LARGEST_SUM_ERROR:
            hint = (
                "What was cut off belongs to mass_at_infinity."
                if off < 0.0
                else "Divide by the sum."
            )
            raise InvalidArgument(
                f"masses and mass_at_infinity must sum to 1; got {1.0 + off:.12g}. {hint}"
            )
        if not table:
            raise InvalidArgument(
                "masses must have a positive entry; got none. Everything would be revealed."
            )
        losses, masses = (np.array(list(column)) for column in (table, table.values()))
        other = math.fsum((masses * np.exp(-losses)).tolist())
        # losses that were rounded down take away from nothing: they make Q too large
        if other > 1.0 + LARGEST_SUM_ERROR and self.rounding != "optimistic":
            raise InvalidArgument(
                "masses * e^-losses must sum to at most 1, since they are probabilities under Q; got "
                f"{other:.6g}. Did you exchange P and Q, or losses in bits?"
            )
        object.__setattr__(self, "losses", tuple(losses.tolist()))
        object.__setattr__(self, "masses", tuple(masses.tolist()))
        object.__setattr__(self, "mass_at_infinity", infinite)

    @classmethod
    def read(
        cls, path: str | Path, *, rounding: str = "exact", reverse: PrivacyLoss | str | None = None
    ) -> PrivacyLoss:
        r"""The distribution in a CSV file: one loss and its mass per line.

        Args:
            path: A text file with two columns separated by commas, after at most one line of titles. The
                loss "inf" is that of `mass_at_infinity`.
            rounding: What the table is, as in `PrivacyLoss`.
            reverse: What bounds the other direction, as in `PrivacyLoss`.

        Returns:
            The distribution, named after the file.

        Raises:
            InvalidArgument: The file cannot be read, a line is not two numbers (the message has its
                number), or no pair of distributions has this table.
            WrongType: path is no path.

        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "coin.csv"
        >>> _ = file.write_text("loss,mass\n0,0.5\ninf,0.5\n")
        >>> PrivacyLoss.read(file).mass_at_infinity
        0.5
        """
        if not isinstance(path, str | Path):
            raise WrongType(f"path must be the name of a CSV file; got {short_repr(path)}.")
        file = Path(path)
        try:
            rows = [row for row in csv.reader(file.read_text("utf-8-sig").splitlines()) if row]
        except (OSError, UnicodeDecodeError, csv.Error) as fault:
            raise InvalidArgument(
                f"path must be a CSV file; got {short_repr(str(file))}: {fault}."
            ) from fault
        if rows and not any(map(_is_number, rows[0])):
            rows = rows[1:]
        infinite: list[float] = []
        table: list[tuple[float, float]] = []
        for index, row in enumerate(rows):
            if len(row) != 2 or not all(map(_is_number, row)):
                raise InvalidArgument(
                    f"{file.name} must have a loss and a mass in every line; got "
                    f"{short_repr(','.join(row))} in row {index + 1} of the table."
                )
            loss, mass = float(row[0]), float(row[1])
            if loss == math.inf:
                infinite.append(mass)
            else:
                table.append((loss, mass))
        return cls(
            losses=tuple(loss for loss, _ in table),
            masses=tuple(mass for _, mass in table),
            mass_at_infinity=math.fsum(infinite),
            rounding=rounding,
            name=file.stem,
            reverse=reverse,
        )

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "privacy-loss distribution"

    def describe(self) -> str:
        """The mechanism in one line."""
        rows = f"{len(self.losses):,} loss{'es' if len(self.losses) > 1 else ''}"
        name = "unnamed" if self.name == "unnamed" else named_by_author(self.name)
        return f"privacy-loss distribution of {rows} ({self.rounding}, {name})"


def _losses(entries: object) -> tuple[float, ...]:
    def loss(name: str, entry: object) -> float:
        number = real(hint="Infinite losses belong to mass_at_infinity.", **{name: entry})
        if abs(number) > LARGEST_LOSS:
            hint = "Larger losses belong to mass_at_infinity."
            raise invalid(name, f"between -{LARGEST_LOSS:g} and {LARGEST_LOSS:g}", number, hint)
        return number

    return tuple(loss(f"losses[{i}]", entry) for i, entry in enumerate(_kept("losses", entries)))


def _masses(entries: object) -> tuple[float, ...]:
    return tuple(
        nonnegative(hint="It is a probability.", **{f"masses[{i}]": entry})
        for i, entry in enumerate(_kept("masses", entries))
    )


def _kept(name: str, entries: object) -> list[object]:
    if not has_entries(entries):
        raise WrongType(f"{name} must be a list of numbers; got {short_repr(entries)}.")
    kept = list(entries)
    if not 1 <= len(kept) <= MOST_LOSSES:
        raise InvalidArgument(
            f"{name} must have 1 to {MOST_LOSSES:,} entries; got {len(kept):,}. "
            "Round a longer table to a grid: losses up for a pessimistic one."
        )
    return kept


def _is_number(word: str) -> bool:
    try:
        return not math.isnan(float(word))
    except ValueError:
        return False
