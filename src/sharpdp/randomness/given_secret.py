"""What must be true of a run whose key or seed was given, instead of drawn afresh by the system."""

from __future__ import annotations

__all__ = ["GIVEN_KEY", "SEEDED"]

GIVEN_KEY = (
    "whoever wants to learn about the data does not know the key that was given, from which batches and "
    "noise follow"
)
"""The condition of a run whose key was given."""

SEEDED = (
    "whoever wants to learn about the data does not know the seed that was given, from which batches "
    "and noise follow"
)
"""The condition of a run whose seed or generator was given, which is for tests."""
