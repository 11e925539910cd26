"""The function of each command: from the parsed command line to a reply."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from sharpdp.cli.calibrations import calibrate
from sharpdp.cli.catalogue import bounds, cite
from sharpdp.cli.comparisons import compare, samplers
from sharpdp.cli.completion import completion
from sharpdp.cli.conversions import renyi
from sharpdp.cli.documents import report
from sharpdp.cli.mixtures import mixture
from sharpdp.cli.questions import account, compose, dpsgd, shuffle, tradeoff
from sharpdp.cli.views import Reply

__all__ = ["COMMANDS"]

COMMANDS: dict[str, Callable[[argparse.Namespace], Reply]] = {
    "account": account,
    "bounds": bounds,
    "calibrate": calibrate,
    "cite": cite,
    "compare": compare,
    "completion": completion,
    "compose": compose,
    "dpsgd": dpsgd,
    "mixture": mixture,
    "renyi": renyi,
    "report": report,
    "samplers": samplers,
    "sampled-shuffle": shuffle,
    "shuffle": shuffle,
    "tradeoff": tradeoff,
}
