"""Regularized logistic regression by noisy gradient descent, of which only the last model is released.

The losses are those that `SmoothLoss.logistic` and `SmoothLoss.softmax` describe, over features of
bounded norm: the constants hold for every record, gradients need no clipping, and steps contract.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate.extras import optional_packages

with optional_packages("learn", "torch"):
    import torch
    from torch import Tensor, nn

from sharpdp._validate import (
    HintedKeywords,
    count,
    doubles,
    short_repr,
)
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.dpsgd import STEPS_BETWEEN_SAVES, Training
from sharpdp.learn.step_loop import AccountedRun
from sharpdp.mechanisms import DPSGD, Adjacency, LastIterate, Mechanism, Sequence
from sharpdp.mechanisms.training import check_trains
from sharpdp.questions.account import Guarantee

__all__ = ["LastIterateTraining"]

_ROOM = 1.0 - 1e-9
"""Features are cut a little shorter than allowed, so that rounding does not make them longer."""


_ROUNDING = "rounding of the gradients, in double precision, does not matter"
"""What is left of an idealization: theorems of the last iterate are about real numbers."""


class LastIterateTraining(HintedKeywords, AccountedRun):
    """One run of a `LastIterate` mechanism: logistic regression whose model is released once.

    Two classes are told apart by one vector of weights (`SmoothLoss.logistic`), more by one for each
    (`SmoothLoss.softmax`). Rows of features that are longer than the bound that the constants of the loss
    imply are shortened to it. An intercept is a constant feature of your own, which counts for the norm
    and is penalized like all weights. The weights start at zero.

    Batches and noise are functions of a secret key, and a resumed run repeats the steps that were lost;
    see `Training`. Noise is that of the Gaussian mechanism to the last digit. Gradients are computed in
    double precision, whose rounding is not counted.

    Nothing of the run may be seen but what `release` returns. Every release but the last starts a new
    run, and costs as much; `guarantee` counts all of them.

    Args:
        mechanism: The plan, with the constants of the loss.
        features: Records, one per row; as many as the ``dataset_size`` of the batches.
        labels: Classes, whole numbers from 0 on, one for each record.
        classes: Number of classes, at least 2; choose it without looking at the labels.
        key: Secret of at least 16 bytes; None for a fresh one.
        adjacency: Which data sets are neighbors; None for zero-out.

    Raises:
        InvalidArgument: An argument is out of range, or two do not fit together.
        WrongType: An argument has the wrong type.
        Unsupported: No theorem covers the run under this adjacency.

    >>> from sharpdp.batches import DeterministicBatches
    >>> from sharpdp.mechanisms import SmoothLoss
    >>> plan = DeterministicBatches(dataset_size=100, batch_size=100, epochs=30)
    >>> loss = SmoothLoss.logistic(feature_norm=1.0, regularization=0.1)
    >>> run = LastIterate(plan, noise_multiplier=10.0, learning_rate=1.0, loss=loss)
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 3))
    >>> training = LastIterateTraining(run, x, x[:, 0] > 0, classes=2)
    >>> weights = training.run(progress=False).release()
    >>> weights.shape, round(training.epsilon(delta=1e-5).upper, 3)
    ((1, 3), 1.632)
    """

    def __init__(
        self,
        mechanism: LastIterate,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        classes: int,
        key: bytes | None = None,
        adjacency: Adjacency | str | None = None,
    ) -> None:
        """Check that everything fits together; nothing is run yet."""
        self.mechanism = _checked(mechanism)
        number = count(classes=classes, least=2)
        bound = _feature_norm(self.mechanism, number)
        inputs = torch.from_numpy(_shortened(features, bound * _ROOM))
        targets = torch.from_numpy(_classes(labels, number, len(inputs)))
        self._training = _Descent(self.mechanism, inputs, targets, number, key, adjacency)

    def __repr__(self) -> str:
        """Number of steps run and the mechanism; nothing of the key, the data or the weights."""
        every, plan = self.mechanism.batches.steps, self.mechanism.describe()
        return f"<{type(self).__name__}: {self.step} of {every} steps of {plan}>"

    @property
    def step(self) -> int:
        """Number of steps that were run."""
        return self._training.step

    @property
    def releases(self) -> tuple[int, ...]:
        """The steps after which a model was released."""
        return self._training.releases

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of all releases so far, and of releasing the model as it is now.

        It holds for releases after numbers of steps that were fixed in advance. What decides when to
        stop must not look at models that are not released.
        """
        return self._training.guarantee

    def run(
        self,
        *,
        steps: int | None = None,
        checkpoint: str | Path | None = None,
        every: int = STEPS_BETWEEN_SAVES,
        progress: bool = True,
    ) -> LastIterateTraining:
        """Run to the end, or for so many more steps.

        Args:
            steps: Most steps to run now, at least 1; None for all.
            checkpoint: File to save to, before the first step, every so many steps and at the end; it
                holds the key and the weights, and is as secret as the data. None for none.
            every: Steps between two saves, at least 1.
            progress: False to print no progress.

        Returns:
            The run itself.

        Raises:
            InvalidArgument: An argument is out of range, or the path is taken.
            WrongType: An argument has the wrong type.
        """
        self._training.run(steps=steps, checkpoint=checkpoint, every=every, progress=progress)
        return self

    def resume(self, path: str | Path) -> LastIterateTraining:
        """Go on where a checkpoint of the same run left off, its releases included.

        Args:
            path: The checkpoint, at which later steps are saved.

        Returns:
            The run itself.

        Raises:
            InvalidArgument: The file is none of this run, or another process has it.
            WrongType: path is no path.
        """
        self._training.resume(path)
        return self

    def close(self) -> None:
        """Let another process continue from the checkpoint; a finished run does so automatically."""
        self._training.close()

    def release(self) -> NDArray[np.float64]:
        """The weights as they are now, one row for each class (one in all for two classes).

        It counts from now on: a run that goes on afterwards starts anew from a model that is known.

        Returns:
            The weights.

        Raises:
            InvalidArgument: No step was run yet, or the batches allow no release here: over shuffled
                batches only at the end of an epoch, and only once if one order is kept; over others that
                have epochs only at ends of epochs if it is not the only release.
        """
        self._training.release()
        return np.array(self._training.weight.detach().numpy(), dtype=np.float64)


class _Descent(Training):
    """Training over linear models, with the penalty in every step, that remembers what was released."""

    def __init__(
        self,
        mechanism: LastIterate,
        inputs: Tensor,
        targets: Tensor,
        classes: int,
        key: bytes | None,
        adjacency: Adjacency | str | None,
    ) -> None:
        assert mechanism.loss is not None
        assert mechanism.learning_rate is not None
        self.hidden = mechanism
        model = nn.Linear(inputs.shape[1], 1 if classes == 2 else classes, bias=False).double()
        nn.init.zeros_(model.weight)
        self.weight = model.weight
        gradients = _LinearGradients(model, mechanism.loss.gradient_norm)
        super().__init__(
            DPSGD(mechanism.batches, noise_multiplier=mechanism.noise_multiplier),
            model,
            gradients.loss,
            inputs,
            targets,
            clip=gradients.clip,
            optimizer=torch.optim.SGD(
                model.parameters(),
                lr=mechanism.learning_rate,
                weight_decay=mechanism.loss.regularization,
            ),
            key=key,
            adjacency=adjacency,
        )
        if self.ranks.size > 1:
            raise InvalidArgument(
                f"LastIterateTraining must run in one process; got {self.ranks.size} ranks."
            )
        self.linear = gradients
        # the optimizer's options are saved and read with a checkpoint
        self.optimizer.param_groups[0]["releases"] = []

    @property
    def releases(self) -> tuple[int, ...]:
        """The steps after which a model was released."""
        return tuple(self.optimizer.param_groups[0]["releases"])

    def _conditions(self) -> list[str]:
        return [*super()._conditions(), _ROUNDING]

    def release(self) -> None:
        """Count the model as it is as released, on disk too."""
        self._accounted()
        if self.step not in self.releases:
            self.optimizer.param_groups[0]["releases"].append(self.step)
            if self._file is not None:
                self._store(self.step)

    def _accounted(self) -> Mechanism:
        """The runs from release to release, the last one up to the present step."""
        if self.step == 0:
            raise InvalidArgument("no step was run yet, so nothing about the data was released.")
        ends = sorted({*self.releases, self.step})
        if getattr(self.hidden.batches, "order", "") == "kept" and len(ends) > 1:
            raise InvalidArgument(
                "a run over batches of one order must be released once; got a second release. The order "
                "is the same in both parts, so that they do not compose."
            )
        lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        period = getattr(self.hidden.batches, "steps_per_epoch", 1)
        if len(lengths) > 1 and any(length % period for length in lengths):
            raise InvalidArgument(
                f"models of one run must be released at ends of epochs, of {period} steps each; got "
                f"releases after steps {', '.join(map(str, ends))}. Parts of epochs use different "
                "records, and no theorem covers them together."
            )
        runs = [self.hidden.stopped_after(length) for length in lengths]
        return runs[0] if len(runs) == 1 else Sequence(runs)

    def _part(self, pieces: list[tuple[int, Tensor]]) -> dict[str, Tensor]:
        index = torch.cat([torch.zeros(0, dtype=torch.int64), *(piece for _, piece in pieces)])
        return self.linear.sum(self.inputs[index], self.targets[index])

    def _move(self, released: Mapping[str, Tensor], rate: float | None) -> None:
        super()._move(released, rate)
        if self.hidden.diameter is not None:
            with torch.no_grad():
                length = float(torch.linalg.vector_norm(self.weight))
                radius = 0.5 * self.hidden.diameter * _ROOM
                if length > radius:
                    self.weight.mul_(radius / length)


@dataclass(frozen=True)
class _LinearGradients:
    """Sums of gradients of logistic or softmax regression, in closed form."""

    model: nn.Linear
    clip: float

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of one record, whose gradients these are."""
        if self.model.out_features == 1:
            return nn.functional.softplus(-outputs[:, 0] * (2.0 * targets - 1.0)).sum()
        return nn.functional.cross_entropy(outputs, targets)

    def sum(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The sum over some records, none longer than the gradient norm of the loss."""
        with torch.no_grad():
            outputs = inputs @ self.model.weight.T
            if self.model.out_features == 1:
                excess = torch.sigmoid(outputs) - targets[:, None].double()
            else:
                excess = torch.softmax(outputs, dim=1)
                excess[torch.arange(len(targets)), targets] -= 1.0
            return {"weight": excess.T @ inputs}


def _checked(mechanism: LastIterate) -> LastIterate:
    if type(mechanism) is not LastIterate:
        raise WrongType(f"mechanism must be a LastIterate; got {short_repr(mechanism)}.")
    check_trains(mechanism=mechanism)
    if mechanism.loss is None:
        raise InvalidArgument(
            "mechanism must have a loss; got one without. Try loss=SmoothLoss.softmax(feature_norm=1.0, "
            "regularization=0.01)."
        )
    if mechanism.loss.smoothness == 0.0:
        raise InvalidArgument(
            "mechanism must have a loss that bends; got linear losses. Try "
            "loss=SmoothLoss.softmax(feature_norm=1.0, regularization=0.01)."
        )
    if mechanism.start_deviation is not None:
        raise InvalidArgument(
            "mechanism must have a fixed start, since weights start at zero; got start_deviation "
            f"{mechanism.start_deviation:.12g}. Leave it out."
        )
    if mechanism.batches.dataset_size is None:
        raise InvalidArgument("mechanism must have batches with a dataset_size; got none.")
    return mechanism


def _feature_norm(mechanism: LastIterate, classes: int) -> float:
    """The norm of features for which the constants of the loss hold."""
    assert mechanism.loss is not None
    if classes == 2:
        longest = min(mechanism.loss.gradient_norm, 2.0 * math.sqrt(mechanism.loss.smoothness))
    else:
        curved = math.sqrt(2.0 * mechanism.loss.smoothness)
        longest = min(mechanism.loss.gradient_norm / math.sqrt(2.0), curved)
    return longest


def _shortened(features: ArrayLike, longest: float) -> NDArray[np.float64]:
    """The rows as doubles, each of at most this length."""
    rows = doubles(features)
    if rows.ndim != 2 or not rows.size or not np.all(np.isfinite(rows)):
        raise InvalidArgument(
            f"features must be a table of finite numbers, one row per record; got shape {rows.shape}."
        )
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows * np.minimum(1.0, longest / np.maximum(norms, 1e-300)))


def _classes(labels: ArrayLike, classes: int, size: int) -> NDArray[np.int64]:
    values = np.asarray(labels)
    fits = values.shape == (size,) and values.dtype.kind in "biuf"
    whole = values.astype(np.int64) if fits else np.zeros(0, dtype=np.int64)
    if not fits or np.any(whole != values) or np.any((whole < 0) | (whole >= classes)):
        raise InvalidArgument(
            f"labels must be {size} whole numbers from 0 to {classes - 1}, one per record; got an array "
            f"of shape {values.shape}."
        )
    return whole
