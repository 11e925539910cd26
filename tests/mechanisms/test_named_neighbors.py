"""Conditions name the neighbors of the answer: a sensitivity holds for some, and not for others."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds import all_bounds
from sharpdp.explore.officer_view import reports
from sharpdp.mechanisms import NormalPair, ProfileMechanism

DIFFERING = {
    "add/remove": "data sets that differ in adding or removing one record",
    "zero-out": "data sets that differ in replacing one record by a null record",
    "replace-one": "data sets that differ in replacing one record",
    "neighboring inputs": "neighbors",
}
GIVEN = {
    dp.Gaussian(noise_multiplier=1.0): "the l2 sensitivity is at most 1 between {}",
    dp.Laplace(scale=1.0): "the l1 sensitivity is at most 1 between {}",
    dp.PureDP(epsilon=1.0): "the mechanism is epsilon-DP for {}",
    dp.ApproximateDP(epsilon=1.0, delta=1e-6): "the mechanism is (epsilon, delta)-DP for {}",
    dp.FinitePair(p=[0.5, 0.5], q=[0.4, 0.6]): "on any two {}, or dominate them",
    NormalPair(mean=1.0): "on any two {}, or dominate them",
    dp.PrivacyLoss(losses=[0.0], masses=[1.0]): "at least that of every pair of {}:",
    dp.RenyiCurve.zcdp(rho=0.1): "of both directions, for all {}",
    dp.TradeoffCurve.gaussian(mu=1.0): "no attack on {} gets below",
    ProfileMechanism(profile=lambda epsilon: 0 * epsilon): "no pair of {} has a larger profile",
    dp.BestOf(dp.Gaussian(4.0), "geometric", mean=2.0): "what one run needs holds for {}",
    dp.Mixture(components=[dp.Laplace(1.0), dp.Gaussian(1.0)], weights=[0.5, 0.5]):
        "the l1 sensitivity is at most 1 between {}",
}  # fmt: skip


@pytest.mark.parametrize("adjacency", DIFFERING)
@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_what_was_stated_must_hold_for_the_neighbors_of_the_answer(
    given: dp.Mechanism, adjacency: str
) -> None:
    needed = " ".join(dp.account(given, adjacency=adjacency).holds_when)
    assert GIVEN[given].format(DIFFERING[adjacency]) in needed


def test_groups_rest_on_the_sensitivity_of_one_record() -> None:
    for run in (dp.Laplace(scale=4.0), dp.PureDP(epsilon=0.1)):
        answer = dp.account(run, adjacency="replace-one", group_size=3)
        assert DIFFERING["replace-one"] in " ".join(answer.holds_when)


def test_every_bound_on_any_neighbors_can_name_them() -> None:
    """But for those about runs whose own parts name them, or of which nothing depends on neighbors."""
    silent = {
        bound.name
        for bound in all_bounds()
        if dp.Adjacency.NEIGHBORS in bound.adjacency
        and bound.holds_when
        and "neighbors" not in bound.holds_when
        and bound.theorem.__module__.startswith("sharpdp.")
    }
    assert silent == {
        "every_step_upper",
        "group_privacy_upper",
        "no_noise_upper",
        "no_record_tight",
        "released_index_upper",
    }


def test_reports_comparisons_and_the_page_name_them() -> None:
    survey = dp.ShuffledReports(users=100, local_epsilon=1.0)
    words = f"sensitivity is at most 1 between {DIFFERING['replace-one']}"
    answer = dp.account(dp.Laplace(scale=3.0), adjacency="replace-one")
    report = answer.report("json")
    assert f"The l1 {words}." in json.loads(report)["checklist"]
    assert f"l1 {words}" in json.loads(report)["theorems"][0]["holds_when"]
    assert f"l1 {words}" in " ".join(answer.report().split())
    rows = dp.compare(dp.Laplace(scale=3.0) + survey, delta=1e-6)
    assert any(f"l1 {words}" in row.holds_when for row in rows.rows)
    files = [{"name": "a.json", "text": report}]
    *_, last = reports({"reports": files, "delta": 1e-5})
    assert f"the l1 {words}" in last["total"]["holds_when"]


def test_a_histogram_has_twice_the_sensitivity_under_replace_one() -> None:
    """Laplace noise of scale 2 on two bins: adding a record moves one count, replacing it moves both."""
    x = np.arange(-40.0, 40.0, 0.25)
    ratio = (
        np.abs(x) - np.abs(x - 1.0)
    ) / 2.0  # of one count that is 1 on one data set, 0 on the other
    added, replaced = float(np.max(ratio)), float(np.max(ratio[:, None] - ratio[None, :]))
    assert (added, replaced) == (0.5, 1.0)
    stated = dp.account(dp.Laplace(scale=2.0), adjacency="add/remove").epsilon(delta=0)
    assert stated.upper == pytest.approx(added, rel=1e-9)
    claimed = dp.account(dp.Laplace(scale=2.0), adjacency="replace-one")
    assert (
        claimed.epsilon(delta=0).upper < replaced
    )  # so that its condition must say for whom it holds
    assert DIFFERING["replace-one"] in claimed.holds_when[0]
    right = dp.account(dp.Laplace(scale=2.0 / 2.0), adjacency="replace-one").epsilon(delta=0)
    assert right.upper == pytest.approx(replaced, rel=1e-9)
