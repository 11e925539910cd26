"""Mechanisms given by their noise, by a stated guarantee, or by their pair of distributions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import (
    closed_probability,
    doubles,
    one_line,
    pmf,
    scale_or_inf,
    short_repr,
    zero_or_scale,
)
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import ANY_SAMPLES, NO_LESS, NO_LESS_NOISE, Mechanism
from sharpdp.mechanisms.given_name import named_by_author

__all__ = ["ApproximateDP", "FinitePair", "Gaussian", "Laplace", "ProfileMechanism", "PureDP"]

PROBES = (0.0, 0.25, 1.0, 4.0, 16.0)
"""Where a profile is looked at, once, to catch a function that is not one."""

Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """A statistic of l2 sensitivity 1, released with Gaussian noise.

    Args:
        noise_multiplier: the standard deviation of the noise in each coordinate, in units of the
            sensitivity: noise_multiplier * S for a statistic of sensitivity S; 1e-30 to 1e30, or 0 for
            no noise, which reveals the statistic.

    Raises:
        InvalidArgument: the noise multiplier is out of range.
        WrongType: it is not a number.

    >>> Gaussian(noise_multiplier=2).describe()
    'Gaussian noise (noise multiplier 2)'
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the noise multiplier."""
        clean = zero_or_scale(noise_multiplier=self.noise_multiplier, hint=NO_LESS_NOISE)
        object.__setattr__(self, "noise_multiplier", clean)

    @property
    def adds_noise(self) -> bool:
        """Whether the noise multiplier is above 0."""
        return self.noise_multiplier > 0.0

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "Gaussian noise"

    def describe(self) -> str:
        """The mechanism in one line."""
        return f"Gaussian noise (noise multiplier {self.noise_multiplier:.12g})"


@dataclass(frozen=True)
class Laplace(Mechanism):
    """A statistic of l1 sensitivity 1, released with Laplace noise of density e^(-|x|/scale).

    Args:
        scale: the scale of the noise in each coordinate, in units of the sensitivity; 1e-30 to 1e30, or 0
            for no noise, which reveals the statistic.

    Raises:
        InvalidArgument: the scale is out of range.
        WrongType: it is not a number.

    >>> Laplace(scale=2).describe()
    'Laplace noise (scale 2)'
    """

    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        object.__setattr__(self, "scale", zero_or_scale(scale=self.scale, hint=NO_LESS_NOISE))

    @property
    def adds_noise(self) -> bool:
        """Whether the scale is above 0."""
        return self.scale > 0.0

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "Laplace noise"

    def describe(self) -> str:
        """The mechanism in one line."""
        return f"Laplace noise (scale {self.scale:.12g})"


@dataclass(frozen=True)
class PureDP(Mechanism):
    """Any mechanism that is known only to be epsilon-DP.

    Args:
        epsilon: the stated epsilon; 0, or 1e-30 to 1e30.

    Raises:
        InvalidArgument: epsilon is out of range.
        WrongType: it is not a number.

    >>> PureDP(epsilon=1).describe()
    'any epsilon-DP mechanism (epsilon 1)'
    """

    epsilon: float

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check epsilon."""
        object.__setattr__(self, "epsilon", zero_or_scale(epsilon=self.epsilon, hint=NO_LESS))

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "pure DP"

    def describe(self) -> str:
        """The mechanism in one line."""
        return f"any epsilon-DP mechanism (epsilon {self.epsilon:.12g})"


@dataclass(frozen=True, kw_only=True)
class ApproximateDP(Mechanism):
    """Any mechanism that is known only to be (epsilon, delta)-DP.

    Args:
        epsilon: the stated epsilon; 0, or 1e-30 to 1e30.
        delta: the stated delta, in [0, 1]; 1 states nothing at all.

    Raises:
        InvalidArgument: epsilon or delta is out of range.
        WrongType: either is not a number.

    >>> ApproximateDP(epsilon=1, delta=1e-6).describe()
    'any (epsilon, delta)-DP mechanism (epsilon 1, delta 1e-06)'
    """

    epsilon: float
    delta: float

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check epsilon and delta."""
        object.__setattr__(self, "epsilon", zero_or_scale(epsilon=self.epsilon, hint=NO_LESS))
        clean = closed_probability(delta=self.delta, hint="Did you swap epsilon and delta?")
        object.__setattr__(self, "delta", clean)

    @property
    def adds_noise(self) -> bool:
        """Whether delta is below 1."""
        return self.delta < 1.0

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "approximate DP"

    def describe(self) -> str:
        """The mechanism in one line."""
        numbers = f"epsilon {self.epsilon:.12g}, delta {self.delta:.12g}"
        return f"any (epsilon, delta)-DP mechanism ({numbers})"


@dataclass(frozen=True, kw_only=True)
class FinitePair(Mechanism):
    """A mechanism whose result has pmf ``p`` on the one input and pmf ``q`` on the other.

    ``p[i]`` and ``q[i]`` are the probabilities of the same outcome. Sums that are off by at most 1e-9
    are taken for rounding, and the masses are divided by them.

    Args:
        p: the probability of each outcome, at least 0 each, with sum 1. In a sequence, this is the data
            set with the record.
        q: the probability of each outcome on the other input, as many as in ``p``.

    Raises:
        InvalidArgument: either is not a pmf, or their lengths differ.
        WrongType: either is not a list of numbers.

    >>> FinitePair(p=[0.75, 0.25], q=[0.25, 0.75]).describe()
    'pair of pmfs on 2 points'
    """

    p: tuple[float, ...]
    q: tuple[float, ...]

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check that both are pmfs on equally many points."""
        p, q = pmf(p=self.p), pmf(q=self.q)
        if len(p) != len(q):
            raise InvalidArgument(
                f"p and q must have equally many points; got {len(p)} and {len(q)}. "
                "Give a point that one of them never takes the probability 0."
            )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "q", q)

    @property
    def label(self) -> str:
        """The mechanism in three words."""
        return "pair of pmfs"

    def describe(self) -> str:
        """The mechanism in one line."""
        return f"pair of pmfs on {len(self.p):,} point{'s' if len(self.p) > 1 else ''}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfileMechanism(Mechanism):
    """A mechanism known by its privacy profile: the smallest delta at each epsilon >= 0.

    Values are believed to a relative 1e-9, at an epsilon that is off by 2e-15 (1 + epsilon). A profile
    that rises, is not convex in e^epsilon or is noisier than that is refused when it is accounted for.
    Where it stops being a number, or drowns in rounding noise after it has fallen to a thousandth, the
    upper side counts what is left as revealed and the lower side counts nothing. Without
    ``largest_loss`` values below 1e-300 may have underflowed, and count as 1e-300 from above.

    Holds when: the profile is that of one pair of distributions: convex in e^epsilon, between
    (1 - e^epsilon)_+ and 1. For a bound on the profile take `TradeoffCurve.from_points`.

    Args:
        profile: maps an array of epsilon >= 0 to as many deltas in [0, 1], which never rise.
        reverse: the profile with the two data sets swapped; None (default) if it is the same.
        largest_loss: the epsilon at which delta reaches its final value, the probability of an infinite
            loss; 1e-30 to 1e30. Infinite (default) if there is none.
        name: the name shown in descriptions, a single line; "unnamed" by default.

    Raises:
        InvalidArgument: a profile fails a check at five epsilons, ``largest_loss`` is out of range, or
            ``name`` has line breaks or control characters.
        WrongType: a profile is not callable, ``largest_loss`` is not a number, or ``name`` is not a
            string.

    >>> ProfileMechanism(profile=lambda epsilon: 0 * epsilon, name="nothing").describe()
    'mechanism known by its privacy profile (named by its author: "nothing")'
    """

    profile: Curve
    reverse: Curve | None = None
    largest_loss: float = np.inf
    name: str = "unnamed"

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check that the profiles can be called, and that they look like profiles."""
        for title in ("profile", "reverse"):
            curve = getattr(self, title)
            if not callable(curve) and (title == "profile" or curve is not None):
                raise WrongType(f"{title} must be a function of epsilon; got {short_repr(curve)}.")
        _check_profile("profile", self.profile)
        if self.reverse is not None:
            _check_profile("reverse", self.reverse)
        largest = scale_or_inf(
            largest_loss=self.largest_loss, hint="Leave it out if there is none."
        )
        object.__setattr__(self, "largest_loss", largest)
        one_line(name=self.name)

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "privacy profile"

    def describe(self) -> str:
        """The mechanism in one line."""
        name = "unnamed" if self.name == "unnamed" else named_by_author(self.name)
        return f"mechanism known by its privacy profile ({name})"


def _check_profile(title: str, curve: Curve) -> None:
    """Look at a few values: as many as asked for, in [0, 1], and none above the one before."""
    returned = curve(np.array(PROBES))
    values = doubles(returned)
    wanted = f"{title} must map an array of epsilon to as many deltas in [0, 1] that never rise"
    if values.shape != (len(PROBES),):
        raise InvalidArgument(f"{wanted}; got {short_repr(returned)} for {len(PROBES)} epsilons.")
    if not (np.all(values >= 0) and np.all(values <= 1) and np.all(np.diff(values) <= 0)):
        seen = ", ".join(f"{float(value):.6g}" for value in values)
        raise InvalidArgument(f"{wanted}; got {seen} at epsilon = 0, 0.25, 1, 4, 16.")
