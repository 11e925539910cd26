"""One call from a plan to an audit: put canaries in, train with sharpdp or Opacus, score, and test."""

from __future__ import annotations

import csv
import secrets
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import flag, invalid, is_among, short_repr
from sharpdp.audit.score_results import ScoreAudit
from sharpdp.audit.single_run import one_run
from sharpdp.display.progress import progress as shown_progress
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import DPSGD
from sharpdp.mechanisms.correlated_noise import CorrelatedNoise
from sharpdp.numerics.special import Array
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.randomness.keyed_stream import KEY_BYTES, KeyedStream
from sharpdp.storage.run_lock import path_of
from sharpdp.storage.state_file import StateFile

__all__ = ["CanaryAudit", "canaries"]

KINDS = ("gradient", "input", "mislabeled")
FRAMEWORKS = ("sharpdp", "opacus")


@dataclass(frozen=True, eq=False)
class CanaryAudit:
    """A run with canaries, and what an attack on it found.

    Attributes:
        audit: The result of `one_run`: `epsilon`, `mu`, `p_value`, `consistent`.
        scores: The score of every canary.
        included: Which of them were in.
        model: The trained model, without the lane of the canaries.
    """

    audit: ScoreAudit
    scores: Array = field(repr=False)
    included: NDArray[np.bool_] = field(repr=False)
    model: Any = field(repr=False)

    def __str__(self) -> str:
        """The findings in words."""
        return str(self.audit)

    def write_scores(self, path: str | Path) -> None:
        """Write scores and coins as a table that `sharpdp audit` reads.

        Args:
            path: The file, which is replaced.
        """
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["score", "included"])
            writer.writerows(
                [repr(score), int(inside)]
                for score, inside in zip(self.scores.tolist(), self.included.tolist(), strict=True)
            )


@underflow_is_zero
def canaries(
    mechanism: DPSGD | CorrelatedNoise,
    model: Any,
    loss: Any,
    inputs: Any,
    targets: Any,
    *,
    clip: float,
    kind: str = "gradient",
    learning_rate: float = 0.1,
    framework: str = "sharpdp",
    confidence: float = 0.99,
    delta: float = 1e-5,
    guesses: tuple[int, int] | None = None,
    key: bytes | None = None,
    checkpoint: str | Path | None = None,
    physical_batch_size: int = 256,
    progress: bool = True,
) -> CanaryAudit:
    """Train once with canaries among the data, and audit the run against its own certified curve.

    The plan's data set has more places than there are records: canaries have the others. A coin
    for each decides whether its place holds the canary or a null record, which adds nothing; so the data
    sets that the audit tells apart are neighbors under zero-out, and the guarantee is that of the steps
    that were run. Everything goes through the usual training: batches, clipping, noise.

    - "gradient" canaries have a gradient of exactly the clipping norm, in a direction that nobody else
      has; the score is how far training went in it. They are the strongest, and leave the model alone.
    - "input" canaries are records of noise with a random target, "mislabeled" ones are records with a
      wrong target; the score is by how much their loss fell.

    Args:
        mechanism: The plan; its scheme's dataset_size is the number of records plus that of canaries.
            Correlated noise is for "sharpdp" only.
        model: A torch model; it is trained in place.
        loss: Function of outputs and targets.
        inputs: Records, one per row, as real numbers.
        targets: Their targets; classes unless the canaries are "gradient".
        clip: Largest l2 norm of a record's gradient.
        kind: "gradient", "input" or "mislabeled".
        learning_rate: Step size of plain SGD.
        framework: "sharpdp" trains by `sharpdp.learn.dpsgd.Training`, "opacus" by Opacus.
        confidence: Probability, in (0, 1), with which lower ends hold and a true guarantee passes.
        delta: The delta at which epsilon is bounded, in (0, 1).
        guesses: As for `one_run`.
        key: Secret of at least 16 bytes that settles coins, batches and noise; None for a fresh one. It
            must be given with a checkpoint.
        checkpoint: File to save the run to, and to continue from if it exists. Opacus' runs are saved
            after every epoch, with the state of the generator that draws their noise: continue with the
            same loss, since noise that was added to one sum may not be added to another.
        physical_batch_size: Records whose gradients are computed at once.
        progress: False to print no progress.

    Returns:
        The result, with the scores and the trained model.

    Raises:
        InvalidArgument: the plan has no places for canaries, or an argument is out of range.
        WrongType: an argument has the wrong type.
    """
    for name, value, allowed in (("kind", kind, KINDS), ("framework", framework, FRAMEWORKS)):
        if not is_among(allowed, value):
            words = " or ".join(map(repr, allowed))
            raise InvalidArgument(f"{name} must be {words}; got {short_repr(value)}.")
    flag(progress=progress)
    if checkpoint is not None and key is None:
        raise InvalidArgument(
            "key must be given with a checkpoint, to toss the same coins; got None."
        )
    secret = secrets.token_bytes(KEY_BYTES) if key is None else key
    slots = _places(mechanism, len(inputs), framework)
    run = _Run(secret, slots, kind)
    wrapped, rows, labels = run.prepared(model, inputs, targets)
    before = run.losses(wrapped, loss)
    settings = {"clip": clip, "learning_rate": learning_rate, "key": secret}
    if framework == "sharpdp":
        guarantee = _trained(
            mechanism,
            wrapped,
            loss,
            rows,
            labels,
            checkpoint,
            progress,
            physical_batch_size,
            **settings,
        )
    else:
        assert isinstance(mechanism, DPSGD)
        guarantee = _trained_by_opacus(
            mechanism, wrapped, loss, rows, labels, checkpoint, progress, **settings
        )
    scores = wrapped.scores().numpy() if kind == "gradient" else before - run.losses(wrapped, loss)
    found = one_run(
        scores=scores,
        included=run.included,
        confidence=confidence,
        delta=delta,
        guarantee=guarantee,
        guesses=guesses,
    )
    return CanaryAudit(found, np.asarray(scores, dtype=np.float64), run.included, model)


def _places(mechanism: object, records: int, framework: str) -> int:
    own = (DPSGD, CorrelatedNoise) if framework == "sharpdp" else DPSGD
    if not isinstance(mechanism, own):
        raise WrongType(
            f"mechanism must be a DPSGD{' or a CorrelatedNoise' * (framework == 'sharpdp')}; got "
            f"{short_repr(mechanism)}."
        )
    size: int | None = mechanism.batches.dataset_size
    if size is None or size < records + 2:
        raise InvalidArgument(
            f"mechanism must be planned for more than the {records} records, which leaves places for "
            f"canaries; got dataset_size={size}. Plan for {records + 1000}."
        )
    return size - records


class _Run:
    """The canaries of one run: which they are, and which of them are in."""

    def __init__(self, key: bytes, canaries: int, kind: str) -> None:
        self.source = KeyedStream(b"audit" + key).derive("canaries", canaries, kind)
        self.canaries, self.kind = canaries, kind
        self.included: NDArray[np.bool_] = self.source.derive("coins").below(2, canaries) == 1
        self.inputs: Any = None
        self.targets: Any = None

    def prepared(self, model: Any, inputs: Any, targets: Any) -> tuple[Any, Any, Any]:
        """The wrapped model, and rows and targets of records and canaries, null where a coin says so."""
        import torch

        from sharpdp.learn.canary_model import WithCanaries, rows_of

        if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
            raise WrongType(f"inputs must be a tensor of real numbers; got {short_repr(inputs)}.")
        shape = tuple(inputs.shape[1:])
        lane = self.canaries if self.kind == "gradient" else 0
        wrapped = WithCanaries(model, shape=shape, canaries=lane)
        if self.kind == "gradient":
            extra = inputs.new_zeros((self.canaries, *shape))
            marks = torch.arange(1, self.canaries + 1)
            # any target that is not that of the first output: the gradient there is then not zero
            labels = targets[:1].expand(self.canaries, *targets.shape[1:]).clone()
            if not targets.is_floating_point():
                labels = torch.ones_like(labels)
        else:
            extra, labels = self._records(inputs, targets)
            marks = torch.zeros(self.canaries, dtype=torch.int64)
        self.inputs, self.targets = rows_of(extra, marks), labels
        tags = torch.where(torch.from_numpy(self.included), marks, torch.full_like(marks, -1))
        rows = torch.cat([rows_of(inputs, torch.zeros(len(inputs))), rows_of(extra, tags)])
        return wrapped, rows, torch.cat([targets, labels.to(targets.dtype)])

    def _records(self, inputs: Any, targets: Any) -> tuple[Any, Any]:
        """Canaries that are records: noise with random targets, or records with wrong ones."""
        import torch

        if targets.is_floating_point() or targets.dim() != 1:
            raise invalid("targets", f"classes for canaries of kind {self.kind!r}", targets.dtype)
        classes = int(targets.max()) + 1
        if classes < 2:
            raise invalid("targets", "of at least two classes", classes)
        chosen = torch.from_numpy(self.source.derive("records").below(len(inputs), self.canaries))
        shift = torch.from_numpy(self.source.derive("shift").below(classes - 1, self.canaries)) + 1
        labels = (targets[chosen] + shift) % classes
        if self.kind == "mislabeled":
            return inputs[chosen], labels
        generator = torch.Generator().manual_seed(self.source.derive("noise").integer(63))
        noise = torch.randn((self.canaries, *inputs.shape[1:]), generator=generator)
        return noise.to(inputs.dtype) * inputs.std() + inputs.mean(), labels

    def losses(self, model: Any, loss: Any) -> Array:
        """The loss of every canary as it would be if it were a record."""
        import torch

        if self.kind == "gradient":
            return np.zeros(self.canaries)
        was_training = model.training
        model.eval()
        with torch.no_grad():
            outputs = model(self.inputs.to(next(model.parameters()).device))
            each = [
                float(loss(outputs[i : i + 1], self.targets[i : i + 1]))
                for i in range(self.canaries)
            ]
        model.train(was_training)
        return np.array(each)


def _trained(
    mechanism: DPSGD | CorrelatedNoise,
    model: Any,
    loss: Any,
    rows: Any,
    labels: Any,
    checkpoint: str | Path | None,
    progress: bool,  # noqa: FBT001
    physical_batch_size: int,
    **settings: Any,
) -> Any:
    """The guarantee of a run by `Training`, from the checkpoint on if there is one."""
    from sharpdp.learn.dpsgd import Training

    run = Training(
        mechanism, model, loss, rows, labels, physical_batch_size=physical_batch_size, **settings
    )
    if checkpoint is not None and Path(checkpoint).exists():
        run.resume(checkpoint)
    run.run(checkpoint=checkpoint, progress=progress)
    return run.guarantee


def _trained_by_opacus(
    mechanism: DPSGD,
    model: Any,
    loss: Any,
    rows: Any,
    labels: Any,
    checkpoint: str | Path | None,
    progress: bool,  # noqa: FBT001
    **settings: Any,
) -> Any:
    """The guarantee of a run by Opacus, whose accountant watches the loader; saved after every epoch."""
    import torch

    from sharpdp.integrations.opacus import make_private
    from sharpdp.learn.checkpoint import CHECKPOINT, fingerprint, load, restored, stored

    noise = torch.Generator().manual_seed(KeyedStream(settings["key"]).derive("noise").integer(63))
    private, optimizer, batches, engine = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=settings["learning_rate"]),
        plan=mechanism,
        data=torch.utils.data.TensorDataset(rows, labels),
        max_grad_norm=settings["clip"],
        key=settings["key"],
        noise_generator=noise,
    )
    taken, steps = 0, mechanism.batches.steps
    file = None
    if checkpoint is not None:
        file = StateFile(path_of(checkpoint=checkpoint), CHECKPOINT)
        words = repr((mechanism, settings["learning_rate"], settings["clip"]))
        run = fingerprint(words, rows, labels)
        if file.exists():
            state = restored(file, run)
            load(state, private, optimizer)
            taken = state["step"]
            batches.batch_sampler.load_state_dict(batches.batch_sampler.state_dict(step=taken))
            engine.accountant.load_state_dict(state["accountant"])
            noise.set_state(state["noise"])  # what is run again has the noise that it had
    with shown_progress("training with Opacus", steps) if progress else nullcontext() as task:
        while taken < steps:
            for some, wanted in batches:
                optimizer.zero_grad()
                loss(private(some), wanted).backward()
                optimizer.step()
                taken += 1
                if task is not None:
                    task.reach(taken, steps)
            if file is not None:
                state = {"run": run, "step": taken, "begun": taken, "key": settings["key"]}
                state |= {"model": private.state_dict(), "optimizer": optimizer.state_dict()}
                state |= {
                    "accountant": dict(engine.accountant.state_dict()),
                    "noise": noise.get_state(),
                }
                stored(file, state)
    return engine.accountant.guarantee
