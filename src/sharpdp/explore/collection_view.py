"""The view of a data collection: central epsilon and error bars against the local epsilon of a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sharpdp._validate import count, invalid
from sharpdp.accounting import account
from sharpdp.calibration import calibrate
from sharpdp.errors import InvalidArgument
from sharpdp.explore.fields import bracket_data, number
from sharpdp.explore.snippets import snippets
from sharpdp.mechanisms import RandomizedResponse, ShuffledReports
from sharpdp.plans import Plan

__all__ = ["collection", "share_error"]

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
    honest = _honest(users, number(fields, "drop_outs", 0.0), number(fields, "dishonest", 0.0))

    def run(local_epsilon: float) -> ShuffledReports:
        randomizer = RandomizedResponse(local_epsilon=local_epsilon, categories=categories)
        return ShuffledReports(users=honest, randomizer=randomizer, rounds=rounds)

    def point(local_epsilon: float, width: float) -> dict[str, Any]:
        central = account(run(local_epsilon), relative_width=width).epsilon(delta=delta)
        error = share_error(local_epsilon, categories=categories, users=honest)
        return {"local_epsilon": local_epsilon, **bracket_data(central), "error": error}

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
            error = share_error(limit, categories=categories, users=honest)
            yield {"limit": {"local_epsilon": float(limit), "error": error}}


def share_error(local_epsilon: float, *, categories: int, users: int) -> float:
    """Two standard errors of a share estimated from randomized response, the largest of any share.

    A report names a category with probability r = q + f (p - q) if a share f holds it. The estimate
    (reports / users - q) / (p - q) has the variance r (1 - r) / (users (p - q)^2), the choice of
    users from a population included.

    >>> round(share_error(4.8, categories=6, users=5000), 3)
    0.015
    """
    odds = math.exp(local_epsilon)
    truth, other = odds / (odds + categories - 1), 1.0 / (odds + categories - 1)
    rate = min(max(0.5, other), truth)  # the variance is largest at one half
    if truth <= other:
        return math.inf
    return 2.0 * math.sqrt(rate * (1.0 - rate) / users) / (truth - other)


def _honest(users: int, drop_outs: float, dishonest: float) -> int:
    """How many honest reports are mixed in a round, rounded down."""
    for name, share in (("drop_outs", drop_outs), ("dishonest", dishonest)):
        if not 0.0 <= share < 1.0:
            raise invalid(name, "a share in [0, 1)", share)
    honest = math.floor(users * (1.0 - drop_outs) * (1.0 - dishonest))
    if honest < 1:
        raise InvalidArgument(f"users must leave at least one honest report; got {users}.")
    return honest
