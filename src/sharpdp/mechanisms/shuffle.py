"""The shuffle model: reports of local randomizers, or steps on blocks of records, in a random order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sharpdp._validate import count, has_entries, invalid, real, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import Adjacency, Mechanism, Parts
from sharpdp.mechanisms.elementary import ApproximateDP, FinitePair, Gaussian, PureDP
from sharpdp.mechanisms.local import (
    BlanketRandomizer,
    DiscreteRandomizer,
    LocalGaussian,
    LocalLaplace,
    RandomizedResponse,
)
from sharpdp.mechanisms.privacy_loss import PrivacyLoss

__all__ = ["ApproximateReports", "SampledReports", "ShuffledBlocks", "ShuffledReports"]

LARGEST_LOCAL_EPSILON = 30.0
"""Beyond this a report is as good as the record itself, and e^local_epsilon drowns everything else."""

SMALLEST_LOCAL_EPSILON = 1e-6
"""Below this a randomizer is as good as silent, and its losses drown in rounding."""

MOST_USERS = 10**12
"""Counts up to here are told apart in double precision with room to spare."""


LEAST_NOISE, MOST_NOISE = 0.2, 1e4
"""Noise multipliers of Gaussian reports that are told apart from no noise, and from nothing but noise."""

PureRandomizer = RandomizedResponse | LocalLaplace | DiscreteRandomizer | BlanketRandomizer
"""Randomizers with a finite local epsilon of which more is known than that."""

LocalProfile = Gaussian | ApproximateDP | FinitePair | PrivacyLoss
"""Mechanisms that stand for any randomizer whose reports are no easier to tell apart."""

ApproximateRandomizer = LocalGaussian | LocalProfile
"""Randomizers without a finite local epsilon."""

LocalRandomizer = PureRandomizer | ApproximateRandomizer
"""Randomizers of which more is known than their budget."""


@dataclass(frozen=True, kw_only=True)
class ShuffledReports(Mechanism):
    """``users`` people send one report each through a local randomizer; only the mixed reports are seen.

    - ``randomizer="shared"``: all users of a round run the same local_epsilon-LDP randomizer,
      whatever it is. It may be another one in the next round, chosen after seeing this one.
    - ``randomizer="individual"``: the records are mixed first; the i-th of them is then reported by
      the i-th randomizer, each local_epsilon-LDP, chosen after seeing the earlier reports. The
      randomizer must not reveal who sent a report: shuffling reports does not hide users who apply their
      own randomizers to unshuffled records.
    - ``randomizer=RandomizedResponse(...)``, ``LocalLaplace(...)`` or ``DiscreteRandomizer(...)``: all
      users run this one, and ``local_epsilon`` is its own.
    - ``randomizer=BlanketRandomizer(...)``: all users run the same randomizer, of which a part is known
      that does not depend on the record.
    - ``randomizer=LocalGaussian(...)``: all users report a value of an interval with this noise.
    - ``randomizer=Gaussian(...)``, ``ApproximateDP(...)``, ``FinitePair(...)`` or ``PrivacyLoss(...)``:
      all users run the same randomizer, and for any two records its reports are no easier to distinguish,
      in either direction, than the outputs of this mechanism. So ``Gaussian(noise_multiplier=z)`` stands
      for vectors of any dimension whose distance is at most 1, reported with normal noise z in each
      coordinate, and ``ApproximateDP(epsilon=e, delta=d)`` for any (e, d)-LDP randomizer.
      ``local_epsilon`` is infinite for these.

    Neighbors: one user's record is replaced.

    Args:
        users: number of reports that are mixed in a round; 1 to 10^12.
        local_epsilon: the epsilon of one report; 0, or 1e-6 to 30. None (default) takes that of the
            randomizer, which must be given then.
        rounds: number of repetitions with fresh randomness, at least 1 (default).
        population: number of users from whom each round draws without replacement; only the
            shuffler may know which. At least ``users`` and 2, at most 10^12. None (default) if the
            same users report in every round.
        randomizer: "shared" (default), "individual", or a randomizer.

    Raises:
        InvalidArgument: a value is out of range, ``randomizer`` is an unknown word, or ``local_epsilon``
            is more than 1e-9 off that of the randomizer.
        WrongType: a numeric argument is missing or not a number, or ``randomizer`` has the wrong type.

    >>> ShuffledReports(users=10_000, local_epsilon=1, rounds=3).describe()
    '3 rounds of 10,000 shuffled reports (local epsilon 1, shared randomizer)'
    """

    users: int
    # None stands for the budget of a randomizer that is known, which is there from the start
    local_epsilon: float = None  # type: ignore[assignment]
    rounds: int = 1
    population: int | None = None
    randomizer: str | LocalRandomizer = "shared"

    adjacencies = (Adjacency.REPLACE_ONE,)
    _draws = ("their orders",)

    def __post_init__(self) -> None:
        """Check all fields."""
        users = count(users=self.users, hint="It counts the reports that are mixed.")
        if users > MOST_USERS:
            raise invalid("users", "at most 10^12", users)
        object.__setattr__(self, "users", users)
        _known(self.randomizer)
        stated = _agreed(self)
        if not isinstance(self.randomizer, ApproximateRandomizer):
            if has_entries(stated):
                raise WrongType(
                    f"local_epsilon must be one number; got {short_repr(stated)}. "
                    "Use mechanisms.ShuffledGroups(local_epsilon=[...]) for users with different ones."
                )
            stated = checked_local_epsilon(stated)
        object.__setattr__(self, "local_epsilon", stated)
        rounds = count(rounds=self.rounds, hint="Every user reports once in each round.")
        object.__setattr__(self, "rounds", rounds)
        object.__setattr__(self, "population", _population(self.population, users))

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        if self.population is not None:
            return "shuffled reports of sampled users"
        if isinstance(self.randomizer, str):
            return f"shuffled reports of {self.randomizer} randomizers"
        return f"shuffled reports of {self.randomizer.label}"

    def parts(self) -> Parts:
        """One round, repeated ``rounds`` times; a sampled round is a separate mechanism.

        Reports that do not depend on the record are together 0-DP.
        """
        if self.local_epsilon == 0.0:
            return ((PureDP(epsilon=0.0), 1),)
        if isinstance(self.randomizer, ApproximateRandomizer):
            round_reports = ApproximateReports(
                users=self.users, randomizer=self.randomizer, population=self.population
            )
            return ((round_reports, self.rounds),)
        if self.population is None:
            return ((replace(self, rounds=1), self.rounds),)
        return (
            (
                SampledReports(replace(self, rounds=1, population=None), self.population),
                self.rounds,
            ),
        )

    def sampled(self, *, population: int) -> ShuffledReports:
        """These reports with the users of each round sampled from a population.

        Args:
            population: number of users from whom `users` are drawn without replacement; at least `users`
                and 2, at most 10^12.

        Returns:
            The same mechanism with this population.

        Raises:
            InvalidArgument: the population is out of range.
            WrongType: it is not a number.
        """
        return replace(self, population=population)

    def describe(self) -> str:
        """The mechanism in one line."""
        often = f"{self.rounds:,} rounds of " if self.rounds > 1 else ""
        drawn = "" if self.population is None else f" from {self.population:,} users"
        if not isinstance(self.randomizer, str):
            return f"{often}{self.users:,} shuffled reports{drawn} of {self.randomizer.describe()}"
        kind = {"shared": "shared randomizer", "individual": "individual randomizers"}
        numbers = f"local epsilon {self.local_epsilon:.12g}, {kind[self.randomizer]}"
        return f"{often}{self.users:,} shuffled reports{drawn} ({numbers})"


@dataclass(frozen=True)
class SampledReports(Mechanism):
    """One round of shuffled reports by users who are drawn from a population without replacement.

    It is what ``ShuffledReports(users=k, ..., population=n)`` consists of.

    Args:
        reports: the reports of the users who are drawn, without a population of their own.
        population: number of users from whom they are drawn; at least ``reports.users`` and 2, at most
            10^12.

    Raises:
        InvalidArgument: the population is out of range, or the reports have one already.
        WrongType: ``reports`` are not `ShuffledReports`, or ``population`` is not a number.

    >>> one = ShuffledReports(users=10, local_epsilon=1).sampled(population=100)
    >>> one.parts()[0][0].sample_rate
    0.1
    """

    reports: ShuffledReports
    population: int

    adjacencies = (Adjacency.REPLACE_ONE,)
    _draws = ("their users", "their orders")

    def __post_init__(self) -> None:
        """Check both fields: the population is said here, and nowhere else."""
        if not isinstance(self.reports, ShuffledReports):
            raise WrongType(f"reports must be ShuffledReports; got {short_repr(self.reports)}.")
        if self.reports.population is not None:
            hint = "Give the population to ShuffledReports itself."
            raise invalid("reports", "without a population", self.reports.describe(), hint)
        hint = "It counts the users of whom some are drawn."
        number = count(population=self.population, least=2, hint=hint)
        object.__setattr__(self, "population", _population(number, self.reports.users))

    @property
    def sample_rate(self) -> float:
        """The probability with which a user takes part."""
        return self.reports.users / self.population

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return "shuffled reports of sampled users"

    def parts(self) -> Parts:
        """One round, repeated ``rounds`` times."""
        if self.reports.local_epsilon == 0.0:
            return self.reports.parts()
        return ((replace(self, reports=replace(self.reports, rounds=1)), self.reports.rounds),)

    def describe(self) -> str:
        """The mechanism in one line."""
        return self.reports.sampled(population=self.population).describe()


@dataclass(frozen=True, kw_only=True)
class ApproximateReports(Mechanism):
    """Rounds of shuffled reports through a randomizer that has no finite local epsilon.

    It is what ``ShuffledReports(users=n, randomizer=LocalGaussian(...))`` consists of.

    Args:
        users: number of reports that are mixed; 1 to 10^12.
        randomizer: a `LocalGaussian`, or a mechanism than which no two reports are easier to tell apart.
        population: number of users from whom they are drawn without replacement; None (default) if
            all take part.
        rounds: number of repetitions with fresh randomness, at least 1 (default).

    Raises:
        InvalidArgument: a number is out of range.
        WrongType: a number is not one, or the randomizer is of another kind.

    >>> from sharpdp.mechanisms import LocalGaussian, ShuffledReports
    >>> one = ShuffledReports(users=10, randomizer=LocalGaussian(2.0), population=100)
    >>> one.parts()[0][0].sample_rate
    0.1
    """

    users: int
    randomizer: ApproximateRandomizer
    population: int | None = None
    rounds: int = 1

    adjacencies = (Adjacency.REPLACE_ONE,)

    def __post_init__(self) -> None:
        """Check all fields."""
        if isinstance(self.randomizer, ApproximateRandomizer):
            _known(self.randomizer)
        else:
            raise WrongType(
                "randomizer must be a LocalGaussian, Gaussian, ApproximateDP, FinitePair or "
                f"PrivacyLoss; got {short_repr(self.randomizer)}. Give others to ShuffledReports."
            )
        users = count(users=self.users, hint="It counts the reports that are mixed.")
        if users > MOST_USERS:
            raise invalid("users", "at most 10^12", users)
        rounds = count(rounds=self.rounds, hint="Every user reports once in each round.")
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "rounds", rounds)
        object.__setattr__(self, "population", _population(self.population, users))

    def parts(self) -> Parts:
        """One round, repeated ``rounds`` times."""
        return ((replace(self, rounds=1), self.rounds),)

    @property
    def sample_rate(self) -> float:
        """The probability with which a user takes part; 1 if all do."""
        return 1.0 if self.population is None else self.users / self.population

    @property
    def _draws(self) -> tuple[str, ...]:
        return ("their orders",) if self.population is None else ("their users", "their orders")

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return self._reports.label

    def describe(self) -> str:
        """The mechanism in one line."""
        return self._reports.describe()

    @property
    def _reports(self) -> ShuffledReports:
        return ShuffledReports(
            users=self.users,
            randomizer=self.randomizer,
            population=self.population,
            rounds=self.rounds,
        )


def checked_local_epsilon(local_epsilon: object, name: str = "local_epsilon") -> float:
    """The local budget as a float in the range that can be told apart from nothing and everything."""
    hint = "It is the budget of one report: log of the largest ratio of its probabilities."
    number = real(hint=hint, **{name: local_epsilon})
    if number == 0.0 or SMALLEST_LOCAL_EPSILON <= number <= LARGEST_LOCAL_EPSILON:
        return abs(number)
    allowed = f"0, or between {SMALLEST_LOCAL_EPSILON:g} and {LARGEST_LOCAL_EPSILON:g}"
    raise invalid(name, allowed, local_epsilon, hint)


def _population(population: object, users: int) -> int | None:
    """Number of users to sample from, None if all take part."""
    if population is None:
        return None
    hint = "It counts the users of whom `users` are drawn in each round."
    number = count(population=population, least=2, hint=hint)
    if number < users:
        raise invalid("population", f"at least the {users} users of one round", number, hint)
    if number > MOST_USERS:
        raise invalid("population", "at most 10^12", number)
    return number


def _agreed(mechanism: ShuffledReports) -> object:
    """The local budget: the given one, or that of a randomizer that is known."""
    stated: float | None = mechanism.local_epsilon
    randomizer = mechanism.randomizer
    if isinstance(randomizer, str):
        return stated
    own = math.inf
    if isinstance(randomizer, PureRandomizer):
        own = randomizer.local_epsilon
    elif stated is not None and stated != math.inf:
        raise InvalidArgument(
            f"local_epsilon must be left out with {randomizer.label}; got {short_repr(stated)}. Its "
            "reports have no finite one."
        )
    else:
        return own
    # how far a local epsilon that is given as well may be from that of the randomizer
    if stated is not None and abs(real(local_epsilon=stated) - own) > 1e-9:
        raise InvalidArgument(
            f"local_epsilon must be that of the randomizer, {own!r}; got {short_repr(stated)}. "
            "Leave it out."
        )
    return own


def _moderate(noise_multiplier: float) -> None:
    """Refuse noise that hides next to nothing by itself, or everything."""
    if not LEAST_NOISE <= noise_multiplier <= MOST_NOISE:
        allowed = f"with a noise multiplier between {LEAST_NOISE:g} and {MOST_NOISE:g}"
        hint = "With less a shuffler hides next to nothing: account for the randomizer itself."
        raise invalid("randomizer", allowed, noise_multiplier, hint)


def _known(randomizer: object) -> None:
    """Refuse what is neither one of the two words nor a randomizer."""
    if isinstance(randomizer, LocalGaussian | Gaussian):
        _moderate(randomizer.noise_multiplier)
    if isinstance(randomizer, ApproximateDP) and randomizer.epsilon > LARGEST_LOCAL_EPSILON:
        allowed = f"with an epsilon of at most {LARGEST_LOCAL_EPSILON:g}"
        raise invalid("randomizer", allowed, randomizer.describe())
    if isinstance(randomizer, LocalRandomizer):
        return
    allowed = "'shared', 'individual' or a randomizer"
    if not isinstance(randomizer, str):
        raise WrongType(
            f"randomizer must be {allowed}; got {short_repr(randomizer)}. "
            "Try RandomizedResponse(local_epsilon=1.0, categories=3)."
        )
    # what is known about the randomizers: all users share one, or each has its own
    if randomizer not in ("shared", "individual"):
        raise InvalidArgument(
            f"randomizer must be {allowed}; got {randomizer!r}. "
            "Use 'individual' if each position in the shuffled order has its own randomizer."
        )


UNITS = ("record", "block")
"""What is protected: one record of a block, or a whole block."""


@dataclass(frozen=True, kw_only=True)
class ShuffledBlocks(Mechanism):
    """Every epoch goes through all blocks of records in a fresh random order, and releases every step.

    The step on one block is ``local_epsilon``-DP in the block as a whole, whatever was released before
    it and whichever block it is: noise must cover the difference of any *two blocks*, not of two
    records, because it is the other blocks that hide one. The blocks themselves are fixed.

    - ``unit="block"``: neighbors differ by all records of one block.
    - ``unit="record"``: neighbors differ by one of the ``block_size`` records of a block, which moves
      the step by local_epsilon / block_size only. That holds for additive noise on a sum of clipped
      contributions, each of the same size at most.

    Args:
        blocks: number of blocks, and of steps per epoch; 1 to 10^12.
        local_epsilon: the epsilon of one step for a whole block; 1e-6 to 30, times ``block_size`` if the
            unit is a record.
        block_size: number of records in a block, at least 1 (default).
        epochs: number of passes over all blocks, at least 1 (default).
        unit: what is protected: "record" (default) or "block".

    Raises:
        InvalidArgument: a value is out of range, or the unit is unknown.
        WrongType: a numeric argument is not a number.

    >>> ShuffledBlocks(blocks=100, block_size=600, local_epsilon=1.0, epochs=50).describe()
    '50 epochs over 100 shuffled blocks of 600 records (local epsilon 1 of a block, protects one record)'
    """

    blocks: int
    local_epsilon: float
    block_size: int = 1
    epochs: int = 1
    unit: str = "record"

    adjacencies = (Adjacency.REPLACE_ONE,)
    _draws = ("their orders",)

    def __post_init__(self) -> None:
        """Check all fields."""
        blocks = count(blocks=self.blocks, hint="It counts the steps of an epoch.")
        if blocks > MOST_USERS:
            raise invalid("blocks", "at most 10^12", blocks)
        size = count(block_size=self.block_size, hint="It counts the records of a block.")
        epochs = count(epochs=self.epochs, hint="It counts passes over the data.")
        if str(self.unit) not in UNITS:
            raise InvalidArgument(
                f"unit must be one of {', '.join(map(repr, UNITS))}; got {short_repr(self.unit)}. "
                "It says what is protected."
            )
        local = real(local_epsilon=self.local_epsilon, hint="It is that of a whole block.")
        records = size if self.unit == "record" else 1
        smallest, largest = SMALLEST_LOCAL_EPSILON * records, LARGEST_LOCAL_EPSILON * records
        if not smallest <= local <= largest:
            allowed = f"between {smallest:g} and {largest:g}"
            raise invalid(
                "local_epsilon", allowed, self.local_epsilon, "It is that of a whole block."
            )
        clean = {"blocks": blocks, "block_size": size, "epochs": epochs, "local_epsilon": local}
        for name, value in clean.items():
            object.__setattr__(self, name, value)

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return f"shuffled blocks, one {self.unit}"

    def parts(self) -> Parts:
        """One epoch, repeated ``epochs`` times."""
        return ((replace(self, epochs=1), self.epochs),)

    def describe(self) -> str:
        """The mechanism in one line."""
        often = f"{self.epochs:,} epochs" if self.epochs > 1 else "1 epoch"
        records = f"{self.block_size:,} records" if self.block_size > 1 else "1 record"
        return (
            f"{often} over {self.blocks:,} shuffled blocks of {records} "
            f"(local epsilon {self.local_epsilon:.12g} of a block, protects one {self.unit})"
        )
