"""A number with normal noise whose place on the line is known, so that it can be mixed with others."""

from dataclasses import dataclass

from sharpdp._validate import invalid, positive_scale, real
from sharpdp.mechanisms.composed import ANY_SAMPLES, NO_NOISE, Mechanism

__all__ = ["NormalPair"]


@dataclass(frozen=True, kw_only=True)
class NormalPair(Mechanism):
    """A number that is N(mean, deviation^2) with the record, N(other_mean, other_deviation^2) without.

    On its own, with equal deviations, it is Gaussian noise. In a `Mixture` whose index is hidden it
    matters where the means lie, which `Gaussian` does not say.

    Args:
        mean: the mean with the record; at most 10^6 times the smaller deviation in absolute value.
        other_mean: the mean without the record, with the same range; 0 by default.
        deviation: the standard deviation with the record; 1e-30 to 1e30, 1 by default.
        other_deviation: the standard deviation without the record; None (default) if it is the same.

    Raises:
        InvalidArgument: a value is out of range.
        WrongType: a value is not a number.

    >>> NormalPair(mean=1).describe()
    'normal pair (mean 1, other mean 0, deviation 1)'
    """

    mean: float
    other_mean: float = 0.0
    deviation: float = 1.0
    other_deviation: float | None = None

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check means and deviations; the other deviation is the same unless it is given."""
        deviation = positive_scale(deviation=self.deviation, hint=NO_NOISE)
        other = self.other_deviation
        other = deviation if other is None else positive_scale(other_deviation=other, hint=NO_NOISE)
        for name in ("mean", "other_mean"):
            value = real(**{name: getattr(self, name)})
            # means beyond this, in units of a deviation, lose the digits that a comparison needs
            if abs(value) > 1e6 * min(deviation, other):
                raise invalid(name, "at most 10^6 deviations from 0", value, "Shift both means.")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "deviation", deviation)
        object.__setattr__(self, "other_deviation", other)

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "normal pair"

    def describe(self) -> str:
        """The mechanism in one line."""
        numbers = f"mean {self.mean:.12g}, other mean {self.other_mean:.12g}"
        other = f", other deviation {self.other_deviation:.12g}"
        same = self.other_deviation == self.deviation
        return f"normal pair ({numbers}, deviation {self.deviation:.12g}{'' if same else other})"
