"""Mechanisms in words: whom they protect, how batches are drawn, what the caller owes.

A sentence per kind, with the numbers of the mechanism, for a reader who has never seen the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sharpdp.curves.renyi import RenyiCurve
from sharpdp.curves.tradeoff import TradeoffCurve
from sharpdp.display.outward_digits import ROUND_CEILING, in_digits
from sharpdp.errors import Unsupported
from sharpdp.mechanisms import (
    DPSGD,
    Adjacency,
    ApproximateDP,
    ApproximateReports,
    BatchQueries,
    BlanketRandomizer,
    CorrelatedNoise,
    DiscreteRandomizer,
    FinitePair,
    Gaussian,
    Laplace,
    LastIterate,
    LocalGaussian,
    LocalLaplace,
    Mechanism,
    Mixture,
    NormalPair,
    ProfileMechanism,
    PureDP,
    RandomizedResponse,
    RandomlyInitializedGD,
    Repeated,
    ReportsOfGroup,
    SameBatches,
    SampledReports,
    Sequence,
    ShuffledBlocks,
    ShuffledGroups,
    ShuffledReports,
)
from sharpdp.mechanisms.given_name import quoted
from sharpdp.mechanisms.training import known_seed
from sharpdp.plans.plain_data import to_data

GROUPS = (ReportsOfGroup, ShuffledGroups)
"""Reports of users with different local epsilons."""

__all__ = [
    "in_words",
    "neighbors",
    "obligations",
    "parameters",
    "sampler",
    "attacker_goal",
    "separate",
    "to_check",
    "trusted",
    "unit",
]

Sentence = Callable[[Any], str]

RUNS: dict[type, Sentence] = {
    Gaussian: lambda run: (
        f"A statistic is released with Gaussian noise. Its standard deviation is "
        f"{run.noise_multiplier:.12g} times the most by which the statistic differs between "
        "neighbors, in l2 norm."
    ),
    Laplace: lambda run: (
        f"A statistic is released with Laplace noise. Its scale is {run.scale:.12g} times the most "
        "by which the statistic differs between neighbors, in l1 norm."
    ),
    PureDP: lambda run: (
        f"The result of a mechanism is released that is known only to be {run.epsilon:.12g}-DP."
    ),
    ApproximateDP: lambda run: (
        "The result of a mechanism is released that is known only to be "
        f"({run.epsilon:.12g}, {run.delta:.12g})-DP."
    ),
    FinitePair: lambda run: (
        f"One of {len(run.p)} outcomes is released, with given probabilities for each of two inputs."
    ),
    NormalPair: lambda run: f"A number with normal noise is released: {run.describe()}.",
    Mixture: lambda run: (
        f"One of {len(run.components)} mechanisms is drawn at random and run; which one is "
        f"{run.index}. It is a {run.describe()}."
    ),
    RandomizedResponse: lambda run: (
        f"One of {run.categories} answers is reported: the true one with odds of e^"
        f"{run.local_epsilon:.12g} to 1 against each other answer."
    ),
    LocalLaplace: lambda run: (
        "A value between 0 and 1 is reported with Laplace noise, which gives the report local epsilon "
        f"{run.local_epsilon:.12g}."
    ),
    LocalGaussian: lambda run: (
        "A value between 0 and 1 is reported with Gaussian noise of standard deviation "
        f"{run.noise_multiplier:.12g}."
    ),
    BlanketRandomizer: lambda run: (
        f"A record is reported with local epsilon {run.local_epsilon:.12g}; with probability "
        f"{run.blanket:.12g} the report does not depend on the record."
    ),
    DiscreteRandomizer: lambda run: (
        f"One of {len(run.matrix[0])} reports is sent, with given probabilities for each of "
        f"{len(run.matrix)} records; its local epsilon is {run.local_epsilon:.12g}."
    ),
    ShuffledReports: lambda run: (
        "Every user randomizes a record and sends the report to a shuffler; only the mixed reports "
        f"are seen. This is {run.describe()}."
    ),
    SampledReports: lambda run: (
        "Users are drawn from a population; each randomizes a record and sends the report to a "
        f"shuffler; only the mixed reports are seen. This is {run.describe()}."
    ),
    ApproximateReports: lambda run: (
        "Every user of a round randomizes a record and sends the report to a shuffler; only the mixed "
        f"reports are seen. These are {run.describe()}."
    ),
    ShuffledGroups: lambda run: (
        "Every user randomizes a record, with the local epsilon of the user's group, and sends it to a "
        f"shuffler; only the mixed reports are seen. These are {run.describe()}."
    ),
    ReportsOfGroup: lambda run: (
        "Every user randomizes a record, with the local epsilon of the user's group, and sends it to a "
        "shuffler; only the mixed reports are seen. What is said here holds for "
        f"{run.describe()}."
    ),
    ShuffledBlocks: lambda run: (
        "Training goes through fixed blocks of records in a random order and releases every step. "
        f"This is {run.describe()}."
    ),
    DPSGD: lambda run: (
        f"A model is trained by DP-SGD for {run.batches.steps:,} steps. In each step the gradient of "
        "every example of a batch is clipped, the clipped gradients are summed, and Gaussian noise "
        f"is added: its standard deviation is {run.noise_multiplier:.12g} times the clipping norm."
    ),
    CorrelatedNoise: lambda run: (
        f"A model is trained for {run.batches.steps:,} steps with correlated noise (DP-FTRL). In each "
        "step the gradient of every example of a batch is clipped, and the clipped gradients are summed. "
        "The noise of a step is its row of C^-1 z, C being a strategy matrix "
        f"({run.strategy.describe()}) and z independent Gaussian noise, whose standard deviation is"
        f" {run.noise_multiplier:.12g} times the clipping norm."
    ),
    LastIterate: lambda run: (
        f"A model is trained by noisy gradient descent for {run.batches.steps:,} steps, and nothing but "
        "the last model is released. In each step the gradients of a batch are summed, and Gaussian "
        f"noise is added: its standard deviation is {run.noise_multiplier:.12g} times the largest norm "
        "of a gradient. "
        + (
            "Nothing is assumed about the loss. For some losses the last model alone reveals as much as "
            "all steps together, so the numbers are those of releasing every step (annamalai2024)."
            if run.loss is None
            else f"Assumed: {run.loss.describe()}; learning rate {run.learning_rate:.12g}"
            + (
                "."
                if run.diameter is None
                else f", every step projected onto a set of diameter {run.diameter:.12g}."
            )
            + (
                ""
                if run.start_deviation is None
                else f" The start is random, with deviation {run.start_deviation:.12g}, and kept secret."
            )
        )
    ),
    BatchQueries: lambda run: (
        f"{run.batches.steps:,} sums over batches are released. In each step a function of one record, "
        "of l2 norm at most 1, is summed over a batch, and Gaussian noise of standard deviation "
        f"{run.noise_multiplier:.12g} is added."
    ),
    SameBatches: lambda run: (
        f"In each of {run.batches.steps:,} steps, {len(run.queries):,} sums over the same batch are "
        "released. For each of them a function of one record is clipped to an l2 norm, summed over the "
        "batch, and released with Gaussian noise of standard deviations "
        f"{', '.join(f'{query.noise_multiplier:.12g}' for query in run.queries)} times these norms. "
        f"Together they are as private as DP-SGD with noise multiplier {run.noise_multiplier:.12g}."
    ),
    RandomlyInitializedGD: lambda run: (
        "The result of noisy gradient descent from a random start is released, and nothing else. This is "
        f"{run.describe()}."
    ),
    Sequence: lambda run: "Nothing is released.",
    ProfileMechanism: lambda run: f"The result of a {run.describe()} is released.",
    RenyiCurve: lambda run: f"The result of a {run.describe()} is released.",
    TradeoffCurve: lambda run: f"What is released has a {run.describe()}.",
}
"""What each kind does."""

GIVEN_FACTS = (ApproximateDP, FinitePair, ProfileMechanism, PureDP, RenyiCurve, TradeoffCurve)
"""What is taken as it was given."""

OBLIGATIONS: tuple[tuple[tuple[type, ...], str], ...] = (
    (
        (CorrelatedNoise, DPSGD),
        "It is not checked that every example's own gradient is clipped before "
        "anything is summed, and that the noise is added once, to the sum, in every step.",
    ),
    (
        (CorrelatedNoise, DPSGD),
        "It is not checked that batches are drawn as described above, with unpredictable random bits, "
        "and that nobody learns which examples are in which batch.",
    ),
    (
        (CorrelatedNoise,),
        "It is not checked that the noise of every step is that of the strategy: drawing z anew after a "
        "restart, or using other rows of C^-1, violates this.",
    ),
    (
        (LastIterate,),
        "It is not checked that no other model of the run is released, such as a checkpoint or an "
        "average; each would cost as much as releasing every step up to it.",
    ),
    (
        (LastIterate,),
        "It is not checked that the loss satisfies the assumptions above for every possible record, and "
        "that no step uses momentum or a different step size.",
    ),
    (
        (BatchQueries, CorrelatedNoise, DPSGD),
        "It is not checked that sums are divided by a constant of the plan, and not by the "
        "size of a batch. If the constant, the sample rate or the number of steps is computed from the "
        "number of records, that number is public, and the guarantee is for neighbors with the same "
        "number of records (zero-out or replace-one), not for add/remove.",
    ),
    (
        (ReportsOfGroup, SampledReports, ShuffledGroups, ShuffledReports),
        "It is not checked that the shuffler, and as many users as said above, do what they are "
        "trusted with.",
    ),
    (
        (ShuffledBlocks,),
        "It is not checked that the blocks are fixed, that a new order is drawn in every epoch and kept "
        "secret, and that the noise covers the difference between two whole blocks.",
    ),
    (
        (Gaussian, Laplace),
        "It is not checked that the sensitivity is what the noise was scaled by, for all data "
        "sets and not only for this one.",
    ),
    (GIVEN_FACTS, "It is not checked that the stated facts about the mechanism are true."),
    (
        (
            CorrelatedNoise,
            DPSGD,
            Gaussian,
            Laplace,
            LastIterate,
            LocalLaplace,
            NormalPair,
            RandomlyInitializedGD,
        ),
        "Not counted: floating-point arithmetic. The analysis is about real numbers; the last bits of "
        "doubles can give an input away (mironov2012). The releases of sharpdp.learn are rounded so "
        "that they do not; gradients are those of the model's own arithmetic, such as float32.",
    ),
)
"""What the caller owes for each kind."""


def sentence_for(part: Mechanism) -> str:
    """One part in a sentence; a subclass of a known kind may do something else."""
    words = RUNS[type(part)](part) if type(part) in RUNS else f"This is {part.describe()}."
    if not part.uses_records:
        return f"{words} No record enters a result."
    return words if part.adds_noise else f"{words} That is no noise: what is released is exact."


def in_words(mechanism: Mechanism) -> list[str]:
    """The run in words, a sentence for each part.

    >>> in_words(PureDP(1.0) * 3)
    ['3 times: The result of a mechanism is released that is known only to be 1-DP.']
    """
    if not isinstance(mechanism, Repeated | Sequence):
        return [sentence_for(mechanism)]
    lines = []
    for piece, times in mechanism.pieces():
        words = sentence_for(piece)
        lines.append(f"{times:,} times: {words}" if times > 1 else words)
    return lines


def parameters(mechanism: Mechanism) -> list[tuple[str, str]]:
    """Every parameter by its name, in the order of the plan.

    >>> parameters(Gaussian(2.0))
    [('kind', 'Gaussian'), ('noise_multiplier', '2')]
    """
    try:
        return list(_flat("", to_data(mechanism)))
    except Unsupported:
        return [("kind", type(mechanism).__name__), ("in words", mechanism.describe())]


def neighbors(adjacency: Adjacency, group_size: int = 1) -> str:
    """The notion of neighboring data sets as a sentence.

    Args:
        adjacency: The notion of neighbors.
        group_size: In how many records they differ at most.

    Returns:
        The sentence.

    >>> neighbors(Adjacency.ADD_REMOVE)
    'Neighbors (add/remove): one data set has a record that the other lacks.'
    """
    meaning = {
        Adjacency.ADD_REMOVE: "one data set has a record that the other lacks",
        Adjacency.ZERO_OUT: "one record is replaced by a null record, which contributes zero",
        Adjacency.REPLACE_ONE: "one record has a different value in each of the two data sets",
        Adjacency.NEIGHBORS: "any two inputs for which the sensitivity, or the promise, holds",
    }
    groups = {
        Adjacency.ADD_REMOVE: f"one data set has up to {group_size} records that the other lacks",
        Adjacency.ZERO_OUT: f"up to {group_size} records are replaced by null records, which contribute "
        "zero",
        Adjacency.REPLACE_ONE: f"up to {group_size} records have different values in the two data sets",
        Adjacency.NEIGHBORS: f"two inputs connected by a chain of up to {group_size} neighbors, for each "
        "of which the stated sensitivity or guarantee holds",
    }
    words = [] if adjacency is Adjacency.NEIGHBORS else [str(adjacency)]
    if group_size > 1:
        meaning = groups
        words.append(f"in groups of {group_size}")
    name = f" ({' '.join(words)})" if words else ""
    return f"Neighbors{name}: {meaning[adjacency]}."


def attacker_goal(adjacency: Adjacency, group_size: int = 1) -> tuple[str, str]:
    """The goal of an attacker, and whom a successful attack identifies."""
    if group_size > 1:
        used = f"whether a group of {group_size} records was used"
        return {
            Adjacency.ADD_REMOVE: (used, "groups that were"),
            Adjacency.ZERO_OUT: (used, "groups that were"),
            Adjacency.REPLACE_ONE: (
                f"which of two sets of values a group of {group_size} records has",
                "the groups with one of them",
            ),
            Adjacency.NEIGHBORS: (
                f"which of two inputs that are {group_size} neighbors apart it was",
                "the runs on one of the inputs",
            ),
        }[adjacency]
    return {
        Adjacency.ADD_REMOVE: ("whether one record was used", "members"),
        Adjacency.ZERO_OUT: ("whether one record was used", "members"),
        Adjacency.REPLACE_ONE: (
            "which of two values one record has",
            "the records with one of the values",
        ),
        Adjacency.NEIGHBORS: (
            "which of two neighboring inputs it was",
            "the runs on one of the inputs",
        ),
    }[adjacency]


def unit(mechanism: Mechanism, group_size: int = 1) -> str:
    """The protected unit; for groups, up to that many together.

    >>> unit(Gaussian(1.0))
    'whatever neighboring inputs differ by'
    """
    by_kind: dict[type, str] = {
        BatchQueries: "one record of the data set, in all steps",
        DPSGD: "one training example, in all steps",
        CorrelatedNoise: "one training example, in all steps",
        LastIterate: "one training example, in all steps",
        RandomlyInitializedGD: "one training example",
        RandomizedResponse: "the answer of one user",
        LocalGaussian: "the value of one user",
        LocalLaplace: "the value of one user",
        BlanketRandomizer: "the record of one user",
        DiscreteRandomizer: "the record of one user",
    }
    units = [
        f"one {part.unit}" if isinstance(part, ShuffledBlocks) else by_kind.get(type(part), "")
        for part, _ in _parts(mechanism)
    ]
    rounds = sum(rounds for _, rounds in _shuffled(mechanism))
    if rounds == 1:
        units.append("one user with one report")
    elif rounds:
        units.append(
            f"one user, with all of up to {rounds:,} reports together, even if the user's value "
            "changes from round to round"
        )
    alone = "; ".join(dict.fromkeys(filter(None, units)))
    alone = alone or "whatever neighboring inputs differ by"
    return alone if group_size == 1 else f"up to {group_size} together of: {alone}"


def sampler(mechanism: Mechanism) -> list[str]:
    """How batches, orders or users are drawn; that nothing is drawn, if so.

    A run of shuffled reports alone draws nothing either, and says nothing here: see `trusted`.

    >>> sampler(Gaussian(1.0))
    ['No sampling: the mechanism sees all of its input.']
    """
    lines: list[str] = []
    for part, _ in _parts(mechanism):
        if isinstance(part, BatchQueries):
            described = part.batches.describe()
            lines += [f"{described[0].upper()}{described[1:]}.", *part.batches.guarantees]
        elif isinstance(part, SampledReports) or (
            isinstance(part, ApproximateReports) and part.population is not None
        ):
            drawn = part.reports if isinstance(part, SampledReports) else part
            users = f"{drawn.users:,} of {part.population:,}"
            lines.append(
                f"In every round, {users} users are sampled uniformly without replacement, independently "
                "of other rounds; only the shuffler knows which."
            )
        elif isinstance(part, ShuffledBlocks):
            lines.append(
                f"A new, uniformly random order of the {part.blocks:,} blocks is drawn for every epoch."
            )
    if any(isinstance(part, GIVEN_FACTS) for part, _ in _parts(mechanism)):
        lines.append("Any sampling is part of what was stated about the mechanism.")
    if not lines and not _shuffled(mechanism):
        return ["No sampling: the mechanism sees all of its input."]
    return lines


def trusted(mechanism: Mechanism) -> list[str]:
    """Who is trusted with what if reports are shuffled, and what is left if the shuffler fails.

    >>> for line in trusted(ShuffledReports(users=1000, local_epsilon=2.0, rounds=30)):
    ...     print(line.partition(":")[0])
    Trust in the shuffler
    Trust in users
    If the shuffler fails
    """
    shuffled = _shuffled(mechanism)
    if not shuffled:
        return []
    fewest = min(reports.users for reports, _ in shuffled)
    shared = all(reports.randomizer != "individual" for reports, _ in shuffled)
    in_groups = any(isinstance(part, GROUPS) for part, _ in _parts(mechanism))
    randomizer = (
        "All of a group run the same randomizer, in the same version; groups do not depend on records"
        if in_groups
        else "All of them run the same randomizer, in the same version"
        if shared
        else "The shuffler assigns users to randomizers at random; a randomizer that belongs to a "
        "user reveals its sender"
    )
    alone = _alone(shuffled)
    return [
        "Trust in the shuffler: it puts the reports of a round in a uniformly random order, and "
        "passes on nothing but the reports: no name, address, time, size or order of arrival.",
        f"Trust in users: at least {fewest:,} reports of every round come from users who randomize "
        "as described and keep the randomness to themselves. Users who drop out, deviate or work "
        f"with the attacker hide nobody: do not count them. {randomizer}.",
        "If the shuffler fails: an attacker who sees who sent which report faces the local "
        f"randomizer alone, {alone}.",
    ]


def _alone(shuffled: list[tuple[ShuffledReports | ApproximateReports, int]]) -> str:
    """The privacy that is left without a shuffler."""
    unbounded = [report for report, _ in shuffled if isinstance(report, ApproximateReports)]
    if unbounded:
        kinds = dict.fromkeys(report.randomizer.describe() for report in unbounded)
        return f"{' and '.join(kinds)}, which has no finite epsilon at delta = 0"
    pure = [
        (report.local_epsilon, times)
        for report, times in shuffled
        if isinstance(report, ShuffledReports)
    ]
    worst, total = max(report for report, _ in pure), sum(report * times for report, times in pure)
    rounds = sum(times for _, times in pure)
    over_all = f" and {_up(total)} over all {rounds:,} rounds" if rounds > 1 else ""
    return f"which is epsilon-DP at delta = 0 with epsilon {_up(worst)} for each report{over_all}"


def separate(conditions: Iterable[str]) -> list[str]:
    """The single conditions of several theorems, each once.

    >>> separate(["gradients are clipped; noise is added", "noise is added; the order is secret"])
    ['gradients are clipped', 'noise is added', 'the order is secret']
    """
    parts = (part.strip() for words in conditions for part in words.split(";"))
    return [part for part in dict.fromkeys(parts) if part]


def to_check(mechanism: Mechanism, conditions: Iterable[str], group_size: int = 1) -> list[str]:
    """Conditions of a guarantee, one in each sentence: a checklist to sign.

    `conditions` belong to the theorems that decided the upper ends.

    >>> to_check(Gaussian(1.0), ["noise is added; the sensitivity is 1"])[1:3]
    ['Noise is added.', 'The sensitivity is 1.']
    """
    seeded = any(
        isinstance(part, BatchQueries) and known_seed(part.batches) is not None
        for part, _ in _parts(mechanism)
    )
    theorems = [f"{part[0].upper()}{part[1:]}." for part in separate(conditions)]
    people = (
        "Every person contributes only one of the protected units; a person with several is protected "
        "less."
        if group_size == 1
        else f"Nobody has more than {group_size} records in the data."
    )
    return [
        "What ran is what this report describes, with these parameters.",
        *theorems,
        *(line for line in trusted(mechanism) if line.startswith("Trust")),
        "Every other release about the same people, including tuning, is counted elsewhere: in a ledger "
        "of the data set, or in a report on all releases together.",
        people,
        "Only the intended release can be seen: logs, timing, checkpoints and the seed of the "
        f"{'noise' if seeded else 'random numbers'} stay internal.",
    ]


def obligations(mechanism: Mechanism, group_size: int = 1) -> list[str]:
    """Limits of the guarantee: obligations of the caller, and what no report is about."""
    parts = [part for part, _ in _parts(mechanism)]
    lines = [
        words for kinds, words in OBLIGATIONS if any(isinstance(part, kinds) for part in parts)
    ]
    for part in parts:
        if isinstance(part, RandomlyInitializedGD) and part.claim == "instance":
            lines.append(
                "Not covered: other data sets and records. This is claimed for one instance only."
            )
    several = (
        "several records. The guarantee is about the unit above; whoever has k of them is protected "
        "less, by up to k times the epsilon at a larger delta."
        if group_size == 1
        else f"more than {group_size} records. The guarantee is for groups of that size; a person with "
        "more is protected less."
    )
    return [
        *lines,
        "Not counted: anything else that was released about the data. Other runs, tuning of "
        "hyper-parameters or choice of a model on the same data, statistics used to prepare them: each "
        "costs privacy of its own.",
        f"Not counted: people with {several}",
        "Not counted: side channels, such as the time a run takes, logs, or checkpoints that leak.",
        "Not hidden: what the result says about people in general, whether or not they are in the data.",
    ]


def _shuffled(mechanism: Mechanism) -> list[tuple[ShuffledReports | ApproximateReports, int]]:
    """The shuffled parts, each with its number of rounds; sampled users count as if always drawn."""
    shuffled: list[tuple[ShuffledReports | ApproximateReports, int]] = []
    for part, times in _parts(mechanism):
        reports = part.reports if isinstance(part, SampledReports) else part
        if isinstance(reports, ShuffledReports):
            shuffled.append((reports, times * reports.rounds))
        elif isinstance(reports, ApproximateReports):
            shuffled.append((reports, times))
        elif isinstance(reports, ReportsOfGroup | ShuffledGroups):
            shuffled.append((_as_one_group(reports), times * reports.rounds))
    return shuffled


def _as_one_group(reports: ReportsOfGroup | ShuffledGroups) -> ShuffledReports:
    """As many reports as hide a user at least, with the local epsilon that a lone report has."""
    run = reports if isinstance(reports, ShuffledGroups) else reports.groups
    users = sum(run.users) if run.categories is not None else min(run.users)
    own = max(run.local_epsilon) if isinstance(reports, ShuffledGroups) else reports.local_epsilon
    return ShuffledReports(users=users, local_epsilon=own)


def _up(value: float) -> str:
    """A number in digits, not below it."""
    return in_digits(value, ROUND_CEILING)


def _parts(mechanism: Mechanism) -> Iterable[tuple[Mechanism, int]]:
    """All parts, components of mixtures included."""
    for part, times in mechanism.parts():
        yield part, times
        if isinstance(part, Mixture):
            for component in part.components:
                yield from _parts(component)


def _flat(name: str, data: Any) -> Iterable[tuple[str, str]]:
    """Names with dots and brackets, each with its value."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "name":
                key, value = "name, given by its author", quoted(value)
            yield from _flat(f"{name}.{key}" if name else key, value)
    elif isinstance(data, list) and any(isinstance(entry, dict) for entry in data):
        for index, value in enumerate(data):
            yield from _flat(f"{name}[{index}]", value)
    elif isinstance(data, list):
        # longer lists are cut; the plan has all of them
        shown = ", ".join(map(_shown, data[:8]))
        more = f", ... ({len(data)} in all)" if len(data) > 8 else ""
        yield name, shown + more
    else:
        yield name, _shown(data)


def _shown(value: Any) -> str:
    """A value as a reader expects it: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, list):
        return f"({', '.join(map(_shown, value))})"
    return str(value)
