"""The words of the command line, and what is said about a wrong one. Only the standard library.

Options have the names of the API with dashes. What they mean is left to `commands`.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from sharpdp.cli.examples import EXAMPLES

__all__ = ["Misuse", "Parser", "build", "nearest", "number", "parsed"]

SYNONYMS: dict[str, tuple[str, ...]] = {
    "--sigma": ("--noise-multiplier",),
    "--q": ("--sample-rate",),
    "--sampling-probability": ("--sample-rate",),
    "--iterations": ("--steps", "--rounds"),
    "--rounds": ("--steps",),
    "--steps": ("--rounds",),
    "--n": ("--dataset-size", "--users"),
    "--clients": ("--users",),
    "--k": ("--users",),
    "--population-size": ("--population",),
    "--eps0": ("--local-epsilon",),
    "--lot-size": ("--batch-size",),
    "--sampler": ("--batches",),
}
"""What other tools call these options; the first one that a command has is meant."""

HELP_COLUMN = 40
"""Where explanations of options start."""

SCHEMES = (
    "poisson (default), deterministic, shuffled, shuffled-once, balls-in-bins, allocation, fixed, "
    "truncated"
)
"""How batches are drawn."""


class Misuse(Exception):
    """A command line that cannot be understood; the message is one sentence about it."""


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence and asks whether a word was meant."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Take -1e-3 for a number, as argparse takes -1 for one: whether it may be is said later."""
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        sentence = message.removeprefix("argument ").replace(": must be", " must be")
        end = "" if sentence.endswith((".", "?")) else "."
        raise Misuse(f"{self.prog}: {sentence}{end}")

    def check(self, words: Iterable[str]) -> None:
        """Refuse a long option that does not exist, before argparse misses another one."""
        known = [word for word in self._option_string_actions if word.startswith("--")]
        for word in words:
            name = word.partition("=")[0]
            if word.startswith("--") and word != "--" and name not in known:
                synonyms = [one for one in SYNONYMS.get(name, ()) if one in known]
                meant = synonyms[0] if synonyms else nearest(name, known)
                ask = f" Did you mean {meant}?" if meant else f" See {self.prog} --help."
                self.error(f"there is no option {name}.{ask}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like the given one, if one is alike at all.

    >>> nearest("dpsdg", ["compose", "dpsgd"])
    'dpsgd'
    """
    every = list(known)
    begun = [one for one in every if one.startswith(word)]
    found = begun or difflib.get_close_matches(word, every, n=1)
    return found[0] if found else None


def number(text: str) -> int | float:
    """The number that a text spells.

    >>> number("1000"), number("1e-5")
    (1000, 1e-05)
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}.") from None


def parsed(words: Sequence[str], version: str) -> argparse.Namespace:
    """The command line as a namespace with `command`, or Misuse."""
    parser, commands = build(version)
    named = [word for word in words if not word.startswith("-")]
    if not words:
        raise Misuse(f"{parser.prog}: name a command: {', '.join(commands)}. See sharpdp --help.")
    if words[0].startswith("-"):
        parser.check(words[:1])
    if named and named[0] not in commands:
        meant = nearest(named[0], commands)
        ask = f"Did you mean {meant}?" if meant else f"There are: {', '.join(commands)}."
        raise Misuse(f"{parser.prog}: there is no command {named[0]!r}. {ask}")
    if named:
        commands[named[0]].check(words)
    return parser.parse_args(words)


def build(version: str) -> tuple[Parser, dict[str, Parser]]:
    """The parser, and those of its commands by name."""
    parser = Parser(
        prog="sharpdp",
        description="How private is what you run? Certified lower and upper bounds.",
        epilog="Examples and options: sharpdp COMMAND --help",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=HELP_COLUMN),
    )
    parser.add_argument("--version", action="version", version=f"sharpdp {version}")
    places = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    commands: dict[str, Parser] = {}

    for name, (fact, declare) in _commands().items():
        commands[name] = places.add_parser(
            name,
            help=fact,
            description=f"{fact[0].upper()}{fact[1:]}.",
            epilog=EXAMPLES.get(name, ""),
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=HELP_COLUMN
            ),
        )
        declare(commands[name])
    return parser, commands


def _commands() -> dict[str, tuple[str, Callable[[Parser], None]]]:
    """Every command: what it answers, and what declares its options."""
    return {
        "dpsgd": ("epsilon or delta of a DP-SGD run", _dpsgd),
        "samplers": ("what each choice of batches costs", _samplers),
        "shuffle": ("epsilon or delta of shuffled reports", _shuffle),
        "sampled-shuffle": ("shuffle, with users drawn in each round", _sampled),
        "compose": ("epsilon or delta of mechanisms run in a row", _compose),
        "account": ("epsilon of what a plan file says is run", _account),
        "report": ("a report for a model card, from a plan file", _report),
        "calibrate": ("the noise, steps or local epsilon for a target", _calibrate),
        "compare": ("every published bound beside ours, in a table", _compare),
        "tradeoff": ("what an attacker can achieve, with a picture", _tradeoff),
        "mixture": ("a mixture beside what inequalities say of it", _mixture),
        "renyi": ("what Renyi divergences imply, by every conversion", _renyi),
        "bounds": ("every theorem in use: sides, conditions, source", _bounds),
        "cite": ("BibTeX of the sources of some bounds, or of all", _cite),
        "completion": ("a script that completes commands and options", _completion),
    }


def _dpsgd(parser: Parser) -> None:
    _training(parser)
    _question(parser)
    _answer(parser)
    _output(parser, "draw the privacy profile into this file (.svg, .png, .pdf)")


def _shuffle(parser: Parser) -> None:
    _reports(parser)
    _question(parser)
    _answer(parser)
    _output(parser, "draw the privacy profile into this file (.svg, .png, .pdf)")


def _compose(parser: Parser) -> None:
    parser.add_argument("mechanisms", nargs="+", metavar="MECHANISM", help="see below")
    _question(parser)
    _answer(parser)
    _output(parser, "draw the privacy profile into this file (.svg, .png, .pdf)")


def _calibrate(parser: Parser) -> None:
    unknown = (
        "noise-multiplier, steps, epochs, sample-rate; local-epsilon, users, rounds, population"
    )
    parser.add_argument("unknown", metavar="UNKNOWN", help=unknown)
    _training(parser)
    _reports(parser)
    parser.add_argument("--epsilon", type=number, help="target epsilon, with --delta")
    parser.add_argument("--delta", type=number, help="target delta, with --epsilon")
    parser.add_argument("--advantage", type=number, help="target advantage of the best attack")
    parser.add_argument("--tpr", type=number, help="target true-positive rate, with --fpr")
    parser.add_argument("--fpr", type=number, help="false-positive rate, with --tpr")
    parser.add_argument("--adjacency", help="add/remove, zero-out or replace-one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _compare(parser: Parser) -> None:
    parser.add_argument("mechanism", metavar="MECHANISM", help="see below")
    _reports(parser)
    _training(parser)
    parser.add_argument("--delta", type=number, help="compare epsilon at this delta")
    parser.add_argument("--order", type=number, help="compare Renyi divergences of this order")
    parser.add_argument("--adjacency", help="add/remove, zero-out or replace-one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _output(parser, "draw all bounds on epsilon into this file (.svg, .png, .pdf)")
    parser.add_argument("--over", help="what it varies: local-epsilon, users, rounds, population")


def _renyi(parser: Parser) -> None:
    for name, fact in (("--orders", "greater than 1, or inf"), ("--values", "one at each order")):
        parser.add_argument(name, type=number, nargs="+", required=True, help=fact)
    parser.add_argument("--delta", type=number, help="ask for epsilon at this delta")
    parser.add_argument("--epsilon", type=number, help="ask for delta at this epsilon")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _mixture(parser: Parser) -> None:
    parser.add_argument("components", nargs="+", metavar="COMPONENT", help="see below")
    parser.add_argument("--weights", type=number, nargs="+", help="probability of each component")
    parser.add_argument(
        "--other-weights", type=number, nargs="+", help="those without the record, if they differ"
    )
    parser.add_argument("--fpr", type=number, nargs="+", help="false-positive rates to answer at")
    parser.add_argument("--epsilon", type=number, nargs="+", help="ask for delta at each epsilon")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _output(parser, "draw all curves into this file (.svg, .png, .pdf)")


def _sampled(parser: Parser) -> None:
    _shuffle(parser)
    next(one for one in parser._actions if one.dest == "population").required = True


def _account(parser: Parser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="a TOML or JSON file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _report(parser: Parser) -> None:
    _account(parser)
    _output(parser, "write it into this file (.txt, .md, .html, .json)")


def _bounds(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _cite(parser: Parser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="BOUND", help="names as sharpdp bounds has them"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", help="bash, fish or zsh")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _tradeoff(parser: Parser) -> None:
    parser.add_argument("mechanisms", nargs="*", metavar="MECHANISM", help="see sharpdp compose")
    _training(parser)
    parser.add_argument("--fpr", type=number, nargs="+", help="false-positive rates to answer at")
    _answer(parser)
    _output(parser, "draw the curve into this file (.svg, .png, .pdf)")


def _reports(parser: Parser) -> None:
    parser.add_argument("--users", type=number, help="number of reports that are mixed")
    parser.add_argument("--local-epsilon", type=number, help="budget of one report")
    parser.add_argument("--rounds", type=number, help="how often everybody reports (1)")
    parser.add_argument("--population", type=number, help="users are drawn from so many each round")
    parser.add_argument("--randomizer", help="shared (default) or individual")


def _training(parser: Parser) -> None:
    parser.add_argument("--noise-multiplier", type=number, help="noise / clipping norm")
    parser.add_argument("--sample-rate", type=number, help="probability to enter a batch")
    parser.add_argument("--steps", type=number, help="batches of the run (allocation: of an epoch)")
    _split(parser)
    parser.add_argument("--batches", metavar="SCHEME", help=SCHEMES)
    parser.add_argument("--participations", type=number, help="allocation: batches of an epoch (1)")
    parser.add_argument("--left-over", help="shuffled: 'last batch' (default) or dropped")


def _split(parser: Parser) -> None:
    parser.add_argument("--dataset-size", type=number, help="number of examples")
    parser.add_argument("--batch-size", type=number, help="examples of a batch (Poisson: expected)")
    parser.add_argument("--epochs", type=number, help="passes over the data")
    parser.add_argument("--physical-batch-size", type=number, help="truncated: padded to this size")


def _samplers(parser: Parser) -> None:
    parser.add_argument("--noise-multiplier", type=number, help="noise / clipping norm")
    _split(parser)
    parser.add_argument("--delta", type=number, help="compare epsilon at this delta")
    _answer(parser)
    _output(parser, "draw the table into this file (.svg, .png, .pdf)")


def _question(parser: Parser) -> None:
    parser.add_argument("--delta", type=number, nargs="+", help="ask for epsilon at each delta")
    parser.add_argument("--epsilon", type=number, nargs="+", help="ask for delta at each epsilon")


def _answer(parser: Parser) -> None:
    parser.add_argument("--adjacency", help="add/remove, zero-out or replace-one")
    parser.add_argument("--relative-width", type=number, help="width of the brackets (1e-3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _output(parser: Parser, fact: str) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help=fact)
