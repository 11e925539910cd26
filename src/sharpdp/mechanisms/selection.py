"""The best of several runs, by a random or a fixed number of repetitions: tuning that is accounted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sharpdp._validate import count, invalid, is_among, nonnegative, real, short_repr
from sharpdp.bracket import Rigor
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import Adjacency, Mechanism, common, drawn_by, independently_drawn
from sharpdp.randomness.system_stream import Randomness, SystemStream, system_stream_for

__all__ = ["BestOf"]

LAWS = ("geometric", "poisson", "negative-binomial")
"""Laws of the number of repetitions."""

LARGEST_PIECE = 500.0
"""Poisson numbers of a larger mean are drawn as sums: e^-mean must be a double."""

LARGEST_MEAN = 1e9
"""More repetitions than that are refused."""


@dataclass(frozen=True)
class BestOf(Mechanism):
    """Run something several times, and release the result with the best score, and nothing else.

    The candidates (settings of a training run, seeds) are drawn independently for each repetition from a
    distribution that is fixed in advance, and run, evaluation included, as one mechanism. The score
    is any function of the result. The number of repetitions is drawn first and kept secret:

    - "geometric": 1, 2, 3, ... with probability gamma (1 - gamma)^(k - 1), gamma = 1 / mean.
    - "negative-binomial": truncated at 1, with `shape` > -1; a shape of 1 is geometric, 0 logarithmic.
    - "poisson": 0 is possible; then nothing is released.
    - a whole number: that many repetitions, as a composition of which one result is released.

    Args:
        run: What is run for one candidate, with its evaluation.
        repetitions: "geometric", "negative-binomial", "poisson", or a fixed number.
        mean: Expected number of repetitions; above 1 (Poisson: at least 0), at most 10^9. Needed unless
            the number is fixed.
        shape: Shape of the negative binomial distribution; above -1, at most 100. None elsewhere.

    Raises:
        InvalidArgument: a number is out of range, or given where it says nothing.
        WrongType: run is not a mechanism, or an argument is not a number.

    >>> from sharpdp.mechanisms.elementary import Gaussian
    >>> BestOf(Gaussian(4.0), repetitions="geometric", mean=10).describe()
    'best of a geometric number of runs (mean 10) of Gaussian noise (noise multiplier 4)'
    """

    run: Mechanism
    repetitions: str | int
    mean: float | None = None
    shape: float | None = None

    def __post_init__(self) -> None:
        """Check that the law of the number of repetitions is stated, and nothing else."""
        if not isinstance(self.run, Mechanism):
            raise WrongType(f"run must be a mechanism; got {short_repr(self.run)}.")
        if not isinstance(self.repetitions, str):
            object.__setattr__(self, "repetitions", count(least=0, repetitions=self.repetitions))
            self._refuse("mean", "shape")
            return
        if not is_among(LAWS, self.repetitions):
            words = ", ".join(map(repr, LAWS))
            raise invalid("repetitions", f"{words} or a whole number", self.repetitions)
        if self.mean is None:
            raise InvalidArgument(
                f"mean must be given for {self.repetitions} repetitions; got none."
            )
        mean, may_be_zero = nonnegative(mean=self.mean), self.repetitions == "poisson"
        if not (may_be_zero or mean > 1.0) or mean > LARGEST_MEAN:
            least = "at least 0" if may_be_zero else "above 1"
            raise invalid("mean", f"{least} and at most {LARGEST_MEAN:g}", self.mean)
        object.__setattr__(self, "mean", mean)
        if self.repetitions != "negative-binomial":
            self._refuse("shape")
            return
        if self.shape is None:
            raise InvalidArgument(
                "shape must be given for negative-binomial repetitions; got none."
            )
        shape = real(shape=self.shape)
        if not -1.0 < shape <= 100.0:
            raise invalid("shape", "above -1 and at most 100", self.shape)
        object.__setattr__(self, "shape", shape)

    def _refuse(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None:
                raise InvalidArgument(
                    f"{name} must be left out for {self.repetitions!r} repetitions; got {value!r}."
                )

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return f"best of several runs of {self.run.label}"

    @property
    def holds_when(self) -> tuple[str, ...]:
        """The conditions of one run, and that all runs draw their batches independently."""
        twice = (self.run * 2).parts()
        return tuple(dict.fromkeys((*self.run.holds_when, *independently_drawn(twice))))

    @property
    def _draws(self) -> tuple[str, ...]:
        return drawn_by(self.run.parts())

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies of what is run."""
        return self.run.adjacencies

    @property
    def _group_adjacencies(self) -> tuple[Adjacency, ...]:
        """The notions of one run for which groups are accounted."""
        return common(part._group_adjacencies for part, _ in self.run.parts())

    @property
    def uses_records(self) -> bool:
        """Whether there may be a repetition, and a record may enter its result."""
        is_run = self.repetitions != 0 and self.mean != 0.0
        return is_run and any(part.uses_records for part, _ in self.run.parts())

    @property
    def premise(self) -> Rigor:
        """Rigor of the data of what is run."""
        return Rigor.weakest(part.premise for part, _ in self.run.parts())

    @property
    def stopping_probability(self) -> float:
        """Gamma of the geometric and negative binomial distributions: the one that has the stated mean.

        For the geometric distribution, the probability of stopping after each repetition.

        >>> from sharpdp.mechanisms.elementary import Gaussian
        >>> BestOf(Gaussian(4.0), repetitions="geometric", mean=8).stopping_probability
        0.125
        """
        if self.mean is None or self.repetitions == "poisson":
            raise InvalidArgument(
                f"a stopping probability is that of geometric repetitions; got {self.repetitions!r}."
            )
        if self._shape == 1.0:
            return 1.0 / self.mean
        low, high = 0.0, 1.0  # the mean falls with gamma
        while high - low > 1e-16 * high:
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if _mean(middle, self._shape) > self.mean else (low, middle)
        return high

    @property
    def _shape(self) -> float:
        return 1.0 if self.repetitions == "geometric" else float(self.shape or 0.0)

    def draw(self, rng: Randomness = None) -> int:
        """A number of repetitions from the distribution; keep it secret.

        Args:
            rng: None draws from the operating system; a numpy generator or a seed is for tests.

        Returns:
            How often to run.

        Raises:
            InvalidArgument: the seed is negative.
            WrongType: rng is neither of these.
        """
        if isinstance(self.repetitions, int):
            return self.repetitions
        stream = system_stream_for(rng)
        mean = float(self.mean or 0.0)
        if self.repetitions == "poisson":
            pieces = math.ceil(mean / LARGEST_PIECE)
            return sum(_poisson(mean / pieces, _uniform(stream)) for _ in range(pieces))
        gamma, shape = self.stopping_probability, self._shape
        # weights of k: proportional to Gamma(k + shape) / k! (1 - gamma)^k
        weight = (
            (1.0 - gamma) / -math.log(gamma)
            if shape == 0.0
            else shape * (1.0 - gamma) / (gamma**-shape - 1.0)
        )
        uniform, total, number = _uniform(stream), weight, 1
        while uniform > total and weight > 1e-300:
            weight *= (number + shape) / (number + 1.0) * (1.0 - gamma)
            number += 1
            total += weight
        return number

    def describe(self) -> str:
        """The mechanism in one line."""
        what = self.run.describe()
        if isinstance(self.repetitions, int):
            return f"best of {self.repetitions:,} runs of {what}"
        law = {"poisson": "Poisson"}.get(self.repetitions, self.repetitions)
        shape = f", shape {self.shape:g}" if self.shape is not None else ""
        return f"best of a {law} number of runs (mean {self.mean:g}{shape}) of {what}"


def _mean(gamma: float, shape: float) -> float:
    """Mean of the truncated negative-binomial law."""
    if shape == 0.0:
        return (1.0 / gamma - 1.0) / -math.log(gamma)
    return shape * (1.0 - gamma) / (gamma * -math.expm1(shape * math.log(gamma)))


def _uniform(stream: SystemStream) -> float:
    """A number in [0, 1) of 53 random bits."""
    return int(stream.words(1)[0] >> np.uint64(11)) * 2.0**-53


def _poisson(mean: float, uniform: float) -> int:
    """The Poisson number at a quantile."""
    weight = total = math.exp(-mean)
    number = 0
    while uniform > total and weight > 1e-300:
        number += 1
        weight *= mean / number
        total += weight
    return number
