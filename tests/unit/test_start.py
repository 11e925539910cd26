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
