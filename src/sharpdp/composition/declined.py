"""The exception by which an engine of composition says that a question is not for it."""


class Declined(Exception):
    """This engine has no answer to this question; another one may have. Never leaves `curves`."""
