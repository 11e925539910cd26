"""Reports and answers say no more than is true: whose proof, who is trusted, what an estimate is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.bounds import all_bounds
from sharpdp.bracket import Rigor, Side
from sharpdp.plans.plain_data import mechanism_from_data, to_data
from sharpdp.report.words import unit

ROOT = Path(__file__).resolve().parents[2]
SHUFFLED_BATCHES = dp.DPSGD(
    dp.ShuffledBatches(dataset_size=1000, batch_size=10, epochs=1), noise_multiplier=4.0
)
SHUFFLED_REPORTS = dp.ShuffledReports(users=100, local_epsilon=1.0)
OURS = "our proof, not peer reviewed"


def test_s1c_a_report_does_not_call_our_proof_a_published_theorem() -> None:
    text = " ".join(dp.account(SHUFFLED_BATCHES, relative_width=0.1).report().split())
    assert "A published theorem stands behind each side" not in text
    assert "The upper ends of epsilon rest on our own proof" in text
    assert f"{OURS}: sharpdp {dp.__version__}/proofs/shuffled-batches.md" in text
    published = " ".join(dp.account(dp.Gaussian(1.0)).report().split())
    assert OURS not in published
    assert "The upper ends of epsilon rest on published theorems." in published


@pytest.mark.parametrize("run", [SHUFFLED_BATCHES, SHUFFLED_REPORTS])
def test_s1c_an_answer_says_that_its_proof_is_ours(run: dp.Mechanism) -> None:
    answer = dp.account(run).epsilon(delta=1e-6)
    assert answer.rigor is Rigor.UNREVIEWED
    assert f"certified ({OURS})" in str(answer)
    assert dp.account(dp.Gaussian(1.0)).epsilon(delta=1e-6).rigor is Rigor.CERTIFIED


def test_s1c_an_answer_that_published_bounds_decide_is_not_called_ours() -> None:
    # with so few batches revealing the order costs nothing, and no lower side of ours is asked
    plan = dp.ShuffledBatches(dataset_size=100, batch_size=10, epochs=1)
    run = replace(dp.account(dp.DPSGD(plan, noise_multiplier=1.0)), lower_derivations=())
    assert run.rigor is Rigor.UNREVIEWED
    assert run.epsilon(delta=1e-6).rigor is Rigor.CERTIFIED


def test_s1c_a_mixture_inherits_the_rigor_of_its_components() -> None:
    part = dp.ShuffledReports(users=10, local_epsilon=1.0)
    whole = dp.account(dp.Mixture(components=[part, dp.Gaussian(1.0)], weights=[0.5, 0.5]))
    assert whole.epsilon(delta=1e-6).rigor is Rigor.UNREVIEWED
    assert "shared_clones_upper" in {one.name for one in whole.bounds}


def test_s1c_every_proof_that_is_cited_ships_in_the_wheel() -> None:
    from sharpdp.bounds import proofs

    build = (ROOT / "pyproject.toml").read_text("utf-8")
    folder = Path(proofs.__file__).parent.relative_to(ROOT / "src")
    assert f'"docs/proofs" = "{folder.as_posix()}"' in build
    cited = {one.proof for one in all_bounds() if one.proof}
    assert cited <= set(proofs.PAGES)
    for page in cited:
        text = proofs.text_of(page)
        named = [one.name for one in all_bounds() if one.proof == page and one.name in text]
        assert named, f"{page} names no bound that cites it"


def test_s2d_an_estimate_is_on_no_side() -> None:
    table = dp.compare(SHUFFLED_REPORTS, delta=1e-6)
    plain = {row["name"]: row for row in table.to_dict()["bounds"]}
    assert plain["gaussian_limit"]["side"] is None
    assert plain["shared_clones_upper"]["side"] == "upper"
    assert "gaussian_limit (estimate)" in str(table)
    assert table["gaussian_limit"].kind == "estimate"


def test_s2e_a_shuffle_report_says_who_is_trusted_and_what_is_left() -> None:
    run = dp.ShuffledReports(users=1000, local_epsilon=4.0, rounds=30)
    text = " ".join(dp.account(run, relative_width=0.1).report(delta=1e-5).split())
    assert "No sampling" not in text
    assert "How batches are drawn" not in text
    assert "at least 1,000 reports of every round" in text
    assert "epsilon 4 for each report and 120 over all 30 rounds" in text
    assert "even if the user's value changes from round to round" in unit(run)


def test_s2e_rounds_of_all_parts_and_of_sampled_users_add_up() -> None:
    from sharpdp.report.words import trusted

    sampled = dp.ShuffledReports(users=10, local_epsilon=0.1, population=100, rounds=3)
    lines = trusted(dp.Sequence([sampled, dp.ShuffledReports(users=20, local_epsilon=2.0) * 2]))
    assert "at least 10 reports" in lines[1]
    assert "epsilon 2 for each report and 4.3 over all 5 rounds" in lines[2]
    assert trusted(dp.Gaussian(1.0)) == []


def test_b2_the_size_of_the_data_settles_the_neighbors() -> None:
    sized = dp.DPSGD(
        dp.PoissonBatches(dataset_size=1000, batch_size=10, steps=500), noise_multiplier=1.0
    )
    told = dp.DPSGD(
        dp.PoissonBatches(sample_rate=0.01, steps=500, dataset_size=1000), noise_multiplier=1.0
    )
    free = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=500), noise_multiplier=1.0)
    assert [dp.account(run).adjacency for run in (sized, told, free)] == [
        dp.Adjacency.ZERO_OUT,
        dp.Adjacency.ZERO_OUT,
        dp.Adjacency.ADD_REMOVE,
    ]
    # whoever asks for add/remove is told what that takes
    asked = dp.account(sized, adjacency="add/remove")
    assert "without looking at the data" in asked.report()
    by_default, without = (
        dp.account(sized).epsilon(delta=1e-5),
        dp.account(free).epsilon(delta=1e-5),
    )
    assert (by_default.lower, by_default.upper) == (without.lower, without.upper)


def test_s1c_curves_made_from_an_answer_keep_its_rigor() -> None:
    """Whatever is made from a curve of ours, or composed with it, says whose proof it rests on."""
    answer = dp.account(SHUFFLED_BATCHES)
    curve = answer.tradeoff().refined(width=0.1)
    gaussian = dp.TradeoffCurve.gaussian(mu=1.0)
    made = {
        "refined": curve,
        "inverse": curve.inverse(),
        "symmetrized": curve.symmetrized(),
        "hull": curve.symmetric_hull(),
        "minimum": gaussian.minimum(curve),
        "maximum": curve.maximum(gaussian),
        "losses": dp.TradeoffCurve.from_losses(curve.losses(Side.UPPER)),
        "written": mechanism_from_data(to_data(curve)),
    }
    for name, one in made.items():
        assert one.rigor is Rigor.UNREVIEWED, name
        assert OURS in str(one.fnr(fpr=0.1)), name
        assert OURS in str(dp.account(one * 2).delta(epsilon=0.5)), name
        assert dp.account(one + dp.Gaussian(1.0)).rigor is Rigor.UNREVIEWED, name
    assert curve.distance(gaussian).rigor is Rigor.UNREVIEWED
    mixture = dp.Mixture(components=[curve, dp.Gaussian(1.0)], weights=[0.5, 0.5])
    assert OURS in str(dp.account(mixture).delta(epsilon=0.5))
    text = " ".join(dp.account(curve).report(delta=0.5).split())
    assert "The upper ends of epsilon rest on published theorems." not in text
    assert gaussian.minimum(gaussian.inverse()).rigor is Rigor.CERTIFIED


def test_s1c_renyi_curves_read_off_an_answer_keep_its_rigor() -> None:
    curve = dp.account(SHUFFLED_BATCHES).renyi_curve(orders=[2.0, 8.0])
    again = mechanism_from_data(to_data(curve))
    for one in (curve, curve * 3, curve + dp.RenyiCurve.zcdp(rho=0.1), again):
        assert one.rigor is Rigor.UNREVIEWED
        assert OURS in str(one.epsilon(delta=1e-5))
        assert OURS in str(dp.account(one + dp.Gaussian(1.0)).epsilon(delta=1e-5))
    assert "rigor" not in to_data(dp.RenyiCurve(orders=[2.0], values=[0.1]))


@pytest.mark.parametrize("rigor", ["approximate", Rigor.MONTE_CARLO, "", None, 3])
def test_s1c_no_curve_rests_on_less_than_a_proof(rigor: object) -> None:
    with pytest.raises(dp.errors.InvalidArgument, match="rigor must be"):
        dp.RenyiCurve(orders=[2.0], values=[0.1], rigor=rigor)
