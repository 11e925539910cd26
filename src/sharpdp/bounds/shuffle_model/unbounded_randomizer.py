"""Bounds on shuffled reports of randomizers without a finite local epsilon: Gaussian noise, profiles.

The theorems are proved in docs/proofs/gaussian-reports.md. With users who are drawn at rate g,
likelihood ratios X and Y of one report become 1 - g + g X and 1 - g + g Y, as in `known_randomizer`.
"""

from functools import partial

from sharpdp.bounds.registry import Bound, Effort, PairCounts, bounds_for, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffle_model.gaussian_reports import (
    attained_noise,
    dominating_noise,
    largest_noise,
)
from sharpdp.bounds.shuffle_model.known_pairs import ROUGH, rounded_rate
from sharpdp.bounds.shuffle_model.profile_reports import (
    attained_profile,
    dominating_profile,
    has_side,
)
from sharpdp.bracket import Side
from sharpdp.mechanisms import Adjacency, ApproximateReports, Gaussian, LocalGaussian
from sharpdp.mechanisms.shuffle import LocalProfile
from sharpdp.pairs.pair import GaussianPair

__all__ = [
    "gaussian_blanket_upper",
    "gaussian_crowd_lower",
    "gaussian_largest_report_lower",
    "local_gaussian_tight",
    "profile_clones_upper",
    "profile_first_others_lower",
    "profile_second_others_lower",
]

COARSE = 4.0
"""How coarse the lower side is: it loses about 1e-3 of epsilon."""

bound = partial(register, source="balle2019 Lemma 5.3; takagi2026", proof="gaussian-reports")
dataset_bound = partial(
    register,
    attained_when="values are numbers, one user holds 0 or 1 and all others hold 0, in every round",
    source="blackwell1953",
)


@register(
    holds_when="one user's value changes within [0, 1]",
    attained_when="it changes from 0 to 1",
    source="dong2022 Theorem 2.7",
)
def local_gaussian_tight(mechanism: LocalGaussian, adjacency: Adjacency) -> PairCounts:
    """Both sides of one report with Gaussian noise: the values 0 and 1, as far apart as can be.

    Numerics: none but that of the pair.

    >>> local_gaussian_tight(LocalGaussian(2.0), Adjacency.REPLACE_ONE)
    ((GaussianPair(mu=0.5), 1),)
    """
    return ((GaussianPair(1.0 / mechanism.noise_multiplier), 1),)


def _rate(mechanism: ApproximateReports, side: Side) -> float:
    if mechanism.population is None:
        return 1.0
    return rounded_rate(mechanism.users, mechanism.population, side)


def _has_interval(mechanism: ApproximateReports) -> bool:
    """True if reports are numbers with Gaussian noise."""
    return isinstance(mechanism.randomizer, LocalGaussian)


def _has_noise(mechanism: ApproximateReports) -> bool:
    """True if numbers with Gaussian noise are among the randomizers that are meant."""
    return isinstance(mechanism.randomizer, LocalGaussian | Gaussian)


def _has_profile(mechanism: ApproximateReports) -> bool:
    """True if only a profile is known, and that from above."""
    randomizer = mechanism.randomizer
    return isinstance(randomizer, LocalProfile) and has_side(randomizer, Side.UPPER)


def _blanket(mechanism: ApproximateReports, coarseness: float) -> PairCounts:
    noise = mechanism.randomizer.noise_multiplier  # type: ignore[union-attr]
    rate = _rate(mechanism, Side.UPPER)
    return ((dominating_noise(noise, mechanism.users, rate, coarseness), mechanism.rounds),)


@bound(
    holds_when="all users of a round report a value of [0, 1] with this noise, each once and "
    "independently, and only the shuffler knows who was drawn",
    applies=needs(_has_interval, "numbers with Gaussian noise"),
    effort=Effort(rough=lambda mechanism, adjacency: _blanket(mechanism, ROUGH)),
)
def gaussian_blanket_upper(mechanism: ApproximateReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of shuffled values with Gaussian noise: what is common to all values hides one user.

        w(y) = min(R_0(y), R_1(y)),  h(x) <= E[(sum_i B_i (R_1(y_i) - x R_0(y_i)) / w(y_i))_+] / n

    with B_i of mean sum(w) and y_i from w / sum(w). The values 0 and 1 are the worst. It is never more
    than the profile of one report alone.

    Numerics: certified values joined by chords, about 1e-3 of epsilon too large; ratios are cut where
    one of them decides, and what is beyond is added.

    >>> import numpy as np
    >>> one = ApproximateReports(users=1, randomizer=LocalGaussian(1.0))
    >>> pair = gaussian_blanket_upper(one, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 3)  # 2 Phi(1/2) - 1
    0.383
    """
    return _blanket(mechanism, 1.0)


NOISY = needs(_has_noise, "Gaussian noise")


@dataset_bound(applies=NOISY)
def gaussian_crowd_lower(mechanism: ApproximateReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled values with Gaussian noise: all others hold 0.

        h(x) = E[(mean_i R_1(y_i) / R_0(y_i) - x)_+],   y_i from R_0

    is exact for these data sets; reports are seen through cells.

    Numerics: certified values joined by extended chords, about 1e-3 of epsilon too small.

    >>> import numpy as np
    >>> one = ApproximateReports(users=1, randomizer=LocalGaussian(1.0))
    >>> pair = gaussian_crowd_lower(one, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 2)
    0.38
    """
    noise, rate = mechanism.randomizer.noise_multiplier, _rate(mechanism, Side.LOWER)  # type: ignore[union-attr]
    return ((attained_noise(noise, mechanism.users, rate, COARSE), mechanism.rounds),)


@dataset_bound(applies=NOISY)
def gaussian_largest_report_lower(
    mechanism: ApproximateReports, adjacency: Adjacency
) -> PairCounts:
    """Lower side of shuffled values with Gaussian noise: only the largest report is looked at.

    In closed form, see `gaussian_reports.NoiseCells`. It decides where delta is so small that a single
    report that nobody else would send gives a user away.

    Numerics: sixty digits, rounded once.

    >>> import numpy as np
    >>> many = ApproximateReports(users=100, randomizer=LocalGaussian(1.0))
    >>> pair = gaussian_largest_report_lower(many, Adjacency.REPLACE_ONE)[0][0]
    >>> bool(np.exp(pair.log_hockey_stick(np.array([2.7]))[0]) > 1e-12)
    True
    """
    noise, rate = mechanism.randomizer.noise_multiplier, _rate(mechanism, Side.LOWER)  # type: ignore[union-attr]
    return ((largest_noise(noise, mechanism.users, rate), mechanism.rounds),)


def _premises(mechanism: ApproximateReports, adjacency: Adjacency, side: Side) -> tuple[Bound, ...]:
    """The bounds on one report."""
    found = [entry for entry in bounds_for(mechanism.randomizer) if side in entry.sides]
    return tuple(found[:1])


@bound(
    holds_when="all users of a round run the same randomizer, each once and independently; for any two "
    "records its reports are no easier to tell apart than the given mechanism's outputs, in either order",
    source="feldman2021 Theorem 3.8",
    applies=needs(_has_profile, "a mechanism that is known by its profile"),
    rests_on=_premises,
)
def profile_clones_upper(mechanism: ApproximateReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of shuffled reports of any randomizer with a given profile: others send clones.

    Formula: that of `bounds.shuffle_model.profile_reports`. Sound in every dimension, and looser than
    the blanket of a randomizer that is known: the clones are as rare as for the largest loss that counts.

    Numerics: certified values joined by chords.

    >>> import numpy as np
    >>> from sharpdp.mechanisms import ApproximateDP
    >>> some = ApproximateDP(epsilon=1.0, delta=1e-11)
    >>> many = ApproximateReports(users=10_000, randomizer=some)
    >>> pair = profile_clones_upper(many, Adjacency.REPLACE_ONE)[0][0]
    >>> bool(np.exp(pair.log_hockey_stick(np.array([0.1]))[0]) < 1e-6)
    True
    """
    rate = _rate(mechanism, Side.UPPER)
    assert isinstance(mechanism.randomizer, LocalProfile)
    return ((dominating_profile(mechanism.randomizer, mechanism.users, rate), mechanism.rounds),)


profile_bound = partial(
    register,
    source="blackwell1953; balle2019 Section 5",
    applies=needs(
        lambda mechanism: not _has_noise(mechanism), "a randomizer other than Gaussian noise"
    ),
    rests_on=_premises,
)


def _others(mechanism: ApproximateReports, held: str) -> PairCounts:
    rate = _rate(mechanism, Side.LOWER)
    assert isinstance(mechanism.randomizer, LocalProfile)
    pair = attained_profile(mechanism.randomizer, mechanism.users, rate, held, COARSE)
    return ((pair, mechanism.rounds),)


@profile_bound(
    attained_when="the randomizer is the given mechanism on two records, and all others hold the second"
)
def profile_second_others_lower(mechanism: ApproximateReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled reports with a given profile: the mechanism itself, others hold Q's record.

    Formula: h(x) = P[no report of Q is possible] + E_Q[(mean_i P/Q(y_i) - x)_+]. Numerics: as for
    `gaussian_crowd_lower`; losses in at most 64 cells.

    >>> from sharpdp.mechanisms import ApproximateDP
    >>> some = ApproximateReports(users=1, randomizer=ApproximateDP(epsilon=1.0, delta=0.125))
    >>> pair = profile_second_others_lower(some, Adjacency.REPLACE_ONE)[0][0]
    >>> pair.infinite_p
    0.125
    """
    return _others(mechanism, "second")


@profile_bound(
    attained_when="the randomizer is the given mechanism on two records, and all others hold the first"
)
def profile_first_others_lower(mechanism: ApproximateReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled reports with a given profile: the mechanism itself, others hold P's record.

    Formula and numerics: as for `profile_second_others_lower`, with P and Q exchanged.

    >>> import numpy as np
    >>> from sharpdp.mechanisms import FinitePair
    >>> coin = FinitePair(p=[0.5, 0.5], q=[0.25, 0.75])
    >>> some = ApproximateReports(users=1, randomizer=coin)
    >>> pair = profile_first_others_lower(some, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 2)
    0.25
    """
    return _others(mechanism, "first")
