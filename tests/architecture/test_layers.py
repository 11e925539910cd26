"""Two rules: imports point from a layer to those below it, and a subject imports no other subject."""

from __future__ import annotations

import graphlib
import subprocess
import sys

import pytest

from tests.architecture.source_tree import Module, folder_of, imports, modules

# Lowest first. A module imports its own folder and the layers below it, never a neighbor.
LAYERS: tuple[set[str], ...] = (
    {"errors"},
    {"_validate"},
    {"storage"},
    {"display"},
    {"bracket"},
    {"numerics"},
    {"randomness", "pairs"},
    {"batches", "profile"},
    {"mechanisms"},
    {"curves"},
    {"bounds"},
    {"questions"},
    {"plans"},
    {"report"},
    {"budget"},
    {"plots", "learn"},
    {"integrations"},
    {"audit"},
    {"cli"},
    {"explore"},
    {"", "__main__"},
)
LEVEL = {folder: level for level, layer in enumerate(LAYERS) for folder in layer}
# What is run is plain data: it knows no analysis, although that lies below it.
DATA = {"batches", "mechanisms"}
ANALYSIS = {"numerics", "pairs", "profile"}
# Methods that promise a higher layer (`answer.report()`, `curve.plot()`): inside a function only.
LAZY_UPWARD = {
    ("_validate", "display"),
    ("cli", "explore"),
    ("curves", "plots"),
    ("curves", "questions"),
    ("curves", "report"),
    ("explore", ""),
    ("pairs", "plots"),
    ("questions", "learn"),
    ("questions", "plots"),
    ("questions", "report"),
    ("report", "plots"),
}

CORE_PACKAGES = {"numpy", "scipy"}
EXTRA_PACKAGES = {
    "cli": {"rich", "shtab"},
    "plots": {"matplotlib"},
    "audit": {"opacus", "torch"},
    "learn": {"torch"},
    "integrations": {
        *("apache_beam", "dp_accounting", "flwr", "grain", "lightning", "opacus", "pyarrow"),
        *("torch", "transformers"),
    },
}
# Each of these costs half a second or more to import, or is not always there.
HEAVY = ("scipy.stats", "scipy.optimize", "matplotlib", "torch", "opacus", "rich")


def layer_violations(module: Module) -> list[str]:
    violations = []
    for item in imports(module):
        folder = folder_of(item.target)
        # `from sharpdp import __version__` reaches no folder.
        if folder in (None, module.folder, "__version__"):
            continue
        if (item.lazy or item.typing_only) and (module.folder, folder) in LAZY_UPWARD:
            continue
        is_below = folder in LEVEL and LEVEL[folder] < LEVEL[module.folder]
        is_front_door = module.folder == "" and folder in LEVEL
        is_analysis = module.folder in DATA and folder in ANALYSIS
        if not (is_below or is_front_door) or is_analysis:
            violations.append(f"{module.path}:{item.line}: {module.folder!r} imports {folder!r}")
    return violations


def subject_of(name: str, subjects: set[str]) -> str | None:
    """The subject folder of `bounds` that a module lies in, if any."""
    parts = name.removeprefix("sharpdp.").split(".")
    return parts[1] if parts[0] == "bounds" and len(parts) > 1 and parts[1] in subjects else None


def subject_violations(module: Module, subjects: set[str]) -> list[str]:
    own = subject_of(module.name, subjects)
    if own is None:
        return []
    return [
        f"{module.path}:{item.line}: subject {own!r} imports {item.target}"
        for item in imports(module)
        if subject_of(item.target, subjects) not in (None, own)
    ]


def package_violations(module: Module) -> list[str]:
    known = CORE_PACKAGES | EXTRA_PACKAGES.get(module.folder, set()) | {"sharpdp"}
    violations = []
    for item in imports(module):
        package = item.target.split(".")[0]
        if item.typing_only and package == "typing_extensions":  # every type checker brings it
            continue
        if package not in known and package not in sys.stdlib_module_names:
            violations.append(f"{module.path}:{item.line}: imports {package}")
    return violations


def heavy_violations(module: Module) -> list[str]:
    if module.folder in ("learn", "integrations"):
        return []  # extras that are imported by name, and subclass what they import
    return [
        f"{module.path}:{item.line}: imports {item.target} at module level"
        for item in imports(module)
        if not item.lazy
        and not item.typing_only
        and any(item.target == heavy or item.target.startswith(f"{heavy}.") for heavy in HEAVY)
    ]


def import_graph(every: list[Module]) -> dict[str, set[str]]:
    """Module-level imports between the package's own modules."""
    names = {f"sharpdp.{m.name}".rstrip("."): m for m in every}
    graph: dict[str, set[str]] = {}
    for name, module in names.items():
        reached = set()
        for item in imports(module):
            if item.lazy or item.typing_only:
                continue
            parent = item.target.rpartition(".")[0]
            reached |= {target for target in (item.target, parent) if target in names}
        graph[name] = reached - {name, "sharpdp"}
    return graph


def subjects_of(every: list[Module]) -> set[str]:
    """The folders inside `bounds`."""
    return {
        module.name.split(".")[1]
        for module in every
        if module.is_package and module.name.startswith("bounds.")
    }


def test_every_folder_has_a_layer() -> None:
    assert {module.folder for module in modules()} == LEVEL.keys()


def test_imports_point_one_way() -> None:
    every = modules()
    assert every
    assert [v for module in every for v in layer_violations(module)] == []


def test_no_subject_imports_another() -> None:
    every = modules()
    subjects = subjects_of(every)
    assert {"allocation", "fixed_size", "mixture", "shuffle_model", "shuffled_batches"} < subjects
    assert [v for module in every for v in subject_violations(module, subjects)] == []


def test_modules_import_each_other_in_no_circle() -> None:
    graphlib.TopologicalSorter(import_graph(modules())).prepare()


def test_only_numpy_and_scipy_outside_the_extras() -> None:
    assert [v for module in modules() for v in package_violations(module)] == []


def test_no_heavy_import_at_module_level() -> None:
    assert [v for module in modules() for v in heavy_violations(module)] == []


def test_import_sharpdp_is_light() -> None:
    script = f"import sys, sharpdp; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "text", "check"),
    [
        ("batches.scheme", "from ..numerics import special", layer_violations),
        ("batches.scheme", "from sharpdp.pairs.pair import Pair", layer_violations),
        ("mechanisms.noise", "def f():\n    import sharpdp.numerics.special", layer_violations),
        ("mechanisms.noise", "from sharpdp.pairs import pair", layer_violations),
        ("numerics.special", "from sharpdp import pairs", layer_violations),
        ("numerics.special", "from sharpdp import randomness", layer_violations),
        ("errors", "from . import bracket", layer_violations),
        ("questions.account", "from sharpdp import plots", layer_violations),
        ("bounds.noise", "def f():\n    from sharpdp import plots", layer_violations),
        ("bounds.noise", "from sharpdp import Gaussian", layer_violations),
        ("pairs.pair", "import pandas", package_violations),
        ("pairs.pair", "import typing_extensions", package_violations),
        ("pairs.pair", "def f():\n    import matplotlib", package_violations),
        ("questions.account", "from scipy import stats", heavy_violations),
        ("questions.account", "import scipy.optimize as so", heavy_violations),
        ("plots", "from matplotlib import pyplot", heavy_violations),
    ],
)
def test_the_rules_catch_what_they_should(name: str, text: str, check: object) -> None:
    assert callable(check)
    assert check(Module(name, f"{name}.py", text)) != []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bounds.noise", "from ..pairs.pair import GaussianPair"),
        ("bounds.noise", "from .registry import bound"),
        ("questions.account", "def f():\n    from sharpdp import report"),
        ("cli", "from sharpdp import __version__"),
        ("numerics.special", "import numpy as np\nfrom scipy.special import ndtr"),
        ("mechanisms.noise", "if TYPE_CHECKING:\n    from typing_extensions import TypeVar"),
    ],
)
def test_the_rules_allow_what_they_should(name: str, text: str) -> None:
    module = Module(name, f"{name}.py", text)
    assert layer_violations(module) + package_violations(module) + heavy_violations(module) == []


def test_the_rule_about_subjects_catches_and_allows() -> None:
    subjects = {"mixture", "allocation"}
    text = "from sharpdp.bounds.allocation.ratio_law import f"
    assert subject_violations(Module("bounds.mixture.theorems", "", text), subjects) != []
    assert subject_violations(Module("bounds.allocation.theorems", "", text), subjects) == []
    assert subject_violations(Module("bounds.noise", "", text), subjects) == []


def test_a_circle_is_seen() -> None:
    circle = [
        Module("pairs", "", "", is_package=True),
        Module("pairs.pair", "", "from .loss import Loss"),
        Module("pairs.loss", "", "from sharpdp.pairs import pair"),
    ]
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(import_graph(circle)).prepare()
