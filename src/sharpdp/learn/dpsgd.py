"""DP-SGD whose accounting reads the object that drew the batches and set the noise.

`Training` runs one `DPSGD` mechanism on a model: its batches come from the mechanism's scheme, its noise
from the mechanism's noise multiplier, and `epsilon` accounts that mechanism as far as it was run.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from sharpdp._validate import count, nonnegative, open_probability, positive, shown
from sharpdp.account import Guarantee, account
from sharpdp.batches import BatchScheme
from sharpdp.batches.scheme import Indices
from sharpdp.bracket import Bracket
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.checkpoint import fingerprint, restored, stored
from sharpdp.learn.gradients import ClippedGradients, Loss
from sharpdp.learn.noise import StepNoise
from sharpdp.learn.progress import ProgressLine
from sharpdp.mechanisms import DPSGD

__all__ = ["Training", "affordable_steps"]

KEY_BYTES = 32

Schedule = Callable[[int], float]
"""The learning rate of a step, as a function of its number from 0 on."""


def affordable_steps(mechanism: DPSGD, *, epsilon: float, delta: float) -> int:
    """The most steps after which the mechanism is certainly (epsilon, delta)-DP, at most all of them.

    >>> from sharpdp.batches import PoissonBatches
    >>> run = DPSGD(PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    >>> affordable_steps(run, epsilon=5.0, delta=1e-5)  # all take 1.83
    1000
    """
    target = nonnegative(epsilon=epsilon)
    clean = open_probability(delta=delta)

    def beyond(steps: int) -> int:
        return int(
            float(account(mechanism.stopped_after(steps)).epsilon(delta=clean).upper) > target
        )

    return bisect_left(range(1, mechanism.batches.steps + 1), 1, key=beyond)


class Training:
    """One run of a DP-SGD mechanism on a model, step by step.

    Every step takes the next batch of `mechanism.batches`, sums the gradients of its examples, each
    clipped to l2 norm `clip`, adds Gaussian noise of standard deviation noise_multiplier * clip, divides
    by the expected batch size, and hands the result to the optimizer; an empty batch is a step as well.

    Batches and noise are functions of a secret `key` (fresh from the operating system unless given) and
    of the number of the step. A run that is resumed from a checkpoint therefore repeats the very steps
    that were lost, with the same batches and the same noise, and each step is counted once. Whoever has
    the key, or a checkpoint, can take the noise off: keep both as secret as the data.

    >>> from sharpdp.batches import PoissonBatches
    >>> plan = PoissonBatches(dataset_size=100, batch_size=10, epochs=1)
    >>> inputs, targets = torch.randn(100, 3), torch.randn(100, 1)
    >>> training = Training(
    ...     DPSGD(plan, noise_multiplier=1.0),
    ...     nn.Linear(3, 1),
    ...     nn.MSELoss(),
    ...     inputs,
    ...     targets,
    ...     clip=1.0,
    ... )
    >>> training.run(progress=False).epsilon(delta=1e-5).upper < 4.0
    True
    """

    def __init__(
        self,
        mechanism: DPSGD,
        model: nn.Module,
        loss: Loss,
        inputs: Tensor,
        targets: Tensor,
        *,
        clip: float,
        optimizer: torch.optim.Optimizer | None = None,
        learning_rate: float | Schedule = 0.1,
        physical_batch_size: int = 256,
        key: bytes | None = None,
    ) -> None:
        """Check that everything fits together; nothing is run yet."""
        self.mechanism = _checked(mechanism, inputs, targets)
        self.gradients = ClippedGradients(model, loss, clip, physical_batch_size)
        self.inputs, self.targets = inputs, targets
        self.schedule = learning_rate if callable(learning_rate) else _constant(learning_rate)
        trainable = [one for one in model.parameters() if one.requires_grad]
        self.optimizer = optimizer or torch.optim.SGD(trainable, lr=self.schedule(0))
        self.key = secrets.token_bytes(KEY_BYTES) if key is None else key
        self._start(0)

    @property
    def model(self) -> nn.Module:
        """The model as trained so far."""
        return self.gradients.model

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of the steps run so far, at least one."""
        if self.step == 0:
            raise InvalidArgument("no step was run yet, so that nothing is known of the data.")
        return account(self.mechanism.stopped_after(self.step))

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket for epsilon of the steps run so far."""
        return self.guarantee.epsilon(delta=delta)

    def advance(self) -> None:
        """Run the next step."""
        batch = next(self._batches, None)
        if batch is None:
            raise InvalidArgument(
                f"step must be below {self.mechanism.batches.steps}, all of which were run; got "
                f"{self.step}. Plan a longer run: its privacy is that of the whole."
            )
        index = torch.from_numpy(batch)
        total = self.gradients.sum(self.inputs[index], self.targets[index])
        released = self._noise.added(total, self.step)
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                mean = released[name] / self._expected
                parameter.grad = mean.to(dtype=parameter.dtype, device=parameter.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule(self.step)
        self.optimizer.step()
        self.step += 1

    def run(
        self,
        *,
        steps: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        checkpoint: str | Path | None = None,
        every: int = 100,
        progress: bool = True,
    ) -> Training:
        """Run to the end, for so many more steps, or as long as epsilon at delta is not exceeded.

        With `checkpoint` the run is saved there every so many steps and at the end, also if it is
        interrupted.
        """
        last = self.mechanism.batches.steps
        if steps is not None:
            last = min(last, self.step + count(steps=steps))
        if epsilon is not None:
            last = min(last, affordable_steps(self.mechanism, epsilon=epsilon, delta=delta))
        line = ProgressLine(
            self.step, last, lambda: str(self.epsilon(delta=delta)).partition(" |")[0]
        )
        try:
            while self.step < last:
                self.advance()
                if progress:
                    line.update(self.step)
                if checkpoint is not None and self.step % every == 0:
                    self.save(checkpoint)
        finally:
            if progress:
                line.close()
            if checkpoint is not None:
                self.save(checkpoint)
        return self

    def save(self, path: str | Path) -> None:
        """Write everything needed to go on; the old file stays until the new one is complete."""
        stored(
            Path(path),
            {
                "run": self._fingerprint,
                "step": self.step,
                "key": self.key,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            },
        )

    def resume(self, path: str | Path) -> Training:
        """Go on where a checkpoint of the same run left off; another run is refused."""
        state = restored(Path(path), self._fingerprint)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.key = state["key"]
        self._start(state["step"])
        return self

    def _start(self, step: int) -> None:
        """Batches and noise from this step on."""
        self.step = step
        plan = self.mechanism.batches
        self._expected = expected_batch_size(plan, self.inputs.shape[0])
        self._batches: Iterator[Indices] = plan.batches(self.key, start=step)
        self._noise = StepNoise(
            noise_multiplier=self.mechanism.noise_multiplier,
            clip=self.gradients.clip,
            key=self.key,
            start=step,
        )

    @property
    def _fingerprint(self) -> str:
        """What the noise of this run may be added to: mechanism, clip, data, parameters."""
        shapes = {name: tuple(value.shape) for name, value in self.gradients.parameters.items()}
        words = f"{self.mechanism!r} {self.gradients.clip!r} {shapes!r}"
        return fingerprint(words, self.inputs, self.targets)


def expected_batch_size(plan: BatchScheme, examples: int) -> float:
    """The fixed number that sums are divided by: how many examples a batch has, on average.

    >>> from sharpdp.batches import PoissonBatches
    >>> expected_batch_size(PoissonBatches(sample_rate=0.25, steps=3), 60)
    15.0
    """
    if hasattr(plan, "batch_size"):
        return float(plan.batch_size)
    if hasattr(plan, "sample_rate"):
        return float(plan.sample_rate) * examples
    return examples * plan.participations / plan.steps_per_epoch  # type: ignore[attr-defined, no-any-return]


def _constant(learning_rate: float) -> Schedule:
    value = positive(learning_rate=learning_rate)
    return lambda step: value


def _checked(mechanism: DPSGD, inputs: Tensor, targets: Tensor) -> DPSGD:
    """The mechanism, if it is DP-SGD on as many examples as there are."""
    if type(mechanism) is not DPSGD:
        raise WrongType(
            f"mechanism must be a DPSGD; got {shown(mechanism)}. "
            "Try DPSGD(PoissonBatches(...), noise_multiplier=1.0)."
        )
    planned = getattr(mechanism.batches, "dataset_size", None)
    sizes = {"inputs": inputs.shape[0], "targets": targets.shape[0]}
    for name, size in sizes.items():
        if size != planned:
            raise InvalidArgument(
                f"{name} must hold the dataset_size = {planned} examples of the batch scheme; got {size}."
            )
    return mechanism
