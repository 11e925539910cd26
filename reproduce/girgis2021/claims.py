"""girgis2021: the numbers of its text, about the run on MNIST and about the gain over composition."""

from __future__ import annotations

import math
from math import exp, expm1, log, log1p, sqrt
from typing import Any

import sharpdp as dp
from reproduce.cache import once
from reproduce.girgis2021.panels import DELTA, MANY, published, sampled
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.learn import (
    CLDPSGD,
    CompressedPrivUnit,
    Convergence,
    CoordinateSigns,
    HadamardSigns,
    PrivUnitBall,
    VectorRandomizer,
    vector_randomizer,
)

MNIST = {30: 1, 300: 10, 1500: 50, 3000: 100, 6000: 200}
"""Rounds of the run on MNIST, and epochs."""

MNIST_DELTA = 1e-5
DRAWN, CLIENTS, LOCAL = 2000, 60_000, 2.0
"""Clients of a round, all clients, and the local epsilon of that run."""

PRINTED = {1500: "3", 6000: "5.8"}
"""Its epsilon by the paper's theorem."""

BASELINE = {6000: "18.3"}
"""Its epsilon by clones and strong composition."""

NAMES = [
    "sampled_moments_epsilon_upper",
    "amplified_moments_epsilon_upper",
    "clones_strong_composition_upper",
    "numeric_clones_strong_composition_upper",
]
GAIN: dict[str, Any] = {"users": 1000, "local_epsilon": 3.0, "population": 10**6}
"""The run about which a gain of 17 is claimed, over 10^5 rounds."""


def training(rounds: int) -> dict[str, Any]:
    """The run on MNIST after so many rounds, by every method."""
    run = sampled(DRAWN, LOCAL, CLIENTS, rounds)
    truth = dp.account(run).epsilon(delta=MNIST_DELTA)
    return {
        "rounds": rounds,
        **published(run, MNIST_DELTA, NAMES),
        "truth": [truth.lower, truth.upper],
    }


def training_values(size: str) -> list[dict[str, Any]]:
    """The run on MNIST; quickly, after 1500 rounds."""
    return each(training, [(rounds,) for rounds in ([1500] if size == QUICK else MNIST)])


def training_tables(values: list[dict[str, Any]]) -> list[Table]:
    """Published, by the paper's methods, and the truth."""
    rows = []
    for one in values:
        rounds, theorem = one["rounds"], one[NAMES[0]]
        cells = [PRINTED.get(rounds, "–"), number(theorem), bracket(one["truth"])]
        cells.append(f"{theorem / one['truth'][1]:.1f}")
        rows.append([f"{rounds}", f"{MNIST[rounds]}", *cells])
    headings = ("rounds", "epochs", "published", "Theorem 1", "truth", "Theorem 1 / truth")
    others = [
        [f"{one['rounds']}", BASELINE.get(one["rounds"], "–"), *(number(one[n]) for n in NAMES[1:])]
        for one in values
    ]
    beside = ("rounds", "published for clones", "moments of 2021 + subsampling")
    return [
        Table("ε at δ = 1e-5", headings, rows),
        Table(
            "What it is compared with",
            (*beside, "clones, closed form", "clones, evaluated"),
            others,
        ),
    ]


REACHED = 3.0
"""The epsilon at which accuracies are compared."""

READINGS = {
    "Theorem 1": "sampled_moments_epsilon_upper",
    "clones, closed form": "clones_strong_composition_upper",
    "clones, evaluated": "numeric_clones_strong_composition_upper",
    "clones, evaluated, composed exactly": "numeric_clones_tight_composition_upper",
    "moments of 2021 + subsampling": "amplified_moments_epsilon_upper",
}
"""Ways to account the run on MNIST, as the paper or others published them."""


def epochs_within(name: str) -> dict[str, Any]:
    """Whole epochs that keep to `REACHED`, and epsilon after 200, by one formula."""

    def spent(epochs: int) -> float:
        run = sampled(DRAWN, LOCAL, CLIENTS, 30 * epochs)
        return float(published(run, MNIST_DELTA, [READINGS[name]])[READINGS[name]])

    low, high = 0, 200
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) <= REACHED else (low, middle)
    return {"name": name, "epochs": low, "last": spent(200)}


def composed(epsilon: float, rounds: int) -> float:
    """Strong composition of kairouz2015 with half of delta: what rounds of this epsilon cost."""
    spread = sqrt(2.0 * rounds * log(2.0 / MNIST_DELTA))
    return rounds * epsilon * math.tanh(0.5 * epsilon) + epsilon * spread


def backwards() -> dict[str, Any]:
    """The same for rounds that cost 18.3 together after 200 epochs."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if composed(middle, 6000) <= 18.3 else (low, middle)
    within = [epochs for epochs in range(201) if composed(low, 30 * epochs) <= REACHED]
    return {"name": "rounds that cost 18.3 after 200", "epochs": within[-1], "last": 18.3}


def reached_values(size: str) -> list[dict[str, Any]]:
    """All readings; quickly, Theorem 1."""
    names = list(READINGS)[:1] if size == QUICK else list(READINGS)
    return [*each(epochs_within, [(name,) for name in names]), backwards()]


def reached_tables(values: list[dict[str, Any]]) -> list[Table]:
    """Epochs within an epsilon of 3, and epsilon after 200 epochs."""
    rows = [[one["name"], f"{one['epochs']}", number(one["last"], 4)] for one in values]
    return [Table("", ("accounting", "epochs with ε ≤ 3", "ε after 200 epochs"), rows)]


RATE_ROUNDS = 1500
"""Rounds after which the convergence of Theorem 3 is stated: 50 epochs."""

RATE_SIZES = {"l1": (1.0, 4.0), "l2": (2.0, 14.0), "l-infinity": (math.inf, 4.0)}
"""Norms of the paper, with its constant c of Lemma 9."""


def rates(dimension: int) -> list[dict[str, Any]]:
    """Lemma 9 as published, and with the variance of the randomizers that we run, for L = D = 1."""
    squared = (1.0 / math.tanh(0.5 * LOCAL)) ** 2
    rows = []
    for name, (norm, constant) in RATE_SIZES.items():
        randomizer = vector_randomizer(dimension=dimension, local_epsilon=LOCAL, norm=norm)
        plan = CLDPSGD(randomizer=randomizer, users=DRAWN, population=CLIENTS, rounds=RATE_ROUNDS)
        ours = plan.convergence(diameter=1.0)
        longer = max(dimension ** (1.0 - 2.0 / norm), 1.0)
        published = Convergence(
            second_moment=longer * (1.0 + constant * dimension / DRAWN * squared),
            diameter=1.0,
            rounds=RATE_ROUNDS,
        )
        rows.append(
            {
                "norm": name,
                "dimension": dimension,
                "published": [published.second_moment, published.excess_loss],
                "ours": [ours.second_moment, ours.excess_loss],
            }
        )
    return rows


def rate_values(_size: str) -> list[dict[str, Any]]:
    """The rate of Theorem 3; quick at any size."""
    return [row for dimension in (100, 26_010) for row in rates(dimension)]


def rate_tables(values: list[dict[str, Any]]) -> list[Table]:
    """Second moments and rates, as published and as they are."""
    headings = ("norm", "dimension", "G², (48)", "G², ours", "rate, (48)", "rate, ours")
    rows = [
        [
            one["norm"],
            f"{one['dimension']}",
            *(number(one[by][index]) for index in (0, 1) for by in ("published", "ours")),
        ]
        for one in values
    ]
    return [Table("", headings, rows)]


MESSAGE_ROUNDS = 300
"""Rounds after which the cost of messages is stated: 10 epochs."""

MESSAGES = {
    "R_1": (HadamardSigns, 1.0),
    "R_infinity": (CoordinateSigns, math.inf),
    "R_1.5": (PrivUnitBall, 1.5),
    "R_2": (PrivUnitBall, 2.0),
    "R_2 from a list": (CompressedPrivUnit, 2.0),
}
"""Randomizers by what the paper calls them, with the norm of their vectors."""


def longest_one(name: str, dimension: int, local_epsilon: float) -> VectorRandomizer:
    """The randomizer of a ball whose longest vectors have Euclidean length one."""
    kind, norm = MESSAGES[name]
    radius = dimension ** -max(0.0, 0.5 - 1.0 / norm)
    shape = {"norm": norm} if kind is PrivUnitBall else {}
    found: VectorRandomizer = kind(
        dimension=dimension, local_epsilon=local_epsilon, radius=radius, **shape
    )
    return found


def message(name: str, dimension: int, local_epsilon: float) -> dict[str, Any]:
    """Variance, bits and epsilon of one randomizer, for vectors no longer than one."""
    randomizer = longest_one(name, dimension, local_epsilon)
    run = randomizer.shuffled(users=DRAWN, population=CLIENTS, rounds=MESSAGE_ROUNDS)
    truth = dp.account(run).epsilon(delta=MNIST_DELTA)
    return {
        "name": name,
        "dimension": dimension,
        "local_epsilon": local_epsilon,
        "variance": randomizer.largest_variance,
        "bits": math.ceil(randomizer.bits),
        "truth": [truth.lower, truth.upper],
    }


def message_values(size: str) -> list[dict[str, Any]]:
    """All randomizers in two dimensions; quickly, in the small one at one local epsilon."""
    quick = size == QUICK
    dimensions = [1000] if quick else [1000, 26_010]
    budgets = [4.0] if quick else [1.0, 4.0, 8.0]
    cases = [(name, d, budget) for d in dimensions for budget in budgets for name in MESSAGES]
    return each(message, cases)


def message_tables(values: list[dict[str, Any]]) -> list[Table]:
    """Variance, bits and epsilon, one table for each dimension."""
    headings = ("randomizer", "local ε", "variance", "variance / d", "bits", "ε")
    tables = []
    for dimension in sorted({one["dimension"] for one in values}):
        rows = [
            [
                one["name"],
                f"{one['local_epsilon']:g}",
                number(one["variance"]),
                number(one["variance"] / dimension, 3),
                f"{one['bits']:,}",
                bracket(one["truth"]),
            ]
            for one in values
            if one["dimension"] == dimension
        ]
        tables.append(Table(f"{dimension:,} dimensions", headings, rows))
    return tables


def old_composition(epsilon: float, rounds: int, delta: float) -> float:
    """Strong composition of 2010: T e (exp(e) - 1) + e sqrt(2 T log(1/delta))."""
    return rounds * epsilon * expm1(epsilon) + epsilon * sqrt(2.0 * rounds * log(1.0 / delta))


def gain(rounds: int) -> dict[str, Any]:
    """Epsilon of the run with the claimed gain, by four methods, and the truth."""
    run = sampled(rounds=rounds, **GAIN)
    one = log1p(GAIN["users"] / GAIN["population"] * (exp(GAIN["local_epsilon"]) - 1.0))
    names = ["local_strong_composition_upper", *NAMES[:2]]
    found = published(run, DELTA, names)
    truth = dp.account(run).epsilon(delta=DELTA)
    return {
        "strong composition of 2010": old_composition(one, rounds, DELTA),
        "strong composition of kairouz2015": found[names[0]],
        "moments of 2021 + subsampling": found[names[2]],
        "Theorem 1": found[names[1]],
        "truth": [truth.lower, truth.upper],
    }


def gain_values(_size: str) -> dict[str, Any]:
    """The gain; quick at any size."""
    found: dict[str, Any] = once(gain, MANY)
    return found


def gain_tables(values: dict[str, Any]) -> list[Table]:
    """Each method beside Theorem 1."""
    theorem = values["Theorem 1"]
    rows = [
        [name, number(values[name]), f"{values[name] / theorem:.2f}"]
        for name in values
        if name != "truth"
    ]
    low, high = values["truth"]
    rows.append(["truth", bracket(values["truth"]), bracket([low / theorem, high / theorem], 3)])
    return [Table("", ("method", "ε", "over Theorem 1"), rows)]
