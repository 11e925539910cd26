"""A report names what was run, for which neighbours, how private it is, and on what that rests."""

from __future__ import annotations

import dataclasses
import json
import re
from decimal import ROUND_CEILING, ROUND_FLOOR
from statistics import NormalDist

import pytest

import sharpdp as dp
from sharpdp import report

POISSON = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
EPOCHS = dp.DeterministicBatches(dataset_size=100, batch_size=10, epochs=2)
MECHANISMS = [
    POISSON,
    dp.DPSGD(EPOCHS, noise_multiplier=2.0),
    dp.Gaussian(noise_multiplier=1.0),
    dp.Laplace(scale=1.0),
    dp.Gaussian(noise_multiplier=2.0) * 3 + dp.Laplace(scale=2.0),
    dp.PureDP(epsilon=1.0),
    dp.RandomizedResponse(local_epsilon=1.0, categories=3),
]
BRACKET = re.compile(r"^\W*(\S+) <= (\w+) <= (\S+)(?: (?:at|for) (.+))?$")


def brackets(text: str) -> dict[tuple[str, str], tuple[float, float]]:
    """(quantity, place) -> (lower, upper) of every line of a report that is a bracket."""
    found = {}
    for line in text.replace("≤", "<=").splitlines():
        if match := BRACKET.match(line.partition(": ")[0]):
            found[match[2], match[4] or ""] = float(match[1]), float(match[3])
    return found


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether both can hold: an answer asked again may be narrower."""
    return max(one[0], other[0]) <= min(one[1], other[1])


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.describe())
def test_a_report_says_what_it_rests_on(mechanism: dp.Mechanism) -> None:
    answer = dp.account(mechanism)
    text = joined(answer.report())
    assert mechanism.describe() in text
    assert report.neighbours(answer.adjacency) in text
    for one in answer.bounds:
        assert one.name in text
        assert one.holds_when in text
        assert one.source in text
    assert "Certified: the truth" in text
    assert f"sharpdp {dp.__version__}" in text


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.describe())
def test_text_markdown_and_data_say_the_same(mechanism: dp.Mechanism) -> None:
    answer = dp.account(mechanism)
    shown = brackets(report.text(answer))
    also = brackets(report.markdown(answer))
    data = json.loads(json.dumps(report.to_dict(answer), allow_nan=False))
    assert len(shown) == len(data["epsilon"]) + len(data["delta"]) + 2
    assert shown.keys() == also.keys()
    for place, bracket in also.items():
        assert overlap(shown[place], bracket)
    for entry in data["epsilon"]:
        place = "epsilon", f"delta={entry['delta']:g}"
        assert overlap(shown[place], (entry["lower"], entry["upper"]))
    assert data["sources"] == [one.source for one in answer.bounds]
    assert data["version"] == dp.__version__


def test_a_report_holds_the_references() -> None:
    """Cases (b) and (g) of the issue."""
    shown = brackets(dp.account(POISSON).report())
    for place, exact, unit in (
        (("epsilon", "delta=1e-05"), 1.8282367, 1e-7),
        (("advantage", ""), 0.161018, 1e-6),
    ):
        lower, upper = shown[place]
        assert lower - unit <= exact <= upper + unit
        assert upper - lower < 1e-3 * upper


def test_attack_rates_are_rounded_away_from_the_truth() -> None:
    """Gaussian noise: the best attack finds Phi(Phi^-1(fpr) + 1) of the cases."""
    normal = NormalDist()
    text = joined(dp.account(dp.Gaussian(noise_multiplier=1.0)).report())
    said = re.findall(r"With (\S+) % false alarms no attack finds more than (\S+) % of the "
                      r"cases of the one input, and some attack finds (\S+) %\.", text)  # fmt: skip
    assert len(said) == len(report.FALSE_POSITIVE_RATES)
    for rate, (percent, most, least) in zip(report.FALSE_POSITIVE_RATES, said, strict=True):
        exact = 100 * normal.cdf(normal.inv_cdf(rate) + 1)
        assert float(percent) == 100 * rate
        assert float(least) <= exact <= float(most) <= float(least) * 1.01
    lower, upper = brackets(dp.account(dp.Gaussian(noise_multiplier=1.0)).report())[
        "mu", "fpr>=1e-06"
    ]
    assert lower <= 1.0 <= upper


@pytest.mark.parametrize(
    ("rate", "direction", "words"),
    [
        (0.001, ROUND_CEILING, "0.1 %"),
        (0.123412, ROUND_CEILING, "12.4 %"),
        (0.123412, ROUND_FLOOR, "12.3 %"),
        (1.0, ROUND_CEILING, "100 %"),
        (0.0, ROUND_FLOOR, "0 %"),
        (1e-9, ROUND_CEILING, "0.0000001 %"),
    ],
)
def test_percentages(rate: float, direction: str, words: str) -> None:
    assert report._percent(rate, direction) == words


def test_other_deltas() -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    shown = brackets(report.text(answer, delta=[1e-3]))
    assert [place for quantity, place in shown if quantity == "epsilon"] == ["delta=0.001"]
    with pytest.raises(dp.InvalidArgument, match=r"delta must be in \(0, 1\); got 2"):
        report.text(answer, delta=[2])


def test_a_missing_lower_side_is_said() -> None:
    answer = dataclasses.replace(dp.account(dp.Gaussian(noise_multiplier=1.0)), lower_routes=())
    text = joined(answer.report())
    assert "No lower side is known" in text
    assert "some attack finds" not in text
    assert "-inf" not in text
    assert not brackets(answer.report())
    assert re.search(r" epsilon <= 4\.377\d* at delta=1e-05", text)
    assert report.to_dict(answer)["epsilon"][0]["lower"] is None


def test_an_infinite_epsilon_is_said() -> None:
    text = dp.account(dp.ApproximateDP(epsilon=1.0, delta=1e-6)).report()
    assert "epsilon is infinite at delta=1e-08" in text


@pytest.mark.parametrize("adjacency", list(dp.Adjacency))
def test_every_notion_of_neighbours_has_its_words(adjacency: dp.Adjacency) -> None:
    assert report.neighbours(adjacency).endswith(".")
    assert all(report.SECRET[adjacency])
