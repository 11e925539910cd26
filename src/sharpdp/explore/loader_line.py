"""What a line of code says about batches: a DataLoader, a shuffle buffer, Opacus. Nothing is executed.

Only what is written in the line counts: a name instead of a number is left open, and what the line does
not settle is refused. `sharpdp.integrations.torch.scheme_of` reads a real loader.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from dataclasses import dataclass, field
from typing import Any

from sharpdp.errors import InvalidArgument

__all__ = ["LoaderLine", "read_loader"]

Calls = dict[str, ast.Call]
"""The calls of a line by the name of what is called."""

LONGEST = 2000
"""Characters of a line."""


@dataclass(frozen=True)
class LoaderLine:
    """What a line of code says: the batch scheme in the words of the command line, and why.

    Args:
        words: Words of a batch scheme, such as {"batches": "shuffled", "drop_last": True}; sizes only
            where the line has them as numbers.
        why: One sentence for the reader.
    """

    words: dict[str, Any] = field(default_factory=dict)
    why: str = ""


def read_loader(text: str) -> LoaderLine:
    """The batch scheme that a line of code describes.

    Args:
        text: Code such as `DataLoader(data, batch_size=512, shuffle=True)`, at most 2000 characters.

    Returns:
        The scheme in words, and the reason.

    Raises:
        InvalidArgument: This is not Python, or it settles no batch scheme.

    >>> read_loader("DataLoader(data, batch_size=512, shuffle=True, drop_last=True)").words
    {'batches': 'shuffled', 'drop_last': True, 'batch_size': 512}
    """
    if len(text) > LONGEST:
        raise InvalidArgument(
            f"loader must have at most {LONGEST} characters; got {len(text)}. Paste one line."
        )
    calls: Calls = {}
    for node in ast.walk(_tree(text.strip())):
        if isinstance(node, ast.Call):
            calls.setdefault(_name(node.func), node)
    for name, reader in READERS.items():
        if name in calls:
            return reader(calls)
    known = ", ".join(READERS)
    raise InvalidArgument(f"loader must contain a call of one of {known}; got none of them.")


def _tree(text: str) -> ast.Module:
    """The code as it is, or without the margin that its further lines have inside a function."""
    for lines in (text, inspect.cleandoc(text)):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.parse(lines)
    raise InvalidArgument(
        "loader must be a line of Python, such as DataLoader(data, batch_size=512, shuffle=True)."
    )


def _torch_loader(calls: Calls) -> LoaderLine:
    """torch.utils.data.DataLoader(dataset, batch_size=1, shuffle=None, sampler=None, ...)."""
    call = calls["DataLoader"]
    values = _arguments(call, ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler"))
    size = {"batch_size": _value(values.get("batch_size"), 1)}
    if not isinstance(size["batch_size"], int) or isinstance(size["batch_size"], bool):
        size = {}
    if "batch_sampler" in values:
        raise InvalidArgument(
            "loader has a batch_sampler, and the line does not say what it draws. In Python, "
            "sharpdp.integrations.torch.scheme_of(loader, epochs=...) looks at the object."
        )
    drop_last = _known("drop_last", values, default=False)
    dropped = {"drop_last": True} if drop_last else {}
    if "sampler" in values:
        return _torch_sampler(values["sampler"], size, dropped)
    shuffle = _known("shuffle", values, default=False)
    if not shuffle:
        return LoaderLine(
            {"batches": "deterministic", **size},
            "Without shuffle=True the loader keeps the stored order, which hides nothing.",
        )
    rest = " and drops the incomplete last batch" if drop_last else ""
    return LoaderLine(
        {"batches": "shuffled", **dropped, **size},
        f"shuffle=True draws a new order in every epoch{rest}: these are shuffled batches, not Poisson.",
    )


def _torch_sampler(sampler: ast.expr, size: dict[str, Any], dropped: dict[str, Any]) -> LoaderLine:
    """A sampler that is made in the line."""
    name = _name(sampler.func) if isinstance(sampler, ast.Call) else ""
    if isinstance(sampler, ast.Call) and name == "RandomSampler":
        values = _arguments(sampler, ("data_source", "replacement", "num_samples"))
        if _known("replacement", values, default=False):
            raise InvalidArgument(
                "loader has RandomSampler(replacement=True), whose last batch of an epoch may be smaller "
                "than the others, which is not covered. Use replacement=False."
            )
        if "num_samples" in values:
            raise InvalidArgument(
                "loader has RandomSampler(num_samples=...), which is not covered."
            )
        return LoaderLine(
            {"batches": "shuffled", **dropped, **size}, "RandomSampler shuffles every epoch."
        )
    if name == "SequentialSampler":
        return LoaderLine({"batches": "deterministic", **size}, "The stored order hides nothing.")
    raise InvalidArgument(
        "loader has a sampler that the line does not settle. In Python, "
        "sharpdp.integrations.torch.scheme_of(loader, epochs=...) looks at the object."
    )


def _opacus(calls: Calls) -> LoaderLine:
    """PrivacyEngine.make_private(..., poisson_sampling=True)."""
    call = next(
        calls[name] for name in ("make_private", "make_private_with_epsilon") if name in calls
    )
    if _known("poisson_sampling", _arguments(call, ()), default=True):
        return LoaderLine(
            {"batches": "poisson"},
            "Opacus replaces the loader by one with Poisson batches unless poisson_sampling=False.",
        )
    if "DataLoader" in calls:
        return _torch_loader(calls)
    raise InvalidArgument(
        "loader has poisson_sampling=False, so that the batches are those of the DataLoader: paste its "
        "line as well."
    )


def _buffer(calls: Calls) -> LoaderLine:
    """datasets' or tf.data's shuffle(buffer_size)."""
    values = _arguments(calls["shuffle"], ("buffer_size",))
    size = _value(values.get("buffer_size"), None)
    if not isinstance(size, int) or isinstance(size, bool):
        raise InvalidArgument(
            "loader must have shuffle(buffer_size=...) with a number; without one it depends on the "
            "library what is shuffled."
        )
    words: dict[str, Any] = {"batches": "buffered", "buffer_size": size}
    if "batch" in calls:
        batch = _value(_arguments(calls["batch"], ("batch_size",)).get("batch_size"), None)
        words |= {"batch_size": batch} if isinstance(batch, int) else {}
    return LoaderLine(
        words, f"A buffer of {size:,} examples is shuffled: examples far apart never trade places."
    )


READERS = {
    "make_private": _opacus,
    "make_private_with_epsilon": _opacus,
    "DataLoader": _torch_loader,
    "shuffle": _buffer,
}
"""What reads which call, the outermost first."""


def _name(function: ast.expr) -> str:
    """The last word of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _arguments(call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
    """The arguments by name; those without one by their place. None may be packed into * or **."""
    if any(isinstance(value, ast.Starred) for value in call.args) or any(
        word.arg is None for word in call.keywords
    ):
        raise InvalidArgument(
            f"loader must have the arguments of {_name(call.func)} written out; the line has * or **."
        )
    given = dict(zip(names, call.args, strict=False))
    return {**given, **{str(word.arg): word.value for word in call.keywords}}


def _value(node: ast.expr | None, default: object) -> object:
    """The constant that an argument is; the default if there is none, the node itself if it is a name."""
    if node is None:
        return default
    return node.value if isinstance(node, ast.Constant) else node


def _known(name: str, values: dict[str, ast.expr], *, default: bool) -> bool:
    """An argument that must be True or False, since everything depends on it."""
    value = _value(values.get(name), default)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise InvalidArgument(f"loader must say {name}=True or {name}=False; the line has neither.")
