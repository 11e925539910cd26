"""Imports point one way (`ALLOWED` is the drawing), and stay light."""

from __future__ import annotations

import graphlib
import subprocess
import sys

import pytest

from tests.architecture.house import Module, imports, modules, room_of

FOUNDATION = {"errors", "_validate", "bracket", "progress"}
NUMBERS = FOUNDATION | {"numerics"}
EXPERIMENTS = NUMBERS | {"curves"}
PLANS = FOUNDATION | {"batches", "mechanisms"}
CURVES = EXPERIMENTS | PLANS | {"renyi", "tradeoffs"}
THEOREMS = CURVES | {"bounds", "proofs"}
ANSWERS = THEOREMS | {"account"}
READINGS = (
    ANSWERS
    | {"montecarlo", "samplers", "calibrate", "compare"}
    | {
        "citations",
        "page",
        "plans",
        "report",
    }
)

# Each room and the rooms it may import. A new top-level module must be given its place here.
ALLOWED: dict[str, set[str]] = {
    "": READINGS,
    "errors": set(),
    "_validate": {"errors"},
    "bracket": {"errors", "_validate"},
    "progress": set(),
    "numerics": NUMBERS,
    "curves": EXPERIMENTS,
    "batches": FOUNDATION | {"batches"},
    "mechanisms": PLANS,
    "renyi": EXPERIMENTS | PLANS,
    "tradeoffs": EXPERIMENTS | PLANS,
    "proofs": {"errors", "proofs"},
    "bounds": THEOREMS,
    "account": THEOREMS,
    "montecarlo": ANSWERS,
    "samplers": ANSWERS | {"calibrate"},
    "calibrate": ANSWERS,
    "compare": ANSWERS,
    "plans": ANSWERS,
    "report": ANSWERS | {"citations", "plans"},
    "citations": THEOREMS,
    "page": ANSWERS | {"citations", "plans", "report"},
    "plots": READINGS,
    "cli": READINGS,
    "learn": READINGS | {"learn"},
    "integrations": READINGS | {"integrations"},
    "__main__": {"cli"},
}

# Methods that promise a later room (`answer.report()`, `curve.plot()`): inside a function only.
LAZY_UPWARD = {
    ("account", "report"),
    ("account", "plots"),
    ("report", "page"),
    ("report", "plots"),
    ("curves", "plots"),
    ("tradeoffs", "account"),
    ("tradeoffs", "plots"),
    ("cli", "plots"),
    ("", "plots"),
}

CORE_PACKAGES = {"numpy", "scipy"}
EXTRA_PACKAGES = {
    "cli": {"rich"},
    "plots": {"matplotlib"},
    "learn": {"torch"},
    "integrations": {"torch", "opacus", "dp_accounting"},
}
# Each of these costs half a second or more to import, or is not always there.
HEAVY = ("scipy.stats", "scipy.optimize", "matplotlib", "torch", "opacus", "rich")


def layer_violations(module: Module) -> list[str]:
    found = []
    for item in imports(module):
        room = room_of(item.target)
        if room is None or room == module.room:
            continue
        is_lazy = item.lazy and (module.room, room) in LAZY_UPWARD
        # `from sharpdp import __version__` reaches no room.
        is_plain = room.startswith("__") and room != "__main__"
        if room not in ALLOWED[module.room] and not is_lazy and not is_plain:
            found.append(f"{module.path}:{item.line}: {module.room!r} imports {room!r}")
    return found


def package_violations(module: Module) -> list[str]:
    known = CORE_PACKAGES | EXTRA_PACKAGES.get(module.room, set()) | {"sharpdp"}
    found = []
    for item in imports(module):
        package = item.target.split(".")[0]
        if package not in known and package not in sys.stdlib_module_names:
            found.append(f"{module.path}:{item.line}: imports {package}")
    return found


def heavy_violations(module: Module) -> list[str]:
    if module.room in ("learn", "integrations"):
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


def test_every_room_has_a_place() -> None:
    rooms = {module.room for module in modules()}
    assert "" in rooms
    assert rooms <= ALLOWED.keys(), "give the new room its place in ALLOWED"


def test_imports_point_one_way() -> None:
    every = modules()
    assert every
    assert [v for module in every for v in layer_violations(module)] == []


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
        ("batches.scheme", "from sharpdp.curves.pair import Pair", layer_violations),
        ("mechanisms.noise", "def f():\n    import sharpdp.numerics.special", layer_violations),
        ("numerics.special", "from sharpdp import curves", layer_violations),
        ("errors", "from . import bracket", layer_violations),
        ("account", "from sharpdp import plots", layer_violations),
        ("bounds.noise", "def f():\n    from sharpdp import plots", layer_violations),
        ("bounds.noise", "from sharpdp import Gaussian", layer_violations),
        ("curves.pair", "import pandas", package_violations),
        ("curves.pair", "def f():\n    import matplotlib", package_violations),
        ("account", "from scipy import stats", heavy_violations),
        ("account", "import scipy.optimize as so", heavy_violations),
        ("plots", "from matplotlib import pyplot", heavy_violations),
    ],
)
def test_the_rules_catch_what_they_should(name: str, text: str, check: object) -> None:
    assert callable(check)
    assert check(Module(name, f"{name}.py", text)) != []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bounds.noise", "from ..curves.pair import GaussianPair"),
        ("bounds.noise", "from .registry import bound"),
        ("account", "def f():\n    from sharpdp import report"),
        ("cli", "from sharpdp import __version__"),
        ("numerics.special", "import numpy as np\nfrom scipy.special import ndtr"),
    ],
)
def test_the_rules_allow_what_they_should(name: str, text: str) -> None:
    module = Module(name, f"{name}.py", text)
    assert layer_violations(module) + package_violations(module) + heavy_violations(module) == []


def test_a_circle_is_seen() -> None:
    circle = [
        Module("curves", "", "", is_package=True),
        Module("curves.pair", "", "from .loss import Loss"),
        Module("curves.loss", "", "from sharpdp.curves import pair"),
    ]
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(import_graph(circle)).prepare()
