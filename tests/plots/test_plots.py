"""Bands enclose the exact curves between the points they are computed from, and get drawn."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from numpy.typing import NDArray

import sharpdp as dp
from sharpdp import plots
from sharpdp.curves.tradeoff.bands import Samples, profile_band, sampled, tradeoff_band
from sharpdp.curves.tradeoff.exact import down, ratio_down, ratio_up, up
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.errors import WrongType
from sharpdp.plots import bounds as contest
from sharpdp.plots.style import COLORS, FIGURE_SIZE, line_color, styled_axes

mpl.use("Agg")

NORMAL = NormalDist()
FPR = np.linspace(0.0, 1.0, 1001)
POISSON = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    yield
    plt.close("all")


def gaussian_delta(mu: float, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
    """delta of N(mu, 1) against N(0, 1): Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu)."""
    return np.array(
        [
            NORMAL.cdf(mu / 2 - e / mu) - np.exp(e) * NORMAL.cdf(-mu / 2 - e / mu)
            for e in epsilon.tolist()
        ]
    )


def gaussian_fnr(mu: float, fpr: NDArray[np.float64]) -> NDArray[np.float64]:
    inner = [NORMAL.cdf(-NORMAL.inv_cdf(a) - mu) for a in fpr[1:-1].tolist()]
    return np.array([1.0, *inner, 0.0])


def around(epsilon: NDArray[np.float64], delta: NDArray[np.float64], width: float) -> Samples:
    return Samples(epsilon, delta * (1 - width), delta * (1 + width))


@pytest.mark.parametrize(
    ("mu", "nodes", "width"),
    list(itertools.product((0.1, 1.0, 3.0), (2, 3, 30), (0.0, 1e-3))),
)
def test_bands_enclose_the_gaussian_curves(mu: float, nodes: int, width: float) -> None:
    epsilon = np.linspace(0.0, 5.0 * mu, nodes)
    samples = around(epsilon, gaussian_delta(mu, epsilon), width)
    lower, upper = tradeoff_band(samples, FPR)
    exact = gaussian_fnr(mu, FPR)
    assert np.all(lower <= exact + 1e-12)
    assert np.all(exact <= upper + 1e-12)
    if nodes == 30:
        assert np.max(upper - lower) < 0.02 + 2 * width

    between = np.linspace(0.0, 5.0 * mu, 500)
    lower, upper = profile_band(samples, between)
    exact = gaussian_delta(mu, between)
    assert np.all(lower <= exact + 1e-15)
    assert np.all(exact <= upper + 1e-15)


def test_the_band_of_randomized_response_is_its_polygon() -> None:
    """Nodes on the atoms: f = max(1 - e a, (1 - a)/e), and H is linear in x up to e."""
    epsilon = np.array([0.0, 1.0])
    delta = np.array([np.tanh(0.5), 0.0])
    lower, upper = tradeoff_band(Samples(epsilon, delta, delta), FPR)
    exact = np.maximum(np.maximum(1 - np.e * FPR, (1 - FPR) / np.e), 0.0)
    assert np.allclose(lower, exact, atol=1e-12)
    assert np.allclose(upper, exact, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_bands_of_fractions_are_rounded_outwards(seed: int) -> None:
    """A curve known in fractions lies within both bands without any tolerance."""
    masses = np.random.default_rng(seed).integers(1, 50, size=7).tolist()
    pmf = [Fraction(mass, sum(masses)) for mass in masses]
    curve = Polyline.from_pmfs(pmf, pmf[::-1])  # the same in both directions
    epsilon = np.linspace(0.0, 4.0, 9)
    low = [curve.hockey_stick(ratio_up(threshold)) for threshold in epsilon.tolist()]
    high = [curve.hockey_stick(ratio_down(threshold)) for threshold in epsilon.tolist()]
    samples = Samples(
        epsilon,
        np.array([down(Fraction(value)) for value in low]),
        np.array([up(Fraction(value)) for value in high]),
    )
    rates = FPR[::7]
    for rate, lower, upper in zip(rates.tolist(), *tradeoff_band(samples, rates), strict=True):
        assert Fraction(lower) <= curve.at(rate) <= Fraction(upper)
    between = np.linspace(0.0, 5.0, 83)
    for threshold, lower, upper in zip(
        between.tolist(), *profile_band(samples, between), strict=True
    ):
        assert Fraction(lower) <= curve.hockey_stick(ratio_down(threshold))
        assert curve.hockey_stick(ratio_up(threshold)) <= Fraction(upper)


def test_the_band_holds_in_both_directions() -> None:
    """An asymmetric pair, with every test enumerated: no attack falls below the lower edge."""
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.2, 0.3, 0.4])
    answer = dp.account(dp.FinitePair(p=p, q=q))
    samples = sampled(answer)
    for one, other in ((p, q), (q, p)):
        for chosen in itertools.product((0.0, 1.0), repeat=4):
            fpr, fnr = float(other @ chosen), float(one @ (1 - np.array(chosen)))
            lower, _ = tradeoff_band(samples, np.array([fpr]))
            assert lower[0] <= fnr + 1e-12


def test_the_band_agrees_with_the_answer() -> None:
    """Reference case (g) of the issue: the trade-off curve at three rates."""
    answer = dp.account(POISSON)
    rates = np.array([10 / 999, 100 / 999, 500 / 999])
    lower, upper = tradeoff_band(sampled(answer), rates)
    exact = np.array([0.970836, 0.805644, 0.340958])
    assert np.all(lower <= exact + 5e-7)
    assert np.all(exact <= upper + 5e-7)
    assert np.all(upper - lower < 1e-3)


@pytest.mark.parametrize("draw", [plots.tradeoff, plots.profile])
@pytest.mark.parametrize(
    "mechanism",
    [
        POISSON,
        dp.Laplace(scale=1.0),
        dp.ApproximateDP(epsilon=1.0, delta=1e-6) * 3,  # delta levels out
        dp.PureDP(epsilon=0.0),  # perfect privacy
        dp.Gaussian(noise_multiplier=0.01) * 100,  # none at all
    ],
    ids=lambda mechanism: mechanism.label,
)
def test_pictures_are_drawn(draw: object, mechanism: dp.Mechanism) -> None:
    assert callable(draw)
    axes = draw(dp.account(mechanism))
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert f"{mechanism.label}: bracket, certified" in words
    axes.figure.draw_without_rendering()


@pytest.mark.parametrize("name", ["curve.svg", "curve.png"])
def test_pictures_are_saved(name: str, tmp_path: Path) -> None:
    dp.account(POISSON).tradeoff().plot().figure.savefig(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 5_000


def test_given_axes_are_used() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    assert answer.tradeoff().plot(axes) is axes
    assert plots.profile(answer, axes) is axes


def test_a_missing_lower_side_leaves_the_band_open() -> None:
    answer = dataclasses.replace(
        dp.account(dp.Gaussian(noise_multiplier=1.0)), lower_derivations=()
    )
    lower, upper = tradeoff_band(sampled(answer), FPR)
    assert np.allclose(upper, 1 - FPR)
    assert np.all(lower <= gaussian_fnr(1.0, FPR) + 1e-12)
    axes = plots.tradeoff(answer)
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "Gaussian noise: bound, no lower side is known, certified" in words


def test_without_matplotlib_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(dp.MissingExtra, match="pip install matplotlib"):
        plots.tradeoff(dp.account(dp.Gaussian(noise_multiplier=1.0)))


SHUFFLE = dp.ShuffledReports(users=1000, local_epsilon=0.4)


@pytest.mark.parametrize(
    ("over", "last"), [("local_epsilon", 8.0), ("users", 1e8), ("rounds", 1e3)]
)
def test_all_bounds_are_drawn_against_one_number(
    over: str, last: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Styles say what a curve is, and each curve has the values of the table at its places."""
    monkeypatch.setattr(contest, "POINTS", 2)
    monkeypatch.setitem(contest.RANGES, over, (contest.RANGES[over][0], min(last, 1e4)))
    axes = plots.comparison(SHUFFLE, over=over, delta=1e-6)
    assert axes.get_xlabel() == over
    assert axes.get_ylabel() == "epsilon at delta = 1e-06"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    lines = {line.get_label(): line for line in axes.get_lines()}
    styles = {
        "Unshuffled: upper bound, Dwork 2014": "-",
        "Ternary response: lower bound, our proof": "--",
        "Gaussian limit: estimate, Chen 2024": ":",
    }
    for label, style in styles.items():
        assert lines[label].get_linestyle() == style
    places = np.asarray(lines["Unshuffled: upper bound, Dwork 2014"].get_xdata(), dtype=float)
    alone = {
        "local_epsilon": places,
        "users": np.full(places.shape, 0.4),
        "rounds": 0.4 * places,
    }
    drawn = np.asarray(lines["Unshuffled: upper bound, Dwork 2014"].get_ydata(), dtype=float)
    assert np.allclose(drawn, alone[over])
    axes.figure.draw_without_rendering()


def test_a_curve_ends_where_its_bound_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "POINTS", 3)
    monkeypatch.setitem(contest.RANGES, "local_epsilon", (0.1, 1.0))
    axes = plots.comparison(SHUFFLE, delta=1e-6)
    lines = {line.get_label(): line for line in axes.get_lines()}
    swap = np.asarray(lines["Swap: upper bound, Erlingsson 2019"].get_ydata(), dtype=float)
    exact = 12 * np.array([0.1, 0.1**0.5, np.nan]) * np.sqrt(6 * np.log(10) / 1000)
    assert np.allclose(swap, exact, equal_nan=True)


def test_other_mechanisms_can_be_compared_over_what_they_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(contest, "POINTS", 3)
    coin = dp.RandomizedResponse(local_epsilon=1.0)
    plots.save_comparison(coin, tmp_path / "coin.png", delta=1e-6)
    assert (tmp_path / "coin.png").stat().st_size > 5_000
    with pytest.raises(dp.InvalidArgument, match="over must be local_epsilon for randomized resp"):
        plots.comparison(coin, over="users")
    with pytest.raises(dp.InvalidArgument, match="Nothing of Gaussian noise can be varied"):
        plots.comparison(dp.Gaussian(1.0))
    known = dp.ShuffledReports(users=9, randomizer=coin)
    with pytest.raises(dp.InvalidArgument, match="over must be users, rounds for shuffled"):
        plots.comparison(known, over="local_epsilon")


def test_no_two_lines_of_a_comparison_have_one_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "POINTS", 2)
    axes = plots.comparison(SHUFFLE, delta=1e-6)
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    assert len(lines) > 8
    assert len({line.get_color() for line in lines}) == len(lines)
    axes.figure.draw_without_rendering()


def test_there_are_no_more_lines_than_colors() -> None:
    assert len({line_color(index) for index in range(len(COLORS))}) == len(COLORS)
    with pytest.raises(dp.InvalidArgument, match="at most 18 lines"):
        line_color(len(COLORS))


def _sweep() -> dp.sweeps.Sweep:
    return dp.sweep(
        lambda rounds, noise: dp.Gaussian(noise_multiplier=noise) * rounds,
        rounds=[1, 4],
        noise=[1.0, 2.0, 4.0],
    )


GAUSSIAN = dp.account(dp.Gaussian(noise_multiplier=1.0))
DRAWN: dict[str, Callable[[], Callable[..., Any]]] = {
    "Guarantee": lambda: GAUSSIAN.plot,
    "profile": lambda: functools.partial(GAUSSIAN.plot, kind="profile"),
    "TradeoffCurve": lambda: GAUSSIAN.tradeoff().plot,
    "RenyiCurve": lambda: GAUSSIAN.renyi_curve().plot,
    "Risk": lambda: GAUSSIAN.risk().plot,
    "Comparison": lambda: dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=1e-5).plot,
    "SamplerComparison": lambda: (
        dp.compare_samplers(
            noise_multiplier=1.0, dataset_size=100, batch_size=10, epochs=1, delta=1e-5
        ).plot
    ),
    "Sweep": lambda: functools.partial(_sweep().plot, delta=1e-5),
    "CollectionDesign": lambda: (
        dp.design_collection(
            users=1000, rounds=1, categories=3, delta=1e-6, local_epsilon=[1.0, 2.0]
        ).plot
    ),
}
"""Each computed by its tests alone, not by every process that imports this module."""


@functools.cache
def drawing(name: str) -> Callable[..., Any]:
    """What draws an answer, which is computed once."""
    return DRAWN[name]()


@pytest.mark.parametrize("name", DRAWN)
def test_every_answer_is_drawn_with_its_own_title_or_none(name: str, tmp_path: Path) -> None:
    draw = drawing(name)
    given = Figure().add_subplot()
    assert draw(ax=given) is given
    assert given.get_title(loc="left").endswith("?")
    own = draw(ax=Figure().add_subplot(), title="Ours")
    assert own.get_title(loc="left") == "Ours"
    bare = draw(ax=Figure().add_subplot(), title=None)
    assert bare.get_title(loc="left") == ""
    assert not [text for text in bare.texts if text.get_position() == (0.0, 1.015)]
    with pytest.raises(WrongType, match="title must be text or None"):
        draw(ax=Figure().add_subplot(), title=3)
    with plots.paper():
        axes = draw()
        assert axes.figure.get_size_inches()[0] == pytest.approx(3.3)
        assert axes.get_title(loc="left") == ""
        axes.figure.savefig(tmp_path / "paper.pdf")
    pdf = (tmp_path / "paper.pdf").read_bytes()
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/Type3" not in pdf


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_is_cut_off_and_nothing_overlaps_in_a_column_of_a_paper(name: str) -> None:
    with plots.paper():
        axes = drawing(name)()
        figure = axes.figure
        figure.canvas.draw()
        low, high = axes.get_xlim()
        places = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        ticks = [text.get_window_extent() for place, text in places if low <= place <= high]
        texts = [axes.xaxis.label, axes.yaxis.label, axes.get_legend()]
        boxes = ticks + [text.get_window_extent() for text in texts if text is not None]
        for side in figure.axes:  # also the one on the right
            boxes.append(side.yaxis.label.get_window_extent())
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1
    label, legend = axes.xaxis.label.get_window_extent(), axes.get_legend()
    assert legend is None or not legend.get_window_extent().overlaps(label)
    for first, second in itertools.pairwise(sorted(ticks, key=lambda box: box.x0)):
        assert first.x1 <= second.x0
    sizes = [text.get_fontsize() for text in axes.get_yticklabels(which="both")]
    assert max(sizes, default=0.0) <= 7.5


def test_own_figures_are_as_wide_and_have_room_for_long_labels_in_a_paper() -> None:
    with plots.paper():
        figure, axes = plt.subplots()
        dp.compare(dp.ShuffledReports(users=1000, local_epsilon=1.0), delta=1e-6).plot(ax=axes)
        figure.canvas.draw()
    assert figure.get_size_inches()[0] == pytest.approx(3.3)
    assert min(label.get_window_extent().x0 for label in axes.get_yticklabels()) >= 0.0
    plt.close(figure)


def test_the_paper_preset_ends_with_its_block() -> None:
    before = dict(mpl.rcParams)
    with plots.paper(width=5.0):
        assert styled_axes(None).figure.get_size_inches()[0] == 5.0
    assert dict(mpl.rcParams) == before
    assert styled_axes(None).figure.get_size_inches()[0] == FIGURE_SIZE[0]


def test_a_sweep_is_drawn_at_its_numbers() -> None:
    axes = _sweep().plot(delta=1e-5, ax=Figure().add_subplot())
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"rounds 1", "rounds 4"}
    truth = _sweep().epsilon(delta=1e-5).upper
    assert np.allclose(lines["rounds 4"].get_ydata(), truth[1])
    assert np.allclose(lines["rounds 4"].get_xdata(), [1.0, 2.0, 4.0])
