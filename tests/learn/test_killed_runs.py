"""A thousand kills, two processes on one path, and every bit of every file flipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and kills outright")
def test_s3_s9_never_fewer_steps_counted_than_released() -> None:
    command = [sys.executable, "-m", "tests.learn.killed_runs", "--kills", "1000"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    for kind in ("Clients", "Training"):
        kills, doubled = found[f"{kind}: kills"], found[f"{kind}: two processes"]
        assert kills["killed"] >= 1000
        assert kills["undercounted"] == kills["failed"] == 0
        assert kills["most released"] > 20
        assert doubled["undercounted"] == doubled["failed"] == 0
        assert doubled["refused"] > 10
        assert doubled["most released"] > 20
        flips = found[f"{kind}: bit flips"]
        assert flips["flips"] > 5000
        assert flips["accepted"] == 0
        for part in (kills, doubled):
            assert part["steps repeated otherwise"] == 0
    assert found["Training: kills"]["steps repeated"] > 100
