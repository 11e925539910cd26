"""Completion in real shells: commands, options, values, files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sharpdp.cli import main
from sharpdp.cli.options import build

COMMANDS = list(build("0")[1])
CASES = [
    ("sharpdp com", ["compose", "compare", "completion"]),
    ("sharpdp dpsgd --noi", ["--noise-multiplier"]),
    ("sharpdp dpsgd --batches sh", ["shuffled", "shuffled-once"]),
    ("sharpdp account --adjacency z", ["zero-out"]),
    ("sharpdp compare sa", ["samplers", "sampled-shuffle"]),
    ("sharpdp compare --over po", ["population"]),
    ("sharpdp calibrate no", ["noise-multiplier"]),
    ("sharpdp completion z", ["zsh"]),
    ("sharpdp schema r", ["report"]),
    ("sharpdp cite gaussian_t", ["gaussian_tight"]),
    ("sharpdp dpsgd --delta ", []),
]
FILES = [
    "sharpdp account ",
    "sharpdp dpsgd --plan ",
    "sharpdp tradeoff -o ",
    "sharpdp compare ",
    "sharpdp verify ",
]

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")

# What bash does when Tab is pressed; compopt works only then.
BASH = """
source ./script
compopt() { echo "files: $*"; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sharpdp sharpdp "${COMP_WORDS[COMP_CWORD]}"
for one in "${COMPREPLY[@]}"; do echo "$one"; done
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").touch()
    return tmp_path


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    Path("script").write_text(capsys.readouterr().out, "utf-8")


def offered_by_bash(line: str) -> list[str]:
    words = re.split(" ", line)
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@needs_bash
def test_bash_completes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("bash", capsys)
    for line, words in CASES:
        found = [one for one in offered_by_bash(line) if not one.startswith("files")]
        assert found == words, line
    assert set(COMMANDS) <= set(offered_by_bash("sharpdp "))
    for line in FILES:
        assert "files: -o default" in offered_by_bash(line)
    assert "files: -o default" not in offered_by_bash("sharpdp dpsgd --delta ")


@needs_bash
def test_bash_completes_when_asked_by_its_own_means(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The function is the one that bash has for sharpdp."""
    script("bash", capsys)
    asked = "source ./script; complete -p sharpdp"
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True
    )
    assert done.stdout == "complete -F _sharpdp sharpdp\n"


@needs_fish
def test_fish_completes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("fish", capsys)

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f'source ./script; complete -C "{line}"'],
            capture_output=True,
            text=True,
            check=True,
        )
        return [one.split("\t")[0] for one in done.stdout.splitlines()]

    for line, words in CASES:
        assert sorted(one for one in offered(line) if one != "plan.toml") == sorted(words), line
    for line in FILES:
        assert "plan.toml" in offered(line)
    assert "plan.toml" not in offered("sharpdp dpsgd --delta ")


@needs_zsh
def test_zsh_reads_its_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("zsh", capsys)
    subprocess.run(["zsh", "-f", "-n", "script"], check=True)
    # the words that would be offered, with zsh's own words in their places
    stub = """
    compdef() { :; }; compadd() { shift; print -l -- "$@"; }; _files() { print files; }
    _describe() { print -l -- "${commands[@]%%:*}"; }
    source ./script; words=("${(@)argv}"); CURRENT=$#words; _sharpdp
    """

    def offered(*words: str) -> list[str]:
        done = subprocess.run(
            ["zsh", "-f", "-c", stub, "zsh", *words], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    assert offered("sharpdp", "") == COMMANDS
    assert "shuffled-once" in offered("sharpdp", "dpsgd", "--batches", "")
    assert "--noise-multiplier" in offered("sharpdp", "dpsgd", "--")
    assert offered("sharpdp", "account", "") == ["files"]
    assert offered("sharpdp", "dpsgd", "--delta", "") == []
