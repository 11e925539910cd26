"""Where the function of each command is; only the one that is asked for is imported."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

from sharpdp.cli.views import Reply

__all__ = ["COMMANDS", "command"]

COMMANDS = {
    "account": "privacy_questions",
    "bounds": "catalog",
    "calibrate": "calibrations",
    "cite": "catalog",
    "compare": "comparisons",
    "completion": "completion",
    "compose": "privacy_questions",
    "dpsgd": "privacy_questions",
    "mixture": "mixture_command",
    "renyi": "conversions",
    "report": "documents",
    "samplers": "comparisons",
    "sampled-shuffle": "privacy_questions",
    "schema": "documents",
    "shuffle": "privacy_questions",
    "tradeoff": "privacy_questions",
    "verify": "documents",
}
"""The module of each command, in which a function has its name."""

SAME = {"sampled-shuffle": "shuffle"}
"""Commands whose function has another name."""


def command(name: str) -> Callable[[argparse.Namespace], Reply]:
    """The function of a command: from the parsed command line to a reply.

    >>> command("sampled-shuffle").__name__
    'shuffle'
    """
    module = import_module(f"sharpdp.cli.{COMMANDS[name]}")
    found: Callable[[argparse.Namespace], Reply] = getattr(module, SAME.get(name, name))
    return found
