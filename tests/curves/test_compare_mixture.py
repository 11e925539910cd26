"""One mixture beside its bounds: values against brute force, the table, the picture, the command."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import sharpdp as dp
from sharpdp.cli import main
from sharpdp.curves.mixtures.compare import compare_mixture
from sharpdp.errors import WrongType
from sharpdp.plots.mixture_comparison import mixture as drawn
from sharpdp.plots.mixture_comparison import save_mixture
from tests.reference import finite
from tests.reference.tests_of_pairs import tradeoff

mpl.use("Agg")

F = Fraction
COIN = dp.FinitePair(p=[0.75, 0.25], q=[0.25, 0.75])
BACK = dp.FinitePair(p=[0.25, 0.75], q=[0.75, 0.25])
STILL = dp.FinitePair(p=[0.5, 0.5], q=[0.5, 0.5])
UNEVEN = dp.FinitePair(p=[0.5, 0.5, 0.0], q=[0.125, 0.75, 0.125])
LEVEL = dp.FinitePair(p=[0.25, 0.25, 0.5], q=[0.5, 0.25, 0.25])
NAMES = [
    "index hidden, exact",
    "index released",
    "indices coupled",
    "advanced joint concavity",
    "one index released",
    "swapped distributions",
    "subsampling",
]
MIXTURES = {
    "swapped": dp.Mixture(components=[COIN, BACK], weights=[0.75, 0.25]),
    "mostly the other": dp.Mixture(components=[COIN, BACK], weights=[0.25, 0.75]),
    "subsampled": dp.Mixture(components=[STILL, COIN], weights=[0.875, 0.125]),
    "asymmetric": dp.Mixture(components=[UNEVEN, LEVEL], weights=[0.375, 0.625]),
    "of three": dp.Mixture(components=[COIN, BACK, STILL], weights=[0.5, 0.25, 0.25]),
    "other weights": dp.Mixture(
        components=[UNEVEN, LEVEL], weights=[0.5, 0.5], other_weights=[0.25, 0.75]
    ),
}


def truth(mixture: dp.Mixture, fpr: Fraction) -> Fraction:
    p, q = mixture.laws()
    return min(tradeoff(p, q, fpr), tradeoff(q, p, fpr))


@pytest.mark.parametrize("name", MIXTURES)
def test_the_first_row_is_the_truth_and_the_others_are_below_it(name: str) -> None:
    mixture = MIXTURES[name]
    found = compare_mixture(mixture, fpr=[0.0625, 0.25, 0.5])
    assert [row.name for row in found.rows] == NAMES
    assert found.quantity == "fnr"
    for fpr in found.at:
        exact = truth(mixture, Fraction(fpr))
        assert found["index hidden, exact"].fnr(fpr) == pytest.approx(float(exact), rel=1e-15)
        for row in found.rows:
            assert bool(row.curves) != bool(row.reason)
            if row.curves:
                assert Fraction(row.fnr(fpr)) <= exact
            else:
                assert np.isnan(row.fnr(fpr))


@pytest.mark.parametrize("name", MIXTURES)
def test_deltas_are_above_the_truth(name: str) -> None:
    mixture = MIXTURES[name]
    found = compare_mixture(mixture, epsilon=[0.0, 0.25, 1.0, 800.0])
    laws = [mixture.laws()]
    for epsilon in found.at:
        x = Fraction(np.exp(min(epsilon, 700.0)))
        exact = max(finite.delta(laws, x), finite.delta(finite.reverse(laws), x))
        assert found["index hidden, exact"].delta(epsilon) == pytest.approx(float(exact), abs=1e-14)
        for row in found.rows:
            if row.curves:
                assert Fraction(row.delta(epsilon)) >= exact - F(1, 10**15)
            else:
                assert np.isnan(row.delta(epsilon))


def test_values_that_can_be_checked_by_hand() -> None:
    """P = (5/8, 3/8), Q = (3/8, 5/8) if hidden; released it is the coin itself, told which way up."""
    found = compare_mixture(MIXTURES["swapped"], fpr=0.125)
    assert found["index hidden, exact"].fnr(0.125) == pytest.approx(1 - 5 / 24, abs=1e-15)
    assert found["index released"].fnr(0.125) == 0.625
    assert found["swapped distributions"].fnr(0.125) == 0.75  # half of it perfect, half the coin
    assert found["advanced joint concavity"].fnr(0.125) == pytest.approx(0.75, abs=1e-3)
    same = compare_mixture(MIXTURES["mostly the other"], fpr=0.125)
    assert same["swapped distributions"].fnr(0.125) == 0.75


def test_it_agrees_with_account() -> None:
    for mixture in MIXTURES.values():
        found = compare_mixture(mixture, epsilon=0.125)
        bracket = dp.account(mixture).delta(epsilon=0.125)
        exact = found["index hidden, exact"].delta(0.125)
        assert bracket.lower - 1e-12 <= exact <= bracket.upper + 1e-12
        told = dp.account(
            dp.Mixture(
                components=mixture.components,
                weights=mixture.weights,
                other_weights=mixture.other_weights,
                index="released",
            )
        ).delta(epsilon=0.125)
        assert told.lower - 1e-12 <= found["index released"].delta(0.125) <= told.upper + 1e-12


def test_a_component_of_no_weight_changes_nothing() -> None:
    padded = dp.Mixture(components=[COIN, LEFT_OUT, BACK], weights=[0.75, 0.0, 0.25])
    plain = compare_mixture(MIXTURES["swapped"], fpr=[0.1, 0.4])
    more = compare_mixture(padded, fpr=[0.1, 0.4])
    assert [more.values(row) for row in more.rows if row.curves] == [
        plain.values(row) for row in plain.rows if row.curves
    ]


LEFT_OUT = dp.FinitePair(p=[1.0, 0.0], q=[0.0, 1.0])


def test_the_table_is_rounded_to_the_safe_side() -> None:
    mixture = MIXTURES["asymmetric"]
    text = str(compare_mixture(mixture, fpr=[0.1]))
    first = text.splitlines()[2]
    assert first.startswith("  index hidden, exact")
    shown = Fraction(first.split()[3])
    exact = truth(mixture, Fraction(0.1))
    assert 0 <= exact - shown < F(1, 10**6)
    assert "swapped distributions: does not apply, it is about (P, Q) mixed with (Q, P)." in text
    delta = str(compare_mixture(mixture, epsilon=[0.1])).splitlines()[2]
    laws = [mixture.laws()]
    x = Fraction(np.exp(0.1))
    worst = max(finite.delta(laws, x), finite.delta(finite.reverse(laws), x))
    assert 0 <= Fraction(delta.split()[3]) - worst < F(1, 10**6)


def test_it_says_when_releasing_costs_nothing() -> None:
    apart = dp.Mixture(
        components=[
            dp.FinitePair(p=[0.5, 0.5, 0.0], q=[0.25, 0.75, 0.0]),
            dp.FinitePair(p=[0.0, 0.0, 1.0], q=[0.0, 0.0, 1.0]),
        ],
        weights=[0.5, 0.5],
    )
    found = compare_mixture(apart, fpr=0.25)
    assert found.nothing_lost
    assert "Releasing the index changes nothing" in str(found)
    assert not compare_mixture(MIXTURES["swapped"], fpr=0.25).nothing_lost


def test_plain_data_is_json() -> None:
    found = compare_mixture(MIXTURES["of three"], epsilon=[0.5])
    data = json.loads(json.dumps(found.to_dict()))
    assert [row["name"] for row in data["rows"]] == NAMES
    assert data["rows"][3]["values"] is None
    assert data["rows"][3]["reason"] == "it is about two components with the same weights"
    with pytest.raises(KeyError, match="there is no row"):
        found["nothing"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of fpr and epsilon must be given; got neither"),
        ({"fpr": 0.1, "epsilon": 1.0}, "got both"),
        ({"fpr": 0.0}, r"fpr must be in \(0, 1\]"),
        ({"fpr": [0.1, 2.0]}, r"fpr\[1\] must be in"),
        ({"epsilon": -1.0}, "epsilon must be a finite number, at least 0"),
        ({"epsilon": float("nan")}, "epsilon must be"),
    ],
)
def test_wrong_questions_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=message):
        compare_mixture(MIXTURES["swapped"], **arguments)


def test_only_mixtures_of_finite_pairs_are_compared() -> None:
    with pytest.raises(WrongType, match="mixture must be a Mixture"):
        compare_mixture(COIN, fpr=0.1)
    noise = dp.Mixture(components=[dp.Gaussian(1.0), COIN], weights=[0.5, 0.5])
    with pytest.raises(dp.Unsupported, match="components are FinitePairs"):
        compare_mixture(noise, fpr=0.1)
    spaces = dp.Mixture(components=[COIN, UNEVEN], weights=[0.5, 0.5], index="released")
    with pytest.raises(dp.InvalidArgument, match="on the same points"):
        compare_mixture(spaces, fpr=0.1)


def test_the_picture_shows_bounds_below_the_truth(tmp_path: Path) -> None:
    found = compare_mixture(MIXTURES["asymmetric"], fpr=0.1)
    axes = drawn(found, ax=Figure().add_subplot())
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert {"perfect privacy", "index hidden, exact", "advanced joint concavity"} <= lines.keys()
    exact = np.asarray(lines.pop("index hidden, exact").get_ydata())
    assert np.all(exact <= np.asarray(lines.pop("perfect privacy").get_ydata()) + 1e-12)
    for line in lines.values():
        assert np.all(np.asarray(line.get_ydata()) <= exact + 1e-12)
    save_mixture(found, tmp_path / "mixture.svg")
    assert (tmp_path / "mixture.svg").read_text("utf-8").startswith("<?xml")
    assert found.plot(ax=Figure().add_subplot()).get_title(loc="left")


PAIRS = ["finite-pair p=0.75,0.25 q=0.25,0.75", "finite-pair p=0.25,0.75 q=0.75,0.25"]


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = str(tmp_path / "curves.svg")
    assert (
        main(
            [
                "compare",
                "mixture",
                *PAIRS,
                "--weights",
                "0.75",
                "0.25",
                "--fpr",
                "0.125",
                "-o",
                place,
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "index released 0.625 wang2023 Lemma 3.1" in " ".join(text.split())
    assert text.endswith(f"drawn: {place}\n")
    assert (
        main(
            [
                "compare",
                "mixture",
                *PAIRS,
                "--weights",
                "0.75",
                "0.25",
                "--epsilon",
                "0.5",
                "--json",
            ]
        )
        == 0
    )
    data = json.loads(capsys.readouterr().out)
    first = data["answers"][0]
    assert (first["quantity"], first["lower"]) == ("delta", None)
    assert first["upper"] == pytest.approx(0.625 - 0.375 * np.exp(0.5), rel=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*PAIRS], "give --weights, one per component"),
        ([*PAIRS, "--weights", "0.5", "0.6"], "--weights must be probabilities with sum 1"),
        ([*PAIRS, "--weights", "1"], "--weights must have one entry per component"),
        ([*PAIRS, "--weights", "0.5", "0.5", "--fpr", "1", "--epsilon", "1"], "got both"),
        ([*PAIRS, "--weights", "0.5", "0.5", "--fpr", "2"], "fpr[0] must be in (0, 1]"),
        ([*PAIRS, "--weights", "0.5", "0.5", "--other-weights", "1"], "--other-weights must have"),
        (["gaussian noise_multiplier=1", "--weights", "1"], "components are FinitePairs"),
    ],
)
def test_the_command_refuses_in_one_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "mixture", *words]) == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1
