"""A question as something to paste elsewhere: Python, a command, a plan file, a training script."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from sharpdp.cli.runs import RANDOMIZERS, REPORTS, SCHEMES, scheme_of, scheme_words
from sharpdp.errors import InvalidArgument, Unsupported
from sharpdp.mechanisms import DPSGD, Mechanism, ShuffledReports
from sharpdp.plans import Plan
from sharpdp.plans.files import as_toml
from sharpdp.plans.plain_data import arguments, kinds, to_data

__all__ = ["as_command", "as_python", "code", "snippets"]


def code(plan: Plan) -> dict[str, Any]:
    """The texts of a plan to paste and save; none if it cannot be written."""
    forms = snippets(plan)
    return {"snippets": forms, "plan": plan.to_dict()} if forms else {}


def snippets(plan: Plan) -> dict[str, str]:
    """The question of a plan in every form; what cannot be written has no entry."""
    try:
        data = plan.to_dict()
    except Unsupported:
        return {}
    toml = as_toml(data)
    forms = {"python": as_python(plan), "command": as_command(plan), "plan.toml": toml}
    if isinstance(plan.mechanism, DPSGD):
        forms["opacus"] = _opacus_script(plan.mechanism, plan.delta[0])
        forms["sharpdp"] = _learn_script(plan.mechanism, plan.delta[0])
    return forms


def as_python(plan: Plan) -> str:
    """Code that gives the answer to a plan."""
    call = expression(to_data(plan.mechanism))
    default = str(plan.mechanism.adjacency(None))
    options = "" if plan.adjacency == default else f', adjacency="{plan.adjacency}"'
    if plan.group_size > 1:
        options += f", group_size={plan.group_size}"
    asked = ", ".join(map(repr, plan.delta))
    asked = f"[{asked}]" if len(plan.delta) > 1 else asked
    return (
        f"import sharpdp as dp\n\nrun = {call}\nanswer = dp.account(run{options})\n"
        f"print(answer.epsilon(delta={asked}))\n"
    )


def expression(data: Any) -> str:
    """Plain data of a mechanism or batch scheme as the call that makes it, without what is default.

    >>> expression({"kind": "Gaussian", "noise_multiplier": 1.0})
    'dp.Gaussian(noise_multiplier=1.0)'
    """
    if isinstance(data, Mapping) and "kind" in data:
        return _call(data)
    if isinstance(data, list | tuple):
        return f"[{', '.join(map(expression, data))}]"
    if isinstance(data, int) and not isinstance(data, bool) and abs(data) >= 10_000:
        return f"{data:_}"
    return f'float("{data}")' if data in ("inf", "-inf") else repr(data)


def _call(data: Mapping[str, Any]) -> str:
    import sharpdp as dp

    kind = str(data["kind"])
    owner = kind.partition(".")[0]
    path = kind if hasattr(dp, owner) else f"batches.{kind}"
    if path != kind and not hasattr(dp.batches, owner):
        path = f"mechanisms.{kind}"
    defaults = {name: field.default for name, field in arguments(kinds()[kind]).items()}
    arguments_given = {
        name: value
        for name, value in data.items()
        if name != "kind" and not (name in defaults and _is_default(value, defaults[name]))
    }
    words = [f"{name}={expression(value)}" for name, value in arguments_given.items()]
    return f"dp.{path}({', '.join(words)})"


def _is_default(value: Any, default: object) -> bool:
    return type(value) is type(default) and value == default


def as_command(plan: Plan) -> str:
    """A command line that gives the answer to a plan; it reads a file if options cannot say it."""
    words = _options(plan.mechanism)
    if words is None:
        return "sharpdp account plan.toml"
    asked = ["--delta", *(f"{delta:g}" for delta in plan.delta)]
    if plan.adjacency != str(plan.mechanism.adjacency(None)):
        asked += ["--adjacency", plan.adjacency]
    if plan.group_size > 1:
        asked += ["--group-size", str(plan.group_size)]
    return shlex.join(["sharpdp", *words, *asked])


def _options(run: Mechanism) -> list[str] | None:
    """The command and options that describe a run; None if they cannot."""
    if isinstance(run, ShuffledReports):
        words = _report_words(run)
        return None if words is None else ["shuffle", *_flags(words)]
    if isinstance(run, DPSGD):
        scheme = batch_words(run)
        if scheme is not None:
            return ["dpsgd", *_flags({"noise_multiplier": run.noise_multiplier, **scheme})]
    return None


def _report_words(run: ShuffledReports) -> dict[str, Any] | None:
    """The words of the command line that describe shuffled reports; None if there are none."""
    randomizer = run.randomizer
    kind = randomizer if isinstance(randomizer, str) else type(randomizer).__name__
    names = [name for name, randomizer_kind in RANDOMIZERS.items() if randomizer_kind == kind]
    if not names:
        return None
    values = {word: getattr(run, word, None) for word in REPORTS}
    values |= {"randomizer": names[0], "categories": getattr(randomizer, "categories", None)}
    defaults = {"rounds": 1, "randomizer": "shared"}
    return {
        word: value
        for word, value in values.items()
        if value is not None and value != defaults.get(word)
    }


def batch_words(run: DPSGD) -> dict[str, Any] | None:
    """The words of the command line that give the batch scheme of a run; None if there are none.

    >>> from sharpdp.batches import ShuffledBatches
    >>> sizes = dict(dataset_size=60, batch_size=10, epochs=4)
    >>> batch_words(DPSGD(ShuffledBatches(**sizes, left_out=1), noise_multiplier=1.0))
    {'batches': 'shuffled', 'dataset_size': 60, 'batch_size': 10, 'epochs': 4, 'left_out': 1}
    """
    scheme = run.batches
    for name, spelled in SCHEMES.items():
        if type(scheme).__name__ != spelled.kind:
            continue
        values = {word: getattr(scheme, word, None) for word in scheme_words(name)}
        non_default = {
            word: value for word, value in values.items() if value not in (None, False, 0)
        }
        for left_out in ((), ("steps",), ("batch_size", "epochs"), ("steps", "batch_size")):
            words = {word: value for word, value in non_default.items() if word not in left_out}
            words = {"batches": name, **words}
            try:
                if scheme_of(words) == scheme:
                    return words
            except (InvalidArgument, TypeError):
                continue
    return None


def _flags(values: Mapping[str, Any]) -> list[str]:
    flags = []
    for word, value in values.items():
        flags.append(f"--{word.replace('_', '-')}")
        if value is not True:
            flags.append(f"{value:.12g}" if isinstance(value, float) else str(value))
    return flags


def _opacus_script(run: DPSGD, delta: float) -> str:
    """A script that trains with Opacus over exactly these batches and says what it cost."""
    return f"""\
import sharpdp as dp
from sharpdp.integrations.opacus import make_private

model, optimizer, batches, engine = make_private(
    module=model,
    optimizer=optimizer,
    plan={_plan(run)},
    data=dataset,
    max_grad_norm=1.0,
)
for _ in range({_passes(run)}):  # one pass is one epoch
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).backward()
        optimizer.step()
print(engine.accountant.guarantee.epsilon(delta={delta!r}))
"""


def _passes(run: DPSGD) -> int:
    """The number of passes through the loader of Opacus: epochs, or steps over steps per pass."""
    scheme: Any = run.batches
    if getattr(scheme, "epochs", None) is not None:
        return int(scheme.epochs)
    return -(-int(scheme.steps) // math.ceil(1.0 / float(scheme.sample_rate)))


def _learn_script(run: DPSGD, delta: float) -> str:
    """A script that trains without Opacus."""
    return f"""\
import sharpdp as dp
from sharpdp.learn.dpsgd import Training

training = Training(
    {_plan(run)},
    model,
    loss_function,
    inputs,
    targets,
    clip=1.0,
)
print(training.run().epsilon(delta={delta!r}))
"""


def _plan(run: DPSGD) -> str:
    return (
        f"dp.DPSGD({expression(to_data(run.batches))}, noise_multiplier={run.noise_multiplier!r})"
    )
