"""Training with correlated noise, as DP-FTRL adds it: the matrix mechanism over batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sharpdp._validate import HintedKeywords, count, invalid, short_repr
from sharpdp.batches.cyclic import CyclicPoissonBatches
from sharpdp.batches.partitioned import DeterministicBatches, ShuffledBatches
from sharpdp.batches.random_allocation import BallsAndBins
from sharpdp.batches.scheme import WHOLE, BatchScheme, Indices, Randomness, Shard, pluralize
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import Adjacency, Parts
from sharpdp.mechanisms.strategies import Strategy
from sharpdp.mechanisms.training import BatchQueries, check_one_order

__all__ = ["CorrelatedNoise", "MinSeparation"]


@dataclass(frozen=True, kw_only=True)
class MinSeparation(HintedKeywords):
    """A stated property of batches that are drawn elsewhere: a minimum separation between two uses.

    Every example is in at most ``participations`` batches, with at least ``separation - 1`` other batches
    between two of them; which ones is fixed without looking at the records, or follows from released
    numbers. An example is federated learning with timers on the devices. It draws no batches.

    Args:
        steps: number of batches in the run, at least 1.
        separation: the least distance between two steps that use the same example, at least 1.
        participations: the most steps that an example is in; by default (None) as many as fit.

    Raises:
        InvalidArgument: a number is out of range.
        WrongType: a number is none.

    >>> MinSeparation(steps=2000, separation=100).participations
    20
    """

    steps: int
    separation: int
    participations: int | None = None

    label = "separated participation"
    dataset_size = None
    expected_batch_size = None

    def __post_init__(self) -> None:
        """Check the numbers; there are no more participations than fit."""
        steps = count(steps=self.steps, hint="It counts batches.")
        separation = count(separation=self.separation, hint="1 allows two batches in a row.")
        most = -(-steps // separation)
        if self.participations is not None:
            most = min(most, count(participations=self.participations))
        for name, value in (
            ("steps", steps),
            ("separation", separation),
            ("participations", most),
        ):
            object.__setattr__(self, name, value)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        uses = pluralize(self.participations or 0, "batch", "batches")
        return (
            f"An example is in at most {uses}, at least {self.separation:,} steps apart.",
            "When it is used is no secret.",
        )

    def describe(self) -> str:
        """The property in one line.

        >>> MinSeparation(steps=2000, separation=100).describe()
        'separated participation: 2,000 steps, at most 20 of them with an example, at least 100 apart'
        """
        return (
            f"{self.label}: {pluralize(self.steps, 'step')}, at most {self.participations:,} of them "
            f"with an example, at least {self.separation:,} apart"
        )

    def batches(
        self, rng: Randomness = None, *, start: int = 0, shard: Shard = WHOLE
    ) -> Iterator[Indices]:
        """None: the batches come from elsewhere; see `BatchScheme.batches` for the arguments."""
        raise InvalidArgument(
            "MinSeparation draws no batches: it states a property of those that you draw. "
            "DeterministicBatches keep it, with separation = steps_per_epoch."
        )


if TYPE_CHECKING:
    from sharpdp.mechanisms.training import Scheme as Positions
else:  # what plans may hold is read from the bound
    Positions = TypeVar("Positions", bound=BatchScheme | MinSeparation, covariant=True)


@dataclass(frozen=True)
class CorrelatedNoise(BatchQueries[Positions]):
    """DP-SGD whose noise is correlated over steps by a strategy matrix: DP-FTRL, the matrix mechanism.

    In each step, the gradients of the batch are clipped to l2 norm at most ``clip`` and summed: x_t. The
    step releases x_t + noise_multiplier * clip * (C^-1 z)_t, where the z_t are independent standard
    normal vectors and C is the lower-triangular ``strategy``. Later noise thus cancels part of the
    earlier noise, and sums over many steps are more accurate than with independent noise. Up to a linear
    map, this is the same as releasing C x + noise_multiplier * clip * z.

    The batch scheme determines when an example may take part, and the same object draws the batches. It
    replaces a separate description of participation patterns:

    - `DeterministicBatches`: single participation, or in the same position of each epoch;
    - `MinSeparation`: at most k times, at least b steps apart;
    - `CyclicPoissonBatches`: sampled in every b-th step, an amplification if C has at most b bands;
    - `BallsAndBins` with kept bins: in a random position, the same in each epoch;
    - `ShuffledBatches`, and `BallsAndBins` with redrawn bins: once in each epoch, no amplification known.

    The noise multiplier is not divided by the norms of the columns of C: doubling the strategy halves the
    noise.

    Args:
        batches: the batch scheme that the run follows, one of these.
        strategy: the matrix C; a `BandedStrategy`, a `BufferedLinearToeplitz` or a `MatrixStrategy` of
            at least as many rows as there are steps.
        noise_multiplier: standard deviation of z's entries in units of the clipping norm; 1e-30 to 1e30.

    Raises:
        InvalidArgument: the batches are none of these, the strategy has too few rows, or the noise
            multiplier is out of range.
        WrongType: ``batches`` is not a batch scheme, ``strategy`` not a strategy, or ``noise_multiplier``
            not a number.

    >>> from sharpdp.mechanisms.strategies import BandedStrategy
    >>> plan = DeterministicBatches(dataset_size=1000, batch_size=100, epochs=2)
    >>> strategy = BandedStrategy(coefficients=(1.0, 0.5, 0.375))
    >>> CorrelatedNoise(plan, strategy=strategy, noise_multiplier=4.0).label
    'correlated noise, deterministic batches'
    """

    batches: Positions
    strategy: Strategy = field(kw_only=True)

    def __post_init__(self) -> None:
        """Check that the strategy fits the batches."""
        super().__post_init__()
        if not isinstance(self.strategy, Strategy):
            raise WrongType(
                f"strategy must be a strategy matrix; got {short_repr(self.strategy)}. "
                "Try BandedStrategy(coefficients=(1.0, 0.5))."
            )
        if not isinstance(self.batches, KNOWN):
            names = ", ".join(kind.__name__ for kind in KNOWN)
            raise InvalidArgument(
                f"batches must be one of {names} under correlated noise; got "
                f"{short_repr(self.batches)}. For Poisson sampling take CyclicPoissonBatches with "
                "cycle_length equal to the number of bands."
            )
        check_one_order(
            self.batches, "ShuffledBatches cover orders that are drawn anew, known or not."
        )
        most = self.strategy.most_steps
        if most is not None and most < self.batches.steps:
            raise invalid(
                "strategy", f"a matrix of at least {self.batches.steps} rows, one a step", most
            )

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies of the batch scheme."""
        if isinstance(self.batches, MinSeparation):
            return (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
        return super().adjacencies

    @property
    def _draws(self) -> tuple[str, ...]:
        return () if isinstance(self.batches, MinSeparation) else super()._draws

    @property
    def label(self) -> str:
        """The noise, over which batches."""
        return f"correlated noise, {self.batches.label}"

    def describe(self) -> str:
        """The mechanism in one line."""
        return (
            f"correlated noise (noise multiplier {self.noise_multiplier:.12g}, "
            f"{self.strategy.describe()}, {self.batches.describe()})"
        )

    def parts(self) -> Parts:
        """This run, once."""
        return ((self, 1),)

    def _kind(self) -> str:
        return "correlated noise"


KNOWN: tuple[type[BatchScheme], ...] = (
    DeterministicBatches,
    ShuffledBatches,
    BallsAndBins,
    CyclicPoissonBatches,
    MinSeparation,
)
"""The schemes of which it is known when an example takes part."""
