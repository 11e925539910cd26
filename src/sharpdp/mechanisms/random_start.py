"""Noisy gradient descent from a random start: one step of it, or the last of several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp._validate import count, invalid, is_among, positive_scale, short_repr
from sharpdp.errors import Unsupported, WrongType
from sharpdp.mechanisms.composed import NO_NOISE, Adjacency, Mechanism
from sharpdp.mechanisms.sensitivity import LeastSquares, Logistic, Sensitivity

__all__ = ["RandomlyInitializedGD"]

CLAIMS = {
    "instance": "this instance only",
    "worst-case": "worst case over records",
}
"""What a guarantee can be claimed for, and how answers say it."""


@dataclass(frozen=True, kw_only=True)
class RandomlyInitializedGD(Mechanism):
    """Gradient descent from a random start I, a step of which is I - h (g(I, data) + Gaussian noise).

    Only the result of the last step is released. ``claim`` has no default, since it changes the answer:

    - "instance": for this data set and this neighbor, whose sensitivity is given. Nothing is claimed
      about any other record.
    - "worst-case": for all neighbors; the sensitivity must be the largest over all of them at each
      start. For clipped least squares it is the clipping norm at every start: the random start
      amplifies nothing, and the answer is that of the noise alone.

    For a hidden start both sides are exact where the instance is least squares on a known number of
    points, in one step, or in any number of steps without clipping. Everywhere else the upper side is
    that of a public start whose later steps are released, and the lower side is known for one step from
    a public start (except in the worst case of a given function or distribution).

    Args:
        sensitivity: by how much the gradient differs between neighbors at each start: `LeastSquares`,
            `Logistic`, `MonotoneSensitivity`, `EnclosedSensitivity` or `SensitivityDistribution`.
        claim: what the guarantee is for: "instance" or "worst-case".
        noise_deviation: the standard deviation of the noise, in units of the gradient; 1e-30 to 1e30,
            1 by default.
        initialization: "hidden" (default) if the start is kept secret, "public" if the attacker knows it.
        learning_rate: the step size h, which multiplies gradient and noise; 1e-30 to 1e30, 1 by default.
            It matters only where a hidden start is accounted exactly.
        steps: number of steps, 1 by default. More are covered for `LeastSquares` and `Logistic`, except
            the worst case of least squares.

    Raises:
        InvalidArgument: ``claim`` or ``initialization`` is not one of its words, or a number is out of
            range.
        WrongType: ``sensitivity`` is none of these classes, or a numeric argument is not a number.
        Unsupported: the worst case of least squares is claimed without clipping or for several steps, or
            nothing is known about the later ones of several steps.

    >>> run = RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, claim="instance")
    >>> run.label
    'randomly initialized GD, this instance only'
    """

    sensitivity: Sensitivity
    claim: str
    noise_deviation: float = 1.0
    initialization: str = "hidden"
    learning_rate: float = 1.0
    steps: int = 1

    _draws = ("their starts",)

    def __post_init__(self) -> None:
        """Check the claim, and that it can be made."""
        if not isinstance(self.sensitivity, Sensitivity):
            raise WrongType(
                f"sensitivity must be a description of one; got {short_repr(self.sensitivity)}. "
                "Try RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, claim='instance')."
            )
        _word("claim", self.claim, tuple(CLAIMS))
        # whether the start is kept secret, or known to the attacker
        _word("initialization", self.initialization, ("hidden", "public"))
        clean = positive_scale(noise_deviation=self.noise_deviation, hint=NO_NOISE)
        object.__setattr__(self, "noise_deviation", clean)
        rate = positive_scale(learning_rate=self.learning_rate)
        object.__setattr__(self, "learning_rate", rate)
        object.__setattr__(self, "steps", count(steps=self.steps))
        if self.amplifies_nothing and self.sensitivity.largest == np.inf:
            raise Unsupported(
                "claim 'worst-case' needs gradients that are clipped: without clipping some record "
                "is revealed whatever the noise. Give a finite clip, or claim an 'instance'."
            )

        if self.steps > 1:
            self._check_later_steps()

    def _check_later_steps(self) -> None:
        """Refuse several steps where the sensitivity of later ones is not known."""
        if not isinstance(self.sensitivity, LeastSquares | Logistic):
            raise Unsupported(
                f"steps must be 1 for a given sensitivity; got {self.steps}. Later steps start where the "
                "ones before ended, and the sensitivity there is not known."
            )
        if self.amplifies_nothing:
            raise Unsupported(
                f"steps must be 1 for the worst case of least squares; got {self.steps}. Several steps "
                "on arbitrary records are a DPSGD, or a LastIterate if only the last model is released."
            )
        is_hidden = self.initialization == "hidden" and getattr(self.sensitivity, "points", None)
        if self.sensitivity.largest == np.inf and not is_hidden:
            raise Unsupported(
                f"steps must be 1 without clipping, unless the start is hidden and points are given; got "
                f"{self.steps}. Give points, or a finite clip."
            )

    @classmethod
    def least_squares(
        cls,
        *,
        slope: float,
        clip: float,
        claim: str,
        points: int | None = None,
        noise_deviation: float = 1.0,
        initialization: str = "hidden",
        learning_rate: float = 1.0,
        steps: int = 1,
    ) -> RandomlyInitializedGD:
        """Descent on records with y = slope x, x^2 = 1, each gradient clipped; see `LeastSquares`.

        Args:
            slope: the slope of all records; -1e6 to 1e6.
            clip: the norm at which each gradient is clipped; 1e-30 to 1e30, or infinite for no clipping.
            claim: what the guarantee is for: "instance" or "worst-case".
            points: number of records, at least 1; None (default) if it is not known. An instance with a
                hidden start is accounted exactly only if it is.
            noise_deviation: the standard deviation of the noise, in units of the gradient; 1e-30 to 1e30,
                1 by default.
            initialization: "hidden" (default) or "public": whether the attacker knows the start.
            learning_rate: the step size; 1e-30 to 1e30, 1 by default.
            steps: number of steps, of which only the last result is released; 1 by default.

        Returns:
            The mechanism, whose sensitivity is a `LeastSquares`.

        Raises:
            InvalidArgument: a number is out of range, or a word is unknown.
            WrongType: a numeric argument is not a number.
            Unsupported: the worst case is claimed without clipping or for several steps, or several steps
                without clipping from a public start or on an unknown number of points.

        >>> import sharpdp as dp
        >>> run = RandomlyInitializedGD.least_squares(
        ...     slope=1.0,
        ...     clip=float("inf"),
        ...     points=5,
        ...     learning_rate=0.1,
        ...     steps=20,
        ...     claim="instance",
        ... )
        >>> answer = dp.account(run).epsilon(delta=1e-5)
        >>> round(answer.lower, 3), round(answer.upper, 3)
        (1.277, 1.277)
        """
        return cls(
            sensitivity=LeastSquares(slope=slope, clip=clip, points=points),
            claim=claim,
            noise_deviation=noise_deviation,
            initialization=initialization,
            learning_rate=learning_rate,
            steps=steps,
        )

    @classmethod
    def logistic(
        cls,
        *,
        margin: float,
        claim: str,
        noise_deviation: float = 1.0,
        initialization: str = "hidden",
    ) -> RandomlyInitializedGD:
        """One step of logistic regression with |x y| <= margin; see `Logistic`.

        As an instance, the record in question has x y = margin.

        Args:
            margin: a bound on |x y| over all records; 1e-30 to 1,000.
            claim: what the guarantee is for: "instance" or "worst-case".
            noise_deviation: the standard deviation of the noise, in units of the gradient; 1e-30 to 1e30,
                1 by default.
            initialization: "hidden" (default) or "public": whether the attacker knows the start.

        Returns:
            The mechanism, whose sensitivity is a `Logistic`.

        Raises:
            InvalidArgument: a number is out of range, or a word is unknown.
            WrongType: a numeric argument is not a number.
        """
        return cls(
            sensitivity=Logistic(margin=margin),
            claim=claim,
            noise_deviation=noise_deviation,
            initialization=initialization,
        )

    @property
    def amplifies_nothing(self) -> bool:
        """Whether some record has the largest sensitivity at every start."""
        return self.claim == "worst-case" and isinstance(self.sensitivity, LeastSquares)

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Add/remove where the sensitivity is known for it, else the given adjacency."""
        if isinstance(self.sensitivity, LeastSquares | Logistic):
            return (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
        return (Adjacency.NEIGHBORS,)

    @property
    def label(self) -> str:
        """The mechanism in a few words, with its claim."""
        return f"randomly initialized GD, {CLAIMS[self.claim]}"

    def describe(self) -> str:
        """The mechanism in one line."""
        taken = "one step" if self.steps == 1 else f"the last of {self.steps:,} steps"
        rate = f"learning rate {self.learning_rate:.12g}; " if self.learning_rate != 1.0 else ""
        return (
            f"{taken} of randomly initialized GD ({self.sensitivity.describe()}; {rate}noise deviation "
            f"{self.noise_deviation:.12g}; start {self.initialization}; claimed for "
            f"{CLAIMS[self.claim]})"
        )


def _word(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not is_among(allowed, value):
        raise invalid(name, " or ".join(repr(word) for word in allowed), value)
