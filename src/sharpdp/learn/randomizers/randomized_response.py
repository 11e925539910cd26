"""Randomized response: one of k categories, reported truthfully or as another one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import count, invalid, real
from sharpdp.errors import InvalidArgument
from sharpdp.learn.randomizers.coin_thresholds import truth_threshold
from sharpdp.learn.randomizers.report import Randomizer
from sharpdp.learn.randomizers.report_codes import FixedLengthCode
from sharpdp.learn.randomizers.validation import codes_of, local_budget, writable
from sharpdp.mechanisms import RandomizedResponse
from sharpdp.randomness.system_stream import WORDS, Floats, Randomness, system_stream_for

__all__ = ["RandomizedAnswers"]


Categories = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RandomizedAnswers(Randomizer):
    """Categories 0 to k - 1: the true one with probability p, each other one with (1 - p) / (k - 1).

        p = E / (E + k - 1) rounded down to a whole number T of 2^-64,   E = e^local_epsilon
        estimate_y = ([report = y] - r) / (p - r),   r = (1 - p) / (k - 1)

    is unbiased for the one-hot vector of the record. Every coin is drawn exactly as stored. Source:
    warner1965 (k = 2), kairouz2016.

    Args:
        local_epsilon: Budget of one report, from 1e-6 to 30.
        categories: Number k of possible answers, from 2 to 10^9.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> coin = RandomizedAnswers(local_epsilon=1.0)
    >>> coin.mechanism
    RandomizedResponse(local_epsilon=1.0, categories=2)
    """

    local_epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        """Check both fields."""
        object.__setattr__(self, "local_epsilon", local_budget(self.local_epsilon))
        number = count(categories=self.categories, least=2, hint="It counts the possible answers.")
        # with more, a 64-bit coin would not tell truth from chance at the smallest budget
        if number > 10**9:
            raise invalid("categories", "at most 10^9", number)
        object.__setattr__(self, "categories", number)

    @cached_property
    def truth(self) -> int:
        """T: the probability of the true answer, in units of 2^-64."""
        return truth_threshold(self.local_epsilon, self.categories)

    @property
    def mechanism(self) -> RandomizedResponse:
        """One report, known exactly up to the rounding of p by 2^-64."""
        return RandomizedResponse(local_epsilon=self.local_epsilon, categories=self.categories)

    @property
    def code(self) -> FixedLengthCode:
        """The number of the category: ceil(log2 k) bits."""
        return FixedLengthCode(self.categories)

    def reports(self, records: ArrayLike, rng: Randomness = None) -> Categories:
        """Reports: one category per record."""
        held = self._categories("records", records)
        source = system_stream_for(rng)
        truthful = source.coins(np.full(len(held), self.truth, dtype=np.uint64))
        others = source.below(self.categories - 1, len(held))
        others += others >= held  # all categories but the record's own, each equally likely
        return np.where(truthful, held, others)

    def estimates(self, reports: ArrayLike) -> Floats:
        """An unbiased one-hot vector per report."""
        codes = self._categories("reports", reports)
        rows = np.full(writable(len(codes), self.categories), -self._other / self._gap)
        rows[np.arange(len(codes)), codes] = (1.0 - self._other) / self._gap
        return rows

    def mean(self, reports: ArrayLike) -> Floats:
        """Unbiased frequencies of the categories among the records."""
        codes = self._categories("reports", reports)
        if not codes.size:
            raise InvalidArgument("reports must be at least one; got none. A mean needs reports.")
        writable(1, self.categories)
        shares = np.bincount(codes, minlength=self.categories) / codes.size
        frequencies: Floats = (shares - self._other) / self._gap
        return frequencies

    @property
    def largest_variance(self) -> float:
        """(p (1 - p) + (k - 1) r (1 - r)) / (p - r)^2, for every record."""
        p, r = self.truth / WORDS, self._other
        rest = (WORDS - self.truth) / WORDS
        return (p * rest + (self.categories - 1) * r * (1.0 - r)) / self._gap**2

    def variance(self, records: ArrayLike) -> Floats:
        """Variance of the estimate, the same for every record."""
        return np.full(len(self._categories("records", records)), self.largest_variance)

    def standard_error(self, *, users: int, share: float | None = None) -> float:
        """Standard error of the share of one category that ``mean`` estimates from the reports of users.

            sqrt(a (1 - a) / users) / (p - r),   a = r + share (p - r)

        is the probability that a report names the category. The users are a random sample of those about
        whom the share is estimated: both their choice and their coins are in it.

        Args:
            users: Number of reports, at least 1.
            share: True share of the category, in [0, 1]; None for the share with the largest error.

        Returns:
            The standard error; about 95% of estimates are within two of them.

        Raises:
            InvalidArgument: An argument is out of range.
            WrongType: An argument is no number.

        >>> answers = RandomizedAnswers(local_epsilon=4.8, categories=6)
        >>> round(2 * answers.standard_error(users=5000, share=0.45), 3)
        0.015
        """
        number = count(users=users, hint="It counts reports.")
        if share is None:  # the variance a (1 - a) is largest where a is nearest to one half
            named = min(max(0.5, self._other), self.truth / WORDS)
        else:
            if not 0.0 <= real(share=share) <= 1.0:
                raise invalid("share", "in [0, 1]", share)
            named = self._other + float(share) * self._gap
        return math.sqrt(named * (1.0 - named) / number) / self._gap

    @property
    def _other(self) -> float:
        """The probability r of one certain other answer."""
        return (WORDS - self.truth) / (WORDS * (self.categories - 1))

    @property
    def _gap(self) -> float:
        """p - r, from whole numbers, so that nothing cancels."""
        rest = WORDS - self.truth
        others = self.categories - 1
        return (self.truth * others - rest) / (WORDS * others)

    def _categories(self, name: str, values: ArrayLike) -> Categories:
        """Whole numbers from 0 to k - 1 in one dimension, or an error."""
        hint = f"Pass one whole number from 0 to {self.categories - 1} per client."
        codes = codes_of(name, values, hint)
        bad = np.count_nonzero((codes < 0) | (codes >= self.categories))
        if bad:
            raise InvalidArgument(
                f"{name} must be from 0 to {self.categories - 1}; got {bad} that are not. {hint}"
            )
        return codes
