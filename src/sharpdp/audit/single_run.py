"""Audit of one run: canaries are in or out by coins, and an attacker guesses from their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import count, invalid, is_among, short_repr
from sharpdp.audit.claims import Claim, checked_guarantee
from sharpdp.audit.guess_counts import Levels, tail_at_most, tail_upper
from sharpdp.audit.score_results import (
    LARGEST_EPSILON,
    LARGEST_MU,
    ScoreAudit,
    at_least,
    checked_scores,
    checked_settings,
    epsilon_of_mu,
    largest_refuted,
    observed_rates,
)
from sharpdp.audit.tails import two_sided_binomial
from sharpdp.curves.tradeoff.curve import TradeoffCurve
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms import Adjacency
from sharpdp.numerics.special import Array
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import Guarantee

__all__ = ["one_run"]

SHARES = ((0.25, 0.25), (0.125, 0.125), (0.0625, 0.0625), (0.1875, 0.0))
"""Shares of the canaries that are guessed to be in, and out: each has an equal part of the risk."""

DESIGNS = {
    "coins": (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.NEIGHBORS),
    "choices": (Adjacency.REPLACE_ONE, Adjacency.NEIGHBORS),
    "fixed size": (Adjacency.REPLACE_ONE, Adjacency.NEIGHBORS),
}
"""How canaries are drawn, and for which neighbors a guarantee must be to say anything about it."""

UNLIKELY = 1e-9
"""Coins that come out so unlikely are taken for no coins."""


@underflow_is_zero
def one_run(
    *,
    scores: ArrayLike,
    included: ArrayLike,
    confidence: float = 0.99,
    delta: float = 1e-5,
    guarantee: Guarantee | TradeoffCurve | None = None,
    guesses: tuple[int, int] | None = None,
    design: str = "coins",
    seed: int = 0,
) -> ScoreAudit:
    """Lower bounds on epsilon and mu, and a test of a guarantee, from one run with many canaries.

    Before the run, a fair coin is tossed for each of m canaries, and the data hold those that came up
    heads. Afterwards every canary gets a score that may use everything the run released, but not the
    coins. The canaries with the largest scores are guessed to be in, those with the smallest to be out,
    and nothing is said about the others. How many guesses can be right is bounded for every mechanism
    that keeps the claim (docs/proofs/audit-proofs.md): by the certified trade-off curve of the
    guarantee, which is that of the very sampler that ran; by (epsilon, delta)-DP for the lower end of
    epsilon; by Gaussian differential privacy for that of mu. Ties are broken by lot.

    Holds when: coins are fair, independent of each other, and of everything else; scores do not depend on
    them but through the run.

    Source: steinke2023, mahloujifar2025; docs/proofs/audit-proofs.md.

    Args:
        scores: One number for each canary, larger if it seems to be in.
        included: For each canary whether it was in (True or 1).
        confidence: Probability, in (0, 1), with which each lower end holds, and a true guarantee passes.
        delta: The delta at which epsilon is bounded, in (0, 1).
        guarantee: What to test; None tests nothing.
        guesses: How many are guessed to be in, and out: two counts that were fixed without looking at
            these scores. None tries a quarter, an eighth and a sixteenth of the canaries on both sides,
            and three sixteenths on the first, each with a quarter of the risk.
        design: "coins": a canary is in or out, for add/remove and zero-out. "choices": the coin chooses
            between two records (or two values of one report, local or shuffled), and `included` says
            which, for replace-one. "fixed size": a random half, or any fixed number, of the canaries is
            in, for replace-one; all are guessed.
        seed: For breaking ties.

    Returns:
        The result: `epsilon` and `mu` are Brackets with confidence, `consistent` and `p_value` are about
        the guarantee.

    Raises:
        InvalidArgument: lengths differ, an argument is out of range, or the coins are no fair coins.
        WrongType: an argument has the wrong type.
        Unsupported: the guarantee is for other neighbors than the design has, or for groups.

    >>> rng = np.random.default_rng(1)
    >>> coins = rng.random(1000) < 0.5
    >>> audit = one_run(scores=coins * 2.0 + rng.normal(size=1000), included=coins)
    >>> print(f"{audit.epsilon.lower:.2f} {audit.mu.lower:.2f}")
    2.99 0.97
    """
    sure, small = checked_settings(confidence, delta)
    values = checked_scores("scores", scores, 2)
    inside = _coins(included, values.size)
    if not is_among(tuple(DESIGNS), design):
        allowed = " or ".join(map(repr, DESIGNS))
        raise InvalidArgument(f"design must be {allowed}; got {short_repr(design)}.")
    rounds = _rounds(values, inside, guesses, design, count(seed=seed, least=0))
    risk = (1.0 - sure) / len(rounds)

    def refuted(claim: Claim) -> bool:
        return any(tail_at_most(one.levels, one.level, claim, risk) for one in rounds)

    lowest = {
        "epsilon": largest_refuted(
            lambda epsilon: refuted(Claim.of_point(epsilon, small)), LARGEST_EPSILON
        ),
        "mu": largest_refuted(
            lambda mu: refuted(Claim.gaussian(mu) if mu else Claim.of_point(0.0, 0.0)), LARGEST_MU
        ),
    }
    p_value = None
    if guarantee is not None:
        claim = Claim.of_guarantee(_covering(checked_guarantee(guarantee), design))
        tails = [tail_upper(one.levels, one.level, claim) for one in rounds]
        p_value = min(len(rounds) * min(tails), 1.0)
    best = max(rounds, key=lambda one: one.level / max(one.levels.rights.size - 1, 1))
    method = f"one run with {values.size:,} canaries"
    at_delta = f"at delta={small:g}"
    fpr, fnr = observed_rates(values[inside], values[~inside])
    return ScoreAudit(
        "one run",
        at_least("epsilon", lowest["epsilon"], sure, at_delta, method),
        at_least("mu", lowest["mu"], sure, "", method),
        at_least(
            "epsilon",
            epsilon_of_mu(lowest["mu"], small),
            sure,
            f"at delta={small:g}, if Gaussian",
            method,
        ),
        sure,
        small,
        p_value,
        guarantee,
        f"{values.size:,} canaries, {best.words}",
        fpr,
        fnr,
    )


@dataclass(frozen=True, eq=False)
class Round:
    """One set of guesses: the levels it may reach, the one that it reached, and how to say so."""

    levels: Levels
    level: int
    words: str


def _rounds(
    scores: Array, inside: NDArray[np.bool_], guesses: object, design: str, seed: int
) -> list[Round]:
    """The sets of guesses, each of a size that does not depend on scores or coins."""
    canaries = scores.size
    lots = np.random.default_rng(seed).permutation(canaries)  # ties are broken by lot
    falling = np.lexsort((lots, -scores))
    if design == "fixed size":
        if guesses is not None:
            raise InvalidArgument(
                f"guesses must be None for the design 'fixed size', which guesses all canaries; got "
                f"{short_repr(guesses)}. No bound is known for some of them."
            )
        size = int(np.count_nonzero(inside))
        if not 0 < size < canaries:
            raise invalid("included", "true for some canaries and false for others", size)
        wrong = size - int(np.count_nonzero(inside[falling[:size]]))
        levels = Levels.of_fixed_size(canaries, size)
        right = canaries - 2 * wrong
        words = f"{right:,} of {canaries:,} guesses right"
        return [Round(levels, levels.rights.size - 1 - wrong, words)]
    rounds = []
    for first, last in _sizes(guesses, canaries):
        right = int(np.count_nonzero(inside[falling[:first]]))
        right += int(np.count_nonzero(~inside[falling[canaries - last :]]))
        words = f"{right:,} of {first + last:,} guesses right"
        rounds.append(Round(Levels.of_coins(canaries, first + last), right, words))
    return rounds


def _sizes(guesses: object, canaries: int) -> list[tuple[int, int]]:
    if guesses is None:
        sizes = [(int(canaries * first), int(canaries * last)) for first, last in SHARES]
        kept = [size for size in dict.fromkeys(sizes) if sum(size) > 0]
        return kept or [(canaries // 2, canaries - canaries // 2)]
    if not isinstance(guesses, tuple | list) or len(guesses) != 2:
        raise WrongType(f"guesses must be two counts, in and out; got {short_repr(guesses)}.")
    first, last = (count(guesses=number, least=0) for number in guesses)
    if not 0 < first + last <= canaries:
        raise invalid("guesses", f"at least 1 and at most {canaries} together", first + last)
    return [(first, last)]


def _coins(included: object, canaries: int) -> NDArray[np.bool_]:
    """Which canaries were in; refused if fair coins hardly ever come out so."""
    values = checked_scores("included", included)
    if values.size != canaries:
        raise InvalidArgument(
            f"included must have one entry for each of {canaries} scores; got {values.size}."
        )
    if not np.isin(values, (0.0, 1.0)).all():
        raise invalid("included", "True or False for each canary", float(np.max(values)))
    inside: NDArray[np.bool_] = values == 1.0
    heads = int(np.count_nonzero(inside))
    if two_sided_binomial(heads, canaries, 0.5) < UNLIKELY:
        raise InvalidArgument(
            f"included must come from fair coins; got {heads:,} of {canaries:,} heads, which is less "
            f"likely than {UNLIKELY:g}. Toss a fair coin for every canary."
        )
    return inside


def _covering(guarantee: Guarantee | TradeoffCurve, design: str) -> Guarantee | TradeoffCurve:
    """The guarantee, if it is about the neighbors that the design makes."""
    if isinstance(guarantee, TradeoffCurve):
        return guarantee
    if guarantee.group_size != 1:
        raise Unsupported(
            f"guarantee must be for single records; got one for groups of {guarantee.group_size}."
        )
    if guarantee.adjacency not in DESIGNS[design]:
        fitting = [name for name, notions in DESIGNS.items() if guarantee.adjacency in notions]
        raise Unsupported(
            f"design {design!r} makes neighbors that a guarantee for {guarantee.adjacency.value} does "
            f"not compare. Try design={' or '.join(map(repr, fitting))}, or account for "
            f"{' or '.join(notion.value for notion in DESIGNS[design])}."
        )
    return guarantee
