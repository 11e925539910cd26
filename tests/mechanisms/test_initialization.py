"""What can be said about a random start: claims, ways to know the sensitivity, and wrong calls."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.mechanisms.sensitivity import (
    EnclosedSensitivity,
    LeastSquares,
    Logistic,
    MonotoneSensitivity,
    SensitivityDistribution,
)

CLIP = 1.0


def clipped(start: np.ndarray) -> np.ndarray:
    return np.minimum(np.abs(start), CLIP)


def around_one(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on min(|1 - I|, 1) over intervals."""
    ends = np.abs(1.0 - left), np.abs(1.0 - right)
    nearest = np.where((left <= 1.0) & (right >= 1.0), 0.0, np.minimum(*ends))
    return np.minimum(nearest, CLIP), np.minimum(np.maximum(*ends), CLIP)


def inside(size: np.ndarray) -> np.ndarray:
    """The law of |Z|, Z ~ N(1, 1), given that it is below the clip."""
    whole = ndtr(CLIP - 1.0) - ndtr(-CLIP - 1.0)
    return np.clip((ndtr(size - 1.0) - ndtr(-size - 1.0)) / whole, 0.0, 1.0)


AT_CLIP = float(1.0 - (ndtr(CLIP - 1.0) - ndtr(-CLIP - 1.0)))


def answer(sensitivity: object, start: str = "public", **said: object) -> dp.Guarantee:
    run = {"claim": "instance", "initialization": start, **said}
    return dp.account(dp.RandomlyInitializedGD(sensitivity=sensitivity, **run))  # type: ignore[arg-type]


SAME = [
    (MonotoneSensitivity(function=clipped, shape="rising in |start|"), 0.0),
    (
        MonotoneSensitivity(
            function=clipped, shape="rising in |start|", cdf=ndtr, start_range=(-9.0, 9.0)
        ),
        0.0,
    ),
    (EnclosedSensitivity(enclosure=around_one), 1.0),
    (EnclosedSensitivity(enclosure=around_one, cdf=ndtr, start_range=(-8.5, 8.5)), 1.0),
    (SensitivityDistribution(atoms={CLIP: AT_CLIP}, cdf=inside, interval=(0.0, CLIP)), 1.0),
]


@pytest.mark.parametrize(
    ("sensitivity", "slope"),
    SAME,
    ids=["monotone", "monotone of a cdf", "enclosed", "enclosed of a cdf", "law"],
)
def test_every_way_to_say_the_same_gives_the_same(sensitivity: object, slope: float) -> None:
    ready = answer(LeastSquares(slope=slope, clip=CLIP))
    given = answer(sensitivity)
    for epsilon in (0.0, 1.0, 4.0):
        one, other = ready.delta(epsilon=epsilon), given.delta(epsilon=epsilon)
        assert one.lower <= other.upper
        assert other.lower <= one.upper
        assert other.upper - other.lower <= 1e-3 * other.upper
    epsilon = given.epsilon(delta=1e-6)
    assert epsilon.upper - epsilon.lower <= 1e-4 * epsilon.upper


def test_a_falling_function_of_a_uniform_start() -> None:
    """1/(1 + I) on [0, 1] has the distribution function 2 - 1/m on [1/2, 1]."""
    function = answer(
        MonotoneSensitivity(
            function=lambda start: 1.0 / (1.0 + start),
            shape="falling",
            cdf=lambda start: np.clip(start, 0.0, 1.0),
            start_range=(0.0, 1.0),
        )
    )
    law = answer(
        SensitivityDistribution(cdf=lambda m: np.clip(2.0 - 1.0 / m, 0.0, 1.0), interval=(0.5, 1.0))
    )
    for epsilon in (0.2, 3.0):
        one, other = function.delta(epsilon=epsilon), law.delta(epsilon=epsilon)
        assert one.lower <= other.upper
        assert other.lower <= one.upper
        assert one.upper - one.lower <= 1e-3 * one.upper


def test_atoms_alone_are_a_finite_mixture() -> None:
    from tests.reference.initialization import delta_of

    found = answer(SensitivityDistribution(atoms=[(0.0, 0.25), (1.0, 0.5), (2.0, 0.25)])).delta(
        epsilon=1.0
    )
    truth = 0.5 * float(delta_of(1.0, 1.0)) + 0.25 * float(delta_of(2.0, 1.0))
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 1e-10


def test_nothing_moves_and_nothing_is_learned() -> None:
    still = answer(SensitivityDistribution(atoms={0.0: 1.0}))
    assert still.delta(epsilon=0.0).upper == 0.0
    assert still.epsilon(delta=1e-9).upper == 0.0


def test_what_is_not_known_counts_as_revealed() -> None:
    """A start outside its range, and a sensitivity without a bound, are given away."""
    half = answer(
        MonotoneSensitivity(
            function=np.ones_like,
            shape="rising",
            cdf=lambda start: 0.75 * np.clip(start, 0.0, 1.0),
            start_range=(0.0, 1.0),
        )
    )
    assert half.delta(epsilon=50.0).upper == pytest.approx(0.25, abs=1e-10)
    assert half.delta(epsilon=50.0).lower < 1e-9
    open_ended = answer(
        EnclosedSensitivity(
            enclosure=lambda left, right: (0.0 * left, np.where(right > 1.0, np.inf, 1.0))
        )
    )
    beyond = float(1.0 - ndtr(1.0))
    assert beyond <= open_ended.delta(epsilon=50.0).upper <= beyond + 1e-3


def test_the_noise_scales_the_sensitivity() -> None:
    one = answer(LeastSquares(slope=1.0, clip=1.0)).delta(epsilon=0.5)
    double = answer(
        SensitivityDistribution(atoms={2.0: AT_CLIP * 1.0, 0.0: 1.0 - AT_CLIP}), noise_deviation=2.0
    )
    alone = AT_CLIP * dp.account(dp.Gaussian(1.0)).delta(epsilon=0.5).upper
    assert double.delta(epsilon=0.5).upper == pytest.approx(alone, rel=1e-9)
    assert one.upper > alone


@pytest.mark.parametrize("start", ["hidden", "public"])
@pytest.mark.parametrize("claim", ["instance", "worst-case"])
def test_lower_sides_only_where_they_are_true(start: str, claim: str) -> None:
    said = {"claim": claim, "initialization": start}
    squares = dp.account(dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, **said))
    logistic = dp.account(dp.RandomlyInitializedGD.logistic(margin=1.0, **said))
    given = answer(MonotoneSensitivity(function=clipped, shape="rising in |start|"), **said)
    assert bool(squares.lower_derivations) == (start == "public" or claim == "worst-case")
    assert bool(logistic.lower_derivations) == (start == "public")
    assert bool(given.lower_derivations) == (start == "public" and claim == "instance")
    for one in (squares, logistic, given):
        found = one.delta(epsilon=0.3)
        assert found.lower <= found.upper
        assert len(one.upper_derivations) == 1


def test_answers_say_what_is_claimed() -> None:
    run = dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, claim="instance")
    assert "claimed for this instance only" in run.describe()
    assert "this instance only" in dp.account(run).delta(epsilon=1.0).context
    report = re.sub(r"\s+", " ", dp.account(run).report())
    assert "for this data set and this neighbor only, nothing is promised for other" in report
    worst = dp.RandomlyInitializedGD.logistic(margin=1.0, claim="worst-case")
    assert "claimed for worst case over records" in worst.describe()
    assert run.adjacencies[0] is dp.Adjacency.ADD_REMOVE
    law = dp.RandomlyInitializedGD(
        sensitivity=SensitivityDistribution(atoms={1.0: 1.0}), claim="instance"
    )
    assert law.adjacencies == (dp.Adjacency.NEIGHBORS,)


def test_several_steps_have_no_lower_side_but_an_exact_one() -> None:
    """Lower sides of one step from a public start are not those of the last of several steps."""
    for made in (
        dp.RandomlyInitializedGD.least_squares(
            slope=1.0, clip=1.0, claim="instance", initialization="public", steps=2
        ),
        dp.RandomlyInitializedGD(
            sensitivity=Logistic(margin=1.0), claim="worst-case", initialization="public", steps=2
        ),
        dp.RandomlyInitializedGD(
            sensitivity=Logistic(margin=1.0), claim="instance", initialization="public", steps=2
        ),
    ):
        found = dp.account(made)
        assert found.lower_derivations == ()
        assert "the last of 2 steps" in made.describe()
        alone = dp.compare(made, delta=1e-5)["noise_alone_upper"].value
        two = dp.account(dp.Gaussian(1.0) * 2).epsilon(delta=1e-5)
        assert alone == pytest.approx(two.upper, rel=1e-9)
        assert found.epsilon(delta=1e-5).upper < two.lower
    exact = dp.RandomlyInitializedGD.least_squares(
        slope=1.0, clip=np.inf, points=3, claim="instance", steps=2, learning_rate=0.1
    )
    assert "learning rate 0.1" in exact.describe()
    assert dp.account(exact).epsilon(delta=1e-5).relative_width < 1e-3


def test_comparison_with_the_noise_alone() -> None:
    run = dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=2.0, claim="instance")
    found = dp.compare(run, delta=1e-5)
    alone = dp.account(dp.Gaussian(0.5)).epsilon(delta=1e-5)
    assert found["noise_alone_upper"].value == pytest.approx(alone.upper, rel=1e-9)
    assert found["released_start_upper"].value < alone.lower
    loose = dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=np.inf, claim="instance")
    assert dp.compare(loose, delta=1e-5)["noise_alone_upper"].value is None


def test_a_largest_sensitivity_takes_what_is_not_known() -> None:
    bounded = MonotoneSensitivity(function=clipped, shape="rising in |start|", largest=CLIP)
    found, loose = answer(bounded), answer(SAME[0][0])
    assert found.renyi(order=4.0).upper < 0.5 * 4.0 * CLIP**2
    assert loose.renyi(order=4.0).upper == np.inf  # a start beyond 37 deviations counts as revealed
    alone = dp.compare(found.mechanism, delta=1e-5)["noise_alone_upper"].value
    assert alone == pytest.approx(dp.account(dp.Gaussian(1.0)).epsilon(delta=1e-5).upper, rel=1e-9)
    half = EnclosedSensitivity(
        enclosure=lambda left, right: (0.0 * left, np.full(left.shape, np.inf)), largest=0.5
    )
    assert answer(half).delta(epsilon=0.1).upper == pytest.approx(
        dp.account(dp.Gaussian(2.0)).delta(epsilon=0.1).upper, rel=1e-9
    )


def test_equal_descriptions_are_equal() -> None:
    one, other = (
        dp.RandomlyInitializedGD.least_squares(slope=1, clip=2, claim="instance") for _ in range(2)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert (one + other).parts() == ((one, 2),)


def rising(start: np.ndarray) -> np.ndarray:
    return np.abs(start)


WRONG = [
    (lambda: LeastSquares(slope=np.nan, clip=1.0), "slope must be a finite number; got nan"),
    (lambda: LeastSquares(slope=1e9, clip=1.0), "slope must be between -1e+06 and 1e+06"),
    (lambda: LeastSquares(slope=1.0, clip=0.0), "clip must be greater than 0; got 0.0. Use inf"),
    (lambda: LeastSquares(slope=1.0, clip="1"), "clip must be greater than 0; got '1'"),
    (
        lambda: LeastSquares(slope=1.0, clip=1.0, points=0),
        "points must be a whole number, at least 1",
    ),
    (lambda: LeastSquares(slope=1.0, clip=1.0, points=1.5), "points must be a whole number"),
    (lambda: Logistic(margin=-1.0), "margin must be greater than 0; got -1.0"),
    (lambda: Logistic(margin=1e9), "margin must be at most 1000"),
    (
        lambda: dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, claim="both"),
        "claim must be 'instance' or 'worst-case'; got 'both'",
    ),
    (
        lambda: dp.RandomlyInitializedGD.logistic(
            margin=1.0, claim="instance", initialization="secret"
        ),
        "initialization must be 'hidden' or 'public'; got 'secret'",
    ),
    (
        lambda: dp.RandomlyInitializedGD.logistic(margin=1.0, claim="instance", noise_deviation=0),
        "noise_deviation must be greater than 0; got 0",
    ),
    (
        lambda: dp.RandomlyInitializedGD(sensitivity=1.0, claim="instance"),  # type: ignore[arg-type]
        "sensitivity must be a description of one; got 1.0",
    ),
    (
        lambda: dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=np.inf, claim="worst-case"),
        "claim 'worst-case' needs gradients that are clipped",
    ),
    (
        lambda: dp.RandomlyInitializedGD.least_squares(
            slope=1.0, clip=1.0, claim="instance", steps=0
        ),
        "steps must be a whole number, at least 1; got 0",
    ),
    (
        lambda: dp.RandomlyInitializedGD.least_squares(
            slope=1.0, clip=1.0, claim="instance", learning_rate=-1.0
        ),
        "learning_rate must be greater than 0; got -1.0",
    ),
    (
        lambda: dp.RandomlyInitializedGD.least_squares(
            slope=1.0, clip=1.0, claim="worst-case", steps=2
        ),
        "steps must be 1 for the worst case of least squares; got 2",
    ),
    (
        lambda: dp.RandomlyInitializedGD.least_squares(
            slope=1.0, clip=np.inf, claim="instance", steps=2
        ),
        "steps must be 1 without clipping, unless the start is hidden and points are given; got 2",
    ),
    (
        lambda: dp.RandomlyInitializedGD.least_squares(
            slope=1.0, clip=np.inf, points=3, claim="instance", steps=2, initialization="public"
        ),
        "steps must be 1 without clipping, unless the start is hidden",
    ),
    (
        lambda: dp.RandomlyInitializedGD(
            sensitivity=SensitivityDistribution(atoms={1.0: 1.0}), claim="instance", steps=2
        ),
        "steps must be 1 for a given sensitivity; got 2",
    ),
    (lambda: MonotoneSensitivity(function=rising, shape="rising"), "function must be rising; got"),
    (lambda: MonotoneSensitivity(function=rising, shape="wavy"), "shape must be one of 'rising'"),
    (
        lambda: MonotoneSensitivity(function=lambda start: start, shape="rising"),
        "function must return numbers that are at least 0; got -8.0",
    ),
    (
        lambda: MonotoneSensitivity(function=lambda start: start * np.nan, shape="rising"),
        "function must return numbers that are at least 0; got nan",
    ),
    (
        lambda: MonotoneSensitivity(function=lambda start: 1.0, shape="rising"),
        "function must return one number for each entry of an array; got 1.0",
    ),
    (
        lambda: MonotoneSensitivity(function=2.0, shape="rising"),  # type: ignore[arg-type]
        "function must be a function of the start; got 2.0",
    ),
    (
        lambda: MonotoneSensitivity(function=np.ones_like, shape="rising", cdf=ndtr),
        "start_range must be two numbers",
    ),
    (
        lambda: MonotoneSensitivity(function=np.ones_like, shape="rising", start_range=(0.0, 1.0)),
        "start_range must be left out without a cdf",
    ),
    (
        lambda: MonotoneSensitivity(
            function=np.ones_like, shape="rising", cdf=ndtr, start_range=(1.0, 0.0)
        ),
        "start_range must be an interval with its lower end first",
    ),
    (
        lambda: MonotoneSensitivity(
            function=np.ones_like, shape="rising", cdf=lambda x: ndtr(-x), start_range=(-1.0, 1.0)
        ),
        "cdf must rise from 0 to 1; got",
    ),
    (
        lambda: MonotoneSensitivity(function=np.ones_like, shape="rising", largest=0.5),
        "largest must be at least every sensitivity; got 0.5, and 1.0 at -8",
    ),
    (
        lambda: MonotoneSensitivity(function=np.ones_like, shape="rising", largest=-1.0),
        "largest must be greater than 0; got -1.0",
    ),
    (
        lambda: EnclosedSensitivity(enclosure=lambda left, right: (right - left, 0.0 * left)),
        "enclosure must return lower bounds first",
    ),
    (
        lambda: EnclosedSensitivity(enclosure=lambda left, right: left),  # type: ignore[arg-type, return-value]
        "enclosure must return two arrays",
    ),
    (lambda: EnclosedSensitivity(enclosure=None), "enclosure must be a function of two arrays"),  # type: ignore[arg-type]
    (
        lambda: SensitivityDistribution(),
        "atoms must have sum 1 if there is no cdf; got atoms with sum 0",
    ),
    (
        lambda: SensitivityDistribution(atoms={1.0: 0.7, 2.0: 0.7}),
        "atoms must have a sum of at most 1",
    ),
    (
        lambda: SensitivityDistribution(atoms={-1.0: 1.0}),
        "atoms[0][0] must be a finite number, at least 0",
    ),
    (lambda: SensitivityDistribution(atoms={1.0: 0.0}), "atoms[0][1] must be in (0, 1]; got 0.0"),
    (
        lambda: SensitivityDistribution(atoms=[1.0]),
        "atoms[0] must be a sensitivity and its probability",
    ),  # type: ignore[list-item]
    (lambda: SensitivityDistribution(atoms=3.0), "atoms must map sensitivities to probabilities"),  # type: ignore[arg-type]
    (
        lambda: SensitivityDistribution(cdf=lambda m: m, interval=(-1.0, 1.0)),
        "interval must be a finite number, at least 0; got -1.0",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_calls_get_a_sentence(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(dp.SharpDPError, match=re.escape(message)):
        call()


def test_a_function_that_bends_between_the_probes_is_refused() -> None:
    def bump(start: np.ndarray) -> np.ndarray:
        return 1.0 + start**2 * 0.0 + 0.5 * np.exp(-(((start - 0.123) / 0.01) ** 2))

    run = dp.RandomlyInitializedGD(
        sensitivity=MonotoneSensitivity(function=bump, shape="rising"), claim="instance"
    )
    with pytest.raises(dp.InvalidArgument, match="function must be rising; got one that is not"):
        dp.account(run)


@pytest.mark.parametrize("noise_deviation", [1e-20, 1e-6, 1e6, 1e20])
def test_absurd_noise_is_answered_safely_or_refused(noise_deviation: float) -> None:
    run = dp.RandomlyInitializedGD.least_squares(
        slope=1.0, clip=1.0, claim="instance", noise_deviation=noise_deviation
    )
    try:
        found = dp.account(run).delta(epsilon=0.0).upper
    except dp.NotCertified:
        assert noise_deviation < 1e-10
        return
    alone = min(
        1.0 / noise_deviation / np.sqrt(2.0 * np.pi), 1.0
    )  # not below that of the noise alone
    assert found >= 0.3 * alone
    if noise_deviation > 1.0:
        assert found <= alone


def test_the_exponential_of_a_normal_start_against_quadrature() -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    known = answer(MonotoneSensitivity(function=np.exp, shape="rising"))
    for epsilon in (0.1, 1.0, 20.0):

        def at(start: float, epsilon: float = epsilon) -> float:
            mu = np.exp(start)  # delta of a Gaussian pair at distance mu
            away = np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
            return float(norm.pdf(start) * (norm.cdf(mu / 2 - epsilon / mu) - away))

        truth = quad(at, -12.0, 12.0, points=[0.0, 1.0, 2.0, 3.0], limit=500, epsabs=1e-14)[0]
        delta = known.delta(epsilon=epsilon)
        assert delta.lower <= truth <= delta.upper
        assert delta.relative_width < 1e-3
    assert known.delta(epsilon=1e9).upper >= 1.0 - ndtr(np.log(np.sqrt(2e9)) + 0.1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: SensitivityDistribution(cdf=lambda x: 0.5 + 0.0 * x, interval=(0.0, 1.0)),
            "cdf must be 1",
        ),
        (lambda: SensitivityDistribution(cdf=3, interval=(0.0, 1.0)), "cdf must be a function"),
        (
            lambda: SensitivityDistribution(cdf=lambda x: "x", interval=(0.0, 1.0)),
            "cdf must return one",
        ),
        (
            lambda: SensitivityDistribution(cdf=lambda x: [[1], [1, 2]], interval=(0.0, 1.0)),
            "cdf must return",
        ),
        (
            lambda: SensitivityDistribution(cdf=lambda x: x * 1j, interval=(0.0, 1.0)),
            "cdf must return one",
        ),
        (lambda: SensitivityDistribution(atoms=np.array(3.0)), "atoms must map"),
        (lambda: SensitivityDistribution(atoms={10**400: 1.0}), "must be a finite number"),
        (
            lambda: MonotoneSensitivity(
                function=np.ones_like, shape="rising", cdf=lambda x: 0.5 + 0 * x, start_range=(0, 1)
            ),
            "cdf must rise over the start_range",
        ),
        (lambda: MonotoneSensitivity(function=np.ones_like, shape=np.zeros(2)), "shape must be"),
        (
            lambda: MonotoneSensitivity(function=float, shape="rising"),
            "function must be a function",
        ),
        (
            lambda: MonotoneSensitivity(function=np.ones_like, shape="rising", largest=np.zeros(2)),
            "largest must be",
        ),
        (lambda: EnclosedSensitivity(enclosure=tuple), "enclosure must be a function"),
        (lambda: LeastSquares(slope=1.0, clip=np.zeros(2)), "clip must be"),
        (lambda: LeastSquares(slope=1.0, clip=10**400), "clip must be"),
        (lambda: dp.RandomlyInitializedGD.logistic(margin=1.0, claim=np.zeros(2)), "claim must be"),
    ],
)
def test_functions_and_words_that_are_none(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(dp.InvalidArgument, match=words):
        make()
