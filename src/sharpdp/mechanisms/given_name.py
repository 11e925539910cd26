"""Names that authors give to what is known by numbers alone: shown as theirs, in quotation marks."""

from __future__ import annotations

import json

__all__ = ["named_by_author", "quoted"]


def quoted(name: str) -> str:
    r"""The name in quotation marks, which nothing in it can end.

    >>> print(quoted('one "run"'))
    "one \"run\""
    """
    return json.dumps(name, ensure_ascii=False)


def named_by_author(name: str) -> str:
    """The name as a clause that says whose words it is; nothing vouches for them.

    >>> print(named_by_author("DP-SGD"))
    named by its author: "DP-SGD"
    """
    return f"named by its author: {quoted(name)}"
