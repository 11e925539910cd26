"""Times of ISO 8601: every form of one moment is one text, the same on all versions of Python."""

from __future__ import annotations

import itertools
import sys
from datetime import datetime, timezone

import pytest

import sharpdp as dp
from sharpdp.budget.moments import moment

DATES = (
    "2026-01-31", "20260131", "2026-W20-1", "2026W201", "2026-W20", "2026W20", "2020-W53-7",
    "9999-12-31", "0001-01-01",
    "2026-02-30", "2026-W54-1", "2026-W00-1", "2026-W20-0", "2026-1-31", "2026-001", "2026-0131",
    "0000-01-01", "2026", "2026-01", "\uff12026-01-31",
)  # fmt: skip
TIMES = (
    "T12", "T12:34", "T12:34:56", "T1234", "T123456", "T12:34:56.5", "T123456,123456",
    "T12:34:56.1234567", " 23:59:59", "t00:00", "_08:30",
    "T24:00", "T25", "T12:60", "T12:34:60", "T12:3456", "T1:00", "T",
)  # fmt: skip
OFFSETS = (
    "",
    "Z",
    "+02:00",
    "-10:00",
    "+0530",
    "+02",
    "+02:00:30",
    "-00:00",
    "+23:59",
    "+24:00",
    "+2",
)


@pytest.mark.parametrize(
    "text",
    [
        "2026-07-01T09:00:00Z",
        "2026-06-30T23:00:00-10:00",
        "20260630T230000-1000",
        "2026-07-01 09:00",
        "2026-07-01T09",
        "2026-W27-3T11:00+02",
        "2026W273T1430+0530",
        "2026-07-01T09:00:00.999Z",
        "2026-07-02T08:59:00,5+23:59",
    ],
)
def test_forms_of_one_moment_are_one_text(text: str) -> None:
    assert moment(time=text) == "2026-07-01T09:00:00Z"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="datetime reads fewer forms before")
def test_what_is_read_is_what_datetime_reads() -> None:
    read = 0
    for date, rest in itertools.product(
        DATES, ["", *map("".join, itertools.product(TIMES, OFFSETS))]
    ):
        try:
            found = moment(time=date + rest)
        except dp.InvalidArgument:
            continue
        expected = datetime.fromisoformat((date + rest).replace("Z", "+00:00"))
        if expected.tzinfo is None:
            expected = expected.replace(tzinfo=timezone.utc)
        utc = expected.astimezone(timezone.utc).replace(microsecond=0, tzinfo=None)
        assert found == f"{utc.isoformat()}Z", date + rest
        read += 1
    # 9 dates are days, 11 times are times of one, and 9 offsets are ones; 15 are beyond all years
    assert read == 9 + 9 * 11 * 9 - 15


@pytest.mark.parametrize(
    "text",
    [
        "yesterday", "", " ", "2026", "2026-13-01", "2026-02-29", "2026-01-31T24:00", "2026-01-31T",
        "2026-01-31T12:34.5", "2026-01-31+02:00", "2026-01-31Z", "0001-01-01T00:00+10:00", "2026-031",
        "9999-12-31T23:59-10:00", "2026-W54-1", "2026-01-31T12:00+24:00", "2026-01-31T12:00+02:60", 5,
        "\u0662026-01-31", "2026-01-31\n",
    ],
)  # fmt: skip
def test_what_is_no_moment_is_refused(text: object) -> None:
    with pytest.raises(dp.InvalidArgument, match="since must be"):
        moment(since=text)


def test_early_years_keep_their_zeros_and_their_place() -> None:
    assert moment(time="0033-04-03") == "0033-04-03T00:00:00Z" < moment(time="0999-01-01")


def test_ends_of_spans_are_rounded_up() -> None:
    for fraction in (".5", ",000001"):
        assert moment(until=f"2026-01-31T23:59:59{fraction}", later=True) == "2026-02-01T00:00:00Z"
    assert moment(until="2026-01-31T23:59:59.000", later=True) == "2026-01-31T23:59:59Z"
    with pytest.raises(dp.InvalidArgument):
        moment(until="9999-12-31T23:59:59.5", later=True)
