"""sharpdp's accounting inside Opacus: an accountant for the batch scheme that is really used.

    engine = PrivacyEngine()
    engine.accountant = SchemeAccountant(plan)
    loader = sharpdp.integrations.torch.loader(dataset, BatchSampler(plan))
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, poisson_sampling=False, ...
    )
    engine.get_epsilon(delta=1e-5)   # the certified upper side, for the batches of `plan`

Opacus tells an accountant only the noise multiplier and one over the length of the loader; which scheme
drew the batches is said here, once. Needs `pip install opacus`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opacus.accountants import IAccountant

from sharpdp._validate import count, fault, open_probability, probability, scale, shown
from sharpdp.account import Guarantee, account
from sharpdp.batches import BatchScheme
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import DPSGD
from sharpdp.mechanisms.noise import NO_NOISE

__all__ = ["SchemeAccountant"]

ENTRIES = 3
"""A noise multiplier, a sample rate and a number of steps, as Opacus keeps them."""


class SchemeAccountant(IAccountant):  # type: ignore[misc]  # Opacus has no types
    """Counts the optimizer's steps and accounts them as the first ones of a run over a batch scheme.

    `get_epsilon` is the certified upper side; `guarantee` has everything else. A change of the noise in
    the middle of a run, more steps than the scheme has, or batches that are added up before a step, are
    refused: no bound here covers them.

    Steps after the last saved state that are taken again after a crash use the same batches and fresh
    noise. If what they gave was seen, account for noise_multiplier / sqrt(2) instead.
    """

    history: list[tuple[float, float, int]]

    def __init__(self, scheme: BatchScheme) -> None:
        """Nothing is run yet."""
        super().__init__()
        if isinstance(scheme, type) or not isinstance(scheme, BatchScheme):
            raise WrongType(f"scheme must be a batch scheme; got {shown(scheme)}.")
        self.scheme = scheme

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What the optimizer calls at each step; batches that were added up before it are refused."""

        def hook(optimizer: Any) -> None:
            together = optimizer.accumulated_iterations
            if together != 1:
                raise InvalidArgument(
                    f"a step must use one batch of the scheme; got {together} batches, in which a record "
                    "may come more than once. Use BatchMemoryManager for large batches."
                )
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)

        return hook

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step; the sample rate, which the scheme knows better, is only checked to be one."""
        given = scale(noise_multiplier=noise_multiplier, hint=NO_NOISE)
        rate = probability(sample_rate=sample_rate, hint="It is one over the length of the loader.")
        noise, _, steps = self.history[-1] if self.history else (given, 0.0, 0)
        if noise != given:
            raise InvalidArgument(
                f"noise_multiplier must stay {noise!r} during a run; got {given!r}. "
                "Plan one run for each noise multiplier, and add their mechanisms."
            )
        if steps >= self.scheme.steps:
            raise InvalidArgument(
                f"steps must be at most the {self.scheme.steps} of the scheme; got one more. "
                "Plan a longer run: its privacy is that of the whole."
            )
        self.history = [(noise, rate, steps + 1)]

    def state_dict(self, destination: Any = None) -> Any:
        """Opacus' state, with the scheme that it belongs to."""
        state = super().state_dict(destination)
        state["scheme"] = self.scheme.describe()
        return state

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from a state of a run over the same scheme."""
        if not isinstance(state_dict, Mapping) or "history" not in state_dict:
            raise WrongType(f"state_dict must be one of this accountant; got {shown(state_dict)}.")
        told = (state_dict.get("mechanism"), state_dict.get("scheme"))
        if told != (self.mechanism(), self.scheme.describe()):
            raise InvalidArgument(
                f"state_dict must come from a run over {self.scheme.describe()}; "
                f"got one over {shown(told[1])}."
            )
        self.history = self._checked(state_dict["history"])

    def _checked(self, history: object) -> list[tuple[float, float, int]]:
        """A history of this accountant: none, or one noise multiplier, a rate and a number of steps."""
        if not isinstance(history, list | tuple) or len(history) > 1:
            raise WrongType(f"history must be a list of at most one entry; got {shown(history)}.")
        for entry in history:
            if not isinstance(entry, list | tuple) or len(entry) != ENTRIES:
                raise WrongType(f"history must hold three numbers; got {shown(entry)}.")
            noise, rate, steps = entry
            taken = count(history=steps)
            if taken > self.scheme.steps:
                raise fault("history", f"at most {self.scheme.steps} steps", taken)
            return [(scale(noise_multiplier=noise), probability(sample_rate=rate), taken)]
        return []

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of the steps taken so far, at least one."""
        if not self.history:
            raise InvalidArgument("no step was taken yet, so that nothing is known of the data.")
        noise, _, steps = self.history[-1]
        return account(DPSGD(self.scheme, noise_multiplier=noise).stopped_after(steps))

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """The upper side of epsilon at delta; 0 before the first step."""
        open_probability(delta=delta)
        return float(self.guarantee.epsilon(delta=delta).upper) if self.history else 0.0

    def __len__(self) -> int:
        """How many steps were taken."""
        return self.history[-1][2] if self.history else 0

    @classmethod
    def mechanism(cls) -> str:
        """The name in Opacus' state."""
        return "sharpdp"
