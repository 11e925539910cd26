"""Completion in real shells: commands, options, values, files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sharpdp.cli import main
from sharpdp.cli.commands import COMMANDS

CASES = [
    ("sharpdp com", ["compare", "completion"]),
    ("sharpdp dpsgd --noi", ["--noise-multiplier"]),
    ("sharpdp dpsgd --batches sh", ["shuffled", "shuffled-once"]),
    ("sharpdp account --adjacency z", ["zero-out"]),
    ("sharpdp compare sa", ["samplers"]),
    ("sharpdp compare --over po", ["population"]),
    ("sharpdp calibrate no", ["noise-multiplier"]),
    ("sharpdp completion z", ["zsh"]),
    ("sharpdp schema r", ["report"]),
    ("sharpdp bounds gaussian_t", ["gaussian_tight"]),
    ("sharpdp help tr", ["tradeoff"]),
]
FILES = [
    "sharpdp account ",
    "sharpdp dpsgd --plan ",
    "sharpdp tradeoff -o ",
    "sharpdp compare ",
    "sharpdp verify ",
]
SHELLS = ["bash", "zsh", "fish", "tcsh"]

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")

# What bash does when Tab is pressed.
BASH = """
source ./script
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
$(complete -p sharpdp | sed 's/.*-F \\([^ ]*\\).*/\\1/') sharpdp "${COMP_WORDS[COMP_CWORD]}"
for one in "${COMPREPLY[@]}"; do echo "$one"; done
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").touch()
    return tmp_path


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    Path("script").write_text(capsys.readouterr().out, "utf-8")


def test_without_shtab_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err == (
        "sharpdp: shtab is needed to write completion scripts and is not installed: "
        "pip install shtab, or sharpdp with the extra cli.\n"
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_the_script(
    shell: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(shell, capsys)
    text = Path("script").read_text("utf-8")
    for word in (*COMMANDS, "noise-multiplier", "shuffled-once", "zero-out", "gaussian_tight"):
        assert word in text


@needs_bash
def test_bash_completes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("bash", capsys)

    def offered(line: str) -> list[str]:
        words = re.split(" ", line)
        done = subprocess.run(
            ["bash", "--norc", "-c", BASH, "bash", *words],
            capture_output=True,
            text=True,
            check=True,
        )
        return [word.strip() for word in done.stdout.split("\n")[:-1]]

    for line, words in CASES:
        assert sorted(offered(line)) == words, line
    assert set(COMMANDS) <= set(offered("sharpdp "))
    for line in FILES:
        assert "plan.toml" in offered(line), line
    assert {"samplers", "mixture", "conversions"} <= set(offered("sharpdp compare "))


@needs_fish
def test_fish_completes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("fish", capsys)
    done = subprocess.run(
        ["fish", "--no-config", "-c", 'source ./script; complete -C "sharpdp com"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(one.split("\t")[0] for one in done.stdout.splitlines()) == CASES[0][1]


@needs_zsh
def test_zsh_reads_its_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("zsh", capsys)
    subprocess.run(["zsh", "-f", "-n", "script"], check=True)
