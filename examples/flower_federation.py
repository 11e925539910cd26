"""A Flower federation in one process: clipped updates, central noise, certified epsilon after each round.

    python examples/flower_federation.py

Clients hold a few points each and send the model that they trained; the server clips what changed, adds
noise and stops before epsilon would exceed its limit. The grid below hands messages to clients directly;
in a deployment it is Flower's. Needs `pip install "sharpdp[flower]"`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid, NeighboringRelation, PrivacyConfig, SamplingMethod
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

from sharpdp.integrations.flower import CertifiedAccountant

CLIENTS, COHORT = 200, 200
NOISE, CLIP, MAX_EPSILON = 5.0, 1.0, 3.0
TRUTH = np.array([1.0, -2.0, 0.5])


def client(number: int, weights: np.ndarray) -> np.ndarray:
    """One step of gradient descent on the client's own points."""
    rng = np.random.default_rng(number)
    inputs = rng.normal(size=(10, 3))
    targets = inputs @ TRUTH + 0.1 * rng.normal(size=10)
    return np.asarray(weights - 0.2 * inputs.T @ (inputs @ weights - targets) / 10)


class OneProcess(Grid):  # type: ignore[misc]  # Flower's types are not followed
    """Clients as function calls, in place of a network."""

    def set_run(self, run: Any) -> None:
        """There is one run only."""

    @property
    def run(self) -> Any:
        """There is one run only."""
        return None

    def create_message(self, *arguments: Any, **options: Any) -> Any:
        """Strategies make their own messages."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """The clients, counted from 1."""
        return range(1, CLIENTS + 1)

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str]:
        """Messages are answered at once, by send_and_receive."""
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
        """Messages are answered at once, by send_and_receive."""
        raise NotImplementedError

    def send_and_receive(
        self, messages: Iterable[Any], *, timeout: float | None = None
    ) -> Iterable[Any]:
        """The models that the clients trained, each with the same weight in the mean."""
        for message in messages:
            (weights,) = message.content["arrays"].to_numpy_ndarrays()
            trained = client(message.metadata.dst_node_id, weights)
            content = {
                "arrays": ArrayRecord([trained]),
                "metrics": MetricRecord({"num-examples": 1}),
            }
            yield Message(RecordDict(content), reply_to=message)


def main() -> tuple[CertifiedAccountant, np.ndarray]:
    """Train until the budget is used up; the accountant and the weights."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = (
        1  # as Flower's launcher does
    )
    accountant = CertifiedAccountant(
        PrivacyConfig(
            target_delta=1e-5,
            population_size=CLIENTS,
            neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            sampling_method=SamplingMethod.NO_AMPLIFICATION,
            max_epsilon=MAX_EPSILON,
        )
    )
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS),
        noise_multiplier=NOISE,
        clipping_norm=CLIP,
        num_sampled_clients=COHORT,
        accountant=accountant,
    )
    weights = np.zeros(3)

    def report(number: int, arrays: Any) -> None:
        nonlocal weights
        (weights,) = arrays.to_numpy_ndarrays()
        if number:
            spent = accountant.get_privacy_spent()
            error = np.linalg.norm(weights - TRUTH)
            print(
                f"round {number}: epsilon at most {spent.epsilon:.3f} at delta {spent.delta:g}, "
                f"error {error:.3f}"
            )

    try:
        strategy.start(OneProcess(), ArrayRecord([weights]), num_rounds=100, evaluate_fn=report)
    except PrivacyBudgetExhausted:
        print(f"stopped: one more round could exceed epsilon {MAX_EPSILON:g}")
    print(accountant.guarantee.epsilon(delta=1e-5))
    return accountant, weights


if __name__ == "__main__":
    main()
