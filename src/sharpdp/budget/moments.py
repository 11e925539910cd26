"""Times of releases: every form of ISO 8601 is kept as one text in UTC, in the order of its letters."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from sharpdp._validate import invalid, one_line

__all__ = ["moment"]

WANTED = "a date or time of ISO 8601, such as '2026-01-31' or '2026-01-31T12:00:00Z'"

FORM = re.compile(
    r"""(?P<year>\d{4}) (?:
        -(?P<month>\d\d)-(?P<day>\d\d) | (?P<months>\d\d)(?P<days>\d\d)
        | -W(?P<week>\d\d)(?:-(?P<weekday>[1-7]))? | W(?P<weeks>\d\d)(?P<weekdays>[1-7])?
    )
    (?:[Tt_\ ] (?P<hour>\d\d) (?:
        :(?P<minute>\d\d)(?::(?P<second>\d\d)(?P<fraction>[.,]\d+)?)?
        | (?P<minutes>\d\d)(?:(?P<seconds>\d\d)(?P<fractions>[.,]\d+)?)?
    )?
    (?:[Zz] | (?P<sign>[+-])(?P<off_hours>\d\d)
        (?::?(?P<off_minutes>\d\d)(?::?(?P<off_seconds>\d\d))?)?)?
    )?""",
    re.VERBOSE | re.ASCII,
)
"""Calendar and week dates, in the basic or the extended format, with or without a time and its offset.

It is read here and not by `datetime.fromisoformat`, which reads other forms in each version of Python.
"""


def moment(*, later: bool = False, **argument: object) -> str:
    """A time in UTC to the second, as `%Y-%m-%dT%H:%M:%SZ`; None for now.

    A date is its first second; a time without an offset is one in UTC. Fractions of a second are dropped,
    or rounded up if ``later``.

    >>> moment(time="20260131"), moment(time="2026-W20-1 08:30+02:00")
    ('2026-01-31T00:00:00Z', '2026-05-11T06:30:00Z')
    """
    ((name, value),) = argument.items()
    if value is None:
        return _text(datetime.now(timezone.utc))
    found = FORM.fullmatch(one_line(hint="Such as '2026-01-31'.", **{name: value}))
    if found is None:
        raise invalid(name, WANTED, value)
    try:
        local = _local(found)
        if later and (found["fraction"] or found["fractions"] or "").strip(".,0"):
            local += timedelta(seconds=1)
        return _text(local - _offset(found))
    except (ValueError, OverflowError):  # no such day, hour or offset, or before the year 1
        raise invalid(name, WANTED, value) from None


def _local(found: re.Match[str]) -> datetime:
    """The time as written, without its offset."""

    def number(*names: str, otherwise: int = 0) -> int:
        return next((int(found[name]) for name in names if found[name]), otherwise)

    clock = number("hour"), number("minute", "minutes"), number("second", "seconds")
    year = number("year")
    if week := number("week", "weeks", otherwise=-1) + 1:
        day = datetime.fromisocalendar(year, week - 1, number("weekday", "weekdays", otherwise=1))
    else:
        day = datetime(year, number("month", "months"), number("day", "days"))
    return day.replace(hour=clock[0], minute=clock[1], second=clock[2])


def _offset(found: re.Match[str]) -> timedelta:
    """How far the clock is ahead of UTC."""
    if not found["sign"]:
        return timedelta(0)
    hours, minutes, seconds = (
        int(found[name] or 0) for name in ("off_hours", "off_minutes", "off_seconds")
    )
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError
    ahead = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return ahead if found["sign"] == "+" else -ahead


def _text(time: datetime) -> str:
    # strftime leaves out the zeros of early years
    return time.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
