"""The source tree as the architecture tests see it: modules, imports, functions, docstrings."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "sharpdp"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.lru_cache(maxsize=1)  # those of all modules are so large that the collector slows down
def parsed(text: str, path: str) -> ast.Module:
    """The syntax tree of a source file."""
    return ast.parse(text, filename=path)


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name below the package, its text and its syntax tree."""

    name: str
    path: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text, self.path)

    @property
    def folder(self) -> str:
        """The first part of the name, which decides the layer; the package itself is ''."""
        return self.name.split(".")[0]


@dataclass(frozen=True)
class Import:
    """One imported name, absolute; `lazy` if it stands inside a function."""

    target: str
    line: int
    lazy: bool
    typing_only: bool


def blocks(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly inside a node, and the handlers and cases that hold some."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, field, ())


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and every statement in it, at any depth: far fewer nodes than `ast.walk` visits."""
    yield node
    for child in blocks(node):
        yield from statements(child)


def modules() -> list[Module]:
    """Every module of the package, read from disk."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        if is_package:
            parts.pop()
        where = str(path.relative_to(ROOT))
        found.append(Module(".".join(parts), where, path.read_text("utf-8"), is_package))
    return found


@functools.cache
def imports(module: Module) -> tuple[Import, ...]:
    """Every import statement of a module, at any depth, with relative ones made absolute."""
    return tuple(_imports(module, module.tree, lazy=False, typing_only=False))


def _imports(module: Module, node: ast.AST, *, lazy: bool, typing_only: bool) -> Iterator[Import]:
    for child in blocks(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, lazy, typing_only)
        elif isinstance(child, ast.ImportFrom):
            origin = _origin(module, child)
            for alias in child.names:
                yield Import(f"{origin}.{alias.name}", child.lineno, lazy, typing_only)
        else:
            yield from _imports(
                module,
                child,
                lazy=lazy or isinstance(child, Function),
                typing_only=typing_only or _is_typing_guard(child),
            )


def _origin(module: Module, node: ast.ImportFrom) -> str:
    """The absolute module an import is from."""
    if node.level == 0:
        return node.module or ""
    parts = ["sharpdp", *module.name.split(".")] if module.name else ["sharpdp"]
    drop = node.level - 1 if module.is_package else node.level
    base = parts[: len(parts) - drop]
    return ".".join([*base, node.module] if node.module else base)


def _is_typing_guard(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def folder_of(target: str) -> str | None:
    """The folder of the package that an import reaches; None for other packages."""
    parts = target.split(".")
    if parts[0] != "sharpdp":
        return None
    return parts[1] if len(parts) > 1 else ""


def docstrings(module: Module) -> list[tuple[int, str]]:
    """(line, text) of every docstring of a module."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in statements(module.tree):
        if isinstance(node, holders) and (text := ast.get_docstring(node)):
            found.append((getattr(node, "lineno", 1), text))
    return found
