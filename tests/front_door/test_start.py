"""What a first name costs: modules that take longer to import than all of sharpdp wait for a question."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("scipy.special", "scipy.fft", "numpy.random", "numpy.polynomial", "numpy.testing")


@pytest.mark.parametrize(
    "first", ["Gaussian(noise_multiplier=1.0)", "account", "calibrate", "PoissonBatches"]
)
def test_a_first_name_imports_nothing_slow(first: str) -> None:
    script = f"import sys, sharpdp; sharpdp.{first}; print([m for m in {SLOW} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


POISSON = "dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)"


@pytest.mark.parametrize(
    "answer",
    [
        f"dp.account({POISSON}).epsilon(delta=1e-5)",
        f"dp.account({POISSON}).delta(epsilon=1.0)",
        f"dp.sweep(lambda n: {POISSON}, n=[1, 2]).epsilon(delta=1e-5)",
        "dp.account(dp.Gaussian(noise_multiplier=1.0) * 10).epsilon(delta=1e-5)",
        "dp.account(dp.Gaussian(noise_multiplier=5.0)).delta(epsilon=0.1)",
        "main('dpsgd --noise-multiplier 1 --sample-rate 0.01 --steps 1000 --delta 1e-5'.split())",
    ],
)
def test_a_first_answer_about_gaussian_noise_imports_no_scipy(answer: str) -> None:
    script = (
        f"import sys, sharpdp as dp; from sharpdp.cli import main; {answer}; "
        "print([m for m in sys.modules if m.startswith(('scipy', 'numpy.random', 'numpy.testing'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
