"""Checkpoints of training runs: no step that was released goes uncounted, no other run is lost."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sharpdp as dp
from sharpdp.learn.gaussian_noise import StepNoise
from tests.learn.test_dpsgd import KEY, poisson, training, weights

LONG = poisson(40)


def accounted(run: Any) -> int:
    """How many steps the guarantee of a run is about."""
    steps: int = run.guarantee.mechanism.batches.steps
    return steps


def test_s3_two_handles_on_one_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    old = training().run(steps=2, checkpoint=path, progress=False)
    recent = training().resume(path).run(steps=3, progress=False)
    for attempt in (old.advance, old.run, lambda: old.save(path)):
        with pytest.raises(dp.InvalidArgument, match="path must be as this run left it"):
            attempt()
    assert (old.step, accounted(training().resume(path))) == (2, 5)
    with pytest.raises(dp.InvalidArgument, match="path must be as this run left it"):
        (path.unlink(), recent.advance())


def test_s3_steps_after_the_last_save_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    run = training(LONG)
    run.save(path)
    for _ in range(7):
        run.advance()
    run.close()  # as a process that is killed: nothing is saved
    again = training(LONG, key=None).resume(path)
    assert again.step == 0
    assert accounted(again) >= 7
    again.run(steps=3, progress=False)
    assert accounted(again) >= 7
    assert accounted(training(LONG).resume(path)) >= 7
    again.run(progress=False)
    assert (again.step, accounted(again)) == (40, 40)
    np.testing.assert_array_equal(weights(again), weights(training(LONG).run(progress=False)))


def test_s3_a_run_that_ends_in_order_counts_what_it_ran(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    run = training(LONG).run(steps=13, checkpoint=path, every=5, progress=False)
    assert accounted(run) == accounted(training(LONG).resume(path)) == 13


def test_s3_killed_between_saves_counts_no_more_than_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "run.pt", []
    add = StepNoise.added

    def adding(self: Any, total: Any, step: int) -> Any:
        other = training(LONG)
        content = path.read_bytes()  # what a process finds that is killed now
        (tmp_path / "copy.pt").write_bytes(content)
        seen.append((step, accounted(other.resume(tmp_path / "copy.pt"))))
        other.close()
        return add(self, total, step)

    monkeypatch.setattr(StepNoise, "added", adding)
    training(LONG).run(steps=8, checkpoint=path, every=5, progress=False)
    assert seen == [(step, 5 if step < 5 else 8) for step in range(8)]


def test_s9_every_byte_of_a_checkpoint_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    training(LONG).run(steps=9, checkpoint=path, progress=False)
    whole, again = path.read_bytes(), training(LONG)
    rng = np.random.default_rng(1)
    places = range(0, len(whole), 1 + len(whole) // 500)
    damaged = [
        whole[:place] + bytes([whole[place] ^ 1 << int(rng.integers(8))]) + whole[place + 1 :]
        for place in places
    ]
    damaged += [whole[:place] for place in places[::10]]
    damaged += [whole + b"\n", whole + b"\0", whole + whole]
    for wrong in damaged:
        path.write_bytes(wrong)
        with pytest.raises(dp.InvalidArgument, match="path must be a checkpoint"):
            again.resume(path)
    assert again.step == 0
    path.write_bytes(whole)
    assert again.resume(path).step == 9


def test_s9_one_bit_does_not_lower_the_number_of_steps(tmp_path: Path) -> None:
    """The step is a byte of its own in the pickle: 9 becomes 1, and torch checks no CRC."""
    path = tmp_path / "run.pt"
    training(LONG).run(steps=9, checkpoint=path, progress=False)
    whole, again = path.read_bytes(), training(LONG)
    place = whole.index(b"K\x09", whole.index(b"step")) + 1
    path.write_bytes(whole[:place] + bytes([9 ^ 8]) + whole[place + 1 :])
    try:
        steps = again.resume(path).step
    except dp.InvalidArgument:
        return
    assert steps >= 9


def test_s9_checkpoints_without_a_checksum_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    training().run(steps=2, checkpoint=path, progress=False)
    payload = path.read_bytes().partition(b"\n")[2]
    assert torch.load(io.BytesIO(payload), weights_only=True)["step"] == 2
    path.write_bytes(payload)
    with pytest.raises(dp.InvalidArgument, match="a version that stored no checksum"):
        training().resume(path)


def test_s13_a_new_run_does_not_overwrite_another(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    training(key=b"1" * 32).run(steps=2, checkpoint=path, progress=False)
    before = path.read_bytes()
    other = training(key=b"2" * 32)
    for attempt in (lambda: other.run(checkpoint=path, progress=False), lambda: other.save(path)):
        with pytest.raises(dp.InvalidArgument, match="path must be free for a new run"):
            attempt()
    assert other.step == 0
    assert path.read_bytes() == before


def test_s13_saved_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Any, total: Any, step: int) -> Any:
        raise AssertionError("a step was released")

    monkeypatch.setattr(StepNoise, "added", failing)
    run = training()
    for folder in ("/proc", "/sys"):  # not even root can write there
        if Path(folder).is_dir():
            with pytest.raises(dp.InvalidArgument, match="path must be one that can be written"):
                run.run(checkpoint=f"{folder}/run.pt", progress=False)
    path, keys = tmp_path / "run.pt", []

    def looking(self: Any, total: Any, step: int) -> Any:
        payload = path.read_bytes().partition(b"\n")[2]
        keys.append(torch.load(io.BytesIO(payload), weights_only=True)["key"])
        raise KeyboardInterrupt

    monkeypatch.setattr(StepNoise, "added", looking)
    with pytest.raises(KeyboardInterrupt):
        run.run(checkpoint=path, progress=False)
    assert keys == [KEY]


def test_s13_a_checkpoint_that_is_left_for_another_counts_all(tmp_path: Path) -> None:
    first, second = tmp_path / "first.pt", tmp_path / "second.pt"
    run = training(LONG).run(steps=2, checkpoint=first, progress=False)
    run.run(steps=3, checkpoint=second, progress=False)
    assert accounted(training(LONG).resume(second)) == accounted(run) == 5
    left = training(LONG).resume(first)
    assert (left.step, accounted(left)) == (2, 40)


def test_s13_planted_links_are_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "run.pt"
    target.write_bytes(b"of somebody else")
    (tmp_path / "run.pt.new").symlink_to(target)
    training().run(steps=2, checkpoint=path, progress=False)
    assert target.read_bytes() == b"of somebody else"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
