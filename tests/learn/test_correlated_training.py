"""Training with correlated noise: the law of what is released, exactness, resuming, refusals."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import sharpdp as dp
from sharpdp.learn.correlated_step_noise import CorrelatedStepNoise, NoiseMemory
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.learn.gradients import ClippedGradients
from sharpdp.learn.strategy_design import banded_strategy, buffered_strategy
from sharpdp.mechanisms.correlated_noise import CorrelatedNoise, MinSeparation
from sharpdp.mechanisms.strategies import (
    BandedStrategy,
    BufferedLinearToeplitz,
    MatrixStrategy,
    Strategy,
    dense,
)

KEY, CLIP, NOISE, STEPS = b"k" * 32, 0.7, 1.5, 30
PLAN = dp.DeterministicBatches(dataset_size=200, batch_size=20, epochs=3)
DATA = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 12))).float()
TARGETS = torch.arange(200) % 4
STRATEGIES: dict[str, Strategy] = {
    "banded": banded_strategy(steps=STEPS, bands=5),
    "scaled": BandedStrategy(coefficients=(2.0, 1.1, -0.3)),
    "buffered": buffered_strategy(steps=STEPS, buffers=2, participations=3),
    "matrix": MatrixStrategy(
        matrix=np.tril(np.random.default_rng(1).uniform(0.2, 1.0, (STEPS, STEPS))).tolist()
    ),
}
each_strategy = pytest.mark.parametrize("name", list(STRATEGIES))


def training(strategy: Strategy, plan: Any = PLAN, key: bytes = KEY, **more: Any) -> Training:
    torch.manual_seed(1)
    mechanism = CorrelatedNoise(plan, strategy=strategy, noise_multiplier=NOISE)
    model = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 4))
    settings = {"clip": CLIP, "key": key, "learning_rate": 0.3, **more}
    return Training(mechanism, model, nn.CrossEntropyLoss(), DATA, TARGETS, **settings)


def weights(run: Training) -> np.ndarray:
    return np.concatenate([value.numpy().ravel() for value in run.model.state_dict().values()])


def flat(sums: Any) -> np.ndarray:
    return np.concatenate([value.numpy().ravel() for value in sums.values()])


def recorded(run: Training, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Sums of clipped gradients, and what was released for them, of all steps."""
    sums, released = [], []
    added = CorrelatedStepNoise.added

    def adding(self: Any, total: Any, step: int) -> Any:
        noisy = added(self, total, step)
        sums.append(flat(total))
        released.append(flat(noisy))
        return noisy

    with mock.patch.object(CorrelatedStepNoise, "added", adding):
        for _ in range(steps):
            run.advance()
    return np.array(sums), np.array(released)


@each_strategy
def test_noise_is_the_inverse_of_the_strategy_times_independent_noise(name: str) -> None:
    sums, released = recorded(training(STRATEGIES[name]))
    fresh = dense(STRATEGIES[name], STEPS) @ (released - sums) / (NOISE * CLIP)
    assert stats.kstest(fresh.ravel(), "norm").pvalue > 1e-4
    square = float((fresh**2).sum())
    assert 1e-4 < stats.chi2.cdf(square, fresh.size) < 1.0 - 1e-4
    cosines = np.corrcoef(fresh)[np.triu_indices(STEPS, 1)] * np.sqrt(fresh.shape[1])
    assert np.abs(cosines).max() < 5.0
    # and the noise itself is not independent: neighboring steps cancel each other
    if name != "matrix":
        noise = released - sums
        assert np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1] < -0.1


@each_strategy
def test_what_noise_is_added_to_is_exact(name: str) -> None:
    """C x is held in two doubles: against fractions of the coefficients and sums that are in use."""
    strategy, seen = STRATEGIES[name], []
    added = StepNoise.added

    def adding(self: Any, total: Any, step: int, *, lower: Any = None) -> Any:
        noisy = added(self, total, step, lower=lower)
        seen.append((flat(total), None if lower is None else flat(lower), flat(noisy), self.grid))
        return noisy

    with mock.patch.object(StepNoise, "added", adding):
        sums, _ = recorded(training(strategy))
    steps, places = range(0, STEPS, 7), range(0, sums.shape[1], 29)
    for step in steps:
        upper, lower, noisy, grid = seen[step]
        assert np.array_equal(np.rint(noisy / grid), noisy / grid)
        row = _exact_row(strategy, step)
        for place in places:
            exact = sum(c * Fraction(x) for c, x in zip(row, sums[: step + 1, place], strict=True))
            held = Fraction(upper[place]) + (0 if lower is None else Fraction(lower[place]))
            assert abs(held - exact) <= Fraction(20 * CLIP) * Fraction(1, 2**90)


def _exact_row(strategy: Strategy, step: int) -> list[Fraction]:
    if isinstance(strategy, BufferedLinearToeplitz):
        pairs = [
            (Fraction(s), Fraction(d))
            for s, d in zip(strategy.scales, strategy.decays, strict=True)
        ]
        lags = [Fraction(1)] + [sum(s * d**k for s, d in pairs) for k in range(step)]
        return lags[::-1]
    block = dense(strategy, step + 1)
    return [Fraction(entry) for entry in block[step]]


def test_further_digits_are_part_of_what_is_rounded() -> None:
    """A sum and its further digits get the value of their exact sum, whichever way they are split."""
    noise = {"noise_multiplier": 1.0, "clip": 1.0, "key": KEY}
    grid = StepNoise(**noise).grid
    one = torch.full((500,), 3.25 * grid, dtype=torch.float64)
    with mock.patch("sharpdp.learn.gaussian_noise._digest", return_value="same"):
        whole = StepNoise(**noise).added({"a": one}, 0)["a"]
        for part in (0.25, -2.5, 7.0):
            rest = {"a": torch.full((500,), part * grid, dtype=torch.float64)}
            split = StepNoise(**noise).added({"a": one - part * grid}, 0, lower=rest)["a"]
            assert torch.equal(split, whole)
    rest = {"a": torch.full((500,), 0.25 * grid, dtype=torch.float64)}
    other = StepNoise(**noise).added({"a": one}, 0, lower=rest)["a"]
    assert not torch.equal(other, StepNoise(**noise).added({"a": one}, 0)["a"])


@each_strategy
def test_releases_are_a_function_of_noisy_values_alone(name: str) -> None:
    """Other data with the same C x + z, bit for bit, has the same releases and parameters."""
    seen: list[dict[str, torch.Tensor]] = []
    added = StepNoise.added

    def adding(self: Any, total: Any, step: int, *, lower: Any = None) -> Any:
        noisy = added(self, total, step, lower=lower)
        seen.append(noisy)
        return noisy

    with mock.patch.object(StepNoise, "added", adding):
        _, first = recorded(training(STRATEGIES[name]))
    with mock.patch.object(StepNoise, "added", lambda self, total, step, lower=None: seen[step]):
        other = training(STRATEGIES[name])
        other.inputs = other.inputs.flip(0) * 3.0
        sums, second = recorded(other)
    assert np.array_equal(first, second)
    assert np.abs(sums).max() > 0.0


def test_one_band_is_independent_noise_bit_for_bit() -> None:
    strategy = BandedStrategy(coefficients=(1.0,))
    noise = {"noise_multiplier": NOISE, "clip": CLIP, "key": KEY}
    plain = StepNoise(**noise, purpose=f"{strategy!r} over 5 steps; ")
    alone = CorrelatedStepNoise(strategy=strategy, steps=5, **noise)
    for step in range(5):
        total = {"w": torch.arange(4, dtype=torch.float64) * step}
        assert torch.equal(plain.added(total, step)["w"], alone.added(total, step)["w"])


@each_strategy
@pytest.mark.parametrize("done", [0, 1, 3, 13])
def test_a_resumed_run_is_the_same_run(name: str, done: int, tmp_path: Path) -> None:
    strategy, path = STRATEGIES[name], tmp_path / "run.pt"
    whole = weights(training(strategy).run(progress=False))
    first = training(strategy)
    first.save(path) if done == 0 else first.run(steps=done, checkpoint=path, progress=False)
    first.close()
    again = training(strategy, key=b"x" * 32).resume(path).run(progress=False)
    assert np.array_equal(weights(again), whole)


@each_strategy
def test_a_killed_run_repeats_the_steps_that_were_lost(name: str, tmp_path: Path) -> None:
    """Releases after the last save come again, bit for bit, and count once."""
    path, released = tmp_path / "run.pt", {}
    added = CorrelatedStepNoise.added

    def adding(self: Any, total: Any, step: int) -> Any:
        noisy = added(self, total, step)
        assert step not in released or np.array_equal(released[step], flat(noisy))
        released[step] = flat(noisy)
        return noisy

    with mock.patch.object(CorrelatedStepNoise, "added", adding):
        run = training(STRATEGIES[name])
        run.save(path)
        run._every = 8
        for _ in range(13):
            run.advance()
        run.close()  # as a process that is killed: nothing is saved
        again = training(STRATEGIES[name], key=b"x" * 32).resume(path)
        assert again.step == 8
        assert again.begun >= 13
        again.run(progress=False)
    assert sorted(released) == list(range(STEPS))
    assert np.array_equal(weights(again), weights(training(STRATEGIES[name]).run(progress=False)))


@each_strategy
def test_a_step_that_fails_comes_again_and_forgets_nothing(name: str) -> None:
    whole = weights(training(STRATEGIES[name]).run(progress=False))
    run, added = training(STRATEGIES[name]), CorrelatedStepNoise.added

    def interrupted(self: Any, total: Any, step: int) -> Any:
        """After the noise was drawn, and before the step was counted."""
        added(self, total, step)
        raise KeyboardInterrupt

    faults = (
        (mock.patch.object(ClippedGradients, "sum", side_effect=MemoryError), MemoryError),
        (mock.patch.object(CorrelatedStepNoise, "added", interrupted), KeyboardInterrupt),
    )
    for fault, kind in faults:
        for _ in range(7):
            run.advance()
        before = run.step
        with fault, pytest.raises(kind):
            run.advance()
        assert run.step == before
    run.run(progress=False)
    assert np.array_equal(weights(run), whole)


def _damaged(state: dict[str, Any], how: str) -> None:
    noise = state["noise"]
    if how == "lost":
        del state["noise"]
    elif how == "empty":
        state["noise"] = {"sums": [], "released": []}
    elif how == "shorter":
        noise["sums"] = noise["sums"][:-1]
    elif how == "another model":
        noise["released"] = [vector[:-1] for vector in noise["released"]]
    elif how == "not finite":
        noise["released"][0][0] = float("nan")
    else:
        state["noise"] = ["text"]


@pytest.mark.parametrize(
    "how", ["lost", "empty", "shorter", "another model", "not finite", "other"]
)
def test_a_checkpoint_without_the_memory_of_the_noise_is_refused(how: str, tmp_path: Path) -> None:
    path, worse = tmp_path / "run.pt", tmp_path / "damaged.pt"
    run = training(STRATEGIES["banded"]).run(steps=6, checkpoint=path, progress=False)
    run.close()
    written = []

    def damaging(file: Any, state: dict[str, Any]) -> None:
        _damaged(state, how)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        file.write(buffer.getvalue())
        written.append(file)

    again = training(STRATEGIES["banded"]).resume(path)
    with mock.patch("sharpdp.learn.dpsgd.stored", damaging):
        again.save(worse)
    again.close()
    for file in written:
        file.close()
    with pytest.raises(dp.InvalidArgument, match="with the memory of the noise"):
        training(STRATEGIES["banded"]).resume(worse)


def test_a_checkpoint_of_another_strategy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    training(STRATEGIES["banded"]).run(steps=6, checkpoint=path, progress=False).close()
    with pytest.raises(dp.InvalidArgument, match="written with another mechanism"):
        training(STRATEGIES["scaled"]).resume(path)


def test_memory_is_that_of_the_bands() -> None:
    run = training(STRATEGIES["banded"])
    for done in range(8):
        memory = run._noise.memory_before(run.step)
        assert len(memory.sums) == len(memory.released) == min(done, 4)
        run.advance()
    buffered = training(STRATEGIES["buffered"])
    for _ in range(8):
        buffered.advance()
    memory = buffered._noise.memory_before(8)
    assert (len(memory.sums), len(memory.released)) == (4, 2)


def test_steps_come_one_after_the_other_and_once() -> None:
    noise = CorrelatedStepNoise(
        strategy=STRATEGIES["banded"], steps=9, noise_multiplier=1.0, clip=1.0, key=KEY
    )
    zero = {"a": torch.zeros(3, dtype=torch.float64)}
    noise.added(zero, 0)
    with pytest.raises(dp.InvalidArgument, match="step must be 1 or more; got 0"):
        noise.added(zero, 0)
    with pytest.raises(dp.InvalidArgument, match="step must be 1, the next one; got 5"):
        noise.added(zero, 5)
    with pytest.raises(dp.InvalidArgument, match="must be finite"):
        noise.added({"a": torch.full((3,), float("nan"), dtype=torch.float64)}, 1)
    assert noise.added(zero, 1)["a"].shape == (3,)


@pytest.mark.parametrize("name", ["banded", "buffered"])
def test_a_run_is_accounted_as_far_as_it_was_run(name: str, tmp_path: Path) -> None:
    """Also after a crash, and it stops before a budget is exceeded."""
    run = training(STRATEGIES[name])
    one_epoch = run.mechanism.stopped_after(10)
    known = dp.account(one_epoch, adjacency="zero-out").epsilon(delta=1e-5).upper
    run.run(epsilon=known * 1.0001, delta=1e-5, progress=False)
    assert run.step == 10
    assert run.epsilon(delta=1e-5).upper == known
    # single participation: the norm of a column
    column = STRATEGIES[name].column(0, 10)
    gaussian = dp.account(dp.Gaussian(noise_multiplier=NOISE / float(np.linalg.norm(column))))
    assert known == pytest.approx(gaussian.epsilon(delta=1e-5).upper, rel=1e-6)
    whole = training(STRATEGIES[name]).run(progress=False)
    assert whole.epsilon(delta=1e-5).upper > known * 1.3
    ledger = dp.Ledger(
        tmp_path / "ledger.jsonl",
        epsilon=known * 1.0001,
        delta=1e-5,
        choice="fixed in advance",
        adjacency="zero-out",
    )
    again = training(STRATEGIES[name]).run(budget=ledger, progress=False)
    assert again.step == 10


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(dp.InvalidArgument, match="got MinSeparation, a property of batches"):
        training(STRATEGIES["banded"], plan=MinSeparation(steps=30, separation=10))
    with pytest.raises(dp.InvalidArgument, match="for rounding not to matter"):
        CorrelatedStepNoise(
            strategy=BufferedLinearToeplitz(scales=(1e9, -1e9), decays=(0.5, 0.4)),
            steps=10**9,
            noise_multiplier=1.0,
            clip=1.0,
            key=KEY,
        )
    with pytest.raises(dp.InvalidArgument, match="for rounding not to matter"):
        CorrelatedStepNoise(
            strategy=STRATEGIES["banded"], steps=30, noise_multiplier=1e20, clip=1.0, key=KEY
        )


def test_the_memory_of_a_run_without_steps_is_empty() -> None:
    assert NoiseMemory().state() == {"sums": [], "released": []}
