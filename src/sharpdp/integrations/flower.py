"""An accountant for Flower: the client-level privacy of a federation, certified from above.

    config = flwr.serverapp.PrivacyConfig(
        target_delta=1e-5, population_size=1000, max_epsilon=8.0,
        neighboring_relation=flwr.serverapp.NeighboringRelation.ADD_OR_REMOVE_ONE,
        sampling_method=flwr.serverapp.SamplingMethod.NO_AMPLIFICATION,
    )
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(...), noise_multiplier=1.0, clipping_norm=1.0, num_sampled_clients=100,
        accountant=CertifiedAccountant(config),
    )

It follows the protocol `flwr.serverapp.PrivacyAccountant`. Needs `pip install "sharpdp[flower]"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sharpdp._validate.extras import optional_packages

with optional_packages("flower", "flwr"):
    from flwr.serverapp import (
        GaussianPrivacyEvent,
        NeighboringRelation,
        PrivacyConfig,
        PrivacySpent,
        SamplingMethod,
    )

from sharpdp._validate import count as counted
from sharpdp._validate import invalid, nonnegative, open_probability, positive, short_repr
from sharpdp.batches import DeterministicBatches, FixedSizeBatches, PoissonBatches
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import DPSGD, Adjacency, Mechanism, Sequence
from sharpdp.plans import Plan
from sharpdp.questions.account import Guarantee, account

__all__ = ["CertifiedAccountant"]

NEIGHBORS = {
    SamplingMethod.POISSON: Adjacency.ADD_REMOVE,
    SamplingMethod.WITHOUT_REPLACEMENT: Adjacency.REPLACE_ONE,
    SamplingMethod.NO_AMPLIFICATION: Adjacency.ZERO_OUT,
}
"""Which federations are neighbors, one client being what differs."""

METHOD = "sharpdp"


class CertifiedAccountant:
    """Flower's `PrivacyAccountant`, with the certified upper side of epsilon and delta.

    The protected unit is a client. An event is a sum of client updates, each clipped to one norm, with
    Gaussian noise of standard deviation noise_multiplier times that norm, divided by a number that does
    not depend on the clients. Who may be in the sum is said by the configuration:

    - "no-amplification": the cohort is known, and a client's neighbor is the same cohort in which that
      client sends no change (zero-out). If another client would take the seat, the sum moves by twice the
      norm: halve noise_multiplier.
    - "poisson": every client is in a round with probability sample_size / population_size, by itself and
      secretly; one client more or less (add/remove).
    - "without-replacement": sample_size clients out of population_size, drawn anew and secretly in every
      round; one client has other data (replace-one), which moves a sum by up to twice the norm.

    `compose` also takes a mechanism of sharpdp under these neighbors, such as `ShuffledReports` of
    clients who randomize their own reports (replace-one). What events and mechanisms are must not depend
    on earlier results; for that, keep a `Budget`. Metrics of clients that a strategy averages are
    releases of their own.

    Args:
        config: A `flwr.serverapp.PrivacyConfig`.

    Raises:
        WrongType: config is no such configuration.
    """

    def __init__(self, config: PrivacyConfig) -> None:
        """Nothing was released yet."""
        if not isinstance(config, PrivacyConfig):
            raise WrongType(f"config must be a flwr PrivacyConfig; got {short_repr(config)}.")
        self._config = config
        self._releases: list[tuple[GaussianPrivacyEvent | Mechanism, int]] = []

    @property
    def config(self) -> PrivacyConfig:
        """The configuration."""
        return self._config

    @property
    def adjacency(self) -> Adjacency:
        """Which federations are neighbors."""
        return NEIGHBORS[self._config.sampling_method]

    @property
    def num_releases(self) -> int:
        """Number of releases so far."""
        return sum(times for _, times in self._releases)

    def compose(self, event: GaussianPrivacyEvent | Mechanism, count: int = 1) -> None:
        """Count releases. Strategies of Flower do so after each round.

        Args:
            event: One noisy sum of client updates, or a mechanism of sharpdp.
            count: How many of them, at least 1.

        Raises:
            InvalidArgument: The event is about another population, or count is out of range.
            WrongType: event is neither of these.
            Unsupported: No theorem covers the mechanism under these neighbors.
        """
        self._releases = self._with(event, count)

    def get_epsilon(self, delta: float) -> float:
        """The upper side of epsilon for everything released so far; 0 if that is nothing.

        Args:
            delta: Delta, in (0, 1).

        Returns:
            Epsilon, certified from above.

        Raises:
            InvalidArgument: delta is out of range.
            WrongType: delta is no number.
        """
        return self._epsilon(self._releases, open_probability(delta=delta))

    def get_delta(self, epsilon: float) -> float:
        """The upper side of delta for everything released so far; 0 if that is nothing.

        Args:
            epsilon: Epsilon, at least 0.

        Returns:
            Delta, certified from above.

        Raises:
            InvalidArgument: epsilon is out of range.
            WrongType: epsilon is no number.
        """
        value = nonnegative(epsilon=epsilon)
        return float(self.guarantee.delta(epsilon=value).upper) if self._releases else 0.0

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Epsilon, delta and the number of releases so far.

        Args:
            delta: Delta, in (0, 1); None for that of the configuration.

        Returns:
            What Flower's strategies log.

        Raises:
            InvalidArgument: delta is out of range.
            WrongType: delta is no number.
        """
        asked = self._config.target_delta if delta is None else delta
        return PrivacySpent(
            epsilon=self.get_epsilon(asked),
            delta=asked,
            num_releases=self.num_releases,
            accounting_method=METHOD,
        )

    def would_exceed(
        self,
        event: GaussianPrivacyEvent | Mechanism,
        max_epsilon: float | None = None,
        count: int = 1,
    ) -> bool:
        """Whether more releases could exceed a limit at the configuration's delta; none are counted.

        Args:
            event: One noisy sum of client updates, or a mechanism of sharpdp.
            max_epsilon: The limit, above 0; None for that of the configuration.
            count: How many releases, at least 1.

        Returns:
            False if they certainly stay within the limit.

        Raises:
            InvalidArgument: There is no limit, or an argument is out of range.
            WrongType: An argument has the wrong type.
            Unsupported: No theorem covers the mechanism under these neighbors.
        """
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise InvalidArgument(
                "max_epsilon must be given here or in the PrivacyConfig; got None."
            )
        positive(max_epsilon=limit)
        return self._epsilon(self._with(event, count), self._config.target_delta) > limit

    def state_dict(self) -> dict[str, object]:
        """Everything that was released, as plain data.

        Returns:
            What `load_state_dict` takes, and JSON can hold.
        """
        releases = [
            {
                "count": times,
                **({"plan": Plan(one).to_dict()} if isinstance(one, Mechanism) else asdict(one)),
            }
            for one, times in self._releases
        ]
        return {"backend": METHOD, "config": _plain(self._config), "releases": releases}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from a state of an accountant with the same configuration.

        Args:
            state: What `state_dict` gave.

        Raises:
            InvalidArgument: The state is that of another accountant or configuration.
            WrongType: It is no such state.
        """
        given: Any = state
        if not isinstance(given, Mapping) or given.get("backend") != METHOD:
            raise WrongType(f"state must be one of this accountant; got {short_repr(given)}.")
        if given.get("config") != _plain(self._config):
            raise invalid("state", f"one of {_plain(self._config)}", given.get("config"))
        restored = CertifiedAccountant(self._config)
        try:
            for entry in given["releases"]:
                fields = {name: value for name, value in entry.items() if name != "count"}
                plan = fields.get("plan")
                one = (
                    GaussianPrivacyEvent(**fields)
                    if plan is None
                    else Plan.from_dict(plan).mechanism
                )
                restored.compose(one, entry["count"])
        except InvalidArgument:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as fault:
            raise WrongType(f"releases must be those of a state; got {fault}.") from fault
        self._releases = restored._releases

    @property
    def guarantee(self) -> Guarantee:
        """The privacy of everything released so far, at least once, with both sides.

        It holds for a number of rounds that was fixed in advance, a budget included. If results decide
        when to stop, take that of the whole plan, or `sharpdp.budget.ex_post_epsilon`.
        """
        if not self._releases:
            raise InvalidArgument("nothing was released yet, so that nothing is known of clients.")
        return self._guarantee(self._releases)

    def _guarantee(self, releases: list[tuple[GaussianPrivacyEvent | Mechanism, int]]) -> Guarantee:
        parts = [self._mechanism(one, times) for one, times in releases]
        whole = parts[0] if len(parts) == 1 else Sequence(parts)
        return account(whole, adjacency=self.adjacency)

    def _epsilon(
        self, releases: list[tuple[GaussianPrivacyEvent | Mechanism, int]], delta: float
    ) -> float:
        if not releases:
            return 0.0
        return float(self._guarantee(releases).epsilon(delta=delta).upper)

    def _with(
        self, event: GaussianPrivacyEvent | Mechanism, count: int
    ) -> list[tuple[GaussianPrivacyEvent | Mechanism, int]]:
        """What was released together with more; equal releases in a row are one entry."""
        times = counted(count=count)
        if isinstance(event, Mechanism):
            event.adjacency(self.adjacency)
        elif not isinstance(event, GaussianPrivacyEvent):
            raise WrongType(
                "event must be a flwr GaussianPrivacyEvent or a mechanism of sharpdp; got "
                f"{short_repr(event)}."
            )
        elif event.population_size != self._config.population_size:
            size = self._config.population_size
            raise invalid("population_size", f"{size}, as configured", event.population_size)
        if self._releases and self._releases[-1][0] == event:
            return [*self._releases[:-1], (event, self._releases[-1][1] + times)]
        return [*self._releases, (event, times)]

    def _mechanism(self, event: GaussianPrivacyEvent | Mechanism, times: int) -> Mechanism:
        """What so many equal releases are."""
        if isinstance(event, Mechanism):
            return event * times
        size, cohort = event.population_size, event.sample_size
        scheme: Any
        if self._config.sampling_method is SamplingMethod.POISSON:
            scheme = PoissonBatches(sample_rate=cohort / size, steps=times)
        elif self._config.sampling_method is SamplingMethod.WITHOUT_REPLACEMENT:
            scheme = FixedSizeBatches(dataset_size=size, batch_size=cohort, steps=times)
        else:
            scheme = DeterministicBatches(dataset_size=cohort, batch_size=cohort, epochs=times)
        return DPSGD(scheme, noise_multiplier=event.noise_multiplier)


def _plain(config: PrivacyConfig) -> dict[str, object]:
    """A configuration as plain data."""
    return {
        name: value.value if isinstance(value, NeighboringRelation | SamplingMethod) else value
        for name, value in asdict(config).items()
    }
