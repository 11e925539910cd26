"""Several queries on the same batches of one run, such as gradients and a count for adaptive clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from sharpdp._validate import SMALLEST_SCALE, has_entries, short_repr
from sharpdp.batches.scheme import BatchScheme
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import Adjacency, Mechanism, Parts
from sharpdp.mechanisms.training import DPSGD, BatchQueries

__all__ = ["SameBatches"]

CHOSEN_BEFORE = (
    "the queries on one batch are all chosen before any result on that batch is seen, and their noise is "
    "drawn independently"
)
"""What joins the queries of a step into one."""


@dataclass(frozen=True)
class SameBatches(Mechanism):
    """Several queries on the same batches of one run, each with its own noise.

    ``a + b`` stands for two runs that draw their batches independently. If both see the same batches,
    the results of one tell something about the batches of the other, and the two together are less
    private. They are one query with the results of all of them as its coordinates. Divided by their
    noise, these coordinates have a joint norm of at most the root of the sum of 1 / noise_multiplier^2,
    so that the whole is DP-SGD over the same batches with the noise multiplier

        (noise_1^-2 + ... + noise_k^-2)^(-1/2)

    and conversely: released with the same vectors, the queries are that run, seen k times. This holds for
    every batch scheme and every notion of neighbors (proof in docs/proofs/scheme-proofs.md). A query
    that is made in some of the steps only counts as made in all of them. Adaptive clipping
    (andrew2021) is two queries: the gradients, and how many of them are clipped.

    Args:
        queries: at least one `DPSGD` or `BatchQueries`, all over the same batch scheme. For a query whose
            values have an l2 norm of at most S, the noise multiplier is the standard deviation over S.

    Raises:
        InvalidArgument: the list is empty, two schemes differ, or the joint noise multiplier is below
            1e-30.
        WrongType: ``queries`` is not a list, or an entry is neither of these.

    >>> from sharpdp.batches import PoissonBatches
    >>> plan = PoissonBatches(sample_rate=0.01, steps=1000)
    >>> both = SameBatches(
    ...     [DPSGD(plan, noise_multiplier=3.0), BatchQueries(plan, noise_multiplier=4.0)]
    ... )
    >>> both.noise_multiplier
    2.4
    """

    queries: tuple[BatchQueries, ...]
    _equivalent: DPSGD = field(repr=False, compare=False)

    def __init__(self, queries: Iterable[BatchQueries]) -> None:
        """Check that all queries are Gaussian ones over the same scheme."""
        if isinstance(queries, Mechanism) or not has_entries(queries):
            raise WrongType(
                f"queries must be a list of DPSGD or BatchQueries; got {short_repr(queries)}. "
                "Use SameBatches([a, b])."
            )
        every = tuple(queries)
        if not every:
            raise InvalidArgument(
                "queries must be a list of at least one DPSGD or BatchQueries; got an empty one."
            )
        for index, query in enumerate(every):
            self._check(index, query, every[0])
        noise = _joint_noise([query.noise_multiplier for query in every])
        if 0.0 < noise < SMALLEST_SCALE:
            raise InvalidArgument(
                f"queries must have a joint noise multiplier of at least {SMALLEST_SCALE:g}; got "
                f"{noise:g}."
            )
        object.__setattr__(self, "queries", every)
        object.__setattr__(self, "_equivalent", DPSGD(every[0].batches, noise_multiplier=noise))

    @staticmethod
    def _check(index: int, query: object, first: BatchQueries) -> None:
        if type(query) not in (BatchQueries, DPSGD):
            got = query.describe() if isinstance(query, Mechanism) else short_repr(query)
            raise WrongType(
                f"queries[{index}] must be DPSGD or BatchQueries, whose noise is Gaussian, and new in "
                f"every step; got {got}. No theorem here is about the same batches of other mechanisms: "
                "run them on batches of their own, and use a + b."
            )
        assert isinstance(query, BatchQueries)
        if query.batches != first.batches:
            raise InvalidArgument(
                f"queries[{index}] must have the batches of the others, {first.batches.describe()}; got "
                f"{query.batches.describe()}. For runs that draw batches independently use a + b."
            )

    @property
    def equivalent(self) -> DPSGD:
        """The DP-SGD run that is equally private."""
        return self._equivalent

    @property
    def batches(self) -> BatchScheme:
        """The batch scheme that all queries follow."""
        return self._equivalent.batches

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier of DP-SGD that is equally private, rounded down to a double."""
        return self._equivalent.noise_multiplier

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies of the batch scheme."""
        return self._equivalent.adjacencies

    @property
    def uses_records(self) -> bool:
        """Whether a record may enter a batch."""
        return self._equivalent.uses_records

    @property
    def adds_noise(self) -> bool:
        """Whether every query has noise."""
        return self._equivalent.adds_noise

    @property
    def label(self) -> str:
        """The label of the batch scheme."""
        return self._equivalent.label

    @property
    def holds_when(self) -> tuple[str, ...]:
        """That the queries on a batch do not depend on each other's results."""
        joined = (CHOSEN_BEFORE,) if len(self.queries) > 1 else ()
        return (*joined, *self._equivalent.holds_when)

    def describe(self) -> str:
        """The noise of each query, and the batches, in one line."""
        listed = ", ".join(f"{query.noise_multiplier:.12g}" for query in self.queries)
        many = "query" if len(self.queries) == 1 else f"{len(self.queries)} queries"
        return f"{many} on the same batches (noise multipliers {listed}; {self.batches.describe()})"

    def stopped_after(self, steps: int) -> SameBatches:
        """The queries ended after ``steps`` steps, or at the end of the epoch that they reach.

        Args:
            steps: number of batches that were used; 0 to ``batches.steps``.

        Returns:
            The same queries over a shorter scheme.

        Raises:
            InvalidArgument: ``steps`` is below 0, or above the number of steps of the scheme.
            WrongType: ``steps`` is not a number.
        """
        return SameBatches([query.stopped_after(steps) for query in self.queries])

    def parts(self) -> Parts:
        """The DP-SGD run that is equally private."""
        return self._equivalent.parts()

    def pieces(self) -> Parts:
        """These queries, once."""
        return ((self, 1),)


def _joint_noise(noises: list[float]) -> float:
    """The largest double that is not above (sum of noise^-2)^(-1/2); 0 if one of them is.

    >>> _joint_noise([1.5]), _joint_noise([3.0, 4.0]), _joint_noise([3.0, 0.0])
    (1.5, 2.4, 0.0)
    """
    if 0.0 in noises:
        return 0.0
    exact = 1 / sum((1 / Fraction(noise) ** 2 for noise in noises), Fraction(0))
    noise = 1.0 / math.hypot(*(1.0 / noise for noise in noises))
    while Fraction(noise) ** 2 <= exact:
        noise = math.nextafter(noise, math.inf)
    while Fraction(noise) ** 2 > exact:
        noise = math.nextafter(noise, 0.0)
    return noise
