"""Training runs: adaptive queries on batches, and DP-SGD, over a batch scheme."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sharpdp._validate import count, invalid, short_repr, zero_or_scale
from sharpdp.batches.buffered import BufferedShuffle
from sharpdp.batches.cyclic import CyclicPoissonBatches
from sharpdp.batches.independent import FixedSizeBatches, PoissonBatches
from sharpdp.batches.partitioned import DeterministicBatches, ShuffledBatches
from sharpdp.batches.random_allocation import BallsAndBins, RandomAllocation
from sharpdp.batches.scheme import BatchScheme, EpochScheme
from sharpdp.batches.truncated import TruncatedPoissonBatches
from sharpdp.batches.weighted import WeightedPoissonBatches
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import NO_LESS_NOISE, Adjacency, Mechanism, Parts

__all__ = [
    "ADJACENCIES",
    "DPSGD",
    "BatchQueries",
    "Scheme",
    "check_one_order",
    "check_trains",
    "known_seed",
]

ADJACENCIES: dict[type, tuple[Adjacency, ...]] = {
    PoissonBatches: (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    CyclicPoissonBatches: (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    WeightedPoissonBatches: (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    TruncatedPoissonBatches: (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    FixedSizeBatches: (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    DeterministicBatches: (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    ShuffledBatches: (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    BufferedShuffle: (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    BallsAndBins: (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    RandomAllocation: (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
}
"""The notions of neighboring data sets for each scheme, the default first.

Zero-out makes sense for every scheme: a null record is drawn like any other and contributes
nothing. Add/remove needs batches of the other records that do not depend on the record: so it is
where every example is drawn by itself (Poisson, balls-and-bins, random allocation), and where a rare
event is all that depends on it (truncated Poisson); an order or a subset of fixed size of one example
less is another draw altogether. Replace-one is where both values are drawn alike, by a theorem of its own
or through a null record.

Add/remove is no default where the scheme is given by its `dataset_size`: sample rate, steps or divisor
then follow from the number of records, which differs between such neighbors. It can still be asked
for, and holds if these numbers are constants that were chosen without looking at the data."""


Queries = TypeVar("Queries", bound="BatchQueries")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVariable

    Scheme = TypeVariable("Scheme", bound=BatchScheme, default=BatchScheme, covariant=True)
else:
    Scheme = TypeVar("Scheme", bound=BatchScheme, covariant=True)


def known_seed(scheme: object) -> int | None:
    """The seed from which the orders of deterministic batches followed; None for all other batches."""
    return scheme.seed if isinstance(scheme, DeterministicBatches) else None


def check_one_order(scheme: object, hint: str) -> None:
    """Refuse deterministic batches whose order may change between epochs."""
    seed = known_seed(scheme)
    if seed is not None:
        raise InvalidArgument(
            "batches must be in the same order in every epoch here; got orders that follow from seed "
            f"{seed}. {hint}"
        )


@dataclass(frozen=True)
class BatchQueries(Mechanism, Generic[Scheme]):
    """Adaptive linear queries on batches: each step releases a noisy sum over the batch of the step.

    In each step, a function of one record, with values of l2 norm at most 1, is chosen after seeing
    all earlier results. Its sum over the batch is released with Gaussian noise of standard deviation
    ``noise_multiplier`` per coordinate. The members of a batch are not released.

    DP-SGD is the special case in which the queries are clipped gradients divided by the clipping norm;
    conversely, every query is the gradient of some (linear) loss. So the two are equally private, and
    `parts` are the same as for DP-SGD.

    The batch scheme determines the adjacencies: zero-out and replace-one for every scheme, and add/remove
    where every example is sampled independently. Add/remove is the default over Poisson batches without
    a ``dataset_size``, zero-out over all others.

    Args:
        batches: the batch scheme that the run follows.
        noise_multiplier: the standard deviation of the noise per coordinate, for queries of l2 norm at
            most 1; 1e-30 to 1e30, or 0 for no noise, which reveals the records that enter batches.

    Raises:
        InvalidArgument: the noise multiplier is out of range.
        WrongType: ``batches`` is not a batch scheme, or ``noise_multiplier`` is not a number.

    >>> plan = DeterministicBatches(dataset_size=100, batch_size=10, epochs=3)
    >>> BatchQueries(plan, noise_multiplier=1).parts() == DPSGD(plan, noise_multiplier=1).parts()
    True
    """

    batches: Scheme
    noise_multiplier: float = field(kw_only=True)

    def __post_init__(self) -> None:
        """Check both fields."""
        untyped: object = self.batches
        if isinstance(untyped, type) or not isinstance(untyped, BatchScheme):
            raise WrongType(
                f"batches must be a batch scheme; got {short_repr(untyped)}. "
                "Try PoissonBatches(sample_rate=..., steps=...)."
            )
        clean = zero_or_scale(noise_multiplier=self.noise_multiplier, hint=NO_LESS_NOISE)
        object.__setattr__(self, "noise_multiplier", clean)

    @property
    def uses_records(self) -> bool:
        """Whether there are steps, and batches that may hold a record."""
        return self.batches.steps > 0 and getattr(self.batches, "sample_rate", 1.0) > 0.0

    @property
    def adds_noise(self) -> bool:
        """Whether the noise multiplier is above 0."""
        return self.noise_multiplier > 0.0

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies of the batch scheme; zero-out first if it knows its dataset_size.

        >>> sized = PoissonBatches(dataset_size=100, batch_size=1, steps=10)
        >>> [str(one) for one in DPSGD(sized, noise_multiplier=1.0).adjacencies]
        ['zero-out', 'add/remove', 'replace-one']
        """
        adjacencies = ADJACENCIES.get(type(self.batches), (Adjacency.ZERO_OUT,))
        if known_seed(self.batches) is not None:  # one record fewer is another order of all others
            adjacencies = tuple(item for item in adjacencies if item is not Adjacency.ADD_REMOVE)
        if self.batches.dataset_size is None:
            return adjacencies
        return tuple(sorted(adjacencies, key=lambda adjacency: adjacency is not Adjacency.ZERO_OUT))

    @property
    def _group_adjacencies(self) -> tuple[Adjacency, ...]:
        """Without add/remove over cut Poisson batches.

        The bounds on these are about one number of records, and a group that is added or removed passes
        through many: there zero-out and replace-one are left.
        """
        if not isinstance(self.batches, TruncatedPoissonBatches):
            return self.adjacencies
        return tuple(item for item in self.adjacencies if item is not Adjacency.ADD_REMOVE)

    @property
    def holds_when(self) -> tuple[str, ...]:
        """That noise is not known where the seed of the batches is.

        >>> plan = DeterministicBatches(dataset_size=9, batch_size=3, epochs=1, seed=42)
        >>> DPSGD(plan, noise_multiplier=1.0).holds_when
        ('noise does not follow from seed 42, from which the order of the batches follows and which
          counts as known',)
        """
        seed = known_seed(self.batches)
        if seed is None:
            return ()
        return (
            f"noise does not follow from seed {seed}, from which the order of the batches follows and "
            "which counts as known",
        )

    @property
    def label(self) -> str:
        """The label of the batch scheme, on which the answer depends most."""
        return self.batches.label

    def describe(self) -> str:
        """The mechanism in one line."""
        multiplier = f"noise multiplier {self.noise_multiplier:.12g}"
        return f"{self._kind()} ({multiplier}, {self.batches.describe()})"

    def stopped_after(self: Queries, steps: int) -> Queries:
        """The run ended after ``steps`` steps, or at the end of the epoch that they reach.

        The batches of an epoch are drawn together, so part of an epoch is not a scheme. What
        the whole epoch would have released covers what its first steps did.

        The number of steps is one that was fixed in advance. If results decided it, see
        `sharpdp.budget.ex_post_epsilon`.

        Args:
            steps: number of batches that were used; 0 to ``batches.steps``.

        Returns:
            The same mechanism over a shorter scheme.

        Raises:
            InvalidArgument: ``steps`` is negative, or above the number of steps of the scheme.
            WrongType: ``steps`` is not a number.

        >>> plan = DeterministicBatches(dataset_size=10, batch_size=2, epochs=7)
        >>> DPSGD(plan, noise_multiplier=1.0).stopped_after(6).batches.epochs
        2
        """
        limit = self.batches.steps
        taken = count(least=0, steps=steps, hint="It counts the batches that were used.")
        if taken > limit:
            raise invalid("steps", f"at most the {limit} of the scheme", taken)
        plan: Any = self.batches
        in_epochs = isinstance(self.batches, EpochScheme)
        shorter = (
            {"epochs": -(-taken * plan.epochs // max(limit, 1))} if in_epochs else {"steps": taken}
        )
        return replace(self, batches=replace(plan, **shorter))

    @property
    def _draws(self) -> tuple[str, ...]:
        return () if isinstance(self.batches, DeterministicBatches) else ("their batches",)

    def pieces(self) -> Parts:
        """This run, once."""
        return ((self, 1),)

    def parts(self) -> Parts:
        """The DP-SGD run that is equally private."""
        return ((DPSGD(self.batches, noise_multiplier=self.noise_multiplier), 1),)

    def _kind(self) -> str:
        return "adaptive queries on batches"


@dataclass(frozen=True)
class DPSGD(BatchQueries[Scheme]):
    """Stochastic gradient descent with clipped per-example gradients and Gaussian noise.

    In each step the gradients of the batch are clipped to l2 norm at most C and summed, and to
    the sum is added Gaussian noise of standard deviation noise_multiplier * C per coordinate.
    Post-processing (dividing by a fixed number, momentum, the learning rate) costs no extra privacy.

    With noise added to the mean of a batch of size B instead, the standard deviation is
    noise_multiplier * C / B. Per-step noise is independent. The value of C cancels.

    Adjacencies: over Poisson batches without a ``dataset_size``, add/remove (default) or zero-out; over
    all other schemes, zero-out (default), because the number of records determines the sample rate, the
    steps or the divisor and is then public. Poisson batches with a ``dataset_size``, balls-and-bins,
    random allocation and truncated Poisson batches also support add/remove, if these numbers are chosen
    without looking at the data, and so do deterministic batches if all other records keep their batches.
    Replace-one is supported by all of these: by the pair of opposite gradients over Poisson, truncated,
    deterministic and fixed-size batches, and through a null record over the others.

    Args:
        batches: the batch scheme that the run follows.
        noise_multiplier: the standard deviation of the noise on the sum, per coordinate and in units of
            C; 1e-30 to 1e30, or 0 for no noise, which reveals the records that enter batches.

    Raises:
        InvalidArgument: the noise multiplier is out of range.
        WrongType: ``batches`` is not a batch scheme, or ``noise_multiplier`` is not a number.

    >>> plan = DeterministicBatches(dataset_size=100, batch_size=10, epochs=3)
    >>> DPSGD(plan, noise_multiplier=1).adjacency()
    <Adjacency.ZERO_OUT: 'zero-out'>
    """

    def parts(self) -> Parts:
        """This run, once."""
        return ((self, 1),)

    def _kind(self) -> str:
        return "DP-SGD"


def check_trains(**argument: BatchQueries) -> None:
    """An error for a run without noise, steps or records: it is accounted for, and not made here."""
    ((name, run),) = argument.items()
    if run.degenerate:
        raise InvalidArgument(
            f"{name} must have noise, and steps with records, to be trained; got {run.describe()}. "
            "account(...) answers for it; training without privacy needs no sharpdp."
        )
