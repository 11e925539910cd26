"""Noisy gradient descent of which only the last model is released, and what is known about its loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from sharpdp._validate import (
    HintedKeywords,
    flag,
    nonnegative,
    positive_scale,
    short_repr,
    zero_or_scale,
)
from sharpdp.batches.independent import PoissonBatches
from sharpdp.batches.partitioned import DeterministicBatches, ShuffledBatches
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import Adjacency, Parts
from sharpdp.mechanisms.training import BatchQueries, Scheme, check_one_order

__all__ = ["LastIterate", "SmoothLoss"]

ROOT_TWO = 1.4142135623730952
"""The smallest double above the square root of two."""


@dataclass(frozen=True, kw_only=True)
class SmoothLoss(HintedKeywords):
    """Constants of a loss that hold for every possible record; no estimates.

    The step minimizes the mean of the losses of a batch plus regularization / 2 times the squared norm of
    the parameters. The penalty is the same for all data sets, so it affects the contraction of a
    step, not its sensitivity.

    `logistic`, `softmax` and `least_squares` have the constants of linear models. They need bounds on the
    features; clip the features, not the gradients: clipped gradients need not be those of a smooth
    convex function. `linear` is for losses that are themselves linear in the parameters.

    Args:
        gradient_norm: the largest l2 norm of the gradient of one record's loss, anywhere in the domain;
            1e-30 to 1e30.
        smoothness: a Lipschitz constant of that gradient, without the penalty; 1e-30 to 1e30, or 0 if it
            does not depend on the parameters.
        regularization: weight of the penalty, and so the strong convexity; 0 (default), or 1e-30 to 1e30.
        convex: whether the loss of every record is convex; True by default.

    Raises:
        InvalidArgument: a number is out of range.
        WrongType: an argument is not a number, or ``convex`` is not a bool.

    >>> SmoothLoss.logistic(feature_norm=2.0, regularization=0.1)
    SmoothLoss(gradient_norm=2.0, smoothness=1.0, regularization=0.1, convex=True)
    """

    gradient_norm: float
    smoothness: float
    regularization: float = 0.0
    convex: bool = True

    def __post_init__(self) -> None:
        """Check the constants."""
        object.__setattr__(self, "gradient_norm", positive_scale(gradient_norm=self.gradient_norm))
        for name in ("smoothness", "regularization"):
            object.__setattr__(self, name, zero_or_scale(**{name: getattr(self, name)}))
        object.__setattr__(self, "convex", flag(convex=self.convex))

    @classmethod
    def linear(cls, *, gradient_norm: float, regularization: float = 0.0) -> SmoothLoss:
        """Losses <g, w> that are linear in the parameters w, with |g| <= gradient_norm for every record.

        Args:
            gradient_norm: a bound on the l2 norm of a record's gradient; 1e-30 to 1e30.
            regularization: weight of the penalty; 0 (default), or 1e-30 to 1e30.

        Returns:
            The constants: this gradient norm, smoothness 0.

        Raises:
            InvalidArgument: a number is out of range.
            WrongType: an argument is not a number.
        """
        return cls(gradient_norm=gradient_norm, smoothness=0.0, regularization=regularization)

    @classmethod
    def logistic(cls, *, feature_norm: float, regularization: float = 0.0) -> SmoothLoss:
        """Logistic regression: log(1 + e^(-y <w, x>)) with y = -1 or 1 and |x| <= feature_norm.

        Args:
            feature_norm: a bound R on the l2 norm of a record's features, a constant one for the
                intercept included; 1e-30 to 1e30.
            regularization: weight of the penalty; 0 (default), or 1e-30 to 1e30.

        Returns:
            The constants: gradients of norm R, smoothness R^2 / 4.

        Raises:
            InvalidArgument: a number is out of range.
            WrongType: an argument is not a number.
        """
        norm = positive_scale(feature_norm=feature_norm)
        return cls(
            gradient_norm=norm, smoothness=_up(0.25, norm, norm), regularization=regularization
        )

    @classmethod
    def softmax(cls, *, feature_norm: float, regularization: float = 0.0) -> SmoothLoss:
        """Multinomial logistic regression, a vector of weights for each class, with |x| <= feature_norm.

        Args:
            feature_norm: a bound R on the l2 norm of a record's features, a constant one for the
                intercept included; 1e-30 to 1e30.
            regularization: weight of the penalty; 0 (default), or 1e-30 to 1e30.

        Returns:
            The constants: gradients of norm sqrt(2) R, smoothness R^2 / 2.

        Raises:
            InvalidArgument: a number is out of range.
            WrongType: an argument is not a number.
        """
        norm = positive_scale(feature_norm=feature_norm)
        return cls(
            gradient_norm=_up(ROOT_TWO, norm),
            smoothness=_up(0.5, norm, norm),
            regularization=regularization,
        )

    @classmethod
    def least_squares(
        cls, *, feature_norm: float, target_bound: float, radius: float, regularization: float = 0.0
    ) -> SmoothLoss:
        """Least squares, (<w, x> - y)^2 / 2, over weights in a ball around zero.

        Without the ball gradients have no bound: project every step onto it, and give the run
        ``diameter=2 * radius``.

        Args:
            feature_norm: a bound R on the l2 norm of a record's features; 1e-30 to 1e30.
            target_bound: a bound Y on |y|; 1e-30 to 1e30.
            radius: the radius r of the ball; 1e-30 to 1e30.
            regularization: weight of the penalty; 0 (default), or 1e-30 to 1e30.

        Returns:
            The constants: gradients of norm R (R r + Y), smoothness R^2.

        Raises:
            InvalidArgument: a number is out of range.
            WrongType: an argument is not a number.
        """
        norm = positive_scale(feature_norm=feature_norm)
        target, ball = positive_scale(target_bound=target_bound), positive_scale(radius=radius)
        return cls(
            gradient_norm=_up(norm, _up(norm, ball, plus=target)),
            smoothness=_up(norm, norm),
            regularization=regularization,
        )

    def describe(self) -> str:
        """The constants in a few words."""
        if self.smoothness == 0.0:
            kind, bend = "linear", ""
        else:
            kind = "convex" if self.convex else "non-convex"
            bend = f" and smoothness {self.smoothness:.12g}"
        penalty = f", regularization {self.regularization:.12g}" if self.regularization else ""
        return f"{kind} losses with gradients of norm {self.gradient_norm:.12g}{bend}{penalty}"


def _up(*factors: float, plus: float = 0.0) -> float:
    """The smallest double that is at least the product plus the other number."""
    exact = math.prod(map(Fraction, factors)) + Fraction(plus)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


@dataclass(frozen=True)
class LastIterate(BatchQueries[Scheme]):
    """Noisy gradient descent of which only the last model is released.

    Each step takes a batch, sums the gradients of its records, adds Gaussian noise of standard deviation
    noise_multiplier * gradient_norm per coordinate, divides by the batch size B of the plan, and moves:

        w <- w - learning_rate * (noisy sum / B + regularization * w),

    then projects w onto a convex set of the given diameter, if there is one. The start does not depend on
    the data. If it is random and kept secret, say so by ``start_deviation``: the lower side of a known
    start need not hold then. In the worst case over smooth losses a random start hides nothing, so that
    the upper side is the same, except for linear losses.

    The influence of earlier steps fades only if steps contract, which requires a known `loss`. Without
    one, the answer is that of releasing every step, and no better one exists: for some losses, the last
    model alone reveals as much as all steps together.

    Checkpoints, loss curves on training data and averages of iterates are additional releases. A run that
    releases two models is a sequence of two runs, ``first + second``, the second with the steps after the
    first release.

    Args:
        batches: the batch scheme that the run follows. Deterministic (with all records in one batch:
            full-batch descent), shuffled, and Poisson batches with a ``dataset_size`` gain from hidden
            steps; over others the answer is that of releasing every step.
        noise_multiplier: the standard deviation of the noise on the sum, per coordinate and in units of
            the gradient norm; 1e-30 to 1e30.
        learning_rate: the step size; 1e-30 to 1e30. Needed with a loss.
        loss: constants of the loss; None (default) if nothing is known, then leave out the next two.
        diameter: diameter of the set onto which each step is projected; 1e-30 to 1e30, None (default) if
            there is no projection.
        start_deviation: the standard deviation of every coordinate of the start, in the units of the
            parameters, if it is normal with independent coordinates and stays secret; 1e-30 to 1e30, None
            (default) if it is fixed, or nothing is known. The second of two consecutive runs starts where
            the first ended, which is known: leave it out there. Needs a loss, and batches of known size.

    Raises:
        InvalidArgument: a number is out of range, or given where it says nothing.
        WrongType: ``batches`` is not a batch scheme, ``loss`` is not a `SmoothLoss`, or a number
            is not one.

    >>> from sharpdp.batches import DeterministicBatches
    >>> plan = DeterministicBatches(dataset_size=1000, batch_size=1000, epochs=500)
    >>> loss = SmoothLoss.logistic(feature_norm=1.0, regularization=0.1)
    >>> run = LastIterate(plan, noise_multiplier=20.0, learning_rate=1.0, loss=loss)
    >>> run.contraction
    0.9
    """

    batches: Scheme
    learning_rate: float | None = field(default=None, kw_only=True)
    loss: SmoothLoss | None = field(default=None, kw_only=True)
    diameter: float | None = field(default=None, kw_only=True)
    start_deviation: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the loss is known if anything is said about the steps."""
        super().__post_init__()
        check_one_order(self.batches, "DPSGD covers them, with every step released.")
        if self.loss is not None and not isinstance(self.loss, SmoothLoss):
            raise WrongType(
                f"loss must be a SmoothLoss; got {short_repr(self.loss)}. "
                "Try SmoothLoss.logistic(feature_norm=1.0, regularization=0.1)."
            )
        for name in ("learning_rate", "diameter", "start_deviation"):
            value = getattr(self, name)
            if value is None:
                continue
            if self.loss is None:
                raise InvalidArgument(
                    f"{name} must be left out if nothing is known of the loss; got {short_repr(value)}. "
                    "Give loss=SmoothLoss(...), or leave it out."
                )
            object.__setattr__(self, name, positive_scale(**{name: value}))
        if self.loss is not None and self.learning_rate is None:
            raise InvalidArgument(
                "learning_rate must be given with a loss; got None. How much a step contracts depends "
                "on it."
            )
        if self.start_deviation is not None and self.batches.expected_batch_size is None:
            raise InvalidArgument(
                "start_deviation must be left out over batches of unknown size, as the noise of a step "
                f"is not known in its units; got {self.start_deviation:.12g}. Give the batches a "
                "dataset_size."
            )

    @property
    def _group_adjacencies(self) -> tuple[Adjacency, ...]:
        """Without add/remove where large Poisson batches count.

        How likely they are is known for the plan's number of records and one more, not for a group more.
        """
        sampled = isinstance(self.batches, PoissonBatches) and self.batches.dataset_size is not None
        if self.loss is None or not sampled:
            return super()._group_adjacencies
        return tuple(item for item in self.adjacencies if item is not Adjacency.ADD_REMOVE)

    @property
    def contraction(self) -> float:
        """Lipschitz constant of a step on a full batch; below 1 if steps contract, inf if none is known.

        With learning rate h and regularization l, max(|1 - h l|, |1 - h (l + smoothness)|) for convex
        losses, and |1 - h l| + h smoothness for others.
        """
        return self.contraction_of(1.0)

    def contraction_of(self, fullness: float) -> float:
        """Lipschitz constant of a step on a batch that is ``fullness`` times as large as the planned one.

        Args:
            fullness: size of the batch over the constant that sums are divided by; at least 0.

        Returns:
            The constant; infinite if nothing is known of the loss.

        Raises:
            InvalidArgument: ``fullness`` is negative or not finite.
            WrongType: ``fullness`` is not a number.
        """
        fullness = nonnegative(fullness=fullness)
        if self.loss is None or self.learning_rate is None:
            return math.inf
        shrunk = 1.0 - self.learning_rate * self.loss.regularization
        curved = self.learning_rate * self.loss.smoothness * fullness
        if not self.loss.convex:
            return abs(shrunk) + curved
        return max(abs(shrunk), abs(shrunk - curved))

    @property
    def largest_fullness(self) -> float:
        """How many times the planned size a batch may have and contract as much as the penalty does.

        0 where losses are not convex, or where the penalty's own step overshoots.
        """
        if self.loss is None or self.learning_rate is None or not self.loss.convex:
            return 0.0
        shrunk = 1.0 - self.learning_rate * self.loss.regularization
        if self.loss.smoothness == 0.0:
            return math.inf if shrunk >= 0.0 else 0.0
        return max(2.0 * shrunk / (self.learning_rate * self.loss.smoothness), 0.0)

    @property
    def label(self) -> str:
        """The release and its batches, in words."""
        condition = "" if self.loss is not None else ", any loss"
        return f"last iterate, {self.batches.label}{condition}"

    def describe(self) -> str:
        """The mechanism in one line."""
        if self.loss is None:
            setting = "any loss"
        else:
            setting = f"{self.loss.describe()}, learning rate {self.learning_rate:.12g}"
            if self.diameter is not None:
                setting += f", projected onto a set of diameter {self.diameter:.12g}"
            if self.start_deviation is not None:
                setting += f", random start of deviation {self.start_deviation:.12g}"
        return (
            f"last iterate of noisy gradient descent (noise multiplier {self.noise_multiplier:.12g}, "
            f"{setting}, {self.batches.describe()})"
        )

    def parts(self) -> Parts:
        """This run, once."""
        return ((self, 1),)

    def stopped_after(self, steps: int) -> LastIterate[Scheme]:
        """The run ended after ``steps`` steps, its last model then being the one released.

        Over deterministic batches it counts as ended with the epoch, which is no better: the worst record
        is used in the last step. Over shuffled batches of a known loss that is not so, nor for linear
        losses or from a random start, because noise of the rest of the epoch would be missing, or more of
        the start be left: only ends of epochs will do.

        Args:
            steps: number of batches that were used; 1 to ``batches.steps``.

        Returns:
            The same mechanism over a shorter scheme.

        Raises:
            InvalidArgument: ``steps`` is below 1, above the number of steps of the scheme, or within an
                epoch where only its end will do.
            WrongType: ``steps`` is not a number.

        >>> from sharpdp.batches import DeterministicBatches
        >>> plan = DeterministicBatches(dataset_size=10, batch_size=2, epochs=7)
        >>> LastIterate(plan, noise_multiplier=1.0).stopped_after(6).batches.epochs
        2
        """
        shorter = super().stopped_after(steps)
        scheme = self.batches
        if self.loss is None or not isinstance(scheme, ShuffledBatches | DeterministicBatches):
            return shorter
        cases = {
            "over shuffled batches": isinstance(scheme, ShuffledBatches),
            "of linear losses": self.loss.smoothness == 0.0,
            "from a random start": self.start_deviation is not None,
        }
        case = next((words for words, holds in cases.items() if holds), None)
        if case is not None and shorter.batches.steps != steps:
            raise InvalidArgument(
                f"steps must be a multiple of {scheme.steps_per_epoch}, the batches of an epoch, for "
                f"the last iterate {case}; got {short_repr(steps)}. What hides the use of a record is "
                "the rest of its epoch."
            )
        return shorter
