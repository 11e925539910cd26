"""The exceptions that sharpdp raises on purpose, and nothing else.

::

    SharpDPError (Exception)
    ├── InvalidArgument (ValueError)         an argument is outside what is allowed
    │   └── WrongType (TypeError)            an argument is not even the right kind of thing
    ├── Unsupported (NotImplementedError)    no theorem of sharpdp covers the question
    │   └── Inapplicable                     a theorem or published formula says nothing here
    ├── NotCertified (ArithmeticError)       no number can be given with a proof
    │   └── Undecided                        two brackets overlap, so neither is the smaller
    ├── BudgetExceeded (RuntimeError)        a release would exceed its budget
    ├── Contradiction                        a lower end is above an upper end: a theorem is wrong
    └── MissingExtra (ImportError)           an optional package is not installed

Each one also derives from the built-in exception in parentheses, so code that knows nothing of
sharpdp can catch the familiar one. A contradiction is an alarm, and sharpdp itself catches it nowhere.
The wording of messages about arguments is in ``_validate``.
"""

__all__ = [
    "BudgetExceeded",
    "Contradiction",
    "Inapplicable",
    "InvalidArgument",
    "MissingExtra",
    "NotCertified",
    "SharpDPError",
    "Undecided",
    "Unsupported",
    "WrongType",
]


class SharpDPError(Exception):
    """Every exception that sharpdp raises on purpose."""


class InvalidArgument(SharpDPError, ValueError):
    """An argument is outside what is allowed; the message says what is."""


class WrongType(InvalidArgument, TypeError):
    """An argument is not the right kind of thing: text for a number, an array for a scalar."""


class Unsupported(SharpDPError, NotImplementedError):
    """No theorem of sharpdp covers the question; the message says which ones exist."""


class Inapplicable(Unsupported):
    """A theorem or published formula says nothing about these numbers; the message says why."""


class NotCertified(SharpDPError, ArithmeticError):
    """No number can be given here with a proof, so none is given."""


class Undecided(NotCertified):
    """Two brackets overlap: which quantity is the smaller is not known."""


class Contradiction(SharpDPError):
    """A lower end is above an upper end, so that a theorem or its computation is wrong: please report it.

    The message names both sides with their values, what was asked, and the module of a theorem from
    outside sharpdp, which is then the first suspect. No argument is to blame, and no answer that rests
    on either side should be trusted.
    """


class MissingExtra(SharpDPError, ImportError):
    """An optional package is not installed; the message says what to install."""


class BudgetExceeded(SharpDPError, RuntimeError):
    """A release would exceed its budget and was not counted; the message says by how much."""
