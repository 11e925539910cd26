"""The view of a data collection: central epsilon and error bars against the local epsilon of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sharpdp._validate import count, half_open_probability
from sharpdp.accounting import account
from sharpdp.calibration import calibrate
from sharpdp.collection_design import reporting
from sharpdp.errors import InvalidArgument
from sharpdp.explore.fields import bracket_data, number
from sharpdp.explore.snippets import snippets
from sharpdp.learn import RandomizedAnswers
from sharpdp.mechanisms import RandomizedResponse, ShuffledReports
from sharpdp.plans import Plan

__all__ = ["collection"]

GRID = tuple(np.geomspace(0.5, 8.0, 13).tolist())
"""Local epsilons of the picture."""

WIDTH = 0.02
"""Relative width of the brackets in the picture."""


def collection(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chosen design first, then the picture over local epsilons, then the limit for a target.

    Args:
        fields: users, rounds, drop_outs and dishonest (shares of the users), categories, delta,
            local_epsilon; target_epsilon (may be None).
    """
    users = count(users=number(fields, "users"), hint="It counts the people who are asked.")
    rounds = count(rounds=number(fields, "rounds"), hint="It counts how often they are asked.")
    categories, delta = number(fields, "categories"), number(fields, "delta")
    honest = reporting(
        users,
        half_open_probability(drop_outs=number(fields, "drop_outs", 0.0)),
        half_open_probability(dishonest=number(fields, "dishonest", 0.0)),
    )

    def run(local_epsilon: float) -> ShuffledReports:
        randomizer = RandomizedResponse(local_epsilon=local_epsilon, categories=categories)
        return ShuffledReports(users=honest, randomizer=randomizer, rounds=rounds)

    def error(local_epsilon: float) -> float:
        answers = RandomizedAnswers(local_epsilon=local_epsilon, categories=categories)
        return 2.0 * answers.standard_error(users=honest)

    def point(local_epsilon: float, width: float) -> dict[str, Any]:
        central = account(run(local_epsilon), relative_width=width).epsilon(delta=delta)
        return {
            "local_epsilon": local_epsilon,
            **bracket_data(central),
            "error": error(local_epsilon),
        }

    chosen = number(fields, "local_epsilon")
    alone = account(RandomizedResponse(local_epsilon=chosen, categories=categories) * rounds)
    yield {
        "chosen": {
            **point(chosen, 1e-3),
            "users": honest,
            "without_shuffler": bracket_data(alone.epsilon(delta=delta)),
        }
    }
    plan = Plan(run(chosen), (delta,))
    yield {"snippets": snippets(plan), "plan": plan.to_dict()}
    for local_epsilon in GRID:
        yield {"point": point(local_epsilon, WIDTH)}
    if fields.get("target_epsilon") is not None:
        target = number(fields, "target_epsilon")
        try:
            limit = calibrate(run, epsilon=target, delta=delta, relative_error=1e-2, whole=False)
        except InvalidArgument as fault:
            yield {"limit": {"reason": str(fault)}}
        else:
            yield {"limit": {"local_epsilon": float(limit), "error": error(float(limit))}}
