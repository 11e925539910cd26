"""What calibrate returns meets its target by its own account, and hardly more than that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import sharpdp as dp

Template = Callable[[float], dp.Mechanism]
Target = dict[str, float]

TARGETS: list[Target] = [
    {"epsilon": 1.0, "delta": 1e-6},
    {"epsilon": 8.0, "delta": 1e-12},
    {"advantage": 0.1},
    {"tpr": 0.05, "fpr": 0.01},
]


def poisson(rate: float, sigma: float, steps: int) -> dp.Mechanism:
    return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=sigma)


BINS = dp.BallsAndBins(dataset_size=400, batch_size=20, epochs=2)

TEMPLATES: dict[str, tuple[Template, str]] = {
    "noise": (lambda s: poisson(0.01, s, 500), "more"),
    "gaussian": (lambda s: dp.Gaussian(s) * 10, "more"),
    "scale": (lambda s: dp.Laplace(s) * 5, "more"),
    "rate": (lambda r: poisson(r, 1.5, 200), "less"),
    "steps": (lambda t: poisson(0.005, 1.2, t), "less"),  # type: ignore[arg-type]
    "count": (lambda t: dp.Gaussian(30.0) * t, "less"),  # type: ignore[operator]
    "bins": (lambda s: dp.DPSGD(BINS, noise_multiplier=s), "more"),
    "epochs": (
        lambda n: dp.DPSGD(
            dp.BallsAndBins(dataset_size=400, batch_size=20, epochs=n),  # type: ignore[arg-type]
            noise_multiplier=3.0,
        ),
        "less",
    ),
    "local": (lambda e: dp.RandomizedResponse(local_epsilon=e) * 8, "less"),
}


def reached(mechanism: dp.Mechanism, target: Target) -> tuple[float, float]:
    """The quantity of the target as (lower, upper) over the one wanted; at most one is met."""
    answer = dp.account(mechanism, relative_width=1e-5)
    if "advantage" in target:
        bracket, wanted = answer.advantage(), target["advantage"]
    elif "tpr" in target:
        bracket, wanted = answer.tpr(fpr=target["fpr"]), target["tpr"]
    else:
        bracket, wanted = answer.delta(epsilon=target["epsilon"]), target["delta"]
    return float(bracket.lower) / wanted, float(bracket.upper) / wanted


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, id=f"{name}-{'-'.join(target)}-{i}")
        for name in TEMPLATES
        for i, target in enumerate(TARGETS)
        if "tpr" not in target or name in ("gaussian", "count", "rate")  # the slow question
        if i == 0 or name not in ("bins", "epochs")  # slow answers
    ],
)
def test_the_result_is_safe_and_sharp(name: str, target: Target) -> None:
    template, privacy = TEMPLATES[name]
    try:
        value = dp.calibrate(template, **target)
    except dp.InvalidArgument as refusal:
        pytest.skip(str(refusal))  # every value meets the target, or none does
    # a narrower bracket of the same quantity cannot prove the target missed
    assert reached(template(value), target)[0] <= 1.0
    whole = isinstance(value, int)
    factor = 1.0 + (1.0 / value if whole else 3e-4)
    beyond = value * factor if privacy == "less" else value / factor
    try:
        outside = template(round(beyond) if whole else beyond)
    except dp.InvalidArgument:
        return  # the template ends there
    assert reached(outside, target)[1] > 1.0


def test_a_target_out_of_reach_is_called_that() -> None:
    # Laplace noise of scale 1/2 alone has epsilon 2, whatever stands beside it
    with pytest.raises(dp.InvalidArgument, match="epsilon 1 at delta 1e-06 is not met by any"):
        dp.calibrate(
            lambda s: dp.Gaussian(noise_multiplier=s) + dp.Laplace(scale=0.5),
            epsilon=1.0,
            delta=1e-6,
        )


def test_a_search_that_gets_hardly_closer_goes_on() -> None:
    """The local epsilon of a known randomizer behind a shuffler: trials far outside differ little."""

    def reports(local_epsilon: float) -> dp.Mechanism:
        randomizer = dp.RandomizedResponse(local_epsilon=local_epsilon, categories=8)
        return dp.ShuffledReports(users=10_000, randomizer=randomizer)

    largest = dp.calibrate(reports, epsilon=1.0, delta=1e-6)
    low, high = reached(reports(largest), {"epsilon": 1.0, "delta": 1e-6})
    assert 0.99 < low <= high <= 1.0


def test_a_count_next_to_the_target_is_found() -> None:
    """Eight rounds have 0.995, nine 1.06: the next count that is tried must not be eight again."""

    def reports(rounds: int) -> dp.Mechanism:
        return dp.ShuffledReports(users=5000, local_epsilon=3.0, rounds=rounds)

    assert dp.calibrate(reports, epsilon=1.0, delta=1e-6) == 8  # type: ignore[arg-type]
