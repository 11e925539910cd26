"""What the package says about itself agrees: version, addresses, Pythons, extras, links of the README."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sharpdp
from sharpdp._validate.extras import optional_packages
from sharpdp.cli import ISSUES
from sharpdp.report.citations import software

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = {"all", "cli", "dp-accounting", "explore", "grain", "learn", "opacus", "plots"}
# Not in `all`: large, or with narrow limits for other packages.
ALONE = {"arrow", "beam", "flower", "huggingface", "lightning"}


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    settings: dict[str, Any] = toml.loads(read("pyproject.toml"))
    return settings


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    jobs: dict[str, Any] = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]
    return jobs


def test_one_version() -> None:
    version = sharpdp.__version__
    assert re.search(rf"^version: {re.escape(version)}$", read("CITATION.cff"), re.MULTILINE)
    assert re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", read("CHANGELOG.md"), re.MULTILINE
    )
    assert f"version = {{{version}}}" in software()


def test_one_address(project: dict[str, Any]) -> None:
    urls = project["project"]["urls"]
    source = urls["Source"]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} == set(urls)
    assert urls["Issues"] == ISSUES == f"{source}/issues"
    assert f"repository-code: {source}\n" in read("CITATION.cff")
    assert f"url: {urls['Homepage']}\n" in read("CITATION.cff")
    assert f'"{source}/"' in read("docs/conf.py")
    assert f"{{{source}}}" in software()


def test_python_versions_are_those_that_are_tested(
    project: dict[str, Any], workflow: dict[str, Any]
) -> None:
    classifiers = project["project"]["classifiers"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    matrix = workflow["core"]["strategy"]["matrix"]
    assert matrix["python"] == claimed == ["3.10", "3.11", "3.12", "3.13"]
    assert project["project"]["requires-python"] == f">={claimed[0]}"
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_extras_are_for_users_and_groups_for_developers(project: dict[str, Any]) -> None:
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    assert set(extras) == EXTRAS | ALONE
    (everything,) = extras["all"]
    assert set(re.findall(r"[\w-]+", everything)) == EXTRAS - {"all"} | {"sharpdp"}
    assert all(f"| `{extra}` |" in read("docs/installation.md") for extra in EXTRAS | ALONE)
    texts = read("Makefile") + read(".github/workflows/tests.yml")
    assert set(re.findall(r"--group ([\w-]+)", texts)) <= set(groups)
    for named in re.findall(r"\.\[([\w,-]+)\]", texts):
        assert set(named.split(",")) <= set(extras)


def test_a_missing_package_names_its_extra() -> None:
    with (
        pytest.raises(sharpdp.MissingExtra, match=r"sharpdp\[opacus\]"),
        optional_packages("opacus", "torch"),
    ):
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    with pytest.raises(ModuleNotFoundError), optional_packages("opacus", "torch"):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("sharpdp.integrations.opacus", "opacus", "opacus"),
        ("sharpdp.integrations.dp_accounting", "dp_accounting", "dp-accounting"),
        ("sharpdp.learn.dpsgd", "torch", "learn"),
        ("sharpdp.integrations.private_gradients", "torch", "learn"),
        ("sharpdp.integrations.huggingface", "transformers", "huggingface"),
        ("sharpdp.integrations.lightning", "lightning", "lightning"),
        ("sharpdp.integrations.flower", "flwr", "flower"),
    ],
)
def test_modules_that_need_an_extra_say_so(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(sharpdp.MissingExtra, match=re.escape(f"sharpdp[{extra}]")):
        import_module(module)


# --- the README on the package index -------------------------------------------------------------------


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build hook, without the build backend, which an environment for tests does not have."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    monkeypatch.setattr(interface, "MetadataHookInterface", object, raising=False)
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_published_readme_are_absolute(hook: ModuleType) -> None:
    text = hook.absolute(read("README.md"), "https://github.com/a/b", "1.2.3")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    assert all(target.startswith("https://") for target in targets)
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert picture.startswith("https://raw.githubusercontent.com/a/b/v1.2.3/docs/")
    assert picture.endswith(".png")  # the index shows no SVG of other hosts
    for target in targets:
        path = target.partition("/v1.2.3/")[2]
        assert not path or (ROOT / path).exists(), path


def test_two_commands_set_everything_up() -> None:
    readme = read("README.md")
    first = readme[: readme.index("## Questions")]
    assert re.findall(r"^\$ make (\w+)", first, re.MULTILINE) == ["demo", "test"]
    assert first.index("ShuffledBatches") < first.index("scheme_of") < first.index("make demo")


@pytest.mark.parametrize("name", ["docs", "release", "tests"])
def test_actions_are_pinned_by_commit(name: str) -> None:
    """A tag or a branch can be moved to other code, which would run with the rights of a release."""
    used = re.findall(r"uses: *(.*)$", read(f".github/workflows/{name}.yml"), re.MULTILINE)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+(\.\d+)*", action), action


def test_releases_are_built_with_known_versions() -> None:
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", read("constraints.txt"), re.MULTILINE))
    assert {"build", "hatchling", "twine"} <= set(pinned)
    release = read(".github/workflows/release.yml")
    installs = re.findall(r"pip install (.*)$", release, re.MULTILINE)
    assert installs
    assert all(words.startswith("--constraint constraints.txt ") for words in installs)
    # the backend is installed by `build` itself, into an environment of its own
    _, _, after = release.partition("run: python -m build\n")
    assert "PIP_CONSTRAINT: ${{ github.workspace }}/constraints.txt" in after.split("- run:")[0]
