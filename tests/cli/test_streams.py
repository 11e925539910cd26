"""Streams that are full, closed or gone, and the start of the process: no traceback, little work."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sharpdp.cli import main

START = [sys.executable, "-m", "sharpdp"]
FULL = Path("/dev/full")
SECONDS = 120


def ended(words: list[str], **streams: object) -> tuple[int, str]:
    """The exit code, and what was said on standard error."""
    done = subprocess.run(
        [*START, *words],
        check=False,
        timeout=SECONDS,
        text=True,
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **streams},  # type: ignore[call-overload]
    )
    return done.returncode, done.stderr or ""


@pytest.mark.skipif(not FULL.exists(), reason="there is no full device here")
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["schema", "plan"]])
def test_a_full_disk_gets_a_sentence(words: list[str]) -> None:
    with FULL.open("w") as full:
        assert ended(words, stdout=full) == (
            1,
            "sharpdp: the answer could not be written: No space left on device.\n",
        )


@pytest.mark.skipif(not FULL.exists(), reason="there is no full device here")
def test_a_full_standard_error_changes_no_exit_code() -> None:
    with FULL.open("w") as full:
        assert ended(["dpsdg"], stderr=full) == (2, "")


@pytest.mark.skipif(os.name != "posix", reason="shells that close streams")
@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("--help >&-", 1, "sharpdp: there is no standard output to write the answer to.\n"),
        ("dpsdg 2>&-", 2, ""),
        ("dpsdg >&- 2>&-", 2, ""),
        ("schema plan | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}", 0, ""),
        ("--help | true; exit ${PIPESTATUS[0]}", 0, ""),
    ],
)
def test_closed_streams(line: str, code: int, sentence: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" -m sharpdp {line}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (code, sentence)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_quietly() -> None:
    words = "calibrate steps --noise-multiplier 1e-3 --sample-rate 0.5 --epsilon 1e9 --delta 1e-5"
    script = (
        "import sys, signal, os\n"
        "from sharpdp import cli\n"
        "from sharpdp.cli import choose\n"
        "def waits(options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "choose.calibrate = waits\n"
        # a test run in the background inherits that interrupts are ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sharpdp: stopped.\n")


@pytest.mark.parametrize("module", ["sharpdp.cli", "argparse"])
def test_an_interrupt_while_it_starts_ends_quietly(module: str) -> None:
    script = (
        "import runpy, sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "runpy.run_module('sharpdp', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sharpdp: stopped.\n")


def test_characters_that_a_stream_lacks_are_spelled_out() -> None:
    done = subprocess.run(
        [*START, "completion", "bsé"],
        capture_output=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 2
    assert rb"'bs\xe9'" in done.stderr


def test_an_error_that_should_not_be_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sharpdp.cli import document

    for error, sentence in (
        (ZeroDivisionError("1 / 0"), "ZeroDivisionError: 1 / 0"),
        (MemoryError(), "this needs more memory than there is."),
        (RecursionError(), "this is nested too deeply."),
    ):

        def fails(_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(document, "bounds", fails)
        assert main(["bounds"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert sentence in said.err
        assert said.err.count("\n") == 1
        monkeypatch.setenv("SHARPDP_TRACEBACK", "1")
        with pytest.raises(type(error)):
            main(["bounds"])
        monkeypatch.delenv("SHARPDP_TRACEBACK")


def test_messages_stay_short_and_printable(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["dpsgd", "--\x1b[31m"], ["x" * 100_000], ["dpsgd", "--delta", "9" * 9000 + "x"],
                  ["account", "\x00=\n1", "--delta", "1"], ["dpsgd", *["y" * 999] * 99]):  # fmt: skip
        assert main(words) == 2
        sentence = capsys.readouterr().err
        assert sentence.count("\n") == 1
        assert sentence.strip().isprintable()
        assert len(sentence) < 1200


@pytest.mark.parametrize(
    "words", [["--help"], ["dpsgd", "--help"], ["dpsdg"], ["dpsgd", "--sigma", "1"]]
)
def test_help_and_refusals_import_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys\nfrom sharpdp.cli import main\nmain(sys.argv[1:])\n"
        "sys.exit(sum(name in sys.modules for name in ('numpy', 'scipy', 'rich')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0


def test_an_answer_in_a_pipe_needs_no_rich_and_little_time() -> None:
    script = (
        "import sys, time\nfrom sharpdp.cli import main\ncode = main(sys.argv[1:])\n"
        "sys.stderr.write(f'{time.process_time()}')\n"
        "sys.exit(code + ('rich' in sys.modules) + ('matplotlib' in sys.modules))\n"
    )
    words = shlex.split("dpsgd --noise-multiplier 1 --sample-rate 0.01 --steps 1000 --delta 1e-5")
    spent = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0
        spent.append(float(done.stderr))
    # about 0.45 s of processor time; three times that leaves room for slow machines
    assert min(spent) < 1.5
