"""One word per quantity everywhere: signatures, fields, command-line options, module names."""

from __future__ import annotations

import ast
import re

import pytest

import sharpdp
from tests.architecture.source_tree import Function, Module, modules, statements

# What the glossary calls these quantities, wherever a user meets them.
SYNONYMS = {
    "alpha": "order",
    "batch": "batch_size",
    "dataset": "dataset_size",
    "eps": "epsilon",
    "eps0": "local_epsilon",
    "iterations": "steps",
    "k": "categories",
    "lam": "order",
    "n": "dataset_size or users",
    "noise": "noise_multiplier",
    "noise_scale": "noise_multiplier or scale",
    "population_size": "population",
    "q": "sample_rate",
    "rate": "sample_rate",
    "sampling_probability": "sample_rate",
    "sampling_rate": "sample_rate",
    "sigma": "noise_multiplier",
    "T": "steps or rounds",
    "target_delta": "delta",
    "target_epsilon": "epsilon",
}
BANNED_PREFIXES = ("num_", "n_", "get_", "compute_", "calc_", "is_upper", "is_lower")
BANNED_SUFFIXES = ("Manager", "Helper", "Base", "Accountant", "Config", "Event", "Utils")
BANNED_MODULES = {"utils", "common", "core", "types", "misc", "helpers"}
# The two mass functions of a FinitePair are the p and q of its formula.
FORMULA_LETTERS = {("FinitePair", "p"), ("FinitePair", "q")}
# Folders whose modules are told apart by the folder's name.
SUBJECTS = {"profile", "curves"}
# Folders in which a user reads the signatures.
USER_FOLDERS = {
    "batches",
    "budget",
    "mechanisms",
    "curves",
    "questions",
    "report",
    "plots",
    "cli",
}


def declared(module: Module) -> list[tuple[int, str, str]]:
    """(line, owner, name) of every public parameter and every field declared in a class."""
    found: list[tuple[int, str, str]] = []

    def visit(node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                fields = [f for f in child.body if isinstance(f, ast.AnnAssign)]
                for field in fields:
                    name = ast.unparse(field.target)
                    if not name.startswith("_"):
                        found.append((field.lineno, child.name, name))
                visit(child, child.name)
            elif isinstance(child, Function) and is_public(child.name):
                for parameter in parameters(child):
                    found.append((child.lineno, owner or child.name, parameter))

    visit(module.tree, "")
    return found


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__")


def parameters(function: Function) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [a.arg for a in every if a.arg not in ("self", "cls") and not a.arg.startswith("_")]


def defined(module: Module) -> list[tuple[int, str]]:
    """(line, name) of every function and class."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [(n.lineno, n.name) for n in statements(module.tree) if isinstance(n, kinds)]


def options(module: Module) -> list[tuple[int, str]]:
    """(line, name) of every `--long-option` given to `add_argument`, in the words of the API."""
    found = []
    for node in ast.walk(module.tree) if "add_argument" in module.text else ():
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not is_call or node.func.attr != "add_argument":
            continue
        for argument in node.args:
            if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
                name = str(argument.value).removeprefix("--").replace("-", "_")
                found.append((node.lineno, name))
    return found


def synonym_violations(module: Module) -> list[str]:
    if module.folder not in USER_FOLDERS:
        return []
    words = declared(module) + [(line, "option", name) for line, name in options(module)]
    return [
        f"{module.path}:{line}: {owner}({name}) is called {SYNONYMS[name]}"
        for line, owner, name in words
        if name in SYNONYMS and (owner, name) not in FORMULA_LETTERS
    ]


def prefix_violations(module: Module) -> list[str]:
    if module.folder == "integrations":  # an adapter has the names that the other package asks for
        return []
    names = [(line, name) for line, _, name in declared(module)] + defined(module)
    return [
        f"{module.path}:{line}: {name}"
        for line, name in names
        if name.lstrip("_").startswith(BANNED_PREFIXES) or name.endswith(BANNED_SUFFIXES)
    ]


def test_one_word_per_quantity() -> None:
    assert [v for module in modules() for v in synonym_violations(module)] == []


def test_names_without_idle_prefixes_and_suffixes() -> None:
    assert [v for module in modules() for v in prefix_violations(module)] == []


def inside_subject(module: Module) -> bool:
    """Whether the folder tells what the name of the module is about."""
    parts = module.name.split(".")
    return len(parts) > 2 or parts[0] in SUBJECTS


def test_module_names_say_what_they_hold() -> None:
    for module in modules():
        parts = module.name.split(".")
        assert not BANNED_MODULES & set(parts), module.path
        if len(parts) > 1:
            repeats = parts[-2] in parts[-1] and not inside_subject(module)
            assert not repeats, f"{module.path} repeats its folder"


def test_no_two_modules_outside_the_subjects_share_a_name() -> None:
    seen: dict[str, str] = {}
    for module in modules():
        parts = module.name.split(".")
        if module.is_package or inside_subject(module) or parts[-1] == "__main__":
            continue
        assert parts[-1] not in seen, f"{module.path} and {seen[parts[-1]]}"
        seen[parts[-1]] = module.path


def test_public_names_are_sorted_complete_and_real() -> None:
    assert sharpdp.__all__ == sorted(set(sharpdp.__all__))
    for name in sharpdp.__all__:
        assert getattr(sharpdp, name) is not None
        assert name == "__version__" or not name.startswith("_")


def test_version_is_one_of_three_numbers() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", sharpdp.__version__)


@pytest.mark.parametrize(
    ("name", "text", "check"),
    [
        ("mechanisms.noise", "class Gaussian:\n    sigma: float", synonym_violations),
        ("mechanisms.noise", "class Other:\n    q: float", synonym_violations),
        ("questions.account", "def account(mechanism, *, eps): ...", synonym_violations),
        ("questions.account", "class A:\n    def epsilon(self, T): ...", synonym_violations),
        ("cli", "parser.add_argument('--sampling-rate', type=float)", synonym_violations),
        ("pairs.pair", "def f(num_points): ...", prefix_violations),
        ("pairs.pair", "def get_value(): ...", prefix_violations),
        ("pairs.pair", "def _compute_value(): ...", prefix_violations),
        ("questions.account", "class PrivacyAccountant: ...", prefix_violations),
    ],
)
def test_the_rules_catch_what_they_should(name: str, text: str, check: object) -> None:
    assert callable(check)
    assert check(Module(name, f"{name}.py", text)) != []


def test_the_rules_allow_what_they_should() -> None:
    text = "class FinitePair:\n    p: tuple\n    q: tuple\n    def _inner(self, sigma): ..."
    module = Module("mechanisms.noise", "noise.py", text)
    assert synonym_violations(module) + prefix_violations(module) == []
