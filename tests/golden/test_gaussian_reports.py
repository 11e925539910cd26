"""Shuffled Gaussian reports against quadrature, enumeration, closed forms and an FFT of their own."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.shuffle_model import profile_reports
from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.bounds.shuffle_model.gaussian_reports import (
    NoiseCells,
    attained_noise,
    dominating_noise,
    largest_noise,
)
from sharpdp.bounds.shuffle_model.profile_reports import (
    attained_profile,
    clones_above,
    clones_of,
)
from sharpdp.numerics.normal_tails import normal_tails
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import above_all
from sharpdp.pairs.pair import log_delta_of

LOSSES = (0.0, 0.2, 0.5, 1.0, 1.7)


def delta(pair, loss, end):
    """Lower (0) or upper (1) end of the profile of a pair."""
    return math.exp(log_delta_of(pair, loss)[end])


def normal(y, mean):
    return np.exp(-0.5 * (y - mean) ** 2) / math.sqrt(2.0 * math.pi)


def shuffled_density(grids, means):
    """The density of reports of these values, mixed, on a grid of any dimension."""
    total = 0.0
    for order in itertools.permutations(means):
        term = 1.0
        for y, mean in zip(grids, order, strict=True):
            term = term * normal(y, mean)
        total = total + term
    return total / math.factorial(len(means))


@pytest.mark.underflows
@pytest.mark.parametrize("users", [2, 3])
def test_no_crowd_exceeds_the_upper_side(users):
    """Values of the victim and of all others anywhere in [0, 1], by quadrature."""
    rng = np.random.default_rng(users)
    line = np.linspace(-6.0, 8.0, {2: 361, 3: 71}[users])
    grids, cell = np.meshgrid(*[line] * users, indexing="ij"), (line[1] - line[0]) ** users
    for noise in (0.6, 1.5):
        upper, scale = dominating_noise(noise, users, 1.0, 5.0), 1.0 / noise
        largest = 0.0
        for trial in range(6):
            ends = rng.integers(0, 2, users - 1).astype(float)
            others = list(ends if trial % 2 else rng.random(users - 1))
            victim = (0.0, 1.0) if trial < 4 else tuple(rng.random(2))
            p, q = (shuffled_density(grids, [scale * x for x in (own, *others)]) for own in victim)
            for first, second in ((p, q), (q, p)):
                for loss in LOSSES:
                    value = float(np.sum(np.maximum(first - math.exp(loss) * second, 0.0)) * cell)
                    bound = delta(upper, loss, 1)
                    assert value <= bound * (1.0 + 2e-3) + 1e-9, (noise, victim, others, loss)
                    largest = max(largest, value / bound)
        assert largest > 0.7


@pytest.mark.underflows
def test_lower_sides_are_those_of_the_data_sets():
    """Two users: E[((L_1 + L_2)/2 - x)_+] in high precision, both orders."""
    noise = 1.0
    upper, exact = {}, {}
    for loss in (0.0, 0.5, 1.5):
        x = mpmath.e**loss

        def ahead(y, x=x):
            # E over the second report in closed form: (a + L/2)_+ with a = L_1/2 - x
            a = mpmath.exp(y - mpmath.mpf(1) / 2) / 2 - x
            if a >= 0:
                return mpmath.npdf(y) * (a + mpmath.mpf(1) / 2)
            t = mpmath.log(-2 * a) + mpmath.mpf(1) / 2
            return mpmath.npdf(y) * (mpmath.ncdf(1 - t) / 2 + a * mpmath.ncdf(-t))

        exact[loss] = float(mpmath.quad(ahead, [-12, -4, 0, 1, 2, 4, 8, 12]))
        upper[loss] = delta(dominating_noise(noise, 2), loss, 1)
    for pair in (attained_noise(noise, 2), largest_noise(noise, 2)):
        for loss, truth in exact.items():
            assert delta(pair, loss, 0) <= truth * (1.0 + 1e-9)
    for loss, truth in exact.items():
        assert delta(attained_noise(noise, 2), loss, 0) >= 0.98 * truth
        assert upper[loss] >= truth


def test_largest_report_in_closed_form():
    a, b = (mpmath.ncdf(-(4.0 - shift)) for shift in (1.0, 0.0))
    p, q = 1 - (1 - a) * (1 - b) ** 99, 1 - (1 - b) ** 100
    pair, loss = largest_noise(1.0, 100), 0.5
    assert delta(pair, loss, 0) >= float(p - mpmath.e**loss * q)


def blanket_by_fft(noise, users, epsilon, step):
    """The blanket divergence as takagi2026 computes it: the law of a sum by FFT; not certified."""
    scale = 1.0 / noise
    y = np.arange(-9.0, 9.0 + scale, 2e-4)
    r0, r1 = normal(y, 0.0), normal(y, scale)
    w = np.minimum(r0, r1)
    values, masses = (r1 - math.exp(epsilon) * r0) / w, w * 2e-4
    values, masses = np.append(values, 0.0), np.append(masses, max(1.0 - masses.sum(), 0.0))
    index = values / step
    low = np.floor(index)
    share = index - low
    size = 1 << 18
    law = np.bincount(low.astype(int) % size, masses * (1.0 - share), size)
    law += np.bincount((low.astype(int) + 1) % size, masses * share, size)
    total = np.fft.irfft(np.fft.rfft(law) ** users, size)
    points = (np.arange(size) + size // 2) % size - size // 2
    return float(np.sum(np.maximum(points * step, 0.0) * total)) / users


@pytest.mark.underflows
def test_an_fft_agrees():
    """The published method on the same question; it has no side, ours must not fall below it."""
    upper = dominating_noise(1.0, 300, 1.0, 2.0)
    for epsilon in (0.0, 0.2, 0.4):
        reference = blanket_by_fft(1.0, 300, epsilon, 0.02)
        assert 0.999 * reference <= delta(upper, epsilon, 1) <= 1.04 * reference


@pytest.mark.underflows
def test_the_blanket_of_two_users():
    """The formula itself by quadrature: (1/2) E[(B_1 G_1 + B_2 G_2)_+]; one user more or less is seen."""
    scale, upper = 1.0, dominating_noise(1.0, 2)
    y = np.linspace(-8.0, 9.0, 1701)
    r0, r1 = normal(y, 0.0), normal(y, scale)
    w = np.minimum(r0, r1)
    masses = w * (y[1] - y[0])
    masses = np.append(masses, 1.0 - masses.sum())
    for loss in (0.0, 1.0, 2.0, 3.0):
        values = np.append((r1 - math.exp(loss) * r0) / w, 0.0)
        pairs = np.maximum(values[:, None] + values, 0.0)
        alone = float(np.sum(np.maximum(r1 - math.exp(loss) * r0, 0.0)) * (y[1] - y[0]))
        reference = min(0.5 * float(masses @ pairs @ masses), alone)
        # two users: far out the bound for one report takes over from sums that are hard to certify
        wide = 1.03 if loss <= 1.0 else 2.0
        assert 0.9999 * reference <= delta(upper, loss, 1) <= wide * reference


@pytest.mark.underflows
def test_clones_of_randomized_response():
    """With E = e^epsilon0 there are no deficits: the pair of feldman2021 with clone rate 1/E."""
    local = math.log(3.0)
    upper = clones_above(AtomicPair.pure(local), 50)
    exact = ShufflePair(50, local, 1.0 / 3.0)
    for loss in (0.1, 0.4, 0.8):
        truth = math.exp(float(exact.log_hockey_stick(np.array([loss]))[0]))
        assert 0.99 * truth <= delta(upper, loss, 1) <= 1.2 * truth


@pytest.mark.underflows
def test_zero_and_one_are_the_worst_values():
    """Theorem 1: the integral of (R_x0 - l R_x1 - c w)_+ is largest at 0 and 1, also for other noise."""
    rng = np.random.default_rng(5)
    y = np.linspace(-30.0, 31.0, 12_001)
    for shape in (
        lambda z: np.exp(-0.5 * z * z),
        lambda z: np.exp(-np.abs(z)),
        lambda z: np.exp(-(z**4)),
    ):
        for scale in (0.4, 1.0, 3.0):
            density = [shape(scale * (y - x)) for x in (0.0, 1.0)]
            w = np.minimum(*density)

            def value(x0, x1, x, c, shape=shape, scale=scale, w=w):
                return np.sum(
                    np.maximum(shape(scale * (y - x0)) - x * shape(scale * (y - x1)) - c * w, 0.0)
                )

            for _ in range(40):
                x0, x1 = rng.random(2)
                x, c = math.exp(rng.normal()), 3.0 * rng.normal()
                worst = value(0.0, 1.0, x, c)
                assert (
                    value(x0, x1, x, c) <= worst * (1.0 + 2e-5) + 1e-3
                )  # of sums of some hundreds


def enumerated(rows, victim, others, x):
    """H_x of all reports of a table, mixed, by going through all of them."""
    counts = {}
    for own, sign in ((victim[0], 1.0), (victim[1], -x)):
        for reports in itertools.product(range(rows.shape[1]), repeat=1 + len(others)):
            chance = rows[own, reports[0]] * math.prod(
                rows[o, r] for o, r in zip(others, reports[1:], strict=True)
            )
            key = tuple(sorted(reports))
            counts[key] = counts.get(key, 0.0) + sign * chance
    return sum(max(value, 0.0) for value in counts.values())


def test_no_table_exceeds_its_profile():
    """Theorem 2 against all data sets of random tables, zeros and rare reports among them."""
    rng = np.random.default_rng(3)
    seen = 0.0
    for trial in range(8):
        rows = rng.dirichlet(np.full(4, 0.5 + trial % 3), size=3)
        if trial % 2:
            rows[:, -1] = rng.random(3) * 10.0 ** -rng.integers(1, 4)
            rows /= rows.sum(axis=1, keepdims=True)
        pairs = [
            AtomicPair.from_pmfs(rows[a], rows[b]) for a, b in itertools.combinations(range(3), 2)
        ]
        upper = clones_above(above_all(pairs), 3)
        for loss in (0.0, 0.3, 1.0):
            values = [
                enumerated(rows, victim, others, math.exp(loss))
                for victim in itertools.permutations(range(3), 2)
                for others in itertools.combinations_with_replacement(range(3), 2)
            ]
            assert max(values) <= delta(upper, loss, 1) * (1.0 + 1e-9)
            seen = max(seen, max(values) / delta(upper, loss, 1))
    assert seen > 0.5


def test_promised_randomizers_from_below():
    """(epsilon, delta)-LDP itself: with probability delta the record is sent."""
    some = dp.ApproximateDP(epsilon=math.log(3.0), delta=0.1)
    # rows of the records over (sure of 0, 0, 1, sure of 1)
    rows = np.array([[0.1, 0.675, 0.225, 0.0], [0.0, 0.225, 0.675, 0.1]])
    pair = attained_profile(some, 2, 1.0, "second", 1.0)
    for loss in (0.0, 0.5, 1.0):
        truth = max(enumerated(rows, (0, 1), (held,), math.exp(loss)) for held in (0, 1))
        low = delta(pair, loss, 0)
        assert low <= truth * (1.0 + 1e-9)
        assert low >= 0.9 * enumerated(rows, (0, 1), (1,), math.exp(loss))


def test_tails_to_forty_digits():
    from decimal import Decimal

    with mpmath.workdps(80):
        for x in (0.0, 0.125, 3.9375, 4.0, 7.5, 13.0, 21.0, -2.0):
            tail = mpmath.mpf(str(normal_tails([Decimal(x)])[0]))
            truth = mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2
            assert abs(tail / truth - 1) < mpmath.mpf(10) ** -38


def test_masses_of_the_blanket():
    """Its mass is 2 Phi(-1/(2 sigma)), and both mean ratios are one together with what is cut."""
    cells = NoiseCells.of(0.5)
    for cut in (12, 60):
        reports, rest = cells.blanket(cut, 10)
        assert 1.0 - reports.weights[-1] == pytest.approx(2 * float(mpmath.ncdf(-0.25)), rel=1e-14)
        mean = math.fsum(w * x for w, x in zip(reports.weights, reports.first, strict=True))
        assert mean + rest == pytest.approx(1.0, abs=1e-14)


def mixed(rows):
    """The distribution of how often each report occurs, of independent reports with these rows."""
    law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        longer = {}
        for counts, mass in law.items():
            for report, chance in enumerate(row):
                new = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
                longer[new] = longer.get(new, 0.0) + mass * chance
        law = longer
    return law


@pytest.mark.underflows
@pytest.mark.parametrize(
    ("p", "q", "users"),
    [
        # its two orders end at losses 1.24 and 1.00: chords beyond the shorter one were too high
        (
            [0.0, 0.29294829, 0.51248233, 0.19456938],
            [0.02329057, 0.1076038, 0.19538719, 0.67371844],
            4,
        ),
        # outcomes that only Q has, of which all reports may consist
        ([0.0, 0.25, 0.75], [0.5, 0.25, 0.25], 3),
        # most is revealed, either way
        ([0.0, 0.1, 0.9], [0.8, 0.2, 0.0], 2),
        ([0.3, 0.7], [0.6, 0.4], 1),
    ],
)
@pytest.mark.parametrize("lists_all", [True, False])
def test_others_of_a_finite_pair(p, q, users, lists_all, monkeypatch):
    """All counts enumerated, both orders, at and between the losses of the pair from below."""
    if not lists_all:
        monkeypatch.setattr(profile_reports, "listed", lambda *arguments: None)
    p, q = (np.array(row) / sum(row) for row in (p, q))
    found = profile_reports.attained_pair(dp.FinitePair(p=p.tolist(), q=q.tolist()))
    for pair, own, crowd in ((found, p, q), (found.reverse(), q, p)):
        try:
            lower = profile_reports._with_others(pair, users, 1.0, 4.0)
        except dp.NotCertified:
            assert not lists_all
            continue
        first, second = mixed([own, *[crowd] * (users - 1)]), mixed([crowd] * users)
        for one, a, b in ((lower, first, second), (lower.reverse(), second, first)):
            losses = np.array([0.0, *(loss for loss in one.losses if loss > 0.0)])
            for loss in (*losses, *(0.9995 * losses), *(0.5 * (losses[1:] + losses[:-1]))):
                truth = sum(max(mass - math.exp(loss) * b[k], 0.0) for k, mass in a.items())
                assert delta(one, loss, 0) <= truth * (1.0 + 1e-8) + 1e-15
            if lists_all:
                assert delta(one, 0.0, 0) >= 0.999 * sum(max(a[k] - b[k], 0.0) for k in a)


def test_deficits_of_drawn_users_count_at_their_own_rate():
    """The formula of Theorem 2 for two users of four with one choice of E, all terms enumerated."""
    pair, users, rate = AtomicPair.approximate(1.0, 0.05), 2, 0.5
    for loss in (0.1, 0.4):
        x, values = math.exp(loss), []
        alone = rate * delta(pair, math.log1p(math.expm1(loss) / rate), 1)
        for log_budget, members in profile_reports._budgets(pair, users):
            eta = delta(pair, log_budget, 1) * math.exp(-log_budget)
            clones = clones_of(pair, log_budget, members, rate)
            terms = list(zip(clones.weights, *clones.ratios[:2], strict=True))
            main = sum(
                math.prod(term[0] for term in drawn)
                * max(sum(first - x * second for _, first, second in drawn), 0.0)
                for drawn in itertools.product(terms, repeat=members)
            )
            extra = (x - 1.0) * (1.0 + 2.0 * (1.0 - rate) * eta) + 2.0 * alone
            values.append(main / members + members * eta * extra)
        reference = min(*values, alone)
        assert delta(clones_above(pair, users, rate), loss, 1) >= reference * (1.0 - 1e-9)


def test_deficits_of_drawn_users_have_a_term_of_second_order(monkeypatch):
    """One choice of E whose deficit is large: the formula with that term, and not the one without it.

    Deficits that the choice of E leads to are so small that the term is below the width of the table.
    """
    epsilon, revealed, users, rate = 1.0, 0.03, 2, 0.02
    monkeypatch.setattr(profile_reports, "_budgets", lambda *_: [(epsilon, users)])
    pair, budget = AtomicPair.approximate(epsilon, revealed), math.exp(epsilon)
    high = (1.0 - revealed) * budget / (1.0 + budget)
    low = high / budget
    outcomes = [(revealed, 0.0), (high, low), (low, high), (0.0, revealed)]
    terms = [(0.5 * (p + q) / budget, p / (p + q), q / (p + q)) for p, q in outcomes]
    terms.append((1.0 - 1.0 / budget, 0.0, 0.0))
    eta = revealed / budget
    for share in (0.1, 0.2, 0.4):  # of the largest ratio that one report has
        excess = rate * share * budget
        x, x_alone = 1.0 + excess, 1.0 + share * budget
        alone = rate * sum(max(p - x_alone * q, 0.0) for p, q in outcomes)
        main = sum(
            math.prod(chance for chance, _, _ in drawn)
            * max(
                (rate - 1.0) * excess
                + rate * 2.0 * budget / users * sum(a - x * b for _, a, b in drawn),
                0.0,
            )
            for drawn in itertools.product(terms, repeat=users)
        )
        first_order = main + users * eta * (excess + 2.0 * alone)
        whole = first_order + users * eta * excess * 2.0 * (1.0 - rate) * eta
        assert whole < alone
        found = delta(clones_above(pair, users, rate), math.log(x), 1)
        assert whole * (1.0 - 1e-9) <= found <= whole * (1.0 + 1e-4)
        assert first_order < whole * (1.0 - 3e-4)


@pytest.mark.parametrize("noise", [0.2, 50.0, 1e4])
@pytest.mark.parametrize("kind", [dp.LocalGaussian, dp.Gaussian])
def test_one_report_with_next_to_no_noise_or_nothing_but_noise(noise, kind):
    answer = dp.account(dp.ShuffledReports(users=1, randomizer=kind(noise))).epsilon(delta=1e-9)
    exact = dp.account(dp.Gaussian(noise)).epsilon(delta=1e-9)
    assert answer.lower <= exact.upper
    assert exact.lower <= answer.upper <= 1.05 * exact.upper
