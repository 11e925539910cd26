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

from typing import Any

from opacus.accountants import IAccountant

from sharpdp._validate import shown
from sharpdp.account import Guarantee, account
from sharpdp.batches import BatchScheme
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import DPSGD

__all__ = ["SchemeAccountant"]


class SchemeAccountant(IAccountant):  # type: ignore[misc]  # Opacus has no types
    """Counts the optimizer's steps and accounts them as the first ones of a run over a batch scheme.

    `get_epsilon` is the certified upper side; `guarantee` has everything else. A change of the noise in
    the middle of a run, or more steps than the scheme has, is refused: no bound here covers it.
    """

    history: list[tuple[float, float, int]]

    def __init__(self, scheme: BatchScheme) -> None:
        """Nothing is run yet."""
        super().__init__()
        if isinstance(scheme, type) or not isinstance(scheme, BatchScheme):
            raise WrongType(f"scheme must be a batch scheme; got {shown(scheme)}.")
        self.scheme = scheme

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step."""
        noise, _, steps = self.history[-1] if self.history else (noise_multiplier, 0.0, 0)
        if noise != noise_multiplier:
            raise InvalidArgument(
                f"noise_multiplier must stay {noise!r} during a run; got {noise_multiplier!r}. "
                "Plan one run for each noise multiplier, and add their mechanisms."
            )
        if steps >= self.scheme.steps:
            raise InvalidArgument(
                f"steps must be at most the {self.scheme.steps} of the scheme; got one more. "
                "Plan a longer run: its privacy is that of the whole."
            )
        self.history = [(noise, sample_rate, steps + 1)]

    def state_dict(self, destination: Any = None) -> Any:
        """Opacus' state, with the scheme that it belongs to."""
        state = super().state_dict(destination)
        state["scheme"] = self.scheme.describe()
        return state

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from a state of a run over the same scheme."""
        if state_dict and state_dict.get("scheme") != self.scheme.describe():
            raise InvalidArgument(
                f"state_dict must come from a run over {self.scheme.describe()}; "
                f"got one over {state_dict.get('scheme')}."
            )
        super().load_state_dict(state_dict)

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of the steps taken so far, at least one."""
        if not self.history:
            raise InvalidArgument("no step was taken yet, so that nothing is known of the data.")
        noise, _, steps = self.history[-1]
        return account(DPSGD(self.scheme, noise_multiplier=noise).stopped_after(steps))

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """The upper side of epsilon at delta; 0 before the first step."""
        return float(self.guarantee.epsilon(delta=delta).upper) if self.history else 0.0

    def __len__(self) -> int:
        """How many steps were taken."""
        return self.history[-1][2] if self.history else 0

    @classmethod
    def mechanism(cls) -> str:
        """The name in Opacus' state."""
        return "sharpdp"
