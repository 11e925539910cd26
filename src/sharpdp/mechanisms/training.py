"""Training runs: DP-SGD over a batch scheme."""

from dataclasses import dataclass, field

from sharpdp._validate import scale, shown
from sharpdp.batches import BatchScheme, DeterministicBatches, PoissonBatches
from sharpdp.errors import WrongType
from sharpdp.mechanisms.adjacency import Adjacency
from sharpdp.mechanisms.composed import Mechanism
from sharpdp.mechanisms.noise import NO_NOISE

__all__ = ["DPSGD"]

ADJACENCIES: dict[type, tuple[Adjacency, ...]] = {
    PoissonBatches: (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    DeterministicBatches: (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
}
"""The notions of neighbouring data sets for each scheme, the default first."""


@dataclass(frozen=True)
class DPSGD(Mechanism):
    """Stochastic gradient descent with clipped per-example gradients and Gaussian noise.

    In each step the gradients of the batch are clipped to l2 norm at most C and summed, and to
    the sum is added Gaussian noise of standard deviation noise_multiplier * C per coordinate.
    Everything later (dividing by a fixed number, momentum, the learning rate) is free.

    With noise added to the mean of a batch of size B instead, the standard deviation is
    noise_multiplier * C / B. Per-step noise is independent. The value of C cancels.

    The neighbours: over Poisson batches add/remove (default) or zero-out; over deterministic
    batches zero-out (default), add/remove if all other records keep their batches, or
    replace-one, which doubles the sensitivity.

    >>> plan = DeterministicBatches(dataset_size=100, batch_size=10, epochs=3)
    >>> DPSGD(plan, noise_multiplier=1).adjacency()
    <Adjacency.ZERO_OUT: 'zero-out'>
    """

    batches: BatchScheme
    noise_multiplier: float = field(kw_only=True)

    def __post_init__(self) -> None:
        """Check both fields."""
        if isinstance(self.batches, type) or not isinstance(self.batches, BatchScheme):
            raise WrongType(
                f"batches must be a batch scheme; got {shown(self.batches)}. "
                "Try PoissonBatches(sample_rate=..., steps=...)."
            )
        clean = scale(noise_multiplier=self.noise_multiplier, hint=NO_NOISE)
        object.__setattr__(self, "noise_multiplier", clean)

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Those of the batch scheme."""
        return ADJACENCIES.get(type(self.batches), (Adjacency.ZERO_OUT,))

    @property
    def label(self) -> str:
        """The label of the batch scheme, on which the answer depends most."""
        return self.batches.label

    def describe(self) -> str:
        """The mechanism in one line."""
        multiplier = f"noise multiplier {self.noise_multiplier:.12g}"
        return f"DP-SGD ({multiplier}, {self.batches.describe()})"
