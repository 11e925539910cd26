"""Which versions and which instructions are declared, and what `make` does about them."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source_tree import ROOT, modules
from tests.instruction_sets import AVX512, NUMPY, OLDEST, settings
from tests.oldest_versions import lower_ends

toml = pytest.importorskip("tomllib", reason="Python 3.10 cannot read pyproject.toml by itself")
PROJECT = toml.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# By the release notes of both packages: what may be missing in the oldest version that is declared.
SINCE = {
    "numpy": {"trapezoid": (2, 0), "vecdot": (2, 0), "unstack": (2, 1), "cumulative_sum": (2, 1)},
    "scipy": {"betaincc": (1, 12), "betainccinv": (1, 12), "log_wright_bessel": (1, 14)},
}


@pytest.mark.parametrize("package", SINCE)
def test_the_oldest_version_has_every_function_that_is_called(package: str) -> None:
    (declared,) = (one for one in lower_ends(PROJECT["dependencies"], []) if package in one)
    oldest = tuple(map(int, declared.partition("==")[2].split(".")))
    called = {
        name
        for module in modules()
        for name in SINCE[package]
        if re.search(rf"np\.{name}\b" if package == "numpy" else rf"\b{name}\b", module.text)
    }
    assert {name for name in called if SINCE[package][name] > oldest} == set()


def test_lower_ends_are_those_of_the_core_and_of_the_extras_named() -> None:
    requirements = [
        "numpy>=1.26",
        "tomli>=2.0; python_version < '3.11'",
        "rich>=13.7; extra == 'cli'",
        "grain>=0.2.10; (python_version >= '3.11') and extra == 'grain'",
        "sharpdp[cli]; extra == 'all'",
    ]
    core = ["numpy==1.26", "tomli==2.0; python_version < '3.11'"]
    assert list(lower_ends(requirements, [])) == core
    assert list(lower_ends(requirements, ["cli", "grain"])) == [
        *core,
        "rich==13.7",
        "grain==0.2.10; (python_version >= '3.11')",
    ]


@pytest.mark.parametrize(
    ("machine", "found", "oldest", "newest"),
    [
        ("x86_64", ["X86_V3", "X86_V4"], OLDEST["x86_64"] | {NUMPY: "X86_V3 X86_V4"}, AVX512),
        ("x86_64", ["AVX2", "AVX512_SKX"], OLDEST["x86_64"] | {NUMPY: "AVX2 AVX512_SKX"}, AVX512),
        ("x86_64", ["AVX2", "AVX512F"], OLDEST["x86_64"] | {NUMPY: "AVX2 AVX512F"}, {}),
        ("AMD64", [], OLDEST["x86_64"], {}),
        ("aarch64", ["ASIMDDP", "SVE"], OLDEST["aarch64"] | {NUMPY: "ASIMDDP SVE"}, {}),
        ("arm64", [], {}, {}),
        ("riscv64", [], {}, {}),
    ],
)
def test_no_instructions_are_asked_for_that_a_processor_lacks(
    machine: str, found: list[str], oldest: dict[str, str], newest: dict[str, str]
) -> None:
    assert settings(machine, found) == {"oldest": oldest, "newest": newest}


def test_make_test_runs_both() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(r"^test:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert "test-processors" in recipe
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))["jobs"]
    steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    assert "make test-oldest" in steps
