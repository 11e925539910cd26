"""Audit of a loader: do its index batches follow the batch scheme that is accounted?

Every test is exact or conservative: what a scheme promises without exception is checked as such, counts
are held against their binomial law, batches against uniformly random sets of their size, and many of
them together by the union bound. Holm's method combines the tests, so that a loader that follows its
scheme is called inconsistent with at most the stated probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import has_entries, invalid, open_probability, short_repr
from sharpdp.audit.findings import Finding, TestedClaim, certain, judged
from sharpdp.audit.tails import (
    binomial_at_least,
    binomial_at_most,
    two_sided_binomial,
    urn_tail,
)
from sharpdp.batches import (
    BallsAndBins,
    BatchScheme,
    BufferedShuffle,
    CyclicPoissonBatches,
    DeterministicBatches,
    FixedSizeBatches,
    PoissonBatches,
    RandomAllocation,
    ShuffledBatches,
    TruncatedPoissonBatches,
    WeightedPoissonBatches,
)
from sharpdp.batches.scheme import Indices, batches_per_epoch
from sharpdp.display.notebook import Shown
from sharpdp.display.outward_digits import FEW, ROUND_CEILING, in_digits
from sharpdp.errors import InvalidArgument, SharpDPError, Unsupported, WrongType
from sharpdp.mechanisms import MinSeparation
from sharpdp.numerics.special import Array
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import Guarantee

__all__ = ["SamplerAudit", "sampler"]

MOST_PAIRS = 4_000_000
"""Pairs of batches that are compared; of a longer run, only those a few distances apart."""

GROUPS = 32
"""Stretches of the data set in which batches should be spread evenly."""


@dataclass(frozen=True, repr=False)
class SamplerAudit(Shown, TestedClaim):
    """The result of testing whether the batches of a loader follow the stated scheme.

    Attributes:
        scheme: The scheme.
        false_alarm: The probability with which batches of this very scheme are called inconsistent, at
            most.
        p_value: The p-value of all tests together.
        findings: Every test, the most surprising first.
        fits: Descriptions of other schemes that the batches could follow.
    """

    scheme: BatchScheme
    false_alarm: float
    p_value: float
    findings: tuple[Finding, ...]
    fits: tuple[str, ...]

    def __str__(self) -> str:
        """The verdict, what failed, and what fits."""
        verdict = "consistent with" if self.consistent else "NOT"
        chance = in_digits(self.p_value, ROUND_CEILING, FEW)
        lines = [
            f"Batches: {verdict} {self.scheme.describe()} (p-value at most {chance}, false "
            f"alarms at most {self.false_alarm:g})"
        ]
        lines += self._failures()
        if not self.consistent:
            lines.append(
                f"These could be {' or '.join(self.fits)}."
                if self.fits
                else "No known scheme fits."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, for JSON.

        Returns:
            A dictionary of numbers, text and lists.
        """
        return {
            "title": "Sampler audit",
            "scheme": self.scheme.describe(),
            "consistent": self.consistent,
            "p_value": self.p_value,
            "false_alarm": self.false_alarm,
            "findings": [finding.to_dict() for finding in self.findings],
            "fits": list(self.fits),
        }

    def summary(self, guarantee: Guarantee) -> dict[str, Any]:
        """The account of this audit in a report on a guarantee.

        Args:
            guarantee: The guarantee that is reported.

        Returns:
            The title, whether it is consistent, and sentences.

        Raises:
            InvalidArgument: the batches were held against another scheme than that of the guarantee.
        """
        if getattr(guarantee.mechanism, "batches", None) != self.scheme:
            raise InvalidArgument(
                f"audits must be of the run that is reported; got one of {self.scheme.describe()}."
            )
        first, *others = str(self).splitlines()
        sentences = [first.removeprefix("Batches: "), *(line.removeprefix("- ") for line in others)]
        return {
            "title": "Audit (batches)",
            "consistent": self.consistent,
            "sentences": [f"{sentence.rstrip('.')}." for sentence in sentences],
        }


@underflow_is_zero
def sampler(
    *,
    batches: Iterable[Sequence[int] | Indices],
    scheme: BatchScheme,
    false_alarm: float = 0.01,
) -> SamplerAudit:
    """Test the index batches of a loader against a batch scheme, and say which other scheme fits.

    Sizes, marginal rates, how often an example comes in an epoch, what two batches share, and whether
    position in the data set matters. Pass one batch for each step from the first on, as the positions
    of its examples; of several workers, all that one step of all of them used, as one batch. A run may
    be cut short.

    Args:
        batches: The batches in the order of the steps, empty ones included.
        scheme: The scheme that is accounted, with its dataset_size; or a `MinSeparation`, whose promise
            is then checked.
        false_alarm: Probability, in (0, 1), with which a loader that follows the scheme may be called
            inconsistent.

    Returns:
        The result: `consistent`, `p_value`, `findings`, and `fits`.

    Raises:
        InvalidArgument: there are no batches or too many, or the scheme has no dataset_size.
        WrongType: scheme is no batch scheme, or a batch is no list of positions.
        Unsupported: nothing is known about batches of this scheme.

    >>> import sharpdp as dp
    >>> loader = dp.ShuffledBatches(dataset_size=1000, batch_size=100, epochs=5)
    >>> claimed = dp.PoissonBatches(dataset_size=1000, batch_size=100, epochs=5)
    >>> result = sampler(batches=loader.batches(0), scheme=claimed)
    >>> result.consistent, result.fits[0]
    (False, 'shuffled batches')
    """
    level = open_probability(false_alarm=false_alarm)
    untyped: object = scheme
    if isinstance(untyped, type) or not isinstance(untyped, BatchScheme):
        raise WrongType(f"scheme must be a batch scheme; got {short_repr(untyped)}.")
    if isinstance(scheme, MinSeparation):
        drawn = Drawn.of(batches, None)
    elif scheme.dataset_size is None:
        raise InvalidArgument(
            "scheme must have a dataset_size to be held against batches; got None."
        )
    else:
        drawn = Drawn.of(batches, scheme.dataset_size)
    if len(drawn.sizes) > scheme.steps:
        raise invalid("batches", f"at most the {scheme.steps} of the scheme", len(drawn.sizes))
    findings, p_value = judged(_tests(drawn, scheme), level)
    fits: tuple[str, ...] = ()
    if any(finding.failed for finding in findings) and scheme.dataset_size is not None:
        fits = tuple(
            dict.fromkeys(
                other.label
                for other in _others(drawn, scheme)
                if not any(finding.failed for finding in judged(_tests(drawn, other), level)[0])
            )
        )
    return SamplerAudit(scheme, level, p_value, findings, fits)


@dataclass(frozen=True, eq=False)
class Drawn:
    """The batches of a run as one list of positions, cut by their sizes."""

    examples: Indices
    sizes: NDArray[np.int64]
    dataset_size: int

    @classmethod
    def of(cls, batches: object, dataset_size: int | None) -> Drawn:
        """The batches, checked: lists of whole numbers, at least one batch; None for as many as come."""
        if not has_entries(batches):
            raise WrongType(f"batches must be lists of positions; got {short_repr(batches)}.")
        arrays = []
        for step, batch in enumerate(batches):
            array = np.asarray(batch)
            if array.size == 0:
                array = np.zeros(0, dtype=np.int64)
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise WrongType(
                    f"batches must be lists of positions; got {short_repr(batch)} in step {step}."
                )
            arrays.append(array.astype(np.int64))
        if not arrays:
            raise invalid("batches", "at least one", 0)
        sizes = np.array([array.size for array in arrays], dtype=np.int64)
        examples = np.concatenate(arrays)
        if dataset_size is None:
            dataset_size = int(examples.max(initial=0)) + 1
        return cls(examples, sizes, dataset_size)

    @property
    def steps(self) -> NDArray[np.int64]:
        """For every example that was drawn, in which step."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def counts(self, steps_per_epoch: int, epochs: int) -> NDArray[np.int64]:
        """How often each example was drawn in each of the first epochs: a row for each epoch."""
        epoch = self.steps // steps_per_epoch
        inside = epoch < epochs
        flat = epoch[inside] * self.dataset_size + self.examples[inside]
        table = np.bincount(flat, minlength=epochs * self.dataset_size)
        return table.reshape(epochs, self.dataset_size)

    @property
    def within(self) -> bool:
        """Whether all positions are in the data set."""
        return bool(np.all((self.examples >= 0) & (self.examples < self.dataset_size)))

    @property
    def repeated(self) -> int:
        """How many entries of batches repeat one of the same batch."""
        keys = self.steps * np.int64(self.dataset_size) + self.examples
        return int(keys.size - np.unique(keys).size)


# --- tests ------------------------------------------------------------------------------------------


def _tests(drawn: Drawn, scheme: BatchScheme) -> list[Finding]:
    """All tests that the scheme allows."""
    if not drawn.within:
        worst = int(drawn.examples[np.argmax(np.abs(drawn.examples))])
        return [certain("positions", f"position {worst} is not in the data set", holds=False)]
    with_replacement = isinstance(scheme, FixedSizeBatches) and scheme.replacement
    findings = [] if with_replacement else [_distinct(drawn)]
    if drawn.repeated and not with_replacement:
        return findings  # the other tests speak about sets
    if isinstance(scheme, PoissonBatches):
        return findings + _poisson(drawn, np.array(scheme.sample_rate))
    if isinstance(scheme, WeightedPoissonBatches):
        return findings + _poisson(drawn, scheme.rates)
    if isinstance(scheme, TruncatedPoissonBatches):
        return findings + _truncated(drawn, scheme)
    if isinstance(scheme, CyclicPoissonBatches):
        return findings + _cyclic(drawn, scheme)
    if isinstance(scheme, FixedSizeBatches):
        return findings + _fixed_size(drawn, scheme)
    if isinstance(scheme, BallsAndBins):
        return findings + _allocated(drawn, scheme.bins, 1, kept=scheme.order == "kept")
    if isinstance(scheme, RandomAllocation):
        return findings + _allocated(drawn, scheme.steps_per_epoch, scheme.participations)
    if isinstance(scheme, ShuffledBatches):
        return findings + _shuffled(drawn, scheme)
    if isinstance(scheme, DeterministicBatches | BufferedShuffle):
        return findings + _stored_order(drawn, scheme)
    if isinstance(scheme, MinSeparation):
        return findings + _separated(drawn, scheme)
    raise Unsupported(f"no test is known for {scheme.label}.")


def _separated(drawn: Drawn, scheme: MinSeparation) -> list[Finding]:
    """How often an example comes at most, and how soon again at least."""
    order = np.lexsort((drawn.steps, drawn.examples))
    examples, steps = drawn.examples[order], drawn.steps[order]
    gaps = np.diff(steps)[np.diff(examples) == 0]
    nearest = int(gaps.min(initial=scheme.steps))
    most = int(np.bincount(drawn.examples, minlength=1).max())
    planned = scheme.participations or 0
    uses = f"an example comes {most:,} times, where {planned:,} are allowed"
    again = (
        f"an example comes again after {nearest:,} steps, where {scheme.separation:,} are needed"
    )
    return [
        certain("participations", uses, holds=most <= planned),
        certain("separation", again, holds=nearest >= scheme.separation),
    ]


def _distinct(drawn: Drawn) -> Finding:
    repeated = drawn.repeated
    sentence = "no example comes twice in a step"
    if repeated:
        sentence = (
            f"{repeated:,} times an example comes again in the same step; workers that draw the same "
            "batches do that"
        )
    return certain("repetition in a step", sentence, holds=not repeated)


def _poisson(drawn: Drawn, rates: Array) -> list[Finding]:
    """Independent coins of one rate, or of a rate for each example."""
    steps, examples = drawn.sizes.size, drawn.dataset_size
    each = np.broadcast_to(rates, (examples,))
    total = drawn.counts(steps, 1)[0]
    largest = float(np.max(each))
    equal = np.ndim(rates) == 0
    findings = [_marginals(total, steps, each)]
    if equal:
        rate = float(largest)
        findings += [
            _spread_evenly(drawn),
            _overlaps(drawn),
            _total(int(drawn.sizes.sum()), examples * steps, rate),
            *_size_law(drawn.sizes, examples, rate),
            *_epoch_counts(drawn, rate),
        ]
    else:
        never = bool(np.all(total[each == 0.0] == 0))
        findings.append(certain("examples of rate 0", "those of weight 0 never come", holds=never))
        findings += [_overlaps(drawn, largest_rate=largest), _by_rate(total, steps, each)]
    return findings


def _by_rate(total: NDArray[np.int64], steps: int, rates: Array) -> Finding:
    """Whether examples of about one rate come as often together as they should.

    A sum of coins of different rates has tails below Chernoff's bound for their mean rate.

    Source: hoeffding1963 Theorem 1.
    """
    groups = np.array_split(np.argsort(rates, kind="stable"), min(8, rates.size))
    best, sentence = 1.0, ""
    for group in groups:
        trials, mean = float(steps * group.size), float(np.mean(rates[group]))
        drawn = float(np.sum(total[group]))
        tails = urn_tail(drawn, trials, mean), urn_tail(trials - drawn, trials, 1.0 - mean)
        p_value = min(2.0 * len(groups) * float(min(tails)), 1.0)
        if p_value <= best:
            best = p_value
            sentence = (
                f"{group.size:,} examples of rates about {mean:.3g} come {int(drawn):,} times; "
                f"{trials * mean:,.1f} are expected"
            )
    return Finding("rates by weight", best, sentence)


def _total(drawn: int, trials: int, rate: float) -> Finding:
    p_value = float(two_sided_binomial(drawn, trials, rate))
    sentence = f"batches hold {drawn:,} examples together; {trials * rate:,.1f} are expected"
    return Finding("sample rate", p_value, sentence)


def _size_law(sizes: NDArray[np.int64], trials: int, rate: float) -> list[Finding]:
    """Sizes that are binomial each: none too far out, and not all too near.

    Sizes that are independent, or parts of a multinomial, are all at most a number with no larger chance
    than if they were independent.
    """
    steps = sizes.size
    low, high = int(np.min(sizes)), int(np.max(sizes))
    tails = [binomial_at_most(low, trials, rate), binomial_at_least(high, trials, rate)]
    far = min(2.0 * steps * float(np.min(tails)), 1.0)
    all_below = float(binomial_at_most(high, trials, rate)) ** steps
    all_above = float(binomial_at_least(low, trials, rate)) ** steps
    near = min(2.0 * min(all_below, all_above) * (1.0 + 1e-9), 1.0)
    words = f"sizes are {low:,} to {high:,}; binomial ones of mean {trials * rate:,.1f} vary"
    return [
        Finding("largest and smallest size", far, f"{words} less"),
        Finding("sizes that vary too little", near, f"{words} more"),
    ]


def _marginals(total: NDArray[np.int64], steps: int, rates: Array) -> Finding:
    """How often each example was drawn, over the whole run."""
    tails = two_sided_binomial(total, steps, rates)
    example = int(np.argmin(tails))
    p_value = min(total.size * float(tails[example]), 1.0)
    sentence = (
        f"example {example} is in {total[example]:,} of {steps:,} batches; "
        f"{steps * float(rates[example]):,.1f} are expected"
    )
    return Finding("marginal rates", p_value, sentence)


def _epoch_counts(drawn: Drawn, rate: float) -> list[Finding]:
    """How many examples miss an epoch, and how many come twice in one: independent coins for each."""
    per_epoch = max(round(1.0 / rate), 1)
    epochs = drawn.sizes.size // per_epoch
    if epochs == 0:
        per_epoch, epochs = drawn.sizes.size, 1
    counts = drawn.counts(per_epoch, epochs)
    trials = counts.size
    findings = []
    for test, seen, chance in (
        ("missing an epoch", counts == 0, float(binomial_at_most(0, per_epoch, rate))),
        ("twice in an epoch", counts >= 2, float(binomial_at_least(2, per_epoch, rate))),
    ):
        number = int(np.count_nonzero(seen))
        # the chance is known to a part in 10^9, and the count need not be
        p_value = min(float(two_sided_binomial(number, trials, min(chance, 1.0))) * 1.01, 1.0)
        sentence = (
            f"{number:,} of {trials:,} times in a stretch of {per_epoch} steps; "
            f"{trials * chance:,.1f} are expected"
        )
        findings.append(Finding(test, p_value, sentence))
    return findings


def _spread_evenly(drawn: Drawn) -> Finding:
    """Whether each batch is spread over the data set like a random set of its size."""
    examples = drawn.dataset_size
    groups = min(GROUPS, examples)
    group = drawn.examples * groups // examples
    table = np.bincount(drawn.steps * groups + group, minlength=drawn.sizes.size * groups)
    counts = table.reshape(drawn.sizes.size, groups)
    members = np.bincount(np.arange(examples) * groups // examples, minlength=groups)
    share = members / examples
    sizes = drawn.sizes[:, None]
    above = urn_tail(counts, sizes, share)
    below = urn_tail(sizes - counts, sizes, 1.0 - share)
    tails = np.minimum(above, below)
    cell = np.unravel_index(int(np.argmin(tails)), tails.shape)
    p_value = min(2.0 * tails.size * float(np.min(tails)), 1.0)
    sentence = (
        f"batch {cell[0]} has {counts[cell]:,} of its {drawn.sizes[cell[0]]:,} examples in part "
        f"{cell[1] + 1} of {groups} of the data set"
    )
    return Finding("order of the data set", p_value, sentence)


def _overlaps(drawn: Drawn, apart: int = 1, largest_rate: float | None = None) -> Finding:
    """Whether two batches share too many examples for independent random sets of their sizes.

    `apart` is the number of steps in an epoch if batches of one epoch are disjoint: only batches of
    different epochs are compared then. With a largest rate, examples of the one come into the other by
    coins of at most that rate.
    """
    steps = drawn.sizes.size
    shared, first, second = _shared_examples(drawn, apart)
    pairs = steps * steps // 2
    if shared.size == 0:
        return Finding("batches that share examples", 1.0, "no two batches could be compared")
    share = drawn.sizes[second] / drawn.dataset_size
    if largest_rate is not None:
        share = np.full(shared.size, largest_rate)
    tails = urn_tail(shared, drawn.sizes[first].astype(float), share)
    pair = int(np.argmin(tails))
    p_value = min(pairs * float(tails[pair]), 1.0)
    expected = drawn.sizes[first[pair]] * share[pair]
    sentence = (
        f"steps {first[pair]} and {second[pair]} share {int(shared[pair]):,} examples; "
        f"{expected:,.1f} are expected"
    )
    return Finding("batches that share examples", p_value, sentence)


def _shared_examples(
    drawn: Drawn, apart: int
) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """How many examples pairs of steps share, and which pairs: all, or those at some distances."""
    steps = drawn.sizes.size
    wanted = np.ones(steps, dtype=bool)
    if steps * steps > 2 * MOST_PAIRS:
        most = max(MOST_PAIRS // steps, 2)
        wanted[most // 2 :] = False
        wanted[::apart] |= apart > 1
    order = np.argsort(drawn.examples, kind="stable")
    example, step = drawn.examples[order], drawn.steps[order]
    # each appearance of an example with each later one: distance in the list by 1, 2, ...
    keys = []
    for lag in range(1, int(np.max(np.bincount(example, minlength=1), initial=0))):
        same = example[lag:] == example[:-lag]
        early, late = step[:-lag][same], step[lag:][same]
        chosen = wanted[late - early] & (late // apart > early // apart if apart > 1 else True)
        keys.append(early[chosen] * steps + late[chosen])
    if not keys:
        empty = np.zeros(0, dtype=np.int64)
        return np.zeros(0), empty, empty
    pairs, shared = np.unique(np.concatenate(keys), return_counts=True)
    return shared.astype(np.float64), pairs // steps, pairs % steps


def _fixed_size(drawn: Drawn, scheme: FixedSizeBatches) -> list[Finding]:
    right = bool(np.all(drawn.sizes == scheme.batch_size))
    low, high = int(np.min(drawn.sizes)), int(np.max(drawn.sizes))
    sizes = certain(
        "sizes", f"sizes are {low:,} to {high:,}; all are {scheme.batch_size:,}", holds=right
    )
    total = drawn.counts(drawn.sizes.size, 1)[0]
    if scheme.replacement:
        shares = np.full(scheme.dataset_size, 1.0 / scheme.dataset_size)
        if scheme.weights is not None:
            weights = np.array(scheme.weights)
            shares = weights / np.sum(weights)
        draws = int(drawn.sizes.sum())
        repeats = _draws_repeat(drawn, shares)
        return [sizes, _marginals(total, draws, shares), *repeats]
    rate = scheme.batch_size / scheme.dataset_size
    rates = np.full(scheme.dataset_size, rate)
    return [
        sizes,
        _marginals(total, drawn.sizes.size, rates),
        _spread_evenly(drawn),
        _overlaps(drawn),
        *_coverage(drawn, scheme.dataset_size, rate),
    ]


def _draws_repeat(drawn: Drawn, shares: Array) -> list[Finding]:
    """Whether neighbors among the draws of a batch are as often equal as independent ones are."""
    chance = float(np.sum(shares * shares))
    size = int(np.min(drawn.sizes))
    if size < 2:
        return []
    # batches come sorted, so that only the number of distinct examples tells: one batch of two draws
    # is a repetition with this chance, and larger ones have at most the sum over pairs
    keys = drawn.steps * np.int64(drawn.dataset_size) + drawn.examples
    without = int(
        np.count_nonzero(
            np.bincount(np.unique(keys) // drawn.dataset_size, minlength=drawn.sizes.size)
            == drawn.sizes
        )
    )
    pairs = size * (size - 1) / 2.0
    # P[all distinct] <= exp(-pairs * chance) for equal shares, and less for others
    limit = float(np.exp(-pairs * chance * (1.0 - 1e-9))) if np.ptp(shares) == 0.0 else 1.0
    p_value = float(binomial_at_least(without, drawn.sizes.size, limit))
    sentence = f"{without:,} of {drawn.sizes.size:,} batches have no example twice"
    return [Finding("draws with replacement", p_value, sentence)]


def _coverage(drawn: Drawn, examples: int, rate: float) -> list[Finding]:
    """Whether a stretch of one epoch leaves out too few examples for independent sets of one size.

    An example is left out of a stretch of k steps with chance (1 - rate)^k. Within a stretch these events
    are negatively associated, so that Chernoff's bound holds.
    """
    per_epoch = max(round(1.0 / rate), 1)
    epochs = drawn.sizes.size // per_epoch
    if epochs == 0 or per_epoch < 2:
        return []
    left_out = int(np.count_nonzero(drawn.counts(per_epoch, epochs) == 0))
    chance = (1.0 - rate) ** per_epoch
    trials = examples * epochs
    p_value = float(urn_tail(trials - left_out, float(trials), 1.0 - chance))
    sentence = (
        f"{left_out:,} of {trials:,} times an example misses a stretch of {per_epoch} steps; "
        f"{trials * chance:,.1f} are expected"
    )
    return [Finding("missing an epoch", p_value, sentence)]


def _truncated(drawn: Drawn, scheme: TruncatedPoissonBatches) -> list[Finding]:
    most = scheme.physical_batch_size
    fits = bool(np.all(drawn.sizes <= most))
    high = int(np.max(drawn.sizes))
    examples, rate, steps = scheme.dataset_size, scheme.sample_rate, drawn.sizes.size
    low = int(np.min(drawn.sizes))
    far = min(steps * float(binomial_at_most(low, examples, rate)), 1.0)
    near = 1.0 if high >= most else float(binomial_at_most(high, examples, rate)) ** steps
    above = float(binomial_at_least(low, examples, rate)) ** steps
    small, varied = (f"the smallest batch has {low:,} examples", f"sizes are {low:,} to {high:,}")
    return [
        certain(
            "largest size",
            f"the largest batch has {high:,} of at most {most:,} examples",
            holds=fits,
        ),
        Finding("smallest size", far, small),
        Finding("sizes that vary too little", min(2.0 * min(near, above), 1.0), varied),
        _spread_evenly(drawn),
        _overlaps(drawn),
    ]


def _cyclic(drawn: Drawn, scheme: CyclicPoissonBatches) -> list[Finding]:
    groups, rate = scheme.cycle_length, scheme.sample_rate
    turn = bool(np.all(drawn.examples % groups == drawn.steps % groups))
    findings = [certain("turns", "every example comes in the turns of its group only", holds=turn)]
    steps = drawn.sizes.size
    members = np.array(
        [-(-(drawn.dataset_size - step % groups) // groups) for step in range(steps)]
    )
    findings.append(_total(int(drawn.sizes.sum()), int(members.sum()), rate))
    tails = np.minimum(
        binomial_at_most(drawn.sizes, members, rate), binomial_at_least(drawn.sizes, members, rate)
    )
    far = min(2.0 * steps * float(np.min(tails)), 1.0)
    words = f"sizes are {int(np.min(drawn.sizes)):,} to {int(np.max(drawn.sizes)):,}"
    findings.append(Finding("largest and smallest size", far, words))
    turns = -(-(steps - np.arange(drawn.dataset_size) % groups) // groups)
    total = drawn.counts(steps, 1)[0]
    tails = two_sided_binomial(total, np.maximum(turns, 1), rate)
    example = int(np.argmin(tails))
    p_value = min(total.size * float(tails[example]), 1.0)
    sentence = f"example {example} comes in {total[example]:,} of {int(turns[example]):,} turns"
    return [*findings, Finding("marginal rates", p_value, sentence)]


def _allocated(
    drawn: Drawn, bins: int, participations: int, *, kept: bool = False
) -> list[Finding]:
    """Every example chooses some steps of every epoch by itself."""
    findings, epochs = _once(drawn, bins, participations, "exactly")
    rate = participations / bins
    whole = drawn.sizes[: max(epochs, 1) * bins]
    independent = whole[:bins] if kept else whole
    if rate < 1.0:
        findings += _size_law(independent, drawn.dataset_size, rate)
        first = drawn if not kept else _first(drawn, bins)
        findings.append(_spread_evenly(first))
    if kept:
        return [*findings, _same_batches(drawn, bins)]
    if epochs > 1 and rate < 1.0:
        findings += [_overlaps(drawn, bins), *_same_places(drawn, bins, participations, epochs)]
    return findings


def _once(
    drawn: Drawn, steps_per_epoch: int, participations: int, often: str
) -> tuple[list[Finding], int]:
    """Whether every example comes as often in every whole epoch as it should, and how many there are."""
    epochs = drawn.sizes.size // steps_per_epoch
    extra_steps = drawn.sizes.size % steps_per_epoch
    counts = drawn.counts(steps_per_epoch, epochs + (extra_steps > 0))
    whole, begun = counts[:epochs], counts[epochs:]
    right = bool(np.all(begun <= participations))
    right &= bool(
        np.all(whole == participations if often == "exactly" else whole <= participations)
    )
    odd = int(np.count_nonzero(whole != participations) + np.count_nonzero(begun > participations))
    words = (
        f"every example comes {often} {participations} times in every epoch"
        if right
        else f"{odd:,} times an example does not come {often} {participations} times in an epoch"
    )
    return [certain("repetition in an epoch", words, holds=right)], epochs


def _same_places(drawn: Drawn, bins: int, participations: int, epochs: int) -> list[Finding]:
    """Whether examples choose the same step again in the next epoch as often as chance has it."""
    if participations != 1:
        return []
    step = np.empty((epochs, drawn.dataset_size), dtype=np.int64)
    inside = drawn.steps < epochs * bins
    step[drawn.steps[inside] // bins, drawn.examples[inside]] = drawn.steps[inside] % bins
    pairs = epochs // 2  # disjoint ones, so that all are independent
    same = int(np.count_nonzero(step[0 : 2 * pairs : 2] == step[1 : 2 * pairs : 2]))
    trials = pairs * drawn.dataset_size
    p_value = float(two_sided_binomial(same, trials, 1.0 / bins))
    sentence = (
        f"{same:,} of {trials:,} times an example has the same place in the next epoch; "
        f"{trials / bins:,.1f} are expected"
    )
    return [Finding("independence of epochs", p_value, sentence)]


def _first(drawn: Drawn, steps: int) -> Drawn:
    """The first steps only."""
    sizes = drawn.sizes[:steps]
    return Drawn(drawn.examples[: int(sizes.sum())], sizes, drawn.dataset_size)


def _same_batches(drawn: Drawn, steps_per_epoch: int) -> Finding:
    """Whether every epoch has the batches of the first one."""
    edges = np.append(0, np.cumsum(drawn.sizes))
    same = True
    for step in range(steps_per_epoch, drawn.sizes.size):
        now = drawn.examples[edges[step] : edges[step + 1]]
        origin = step % steps_per_epoch
        before = drawn.examples[edges[origin] : edges[origin + 1]]
        same = same and np.array_equal(np.sort(now), np.sort(before))
    words = "every epoch has the batches of the first" if same else "epochs differ"
    return certain("kept order", words, holds=same)


def _partition(drawn: Drawn, examples: int, batch_size: int, epochs_steps: int) -> Finding:
    """Whether batches have the sizes of slices of an epoch."""
    expected = np.full(epochs_steps, batch_size)
    expected[-1] = examples - batch_size * (epochs_steps - 1)
    whole = np.tile(expected, -(-drawn.sizes.size // epochs_steps))[: drawn.sizes.size]
    right = bool(np.array_equal(drawn.sizes, whole))
    low, high = int(np.min(drawn.sizes)), int(np.max(drawn.sizes))
    return certain(
        "sizes", f"sizes are {low:,} to {high:,}; slices have {batch_size:,}", holds=right
    )


def _shuffled(drawn: Drawn, scheme: ShuffledBatches) -> list[Finding]:
    steps = scheme.steps_per_epoch
    examples = scheme.examples_per_epoch
    findings = [_partition(drawn, examples, scheme.batch_size, steps)]
    often = "exactly" if examples == scheme.dataset_size else "at most"
    findings += _once(drawn, steps, 1, often)[0]
    if scheme.order == "kept":
        return [*findings, _same_batches(drawn, steps), _spread_evenly(_first(drawn, steps))]
    return [*findings, _spread_evenly(drawn), _overlaps(drawn, steps)]


def _stored_order(drawn: Drawn, scheme: DeterministicBatches | BufferedShuffle) -> list[Finding]:
    steps = scheme.steps_per_epoch
    findings = [_partition(drawn, scheme.dataset_size, scheme.batch_size, steps)]
    findings += _once(drawn, steps, 1, "exactly")[0]
    position = drawn.steps % steps
    if isinstance(scheme, DeterministicBatches):
        if scheme.seed is not None:
            return findings
        right = bool(np.all(drawn.examples // scheme.batch_size == position))
        return [
            *findings,
            certain("stored order", "batches are slices of the stored order", holds=right),
        ]
    # an example leaves the buffer at place i - buffer_size + 1 or later; a batch ends at its last place
    last = (position + 1) * scheme.batch_size - 1
    right = bool(np.all(last >= drawn.examples - scheme.buffer_size + 1))
    words = "no example comes before the buffer could have held it"
    findings.append(certain("reach of the buffer", words, holds=right))
    if scheme.buffer_size >= scheme.dataset_size:
        return [*findings, _spread_evenly(drawn), _overlaps(drawn, steps)]
    return [*findings, *_through_buffer(drawn, scheme)]


def _through_buffer(drawn: Drawn, scheme: BufferedShuffle) -> list[Finding]:
    """Whether examples leave the buffer as early as chance has it.

    The example at position e takes the slot that output e - buffer_size left, and each of the next
    buffer_size outputs, up to output e, is from that slot with chance 1 / buffer_size. For examples that
    are buffer_size or more apart these draws are different ones, so that all this is independent.
    """
    slots, steps, size = scheme.buffer_size, scheme.steps_per_epoch, scheme.batch_size
    epochs = drawn.sizes.size // steps
    apart = -(-slots // size)
    edges = np.arange(max(apart, 1), (scheme.dataset_size - slots) // size + 1, apart)
    if slots < 2 or not edges.size or not epochs:
        return []
    inside = drawn.steps < epochs * steps
    step_of = np.empty((epochs, scheme.dataset_size), dtype=np.int64)
    step_of[drawn.steps[inside] // steps, drawn.examples[inside]] = drawn.steps[inside] % steps
    early = int(np.count_nonzero(step_of[:, edges * size - 1] < edges))
    trials = epochs * edges.size
    # the last example before an edge has been output by then
    chance = 1.0 - (1.0 - 1.0 / slots) ** slots
    p_value = float(two_sided_binomial(early, trials, chance))
    sentence = (
        f"{early:,} of {trials:,} times an example leaves a buffer of {slots:,} slots as soon as "
        f"others fill it; {trials * chance:,.1f} are expected"
    )
    return [Finding("mixing by the buffer", p_value, sentence)]


# --- other schemes ----------------------------------------------------------------------------------


def _others(drawn: Drawn, scheme: BatchScheme) -> list[BatchScheme]:
    """Schemes that the batches could follow, guessed from their sizes; the most definite ones first."""
    if not drawn.within:
        return []
    examples, steps = drawn.dataset_size, drawn.sizes.size
    mean = float(np.mean(drawn.sizes))
    usual = int(np.bincount(drawn.sizes).argmax())
    guesses: list[BatchScheme] = []

    def offer(kind: Any, **fields: Any) -> None:
        try:
            other = kind(**fields)
        except SharpDPError:
            return
        if other != scheme and other.steps >= steps:
            guesses.append(other)

    if 1 <= usual <= examples:
        per_epoch = batches_per_epoch(examples, usual)
        epochs = -(-steps // per_epoch)
        size = {"dataset_size": examples, "batch_size": usual}
        offer(DeterministicBatches, **size, epochs=epochs)
        for order in ("kept", "redrawn"):
            offer(ShuffledBatches, **size, epochs=epochs, order=order)
        short = -(-steps // max(examples // usual, 1))
        offer(ShuffledBatches, **size, epochs=short, drop_last=True)
        offer(FixedSizeBatches, **size, steps=steps)
        offer(FixedSizeBatches, **size, steps=steps, replacement=True)
    bins = max(round(examples / mean), 1) if mean else 1
    rounded = max(examples // bins, 1)
    for order in ("kept", "redrawn"):
        offer(
            BallsAndBins,
            dataset_size=examples,
            batch_size=rounded,
            epochs=-(-steps // bins),
            order=order,
        )
    if mean:
        rate = min(mean / examples, 1.0)
        offer(PoissonBatches, sample_rate=rate, steps=steps, dataset_size=examples)
    return guesses
