"""Packages that only some parts of sharpdp need: without one, the error says what to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from sharpdp.errors import MissingExtra

__all__ = ["optional_packages"]


@contextmanager
def optional_packages(extra: str, *names: str) -> Iterator[None]:
    """Around imports of packages that an extra of sharpdp brings.

    Args:
        extra: The extra, as pip takes it.
        *names: Its packages, by the names that are imported.

    Raises:
        MissingExtra: one of these packages is not installed.

    >>> with optional_packages("plots", "no_such_package"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    sharpdp.errors.MissingExtra: the package no_such_package is needed here and is not installed: pip
    install "sharpdp[plots]".
    """
    try:
        yield
    except ImportError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in names:
            raise
        raise MissingExtra(
            f"the package {package} is needed here and is not installed: "
            f'pip install "sharpdp[{extra}]".'
        ) from missing
