"""Every command: what it answers, its options and its examples. Only the standard library.

Options have the names of the API with dashes. The function of a command is imported when it is run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sharpdp.cli.parser import HelpRequested, Parser, UsageError, Varied, cut, flag, number, quoted
from sharpdp.cli.runs import RANDOMIZERS, SCHEMES
from sharpdp.cli.views import Reply
from sharpdp.display.nearest_word import hint

__all__ = ["COMMANDS", "command_parser", "completion_parser", "function_of", "overview", "parsed"]

REMOVED = {
    "compose": "sharpdp account",
    "mixture": "sharpdp compare mixture",
    "renyi": "sharpdp compare conversions",
    "sampled-shuffle": "sharpdp shuffle --population",
    "samplers": "sharpdp compare samplers",
}
"""Commands of earlier versions, and what to write instead."""

HEADER = {
    "project": "name of the project, product or model",
    "data-set": "name and version of the data",
    "version": "version of the model or release",
    "owner": "team or organization that publishes it",
    "contact": "address for questions",
    "date": "date of the report (none)",
    "reviewer": "who reviewed it, or is to sign it",
}
"""What a report can say about itself."""

RUNS = """\
  plan.toml            a plan file (TOML or JSON); - reads JSON from standard input
  "NAME KEY=VALUE"     a mechanism, in quotes; sharpdp help account lists them
  dpsgd, shuffle       with the options of that command"""
"""How a command line says what is run."""


@dataclass(frozen=True)
class Command:
    """One command: its group in the list, what it answers, its options, and a text with examples."""

    group: str
    summary: str
    declare: Callable[[Parser], None]
    examples: str


def parsed(words: Sequence[str], version: str) -> argparse.Namespace:
    """The command line as a namespace with `command`, or UsageError, or HelpRequested."""
    if list(words) == ["--version"]:
        raise HelpRequested(f"sharpdp {version}")
    if words and words[0] == "help":
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help"):
        raise HelpRequested(overview())
    name, *options = words
    if name not in COMMANDS:
        raise UsageError(_unknown(name))
    parser = command_parser(name)
    parser.check(options)
    parser.shown_run = _shown_run(parser, options)
    return parser.parse_args(options, argparse.Namespace(command=name))


def overview() -> str:
    """The list of commands, by what they are for."""
    lines = [
        "usage: sharpdp COMMAND [options]",
        "",
        "How private is what you run? Certified lower and upper bounds.",
    ]
    groups = {
        "ask": "how private is this run?",
        "choose": "which parameters, which batches, which bound?",
        "document": "what to publish, and whether it is true",
        "explore": "pictures, theorems, and completion in a shell",
    }
    for group, question in groups.items():
        lines += ["", f"{group}: {question}"]
        lines += [
            f"  {name:<12}{command.summary}"
            for name, command in COMMANDS.items()
            if command.group == group
        ]
    return "\n".join(
        [
            *lines,
            "",
            "Several values of an option (--noise-multiplier 0.6 0.8 1) ask for each of them.",
            "Options and examples of a command: sharpdp help COMMAND",
        ]
    )


def command_parser(name: str) -> Parser:
    """The parser of one command."""
    return _declared(Parser(prog=f"sharpdp {name}"), name)


def completion_parser() -> argparse.ArgumentParser:
    """One parser with a subparser for each command, from which completion scripts are made."""
    parser = argparse.ArgumentParser("sharpdp")
    parser.add_argument("--version", action="store_true", help="show the version")
    commands = parser.add_subparsers(dest="command", parser_class=Parser)
    for name, command in COMMANDS.items():
        _declared(commands.add_parser(name, help=command.summary), name)
    commands.add_parser("help", help="the options and examples of a command").add_argument(
        "about", metavar="COMMAND", choices=list(COMMANDS)
    )
    return parser


def function_of(name: str) -> Callable[[argparse.Namespace], Reply]:
    """The function of a command: from the parsed command line to a reply.

    >>> function_of("compare").__module__
    'sharpdp.cli.choose'
    """
    group = COMMANDS[name].group
    own = {"ledger": "ledger_command"}.get(name, "document" if group == "explore" else group)
    module = import_module(f"sharpdp.cli.{own}")
    function: Callable[[argparse.Namespace], Reply] = getattr(module, name)
    return function


def _unknown(name: str) -> str:
    """A sentence about a word that is no command."""
    if name.startswith("-"):
        if any(name in command_parser(word)._option_string_actions for word in COMMANDS):
            return f"{name} comes after a command. See sharpdp --help."
        ask = hint(name, ["--help", "--version"], "See sharpdp --help.")
        return f"there is no option {cut(name)}.{ask}"
    if name in REMOVED:
        return f"sharpdp {name} is now {REMOVED[name]}."
    ask = hint(name, COMMANDS, f"There are: {', '.join(COMMANDS)}.")
    return f"there is no command {quoted(name)}.{ask}"


def _shown_run(parser: Parser, words: Sequence[str]) -> str | None:
    """The kind of run whose options the help shows: that of the first word that names one."""
    for word in words:
        for name, group in parser.runs.items():
            options = {
                option for action in group._group_actions for option in action.option_strings
            }
            if word in (name, "samplers" if name == "dpsgd" else name) or flag(word) in options:
                return name
    return None


def _declared(parser: Parser, name: str) -> Parser:
    """The parser with the options, the description and the examples of a command."""
    command = COMMANDS[name]
    parser.description = f"{command.summary[0].upper()}{command.summary[1:]}."
    parser.epilog = command.examples
    command.declare(parser)
    if command.group != "document" and name not in ("completion", "explore"):
        text = "add all theorems, with conditions and sources in full"
        parser.add_argument("--details", action="store_true", help=text)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    if command.group in ("ask", "choose"):
        parser.add_argument("--csv", action="store_true", help="print comma-separated values")
    parser.add_argument("--plain", action="store_true", help="no color and no drawing")
    metavars = [
        f"[{action.metavar} ...]" if action.nargs == "*" else str(action.metavar)
        for action in parser._actions
        if not action.option_strings
    ]
    parser.usage = " ".join([parser.prog, *metavars, "[options]"])
    return parser


def _numbers(group: Any, *options: tuple[str, str, str], many: bool = False) -> None:
    """Options that take a number, or several, each with its kind and its help."""
    settings = {"nargs": "+"} if many else {}
    for name, metavar, text in options:
        group.add_argument(name, type=number, metavar=metavar, help=text, **settings)


def _varied(group: Any, *options: tuple[str, str, str]) -> None:
    """Options that take a number, or several of them for a sweep."""
    for name, metavar, text in options:
        group.add_argument(name, action=Varied, type=number, metavar=metavar, help=text)


def _dpsgd(parser: Parser) -> None:
    _plan(parser)
    _training(parser)
    _question(parser)


def _shuffle(parser: Parser) -> None:
    _plan(parser)
    _reports(parser)
    _question(parser)


def _account(parser: Parser) -> None:
    _run(parser)
    _question(parser)


def _tradeoff(parser: Parser) -> None:
    _run(parser)
    _numbers(parser, ("--fpr", "PROB", "false-positive rates to answer at"), many=True)
    _answer(parser, "the trade-off curve")


def _risk(parser: Parser) -> None:
    _run(parser)
    _varied(
        parser.add_argument_group("question"),
        ("--prior", "PROB", "probability of one data set, or share of members, beforehand (0.5)"),
        ("--fpr", "PROB", "false-positive rate of the attack (0.001)"),
        ("--baseline", "PROB", "chance of guessing the secret without the release (0.1)"),
        ("--candidates", "INT", "equally likely candidates for one record (100)"),
        ("--records", "INT", "records that are attacked (the size of the data set)"),
    )
    _answer(parser, "success against chance")


def _calibrate(parser: Parser) -> None:
    parser.add_argument("unknown", metavar="UNKNOWN")
    _plan(parser)
    _training(parser)
    _reports(parser)
    _varied(
        parser.add_argument_group("target"),
        ("--epsilon", "FLOAT", "target epsilon, with --delta"),
        ("--delta", "PROB", "target delta, with --epsilon"),
        ("--advantage", "PROB", "target advantage of the best attack"),
        ("--tpr", "PROB", "target true-positive rate, with --fpr"),
        ("--fpr", "PROB", "false-positive rate, with --tpr"),
        ("--mu", "FLOAT", "target mu of Gaussian DP"),
    )
    _adjacency(parser)


def _design(parser: Parser) -> None:
    collection = parser.add_argument_group("data collection")
    _varied(
        collection,
        ("--users", "INT", "users who are asked in each round"),
        ("--rounds", "INT", "rounds in which the same users are asked (1)"),
        ("--categories", "INT", "possible answers (2)"),
    )
    _numbers(
        collection,
        ("--local-epsilon", "FLOAT", "local epsilons to compare (0.5 1 2 3 4 5)"),
        many=True,
    )
    _varied(
        collection,
        ("--drop-outs", "PROB", "share of users who do not report, or not honestly (0.05)"),
    )
    _varied(
        parser,
        ("--delta", "PROB", "state epsilon at this delta (1e-6 or 0.1 / users, rounded down)"),
    )
    _numbers(parser, ("--relative-width", "FLOAT", "relative width of the brackets (1e-3)"))
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="draw epsilon and error (.svg, .png, .pdf)"
    )


def _compare(parser: Parser) -> None:
    _run(parser, "WHAT")
    mixture = parser.add_argument_group("mixture")
    _numbers(
        mixture,
        ("--weights", "PROB", "probability of each component"),
        ("--other-weights", "PROB", "probabilities without the record, if they differ"),
        ("--fpr", "PROB", "compare false-negative rates at these false-positive rates"),
        many=True,
    )
    renyi = parser.add_argument_group("Renyi divergences")
    _numbers(
        renyi,
        ("--orders", "FLOAT", "orders, greater than 1 or inf"),
        ("--values", "FLOAT", "divergence at each order"),
        many=True,
    )
    parser.runs |= {"mixture": mixture, "conversions": renyi}
    question = parser.add_argument_group("question")
    _varied(
        question,
        ("--delta", "PROB", "compare epsilon at this delta"),
        ("--order", "FLOAT", "compare Renyi divergences of this order"),
    )
    _numbers(
        question,
        ("--epsilon", "FLOAT", "mixture, conversions: compare delta at this epsilon"),
        many=True,
    )
    _answer(parser, "the comparison")
    parser.add_argument(
        "--over",
        metavar="WORD",
        help="what the drawing varies: local-epsilon (default), users, rounds or population",
    )


def _report(parser: Parser) -> None:
    _run(parser)
    _numbers(parser, ("--delta", "PROB", "report epsilon at each delta"), many=True)
    _answer(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write it to this file (.txt, .md, .html, .json)"
    )
    parser.add_argument(
        "--format",
        metavar="WORD",
        help="text (default), markdown, html, json, model-card (.md) or registry (.yaml)",
    )
    parser.add_argument(
        "--sha256", action="store_true", help="also write the hash of the file, to FILE.sha256"
    )
    parser.add_argument(
        "--audit", metavar="TABLE", help="add what an audit of these scores or batches finds"
    )
    header = parser.add_argument_group("header, also as [header] of a plan")
    for name, text in HEADER.items():
        header.add_argument(f"--{name}", metavar="TEXT", help=text)


def _verify(parser: Parser) -> None:
    parser.add_argument("files", metavar="REPORT", nargs="+")


def _audit(parser: Parser) -> None:
    parser.add_argument("file", metavar="TABLE")
    parser.add_argument(
        "--plan", metavar="FILE", help="the plan that is tested: a file (TOML or JSON)"
    )
    _numbers(
        parser,
        (
            "--confidence",
            "PROB",
            "confidence of each lower end, and that a true plan passes (0.99)",
        ),
        ("--delta", "PROB", "delta at which epsilon is bounded (1e-5)"),
    )
    parser.add_argument(
        "--design", metavar="WORD", help='how canaries were drawn: coins, choices, "fixed size"'
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="draw the error rates (.svg, .png, .pdf)"
    )


def _ledger(parser: Parser) -> None:
    parser.add_argument("action", metavar="ACTION")
    parser.add_argument("file", metavar="LEDGER")
    parser.add_argument("release", nargs="*", metavar="RELEASE")
    budget = parser.add_argument_group("budget, for init")
    _numbers(
        budget,
        ("--epsilon", "FLOAT", "budget, with --delta"),
        ("--delta", "PROB", "delta of the budget"),
    )
    budget.add_argument(
        "--choice",
        metavar="WORD",
        help="how releases are chosen: adaptive (default), or fixed, which is in advance of all results",
    )
    budget.add_argument("--unit", metavar="WORD", help="what is protected, such as person (record)")
    _numbers(budget, ("--order", "FLOAT", "adaptive: order of the Renyi filter"))
    budget.add_argument(
        "--expected",
        nargs="+",
        metavar="PLAN",
        help="adaptive: a plan, report or mechanisms to set aside, which then cost no more than alone",
    )
    budget.add_argument(
        "--cohorts", nargs="+", metavar="NAME", help="all cohorts; any other one needs --new-cohort"
    )
    parser.add_argument(
        "--adjacency", metavar="WORD", help="add/remove, zero-out or replace-one neighbors"
    )
    release = parser.add_argument_group("release, for add and would-exceed")
    release.add_argument("--note", metavar="TEXT", help="what it is for, in one line")
    release.add_argument("--cohort", metavar="NAME", help="the disjoint group whose data it uses")
    release.add_argument(
        "--new-cohort",
        action="store_true",
        default=None,
        help="the cohort is a new one, although its name is like that of another",
    )
    _numbers(release, ("--group-size", "INT", "records that one unit has in it (1)"))
    release.add_argument(
        "--time", metavar="DATE", help="when it was made, in UTC unless it has an offset (now)"
    )
    release.add_argument("--key", metavar="NAME", help="count a release of this name only once")
    release.add_argument(
        "--again",
        action="store_true",
        default=None,
        help="the plan of a file is in the ledger, and this is a second run of it",
    )
    release.add_argument(
        "--despite-budget",
        action="store_true",
        default=None,
        help="count what has been released although it exceeds the budget",
    )
    total = parser.add_argument_group("total")
    total.add_argument("--since", metavar="DATE", help="releases from this time on")
    total.add_argument("--until", metavar="DATE", help="releases before this time")
    total.add_argument(
        "--checkpoint", action="store_true", default=None, help="write the total into the ledger"
    )


def _schema(parser: Parser) -> None:
    parser.add_argument("document", metavar="DOCUMENT")


def _explore(parser: Parser) -> None:
    parser.add_argument(
        "--port", type=number, default=8765, metavar="PORT", help="port; 0 for any free one (8765)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def _bounds(parser: Parser) -> None:
    parser.add_argument("names", nargs="*", metavar="BOUND")
    parser.add_argument("--bibtex", action="store_true", help="the BibTeX entries of their sources")


def _cite(parser: Parser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME")


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL")


def _run(parser: Parser, metavar: str = "RUN") -> None:
    parser.add_argument("run", nargs="*", metavar=metavar)
    _plan(parser)
    _training(parser)
    _reports(parser)


def _plan(parser: Parser) -> None:
    parser.add_argument(
        "--plan", metavar="FILE", help="a plan file (TOML or JSON); options change values in it"
    )


def _training(parser: Parser) -> None:
    run = parser.add_argument_group("DP-SGD run")
    parser.runs["dpsgd"] = run
    _varied(
        run,
        ("--noise-multiplier", "FLOAT", "standard deviation of the noise / clipping norm"),
        ("--sample-rate", "PROB", "probability that an example enters a batch"),
        ("--steps", "INT", "number of batches (allocation: per epoch)"),
        ("--dataset-size", "INT", "number of examples"),
        ("--batch-size", "INT", "examples per batch (Poisson: expected)"),
        ("--epochs", "INT", "passes over the data"),
    )
    first, *others, last = SCHEMES
    schemes = f"{first} (default), {', '.join(others)} or {last}"
    run.add_argument("--batches", action=Varied, metavar="SCHEME", help=schemes)
    _varied(
        run,
        ("--participations", "INT", "allocation: batches per epoch that an example enters (1)"),
        ("--cycle-length", "INT", "cyclic-poisson: groups of examples that take turns"),
        ("--buffer-size", "INT", "buffered: slots of the shuffle buffer"),
        ("--physical-batch-size", "INT", "truncated: size to which batches are cut or padded"),
    )
    _numbers(run, ("--example-weights", "FLOAT", "weighted-poisson: one per example"), many=True)
    run.add_argument(
        "--drop-last",
        action="store_true",
        default=None,
        help="shuffled: drop the last, incomplete batch of an epoch",
    )
    _varied(run, ("--left-out", "INT", "shuffled: random examples that sit out each epoch (0)"))


def _reports(parser: Parser) -> None:
    run = parser.add_argument_group("shuffled reports")
    parser.runs["shuffle"] = run
    _varied(
        run,
        ("--users", "INT", "users who report in each round"),
        ("--local-epsilon", "FLOAT", "local epsilon of one report"),
        ("--rounds", "INT", "number of rounds (1)"),
        ("--population", "INT", "population from which each round's users are sampled"),
    )
    first, *others, last = RANDOMIZERS
    randomizers = (
        f"{first} (default), {', '.join(others)}, {last}, local-gaussian:NOISE (values of [0, 1]), "
        "gaussian:NOISE (vectors) or approximate-dp:EPSILON:DELTA"
    )
    run.add_argument("--randomizer", action=Varied, metavar="WORD", help=randomizers)
    _varied(run, ("--categories", "INT", "randomized-response: possible answers (2)"))


def _question(parser: Parser) -> None:
    _numbers(
        parser.add_argument_group("question"),
        ("--delta", "PROB", "ask for epsilon at each delta"),
        ("--epsilon", "FLOAT", "ask for delta at each epsilon"),
        many=True,
    )
    _answer(parser, "the privacy profile")


def _adjacency(parser: Parser) -> None:
    text = "add/remove, zero-out or replace-one neighbors"
    parser.add_argument("--adjacency", action=Varied, metavar="WORD", help=text)
    _varied(parser, ("--group-size", "INT", "in how many records neighbors differ (1)"))


def _answer(parser: Parser, drawing: str = "") -> None:
    _adjacency(parser)
    _numbers(parser, ("--relative-width", "FLOAT", "relative width of the brackets (1e-3)"))
    if drawing:
        parser.add_argument(
            "-o", "--output", metavar="FILE", help=f"draw {drawing} (.svg, .png, .pdf)"
        )


COMMANDS = {
    "dpsgd": Command(
        "ask",
        "epsilon or delta of a DP-SGD run",
        _dpsgd,
        """\
examples:
  sharpdp dpsgd --noise-multiplier 1 --sample-rate 0.01 --steps 1000 --delta 1e-5 1e-6
  sharpdp dpsgd --noise-multiplier 0.8 --dataset-size 60000 --batch-size 512 --epochs 30 \\
      --batches balls-and-bins --delta 1e-5 --json
  sharpdp dpsgd --noise-multiplier 0.6 0.8 1 --sample-rate 0.01 --steps 1000 --delta 1e-5 --csv
  sharpdp dpsgd --noise-multiplier 1 --sample-rate 0.01 --steps 1000 --epsilon 1 -o profile.svg
  sharpdp dpsgd --plan plan.toml --noise-multiplier 1.2 --delta 1e-5
""",
    ),
    "shuffle": Command(
        "ask",
        "epsilon or delta of shuffled reports",
        _shuffle,
        """\
examples:
  sharpdp shuffle --users 10000 --local-epsilon 4 --delta 1e-6
  sharpdp shuffle --users 10000 --local-epsilon 1 --rounds 100 --delta 1e-6
  sharpdp shuffle --users 10000 --local-epsilon 1 2 4 --rounds 1 10 --delta 1e-6
  sharpdp shuffle --users 1000 --local-epsilon 3 --population 1000000 --rounds 10000 --delta 1e-8
  sharpdp shuffle --users 10000 --local-epsilon 4 --randomizer randomized-response --categories 8 \\
      --delta 1e-6
  sharpdp shuffle --users 300 --local-epsilon 2 --epsilon 0.5 -o profile.svg
  sharpdp shuffle --users 10000 --randomizer local-gaussian:2 --delta 1e-6
  sharpdp shuffle --plan reports.toml --rounds 10
""",
    ),
    "account": Command(
        "ask",
        "epsilon or delta of a plan file, or of a sequence of mechanisms",
        _account,
        f"""\
RUN says what is run; several are run one after the other:
{RUNS}

A mechanism is its name, its parameters, and how often it is run, NAME KEY=VALUE ... [x COUNT]:
  gaussian             noise_multiplier=                     sensitivity 1
  laplace              scale=                                sensitivity 1
  randomized-response  local_epsilon= [categories=2]
  pure-dp              epsilon=                              any epsilon-DP mechanism
  approximate-dp       epsilon= delta=                       any (epsilon, delta)-DP mechanism
  finite-pair          p=0.5,0.5 q=0.25,0.75                 two pmfs on the same points
  dpsgd                noise_multiplier= sample_rate= steps= or dataset_size= batch_size= epochs=
                       [batches=poisson] and what the scheme takes
  same-batches         noise_multipliers=1.5,30 and what dpsgd takes: queries on the same batches
  correlated           noise_multiplier= coefficients=1,0.5,0.375 batches= and what the scheme takes
  shuffle              users= local_epsilon= [rounds=1] [population=] [randomizer=shared]
                       [categories=2], for randomizer=randomized-response

A plan describes a run in the words of the API, and the deltas at which to report epsilon:
  delta = [1e-5, 1e-6]
  [mechanism]
  kind = "DPSGD"
  noise_multiplier = 0.8
  [mechanism.batches]
  kind = "ShuffledBatches"
  dataset_size = 60000
  batch_size = 512
  epochs = 30
Options override single values. The output of any command with --json is a plan, too.

examples:
  sharpdp account plan.toml
  sharpdp account plan.toml --noise-multiplier 1 --epsilon 4
  sharpdp account "gaussian noise_multiplier=2 x 10" "laplace scale=1" --delta 1e-5
  sharpdp account plan.toml "laplace scale=10" --delta 1e-4
  sharpdp shuffle --users 1000 --local-epsilon 1 --delta 1e-6 --json | sharpdp account -
""",
    ),
    "tradeoff": Command(
        "ask",
        "what an attacker can achieve: error rates and advantage",
        _tradeoff,
        f"""\
RUN says what is run; several are run one after the other:
{RUNS}
(sharpdp help tradeoff dpsgd lists these options)

examples:
  sharpdp tradeoff --noise-multiplier 1 --sample-rate 0.01 --steps 1000 -o curve.svg
  sharpdp tradeoff "laplace scale=1 x 20" --fpr 0.001 0.01
  sharpdp tradeoff shuffle --users 1000 --local-epsilon 2
  sharpdp tradeoff plan.toml --fpr 0.001
""",
    ),
    "risk": Command(
        "ask",
        "what an attacker can do, in plain words: guesses, accusations, secrets",
        _risk,
        f"""\
RUN says what is run; several are run one after the other:
{RUNS}
(sharpdp help risk dpsgd lists these options)

--details says what each number assumes.

examples:
  sharpdp risk --noise-multiplier 1 --sample-rate 0.01 --steps 1000
  sharpdp risk plan.toml --baseline 0.02 --candidates 500 -o risk.svg
  sharpdp risk "gaussian noise_multiplier=2" --prior 0.01 --fpr 0.0001 --records 60000
""",
    ),
    "calibrate": Command(
        "choose",
        "the noise, steps, users or local epsilon that meet a target",
        _calibrate,
        """\
UNKNOWN is one of
  noise-multiplier, steps, epochs, sample-rate         of a DP-SGD run
  local-epsilon, users, rounds, population             of shuffled reports
(sharpdp help calibrate UNKNOWN lists the options that describe the rest of the run)

The answer is on the safe side: its upper bound meets the target.

examples:
  sharpdp calibrate noise-multiplier --sample-rate 0.01 --steps 1000 --epsilon 1 --delta 1e-6
  sharpdp calibrate epochs --noise-multiplier 1 --dataset-size 60000 --batch-size 512 \\
      --tpr 0.05 --fpr 0.01
  sharpdp calibrate local-epsilon --users 1000 --epsilon 1 --delta 1e-6
  sharpdp calibrate population --users 1000 --local-epsilon 2 --rounds 5000 --epsilon 1 --delta 1e-6
  sharpdp calibrate noise-multiplier --plan plan.toml --epsilon 3
""",
    ),
    "design": Command(
        "choose",
        "a survey behind a shuffler: privacy and error bars by local epsilon",
        _design,
        """\
Users answer one question with several categories through randomized response; a shuffler mixes the
answers of a round. For each local epsilon: the central epsilon of all rounds, the error of an estimated
share, what remains if the shuffler fails, and both if some users do not report.

examples:
  sharpdp design --users 200000 --rounds 30 --categories 6
  sharpdp design --users 5000 --categories 6 --local-epsilon 1 2 4 4.8 --delta 1e-6 -o design.svg
  sharpdp design --users 5000 50000 --categories 6 --local-epsilon 2 4 --csv
""",
    ),
    "compare": Command(
        "choose",
        "batch schemes, or all known bounds on one run, side by side",
        _compare,
        f"""\
WHAT is one of
  samplers             one DP-SGD run over every batch scheme
  mixture              a mixture of finite pairs, compared with the inequalities that bound it
  conversions          the epsilon that each conversion of Renyi divergences gives
or a run, for every known bound on it:
{RUNS}
(sharpdp help compare WHAT lists the options of each)

examples:
  sharpdp compare samplers --noise-multiplier 0.8 --dataset-size 60000 --batch-size 512 \\
      --epochs 30 --delta 1e-5
  sharpdp compare samplers --plan plan.toml -o samplers.svg
  sharpdp compare shuffle --users 10000 --local-epsilon 1 --delta 1e-6
  sharpdp compare shuffle --users 300 --local-epsilon 1 --order 8 --json
  sharpdp compare shuffle --users 2000 --local-epsilon 2 --population 60000 --rounds 6000 --delta 1e-5
  sharpdp compare "gaussian noise_multiplier=2 x 10" --delta 1e-5 --details
  sharpdp compare plan.toml
  sharpdp compare mixture "finite-pair p=0.75,0.25 q=0.25,0.75" \\
      "finite-pair p=0.25,0.75 q=0.75,0.25" --weights 0.75 0.25 --fpr 0.01 0.1
  sharpdp compare conversions --orders 2 8 32 --values 0.01 0.05 0.4 --delta 1e-6
""",
    ),
    "report": Command(
        "document",
        "a privacy report for a model card",
        _report,
        f"""\
RUN says what is run; several are run one after the other:
{RUNS}
(sharpdp help report dpsgd lists these options)

The file extension selects the format; without a file, the report is printed. Model cards and entries of
the registry of deployments are extracts: select them with --format.

examples:
  sharpdp report plan.toml
  sharpdp report plan.toml -o report.html --sha256 --project "Commute survey" --owner "City of Linz"
  sharpdp report plan.toml --format model-card
  sharpdp report plan.toml --format registry -o commute_survey.yaml
  sharpdp report shuffle --users 1000 --local-epsilon 1 --delta 1e-6 --format markdown
""",
    ),
    "verify": Command(
        "document",
        "whether a report agrees with its plan, recomputed",
        _verify,
        """\
REPORT is a report that was written as JSON or HTML. It is recomputed from the plan in it, and every
field is compared: brackets by what they claim, everything else literally. A page (.html) is also compared
with the data in it, and a file with the hash in REPORT.sha256, if there is one. Every field that is not
confirmed is listed with its correct value.

exit code: 0 confirmed; 1 not confirmed or contradicted; 2 cannot be read; the largest of several.

examples:
  sharpdp report plan.toml -o report.html
  sharpdp verify report.html
  sharpdp verify report.html report.json
  sharpdp verify report.json --json
""",
    ),
    "audit": Command(
        "document",
        "whether attack scores, or the batches of a loader, agree with a plan",
        _audit,
        """\
TABLE is a file of comma-separated values whose first line says what it holds:
  score,included              one run: the score of each canary, and 1 if it was included or 0 if not
  with_record,without_record  many runs: the scores of one run of each kind per line
  step,example                the position of every example in the batch of each step, from 0 on

Lower ends hold with the stated confidence. Without a plan nothing is tested.

exit code: 0 no contradiction; 1 the plan is contradicted; 2 cannot be read.

examples:
  sharpdp audit scores.csv --plan plan.toml --delta 1e-5
  sharpdp audit scores.csv --confidence 0.95 -o rates.svg
  sharpdp audit batches.csv --plan plan.toml --json
""",
    ),
    "ledger": Command(
        "document",
        "a budget in a file: every release, and what they cost together",
        _ledger,
        """\
ACTION is one of
  init           start a ledger with --epsilon and --delta
  add            count a release; refused (exit code 1) if it would exceed the budget
  total          what all releases cost together, and what is left
  would-exceed   whether one more fits: exit code 0 if it does, 1 if not
  show           all releases
  verify         check every line, recompute limit, costs and checkpoints: exit code 1 if any is wrong;
                 only a head that was kept elsewhere proves that no release is missing
RELEASE is a plan (.toml, .json), a report (.json, .html), which is verified first, or mechanisms such as
"gaussian noise_multiplier=2 x 10".

Releases that are chosen after seeing earlier results need --choice adaptive (default): the claim is the
budget, and a filter enforces it. What is --expected is set aside and costs no more than by itself. With
--choice fixed, a list fixed in advance is composed exactly.

examples:
  sharpdp ledger init budget.jsonl --epsilon 3 --delta 1e-6 --unit person --adjacency replace-one
  sharpdp ledger add budget.jsonl plan.toml --note "survey of May"
  sharpdp ledger add budget.jsonl report.json --cohort north --group-size 4
  sharpdp ledger would-exceed budget.jsonl "gaussian noise_multiplier=20 x 10"
  sharpdp ledger total budget.jsonl
  sharpdp ledger verify budget.jsonl
""",
    ),
    "cite": Command(
        "document",
        "BibTeX entries: sharpdp itself, and the sources of theorems",
        _cite,
        """\
NAME is sharpdp, a publication such as balle2019, or a theorem that sharpdp bounds lists; sharpdp if none
is named.

examples:
  sharpdp cite sharpdp
  sharpdp cite sharpdp gaussian_tight balle2019 >> references.bib
""",
    ),
    "schema": Command(
        "document",
        "the JSON Schema of plans or of reports",
        _schema,
        """\
DOCUMENT is plan or report.

examples:
  sharpdp schema plan
  sharpdp schema report > report.schema.json
""",
    ),
    "explore": Command(
        "explore",
        "a local page with pictures and sliders",
        _explore,
        """\
Serves a page on this machine only (127.0.0.1), and opens it in a browser: training runs over every batch
scheme, data collections, curves, reports. It makes no outside request. Ctrl-C stops it.

examples:
  sharpdp explore
  sharpdp explore --port 8765 --no-browser
""",
    ),
    "bounds": Command(
        "explore",
        "the theorems in use: sides, conditions, sources, BibTeX",
        _bounds,
        """\
BOUND is the name of a theorem, which is then shown in full; all are listed if none is named.

examples:
  sharpdp bounds
  sharpdp bounds gaussian_tight
  sharpdp bounds gaussian_tight --bibtex
""",
    ),
    "completion": Command(
        "explore",
        "a script that completes commands and options in a shell",
        _completion,
        """\
SHELL is bash, zsh, fish or tcsh. Needs the package shtab (the extra cli).

examples:
  source <(sharpdp completion bash)
  source <(sharpdp completion zsh)
  sharpdp completion fish | source
""",
    ),
}
