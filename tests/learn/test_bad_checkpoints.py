"""Files that are no checkpoints of a run: none is gone on from, and none runs code."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.learn.dpsgd import Training
from sharpdp.storage.state_file import StateFile
from tests.learn.test_dpsgd import FEATURES, data, network, poisson, training, weights

MECHANISM = dp.DPSGD(poisson(), noise_multiplier=1.0)
LOSS = nn.BCEWithLogitsLoss()


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def refused(path: Path) -> None:
    """A run does not go on from this file, and is as it was."""
    run = training()
    before = weights(run)
    with pytest.raises(dp.InvalidArgument, match="path must be a checkpoint"):
        run.resume(path)
    assert run.step == 0
    np.testing.assert_array_equal(weights(run), before)


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    good = tmp_path / "good.pt"
    training().run(steps=2, checkpoint=good, progress=False)
    whole = good.read_bytes()
    trap = tmp_path / "trap"
    files = {
        "empty": b"",
        "text": b"hello",
        "cut": whole[: len(whole) // 2],
        "zeros": bytes(len(whole)),
        "flipped": whole[:300] + bytes([whole[300] ^ 255]) * 200 + whole[500:],
        "evil": pickle.dumps(Evil(trap)),
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        refused(path)
    torch.save({"run": Evil(trap)}, tmp_path / "evil.pt")
    with pytest.raises(dp.InvalidArgument, match="which is none"):
        training().resume(tmp_path / "evil.pt")
    assert not trap.exists()
    with zipfile.ZipFile(tmp_path / "foreign.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Evil(trap)))
    with pytest.raises(dp.InvalidArgument, match="which is none"):
        training().resume(tmp_path / "foreign.pt")
    assert not trap.exists()
    for wrong in (3, None, "", tmp_path, tmp_path / "nothing"):
        with pytest.raises(dp.InvalidArgument, match="path must be"):
            training().resume(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"step": -1},
        {"begun": 1},  # fewer than the steps that were run
        {"begun": 10**6},
        {"begun": None},
        {"step": 10**6},
        {"step": "x"},
        {"key": b"short"},
        {"key": 7},
        {"model": {}},
        {"model": 3},
        {"optimizer": {}},
        {"optimizer": {"state": {}, "param_groups": []}},
        {"run": 3},
    ],
    ids=str,
)
def test_checkpoints_with_wrong_contents(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    training().run(steps=2, checkpoint=path, progress=False)
    file, buffer = StateFile(path, "a checkpoint"), io.BytesIO()
    state = torch.load(io.BytesIO(file.read()), weights_only=True)
    torch.save({**state, **changes}, buffer)
    file.write(buffer.getvalue())
    refused(path)


def test_checkpoints_of_other_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    training().run(steps=2, checkpoint=path, progress=False)
    narrow = nn.Sequential(nn.Linear(FEATURES, 3), nn.Tanh(), nn.Linear(3, 1))
    inputs, targets = data()
    with pytest.raises(dp.InvalidArgument, match="this very run"):
        Training(MECHANISM, narrow, LOSS, inputs, targets, clip=0.5).resume(path)
    noisier = dp.DPSGD(poisson(), noise_multiplier=2.0)
    with pytest.raises(dp.InvalidArgument, match="this very run"):
        Training(noisier, network(), LOSS, inputs, targets, clip=0.5).resume(path)
    with pytest.raises(dp.InvalidArgument, match="this very run"):
        Training(MECHANISM, network(), LOSS, 2.0 * inputs, targets, clip=0.5).resume(path)
    model = network()
    adam = torch.optim.Adam(model.parameters())
    other = Training(MECHANISM, model, LOSS, inputs, targets, clip=0.5, optimizer=adam)
    with pytest.raises(dp.InvalidArgument, match="same kind of optimizer"):
        other.resume(path)
    other.run(progress=False)


def test_a_checkpoint_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    run = training()
    for wrong in (tmp_path / "no" / "run.pt", tmp_path, 3):
        with pytest.raises(dp.InvalidArgument, match="path must be"):
            run.save(wrong)  # type: ignore[arg-type]
    (tmp_path / "run.pt.lock").mkdir()
    with pytest.raises(dp.InvalidArgument, match="path must be one that can be written"):
        run.save(tmp_path / "run.pt")


def test_a_copied_checkpoint_repeats_the_very_releases(tmp_path: Path) -> None:
    path, copy = tmp_path / "run.pt", tmp_path / "copy.pt"
    training().run(steps=4, checkpoint=path, progress=False)
    copy.write_bytes(path.read_bytes())
    first, second = (training(key=None).resume(one) for one in (path, copy))
    for run in (first, second):
        run.run(progress=False)
    np.testing.assert_array_equal(weights(first), weights(second))
