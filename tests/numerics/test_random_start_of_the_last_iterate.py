"""A random start of the last iterate: linear losses by exact recursions, others by quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import sharpdp as dp
from tests.reference.last_iterate import Array, delta

EPSILONS = (0.0, 0.3, 1.0, 2.0)


def run(
    batches: object, loss: dp.SmoothLoss, start: float | None, *, noise: float, rate: float
) -> dp.LastIterate:
    return dp.LastIterate(
        batches,  # type: ignore[arg-type]
        noise_multiplier=noise,
        learning_rate=rate,
        loss=loss,
        start_deviation=start,
    )


def cyclic(period: int, epochs: int, size: int = 10) -> dp.DeterministicBatches:
    return dp.DeterministicBatches(dataset_size=size * period, batch_size=size, epochs=epochs)


@pytest.mark.parametrize("notion", ["zero-out", "replace-one"])
@pytest.mark.parametrize(("period", "epochs"), [(1, 1), (1, 7), (3, 4)])
@pytest.mark.parametrize("start", [None, 0.01, 0.25, 40.0])
def test_linear_losses_by_exact_recursion(
    notion: str, period: int, epochs: int, start: float | None
) -> None:
    """Mean and variance of the descent in the units of the parameters, step by step, as fractions."""
    rate, penalty, noise, norm, size = (
        Fraction(3, 4),
        Fraction(1, 8),
        Fraction(5, 2),
        Fraction(2),
        10,
    )
    moved, variance = Fraction(0), Fraction(start or 0) ** 2
    for step in range(period * epochs):
        moved, variance = (1 - rate * penalty) * moved, (1 - rate * penalty) ** 2 * variance
        variance += (rate * noise * norm / size) ** 2
        if (
            step % period == period - 1
        ):  # the record is in the last batch, and has the largest gradient
            moved += rate * norm / size * (2 if notion == "replace-one" else 1)
    loss = dp.SmoothLoss.linear(gradient_norm=2.0, regularization=0.125)
    mechanism = run(cyclic(period, epochs), loss, start, noise=2.5, rate=0.75)
    found = dp.account(mechanism, adjacency=notion).mu()
    with mpmath.workdps(40):
        square = moved**2 / variance
        truth = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
        assert found.lower <= truth <= found.upper
        assert found.upper <= truth * (1 + mpmath.mpf("1e-8"))
    curved = dp.SmoothLoss(gradient_norm=2.0, smoothness=0.01, regularization=0.125)
    smooth = run(cyclic(period, epochs), curved, start, noise=2.5, rate=0.75)
    # a loss of the wider class: the same lower side, and a larger upper one
    wider = dp.account(smooth, adjacency=notion).mu()
    assert wider.lower == pytest.approx(found.lower, rel=1e-12)
    assert wider.upper >= found.upper * (1.0 - 1e-9)


def test_no_linear_losses_are_told_apart_more_easily() -> None:
    """Random gradients of all records in two dimensions, and a record in any batch."""
    rng = np.random.default_rng(5)
    closest = 0.0
    for _ in range(300):
        period, epochs = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        rate, penalty = float(rng.uniform(0.1, 2.0)), float(rng.uniform(0.0, 0.45))
        noise, start = float(rng.uniform(0.3, 3.0)), float(np.exp(rng.normal(-2.0, 1.5)))
        place, length = int(rng.integers(period)), float(rng.choice([1.0, rng.random()]))
        angle = rng.uniform(0.0, 2.0 * np.pi)
        way = length * np.array([np.cos(angle), np.sin(angle)])
        kept, moved, covariance = 1.0 - rate * penalty, np.zeros(2), start**2 * np.eye(2)
        for step in range(period * epochs):
            moved, covariance = kept * moved, kept**2 * covariance
            covariance += (rate * noise / 10) ** 2 * np.eye(2)
            if step % period == place:
                moved = moved + rate * way / 10
        truth = float(np.sqrt(moved @ np.linalg.solve(covariance, moved)))
        loss = dp.SmoothLoss.linear(gradient_norm=1.0, regularization=penalty)
        found = dp.account(run(cyclic(period, epochs), loss, start, noise=noise, rate=rate)).mu()
        assert truth <= found.upper * (1.0 + 1e-12)
        closest = max(closest, truth / found.upper)
    assert closest > 1.0 - 1e-8


def last_laws(
    maps: list[tuple[Callable[[Array], Array], Callable[[Array], Array]]],
    start: float,
    noise: float,
    reach: float,
    cells: int = 1500,
) -> tuple[Array, Array]:
    """Probabilities of cells of the line after these steps, from a normal start, with and without."""
    ends = np.linspace(-reach, reach, cells + 1)
    middle, open_ends = (
        0.5 * (ends[1:] + ends[:-1]),
        np.concatenate([[-np.inf], ends[1:-1], [np.inf]]),
    )
    laws = []
    for side in (0, 1):
        law = np.diff(stats.norm.cdf(open_ends / start))
        for step in maps:
            kernel = np.diff(
                stats.norm.cdf((open_ends[:, None] - step[side](middle)) / noise), axis=0
            )
            law = kernel @ law
        laws.append(law)
    return laws[0], laws[1]


@pytest.mark.parametrize("start", [0.2, 1.0])
@pytest.mark.parametrize("scheme", ["full", "cyclic"])
def test_linear_losses_by_quadrature(scheme: str, start: float) -> None:
    """The descent of the mechanism's docstring on a line, cell by cell, in the units of parameters."""
    rate, penalty, noise, size, epochs = 0.8, 0.25, 1.5, 4, 3

    def step(uses: bool) -> Callable[[Array], Array]:
        return lambda w: w - rate * (1.0 * uses / size + penalty * w)

    period = 1 if scheme == "full" else 2
    maps = [(step(k % period == period - 1), step(False)) for k in range(period * epochs)]
    p, q = last_laws(maps, start, rate * noise / size, 6.0 * start + 2.0)
    loss = dp.SmoothLoss.linear(gradient_norm=1.0, regularization=penalty)
    answer = dp.account(run(cyclic(period, epochs, size), loss, start, noise=noise, rate=rate))
    for epsilon in EPSILONS:
        truth, found = (
            max(delta(p, q, epsilon), delta(q, p, epsilon)),
            answer.delta(epsilon=epsilon),
        )
        # cells make it coarser
        assert found.lower <= truth * (1.0 + 1e-3) + 1e-7
        assert truth <= found.upper * (1.0 + 1e-3) + 1e-7


@pytest.mark.parametrize("scheme", ["poisson", "kept"])
def test_sampled_lower_sides_count_the_start(scheme: str) -> None:
    rate, penalty, noise, size, start = 0.8, 0.3, 1.5, 3, 0.5

    def step(uses: bool) -> Callable[[Array], Array]:
        return lambda w: w - rate * (1.0 * uses / size + penalty * w)

    used, unused = (step(True), step(False)), (step(False), step(False))
    if scheme == "poisson":
        batches: object = dp.PoissonBatches(dataset_size=6, batch_size=3, steps=3)
        ways = [[used if code >> k & 1 else unused for k in range(3)] for code in range(8)]
    else:
        batches = dp.ShuffledBatches(dataset_size=6, batch_size=3, epochs=2, order="kept")
        ways = [[used, unused] * 2, [unused, used] * 2]
    laws = [last_laws(way, start, rate * noise / size, 6.0, cells=900) for way in ways]
    p, q = (np.mean([law[side] for law in laws], axis=0) for side in (0, 1))
    loss = dp.SmoothLoss(gradient_norm=1.0, smoothness=0.5, regularization=penalty)
    answers = [dp.account(run(batches, loss, s, noise=noise, rate=rate)) for s in (start, None)]
    for epsilon in EPSILONS:
        truth = max(delta(p, q, epsilon), delta(q, p, epsilon))
        lower = answers[0].delta(epsilon=epsilon).lower
        assert 0.97 * truth - 1e-6 <= lower <= truth * (1.0 + 1e-3) + 1e-9
    # what a fixed start attains is not a lower side of this run
    truth = max(delta(p, q, 0.0), delta(q, p, 0.0))
    assert answers[1].delta(epsilon=0.0).lower > 1.02 * truth


def test_a_loss_may_forget_the_start() -> None:
    """Curvature 1 / rate around all likely starts, and none where the descent goes from there.

    The start is as wide as the noise of two steps, and the last iterate is as if it were known.
    """
    rate, noise, size, start, steps = 0.5, 3.0, 100, 1.0, 4
    slope, room, tilt = size / rate / (size - 1), 7.0, 14.0

    def others(w: Array) -> Array:
        return np.clip(w, -room, room) * slope - (room * slope + tilt)

    gradient_norm = 2.0 * room * slope + tilt

    def step(uses: bool) -> Callable[[Array], Array]:
        record = -gradient_norm * uses  # away from the bend
        return lambda w: w - rate * ((size - 1) * others(w) + record) / size

    deviation = rate * noise * gradient_norm / size
    moved = rate * gradient_norm / size
    grid = np.linspace(-room, room, 9)
    assert np.ptp(step(False)(grid)) < 1e-12
    # from there on all gradients of the others are the same
    assert np.all(step(False)(grid) - 6.0 * deviation > room)
    loss = dp.SmoothLoss(gradient_norm=gradient_norm, smoothness=slope)
    plan = dp.DeterministicBatches(dataset_size=size, batch_size=size, epochs=steps)
    hidden, known = (dp.account(run(plan, loss, s, noise=noise, rate=rate)) for s in (start, None))
    # after the first step: N(steps * moved, steps * deviation^2) against N(0, the same)
    attained = math.sqrt(steps) * moved / deviation
    assert attained == pytest.approx(known.mu().upper, rel=1e-8)
    assert hidden.mu().upper == pytest.approx(attained, rel=1e-8)
    assert hidden.mu().lower < 0.9 * attained
    p, q = last_laws([(step(True), step(False))] * steps, start, deviation, 60.0, cells=3000)
    for epsilon in (0.0, 0.3):
        truth = max(delta(p, q, epsilon), delta(q, p, epsilon))
        assert truth <= hidden.delta(epsilon=epsilon).upper * (1.0 + 1e-3)
        assert truth >= 0.98 * hidden.delta(epsilon=epsilon).upper
        assert truth > 1.05 * hidden.delta(epsilon=epsilon).lower


def test_part_of_an_epoch_of_linear_losses_is_not_a_shorter_run() -> None:
    """After one of two batches its records have less noise on them than at the end of the epoch."""
    loss = dp.SmoothLoss.linear(gradient_norm=1.0)
    plan = run(cyclic(2, 3), loss, None, noise=1.0, rate=1.0)
    assert plan.stopped_after(4).batches.epochs == 2
    with pytest.raises(
        dp.InvalidArgument, match=r"steps must be a multiple of 2, .* linear losses"
    ):
        plan.stopped_after(1)
    # what the first batch alone would cost is more than what is claimed for the epoch
    assert dp.account(plan.stopped_after(2)).mu().upper < 0.8 * 1.0
    curved = run(
        cyclic(2, 3), dp.SmoothLoss(gradient_norm=1.0, smoothness=1.0), None, noise=1.0, rate=1.0
    )
    assert curved.stopped_after(1).batches.epochs == 1


def test_part_of_an_epoch_from_a_wide_start_is_more_private_than_all_of_it() -> None:
    """A start that is wider than what the noise keeps up fades: the epoch's lower side is too high."""
    said = {"gradient_norm": 1.0, "smoothness": 0.1, "regularization": 0.5}
    plan = run(cyclic(4, 1), dp.SmoothLoss(**said), 10.0, noise=1.0, rate=1.0)
    with pytest.raises(dp.InvalidArgument, match=r"steps must be a multiple of 4, .* random start"):
        plan.stopped_after(1)
    # the record of the first batch, right after it: half of the start is left
    after_one = 0.1 / math.hypot(0.1, 0.5 * 10.0)
    assert dp.account(plan).mu().lower > 4.0 * after_one


def test_more_noise_and_a_wider_start_never_hurt() -> None:
    loss = dp.SmoothLoss.linear(gradient_norm=1.0, regularization=0.1)
    for batches in (cyclic(1, 20), cyclic(4, 5)):
        by_noise = [
            dp.account(run(batches, loss, 0.3, noise=s, rate=0.5)).mu()
            for s in (0.5, 1.0, 4.0, 30.0)
        ]
        by_start = [
            dp.account(run(batches, loss, s, noise=2.0, rate=0.5)).mu()
            for s in (1e-30, 0.1, 1.0, 1e30)
        ]
        for answers in (by_noise, by_start):
            uppers = [answer.upper for answer in answers]
            assert uppers == sorted(uppers, reverse=True)
            assert all(answer.lower <= answer.upper for answer in answers)
        assert (
            by_start[0].upper
            == dp.account(run(batches, loss, None, noise=2.0, rate=0.5)).mu().upper
        )
        found = dp.calibrate(
            lambda s, over=batches: run(over, loss, 0.3, noise=s, rate=0.5), epsilon=1.0, delta=1e-5
        )
        made = run(batches, loss, 0.3, noise=found, rate=0.5)
        assert dp.account(made).epsilon(delta=1e-5).upper <= 1.0


def test_linear_losses_over_poisson_batches_of_any_size_contract() -> None:
    """A batch may be as large as it likes, if gradients do not depend on the parameters."""
    plan = dp.PoissonBatches(dataset_size=50, batch_size=5, steps=40)
    said = {"gradient_norm": 1.0, "regularization": 0.2}
    linear, curved = (
        run(plan, dp.SmoothLoss(smoothness=bend, **said), None, noise=2.0, rate=1.0)
        for bend in (0.0, 1.5)
    )
    assert linear.largest_fullness == math.inf
    names = [bound.name for bound in dp.bounds.bounds_for(linear)]
    assert "contracting_poisson_upper" in names
    assert "linear_losses_upper" not in names
    assert (
        dp.account(linear).epsilon(delta=1e-6).upper < dp.account(curved).epsilon(delta=1e-6).upper
    )


def test_where_linear_losses_are_not_claimed_to_be_exact() -> None:
    """A projection, or a penalty that overshoots: the contraction is all that is known."""
    loss = dp.SmoothLoss.linear(gradient_norm=1.0, regularization=0.5)
    boxed = dp.LastIterate(
        cyclic(1, 9),
        noise_multiplier=1.0,
        learning_rate=1.0,
        loss=loss,
        diameter=1.0,
        start_deviation=1.0,
    )
    overshoots = run(cyclic(1, 9), loss, 1.0, noise=1.0, rate=3.0)
    for mechanism in (boxed, overshoots):
        names = [bound.name for bound in dp.bounds.bounds_for(mechanism)]
        assert "linear_losses_upper" not in names
        assert "penalized_linear_lower" not in names


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"loss": None, "learning_rate": None},
            "start_deviation must be left out if nothing is known",
        ),
        ({"start_deviation": 0.0}, "start_deviation must be greater than 0"),
        ({"start_deviation": "1"}, "start_deviation must be"),
        ({"batches": dp.PoissonBatches(sample_rate=0.1, steps=3)}, "over batches of unknown size"),
    ],
)
def test_wrong_starts_get_a_sentence(said: dict[str, object], message: str) -> None:
    plain = {
        "batches": cyclic(1, 3),
        "noise_multiplier": 1.0,
        "learning_rate": 1.0,
        "loss": dp.SmoothLoss.linear(gradient_norm=1.0),
        "start_deviation": 1.0,
    }
    with pytest.raises(dp.SharpDPError, match=message):
        dp.LastIterate(**{**plain, **said})  # type: ignore[arg-type]


def test_the_start_is_said_where_runs_are_described() -> None:
    loss = dp.SmoothLoss.linear(gradient_norm=1.0)
    known, hidden = (run(cyclic(1, 3), loss, s, noise=1.0, rate=1.0) for s in (None, 0.5))
    assert "random start of deviation 0.5" in hidden.describe()
    assert "start" not in known.describe()
    assert "linear losses with gradients of norm 1," in hidden.describe()
    report = " ".join(dp.account(hidden).report().split())
    assert "The start is random, with deviation 0.5, and kept secret." in report
    assert "at least the stated deviation in every direction, and secret" in report
    assert hidden != known
