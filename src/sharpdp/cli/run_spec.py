"""What a command line says is run: by options, or by a plan file in which options change single values.

An option wins over the plan. One that the mechanism of the plan does not have is refused.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharpdp.cli.parser import PLANS, UsageError, flag
from sharpdp.cli.schemes import PLAN, SCHEMES, plan, scheme_name
from sharpdp.errors import InvalidArgument

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee
    from sharpdp.mechanisms import Mechanism
    from sharpdp.plans import Plan

__all__ = ["REPORTS", "TRAINING", "PlanFile", "Run", "is_plan", "plan_of", "run_of"]

TRAINING = ("noise_multiplier", "batches", *PLAN)
"""Words that describe a training run."""

REPORTS = ("users", "local_epsilon", "rounds", "population", "randomizer")
"""Words that describe shuffled reports."""

SETTINGS = ("delta", "adjacency", "relative_width")
"""Words of a plan beside its mechanism."""

EITHER = {
    "steps": "epochs",
    "epochs": "steps",
    "sample_rate": "batch_size",
    "batch_size": "sample_rate",
}
"""Words of which some schemes take one: an option takes the place of the other one in a plan."""

EITHER_OR = ("PoissonBatches", "TruncatedPoissonBatches")
"""The schemes that take steps or epochs, a sample rate or a batch size."""


@dataclass(frozen=True)
class Run:
    """What is run, and what else was said about the question; delta is empty if no plan says it."""

    mechanism: Mechanism
    adjacency: str | None
    relative_width: float | None
    delta: tuple[float, ...] = ()
    hash: str | None = None

    def guarantee(self) -> Guarantee:
        """The privacy of what is run."""
        from sharpdp.accounting import account

        width = {} if self.relative_width is None else {"relative_width": self.relative_width}
        return account(self.mechanism, adjacency=self.adjacency, **width)


@dataclass(frozen=True)
class PlanFile:
    """A plan as it was written."""

    path: str
    data: Mapping[str, Any]

    @staticmethod
    def read(path: str) -> PlanFile:
        """The plan in this file."""
        from sharpdp.plans import written

        try:
            return PlanFile(path, written(path))
        except InvalidArgument as wrong:
            raise UsageError(str(wrong).replace("path must", "the plan must", 1)) from None

    @property
    def kind(self) -> str:
        """What is run, in the word of the plan."""
        run = self.data.get("mechanism")
        return str(run.get("kind")) if isinstance(run, Mapping) else ""

    def plan(self, values: Mapping[str, Any]) -> Plan:
        """The plan with these values instead of its own."""
        from sharpdp.plans import Plan

        given = {
            word: values[word] for word in (*TRAINING, *REPORTS) if values.get(word) is not None
        }
        settings = {word: values[word] for word in SETTINGS if values.get(word) is not None}
        try:
            run = self._changed(self.data.get("mechanism"), given)
            data = {**self.data, **settings}
            return Plan.from_dict({**data, "mechanism": run} if "mechanism" in data else data)
        except InvalidArgument as wrong:
            changes = "".join(f", with {flag(word)}" for word in (*given, *settings))
            raise UsageError(f"in {self.path}{self._line(str(wrong))}{changes}: {wrong}") from None

    def run(self, values: Mapping[str, Any]) -> Run:
        """What is run, with these values instead of those of the plan."""
        found = self.plan(values)
        stated = found.delta if "delta" in self.data or values.get("delta") is not None else ()
        return Run(found.mechanism, found.adjacency, found.relative_width, stated, found.hash)

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
        own = {word: value for word, value in given.items() if word in _fields(run)}
        drawn = {word: value for word, value in given.items() if word in ("batches", *PLAN)}
        for word in given:
            if word not in own and not (word in drawn and isinstance(scheme, Mapping)):
                raise UsageError(f"{flag(word)} does not go with the {self.kind} of {self.path}.")
        if not drawn or not isinstance(scheme, Mapping):
            return {**run, **own}
        return {**run, **own, "batches": self._scheme(scheme, drawn)}

    def _scheme(self, batches: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """The batches of the plan with other values, or another scheme with the values it takes."""
        others = {EITHER[word] for word in given if word in EITHER}
        if "batches" in given:
            taken = [word for word in SCHEMES[scheme_name(given)][1] if word not in others]
            return plan({**{word: batches[word] for word in taken if word in batches}, **given})
        for word in given:
            if word not in _fields(batches):
                kind = batches.get("kind")
                raise UsageError(f"{flag(word)} does not go with the {kind} of {self.path}.")
        if batches.get("kind") not in EITHER_OR:
            others = set()
        return {**{word: one for word, one in batches.items() if word not in others}, **given}

    def _line(self, message: str) -> str:
        """Where in the file that stands which a message is about, if that is one line."""
        named = re.findall(r"'([^']+)'", message.partition(" Did you")[0])[:1]
        named += re.findall(r"^(?:[\w.]+: )?([a-z_]+) must", message)
        lines = Path(self.path).read_text("utf-8-sig").splitlines()
        for name in named:
            found = [
                n
                for n, text in enumerate(lines, 1)
                if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
            ]
            if len(found) == 1:
                return f", line {found[0]}"
        return ""


def run_of(
    options: argparse.Namespace, described: Callable[[Mapping[str, Any]], Mechanism], kind: str
) -> Run:
    """What is run: described by options, or by a plan that runs this kind of mechanism."""
    file = plan_of(options)
    if file is None:
        return Run(described(vars(options)), options.adjacency, options.relative_width)
    if file.kind != kind and file.data.get("mechanism") is not None:
        raise UsageError(
            f"sharpdp {options.command} takes a plan that runs {kind}; {file.path} runs "
            f"{file.kind or 'none'}. Try sharpdp account {file.path}."
        )
    return file.run(vars(options))


def plan_of(options: argparse.Namespace) -> PlanFile | None:
    """The plan file that was named, by its place or by --plan; None if there is none."""
    place, named = getattr(options, "file", None), getattr(options, "plan", None)
    if place is not None and named is not None:
        raise UsageError(f"give one plan; got {place!r} and --plan {named}.")
    path = place if place is not None else named
    return None if path is None else PlanFile.read(path)


def is_plan(text: str) -> bool:
    """Whether a word is the name of a plan file.

    >>> is_plan("plan.toml"), is_plan("laplace scale=1")
    (True, False)
    """
    return text.lower().endswith(PLANS)


def _fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the constructor of a written mechanism or scheme takes; nothing if it is not known."""
    from sharpdp.plans.kinds import arguments, kinds

    made = kinds().get(str(data.get("kind")))
    return {} if made is None else arguments(made)
