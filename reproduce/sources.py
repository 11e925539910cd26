"""A digest of all source that has a part in a result: a function, what it names, and the library."""

from __future__ import annotations

import ast
import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import sharpdp

__all__ = ["ROOT", "digest", "snapshot", "sources"]

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = Path(sharpdp.__file__).parent
NO_PART = ("cli", "integrations", "learn")
"""Rooms of sharpdp that no number of a paper comes from."""

BESIDE = ("numpy", "scipy", "matplotlib")
"""Other packages whose version may change a digit or a picture."""

HERE = "reproduce"


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def sources(*functions: str) -> str:
    """A digest of functions of this folder ("module.name"), of what they use, and of sharpdp."""
    used: dict[str, str] = {}
    for function in functions:
        module, _, name = function.rpartition(".")
        _collect(module, name, used)
    return digest("\0".join([*(f"{name}\0{used[name]}" for name in sorted(used)), snapshot()[0]]))


@cache
def snapshot() -> tuple[str, dict[Path, str]]:
    """(digest of the library, texts of this folder) as they are now: take it before anything runs."""
    files = (path for path in (ROOT / HERE).rglob("*.py") if "learning" not in path.parts)
    return _library(), {path: path.read_text("utf-8") for path in files}


def _library() -> str:
    """Everything of sharpdp that numbers may come from, and the versions of what that rests on."""
    files = sorted(LIBRARY.rglob("*.py"))
    texts = [
        path.read_text("utf-8")
        for path in files
        if path.relative_to(LIBRARY).parts[0] not in NO_PART
    ]
    versions = [platform.python_version(), *(version(name) for name in BESIDE)]
    return digest("\0".join([*texts, *versions]))


def _collect(module: str, name: str, used: dict[str, str]) -> None:
    """Add the source of a definition and of all that it names in this folder."""
    label = f"{module}.{name}"
    if label in used:
        return
    definitions, imports = _names(module)
    if name not in definitions:
        if name in imports:  # handed on from elsewhere
            _collect(*imports[name], used)
        return
    used[label] = "\n".join(ast.unparse(node) for node in definitions[name])
    for node in definitions[name]:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id in definitions:
                _collect(module, inner.id, used)
            elif isinstance(inner, ast.Name) and inner.id in imports:
                _collect(*imports[inner.id], used)


@cache
def _names(module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str]]]:
    """(what a module defines, what it imports from this folder), by name."""
    definitions: dict[str, list[ast.stmt]] = {}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.parse(snapshot()[1][_file(module)]).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == HERE:
            imports |= {
                alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names
            }
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    definitions.setdefault(inner.id, []).append(node)
    return definitions, imports


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
