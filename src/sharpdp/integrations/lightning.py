"""Private training with Lightning: a callback that counts the steps of a plan, saves them and stops.

    run = PrivateGradients(plan, network, loss, data, clip=1.0)

    class Private(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network, self.automatic_optimization = network, False

        def training_step(self, batch, _):
            run.backward(batch)              # in place of self.manual_backward(loss)
            self.optimizers().step()

    lightning.Trainer(callbacks=[PlannedSteps(run)], use_distributed_sampler=False).fit(
        Private(), run.loader()
    )
    run.epsilon(delta=1e-5)

Needs `pip install "sharpdp[lightning]"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sharpdp._validate.extras import optional_packages

with optional_packages("lightning", "lightning"):
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import Callback

from sharpdp._validate import invalid, short_repr
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.integrations.framework_loaders import noise_of, planned_run
from sharpdp.integrations.private_gradients import PrivateGradients
from sharpdp.integrations.torch import scheme_of
from sharpdp.mechanisms import DPSGD

__all__ = ["PlannedSteps", "finished_run"]

STRATEGIES = ("SingleDeviceStrategy", "DDPStrategy")
"""Strategies under which every process holds all parameters, and moves them by itself."""


class PlannedSteps(Callback):  # type: ignore[misc]  # its types are not followed
    """Lightning runs the steps of a plan: each batch is one release, and nothing else moves the model.

    It refuses Trainers that would run something else: automatic optimization, whose gradients are not
    clipped one by one, accumulated batches, samplers that Lightning replaces, scaled gradients, models
    that are shared out. During training it refuses a batch without a release, and a step of an optimizer
    along other gradients than those released. Clip in the run, and not with ``clip_gradients``.

    Training ends with the plan, or where the budget of the run ends. Checkpoints of Lightning hold the
    number of steps taken, without the key, and ``fit(ckpt_path=...)`` goes on with the batches that are
    left. What ``training_step`` logs of a batch is a release of its own, without noise.

    Args:
        run: The gradients; give the Trainer its ``loader()``.

    Raises:
        WrongType: run is no `PrivateGradients`.
    """

    def __init__(self, run: PrivateGradients) -> None:
        """Nothing was run yet."""
        if not isinstance(run, PrivateGradients):
            raise WrongType(f"run must be a PrivateGradients; got {short_repr(run)}.")
        self.run = run
        self._before = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse a Trainer that would run something other than the plan.

        Args:
            trainer: The Trainer.
            pl_module: The module.
            stage: "fit", or what looks at no batch of the plan.

        Raises:
            InvalidArgument: An option would change batches or gradients.
        """
        if stage != "fit":
            return
        if pl_module.automatic_optimization:
            raise InvalidArgument(
                "automatic_optimization must be False; got True, whose gradients are not clipped one by "
                "one. Call run.backward(batch) and self.optimizers().step() in training_step."
            )
        connector = getattr(trainer, "_accelerator_connector", None)
        settings: dict[str, tuple[object, tuple[object, ...]]] = {
            "accumulate_grad_batches": (trainer.accumulate_grad_batches, (1,)),
            "use_distributed_sampler": (
                getattr(connector, "use_distributed_sampler", False),
                (False,),
            ),
            "overfit_batches": (trainer.overfit_batches, (0, 0.0)),
            "gradient_clip_val": (trainer.gradient_clip_val, (None, 0, 0.0)),
            "strategy": (type(trainer.strategy).__name__, STRATEGIES),
        }
        for name, (value, allowed) in settings.items():
            if value not in allowed:
                raise invalid(name, f"{' or '.join(map(repr, allowed))} in the Trainer", value)
        if str(trainer.precision).startswith("16"):
            hint = "Scaled gradients are not those that were released."
            raise invalid("precision", "32, 64 or bf16 in the Trainer", trainer.precision, hint)
        if trainer.world_size != self.run.ranks.size:
            raise InvalidArgument(
                f"run must be made on every rank once torch.distributed is initialized; got a run of "
                f"{self.run.ranks.size} and a Trainer of {trainer.world_size} processes."
            )

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Look at the gradients before every step of an optimizer.

        Args:
            trainer: The Trainer.
            pl_module: The module.
        """
        self._hooks = [self.run.guard(optimizer) for optimizer in trainer.optimizers]

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Remember how many steps were released before this batch.

        Args:
            trainer: The Trainer.
            pl_module: The module.
            batch: The batch.
            batch_idx: Its number in the epoch.
        """
        self._before = self.run.step

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Refuse a batch that was no release, and stop after the last step.

        Args:
            trainer: The Trainer.
            pl_module: The module.
            outputs: What training_step returned.
            batch: The batch.
            batch_idx: Its number in the epoch.

        Raises:
            InvalidArgument: The batch was not released once.
        """
        if self.run.step != self._before + 1:
            raise InvalidArgument(
                f"every batch must be one release of the run; got {self.run.step - self._before} for "
                "one batch. Call run.backward(batch) once in training_step."
            )
        if self.run.step >= self.run.last:
            trainer.should_stop = True

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Leave the optimizers as they were.

        Args:
            trainer: The Trainer.
            pl_module: The module.
            stage: "fit", or another one.
        """
        for hook in self.__dict__.pop("_hooks", ()):
            hook.remove()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of the run.

        Returns:
            Plain data, without the key.
        """
        return self.run.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint of the same run.

        Args:
            state_dict: What `state_dict` gave.

        Raises:
            InvalidArgument: It is that of another run, or this run is beyond it.
            WrongType: It is no such state.
        """
        self.run.load_state_dict(state_dict)


def finished_run(
    trainer: Any,
    *,
    collate: Callable[[list[Any]], Any] | None = None,
    seed: str | None = None,
) -> DPSGD:
    """What the `fit` of a Trainer was, for `account`: its batches, its epochs, its noise.

    With the callback `PlannedSteps` it is the plan, up to the steps that were released. Otherwise the
    loader tells the batches, the progress the epochs begun (one that was broken off counts as a whole
    one), and an optimizer of Opacus the noise multiplier. A Trainer without either has added no noise.

    After ``seed_everything(42)`` the order of the batches counts as known, and so does noise that Opacus
    draws from torch's own generator: that is refused.

    Holds when: what `scheme_of` asks for; the noise multiplier stayed the same; every step used the
    examples of one batch, each of them once, clipped.

    Args:
        trainer: the Trainer, after `fit`.
        collate: as for `sharpdp.integrations.torch.scheme_of`.
        seed: as for `sharpdp.integrations.torch.scheme_of`.

    Returns:
        The run, of at least one step.

    Raises:
        InvalidArgument: no step was taken.
        Unsupported: the batches follow no scheme, steps are not batches, or noise is missing or known.
        WrongType: this is no Trainer of Lightning.
    """
    if not isinstance(trainer, Trainer):
        raise WrongType(f"trainer must be a Trainer of Lightning; got {short_repr(trainer)}.")
    run = planned_run(trainer)
    if run is not None:
        taken: DPSGD = run.taken
        return taken
    scheme = scheme_of(trainer, collate=collate, seed=seed)
    if len(trainer.optimizers) != 1:
        raise Unsupported(
            f"trainer must have one optimizer to read its noise; got {len(trainer.optimizers)}."
        )
    return DPSGD(scheme, noise_multiplier=noise_of(trainer.optimizers[0], seed=seed))
