"""Runs on the command line: plan files, mechanisms in quotes, or options that describe a run.

    NAME KEY=VALUE ... [x COUNT]        gaussian noise_multiplier=2 x 10

Mechanisms are named like their classes, in lower case with dashes; keys are their parameters. An
option wins over the plan; one that the mechanism of the plan does not have is refused. Whether a value
makes sense is for the mechanism to say.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharpdp.cli.parser import PAGES, UsageError, cut, flag, is_plan, number, quoted
from sharpdp.display.nearest_word import hint
from sharpdp.errors import InvalidArgument

if TYPE_CHECKING:
    from sharpdp.batches import BatchScheme
    from sharpdp.mechanisms import Mechanism
    from sharpdp.plans import Plan
    from sharpdp.questions.account import Guarantee

__all__ = [
    "FORMS",
    "RANDOMIZERS",
    "REPORTS",
    "SCHEMES",
    "TRAINING",
    "PlanFile",
    "Run",
    "mechanism",
    "refuse_others",
    "reports",
    "run_of",
    "scheme_of",
    "scheme_words",
    "training",
]

SPLIT = ("dataset_size", "batch_size", "epochs")
"""Words that say how a data set is split into batches."""

BATCHES = (
    "sample_rate",
    "steps",
    *SPLIT,
    "participations",
    "cycle_length",
    "example_weights",
    "buffer_size",
    "physical_batch_size",
    "drop_last",
    "left_out",
)
"""Words that say how batches are drawn."""

TRAINING = ("noise_multiplier", "batches", *BATCHES)
"""Words that describe a training run."""

REPORTS = ("users", "local_epsilon", "rounds", "population", "randomizer", "categories")
"""Words that describe shuffled reports."""

RANDOMIZERS = {
    "shared": "shared",
    "individual": "individual",
    "randomized-response": "RandomizedResponse",
    "laplace": "LocalLaplace",
}
"""What is known about the randomizer of shuffled reports, and what a plan calls it."""

RANDOMIZER_WORDS = {"local_epsilon", "randomizer", "categories"}
"""Words that a randomizer is made of."""

UNBOUNDED = {
    "local-gaussian": "LocalGaussian",
    "gaussian": "Gaussian",
    "approximate-dp": "ApproximateDP",
}
"""Randomizers of shuffled reports without a finite local epsilon; their numbers follow after colons."""

INSTEAD = {
    "steps": "epochs",
    "epochs": "steps",
    "sample_rate": "batch_size",
    "batch_size": "sample_rate",
}
"""Words of which Poisson batches take one: an option takes the place of the other one in a plan."""

FORMS = {
    "gaussian": "Gaussian",
    "laplace": "Laplace",
    "randomized-response": "RandomizedResponse",
    "pure-dp": "PureDP",
    "approximate-dp": "ApproximateDP",
    "finite-pair": "FinitePair",
    "dpsgd": "DPSGD",
    "same-batches": "SameBatches",
    "correlated": "CorrelatedNoise",
    "shuffle": "ShuffledReports",
}
"""The class of each mechanism; its keys are read off its signature."""

SPELLED = {
    "batches": TRAINING[1:],
    "queries": ("noise_multipliers", *TRAINING[1:]),
    "strategy": ("coefficients",),
    "randomizer": REPORTS[-2:],
}
"""Parameters that take an object, and the words that describe it on a line."""

EXAMPLE = 'Write, with the quotes, "gaussian noise_multiplier=2 x 10".'


@dataclass(frozen=True)
class Run:
    """A mechanism, and the settings of the question; delta is empty if no plan has one."""

    mechanism: Mechanism
    adjacency: str | None
    relative_width: float | None
    delta: tuple[float, ...] = ()
    group_size: int = 1
    header: Mapping[str, str] = field(default_factory=dict)

    def guarantee(self) -> Guarantee:
        """The privacy of what is run."""
        from sharpdp.questions.account import account

        return account(
            self.mechanism,
            adjacency=self.adjacency,
            group_size=self.group_size,
            **self._width(),
        )

    def plan(self, delta: Any = None) -> Plan:
        """The mechanism, and the deltas at which epsilon is asked for, as a plan."""
        from sharpdp.plans import DELTAS, Plan

        asked = self.delta or DELTAS if delta is None else delta
        adjacency: Any = self.adjacency
        return Plan(self.mechanism, asked, adjacency, group_size=self.group_size, **self._width())

    def _width(self) -> dict[str, Any]:
        return {} if self.relative_width is None else {"relative_width": self.relative_width}


def run_of(options: argparse.Namespace) -> Run:
    """The run of a command line: plans and mechanisms one after the other, or described by options."""
    words = list(getattr(options, "run", []))
    kind = options.command if options.command in ("dpsgd", "shuffle") else None
    if kind is None and words and words[0] in ("dpsgd", "shuffle"):
        kind = words.pop(0)
        if words:
            raise UsageError(f"{kind} takes options; got {quoted(words[0])}.")
    if options.plan is not None:
        words = [options.plan, *words]
    if len(words) == 1 and (options.plan is not None or is_plan(words[0])):
        return _planned(PlanFile.read(words[0]), options, kind)
    if words:
        parts = [mechanism(text) for text in words]
        refuse_others(options, (), words[0])
        return _run(_in_a_row(parts), options)
    if kind is None:
        kind = _kind_by_options(options)
    own, described = (TRAINING, training) if kind == "dpsgd" else (REPORTS, reports)
    refuse_others(options, own, kind)
    return _run(described(vars(options)), options)


def _run(mechanism: Mechanism, options: argparse.Namespace) -> Run:
    """This mechanism, and what options say about the question."""
    size = options.group_size
    return Run(
        mechanism,
        options.adjacency,
        options.relative_width,
        group_size=1 if size is None else size,
    )


def _planned(file: PlanFile, options: argparse.Namespace, kind: str | None) -> Run:
    """The run of a plan, which must be of this kind if one is named."""
    if kind is not None and file.data.get("mechanism") is not None:
        wanted = FORMS[kind]
        if file.kind != wanted:
            raise UsageError(
                f"sharpdp {options.command} takes a plan that runs {wanted}; {file.path} runs "
                f"{file.kind or 'none'}. Try sharpdp account {file.path}."
            )
    return file.run(vars(options))


def _kind_by_options(options: argparse.Namespace) -> str:
    """Whether options describe a training run or shuffled reports."""
    described = {
        "dpsgd": any(getattr(options, word) is not None for word in TRAINING),
        "shuffle": any(getattr(options, word) is not None for word in REPORTS),
    }
    kinds = [kind for kind, is_described in described.items() if is_described]
    if len(kinds) != 1:
        got = "several" if kinds else "none"
        raise UsageError(
            "name a plan file or mechanisms, or give the options of a DP-SGD run or of shuffled "
            f"reports; got {got}. See sharpdp help {options.command}."
        )
    return kinds[0]


def refuse_others(options: argparse.Namespace, own: tuple[str, ...], name: str) -> None:
    """Refuse an option that describes another kind of run."""
    for word in (*REPORTS, *TRAINING):
        if word not in own and getattr(options, word, None) is not None:
            raise UsageError(f"{flag(word)} does not go with {quoted(name)}; leave it out.")


# --- plans ---


@dataclass(frozen=True)
class PlanFile:
    """A plan as it was written."""

    path: str
    data: Mapping[str, Any]

    @staticmethod
    def read(path: str) -> PlanFile:
        """The plan in this file, or on standard input; one inside a report or an answer is found."""
        from sharpdp.plans import parsed, text_of, written
        from sharpdp.report.html import embedded

        try:
            if path == "-":
                data = parsed(_standard_input(), "standard input")
            elif path.lower().endswith(PAGES):
                data = parsed(embedded(text_of(Path(path), "plan")), path)
            else:
                data = written(path)
        except InvalidArgument as fault:
            raise UsageError(str(fault).replace("path must", "the plan must", 1)) from None
        inside = data.get("plan")
        if isinstance(inside, Mapping) and not isinstance(data.get("mechanism"), Mapping):
            data = inside
        return PlanFile("standard input" if path == "-" else path, data)

    @property
    def kind(self) -> str:
        """The kind of the mechanism, in the word of the plan."""
        run = self.data.get("mechanism")
        return str(run.get("kind")) if isinstance(run, Mapping) else ""

    def plan(self, values: Mapping[str, Any]) -> Plan:
        """The plan with these values instead of its own."""
        from sharpdp.plans import Plan

        given = {
            word: values[word] for word in (*TRAINING, *REPORTS) if values.get(word) is not None
        }
        settings = {
            word: values[word]
            for word in ("delta", "adjacency", "relative_width", "group_size")
            if values.get(word) is not None
        }
        try:
            run = self._changed(self.data.get("mechanism"), given)
            data = {**self.data, **settings}
            return Plan.from_dict({**data, "mechanism": run} if "mechanism" in data else data)
        except InvalidArgument as fault:
            changes = "".join(f", with {flag(word)}" for word in (*given, *settings))
            raise UsageError(f"in {self.path}{self._line(str(fault))}{changes}: {fault}") from None

    def run(self, values: Mapping[str, Any]) -> Run:
        """The run of the plan, with these values in place of its own."""
        plan = self.plan(values)
        return Run(
            plan.mechanism,
            plan.adjacency,
            plan.relative_width,
            plan.delta,
            plan.group_size,
            plan.header.to_dict(),
        )

    def words(self) -> dict[str, Any]:
        """The words of a training run as the plan has them."""
        run = self.data.get("mechanism")
        fields = dict(run) if isinstance(run, Mapping) else {}
        batches = fields.pop("batches", None)
        scheme = dict(batches) if isinstance(batches, Mapping) else {}
        return {word: value for word, value in {**scheme, **fields}.items() if word != "kind"}

    def _changed(self, run: Any, given: Mapping[str, Any]) -> Any:
        """The mechanism as written, with these values in the places that they have in it."""
        if not given or not isinstance(run, Mapping):
            return run
        scheme = run.get("batches")
        given = self._with_randomizer(run, given)
        own = {word: value for word, value in given.items() if word in _fields(run)}
        drawn = {word: value for word, value in given.items() if word in ("batches", *BATCHES)}
        for word in given:
            if word not in own and not (word in drawn and isinstance(scheme, Mapping)):
                raise UsageError(f"{flag(word)} does not go with the {self.kind} of {self.path}.")
        if not drawn or not isinstance(scheme, Mapping):
            return {**run, **own}
        return {**run, **own, "batches": self._scheme(scheme, drawn)}

    def _with_randomizer(
        self, run: Mapping[str, Any], given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """These values, with the randomizer that they name, or that of the plan as they change it."""
        if self.kind != "ShuffledReports" or not given.keys() & RANDOMIZER_WORDS:
            return given
        planned = run.get("randomizer", "shared")
        own = dict(planned) if isinstance(planned, Mapping) else {"kind": planned}
        kind = own.pop("kind", None)
        if "randomizer" not in given:
            names = [name for name, known in RANDOMIZERS.items() if known == kind]
            if not names:  # one that no option describes
                return given
            given = {**own, "randomizer": names[0], **given}
        budget = run.get("local_epsilon", own.get("local_epsilon"))
        return _with_randomizer({"local_epsilon": budget, **given})

    def _scheme(self, batches: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """The batches of the plan with other values, or another scheme with the values it takes."""
        others = {INSTEAD[word] for word in given if word in INSTEAD}
        if "batches" in given:
            taken = [word for word in scheme_words(_scheme_name(given)) if word not in others]
            kept = {word: batches[word] for word in taken if word in batches}
            return scheme_of({**kept, **given})
        for word in given:
            if word not in _fields(batches):
                kind = batches.get("kind")
                raise UsageError(f"{flag(word)} does not go with the {kind} of {self.path}.")
        if not str(batches.get("kind")).endswith("PoissonBatches"):
            others = set()
        return {**{word: value for word, value in batches.items() if word not in others}, **given}

    def _line(self, message: str) -> str:
        """Where in the file that stands which a message is about, if that is one line."""
        if not Path(self.path).is_file():
            return ""
        names = re.findall(r"'([^']+)'", message.partition(" Did you")[0])[:1]
        names += re.findall(r"^(?:[\w.]+: )?([a-z_]+) must", message)
        lines = Path(self.path).read_text("utf-8-sig").splitlines()
        for name in names:
            rows = [
                row
                for row, text in enumerate(lines, 1)
                if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
            ]
            if len(rows) == 1:
                return f", line {rows[0]}"
        return ""


def _standard_input() -> str:
    """The text that was piped into the command."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidArgument("the plan must come through a pipe; standard input is a terminal.")
    try:
        return sys.stdin.read()
    except (UnicodeDecodeError, OSError, ValueError) as fault:
        raise InvalidArgument(f"standard input must be text in UTF-8; {fault}.") from fault


def _needed(kind: str) -> dict[str, bool]:
    """The parameters of a class by name, and whether each must be given."""
    parameters = _fields({"kind": kind})
    return {name: parameter.default is parameter.empty for name, parameter in parameters.items()}


def _fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a written mechanism or scheme; none if it is not known."""
    from sharpdp.plans.plain_data import arguments, kinds

    made = kinds().get(str(data.get("kind")))
    return {} if made is None else arguments(made)


@cache
def _keys(name: str) -> dict[str, bool]:
    """The words that describe a mechanism on one line, and whether each is needed.

    >>> _keys("randomized-response")
    {'local_epsilon': True, 'categories': False}
    """
    return {
        word: is_needed and word not in TRAINING[1:]
        for title, is_needed in _needed(FORMS[name]).items()
        for word in SPELLED.get(title, (title,))
    }


# --- mechanisms ---


def mechanism(text: str) -> Mechanism:
    """The mechanism that is written on one line, or in a plan file.

    >>> mechanism("gaussian noise_multiplier=2 x 10").describe()
    '10 x Gaussian noise (noise multiplier 2)'
    """
    if is_plan(text):
        return PlanFile.read(text).plan({}).mechanism
    from sharpdp import mechanisms

    words = text.split()
    if not words:
        raise UsageError(f"a mechanism must have a name; got an empty one. {EXAMPLE}")
    name = words[0].lower().replace("_", "-")
    if name not in FORMS:
        ask = hint(name, FORMS, f"There are: {', '.join(FORMS)}.")
        raise UsageError(f"there is no mechanism {quoted(words[0])}.{ask}")
    words, count = _repeats(text, words)
    values = _values(name, words[1:])
    kind = FORMS[name]
    try:
        described = {
            "DPSGD": training,
            "SameBatches": same_batches,
            "CorrelatedNoise": correlated,
            "ShuffledReports": reports,
        }
        run = described[kind](values) if kind in described else getattr(mechanisms, kind)(**values)
        return run if count is None else run * count
    except InvalidArgument as fault:
        raise UsageError(f"in {quoted(text)}: {fault}") from None


def _in_a_row(parts: list[Mechanism]) -> Mechanism:
    """Mechanisms run one after the other."""
    from sharpdp.mechanisms import Sequence

    return parts[0] if len(parts) == 1 else Sequence(parts)


def training(values: Mapping[str, Any]) -> Mechanism:
    """The DP-SGD run that these words describe; those left out are missing or None.

    >>> training({"noise_multiplier": 1, "sample_rate": 0.01, "steps": 10}).batches.steps
    10
    """
    from sharpdp.mechanisms import DPSGD

    noise_multiplier = values.get("noise_multiplier")
    if noise_multiplier is None:
        raise InvalidArgument("noise_multiplier must be given; got none.")
    return DPSGD(scheme_of(values), noise_multiplier=noise_multiplier)


def same_batches(values: Mapping[str, Any]) -> Mechanism:
    """The queries on the same batches that these words describe.

    >>> words = {"noise_multipliers": [3.0, 4.0], "sample_rate": 0.01, "steps": 10}
    >>> same_batches(words).noise_multiplier
    2.4
    """
    from sharpdp.mechanisms import DPSGD, SameBatches

    scheme = scheme_of(values)
    noises = values["noise_multipliers"]
    return SameBatches([DPSGD(scheme, noise_multiplier=noise) for noise in noises])


def correlated(values: Mapping[str, Any]) -> Mechanism:
    """The run with correlated noise of a banded strategy that these words describe.

    >>> sizes = {"batches": "deterministic", "dataset_size": 10, "batch_size": 5, "epochs": 2}
    >>> correlated({"noise_multiplier": 1, "coefficients": [1.0, 0.5], **sizes}).strategy.bands(4)
    2
    """
    from sharpdp.mechanisms import BandedStrategy, CorrelatedNoise

    return CorrelatedNoise(
        scheme_of(values),
        strategy=BandedStrategy(coefficients=values["coefficients"]),
        noise_multiplier=values["noise_multiplier"],
    )


def reports(values: Mapping[str, Any]) -> Mechanism:
    """The shuffled reports that these words describe; those left out are missing or None.

    >>> reports({"users": 10, "local_epsilon": 1, "rounds": None}).describe()
    '10 shuffled reports (local epsilon 1, shared randomizer)'
    """
    from sharpdp.mechanisms import ShuffledReports

    given = {word: values[word] for word in REPORTS if values.get(word) is not None}
    unbounded = ":" in str(given.get("randomizer", ""))
    missing = [word for word in REPORTS[: 1 if unbounded else 2] if word not in given]
    if missing:
        raise InvalidArgument(f"{missing[0]} must be given; got none.")
    return ShuffledReports(**_with_randomizer(given))


def _with_randomizer(given: Mapping[str, Any]) -> dict[str, Any]:
    """Words that describe shuffled reports, with a randomizer in place of its name.

    >>> _with_randomizer({"local_epsilon": 1, "randomizer": "laplace"})["randomizer"]
    LocalLaplace(local_epsilon=1.0)
    """
    from sharpdp import mechanisms

    values = dict(given)
    categories = values.pop("categories", None)
    word = values.get("randomizer", "shared")
    name = str(word).lower().replace("_", "-")
    if ":" in name:
        return {**given, "randomizer": _randomizer(name)}
    if name not in RANDOMIZERS:
        *others, last = RANDOMIZERS
        raise InvalidArgument(
            f"randomizer must be {', '.join(others)} or {last}; got {quoted(str(word))}."
            f"{hint(name, RANDOMIZERS)}"
        )
    if categories is not None and name != "randomized-response":
        raise InvalidArgument(
            "categories must be left out unless the randomizer is randomized-response; "
            f"got {categories}."
        )
    if name not in ("shared", "individual"):
        known = {} if categories is None else {"categories": categories}
        made = getattr(mechanisms, RANDOMIZERS[name])
        values["randomizer"] = made(local_epsilon=values["local_epsilon"], **known)
    return values


def _randomizer(text: str) -> Mechanism:
    """A randomizer without a finite local epsilon: its name, and its numbers after colons.

    >>> _randomizer("local-gaussian:2").describe()
    'Gaussian noise on [0, 1] (noise multiplier 2)'
    """
    name, *numbers = text.split(":")
    keys = {word: tuple(_fields({"kind": kind})) for word, kind in UNBOUNDED.items()}
    if name not in keys or len(numbers) != len(keys[name]):
        forms = [":".join((word, *map(str.upper, own))) for word, own in keys.items()]
        raise UsageError(
            f"randomizer must be {', '.join((*RANDOMIZERS, *forms))}; got {quoted(text)}."
        )
    from sharpdp import mechanisms

    values = {
        key: _number(f"{key} of {name}", value)
        for key, value in zip(keys[name], numbers, strict=True)
    }
    made: Mechanism = getattr(mechanisms, UNBOUNDED[name])(**values)
    return made


def _repeats(text: str, words: list[str]) -> tuple[list[str], int | float | None]:
    """The words before `x COUNT`, and the count, None if there is no such end."""
    if "x" not in words:
        return words, None
    index = words.index("x")
    if index != len(words) - 2:
        raise UsageError(f"x must come last, before one count; got {quoted(text)}. {EXAMPLE}")
    return words[:index], _number("the count after x", words[-1])


def _values(name: str, words: list[str]) -> dict[str, Any]:
    """The parameters as given: each key known, given once, and none missing."""
    keys = _keys(name)
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if not equals or not key or not value:
            raise UsageError(f"{name} takes KEY=VALUE; got {quoted(word)}. {EXAMPLE}")
        if key not in keys:
            ask = hint(key, [f"{word}=" for word in keys], f"It takes {', '.join(keys)}.")
            raise UsageError(f"{name} has no parameter {cut(key)}.{ask}")
        if key in values:
            raise UsageError(f"{name} takes {key}= once; got it twice.")
        values[key] = _value(f"{key} of {name}", key, value)
    missing = [key for key, is_needed in keys.items() if is_needed and key not in values]
    if missing:
        raise UsageError(f"{name} needs {' and '.join(f'{key}=' for key in missing)}. {EXAMPLE}")
    return values


def _value(title: str, key: str, text: str) -> Any:
    """One value: a word for some keys, a list for the pmfs, a number otherwise."""
    if key in ("batches", "randomizer"):
        return text
    if key == "drop_last":
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{title} must be true or false; got {quoted(text)}.")
        return text.lower() == "true"
    if key in ("p", "q", "coefficients", "example_weights", "noise_multipliers"):
        return [_number(title, part) for part in text.split(",")]
    return _number(title, text)


def _number(title: str, text: str) -> int | float:
    try:
        return number(text)
    except argparse.ArgumentTypeError as fault:
        raise UsageError(f"{title} {fault}") from None


# --- batch schemes ---


def scheme_of(values: Mapping[str, Any]) -> BatchScheme:
    """The batch scheme that these words describe; those left out are missing or None.

    >>> scheme_of({"batches": "fixed", "dataset_size": 10, "batch_size": 4, "epochs": 2}).steps
    6
    """
    name = _scheme_name(values)
    given = {word: values[word] for word in BATCHES if values.get(word) is not None}
    taken = scheme_words(name)
    strange = [word for word in given if word not in taken]
    missing = [word for word, is_needed in taken.items() if is_needed and word not in given]
    if strange or missing:
        got = ", ".join(f"{word}=" for word in given) or "none of them"
        words = ", ".join(f"{word}=" for word in taken)
        raise InvalidArgument(f"{name} batches take {words}; got {got}.")
    from sharpdp import batches

    spelled = SCHEMES[name]
    scheme: BatchScheme = getattr(batches, spelled.kind)(**spelled.computed(given), **spelled.said)
    return scheme


@cache
def scheme_words(name: str) -> dict[str, bool]:
    """The words that a batch scheme takes, and whether each is needed.

    >>> scheme_words("fixed")
    {'steps': False, 'dataset_size': True, 'batch_size': True, 'epochs': False}
    """
    words = {**_needed(SCHEMES[name].kind), **SCHEMES[name].words}
    return {word: words[word] for word in BATCHES if word in words}


def _scheme_name(values: Mapping[str, Any]) -> str:
    """The name of the scheme, Poisson if none is given.

    >>> _scheme_name({"batches": "Balls_And_Bins"})
    'balls-and-bins'
    """
    given = values.get("batches")
    name = "poisson" if given is None else str(given).lower().replace("_", "-")
    name = {"balls-in-bins": "balls-and-bins"}.get(name, name)
    if name not in SCHEMES:
        allowed = f"{', '.join(list(SCHEMES)[:-1])} or {list(SCHEMES)[-1]}"
        raise InvalidArgument(
            f"batches must be {allowed}; got {quoted(str(given))}.{hint(name, SCHEMES)}"
        )
    return name


def _allocation(given: dict[str, Any]) -> dict[str, Any]:
    """Steps of an epoch as they are, or as many as hold the data set."""
    if "batch_size" not in given:
        return given
    if "steps" in given or "dataset_size" not in given:
        raise InvalidArgument(
            "allocation batches take steps= of one epoch, or dataset_size= and batch_size=; "
            f"got {', '.join(f'{word}=' for word in given)}."
        )
    others = {word: value for word, value in given.items() if word != "batch_size"}
    return {**others, "steps": _steps({**given, "epochs": 1})}


def _fixed(given: dict[str, Any]) -> dict[str, Any]:
    """Steps as they are, or as many as epochs have."""
    return {**{word: given[word] for word in SPLIT[:2]}, "steps": _steps(given)}


def _weighted(given: dict[str, Any]) -> dict[str, Any]:
    """The weights under the name that the scheme has for them."""
    others = {word: value for word, value in given.items() if word != "example_weights"}
    return {**others, "weights": given["example_weights"]}


def _truncated(given: dict[str, Any]) -> dict[str, Any]:
    """Without a physical size, one that next to no batch outgrows."""
    from sharpdp.questions.compare_samplers import padded_size

    if "physical_batch_size" in given:
        return given
    sizes = {word: given[word] for word in SPLIT[:2]}
    kept = padded_size(**sizes, steps=_steps(given), delta=1e-8)
    return {**given, "physical_batch_size": kept}


def _steps(given: Mapping[str, Any]) -> int:
    """The number of batches: the steps that were given, or all of some epochs."""
    from sharpdp.batches import PoissonBatches

    words = ("steps", *SPLIT)
    return PoissonBatches(**{word: given[word] for word in words if word in given}).steps


@dataclass(frozen=True)
class Spelled:
    """A batch scheme in words: its class, the parameters, words beside these, and what its name says.

    Words say whether they are needed, which overrides the signature.
    """

    kind: str
    computed: Callable[[dict[str, Any]], dict[str, Any]] = dict
    words: Mapping[str, bool] = field(default_factory=dict)
    said: Mapping[str, Any] = field(default_factory=dict)


STEPS = {"steps": False, "epochs": False}
"""Words of which one says how many batches there are."""

SCHEMES = {
    "poisson": Spelled("PoissonBatches"),
    "cyclic-poisson": Spelled("CyclicPoissonBatches"),
    "weighted-poisson": Spelled("WeightedPoissonBatches", _weighted, {"example_weights": True}),
    "deterministic": Spelled("DeterministicBatches"),
    "shuffled": Spelled("ShuffledBatches"),
    "shuffled-once": Spelled("ShuffledBatches", said={"order": "kept"}),
    "buffered": Spelled("BufferedShuffle"),
    "balls-and-bins": Spelled("BallsAndBins"),
    "balls-and-bins-once": Spelled("BallsAndBins", said={"order": "kept"}),
    "allocation": Spelled("RandomAllocation", _allocation, {"batch_size": False}),
    "fixed": Spelled("FixedSizeBatches", _fixed, STEPS),
    "fixed-replaced": Spelled("FixedSizeBatches", _fixed, STEPS, {"replacement": True}),
    "truncated": Spelled("TruncatedPoissonBatches", _truncated, {"physical_batch_size": False}),
}
"""Each batch scheme by its word on the command line."""
