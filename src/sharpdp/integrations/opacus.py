"""sharpdp's accounting inside Opacus: one plan draws the batches, sets the noise and is accounted.

    plan = sharpdp.DPSGD(scheme, noise_multiplier=1.0)
    model, optimizer, batches, engine = make_private(
        module=model, optimizer=optimizer, plan=plan, data=dataset, max_grad_norm=1.0
    )
    ...                              # train as with Opacus, one pass over `batches` per epoch
    engine.get_epsilon(delta=1e-5)   # the certified upper side, for the steps that were taken

Opacus tells an accountant the noise multiplier and one over the length of the loader, which are the same
for Poisson and for shuffled batches. `SchemeAccountant` therefore looks at the loader itself, and counts
the batches that it hands out. Needs `pip install opacus`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sharpdp._validate.extras import optional_packages

with optional_packages("opacus", "opacus", "torch"):
    import torch
    from opacus import PrivacyEngine
    from opacus.accountants import IAccountant
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
    from opacus.optimizers import (
        DistributedDPOptimizer,
        DistributedDPOptimizerFastGradientClipping,
        DPOptimizer,
        DPOptimizerFastGradientClipping,
        DPPerLayerOptimizer,
        SimpleDistributedPerLayerOptimizer,
    )
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
    from torch import nn
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

from sharpdp._validate import (
    by_name,
    count,
    invalid,
    open_probability,
    positive_scale,
    probability,
    short_repr,
)
from sharpdp.batches import BatchScheme, DeterministicBatches, PoissonBatches, ShuffledBatches
from sharpdp.batches.scheme import WHOLE, EpochScheme
from sharpdp.budget import Budget, Ledger
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.integrations.opacus_steps import WatchedSteps
from sharpdp.integrations.torch import (
    BatchSampler,
    CountedBatches,
    batches_per_pass,
    counted_loader,
    hash_of_some,
    loader,
    scheme_of,
    shard_of_rank,
)
from sharpdp.learn.budget import check_left
from sharpdp.learn.ranks import Ranks
from sharpdp.learn.step_loop import CountedSteps, checked_begun, checked_plan
from sharpdp.learn.written_state import check_layers
from sharpdp.mechanisms import DPSGD, Mechanism, Sequence
from sharpdp.mechanisms.composed import NO_NOISE
from sharpdp.randomness.given_secret import conditions_on

__all__ = ["SchemeAccountant", "finished_run", "make_private"]


ROUNDING = 1e-9
"""Relative difference of two sample rates, or of two numbers of batches, that rounding explains."""


ALONE = (DPOptimizer, DPPerLayerOptimizer, DPOptimizerFastGradientClipping)
"""Optimizers of Opacus whose step is one noisy sum of clipped gradients, and nothing else."""

TOGETHER = (
    DistributedDPOptimizer,
    SimpleDistributedPerLayerOptimizer,
    DistributedDPOptimizerFastGradientClipping,
)
"""The same for several processes: sums are added up over them, and noise is added by the first."""

MODES = ("hooks", "functorch", "ew", "ghost")
"""How Opacus computes or avoids per-example gradients, as far as steps can be checked."""

SET_BY_PLAN = {
    "data_loader": "data",
    "noise_multiplier": "plan",
    "poisson_sampling": "plan",
    "target_epsilon": "plan",
}
"""Options of Opacus' make_private that would contradict the plan, and what takes their place."""

WATCH = (
    "Use sharpdp.integrations.opacus.make_private, or call accountant.watch(loader) before training "
    "and iterate over the loader that it returns."
)


BY_ITSELF = (
    "model and loss get the examples that were handed out, unmixed, and treat each by itself"
)
"""What cannot be seen of a step; how many examples it uses can."""

NO_ERRORS = "no record makes the model or the loss raise"
"""Such a record would stop the run, which everyone can see."""

EXACT = "the floating point of Opacus counts as exact and its pseudo-random noise as Gaussian"
"""`docs/how-to/opacus.md` says by how much one record can move a sum in single precision."""

UNWATCHED = "nothing but the optimizer writes parameters and buffers of the model"

SECRET_ORDER = "the seed of torch's generator, from which batches follow, stays secret"

SECRET_NOISE = "the seed of the generator from which Opacus draws noise stays secret"


class SchemeAccountant(CountedSteps[DPSGD], IAccountant):  # type: ignore[misc]  # Opacus has no types
    """An Opacus accountant that certifies a plan only for a loader that follows it.

    It must be shown the loader: as ``loader=``, or by `watch` once Opacus' `make_private` has returned
    the final one. Training must iterate over the loader that `watch` returns (the attribute `loader`).
    From then on every step is checked: it must use exactly one new batch of that loader, with a gradient
    for each of its examples and no other, at the plan's noise multiplier and sample rate, and be within
    the plan's steps. Batches count when they reach training, also if workers load them ahead. Steps of
    any other optimizer along gradients of the same parameters are refused. What does not match raises,
    before the optimizer moves the model. Without a loader there is no epsilon.

    It counts examples and does not know them: examples that were mixed or exchanged are not seen.
    `guarantee.holds_when` lists what is left to be ensured.

    `get_epsilon` is the certified upper side; `guarantee` has everything else. The neighbors are those
    of zero-out, for every scheme: Opacus divides by the size of the data set over the length of the
    loader, so that the scale of what is released shows the size, which add/remove would have to hide.

    Steps after the last saved state that are taken again after a crash use the same batches and fresh
    noise. If what they gave was seen, account for noise_multiplier / sqrt(2) instead.

    Args:
        plan: a `DPSGD`, or a batch scheme if Opacus alone is to set the noise.
        loader: the DataLoader that training will use.
        collate: see `sharpdp.integrations.torch.scheme_of`.
        seed: see `sharpdp.integrations.torch.scheme_of`.

    Attributes:
        scheme: the batch scheme of the plan.
        loader: the loader to iterate over; None before `watch`.

    Raises:
        InvalidArgument: The loader does not follow the plan.
        WrongType: plan is neither a `DPSGD` nor a batch scheme.
        Unsupported: It cannot be determined which batches the loader draws, or in which order.
    """

    history: list[tuple[float, float, int]]
    _note = "training run with Opacus"

    def __init__(
        self,
        plan: DPSGD | BatchScheme,
        *,
        loader: Any = None,
        collate: Callable[[list[Any]], Any] | None = None,
        seed: str | None = None,
    ) -> None:
        """Nothing is run yet."""
        super().__init__()
        scheme = plan.batches if isinstance(plan, DPSGD) else plan
        if isinstance(scheme, type) or not isinstance(scheme, BatchScheme):
            raise WrongType(f"plan must be a DPSGD or a batch scheme; got {short_repr(scheme)}.")
        self.scheme = scheme
        self.noise_multiplier = plan.noise_multiplier if isinstance(plan, DPSGD) else None
        self.loader: Any = None
        self._ran = scheme
        self._counter: BatchSampler | CountedBatches | None = None
        self._steps: WatchedSteps | None = None
        self._is_noise_secret = False
        self._ahead = self._before = self._of_empty = 0
        self._next: int | None = None
        # not the key of the batches: a run that begins again has the same batches and other noise
        self._run = secrets.token_hex(16)
        if loader is not None:
            self.watch(loader, collate=collate, seed=seed)

    def watch(
        self,
        loader: Any,
        *,
        collate: Callable[[list[Any]], Any] | None = None,
        seed: str | None = None,
        module: Any = None,
        optimizer: Any = None,
    ) -> Any:
        """Check that a loader follows the plan, and return the loader over which training must iterate.

        With the module and the optimizer it is also seen, as in runs of our `make_private`, who else
        writes parameters or buffers. A `BatchMemoryManager` needs the optimizer: the accountant sees the
        pieces of a batch only if it knows the optimizer before the first of them.

        Args:
            loader: the loader that training was to use; with Opacus' own `make_private`, the one that it
                returned.
            collate: see `sharpdp.integrations.torch.scheme_of`.
            seed: see `sharpdp.integrations.torch.scheme_of`.
            module: the module that Opacus' `make_private` returned, to be given with the optimizer; None
                if its state is not watched.
            optimizer: the optimizer that it returned; None to watch it from its first step on.

        Returns:
            The loader to iterate over, which is the attribute `loader` as well.

        Raises:
            Unsupported: it cannot be determined which batches the loader draws, or a layer of the module
                writes its parameters or buffers.
            InvalidArgument: they are not those of the plan.
        """
        epochs = self.scheme.epochs if isinstance(self.scheme, EpochScheme) else 1
        loaded = scheme_of(
            loader, epochs=None if _is_ours(loader) else epochs, collate=collate, seed=seed
        )
        if isinstance(loaded, PoissonBatches) and not _is_ours(loader):
            loaded = replace(loaded, steps=self.scheme.steps)
        if not _same(self.scheme, loaded):
            raise InvalidArgument(
                f"loader must follow the plan, {self.scheme.describe()}; got {loaded.describe()}. "
                f"Plan for what runs: {loaded!r}; or let make_private draw the batches of the plan."
            )
        if getattr(loader.batch_sampler, "shard", WHOLE) != shard_of_rank():
            raise Unsupported(
                "loader must be over BatchSampler(scheme, key, shard=shard_of_rank()) on several "
                "processes; got one that does not share out the batches of the plan among them."
            )
        before = self._begun()
        self.loader, self._counter = counted_loader(loader, loaded)
        self._ran = loaded
        self._ahead = loader.num_workers * (loader.prefetch_factor or 0)
        self._of_empty = int(getattr(loader.collate_fn, "rand_on_empty", False))
        self._resume(before)
        self._stop()
        if optimizer is not None:
            _check_clips(optimizer)
            self._steps = WatchedSteps(optimizer, module)
        return self.loader

    def _planned(self) -> DPSGD:
        if self.noise_multiplier is None:
            raise InvalidArgument(
                "plan must be a DPSGD to be counted in a budget; got a batch scheme, which has no noise."
            )
        return DPSGD(self.scheme, noise_multiplier=self.noise_multiplier)

    def _told(self) -> tuple[bytes, bytes | None, int]:
        return self._run.encode(), self._batch_key, self._begun()

    @property
    def _batch_key(self) -> bytes | None:
        """What a loader of ours draws batches from; nothing is known of another one."""
        return self._counter.batch_key if isinstance(self._counter, BatchSampler) else None

    def _stop(self) -> None:
        if self._counted is not None and isinstance(self._counter, BatchSampler):
            self._counter.stop_after(self._counted)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Hook that the optimizer calls at each step; it refuses batches that were added up before.

        Args:
            sample_rate: One over the batches of an epoch of the plan.

        Returns:
            A function of the optimizer. It raises `Unsupported` for an optimizer whose steps are not
            those of the plan, and `InvalidArgument` for several batches in one step, or for more or
            fewer examples than those of the batch.

        Raises:
            InvalidArgument: The sample rate is not that of the plan.
            WrongType: The sample rate is no number.
        """
        self._check_rate(sample_rate)

        def hook(optimizer: Any) -> None:
            _check_covered(optimizer, ALONE if shard_of_rank()[1] == 1 else TOGETHER)
            together = optimizer.accumulated_iterations
            if together != 1:
                raise InvalidArgument(
                    f"a step must use one batch of the scheme; got {together} batches, in which a record "
                    "may come more than once. Use BatchMemoryManager for large batches."
                )
            if self._steps is None or self._steps.optimizer is not optimizer:
                _check_clips(optimizer)
                self._steps = WatchedSteps.from_first_step(optimizer)
            self.step(
                noise_multiplier=optimizer.noise_multiplier,
                sample_rate=sample_rate,
                examples=self._steps.examples,
            )

        return hook

    def step(
        self, *, noise_multiplier: float, sample_rate: float, examples: int | None = None
    ) -> None:
        """Count one step, if noise, sample rate and batch are those of the plan.

        Args:
            noise_multiplier: Noise standard deviation over the clipping norm, from 1e-30 to 1e30.
            sample_rate: One over the batches of an epoch of the plan.
            examples: How many examples have a gradient in the step; None if that is not known.

        Raises:
            BudgetExceeded: The budget of `count_in` allows no more steps.
            InvalidArgument: Noise, sample rate, batch or number of steps are not those of the plan, or no
                loader is watched.
            WrongType: An argument is no number.
        """
        multiplier = positive_scale(noise_multiplier=noise_multiplier, hint=NO_NOISE)
        rate = self._check_rate(sample_rate)
        _, _, steps = self.history[-1] if self.history else (multiplier, rate, 0)
        planned = self.history[-1][0] if self.history else self.noise_multiplier or multiplier
        if multiplier != planned:
            raise InvalidArgument(
                f"noise_multiplier must stay {planned!r} during a run; got {multiplier!r}. "
                "Plan one run for each noise multiplier, and add their mechanisms."
            )
        check_left(steps, self.scheme.steps, self._counted, "steps")
        self._use_batch(steps, examples)
        self.history = [(multiplier, rate, steps + 1)]

    def state_dict(self, destination: Any = None) -> Any:
        """Opacus' state, with the scheme and the run that it belongs to, and how many steps have begun.

        Args:
            destination: A mapping to write into, as for Opacus; None for a new one.

        Returns:
            The mapping.
        """
        state = super().state_dict(destination)
        state["scheme"] = self.scheme.describe()
        state["begun"] = self._begun()
        state["run"] = self._run
        return state

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from a state of a run over the same scheme.

        A loader over a `BatchSampler` must be set to its own state as well.

        Args:
            state_dict: What `state_dict` gave.

        Raises:
            InvalidArgument: The state is that of another scheme or noise, or has more steps than the
                plan.
            WrongType: It is no state of this accountant.
        """
        if not isinstance(state_dict, Mapping) or not {"history", "begun"} <= set(state_dict):
            raise WrongType(
                f"state_dict must be one of this accountant; got {short_repr(state_dict)}."
            )
        told = (state_dict.get("mechanism"), state_dict.get("scheme"))
        if told != (self.mechanism(), self.scheme.describe()):
            raise InvalidArgument(
                f"state_dict must come from a run over {self.scheme.describe()}; "
                f"got one over {short_repr(told[1])}."
            )
        history = self._checked(state_dict["history"])
        first = history[0][-1] if history else 0
        begun = checked_begun(state_dict["begun"], step=first, most=self.scheme.steps)
        run = state_dict.get("run", self._run)
        if not isinstance(run, str) or len(run) != len(self._run):
            raise WrongType(f"run must be the name of a run; got {short_repr(run)}.")
        self.history, self._run = history, run
        self._resume(begun)

    def _checked(self, history: object) -> list[tuple[float, float, int]]:
        """A history of this accountant: none, or one noise multiplier, a rate and a number of steps."""
        if not isinstance(history, list | tuple) or len(history) > 1:
            raise WrongType(
                f"history must be a list of at most one entry; got {short_repr(history)}."
            )
        for entry in history:
            # A noise multiplier, a sample rate and a number of steps, as Opacus keeps them
            if not isinstance(entry, list | tuple) or len(entry) != 3:
                raise WrongType(f"history must hold three numbers; got {short_repr(entry)}.")
            noise, rate, steps = entry
            taken = count(history=steps)
            if taken > self.scheme.steps:
                raise invalid("history", f"at most {self.scheme.steps} steps", taken)
            multiplier = positive_scale(noise_multiplier=noise)
            if multiplier != (self.noise_multiplier or multiplier):
                raise invalid(
                    "history", f"with noise {self.noise_multiplier!r} of the plan", multiplier
                )
            return [(multiplier, self._check_rate(rate), taken)]
        return []

    def _accounted(self) -> DPSGD:
        if self._counter is None:
            raise InvalidArgument(
                "the accountant must have seen the loader to certify anything; got none, and a sample "
                f"rate does not tell Poisson from shuffled batches. {WATCH}"
            )
        if self._steps is not None:
            self._steps.check_nothing_written()
        if not self.history:
            if self._begun():
                raise InvalidArgument(
                    f"every batch must be followed by a step that is counted; got {self._begun()} "
                    "batches and no step. Set engine.accountant before engine.make_private."
                )
            raise InvalidArgument("no step was taken yet, so that nothing is known of the data.")
        noise, _, steps = self.history[-1]
        run = DPSGD(self._ran, noise_multiplier=noise)
        return run.stopped_after(max(steps, self._begun()))

    def _conditions(self) -> Iterator[str]:
        yield from (BY_ITSELF, NO_ERRORS, EXACT)
        if self._steps is None or not self._steps.is_state_watched:
            yield UNWATCHED
        if isinstance(self._counter, CountedBatches):
            if not isinstance(self._ran, DeterministicBatches):
                yield SECRET_ORDER
        elif self._counter is not None:
            yield from self._counter.conditions
        if not self._is_noise_secret:
            yield SECRET_NOISE

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """The upper side of epsilon at delta; 0 before the first batch of the loader that was seen.

        It is that of the steps so far, their number being fixed in advance. If results decide when to
        stop, see `guarantee`.

        Args:
            delta: Delta, in (0, 1).
            **_: Options of Opacus' accountants, which are ignored.

        Returns:
            Epsilon under zero-out, certified from above.

        Raises:
            InvalidArgument: delta is out of range, no loader is watched, or batches were drawn without a
                step.
            WrongType: delta is no number.
        """
        open_probability(delta=delta)
        if self._counter is not None and not self.history and not self._begun():
            return 0.0
        return float(self.guarantee.epsilon(delta=delta).upper)

    def __len__(self) -> int:
        """Number of steps taken."""
        return self.history[-1][2] if self.history else 0

    @classmethod
    def mechanism(cls) -> str:
        """The name of this accountant in Opacus' state.

        Returns:
            "sharpdp".
        """
        return "sharpdp"

    def _begun(self) -> int:
        """Number of steps of the scheme begun, in this process and before."""
        return max(self._before, self._place())

    def _place(self) -> int:
        """At which step of the scheme the loader stands; torch's own count from where they begin."""
        now = 0 if self._counter is None else self._counter.begun
        return self._before + now if isinstance(self._counter, CountedBatches) else now

    def _resume(self, begun: int) -> None:
        """Take what was begun before as settled, and expect one batch for each step from here on."""
        self._before, self._next = begun, None
        if self._counter is not None and self._counter.deliveries is not None:
            self._counter.deliveries.forget()

    def _check_rate(self, sample_rate: float) -> float:
        """Refuse a sample rate that is not one over the batches of an epoch of the plan."""
        hint = "It is one over the length of the loader."
        rate = probability(sample_rate=sample_rate, hint=hint)
        batches = batches_per_pass(self.scheme)
        if not any(abs(rate * allowed - 1.0) <= ROUNDING for allowed in batches):
            words = " or ".join(str(allowed) for allowed in batches)
            hint = f"{hint} One pass must be one epoch: use make_private of sharpdp, "
            hint += "or BatchSampler(scheme, steps_per_pass=...), and stop runs between epochs."
            raise invalid("sample_rate", f"1 / {words}, as the plan has it", rate, hint)
        return rate

    def _use_batch(self, steps: int, examples: int | None) -> None:
        """Use up the next batch of the loader; refuse a step that did not use it, once and alone."""
        arrived = None if self._counter is None else self._counter.deliveries
        if arrived is None:
            raise InvalidArgument(
                f"the accountant must have seen the loader before the first step; got none. {WATCH}"
            )
        # a loader of others over our sampler does not say what it has delivered
        is_noted = bool(arrived.delivered or arrived.passes)
        waiting = arrived.delivered if is_noted else arrived.drawn
        if not waiting or self._place() <= steps:
            raise InvalidArgument(
                "a step must use a new batch of the loader that the accountant watches; got none since "
                "the last step. Iterate over accountant.loader: Opacus replaces the loader that it is "
                "given with poisson_sampling=True; and after a restart, set the sampler to its state."
            )
        number, length = waiting[0]
        ahead = 0 if is_noted else self._ahead
        left_out = 0 if self._next is None else number - self._next
        # Opacus is told of every piece of a batch when it is drawn, and forgets it with its step
        signaled = 0 if is_noted or self._steps is None else self._steps.signaled
        together = max(len(waiting) - ahead + left_out, 1 + (signaled > ahead))
        if together > 1:
            raise InvalidArgument(
                f"every batch must be one step; got {together} batches for one step. Batches that are "
                "skipped or added up are not those of the plan, and batches that workers have loaded are "
                "lost if a pass is broken off; use BatchMemoryManager for large batches."
            )
        if examples is not None and examples not in {length, length or self._of_empty}:
            raise InvalidArgument(
                f"a step must use the examples of its batch, each of them once; got gradients of "
                f"{examples} examples for a batch of {length}. Each of them is clipped by itself, so "
                "that copies of a record add up. Average the losses of copies of one example."
            )
        if self._begun() > self.scheme.steps:
            raise invalid("steps", f"at most the {self.scheme.steps} of the scheme", self._begun())
        waiting.popleft()
        self._next = number + 1


@by_name
def make_private(
    *,
    module: nn.Module,
    optimizer: Any,
    plan: DPSGD,
    data: Any,
    max_grad_norm: Any,
    key: bytes | int | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    loader_options: Mapping[str, Any] | None = None,
    budget: Budget | Ledger | None = None,
    budget_key: str | None = None,
    group_size: int | None = None,
    **options: Any,
) -> tuple[Any, ...]:
    """Opacus' module, optimizer, loader and engine for one DP-SGD plan, which is also what is accounted.

    The batches are drawn by ``plan.batches``, the noise is ``plan.noise_multiplier``, and the engine's
    accountant is a `SchemeAccountant` that watches the loader. Gradients are divided by the batch size
    that the plan expects. One pass over the loader is one epoch; the pass after the last is an error.
    Unless a ``noise_generator`` is given, noise comes from one that the operating system has seeded, and
    not from torch's own, which frameworks seed with public numbers.

    With ``grad_sample_mode="ghost"`` the fourth part of what is returned is the loss, which takes the
    place of ``criterion``: it must return one number for each example, and its ``backward`` alone clips.
    A step along other gradients is refused, in every mode also one of the optimizer that was passed or of
    any other one. So are steps with more or fewer examples than their batch, and models whose forward
    passes write parameters or buffers.

    On several processes the module must be Opacus' `DifferentiallyPrivateDistributedDataParallel`, and
    every rank must make the same call with the whole data set. Each of them loads its part of every
    batch, and the first adds the noise.

    Args:
        module: the model.
        optimizer: a torch optimizer of its parameters.
        plan: the scheme and the noise multiplier.
        data: a data set of ``plan.batches.dataset_size`` examples, or tensors that have a length.
        max_grad_norm: the clipping norm C; a list of them with ``clipping="per_layer"``.
        key: the secret from which batches are drawn; a fresh one by default. See `BatchSampler`.
        collate: as for `sharpdp.integrations.torch.loader`.
        loader_options: further options of torch's DataLoader, such as ``num_workers``.
        budget: a `Budget` or `Ledger` that several runs share. As many steps as it allows are counted in
            it now, and the loader ends after them; None for none.
        budget_key: the name of this run in a ledger. Make a run that is to be resumed without a budget,
            and call `SchemeAccountant.count_in` once its state is loaded.
        group_size: how many records one protected unit, such as a user, has in the data; None for that of
            the budget.
        **options: further options of Opacus' `PrivacyEngine.make_private`, such as ``criterion`` and
            ``grad_sample_mode``.

    Returns:
        The module, the optimizer and the loader to train with, and the engine, which has
        ``get_epsilon(delta)`` and ``accountant.guarantee``. With ghost clipping, the loss comes before
        the loader, as in Opacus.

    Raises:
        InvalidArgument: An option contradicts the plan, the data are not of the plan's size, or ranks
            were given different things.
        WrongType: plan is no `DPSGD`.
        Unsupported: The model is spread over devices, has parameters of low precision or layers that
            write when they are called, or uses a mode whose steps cannot be checked.
        BudgetExceeded: The budget does not allow a single step.
    """
    checked_plan(plan)
    for name in sorted(set(SET_BY_PLAN) & set(options)):
        raise InvalidArgument(
            f"{name} must be left out; got {short_repr(options[name])}. {SET_BY_PLAN[name]} says it."
        )
    mode = options.get("grad_sample_mode", "hooks")
    if mode not in MODES:
        raise Unsupported(
            f"grad_sample_mode must be one of {', '.join(map(repr, MODES))} here; got "
            f"{short_repr(mode)}, whose steps cannot be checked."
        )
    ranks = Ranks.of_process()
    _check_module(module, ranks)
    check_layers(module)
    scheme: Any = plan.batches
    secret = ranks.fresh_key() if key is None else key
    sampler = BatchSampler(
        scheme, secret, shard=ranks.shard, steps_per_pass=batches_per_pass(scheme)[-1]
    )
    sampler.conditions = conditions_on(key)
    drawn = loader(data, sampler, collate=collate, **(loader_options or {}))
    if ranks.size > 1:
        ranks.check_same(
            key=sampler.state_dict()["fingerprint"],
            plan=repr(plan),
            max_grad_norm=repr(max_grad_norm),
            data=hash_of_some(drawn, secret),
        )
    accountant = SchemeAccountant(plan)
    batches = accountant.watch(drawn)
    if options.get("noise_generator") is None:
        options["noise_generator"] = _seeded_by_the_system(module)
        accountant._is_noise_secret = True
    engine = PrivacyEngine()
    private, stepper, *criterion, batches = engine.make_private(
        module=module,
        optimizer=optimizer,
        data_loader=batches,
        noise_multiplier=plan.noise_multiplier,
        max_grad_norm=max_grad_norm,
        poisson_sampling=False,
        **options,
    )
    # Opacus takes the mean over ranks of what each of them divides by this
    stepper.expected_batch_size = scheme.expected_batch_size / ranks.size
    engine.accountant = accountant
    rate = 1.0 / batches_per_pass(scheme)[-1]
    stepper.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=rate))
    if budget is not None:
        accountant.count_in(budget, key=budget_key, group_size=group_size)
    checked = [_CheckedLoss(loss, stepper) for loss in criterion]
    accountant._steps = WatchedSteps(stepper, private)
    return private, stepper, *checked, batches, engine


def finished_run(
    engine: Any,
    loader: Any,
    *,
    collate: Callable[[list[Any]], Any] | None = None,
    seed: str | None = None,
) -> Mechanism:
    """What a run with Opacus' own accountant was, for `account`: its history, over the batches it drew.

    The history has noise and steps, and a rate that is one over the length of the loader, however batches
    are drawn; the loader says the latter.

    Opacus draws noise from torch's generator, as loaders do, unless it has a ``noise_generator`` or
    ``secure_mode``. If that generator has a seed that others can find out, such as 0, they know the noise
    as well as the order, and no epsilon holds. Where `scheme_of` finds such a seed, it is named among the
    conditions of the answer.

    Holds when: the loader is the one that was trained on, no pass over it was broken off, and what
    `scheme_of` asks for. A history does not tell what `SchemeAccountant` looks at during training: every
    step used the examples of one batch, each of them once, clipped, and only these steps wrote the
    parameters and buffers of the model.

    Args:
        engine: Opacus' PrivacyEngine, or its accountant, after the last step.
        loader: the loader that `make_private` of Opacus returned.
        collate: as for `sharpdp.integrations.torch.scheme_of`.
        seed: as for `sharpdp.integrations.torch.scheme_of`.

    Returns:
        `DPSGD`, or a `Sequence` of it if the noise was changed.

    Raises:
        InvalidArgument: no step was taken, the history is not that of this loader, or noise is missing.
        Unsupported: the batches follow no scheme, or noise or training changed within an epoch.
        WrongType: the engine has no history, or the loader is no DataLoader.
    """
    history = getattr(getattr(engine, "accountant", engine), "history", None)
    if not isinstance(history, list):
        raise WrongType(f"engine must be a PrivacyEngine of Opacus; got {short_repr(engine)}.")
    if not history:
        raise InvalidArgument("engine must have taken a step; got one with an empty history.")
    epoch: Any = scheme_of(loader, epochs=1, collate=collate, seed=seed)
    runs: list[Mechanism] = []
    for noise, rate, steps in history:
        if abs(rate * epoch.steps - 1.0) > ROUNDING:
            raise InvalidArgument(
                f"loader must be the one of the run, with a sample rate of {rate!r} in its history; got "
                f"one of {epoch.steps} batches. Did a step use several batches?"
            )
        if not isinstance(epoch, EpochScheme):
            scheme: Any = replace(epoch, steps=steps)
        elif steps % epoch.steps:
            raise Unsupported(
                f"a run over {epoch.label} must consist of whole epochs of {epoch.steps} steps at one "
                f"noise multiplier; got {steps} steps. Account for whole epochs, which cost no less."
            )
        else:
            epochs = steps // epoch.steps
            scheme = scheme_of(loader, epochs=epochs, collate=collate, seed=seed)
        runs.append(DPSGD(scheme, noise_multiplier=noise))
    return runs[0] if len(runs) == 1 else Sequence(runs)


def check_clips_alone(optimizer: Any) -> None:
    """Refuse an optimizer of Opacus on one process that does not clip and add noise by itself.

    Args:
        optimizer: An optimizer of Opacus.

    Raises:
        Unsupported: It clips elsewhere, or steps in another way.
    """
    _check_covered(optimizer, ALONE)
    _check_clips(optimizer)


def _check_covered(optimizer: Any, covered: tuple[type, ...]) -> None:
    if type(optimizer) not in covered:
        raise Unsupported(
            f"optimizer must be one of {', '.join(kind.__name__ for kind in covered)}; got "
            f"{type(optimizer).__name__}, whose steps are not those of the plan."
        )


def _check_clips(optimizer: Any) -> None:
    """Refuse ghost clipping by Opacus alone, which adds noise to gradients whether clipped or not."""
    if isinstance(optimizer, DPOptimizerFastGradientClipping):
        raise Unsupported(
            f"optimizer must clip the gradients that it sums up; got {type(optimizer).__name__} of "
            "Opacus' make_private, which cannot tell whether they were. Use that of sharpdp, whose loss "
            "can."
        )


class _CheckedLoss:
    """Opacus' loss for ghost clipping, and an optimizer that steps along what it clipped only.

    In this mode Opacus adds noise to whatever gradients it finds. They are clipped only if the last
    thing that touched them was one `backward` of this loss, with a norm for each example of this batch.
    """

    def __init__(self, loss: Any, optimizer: Any) -> None:
        self.loss, self.optimizer = loss, optimizer
        self._clipped: list[tuple[Any, int]] | None = None
        self._pre_step, optimizer.pre_step = optimizer.pre_step, self._checked_step

    def __call__(self, *arguments: Any, **options: Any) -> _GhostLoss:
        """The losses of single examples, whose `backward` clips."""
        return _GhostLoss(self, self.loss(*arguments, **options))

    def clip(self, losses: DPTensorFastGradientClipping) -> None:
        """Set the gradients to the clipped sum, and remember them."""
        each = losses.loss_per_sample
        if each.dim() != 1:
            raise InvalidArgument(
                "criterion must give one loss for each example, with reduction='none' a tensor of one "
                f"axis; got shape {tuple(each.shape)}, which Opacus would weigh with the clipping "
                "factors of other examples. Average over all axes but the first."
            )
        self._clipped = None
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in losses.module.trainable_parameters:
            parameter._norm_sample = None  # that of an earlier batch
        try:
            losses.backward()
        except (AttributeError, IndexError, TypeError) as fault:
            raise InvalidArgument(
                "every trainable parameter must have a gradient norm for each example; got none for "
                "some. Call module.train() before the loss is computed, and use the whole module."
            ) from fault
        norms = {len(parameter._norm_sample) for parameter in losses.module.trainable_parameters}
        if norms != {len(each)}:
            raise InvalidArgument(
                f"criterion must give one loss for each example; got {len(each)} losses and norms of "
                f"{', '.join(map(str, sorted(norms)))} gradients."
            )
        self._clipped = [(parameter.grad, parameter.grad._version) for parameter in trainable]

    def _checked_step(self, *arguments: Any) -> Any:
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        now = [
            (p.grad, -1 if p.grad is None else p.grad._version)
            for p in parameters
            if p.requires_grad
        ]
        clipped, self._clipped = self._clipped, None
        if clipped is None or not all(
            mine is found and version == seen
            for (mine, version), (found, seen) in zip(clipped, now, strict=True)
        ):
            raise InvalidArgument(
                "a step must follow one backward of the loss that make_private returned, and nothing may "
                "change the gradients in between; got other gradients, which are not clipped."
            )
        return self._pre_step(*arguments)


class _GhostLoss:
    """The losses of a batch; sums and multiples of them, which would not be clipped, do not exist."""

    def __init__(self, checked: _CheckedLoss, losses: DPTensorFastGradientClipping) -> None:
        self._checked, self._losses = checked, losses

    def backward(self) -> None:
        """Set the gradients to the sum of clipped ones."""
        self._checked.clip(self._losses)

    def item(self) -> float:
        """The loss of the batch, without noise."""
        return float(self._losses.item())

    def detach(self) -> Any:
        """The loss of the batch, without noise."""
        return self._losses.detach()


def _check_module(module: nn.Module, ranks: Ranks) -> None:
    """Refuse modules of which Opacus would not clip single examples, or add noise to once."""
    several_devices = (
        FSDPModule,
        FullyShardedDataParallel,
        nn.DataParallel,
        nn.parallel.DistributedDataParallel,
    )
    if isinstance(module, several_devices):
        raise Unsupported(
            f"module must not be wrapped; got {type(module).__name__}. On several processes use Opacus' "
            "DifferentiallyPrivateDistributedDataParallel."
        )
    if ranks.size > 1 and not isinstance(module, DifferentiallyPrivateDistributedDataParallel):
        raise Unsupported(
            f"module must be a DifferentiallyPrivateDistributedDataParallel of Opacus on {ranks.size} "
            f"processes; got {type(module).__name__}, of which each would train its own."
        )
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.dtype not in (torch.float32, torch.float64):
            raise Unsupported(
                f"parameters must be in single or double precision; got {name!r} of {parameter.dtype}, "
                "in which clipped gradients can be longer than the norm."
            )


def _seeded_by_the_system(module: nn.Module) -> Any:
    """A generator on the device of the parameters with a seed that nobody knows."""
    devices = {parameter.device for parameter in module.parameters()}
    if len(devices) != 1:
        raise Unsupported("module must be on one device; got parameters on several or none.")
    generator = torch.Generator(devices.pop())
    seed = secrets.randbits(63)
    generator.manual_seed(seed)
    if generator.device.type == "cpu":
        _draw_state(generator, seed)
    return generator


def _draw_state(generator: Any, seed: int) -> None:
    """Draw all 624 words of a Mersenne Twister: of a seed torch keeps 32 bits, which can be tried out."""
    state = generator.get_state().numpy()
    words = state[24 : 24 + 8 * 624].view(np.uint64)
    if words.size != 624 or words[0] != seed % 2**32:
        raise Unsupported(
            f"the state of torch's generator must be laid out as in torch 2; got torch "
            f"{torch.__version__}. Pass noise_generator=."
        )
    words[:] = np.frombuffer(secrets.token_bytes(4 * 624), dtype=np.uint32)
    generator.set_state(torch.from_numpy(state))


def _is_ours(loader: Any) -> bool:
    return isinstance(getattr(loader, "batch_sampler", None), BatchSampler)


def _same(plan: Any, other: Any) -> bool:
    """Whether two schemes draw the same batches, up to the rounding of a sample rate.

    What is accounted is the scheme that was found, so that rounding is not lost.
    """
    if type(plan) is not type(other):
        return False
    if isinstance(plan, PoissonBatches):
        apart = abs(plan.sample_rate - other.sample_rate)
        sizes = {plan.dataset_size, other.dataset_size} - {None}
        is_same_size = len(sizes) <= 1 and plan.steps == other.steps
        # what the comparison of single-precision floats adds to Opacus' sample rate at most
        return is_same_size and apart <= ROUNDING * plan.sample_rate + 2.0**-24
    if isinstance(plan, ShuffledBatches) and plan.dataset_size % plan.batch_size == 0:
        return bool(replace(plan, drop_last=other.drop_last) == other)
    return bool(plan == other)
