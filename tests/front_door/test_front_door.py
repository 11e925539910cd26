"""`import sharpdp as dp`: which names there are, and what a name or keyword that is not there gets."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sharpdp as dp

SOURCE = Path(dp.__file__)
MOST_NAMES = 33


def test_there_are_few_names_and_dir_shows_no_others() -> None:
    assert len(dp.__all__) <= MOST_NAMES
    subpackages = [name for name in dir(dp) if name not in dp.__all__]
    assert {"plots", "report", "plans", "learn", "montecarlo", "errors"} <= set(subpackages)
    assert all(getattr(dp, name).__name__.startswith("sharpdp.") for name in subpackages)


def test_type_checkers_see_the_same_names() -> None:
    blocks = [
        node for node in ast.parse(SOURCE.read_text("utf-8")).body if isinstance(node, ast.If)
    ]
    (block,) = blocks
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    named = {alias.asname for node in imports for alias in node.names} - {"_estimate"}
    assert named | {"montecarlo"} == {*dir(dp), *dp._MODULE_OF}


def test_names_that_are_not_listed_have_a_subpackage() -> None:
    types_of_answers = {"Guarantee", "Rigor", "Side"}
    for name in dp._MODULE_OF.keys() - dp.__all__ - types_of_answers:
        assert any(hasattr(getattr(dp, room), name) for room in dp._SUBPACKAGES), name


@pytest.mark.parametrize("name", ["renyi", "tradeoff", "mixtures", "montecarlo"])
def test_subpackages_in_another_folder_are_imported_by_their_name_and_exist_once(name: str) -> None:
    code = (
        f"import sharpdp.{name} as found\n"
        f"from sharpdp.{name} import *\n"
        "import sharpdp as dp\n"
        f"names = dp.{name}.__all__\n"
        f"assert all(getattr(found, each) is getattr(dp.{name}, each) for each in names)\n"
        "assert set(names) <= set(globals())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_modules_of_subpackages_are_imported_by_their_old_names() -> None:
    code = (
        "from sharpdp.tradeoff.polyline import Polyline\n"
        "import sharpdp.mixtures.inequalities as found\n"
        "import sharpdp as dp\n"
        "assert Polyline is dp.tradeoff.Polyline\n"
        "from sharpdp.curves.mixtures import inequalities\n"
        "assert found.averaged is inequalities.averaged\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["plots", "report", "plans", "learn", "montecarlo"])
def test_subpackages_need_no_import_of_their_own(name: str) -> None:
    code = f"import sharpdp as dp; assert dp.{name}.__all__"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_sharpdp_imports_nothing_heavy() -> None:
    code = "import sys, sharpdp; assert not {'numpy', 'scipy', 'typing'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-S", "-c", code], check=True, env={"PYTHONPATH": str(SOURCE.parents[1])}
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gaussian", "Gaussian"),
        ("Poisson", "PoissonBatches"),
        ("BallInBins", "BallsAndBins"),
        ("plot", "plots"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. Did you mean {meant}\?$"):
        getattr(dp, name)


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: dp.Gaussian(sigma=2), "noise_multiplier"),
        (
            lambda: dp.DPSGD(dp.PoissonBatches(sample_rate=0.1, steps=1), noise=1),
            "noise_multiplier",
        ),
        (lambda: dp.PoissonBatches(q=0.01), "sample_rate"),
        (lambda: dp.ShuffledBatches(left_over="dropped"), "drop_last"),
        (lambda: dp.ShuffledReports(n=10, local_epsilon=1.0), "users"),
        (lambda: dp.learn.PrivUnit(dim=3), "dimension"),
    ],
)
def test_an_unknown_keyword_gets_the_one_that_was_meant(
    make: Callable[[], object], meant: str
) -> None:
    with pytest.raises(TypeError, match=rf"takes no keyword .*=\. Did you mean {meant}=\?$"):
        make()


def test_a_keyword_like_no_other_gets_the_list() -> None:
    with pytest.raises(TypeError, match=r"^Laplace takes no keyword colour=\. It takes scale=\.$"):
        dp.Laplace(colour=1)
