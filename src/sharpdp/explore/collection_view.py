"""The view of a data collection: central epsilon and error bars against the local epsilon of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sharpdp._validate import count, half_open_probability, open_probability, positive
from sharpdp.display.outward_digits import ROUND_FLOOR, in_digits
from sharpdp.errors import InvalidArgument
from sharpdp.explore.fields import bracket_data, number, target
from sharpdp.explore.snippets import code
from sharpdp.learn import RandomizedAnswers
from sharpdp.mechanisms import RandomizedResponse, ShuffledReports
from sharpdp.plans import Plan
from sharpdp.questions.account import account
from sharpdp.questions.calibrate import calibrate
from sharpdp.questions.design_collection import reporting

__all__ = ["design", "limit", "picture"]

LOCAL_EPSILONS = (2.0, 4.0, 1.0, 5.6, 0.5, 2.8, 1.4, 0.7)
"""Local epsilons of the picture, in the order in which they are computed: its shape shows early."""

LARGER = (8.0, 11.0, 16.0, 22.0, 32.0)
"""Further ones, if the question goes so far; they take longer."""


@dataclass(frozen=True)
class Collection:
    """A data collection: honest reports of some categories, in some rounds."""

    users: int
    rounds: int
    categories: int
    delta: float

    def run(self, local_epsilon: float) -> ShuffledReports:
        """The collection at one local epsilon."""
        randomizer = RandomizedResponse(local_epsilon=local_epsilon, categories=self.categories)
        return ShuffledReports(users=self.users, randomizer=randomizer, rounds=self.rounds)

    def point(self, local_epsilon: float) -> dict[str, Any]:
        """Privacy and accuracy at one local epsilon."""
        answer = account(self.run(local_epsilon))
        alone = account(
            RandomizedResponse(local_epsilon=local_epsilon, categories=self.categories)
            * self.rounds
        )
        return {
            "local_epsilon": local_epsilon,
            **bracket_data(answer.epsilon(delta=self.delta)),
            "error": self.error(local_epsilon),
            "without_shuffler": bracket_data(alone.epsilon(delta=self.delta)),
        }

    def error(self, local_epsilon: float) -> float:
        """Two standard errors of a share at one local epsilon, the largest of any share."""
        answers = RandomizedAnswers(local_epsilon=local_epsilon, categories=self.categories)
        return 2.0 * answers.standard_error(users=self.users)


def design(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chosen design.

    Args:
        fields: users, rounds, drop_outs and dishonest (shares of the users), categories, delta,
            local_epsilon.
    """
    collection, chosen = _collection(fields), _local_epsilon(fields)
    yield {"code": code(Plan(collection.run(chosen), (collection.delta,)))}
    yield {"chosen": {**collection.point(chosen), "users": collection.users}}


def picture(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The design at other local epsilons, one point after the other.

    Args:
        fields: As of `design`, without a local epsilon; largest (the largest one, 5.6 by default).
    """
    collection, largest = _collection(fields), number(fields, "largest", 5.6)
    further = [value for value in LARGER if value <= largest]
    for local_epsilon in (*LOCAL_EPSILONS, *further):
        yield {"point": collection.point(local_epsilon)}


def limit(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The largest local epsilon that meets a target.

    Args:
        fields: As of `design`, without a local epsilon; target_epsilon.
    """
    collection = _collection(fields)
    epsilon = target(fields)
    try:
        most = calibrate(
            collection.run,
            epsilon=epsilon,
            delta=collection.delta,
            whole=False,
        )
    except InvalidArgument as fault:
        yield {"limit": {"reason": str(fault)}}
    else:
        error, shown = collection.error(most), in_digits(most, ROUND_FLOOR)
        yield {"limit": {"local_epsilon": float(most), "shown": shown, "error": error}}


def _collection(fields: Mapping[str, Any]) -> Collection:
    users = count(users=number(fields, "users"), hint="It counts the people who are asked.")
    rounds = count(rounds=number(fields, "rounds"), hint="It counts how often they are asked.")
    categories = count(categories=number(fields, "categories"), least=2)
    honest = reporting(
        users,
        half_open_probability(drop_outs=number(fields, "drop_outs", 0.0)),
        half_open_probability(dishonest=number(fields, "dishonest", 0.0)),
    )
    return Collection(honest, rounds, categories, open_probability(delta=number(fields, "delta")))


def _local_epsilon(fields: Mapping[str, Any]) -> float:
    return positive(local_epsilon=number(fields, "local_epsilon"))
