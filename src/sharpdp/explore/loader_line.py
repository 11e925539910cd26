"""Batches by a line of code: a DataLoader, a shuffle buffer, Opacus. Nothing is executed.

Only what is written in the line counts: a name instead of a number is left open, and what the line does
not settle is refused. A seed that is written out and closer to zero than 2^32 can be found by trying: the
order counts as known, as for `sharpdp.integrations.torch.scheme_of`, which reads a real loader.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from dataclasses import dataclass, field
from typing import Any

from sharpdp.errors import InvalidArgument

__all__ = ["LoaderLine", "read_loader"]

LOOKS = "In Python, sharpdp.integrations.torch.scheme_of(loader, epochs=...) looks at the object."

GUESSABLE = 2**32
"""Seeds closer to zero than this can all be tried."""


@dataclass(frozen=True)
class Calls:
    """The calls of some code by the name of what is called, the outermost and first of each.

    Args:
        first: The calls.
        seeds: What is seeded, by name, and the seed; "torch" for functions that seed everything.
        made: What names stand for.
    """

    first: dict[str, ast.Call] = field(default_factory=dict)
    seeds: dict[str, ast.expr] = field(default_factory=dict)
    made: dict[str, ast.expr] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        """Whether something of this name is called."""
        return name in self.first

    def __getitem__(self, name: str) -> ast.Call:
        """The first call of this name."""
        return self.first[name]


LONGEST = 2000
"""Characters of a line."""


@dataclass(frozen=True)
class LoaderLine:
    """The batch scheme of a line of code, in the words of the command line, and the reason.

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
    calls = _calls(_tree(text.strip()))
    for name, reader in READERS.items():
        if name in calls:
            return reader(calls)
    readers = ", ".join(READERS)
    raise InvalidArgument(f"loader must contain a call of one of {readers}; got none of them.")


def _tree(text: str) -> ast.Module:
    """The code as it is, or without the margin that its further lines have inside a function."""
    for lines in (text, inspect.cleandoc(text)):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.parse(lines)
    raise InvalidArgument(
        "loader must be a line of Python, such as DataLoader(data, batch_size=512, shuffle=True)."
    )


def _calls(tree: ast.Module) -> Calls:
    calls = Calls()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            calls.made.update(dict.fromkeys(names, node.value))
        if not isinstance(node, ast.Call):
            continue
        name = _name(node.func)
        calls.first.setdefault(name, node)
        if name in SEEDERS and node.args:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if isinstance(owner, ast.Name) and name == "manual_seed":
                calls.seeds[owner.id] = node.args[0]
            elif not isinstance(owner, ast.Call):  # a generator that is made there
                calls.seeds["torch"] = node.args[0]
    return calls


SEEDERS = ("manual_seed", "seed_everything", "set_seed")
"""Functions of torch, Lightning, transformers and Accelerate that take a seed."""


def _known_seed(generator: ast.expr | None, calls: Calls) -> int | None:
    """The seed of a generator (torch's own for None), if it is written out and small."""
    if generator is None or _value(generator, None) is None:
        return _guessable(calls.seeds.get("torch"))
    if isinstance(generator, ast.Name):
        if generator.id in calls.seeds:
            return _guessable(calls.seeds[generator.id])
        generator = calls.made.get(generator.id, generator)
    if (
        isinstance(generator, ast.Call)
        and _name(generator.func) == "manual_seed"
        and generator.args
    ):
        return _guessable(generator.args[0])
    if isinstance(generator, ast.Call) and _name(generator.func) == "Generator":
        raise InvalidArgument(
            "loader has a torch.Generator that is never seeded: it draws the same numbers in every run, "
            "so that anyone knows the batches. Call generator.seed(), or pass no generator."
        )
    raise InvalidArgument(
        f"loader has a generator, and the line does not say how it is seeded: paste that, too. {LOOKS}"
    )


def _guessable(node: ast.expr | None) -> int | None:
    """A whole number that is written out and closer to zero than 2^32."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    number = _value(node.operand if isinstance(node, ast.UnaryOp) else node, None)
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= GUESSABLE:
        return None
    return -number if negative else number


def _in_known_order(seed: int, size: dict[str, Any]) -> LoaderLine:
    return LoaderLine(
        {"batches": "deterministic", **size},
        f"The order follows from seed {seed}, which others can find out by trying: it counts as known, "
        "and hides nothing.",
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
            f"loader has a batch_sampler, and the line does not say what it draws. {LOOKS}"
        )
    drop_last = _known("drop_last", values, default=False)
    dropped = {"drop_last": True} if drop_last else {}
    if "sampler" in values:
        return _torch_sampler(values["sampler"], size, dropped, calls)
    shuffle = _known("shuffle", values, default=False)
    if not shuffle:
        return LoaderLine(
            {"batches": "deterministic", **size},
            "Without shuffle=True the loader keeps the stored order, which hides nothing.",
        )
    seed = _known_seed(values.get("generator"), calls)
    if seed is not None:
        return _in_known_order(seed, size)
    rest = " and drops the incomplete last batch" if drop_last else ""
    return LoaderLine(
        {"batches": "shuffled", **dropped, **size},
        f"shuffle=True draws a new order in every epoch{rest}: these are shuffled batches, not Poisson, "
        "as long as torch's seed is secret.",
    )


def _torch_sampler(
    sampler: ast.expr, size: dict[str, Any], dropped: dict[str, Any], calls: Calls
) -> LoaderLine:
    """A sampler that is made in the line."""
    name = _name(sampler.func) if isinstance(sampler, ast.Call) else ""
    if isinstance(sampler, ast.Call) and name == "RandomSampler":
        values = _arguments(sampler, ("data_source", "replacement", "num_samples"))
        if _known("replacement", values, default=False):
            raise InvalidArgument(
                "loader has RandomSampler(replacement=True), which is covered only if all batches have "
                f"one size. Use replacement=False. {LOOKS}"
            )
        if "num_samples" in values:
            raise InvalidArgument(
                "loader has RandomSampler(num_samples=...), which is not covered."
            )
        seed = _known_seed(values.get("generator"), calls)
        if seed is not None:
            return _in_known_order(seed, size)
        return LoaderLine(
            {"batches": "shuffled", **dropped, **size},
            "RandomSampler shuffles every epoch, as long as torch's seed is secret.",
        )
    if name == "SequentialSampler":
        return LoaderLine({"batches": "deterministic", **size}, "The stored order hides nothing.")
    raise InvalidArgument(f"loader has a sampler that the line does not settle. {LOOKS}")


def _opacus(calls: Calls) -> LoaderLine:
    """PrivacyEngine.make_private(..., poisson_sampling=True)."""
    call = next(
        calls[name] for name in ("make_private", "make_private_with_epsilon") if name in calls
    )
    if _known("poisson_sampling", _arguments(call, ()), default=True):
        own = _arguments(calls["DataLoader"], ()) if "DataLoader" in calls else {}
        seed = _known_seed(own.get("generator"), calls)
        if seed is not None:
            raise InvalidArgument(
                f"loader draws Poisson batches with seed {seed}, which others can find out by trying, so "
                "that they know how often each example is used; no scheme describes that. Leave the "
                "seed out."
            )
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
    batches: dict[str, Any] = {}
    if "batch" in calls:
        batch = _value(_arguments(calls["batch"], ("batch_size",)).get("batch_size"), None)
        batches = {"batch_size": batch} if isinstance(batch, int) else {}
    seed = _guessable(values.get("seed", calls.seeds.get("torch")))
    if seed is not None:
        return _in_known_order(seed, batches)
    return LoaderLine(
        {"batches": "buffered", "buffer_size": size, **batches},
        f"A buffer of {size:,} examples is shuffled: examples far apart never trade places.",
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
    by_position = dict(zip(names, call.args, strict=False))
    return {**by_position, **{str(word.arg): word.value for word in call.keywords}}


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
