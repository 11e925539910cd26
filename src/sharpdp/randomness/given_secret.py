"""What must be true of a run whose key or seed was given, instead of drawn afresh by the system."""

from __future__ import annotations

__all__ = ["GIVEN_KEY", "SEEDED", "conditions_on"]

GIVEN_KEY = (
    "whoever wants to learn about the data does not know the key that was given, from which all random "
    "draws follow"
)
"""The condition of a run whose key was given."""

SEEDED = (
    "whoever wants to learn about the data does not know the seed or the generator that was given, from "
    "which all random draws follow"
)
"""The condition of a run whose seed or generator was given, which is for tests."""


def conditions_on(secret: object) -> tuple[str, ...]:
    """The condition of a run that was given a key (bytes) or a seed; none if it drew its own (None).

    >>> conditions_on(None), conditions_on(b"k" * 32) == (GIVEN_KEY,), conditions_on(7) == (SEEDED,)
    ((), True, True)
    """
    if secret is None:
        return ()
    return (GIVEN_KEY,) if isinstance(secret, bytes) else (SEEDED,)
