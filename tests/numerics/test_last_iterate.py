"""The last iterate against exact recursions, quadrature of other losses, and tempting formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.last_iterate import theorems
from sharpdp.bounds.last_iterate.shift_schedule import Participations, squared_mu
from sharpdp.pairs.pair import GaussianPair
from sharpdp.profile.composition import Composition
from sharpdp.report.words import in_words
from tests.reference.last_iterate import Array, cheapest_shifts, delta, gaussian_mu, last_laws

EPSILONS = (0.0, 0.3, 1.0, 2.0)


def cyclic(period: int, epochs: int) -> dp.DeterministicBatches:
    """Batches of ten."""
    return dp.DeterministicBatches(dataset_size=10 * period, batch_size=10, epochs=epochs)


def run(
    batches: object,
    *,
    noise: float = 2.0,
    rate: float = 0.5,
    diameter: float | None = None,
    **loss: object,
) -> dp.LastIterate:
    constants = {"gradient_norm": 1.0, "smoothness": 1.0, "regularization": 0.2, **loss}
    return dp.LastIterate(
        batches,  # type: ignore[arg-type]
        noise_multiplier=noise,
        learning_rate=rate,
        loss=dp.SmoothLoss(**constants),  # type: ignore[arg-type]
        diameter=diameter,
    )


def test_the_schedule_is_the_convex_minorant() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        period, epochs = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        steps, last = period * epochs, int(rng.integers(0, period))
        previous = last + period if rng.random() < 0.5 else period
        offsets = [last, *(previous + j * period for j in range(epochs - 1))]
        used = [int(steps - 1 - k in offsets) for k in range(steps)]
        c = Fraction(int(rng.integers(300, 1500)), 1000) if rng.random() < 0.9 else Fraction(1)
        uses = Participations(steps, last, previous, period, epochs - 1)
        exact = float(cheapest_shifts(c, used))
        assert exact * (1 - 1e-13) <= squared_mu(math.log(c), uses) <= exact * (1 + 1e-9)
        diameter = Fraction(int(rng.integers(1, 5000)), 1000)
        windows = (cheapest_shifts(c, used[steps - w :], diameter) for w in range(1, steps + 1))
        exact = min(exact, float(min(windows)))
        found = squared_mu(math.log(c), uses, float(diameter))
        assert exact * (1 - 1e-13) <= found <= exact * (1 + 1e-9)


@pytest.mark.parametrize("steps", [1, 2, 50, 10**6, 10**15])
@pytest.mark.parametrize("penalty", ["1e-14", "1e-6", "0.05", "0.6"])
def test_published_full_batch_formula(steps: int, penalty: str) -> None:
    plan = dp.DeterministicBatches(dataset_size=10, batch_size=10, epochs=steps)
    mechanism = run(plan, rate=1.0, smoothness=0.5, regularization=float(penalty), noise=3.0)
    with mpmath.workdps(60):
        c = 1 - mpmath.mpf(float(penalty))
        square = (1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c) / 9
        above, below = dp.bounds.bounds_for(mechanism)
        assert (above.name, below.name) == ("full_batch_upper", "penalized_linear_lower")
        lower, upper = (one(mechanism, dp.Adjacency.ZERO_OUT)[0][0].mu for one in (below, above))
        assert lower <= mpmath.sqrt(square) <= upper
        assert upper / lower - 1 < 1e-10


@pytest.mark.parametrize(
    ("c", "period", "epochs"), [(0.98, 10, 5), (0.995, 40, 500), (0.9999, 40, 200)]
)
def test_published_cyclic_formula(c: float, period: int, epochs: int) -> None:
    mechanism = run(
        cyclic(period, epochs), rate=1.0, regularization=1 - c, smoothness=0.5, noise=1.0
    )
    with mpmath.workdps(50):
        x = 1 - mpmath.mpf(1 - c)
        tail = (1 - x ** (period * (epochs - 1))) / (1 + x ** (period * (epochs - 1)))
        square = 1 + x ** (2 * period - 2) * (1 - x**2) / (1 - x**period) ** 2 * tail
        upper = dp.account(mechanism).mu().upper
        assert mpmath.sqrt(square) * (1 - mpmath.mpf("1e-14")) <= upper
        assert upper <= mpmath.sqrt(square) * (1 + mpmath.mpf("1e-8"))


@pytest.mark.parametrize(("moved", "rate"), [(0.25, 0.2), (1.0, 0.05), (0.5, 0.1)])
def test_a_projection_is_as_good_as_published(moved: float, rate: float) -> None:
    # with D = 1, L/n = moved, sigma = 8: 3 moved / rate + moved^2 ceil(1 / (moved rate)), over sigma^2
    plan = dp.DeterministicBatches(dataset_size=4, batch_size=4, epochs=640)
    mechanism = run(
        plan,
        gradient_norm=4 * moved,
        smoothness=1.0,
        regularization=0.0,
        rate=rate,
        noise=8.0 / moved,
        diameter=1.0,
    )
    published = math.sqrt(3 * moved / rate + moved**2 * math.ceil(1 / (moved * rate))) / 8
    assert 0.99 * published < dp.account(mechanism).mu().upper <= published * (1 + 1e-8)


def test_quadratic_losses_in_two_dimensions() -> None:
    rng = np.random.default_rng(2)
    closest = 0.0
    for _ in range(150):
        period, epochs = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        rate, penalty = float(rng.uniform(0.05, 2.2)), float(rng.uniform(0.0, 0.5))
        mechanism = run(cyclic(period, epochs), rate=rate, regularization=penalty, noise=1.0)
        batches = []
        for _ in range(period):
            turn = rng.uniform(0.0, np.pi)
            basis = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
            curved = np.diag(penalty + rng.choice([0.0, 1.0, rng.random()], 2))
            batches.append(np.eye(2) - rate * basis.T @ curved @ basis)
        place, way = int(rng.integers(period)), rng.normal(size=2)
        way /= np.linalg.norm(way)
        steps = [(batches[k % period], way * (k % period == place)) for k in range(period * epochs)]
        truth, upper = gaussian_mu(steps), dp.account(mechanism).mu().upper
        assert truth <= upper * (1 + 1e-12)
        closest = max(closest, truth / upper)
    assert closest > 0.99


def softplus(slope: float, at: float) -> Callable[[Array], Array]:
    """Gradient of a convex loss with gradients up to 1 and curvature up to slope / 4 <= 1."""
    return lambda x: np.tanh(0.5 * slope * (x - at))


def losses(rng: np.random.Generator) -> Callable[[Array], Array]:
    slope, at = float(rng.uniform(0.5, 2.0)), float(rng.normal())
    kind = rng.integers(3)
    if kind == 0:
        return softplus(slope, at)
    if kind == 1:
        return lambda x: np.clip(x - at, -1.0, 1.0)  # curvature one around `at`
    return lambda x: np.full_like(x, np.sign(at))


def step(
    others: list[Callable[[Array], Array]],
    record: Callable[[Array], Array] | None,
    rate: float,
    penalty: float,
    noise: float,
) -> Callable[[Array], Array]:
    """One step in units of its noise, rate * noise / size with gradients up to one."""
    size = len(others) + 1
    unit = rate * noise / size

    def to(x: Array) -> Array:
        at = x * unit
        total = sum((loss(at) for loss in others), np.zeros_like(at))
        total = total + record(at) if record is not None else total
        return np.asarray((at - rate * (total / size + penalty * at)) / unit)

    return to


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))]
)
@pytest.mark.parametrize("scheme", ["deterministic", "poisson", "shuffled"])
def test_other_losses_by_quadrature(
    scheme: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([seed, len(scheme)])
    size, period = 3, 1 if scheme == "poisson" else int(rng.integers(1, 3))
    epochs = int(rng.integers(2, 5))
    longest = 0.6 if scheme == "poisson" else 1.2  # so that no batch of six is too large
    rate, penalty = float(rng.uniform(0.3, longest)), float(rng.uniform(0.05, 0.5))
    noise = float(rng.uniform(0.7, 2.0))
    edge = float(rng.uniform(0.3, 2.0)) if seed % 2 else math.inf
    counts = {"dataset_size": size * period, "batch_size": size, "epochs": epochs}
    record = losses(rng)
    groups = [[losses(rng) for _ in range(size - 1)] for _ in range(period)]
    edge_in_noise = edge / (rate * noise / size)

    def law(steps: list[list[tuple[float, object, object]]]) -> tuple[Array, Array]:
        return last_laws(steps, edge_in_noise, cells=700)  # type: ignore[arg-type]

    def used(group: list[Callable[[Array], Array]]) -> tuple[float, object, object]:
        return (
            1.0,
            step(group, record, rate, penalty, noise),
            step(group, None, rate, penalty, noise),
        )

    def unused(group: list[Callable[[Array], Array]]) -> tuple[float, object, object]:
        without = step(group, None, rate, penalty, noise)
        return (1.0, without, without)

    if scheme == "deterministic":
        batches: object = dp.DeterministicBatches(**counts)
        place = int(rng.integers(period))
        p, q = law(
            [
                [(used if k % period == place else unused)(groups[k % period])]
                for k in range(period * epochs)
            ]
        )
    elif scheme == "shuffled":  # one order for all epochs: a mixture over the place of the record
        batches = dp.ShuffledBatches(**counts, order="kept")
        both = [
            law(
                [
                    [(used if k % period == place else unused)(groups[0])]
                    for k in range(period * epochs)
                ]
            )
            for place in range(period)
        ]
        p, q = (np.mean([pair[side] for pair in both], axis=0) for side in (0, 1))
    else:  # the record by a coin of its own; the others as they happened to be drawn
        batches = dp.PoissonBatches(dataset_size=6, batch_size=size, steps=epochs)
        _, with_it, without = used(groups[0])
        p, q = law([[(0.5, with_it, without), (0.5, without, without)]] * epochs)
    diameter = None if edge == math.inf else 2.0 * edge
    mechanism = run(batches, noise=noise, rate=rate, regularization=penalty, diameter=diameter)
    checked = []
    for window, share in ((1, 0.4), (max(epochs - 1, 1), 0.7)):  # any choice must be safe
        monkeypatch.setattr(theorems, "_window", lambda *_, both=(window, share): both)
        for each in dp.bounds.bounds_for(mechanism):
            if dp.Side.UPPER in each.sides:
                pairs = Composition(each(mechanism, dp.Adjacency.ZERO_OUT))
                checked.append(each.name)
                for epsilon in EPSILONS:
                    for one, other, way in ((p, q, pairs), (q, p, pairs.reverse())):
                        upper = math.exp(way.log_delta(epsilon, 1e-4)[1])
                        assert delta(one, other, epsilon) <= upper + 1e-9, each.name
    assert any("contracting" in name or "full" in name for name in checked)


@pytest.mark.parametrize("scheme", ["poisson", "kept", "redrawn"])
def test_linear_losses_attain_the_lower_side(scheme: str) -> None:
    def zero(x: Array) -> Array:
        return 0.0 * x

    with_it = step([zero, zero], np.ones_like, 0.8, 0.3, 1.5)
    without = step([zero, zero], None, 0.8, 0.3, 1.5)
    if scheme == "poisson":
        batches: object = dp.PoissonBatches(dataset_size=6, batch_size=3, steps=4)
        ways = [[[(0.5, with_it, without), (0.5, without, without)]] * 4]
    else:  # two batches an epoch: the record is in the first or in the second
        epochs = 3 if scheme == "kept" else 2
        batches = dp.ShuffledBatches(dataset_size=6, batch_size=3, epochs=epochs, order=scheme)
        used, unused = [(1.0, with_it, without)], [(1.0, without, without)]
        halves = ([used, unused], [unused, used])
        if scheme == "kept":
            ways = [half * epochs for half in halves]
        else:
            ways = [first + second for first in halves for second in halves]
    laws = [last_laws(way, cells=900) for way in ways]
    p, q = (np.mean([law[side] for law in laws], axis=0) for side in (0, 1))
    answer = dp.account(run(batches, noise=1.5, rate=0.8, regularization=0.3))
    for epsilon in EPSILONS:
        lower = answer.delta(epsilon=epsilon).lower
        truth = max(delta(p, q, epsilon), delta(q, p, epsilon))
        assert 0.95 * truth <= lower <= truth * (1 + 3e-4) + 1e-9


def test_longer_steps_do_not_contract() -> None:
    # curvature one everywhere, learning rate 1.9: runs stay apart for longer than 1 - rate * penalty says
    plan = cyclic(1, 40)
    mechanism = run(plan, rate=1.9, regularization=0.1, noise=1.0)
    turned = np.array([[1.0 - 1.9 * 1.1]])
    truth = gaussian_mu([(turned, np.array([(-1.0) ** k])) for k in range(40)])
    c = 1.0 - 1.9 * 0.1
    tempting = math.sqrt((1 - c**40) / (1 + c**40) * (1 + c) / (1 - c))
    assert truth > 1.5 * tempting
    assert truth <= dp.account(mechanism).mu().upper
    too_long = dp.account(run(plan, rate=2.5, regularization=0.1, noise=1.0))
    assert too_long.mu().upper == pytest.approx(math.sqrt(40), rel=1e-6)
    assert mechanism.contraction == pytest.approx(1.09)


def test_a_checkpoint_is_a_second_run() -> None:
    r = 0.9
    joint = math.sqrt(2) * gaussian_mu(
        [(np.array([[r]]), np.ones(1))] * 20
    )  # X_20, then X_40 from there
    whole = run(cyclic(1, 40), rate=0.5, regularization=0.2, noise=1.0)
    assert joint > 1.25 * dp.account(whole).mu().upper
    half = run(cyclic(1, 20), rate=0.5, regularization=0.2, noise=1.0)
    both = dp.account(half + half).mu()
    assert both.lower <= joint * (1 + 1e-9)
    assert joint <= both.upper * (1 + 1e-9)


def test_nothing_is_gained_without_a_loss() -> None:
    for batches in (cyclic(3, 4), dp.PoissonBatches(sample_rate=0.1, steps=20)):
        hidden = dp.account(dp.LastIterate(batches, noise_multiplier=2.0))
        steps = dp.account(dp.DPSGD(batches, noise_multiplier=2.0))
        assert hidden.epsilon(delta=1e-5).lower == steps.epsilon(delta=1e-5).lower
        assert hidden.epsilon(delta=1e-5).upper == steps.epsilon(delta=1e-5).upper
        assert "For some losses the last model alone" in in_words(hidden.mechanism)[0]


def test_losses_that_are_not_convex_gain_only_later_noise_or_a_projection() -> None:
    full = dp.account(run(cyclic(1, 30), convex=False)).mu().upper
    assert full == pytest.approx(math.sqrt(30) / 2, rel=1e-6)
    spread = dp.account(run(cyclic(10, 30), convex=False, rate=0.01)).mu().upper
    assert spread < 0.5 * full
    boxed = dp.account(run(cyclic(1, 3000), convex=False, rate=0.1, diameter=0.05)).mu().upper
    assert boxed < 0.2 * math.sqrt(3000) / 2


def test_large_poisson_batches_count() -> None:
    # a learning rate at which a batch of twice the expected size no longer contracts
    plan = dp.PoissonBatches(dataset_size=100, batch_size=10, steps=50)
    mechanism = run(plan, rate=0.9, regularization=0.05)
    names = [bound.name for bound in dp.bounds.bounds_for(mechanism)]
    assert "contracting_poisson_upper" in names
    assert mechanism.largest_fullness == pytest.approx(2 * 0.955 / 0.9)
    by_contraction = dp.bounds.bounds_for(mechanism)[names.index("contracting_poisson_upper")]
    pairs = by_contraction(mechanism, dp.Adjacency.ZERO_OUT)
    assert max(pair.infinite_p for pair, _ in pairs) > 1e-3


def test_how_often_a_record_is_used_before_the_window() -> None:
    c, rate, steps = 0.9, 0.2, 60
    reach = theorems._reach(math.log(c), rate, steps)
    # the law of the sum on a lattice, each term rounded up
    cells = 4000
    unit = (1.0 / (1.0 - c)) / cells
    law = np.zeros(cells + steps + 1)
    law[0] = 1.0
    for i in range(steps):
        shift = math.ceil(c**i / unit)
        later = (1.0 - rate) * law
        later[shift:] += rate * law[: law.size - shift]
        law = later
    tail = float(np.sum(law[math.floor(reach / unit) :]))
    assert tail <= 1e-12
    assert reach < 0.9 / (1.0 - c)  # the most that is possible is 10
    assert theorems._reach(math.log(c), rate, 10**9) >= reach


@pytest.mark.parametrize(("window", "share"), [(1, 0.05), (2, 0.5), (4, 0.95), (9, 0.7), (10, 0.4)])
def test_every_window_and_share_is_safe(
    window: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a record that is always drawn, and linear losses, whose last iterate is Gaussian
    r, steps, noise = 0.8, 10, 2.0
    plan = dp.PoissonBatches(sample_rate=1.0, steps=steps, dataset_size=10)
    mechanism = run(plan, rate=0.5, regularization=0.4, noise=noise)
    monkeypatch.setattr(theorems, "_window", lambda *_: (window, share))
    pairs = theorems.contracting_poisson_upper(mechanism, dp.Adjacency.ZERO_OUT)
    total = sum(pair.mu**2 * count for pair, count in pairs if isinstance(pair, GaussianPair))
    powers = r ** np.arange(steps)
    truth = np.sum(powers) ** 2 / np.sum(powers**2) / noise**2
    assert truth <= total * (1 + 1e-12)
    hidden = np.sum(powers[: steps - window]) * r**window / np.sqrt(np.sum(powers[:window] ** 2))
    kept = 1.0 - share if window < steps else 1.0
    stated = (hidden**2 / share + window / kept) / noise**2
    assert total == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))]
)
@pytest.mark.parametrize("notion", ["zero-out", "replace-one"])
def test_projected_runs_over_orders_that_are_redrawn(notion: str, seed: int) -> None:
    """Two batches an epoch, the record in one of them: a mixture over all places, with any losses."""
    rng = np.random.default_rng([seed, len(notion)])
    epochs, size = int(rng.integers(1, 4)), 2
    rate, penalty = float(rng.uniform(0.3, 1.2)), float(rng.uniform(0.0, 0.5))
    noise, edge = float(rng.uniform(0.5, 1.5)), float(rng.uniform(0.3, 2.0))
    record, others = losses(rng), [[losses(rng)], [losses(rng)]]
    value = None if notion == "zero-out" else losses(rng)
    used, replaced, unused = (
        [step(group, one, rate, penalty, noise) for group in others]
        for one in (record, value, None)
    )
    laws = []
    for places in itertools.product(range(2), repeat=epochs):
        way = [
            [(1.0, used[k], replaced[k]) if k == place else (1.0, unused[k], unused[k])]
            for place in places
            for k in range(2)
        ]
        laws.append(last_laws(way, edge / (rate * noise / size), cells=500))
    p, q = (np.mean([law[side] for law in laws], axis=0) for side in (0, 1))
    plan = dp.ShuffledBatches(dataset_size=2 * size, batch_size=size, epochs=epochs)
    mechanism = run(plan, noise=noise, rate=rate, regularization=penalty, diameter=2.0 * edge)
    names = [bound.name for bound in dp.bounds.bounds_for(mechanism, notion)]
    assert "contracting_shuffle_upper" in names
    answer = dp.account(mechanism, adjacency=notion).delta(epsilon=np.array(EPSILONS))
    for epsilon, upper in zip(EPSILONS, np.asarray(answer.upper).tolist(), strict=True):
        assert max(delta(p, q, epsilon), delta(q, p, epsilon)) <= upper * (1 + 1e-4) + 1e-9


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("notion", ["zero-out", "replace-one"])
def test_sampled_linear_losses_of_groups_and_two_values(notion: str, group: int) -> None:
    """Three Poisson steps in 40 digits: both laws are mixtures with a rising likelihood ratio."""
    noise, penalty, steps = 0.8, 0.3, 3
    plan = dp.PoissonBatches(dataset_size=6, batch_size=3, steps=steps)
    mechanism = run(plan, noise=noise, rate=1.0, smoothness=1e-3, regularization=penalty)
    answer = dp.account(mechanism, adjacency=notion, group_size=group)
    with mpmath.workdps(40):
        r = 1 - mpmath.mpf(penalty)
        deviation = mpmath.sqrt(sum(r ** (2 * i) for i in range(steps)))
        drawn = [mpmath.binomial(group, j) / 2**group for j in range(group + 1)]
        law = [
            (
                sum(j * r**q for q, j in enumerate(counts)) / noise / deviation,
                mpmath.fprod(drawn[j] for j in counts),
            )
            for counts in itertools.product(range(group + 1), repeat=steps)
        ]
        other = [(-mean if notion == "replace-one" else 0 * mean, chance) for mean, chance in law]

        def density(mixture: list[tuple[mpmath.mpf, mpmath.mpf]], y: mpmath.mpf) -> mpmath.mpf:
            return sum(chance * mpmath.exp(mean * y - mean**2 / 2) for mean, chance in mixture)

        def above(mixture: list[tuple[mpmath.mpf, mpmath.mpf]], y: mpmath.mpf) -> mpmath.mpf:
            return sum(chance * mpmath.ncdf(mean - y) for mean, chance in mixture)

        for epsilon in (0.5, 2.0, 8.0):
            low, high = mpmath.mpf(-60), mpmath.mpf(60)
            for _ in range(130):
                middle = (low + high) / 2
                ratio = density(law, middle) / density(other, middle)
                low, high = (middle, high) if ratio < mpmath.exp(epsilon) else (low, middle)
            truth = above(law, low) - mpmath.exp(epsilon) * above(other, low)
            bracket = answer.delta(epsilon=epsilon)
            assert truth <= bracket.upper * (1 + mpmath.mpf("1e-12"))
            if group == 1 and notion == "zero-out":
                assert 0.97 * truth < bracket.lower <= truth
