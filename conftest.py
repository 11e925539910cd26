"""How the examples of the package are collected, each module once, and with which seed tests begin."""

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "src"

NEEDS = {
    "flwr": ["flower.py", "flower_strategy.py"],
    "grain": ["grain.py", "materialized/grain.py"],
    "lightning": ["lightning.py"],
    "pyarrow": ["materialized"],
    "apache_beam": ["materialized/beam.py"],
    "transformers": ["huggingface.py"],
}

collect_ignore = [
    f"src/sharpdp/integrations/{name}"
    for package, names in NEEDS.items()
    if not find_spec(package)
    for name in names
]


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Import a module as users do, before pytest does.

    Pytest imports the package of a module first, which may import the module itself, and executes
    it then a second time: its classes would exist twice, and `isinstance` would tell them apart.
    """
    if isinstance(collector, pytest.Module) and SOURCE in collector.path.parents:
        parts = collector.path.relative_to(SOURCE).with_suffix("").parts
        with suppress(ImportError):  # which pytest reports
            import_module(".".join(part for part in parts if part != "__init__"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin every test with a seed of torch that `scheme_of` takes for a secret one.

    A test before it, or a module that was collected, may have left a small one.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(2**60 + 1)
