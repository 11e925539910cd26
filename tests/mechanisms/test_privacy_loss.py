"""A privacy-loss distribution as a mechanism: against mpmath, against exact pairs, and rounded ones."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import sharpdp as dp
from sharpdp.plans import Plan, mechanism_from_data, to_data

LOSSES = (-1.5, -0.25, 0.5, 2.0)
MASSES = (0.046875, 0.328125, 0.375, 0.25)  # exact in binary; Q has 0.89 of its mass here


def high_precision_delta(
    table: list[tuple[float, float]], infinite: float, runs: int, epsilon: float
) -> mpf:
    """Delta of independent runs by listing all of their outcomes, in 40 digits."""
    with mp.workdps(40):
        total = 1 - (1 - mpf(infinite)) ** runs
        for outcome in itertools.product(table, repeat=runs):
            loss = mp.fsum(mpf(row[0]) for row in outcome)
            mass = mp.fprod(mpf(row[1]) for row in outcome)
            if loss > epsilon:
                total += mass * (1 - mp.exp(mpf(epsilon) - loss))
        return total


def reversed_table(
    table: list[tuple[float, float]],
) -> tuple[list[tuple[mpf, mpf]], mpf]:
    """Losses of (Q, P) under Q, and the Q-mass where P has none."""
    with mp.workdps(40):
        other = [(-mpf(loss), mpf(mass) * mp.exp(-mpf(loss))) for loss, mass in table]
        return other, 1 - mp.fsum(mass for _, mass in other)


@pytest.mark.parametrize("infinite", [0.0, 2.0**-10])
@pytest.mark.parametrize("runs", [1, 3, 5])
def test_both_directions_agree_with_forty_digits(infinite: float, runs: int) -> None:
    masses = (MASSES[0], MASSES[1], MASSES[2], MASSES[3] - infinite)
    mechanism = dp.PrivacyLoss(losses=LOSSES, masses=masses, mass_at_infinity=infinite)
    table = list(zip(LOSSES, masses, strict=True))
    other, behind = reversed_table(table)
    answer = dp.account(mechanism * runs, relative_width=1e-6)
    for epsilon in (0.0, 0.7, 1.9, 4.0):
        truth = max(
            high_precision_delta(table, infinite, runs, epsilon),
            high_precision_delta(other, behind, runs, epsilon),  # type: ignore[arg-type]
        )
        bracket = answer.delta(epsilon=epsilon)
        assert bracket.lower <= truth <= bracket.upper
        assert bracket.upper - bracket.lower <= 1e-5 * bracket.upper


def test_a_known_pair_written_as_losses_answers_the_same() -> None:
    """Golden: randomized response with three categories, whose numbers are those of its own theorem."""
    share = math.exp(1.0) + 2.0
    table = dp.PrivacyLoss(
        losses=[-1.0, 0.0, 1.0], masses=[1.0 / share, 1.0 / share, math.exp(1.0) / share]
    )
    known = dp.RandomizedResponse(local_epsilon=1.0, categories=3)
    for runs, delta in ((1, 1e-3), (7, 1e-6), (1000, 1e-9)):
        ours, theirs = (dp.account(run * runs).epsilon(delta=delta) for run in (table, known))
        assert ours.lower <= theirs.upper
        assert theirs.lower <= ours.upper
        assert ours.upper == pytest.approx(theirs.upper, rel=1e-3)


def test_pure_epsilon_of_losses_rounded_to_doubles() -> None:
    coin = dp.PrivacyLoss(losses=[-math.log(3), math.log(3)], masses=[0.25, 0.75])
    answer = dp.account(coin * 10).epsilon(delta=0)
    assert answer.lower <= 10 * mp.log(3) <= answer.upper
    assert answer.upper < 10 * math.log(3) + 1e-9


def gaussian_grid(step: float, upwards: bool) -> dp.PrivacyLoss:
    """The losses of Gaussian noise with noise multiplier 1 on a grid, rounded to one side."""
    places = np.arange(-12 / step, 13 / step + 1) * step
    cumulative = np.array([float(mp.ncdf(place - 0.5)) for place in places])  # loss ~ N(1/2, 1)
    masses = np.diff(cumulative)
    losses = places[1:] if upwards else places[:-1]
    rest = 1.0 - math.fsum(masses.tolist())
    if upwards:
        return dp.PrivacyLoss(
            losses=losses,
            masses=masses,
            mass_at_infinity=max(rest, 0.0),
            rounding="pessimistic",
            reverse="same",
        )
    masses[0] += rest
    return dp.PrivacyLoss(losses=losses, masses=masses, rounding="optimistic")


@pytest.mark.parametrize("runs", [1, 4, 50])
def test_rounded_tables_enclose_the_truth(runs: int) -> None:
    truth = dp.account(dp.Gaussian(noise_multiplier=1.0) * runs)
    above, below = (dp.account(gaussian_grid(0.05, upwards) * runs) for upwards in (True, False))
    for delta in (1e-2, 1e-6):
        exact, high, low = (each.epsilon(delta=delta) for each in (truth, above, below))
        assert low.lower <= exact.upper
        assert exact.lower <= high.upper
        assert low.lower >= exact.lower * 0.8 - 0.1  # and not by far
        assert high.upper <= exact.upper * 1.2 + 0.1
        assert (high.lower, low.upper) == (0.0, math.inf)  # each knows one side only


def test_a_table_for_each_direction_counts_at_epsilon_above_zero() -> None:
    """A lopsided pair: both tables rounded up, against the pair itself."""
    p, q = np.array([0.02, 0.48, 0.5]), np.array([0.1, 0.6, 0.3])
    ahead, behind = np.log(p / q) + 0.01, np.log(q / p) + 0.01
    other = dp.PrivacyLoss(losses=behind, masses=q, rounding="pessimistic")
    table = dp.PrivacyLoss(losses=ahead, masses=p, rounding="pessimistic", reverse=other)
    assert mechanism_from_data(to_data(table)) == table
    exact = dp.FinitePair(p=p.tolist(), q=q.tolist())
    for runs in (1, 5, 40):
        truth, above = (dp.account(run * runs) for run in (exact, table))
        for delta in (1e-1, 1e-3, 1e-6):
            right, ours = (each.epsilon(delta=delta) for each in (truth, above))
            assert right.lower <= ours.upper <= right.upper + 0.02 * runs
        either = dp.account(dp.PrivacyLoss(losses=ahead, masses=p, rounding="pessimistic") * runs)
        assert right.lower <= either.epsilon(delta=1e-6).upper


def test_an_optimistic_table_claims_no_more_than_its_delta_or_no_information() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        masses = rng.dirichlet(np.ones(4))
        losses = np.sort(rng.normal(0.0, 1.0, 4))
        table = dp.PrivacyLoss(losses=losses, masses=masses, rounding="optimistic")
        answer = dp.account(table)
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            forth = float(masses @ np.maximum(1.0 - np.exp(epsilon - losses), 0.0))
            # delta(-epsilon) of the table, or of no information, read the other way
            back = float(masses @ np.maximum(1.0 - np.exp(-epsilon - losses), 0.0))
            back = 1.0 - math.exp(epsilon) * (1.0 - max(back, 1.0 - math.exp(-epsilon)))
            assert answer.delta(epsilon=epsilon).lower <= max(forth, back, 0.0) + 1e-9


def test_missing_mass_counts_as_revealed_on_the_safe_side() -> None:
    table = dp.PrivacyLoss(
        losses=[-0.45, 0.55], masses=[0.4, 0.6 - 5e-10], rounding="pessimistic", reverse="same"
    )
    assert dp.account(table).delta(epsilon=10.0).upper >= 5e-10
    assert dp.account(table * 100).delta(epsilon=60.0).upper >= 4.9e-8


def test_read_from_a_csv_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("loss,mass\n0.5,0.25\n-0.5,0.5\n\ninf,0.25\n")
    table = dp.PrivacyLoss.read(file)
    assert (table.losses, table.masses, table.name) == ((-0.5, 0.5), (0.5, 0.25), "mine")
    assert table.mass_at_infinity == 0.25
    file.write_text("0.5,0.25\nx,0.5\n")
    with pytest.raises(dp.InvalidArgument, match=r"'x,0\.5' in row 2"):
        dp.PrivacyLoss.read(file)
    with pytest.raises(dp.InvalidArgument, match="must be a CSV file"):
        dp.PrivacyLoss.read(tmp_path / "no.csv")


@pytest.mark.parametrize("first", ["nan,0.25", "0..5,0.25", "1e-3e,0.25"])
def test_a_first_line_with_a_number_is_no_title(first: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"{first}\n0.5,0.5\n-0.5,0.5\n")
    with pytest.raises(dp.InvalidArgument, match="in row 1 of the table"):
        dp.PrivacyLoss.read(file)


def test_it_can_be_planned_and_reported() -> None:
    table = dp.PrivacyLoss(losses=LOSSES, masses=MASSES, name="mine", rounding="pessimistic")
    assert mechanism_from_data(to_data(table)) == table
    plan = Plan(mechanism=table * 3, delta=1e-5)
    assert Plan.from_json(plan.to_json()) == plan
    assert "mine" in dp.account(table * 3).report()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"masses": [0.5, 0.4]}, "must sum to 1; got 0.9. What was cut off"),
        ({"losses": [-1.0, -0.5]}, "must sum to at most 1"),
        ({"losses": [0.0]}, "equally many entries; got 1 and 2"),
        ({"losses": [0.0, math.inf]}, "belong to mass_at_infinity"),
        ({"losses": [0.0, 1000.0]}, "Larger losses belong to mass_at_infinity"),
        ({"masses": [1.5, -0.5]}, r"masses\[1\] must be"),
        ({"reverse": "same"}, "reverse must be left out of a table that is exact"),
        ({"reverse": "other", "rounding": "pessimistic"}, "reverse must be None"),
        ({"rounding": "up"}, "rounding must be one of 'exact', 'pessimistic', 'optimistic'"),
        ({"mass_at_infinity": 1.0}, "mass_at_infinity must be in"),
        ({"losses": []}, "1 to 1,000,000 entries; got 0"),
    ],
)
def test_what_is_no_distribution_is_refused(said: dict[str, object], words: str) -> None:
    good: dict[str, object] = {"losses": [-0.5, 0.75], "masses": [0.375, 0.625]}
    dp.PrivacyLoss(**good)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match=words):
        dp.PrivacyLoss(**{**good, **said})  # type: ignore[arg-type]
