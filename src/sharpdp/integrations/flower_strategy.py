"""CLDP-SGD as a strategy of Flower: clients randomize their gradients, and the server averages reports.

    plan = CLDPSGD(randomizer=ball, users=100, population=1000, rounds=50)
    strategy = CLDPStrategy(plan)
    strategy.start(grid, ArrayRecord([start]), num_rounds=plan.rounds)
    strategy.guarantee.epsilon(delta=1e-5)

    reply = report(message, gradient, plan.randomizer)    # in every client

Needs `pip install "sharpdp[flower]"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate.extras import optional_packages

with optional_packages("flower", "flwr"):
    from flwr.app import ArrayRecord, Message, MessageType, RecordDict
    from flwr.serverapp.strategy import FedAvg

from sharpdp._validate import count, short_repr
from sharpdp.budget import Budget, Ledger, counted_rounds
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn import CLDPSGD, VectorRandomizer, clipped
from sharpdp.learn.budget import check_left
from sharpdp.learn.cldp import projected, reporting
from sharpdp.learn.randomizers.validation import vector_of
from sharpdp.questions.account import Guarantee, account
from sharpdp.randomness.system_stream import Floats, system_stream_for

__all__ = ["CLDPStrategy", "report"]

REPORT = "report"
"""Under this name a client's reply has its report, and nothing else."""


class CLDPStrategy(FedAvg):  # type: ignore[misc]  # Flower's types are not followed
    """CLDP-SGD over the nodes of a federation: girgis2021 Algorithm 1.

    In every round ``plan.users`` of the ``plan.population`` nodes are drawn afresh from the operating
    system. Each of them answers with `report`, and the mean of the reports moves the parameters. A round
    counts from the moment at which its messages are made; one to which a node does not answer moves
    nothing.

    Two numbers protect a client: ``plan.randomizer.local_epsilon`` against the server, which sees who
    sent what, and `guarantee` against whoever sees the parameters, but not who was drawn or who sent
    what. Nodes are not asked to evaluate.

    Args:
        plan: Who reports, how, and how often. The parameters are one array of its dimension.
        begun: Rounds that a server before this one has begun, at least 0.
        budget: A `Budget` or `Ledger` that several runs share. As many rounds as it allows are counted in
            it now, and no more are run; None for none.
        budget_key: Name of this run in a ledger, so that a resumed run, which says what it has ``begun``,
            is not counted twice; a new one is refused under this name.

    Attributes:
        begun: Number of rounds begun, which is what is accounted.

    Raises:
        BudgetExceeded: The budget does not allow a single round.
        InvalidArgument: begun is out of range.
        WrongType: plan is no `CLDPSGD`.
    """

    def __init__(
        self,
        plan: CLDPSGD,
        *,
        begun: int = 0,
        budget: Budget | Ledger | None = None,
        budget_key: str | None = None,
    ) -> None:
        """No node is asked yet."""
        if not isinstance(plan, CLDPSGD):
            raise WrongType(f"plan must be a CLDPSGD; got {short_repr(plan)}.")
        super().__init__(fraction_evaluate=0.0)
        self.plan, self.begun, self.last = plan, count(least=0, begun=begun), plan.rounds
        if budget is not None:
            self.last = counted_rounds(
                budget,
                plan.begun,
                plan.rounds,
                note="rounds of clients",
                key=budget_key,
                done=self.begun,
            )
        self._parameters = np.zeros(plan.randomizer.dimension)
        self._asked: list[int] = []

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of the rounds that were begun, at least one, against who sees the parameters.

        It holds for a number of rounds that was fixed in advance, a budget included. If results decide
        when to stop, take that of the whole plan, or `sharpdp.budget.ex_post_epsilon` of ``plan.begun``.
        """
        if self.begun == 0:
            raise InvalidArgument(
                "no round was started yet, so nothing about the clients was released."
            )
        return account(self.plan.begun(self.begun))

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """Draw the nodes of a round, and ask them.

        Args:
            server_round: Number of the round, from 1 on.
            arrays: The parameters, one array.
            config: Sent to the nodes as well.
            grid: Knows the nodes.

        Returns:
            The messages.

        Raises:
            BudgetExceeded: The budget allows no more rounds.
            InvalidArgument: All rounds were begun, the parameters have another dimension, or the nodes
                are not as many as the plan has clients.
        """
        check_left(self.begun, self.plan.rounds, self.last, "rounds")
        nodes = sorted(grid.get_node_ids())
        if len(nodes) != self.plan.population:
            raise InvalidArgument(
                f"population must be that of the plan, {self.plan.population} nodes; got {len(nodes)}."
            )
        self._parameters = self._vector(arrays)
        mixed = reporting(self.plan, system_stream_for(None))
        config["server-round"] = server_round
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        self.begun += 1
        asked = [nodes[number] for number in mixed.tolist()]
        self._asked = sorted(asked)
        messages: Iterable[Any] = self._construct_messages(content, asked, MessageType.TRAIN)
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Move the parameters by the mean of the reports, if every node that was asked sent one.

        Args:
            server_round: Number of the round, from 1 on.
            replies: What the nodes answered.

        Returns:
            The parameters, None if a report is missing or another node's; and no metrics.

        Raises:
            InvalidArgument: A reply is no report of the randomizer.
        """
        answers = list(replies)
        came = sorted(answer.metadata.src_node_id for answer in answers)
        if came != self._asked or any(answer.has_error() for answer in answers):
            return None, None
        plan = self.plan
        try:
            sent = [answer.content[REPORT].to_numpy_ndarrays()[0] for answer in answers]
        except (KeyError, AttributeError, IndexError) as fault:
            raise InvalidArgument(
                "replies must be those of report(message, gradient, randomizer); got another one."
            ) from fault
        # The last bits of a sum depend on its order, and the order of arrival depends on who sent what.
        mixed = [sent[place] for place in system_stream_for(None).order(len(sent))]
        mean = plan.randomizer.mean(np.concatenate(mixed))
        moved = self._parameters - plan.rate(self.begun - 1) * mean
        return ArrayRecord([projected(plan, moved)]), None

    def _vector(self, arrays: Any) -> Floats:
        """The parameters, which are one array."""
        held = arrays.to_numpy_ndarrays()
        return vector_of(held[0] if len(held) == 1 else held, self.plan.randomizer.dimension)


def report(message: Any, gradient: ArrayLike, randomizer: VectorRandomizer) -> Any:
    """A client's answer: its clipped gradient through the randomizer, and nothing else.

    The randomness is that of the operating system. A gradient that is not finite counts as zero.

    Args:
        message: What the client was asked.
        gradient: The gradient of its loss, one number for each coordinate.
        randomizer: That of the plan.

    Returns:
        The reply.

    Raises:
        InvalidArgument: gradient has another dimension.
        WrongType: gradient is no array of numbers.
    """
    rows = np.asarray(gradient)[None]
    held = clipped(rows, radius=randomizer.radius, norm=randomizer.norm)
    return Message(
        RecordDict({REPORT: ArrayRecord([np.asarray(randomizer.reports(held))])}), reply_to=message
    )
