"""From words to mechanisms: the options of a training run, and mechanisms written on one line.

    NAME KEY=VALUE ... [x COUNT]        gaussian noise_multiplier=2 x 10

Names are those of the classes in lower case with dashes; keys are their parameters. Whether a
value makes sense is for the mechanism to say.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sharpdp.cli.parser import UsageError, cut, number, quoted
from sharpdp.cli.run_spec import REPORTS, TRAINING, PlanFile, is_plan
from sharpdp.cli.schemes import plan
from sharpdp.errors import InvalidArgument
from sharpdp.nearest_word import hint

if TYPE_CHECKING:
    from sharpdp.mechanisms import Mechanism

__all__ = ["mechanism", "reports", "sequence", "training"]

FORMS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "gaussian": ("Gaussian", ("noise_multiplier",), ()),
    "laplace": ("Laplace", ("scale",), ()),
    "randomized-response": ("RandomizedResponse", ("local_epsilon",), ("categories",)),
    "pure-dp": ("PureDP", ("epsilon",), ()),
    "approximate-dp": ("ApproximateDP", ("epsilon", "delta"), ()),
    "finite-pair": ("FinitePair", ("p", "q"), ()),
    "dpsgd": ("DPSGD", ("noise_multiplier",), TRAINING),
    "shuffle": ("ShuffledReports", REPORTS[:2], REPORTS),
}
"""Each name with its class, the keys it needs, and the keys it may have besides."""

EXAMPLE = 'Write, with the quotes, "gaussian noise_multiplier=2 x 10".'


def sequence(texts: list[str]) -> Mechanism:
    """The mechanisms of some lines, run one after the other.

    >>> sequence(["gaussian noise_multiplier=2 x 10", "laplace scale=1"]).describe()
    '10 x Gaussian noise (noise multiplier 2), then Laplace noise (scale 1)'
    """
    from sharpdp.mechanisms import Sequence

    parts = [mechanism(text) for text in texts]
    return parts[0] if len(parts) == 1 else Sequence(parts)


def mechanism(text: str) -> Mechanism:
    """The mechanism of one line, or of a plan file."""
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
    kind = FORMS[name][0]
    try:
        one = training(values) if kind == "DPSGD" else getattr(mechanisms, kind)(**values)
        return one if count is None else one * count
    except InvalidArgument as wrong:
        raise UsageError(f"in {quoted(text)}: {wrong}") from None


def training(values: Mapping[str, Any]) -> Mechanism:
    """The DP-SGD run that these words describe; those left out are missing or None.

    >>> training({"noise_multiplier": 1, "sample_rate": 0.01, "steps": 10}).describe()
    'DP-SGD (noise multiplier 1,
     Poisson batches: 10 steps at sample rate 0.01, no example left over)'
    """
    from sharpdp.mechanisms import DPSGD

    noise_multiplier = values.get("noise_multiplier")
    if noise_multiplier is None:
        raise InvalidArgument("noise_multiplier must be given; got none.")
    return DPSGD(plan(values), noise_multiplier=noise_multiplier)


def reports(values: Mapping[str, Any]) -> Mechanism:
    """The shuffled reports that these words describe; those left out are missing or None.

    >>> reports({"users": 10, "local_epsilon": 1, "rounds": None}).describe()
    '10 shuffled reports (local epsilon 1, shared randomizer)'
    """
    from sharpdp.mechanisms import ShuffledReports

    given = {word: values[word] for word in REPORTS if values.get(word) is not None}
    missing = [word for word in REPORTS[:2] if word not in given]
    if missing:
        raise InvalidArgument(f"{missing[0]} must be given; got none.")
    return ShuffledReports(**given)


def _repeats(text: str, words: list[str]) -> tuple[list[str], int | float | None]:
    """The words before `x COUNT`, and the count, None if there is no such end."""
    if "x" not in words:
        return words, None
    place = words.index("x")
    if place != len(words) - 2:
        raise UsageError(f"x must come last, before one count; got {quoted(text)}. {EXAMPLE}")
    return words[:place], _number("the count after x", words[-1])


def _values(name: str, words: list[str]) -> dict[str, Any]:
    """The parameters as given: each key known, given once, and none missing."""
    _, needed, optional = FORMS[name]
    known = tuple(dict.fromkeys((*needed, *optional)))
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if not equals or not key or not value:
            raise UsageError(f"{name} takes KEY=VALUE; got {quoted(word)}. {EXAMPLE}")
        if key not in known:
            ask = hint(key, [f"{one}=" for one in known], f"It takes {', '.join(known)}.")
            raise UsageError(f"{name} has no parameter {cut(key)}.{ask}")
        if key in values:
            raise UsageError(f"{name} takes {key}= once; got it twice.")
        values[key] = _value(f"{key} of {name}", key, value)
    missing = [key for key in needed if key not in values]
    if missing:
        raise UsageError(f"{name} needs {' and '.join(f'{key}=' for key in missing)}. {EXAMPLE}")
    return values


def _value(title: str, key: str, text: str) -> Any:
    """One value: a word for some keys, a list for the pmfs, a number otherwise."""
    if key in ("batches", "randomizer"):
        return text
    if key == "drop_last":
        return {"true": True, "false": False}.get(text.lower(), text)
    if key in ("p", "q"):
        return [_number(title, part) for part in text.split(",")]
    return _number(title, text)


def _number(title: str, text: str) -> int | float:
    try:
        return number(text)
    except argparse.ArgumentTypeError as wrong:
        raise UsageError(f"{title} {wrong}") from None
