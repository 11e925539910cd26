"""DP-SGD on a model: what is released, what is counted, and what a crash changes (nothing)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.learn.dpsgd import Training, affordable_steps
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.learn.gradients import ClippedGradients

KEY = b"a key for tests, not for anything else"
EXAMPLES, FEATURES = 60, 4


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(EXAMPLES, FEATURES, generator=generator)
    return inputs, (inputs.sum(1, keepdim=True) > 0).float()


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 1))


def poisson(steps: int = 12) -> dp.PoissonBatches:
    return dp.PoissonBatches(dataset_size=EXAMPLES, sample_rate=0.2, steps=steps)


def schemes() -> list[dp.batches.BatchScheme]:
    sizes = {"dataset_size": EXAMPLES, "batch_size": 7, "epochs": 2}
    return [
        poisson(),
        dp.DeterministicBatches(**sizes),
        dp.ShuffledBatches(**sizes),
        dp.BallsAndBins(**sizes),
        dp.RandomAllocation(steps=8, participations=2, epochs=2, dataset_size=EXAMPLES),
        dp.FixedSizeBatches(dataset_size=EXAMPLES, batch_size=7, steps=9),
        dp.TruncatedPoissonBatches(
            dataset_size=EXAMPLES, batch_size=7, steps=9, physical_batch_size=14
        ),
    ]


def training(plan: dp.batches.BatchScheme | None = None, **options: object) -> Training:
    mechanism = dp.DPSGD(poisson() if plan is None else plan, noise_multiplier=1.0)
    wanted = {"clip": 0.5, "learning_rate": 0.5, "key": KEY, **options}
    inputs, targets = data()
    return Training(mechanism, network(), nn.BCEWithLogitsLoss(), inputs, targets, **wanted)


def weights(run: Training) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in run.model.parameters()])


def by_hand(inputs: torch.Tensor, targets: torch.Tensor, clip: float) -> list[np.ndarray]:
    """Gradients of single examples by backward(), clipped with numpy."""
    model, found = network(), []
    for x, y in zip(inputs, targets, strict=True):
        model.zero_grad()
        nn.BCEWithLogitsLoss()(model(x[None]), y[None]).backward()
        one = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]).astype(float)
        found.append(one * min(1.0, clip / np.linalg.norm(one)))
    return found


@pytest.mark.parametrize("physical", [1, 7, 256])
@pytest.mark.parametrize("clip", [1e-3, 0.3, 50.0])
def test_sums_of_clipped_gradients_against_one_by_one(physical: int, clip: float) -> None:
    inputs, targets = data()
    take = ClippedGradients(network(), nn.BCEWithLogitsLoss(), clip, physical)
    total = np.concatenate([v.numpy().ravel() for v in take.sum(inputs, targets).values()])
    np.testing.assert_allclose(total, sum(by_hand(inputs, targets, clip)), rtol=2e-5, atol=1e-6)


def test_no_gradient_is_longer_than_the_clip() -> None:
    inputs, targets = data()
    for clip in (1e-30, 1e-3, 0.1, 1.0):
        take = ClippedGradients(network(), nn.BCEWithLogitsLoss(), clip)
        for x, y in zip(1e4 * inputs, targets, strict=True):
            total = take.sum(x[None], y[None])
            assert np.sqrt(sum(float(v.square().sum()) for v in total.values())) <= clip


def test_an_empty_batch_is_a_sum_of_zero() -> None:
    inputs, targets = data()
    take = ClippedGradients(network(), nn.BCEWithLogitsLoss(), 1.0)
    assert all(not v.any() for v in take.sum(inputs[:0], targets[:0]).values())


def test_normal_numbers_have_the_law_of_normal_numbers() -> None:
    from scipy import stats

    # false alarm 1e-9 each: the key is fixed, so a failure is a defect
    noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=b"k" * 32)
    numbers = noise.added({"all": torch.zeros(200_000, dtype=torch.float64)}, 0)["all"].numpy()
    assert stats.kstest(numbers, "norm").pvalue > 1e-9
    tails = int(np.sum(np.abs(numbers) > 3.0))
    assert stats.binomtest(tails, numbers.size, 2 * stats.norm.sf(3.0)).pvalue > 1e-9
    pairs = float(np.mean(numbers[1:] * numbers[:-1])) * np.sqrt(numbers.size - 1)
    assert abs(pairs) < stats.norm.isf(0.5e-9)


def test_released_noise_has_the_stated_size() -> None:
    from scipy import stats

    noise = StepNoise(noise_multiplier=1.5, clip=0.25, key=KEY)
    released = noise.added({"all": torch.zeros(50_000, dtype=torch.float64)}, step=0)["all"].numpy()
    square = float(np.sum((released / (1.5 * 0.25)) ** 2))
    tail = min(stats.chi2.sf(square, 50_000), stats.chi2.cdf(square, 50_000))
    assert tail > 0.5e-9


def test_noise_differs_between_steps_and_keys() -> None:
    zero = {"w": torch.zeros(8, dtype=torch.float64)}
    first = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
    drawn = [first.added(zero, step)["w"].tolist() for step in range(3)]
    other = StepNoise(noise_multiplier=1.0, clip=1.0, key=b"x" * 32).added(zero, 0)["w"].tolist()
    assert len({tuple(one) for one in [*drawn, other]}) == 4


@pytest.mark.parametrize("plan", schemes(), ids=lambda plan: plan.label)
def test_a_step_is_the_noisy_clipped_sum_of_its_batch(plan: dp.batches.BatchScheme) -> None:
    inputs, targets = data()
    run = training(plan)
    before = weights(run)
    run.advance()
    batch = next(iter(plan.batches(KEY)))
    summed = ClippedGradients(network(), nn.BCEWithLogitsLoss(), 0.5).sum(
        inputs[batch], targets[batch]
    )
    purpose = repr(run.mechanism)
    noisy = StepNoise(noise_multiplier=1.0, clip=0.5, key=KEY, purpose=purpose).added(summed, 0)
    exact, total = (
        np.concatenate([v.numpy().ravel() for v in one.values()]) for one in (summed, noisy)
    )
    by_one = sum(by_hand(inputs[batch], targets[batch], 0.5), np.zeros(exact.size))
    np.testing.assert_allclose(exact, by_one, atol=1e-5)
    sizes = {"Poisson batches": 12.0, "random allocation": 15.0, "balls-and-bins": 60 / 8}
    size = sizes.get(plan.label, 7.0)
    np.testing.assert_allclose(weights(run), before - 0.5 * total / size, atol=2e-6)


@pytest.mark.parametrize("plan", schemes(), ids=lambda plan: plan.label)
def test_the_whole_run_costs_what_the_mechanism_costs(plan: dp.batches.BatchScheme) -> None:
    run = training(plan).run(progress=False)
    assert run.step == plan.steps
    whole = dp.account(run.mechanism).epsilon(delta=1e-3)
    assert run.epsilon(delta=1e-3).upper == whole.upper
    with pytest.raises(dp.InvalidArgument, match="all of which were started"):
        run.advance()


def test_part_of_an_epoch_costs_the_whole_epoch() -> None:
    mechanism = dp.DPSGD(schemes()[2], noise_multiplier=1.0)
    assert [mechanism.stopped_after(steps).batches.epochs for steps in (1, 9, 10, 18)] == [
        1,
        1,
        2,
        2,
    ]
    assert dp.DPSGD(poisson(), noise_multiplier=1.0).stopped_after(5).batches == poisson(5)


def test_training_stops_before_the_budget_is_exceeded() -> None:
    run = training(poisson(400)).run(epsilon=3.0, delta=1e-3, progress=False)
    assert run.step == affordable_steps(run.mechanism, epsilon=3.0, delta=1e-3) < 400
    assert run.epsilon(delta=1e-3).upper <= 3.0
    one_more = run.mechanism.stopped_after(run.step + 1)
    assert dp.account(one_more).epsilon(delta=1e-3).upper > 3.0
    assert training(poisson(9)).run(epsilon=1e-6, delta=1e-3, progress=False).step == 0


@pytest.mark.parametrize("plan", schemes(), ids=lambda plan: plan.label)
def test_a_resumed_run_is_the_run_itself(plan: dp.batches.BatchScheme, tmp_path: Path) -> None:
    whole = training(plan).run(progress=False)
    path = tmp_path / "run.pt"
    training(plan).run(steps=5, checkpoint=path, progress=False)
    rest = training(plan, key=None).resume(path).run(progress=False)
    np.testing.assert_array_equal(weights(rest), weights(whole))
    assert rest.epsilon(delta=1e-3).upper == whole.epsilon(delta=1e-3).upper


CHILD = """
import sys
from pathlib import Path
from tests.learn.test_dpsgd import poisson, training
run = training(poisson(60))
path = Path(sys.argv[1])
if path.exists():
    run.resume(path)
print("ready", flush=True)
run.run(checkpoint=path, every=3, progress=False)
"""


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    rng = np.random.default_rng(3)
    kills = 0
    for _ in range(20):
        command = [sys.executable, "-c", CHILD, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path.cwd()) as child:
            assert child.stdout is not None
            child.stdout.readline()
            if kills < 2:
                time.sleep(float(rng.uniform(0.01, 0.15)))
                child.send_signal(signal.SIGKILL)
                kills += child.wait() != 0
            elif child.wait() == 0:
                break
    run = training(poisson(60)).resume(path)
    whole = training(poisson(60)).run(progress=False)
    assert run.step == 60
    np.testing.assert_array_equal(weights(run), weights(whole))
    assert run.epsilon(delta=1e-5).upper == whole.epsilon(delta=1e-5).upper


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    training().run(steps=2, checkpoint=path, progress=False)
    for other in (training(clip=0.6), training(poisson(13))):
        with pytest.raises(dp.InvalidArgument, match="this very run"):
            other.resume(path)
    changed = training()
    changed.targets[0] = 1.0 - changed.targets[0]
    with pytest.raises(dp.InvalidArgument, match="this very run"):
        changed.resume(path)
    with pytest.raises(dp.InvalidArgument, match="does not exist"):
        training().resume(tmp_path / "nothing.pt")
    assert path.stat().st_mode & 0o077 == 0


def test_bad_gradients_release_nothing() -> None:
    run = training(strict=True)
    run.inputs[:] = float("nan")
    before = weights(run)
    with pytest.raises(dp.InvalidArgument, match="gradients must be finite"):
        run.run(progress=False)
    np.testing.assert_array_equal(weights(run), before)


def test_bad_input() -> None:
    inputs, targets = data()
    loss = nn.BCEWithLogitsLoss()
    mechanism = dp.DPSGD(poisson(), noise_multiplier=1.0)
    with pytest.raises(dp.InvalidArgument, match="clip"):
        Training(mechanism, network(), loss, inputs, targets, clip=0.0)
    with pytest.raises(dp.InvalidArgument, match="dataset_size = 60"):
        Training(mechanism, network(), loss, inputs[:9], targets, clip=1.0)
    with pytest.raises(dp.InvalidArgument, match="targets"):
        Training(mechanism, network(), loss, inputs, targets[:9], clip=1.0)
    with pytest.raises(WrongType, match="mechanism must be a DPSGD"):
        Training(dp.Gaussian(noise_multiplier=1.0), network(), loss, inputs, targets, clip=1.0)
    with pytest.raises(dp.InvalidArgument, match="mixes a batch"):
        Training(mechanism, nn.BatchNorm1d(4), loss, inputs, targets, clip=1.0)
    with pytest.raises(WrongType, match=r"torch\.nn\.Module"):
        ClippedGradients("model", loss, 1.0)
    with pytest.raises(dp.InvalidArgument, match="learning_rate"):
        training(learning_rate=-1.0)
    with pytest.raises(dp.InvalidArgument, match="no step was taken"):
        training().epsilon(delta=1e-5)


def test_a_refused_step_is_not_skipped() -> None:
    run, whole = training(strict=True), training()
    whole.run(progress=False)
    spoiled = run.inputs.clone()
    run.advance()
    run.inputs[:] = float("nan")
    with pytest.raises(dp.InvalidArgument, match="gradients must be finite"):
        run.advance()
    run.inputs[:] = spoiled
    run.run(progress=False)
    np.testing.assert_array_equal(weights(run), weights(whole))


def test_another_sum_gets_other_noise() -> None:
    first, second = (
        StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY).added(
            {"w": torch.full((4,), value, dtype=torch.float64)}, 0
        )["w"]
        for value in (0.0, 1e-9)
    )
    assert float((first - second).abs().min()) > 1e-3


def test_what_does_not_fit_is_refused_before_the_first_step(tmp_path: Path) -> None:
    other = network()
    with pytest.raises(dp.InvalidArgument, match="over others"):
        training(optimizer=torch.optim.SGD(other.parameters(), lr=0.1))
    with pytest.raises(WrongType, match="key must be bytes"):
        training(key=3)
    with pytest.raises(dp.InvalidArgument, match="at least 16 bytes"):
        training(key=b"short")
    with pytest.raises(dp.InvalidArgument, match="every"):
        training().run(every=0, checkpoint=tmp_path / "x.pt")
    junk = tmp_path / "junk.pt"
    junk.write_bytes(b"no checkpoint")
    with pytest.raises(dp.InvalidArgument, match="which is none"):
        training().resume(junk)
