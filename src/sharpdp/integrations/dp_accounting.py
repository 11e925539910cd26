"""Exchange with Google's dp-accounting: its events as our mechanisms and back, and its PLDs.

    run = mechanism_of(event)            # an event tree of dp-accounting, accounted here
    event = event_of(mechanism)          # what dp-accounting's accountants take
    curve = curve_of(pld)                # a privacy-loss distribution, to be composed with others here
    table = privacy_loss_of(pld)         # the same with every loss of it
    pld = pld_of(mechanism)              # our upper side as a privacy-loss distribution

Needs `pip install dp-accounting`. An event that says less than we must know, or that nothing here covers,
raises an error that names it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate.extras import optional_packages

with optional_packages("dp-accounting", "dp_accounting"):
    import dp_accounting
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

from sharpdp._validate import closed_probability, count, probability, short_repr
from sharpdp.batches import FixedSizeBatches, PoissonBatches
from sharpdp.curves.tradeoff.curve import LARGEST_EPSILON, TradeoffCurve
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.integrations.loss_tables import pessimistic_table
from sharpdp.mechanisms import (
    DPSGD,
    ApproximateDP,
    BestOf,
    Gaussian,
    Laplace,
    Mechanism,
    PrivacyLoss,
    RandomizedResponse,
    Repeated,
    SameBatches,
    Sequence,
)
from sharpdp.questions.account import account

__all__ = ["curve_of", "event_of", "mechanism_of", "pld_of", "privacy_loss_of"]


def mechanism_of(event: Any) -> Mechanism:
    """The mechanism that an event of dp-accounting stands for.

    Sampling with a Gaussian becomes DP-SGD over the scheme: Poisson for `PoissonSampledDpEvent`,
    fixed-size batches for `SampledWithoutReplacementDpEvent` and `SampledWithReplacementDpEvent`. An
    event names no neighbors: those are then the scheme's. Its noise is taken over the norm of one
    record. If it is over the distance of two records, as `RdpAccountant` takes it under REPLACE_ONE and
    `event_of` writes it for fixed-size batches, that is on the safe side, by a factor of two in the
    noise.

    Args:
        event: A `DpEvent` of dp-accounting.

    Returns:
        The mechanism.

    Raises:
        InvalidArgument: A number of the event is out of range.
        WrongType: event is no `DpEvent`.
        Unsupported: No mechanism of sharpdp is that event.
    """
    match event:
        case dp_accounting.NoOpDpEvent():
            return Sequence([])
        case dp_accounting.NonPrivateDpEvent():
            return ApproximateDP(epsilon=0.0, delta=1.0)
        case dp_accounting.GaussianDpEvent():
            return Gaussian(noise_multiplier=event.noise_multiplier)
        case dp_accounting.LaplaceDpEvent():
            return Laplace(scale=event.noise_multiplier)
        case dp_accounting.dp_event.RandomizedResponseDpEvent():
            return _response(event.noise_parameter, event.num_buckets)
        case dp_accounting.SelfComposedDpEvent():
            return _repeated(event.event, event.count)
        case dp_accounting.dp_event.RepeatAndSelectDpEvent():
            return _best_of(event)
        case dp_accounting.ComposedDpEvent():
            return Sequence([mechanism_of(part) for part in event.events])
        case (
            dp_accounting.PoissonSampledDpEvent()
            | dp_accounting.SampledWithReplacementDpEvent()
            | dp_accounting.SampledWithoutReplacementDpEvent()
        ):
            return _sampled(event, 1)
    if not isinstance(event, dp_accounting.DpEvent):
        raise WrongType(f"event must be one of dp-accounting; got {short_repr(event)}. {_known()}")
    raise Unsupported(f"no mechanism here is {type(event).__name__}. {_known()}")


def event_of(mechanism: Mechanism) -> Any:
    """The event of dp-accounting for a mechanism, valid for the neighbors that its accountants claim.

    Over Poisson batches the noise is that of the run, over the norm of one record. It is valid for every
    relation that an accountant takes: ADD_OR_REMOVE_ONE, REPLACE_SPECIAL (zero-out) and REPLACE_ONE.

    Over fixed-size batches it is **half** of that. dp-accounting takes such events under REPLACE_ONE
    only, and `RdpAccountant` then takes their noise over the distance of two records, which may be twice
    the norm of one. Its epsilon holds for replace-one, and so for zero-out. With all of the noise it
    would hold for neither: a batch without the record has another one in its place. With 10 of 1000
    records, noise multiplier 1, one step and delta 1e-6, `RdpAccountant` would say 1.24; if the record
    contributes 1, all others -1 and the null record 0, the truth is 3.32.

    `Gaussian` and `Laplace` are valid for the relation for which their sensitivity is 1, and
    `RandomizedResponse` for REPLACE_ONE.

    Args:
        mechanism: `Gaussian`, `Laplace`, `RandomizedResponse`, `DPSGD` or `SameBatches` over Poisson or
            fixed-size batches, or a composition of these.

    Returns:
        A `DpEvent`.

    Raises:
        WrongType: mechanism is no mechanism.
        Unsupported: dp-accounting has no event for it.
    """
    match mechanism:
        case Mechanism(uses_records=False):
            return dp_accounting.NoOpDpEvent()
        case ApproximateDP(delta=1.0):
            return dp_accounting.NonPrivateDpEvent()
        case Gaussian():
            return dp_accounting.GaussianDpEvent(mechanism.noise_multiplier)
        case Laplace():
            return dp_accounting.LaplaceDpEvent(mechanism.scale)
        case RandomizedResponse():
            return _response_event(mechanism)
        case Repeated():
            return dp_accounting.SelfComposedDpEvent(event_of(mechanism.mechanism), mechanism.count)
        case Sequence():
            return dp_accounting.ComposedDpEvent([event_of(part) for part in mechanism.mechanisms])
        case DPSGD():
            return _training_event(mechanism)
        case SameBatches():
            return event_of(mechanism.equivalent)
        case BestOf() if isinstance(mechanism.repetitions, str):
            shape = {"poisson": math.inf, "geometric": 1.0}.get(
                mechanism.repetitions, mechanism.shape
            )
            return dp_accounting.dp_event.RepeatAndSelectDpEvent(
                event_of(mechanism.run), mechanism.mean, shape
            )
    if not isinstance(mechanism, Mechanism):
        raise WrongType(f"mechanism must be a mechanism; got {short_repr(mechanism)}.")
    raise Unsupported(f"dp-accounting has no event for {mechanism.describe()}.")


def curve_of(pld: Any) -> TradeoffCurve:
    """The trade-off curve that a PLD implies, to be accounted and composed as a mechanism.

    Holds when: the PLD stands for both directions (as all of dp-accounting's do), whatever was cut off
    when it was made is in its mass at infinite loss, and its masses are right as they are. A PLD does not
    say where it was cut off, so that this cannot be checked here: leave `log_mass_truncation_bound` at
    its default of -50, or far below the logarithm of every delta that is asked. Masses of a composed PLD
    come from a Fourier transform with errors of about 1e-16, for which there is no bound: do not rely on
    deltas below 1e-10 there.

    It is read at up to 500 epsilons, rounded up; between them a little is lost on the safe side. The mass
    at infinite loss is kept, and a negative mass, which only rounding leaves behind, counts as none.

    Args:
        pld: A pessimistic `PrivacyLossDistribution` of dp-accounting.

    Returns:
        The curve, with an upper side only.

    Raises:
        InvalidArgument: Its masses are not between 0 and 1.
        WrongType: pld is no `PrivacyLossDistribution`.
        Unsupported: pld is optimistic, and so bounds nothing from above.
    """
    tables = _pessimistic(pld)
    last = max(dense._discretization * (dense._lower_loss + dense.size) for dense in tables)
    top = min(max(last, tables[0]._discretization), LARGEST_EPSILON)
    # epsilons at which a privacy-loss distribution is read
    epsilons = np.linspace(0.0, top, 500)
    deltas = np.maximum(*(_deltas_upwards(dense, epsilons) for dense in tables))
    clean = np.minimum(deltas, 1.0).tolist()
    return TradeoffCurve.from_points(epsilons=epsilons.tolist(), deltas=clean)


def privacy_loss_of(pld: Any) -> PrivacyLoss:
    """A PLD with every loss of it, as a mechanism: sharper than `curve_of` when it is composed.

    Holds when: what was cut off is in its mass at infinite loss, and its masses are right but for
    rounding, as in `curve_of`. dp-accounting's sums are off by up to 1e-8 or so; they are mended upwards,
    as `pessimistic_table` says.

    Args:
        pld: A pessimistic `PrivacyLossDistribution` of dp-accounting.

    Returns:
        The table, with an upper side only.

    Raises:
        InvalidArgument: Its masses are not between 0 and 1, or do not sum to 1.
        WrongType: pld is no `PrivacyLossDistribution`.
        Unsupported: pld is optimistic, and so bounds nothing from above.
    """
    ahead, behind = _pessimistic(pld)
    if pld._symmetric:
        return _table(ahead, "same")
    return _table(ahead, _table(behind))


def _table(dense: Any, reverse: PrivacyLoss | str | None = None) -> PrivacyLoss:
    places = np.arange(dense.size) + dense._lower_loss
    losses = np.nextafter(places * dense._discretization, math.inf)
    infinite = float(dense._infinity_mass)
    return pessimistic_table(losses, dense._probs, infinite, name="PLD", reverse=reverse)


def _pessimistic(pld: Any) -> list[Any]:
    """The tables of a pessimistic PLD, for removing a record and for adding it."""
    if not isinstance(pld, privacy_loss_distribution.PrivacyLossDistribution):
        raise WrongType(f"pld must be a PrivacyLossDistribution; got {short_repr(pld)}.")
    both = (pld._pmf_remove, pld._pmf_add)
    if not all(pmf._pessimistic_estimate for pmf in both):
        raise Unsupported(
            "pld must be pessimistic to be composed here; got an optimistic one, which bounds nothing "
            "from above. Make it with pessimistic_estimate=True."
        )
    return [pmf.to_dense_pmf() for pmf in both]


def _deltas_upwards(dense: Any, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """The hockey-stick divergences of a table of losses, not rounded below what its masses say.

    With m(e) the mass of losses above e, and for e' < e,

        delta(e') = e^(e'-e) delta(e) + (1 - e^(e'-e)) m(e)
                    + sum over e' < loss <= e of mass (1 - e^(e'-loss))

    adds nonnegative terms only, so that each rounding is a relative one. (The difference that
    dp-accounting takes instead loses digits, and may come out below the mass at infinite loss.)
    """
    masses = np.maximum(np.asarray(dense._probs, dtype=float), 0.0)
    infinite = float(dense._infinity_mass)
    if not (np.all(np.isfinite(masses)) and 0.0 <= infinite <= 1.0):
        raise InvalidArgument("pld must have masses between 0 and 1; got others.")
    places = np.arange(masses.size) + dense._lower_loss
    losses = np.nextafter(places * dense._discretization, math.inf)
    deltas = np.full(epsilons.size, infinite)
    above, running, end = infinite, infinite, masses.size
    for index in range(epsilons.size - 1, -1, -1):
        epsilon = epsilons[index]
        if index + 1 < epsilons.size:
            gap = epsilon - epsilons[index + 1]
            running = math.exp(gap) * running - math.expm1(gap) * above
        start = int(np.searchsorted(losses[:end], epsilon, side="right"))
        part = masses[start:end]
        running += float(part @ -np.expm1(epsilon - losses[start:end]))
        above += float(part.sum())
        end = start
        deltas[index] = running
    # fewer than ten roundings, of at most 2^-51 each, for every loss and every epsilon
    slack = 10.0 * (masses.size + epsilons.size) * 2.0**-51
    return np.asarray(deltas * (1.0 + slack), dtype=np.float64)


def pld_of(mechanism: Mechanism, *, discretization: float = 1e-3) -> Any:
    """The upper side of a mechanism as a PLD of dp-accounting, the same in both directions.

    Connects the dots of the certified upper delta at multiples of the discretization. The arithmetic
    from there on is dp-accounting's: below deltas of 1e-10 or so it is not certified.

    Args:
        mechanism: Mechanism to account.
        discretization: Distance of two losses on the grid, in (0, 1].

    Returns:
        A pessimistic `PrivacyLossDistribution`.

    Raises:
        InvalidArgument: discretization is out of range.
        WrongType: mechanism is no mechanism, or discretization is no number.
        Unsupported: No theorem covers the mechanism, it hides nothing, or the grid would have more than
            200,000 points.
    """
    step = probability(discretization=discretization, hint="It is the distance of two losses.")
    answer = account(mechanism)
    last = float(answer.epsilon(delta=1e-14).upper)  # what is beyond counts as revealed
    if not math.isfinite(last):
        revealed = float(answer.delta(epsilon=50.0).upper)
        share = min(2.0 * revealed, 0.5 + 0.5 * revealed)
        last = float(answer.epsilon(delta=share).upper) if share < 1.0 else math.inf
    if not math.isfinite(last):
        raise Unsupported(f"mechanism must hide something; got {mechanism.describe()}.")
    if not last / step < 200_000:
        raise Unsupported(
            f"discretization must be at least {last / 200_000:.3g} here; got {step!r}."
        )
    cells = math.ceil(last / step) + 1
    epsilons = step * np.arange(cells + 1)
    deltas = np.minimum.accumulate(np.asarray(answer.delta(epsilon=epsilons).upper))
    # below zero by symmetry: delta(-e) = 1 - e^-e + e^-e delta(e)
    left = -np.expm1(-epsilons[:0:-1]) + np.exp(-epsilons[:0:-1]) * deltas[:0:-1]
    padded = np.concatenate([left, deltas]) * (1.0 + 2.0**-40)  # for the roundings from here on
    whole = np.minimum.accumulate(np.minimum(padded, 1.0))
    grid = np.arange(-cells, cells + 1)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, whole)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _response(noise: object, buckets: object) -> Mechanism:
    """Truth with probability 1 - noise + noise/k, any other bucket with noise/k."""
    share, categories = closed_probability(noise_parameter=noise), count(num_buckets=buckets)
    if share == 1.0 or categories == 1:
        return Sequence([])
    if share == 0.0:
        return ApproximateDP(epsilon=0.0, delta=1.0)
    odds = categories * (1.0 - share) / share
    if not math.isfinite(odds):
        raise Unsupported(f"randomized response with noise {share!r} hides nothing.")
    # what a few roundings of a local epsilon stay below
    return RandomizedResponse(
        local_epsilon=math.log1p(odds) * (1.0 + 2.0**-49), categories=categories
    )


def _response_event(mechanism: RandomizedResponse) -> Any:
    """The event of randomized response: its noise parameter is k / (e^local_epsilon - 1 + k)."""
    # beyond this local epsilon the noise parameter of randomized response is lost in rounding
    if mechanism.local_epsilon > 600.0:
        raise Unsupported(
            f"dp-accounting has no event for {mechanism.describe()}: its noise is lost in rounding."
        )
    noise = mechanism.categories / (math.expm1(mechanism.local_epsilon) + mechanism.categories)
    return dp_accounting.dp_event.RandomizedResponseDpEvent(noise, mechanism.categories)


def _repeated(event: Any, times: int) -> Mechanism:
    """An event run so often; sampled steps become one training run."""
    sampled = (
        dp_accounting.PoissonSampledDpEvent,
        dp_accounting.SampledWithReplacementDpEvent,
        dp_accounting.SampledWithoutReplacementDpEvent,
    )
    return _sampled(event, times) if isinstance(event, sampled) else mechanism_of(event) * times


def _best_of(event: Any) -> BestOf:
    """The best of a random number of repetitions."""
    run, mean, shape = mechanism_of(event.event), event.mean, event.shape
    if shape == math.inf:
        return BestOf(run, "poisson", mean=mean)
    if shape == 1.0:
        return BestOf(run, "geometric", mean=mean)
    return BestOf(run, "negative-binomial", mean=mean, shape=shape)


def _sampled(event: Any, steps: int) -> Mechanism:
    """Sampled Gaussian steps as DP-SGD; without any privacy, they have no noise."""
    if isinstance(event.event, dp_accounting.NoOpDpEvent):
        return Sequence([])
    bare = isinstance(event.event, dp_accounting.NonPrivateDpEvent)
    if not bare and not isinstance(event.event, dp_accounting.GaussianDpEvent):
        raise Unsupported(f"only Gaussian steps are sampled here; got {short_repr(event.event)}.")
    if isinstance(event, dp_accounting.PoissonSampledDpEvent):
        plan: Any = PoissonBatches(sample_rate=event.sampling_probability, steps=steps)
    else:
        plan = FixedSizeBatches(
            dataset_size=event.source_dataset_size,
            batch_size=event.sample_size,
            steps=steps,
            replacement=isinstance(event, dp_accounting.SampledWithReplacementDpEvent),
        )
    return DPSGD(plan, noise_multiplier=0.0 if bare else event.event.noise_multiplier)


def _training_event(mechanism: DPSGD) -> Any:
    """The event of a training run over Poisson or fixed-size batches."""
    plan, noise = mechanism.batches, mechanism.noise_multiplier
    if isinstance(plan, PoissonBatches):
        gaussian = dp_accounting.GaussianDpEvent(noise)
        step = dp_accounting.PoissonSampledDpEvent(plan.sample_rate, gaussian)
    elif isinstance(plan, FixedSizeBatches) and plan.weights is None:
        sizes = (plan.dataset_size, plan.batch_size)
        sampled = (
            dp_accounting.SampledWithReplacementDpEvent
            if plan.replacement
            else dp_accounting.SampledWithoutReplacementDpEvent
        )
        # over the distance of two records, which is at most twice the norm of one
        step = sampled(*sizes, dp_accounting.GaussianDpEvent(0.5 * noise))
    else:
        raise Unsupported(f"dp-accounting has no event for {plan.describe()}.")
    return dp_accounting.SelfComposedDpEvent(step, plan.steps)


def _known() -> str:
    return (
        "There are Gaussian, Laplace, randomized response, no release and no privacy, their "
        "compositions, and Gaussian steps sampled by Poisson, with or without replacement."
    )
