"""Every command and its options. Only the standard library.

Options have the names of the API with dashes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from sharpdp.cli.examples import EXAMPLES
from sharpdp.cli.parser import HelpRequested, Parser, UsageError, number, quoted
from sharpdp.nearest_word import hint

__all__ = ["build", "parsed"]

HELP_COLUMN = 40
"""Where explanations of options start."""

SCHEMES = (
    "poisson (default), deterministic, shuffled, shuffled-once, balls-and-bins, allocation, fixed, "
    "truncated"
)
"""How batches are drawn."""

ADJACENCY = "add/remove, zero-out or replace-one"
PICTURE = "draw {} into this file (.svg, .png, .pdf)"
PROFILE = PICTURE.format("the privacy profile")
PLAN = "what is run, from a TOML or JSON file; options change single values of it"

Group = Any
"""A parser or a group of its options: argparse gives the latter no public name."""


class _Version(argparse.Action):
    """Shows the version, which is kept as the constant of the action."""

    def __call__(self, *_: Any) -> NoReturn:
        raise HelpRequested(str(self.const))


def parsed(words: Sequence[str], version: str) -> argparse.Namespace:
    """The command line as a namespace with `command`, or UsageError."""
    parser, commands = build(version)
    named = [word for word in words if not word.startswith("-")]
    if not words:
        raise UsageError(
            f"{parser.prog}: name a command: {', '.join(commands)}. See sharpdp --help."
        )
    if words[0].startswith("-"):
        parser.check(words[:1])
    if named and named[0] not in commands:
        ask = hint(named[0], commands, f"There are: {', '.join(commands)}.")
        raise UsageError(f"{parser.prog}: there is no command {quoted(named[0])}.{ask}")
    if named:
        commands[named[0]].check(words)
    options = parser.parse_args(words)
    if options.command is None:
        raise UsageError(
            f"{parser.prog}: name a command: {', '.join(commands)}. See sharpdp --help."
        )
    return options


def build(version: str) -> tuple[Parser, dict[str, Parser]]:
    """The parser, and those of its commands by name."""
    parser = Parser(
        prog="sharpdp",
        description="How private is what you run? Certified lower and upper bounds.",
        epilog="Examples and options: sharpdp COMMAND --help",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=HELP_COLUMN),
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, const=f"sharpdp {version}", help="show the version"
    )
    places = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    commands: dict[str, Parser] = {}
    for name, (fact, declare) in _commands().items():
        commands[name] = places.add_parser(
            name,
            help=fact,
            description=f"{fact[0].upper()}{fact[1:]}.",
            epilog=EXAMPLES[name],
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=HELP_COLUMN
            ),
        )
        declare(commands[name])
        _format(commands[name])
        _shorten(commands[name])
    return parser, commands


def _commands() -> dict[str, tuple[str, Callable[[Parser], None]]]:
    """Every command: what it answers, and what declares its options."""
    return {
        "dpsgd": ("epsilon or delta of a DP-SGD run", _dpsgd),
        "samplers": ("what each choice of batches costs", _samplers),
        "shuffle": ("epsilon or delta of shuffled reports", _shuffle),
        "sampled-shuffle": ("shuffle, with users drawn in each round", _shuffle),
        "compose": ("epsilon or delta of mechanisms run in a row", _compose),
        "account": ("epsilon or delta of what a plan file says is run", _account),
        "report": ("a report for a model card, from a plan file", _report),
        "verify": ("whether a report says what its plan gives when computed again", _verify),
        "schema": ("the JSON Schema of plans or of reports", _schema),
        "calibrate": ("the noise, steps or local epsilon for a target", _calibrate),
        "compare": ("every published bound beside ours, or every choice of batches", _compare),
        "tradeoff": ("what an attacker can achieve, with a picture", _tradeoff),
        "mixture": ("a mixture beside what inequalities say of it", _mixture),
        "renyi": ("what Renyi divergences imply, by every conversion", _renyi),
        "bounds": ("every theorem in use: sides, conditions, source", _bounds),
        "cite": ("BibTeX of the sources of some bounds, or of all", _cite),
        "completion": ("a script that completes commands and options", _completion),
    }


def _dpsgd(parser: Parser) -> None:
    _plan(parser)
    _training(parser)
    _question(parser)
    _answer(parser)
    _output(parser, PROFILE)


def _shuffle(parser: Parser) -> None:
    _plan(parser)
    _reports(parser)
    _question(parser)
    _answer(parser)
    _output(parser, PROFILE)


def _samplers(parser: Parser) -> None:
    _plan(parser)
    run = parser.add_argument_group("what is run")
    run.add_argument("--noise-multiplier", type=number, help="noise / clipping norm")
    _split(run)
    parser.add_argument("--delta", type=number, help="compare epsilon at this delta")
    _answer(parser)
    _output(parser, PICTURE.format("the table"))


def _compose(parser: Parser) -> None:
    parser.add_argument(
        "mechanisms", nargs="*", metavar="MECHANISM", help="see below, or a plan file"
    )
    _plan(parser, "what is run first, from a TOML or JSON file")
    _question(parser)
    _answer(parser)
    _output(parser, PROFILE)


def _account(parser: Parser) -> None:
    _place(parser)
    _training(parser)
    _reports(parser)
    _question(parser)
    _answer(parser)
    _output(parser, PROFILE)


def _report(parser: Parser) -> None:
    _place(parser)
    _output(parser, "write it into this file (.txt, .md, .html, .json)")


def _verify(parser: Parser) -> None:
    parser.add_argument("file", metavar="REPORT", help="a report that was written as JSON or HTML")


def _schema(parser: Parser) -> None:
    parser.add_argument("document", metavar="DOCUMENT", help="plan or report")


def _calibrate(parser: Parser) -> None:
    unknown = (
        "noise-multiplier, steps, epochs, sample-rate; local-epsilon, users, rounds, population"
    )
    parser.add_argument("unknown", metavar="UNKNOWN", help=unknown)
    _plan(parser)
    _training(parser)
    _reports(parser)
    target = parser.add_argument_group("the target")
    target.add_argument("--epsilon", type=number, help="target epsilon, with --delta")
    target.add_argument("--delta", type=number, help="target delta, with --epsilon")
    target.add_argument("--advantage", type=number, help="target advantage of the best attack")
    target.add_argument("--tpr", type=number, help="target true-positive rate, with --fpr")
    target.add_argument("--fpr", type=number, help="false-positive rate, with --tpr")
    parser.add_argument("--adjacency", help=ADJACENCY)


def _compare(parser: Parser) -> None:
    parser.add_argument("mechanism", nargs="?", metavar="WHAT", help="see below")
    _plan(parser)
    _training(parser)
    _reports(parser)
    question = parser.add_argument_group("the question")
    question.add_argument("--delta", type=number, help="compare epsilon at this delta")
    question.add_argument("--order", type=number, help="compare Renyi divergences of this order")
    _answer(parser)
    _output(parser, PICTURE.format("all bounds on epsilon"))
    parser.add_argument("--over", help="what it varies: local-epsilon, users, rounds, population")


def _tradeoff(parser: Parser) -> None:
    parser.add_argument(
        "mechanisms", nargs="*", metavar="MECHANISM", help="see sharpdp compose, or a plan file"
    )
    _plan(parser)
    _training(parser)
    _reports(parser)
    parser.add_argument("--fpr", type=number, nargs="+", help="false-positive rates to answer at")
    _answer(parser)
    _output(parser, PICTURE.format("the curve"))


def _mixture(parser: Parser) -> None:
    parser.add_argument("components", nargs="*", metavar="COMPONENT", help="see below")
    _plan(parser, "a Mixture, from a TOML or JSON file")
    parser.add_argument("--weights", type=number, nargs="+", help="probability of each component")
    parser.add_argument(
        "--other-weights", type=number, nargs="+", help="those without the record, if they differ"
    )
    parser.add_argument("--fpr", type=number, nargs="+", help="false-positive rates to answer at")
    parser.add_argument("--epsilon", type=number, nargs="+", help="ask for delta at each epsilon")
    _output(parser, PICTURE.format("all curves"))


def _renyi(parser: Parser) -> None:
    _plan(parser, "a RenyiCurve, from a TOML or JSON file")
    for name, fact in (("--orders", "greater than 1, or inf"), ("--values", "one at each order")):
        parser.add_argument(name, type=number, nargs="+", help=fact)
    parser.add_argument("--delta", type=number, help="ask for epsilon at this delta")
    parser.add_argument("--epsilon", type=number, help="ask for delta at this epsilon")


def _bounds(parser: Parser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="BOUND", help="only these; all if none is named"
    )


def _cite(parser: Parser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="BOUND", help="names as sharpdp bounds has them"
    )


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", help="bash, fish or zsh")


def _place(parser: Parser) -> None:
    """A plan that is named by its place, or by --plan."""
    parser.add_argument("file", nargs="?", metavar="PLAN", help="a TOML or JSON file")
    _plan(parser, "the same, as an option")


def _plan(parser: Parser, fact: str = PLAN) -> None:
    parser.add_argument("--plan", metavar="FILE", help=fact)


def _training(parser: Parser) -> None:
    run = parser.add_argument_group("what is run: DP-SGD")
    run.add_argument("--noise-multiplier", type=number, help="noise / clipping norm")
    run.add_argument("--sample-rate", type=number, help="probability to enter a batch")
    run.add_argument("--steps", type=number, help="batches of the run (allocation: of an epoch)")
    _split(run)
    run.add_argument("--batches", metavar="SCHEME", help=SCHEMES)
    run.add_argument("--participations", type=number, help="allocation: batches of an epoch (1)")
    run.add_argument(
        "--drop-last", action="store_true", default=None, help="shuffled: drop incomplete batches"
    )


def _split(run: Group) -> None:
    run.add_argument("--dataset-size", type=number, help="number of examples")
    run.add_argument("--batch-size", type=number, help="examples of a batch (Poisson: expected)")
    run.add_argument("--epochs", type=number, help="passes over the data")
    run.add_argument("--physical-batch-size", type=number, help="truncated: padded to this size")


def _reports(parser: Parser) -> None:
    run = parser.add_argument_group("what is run: shuffled reports")
    run.add_argument("--users", type=number, help="number of reports that are mixed")
    run.add_argument("--local-epsilon", type=number, help="budget of one report")
    run.add_argument("--rounds", type=number, help="how often everybody reports (1)")
    run.add_argument("--population", type=number, help="users are drawn from so many each round")
    run.add_argument("--randomizer", help="shared (default) or individual")


def _question(parser: Parser) -> None:
    question = parser.add_argument_group("the question")
    question.add_argument("--delta", type=number, nargs="+", help="ask for epsilon at each delta")
    question.add_argument("--epsilon", type=number, nargs="+", help="ask for delta at each epsilon")


def _answer(parser: Parser) -> None:
    parser.add_argument("--adjacency", help=ADJACENCY)
    parser.add_argument("--relative-width", type=number, help="width of the brackets (1e-3)")


def _output(parser: Parser, fact: str) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help=fact)


def _format(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plain", action="store_true", help="plain text, also on a terminal")


def _shorten(parser: Parser) -> None:
    """Short names for values, and a first line that names places only: the list below has the rest."""
    for action in parser._actions:
        if action.option_strings and action.nargs != 0 and action.metavar is None:
            action.metavar = "X" if action.type is number else "WORD"
    places = [str(action.metavar) for action in parser._actions if not action.option_strings]
    parser.usage = " ".join([parser.prog, *places, "[options]"])
