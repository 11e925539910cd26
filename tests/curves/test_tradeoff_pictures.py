"""Pictures of several curves: bands between the polylines, drawn to axes or files; wrong input."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import sharpdp as dp
from sharpdp import plots
from sharpdp.plots.curves import edges

mpl.use("Agg")

CURVES = [
    dp.TradeoffCurve.from_pmfs(null=[0.5, 0.5, 0.0], alternative=[0.2, 0.3, 0.5]),
    dp.TradeoffCurve.gaussian(mu=1.0),
]


def test_a_band_goes_through_all_knots_and_down_the_jump() -> None:
    rates, lower, upper = edges(CURVES[0])
    assert rates.tolist() == [0.0, 0.0, 0.5, 1.0]
    assert lower.tolist() == upper.tolist() == [1.0, 0.5, 0.2, 0.0]
    rates, lower, upper = edges(CURVES[1])
    assert np.all(lower <= upper)
    assert np.max(upper - lower) <= 1e-3


def test_several_curves_in_one_picture(tmp_path: Path) -> None:
    axes = Figure().add_subplot()
    assert plots.tradeoffs(CURVES, axes, labels=["jump", "Gaussian"]) is axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["jump", "Gaussian"]
    alone = CURVES[1].plot(Figure().add_subplot()).get_legend().get_texts()[0].get_text()
    assert alone == 'trade-off curve "1-GDP"'
    for name in ("curves.svg", "curves.png"):
        plots.save_tradeoffs(CURVES, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000


@pytest.mark.parametrize(
    ("curves", "labels", "words"),
    [
        (CURVES[0], None, "curves must be a list"),
        ([], None, "at least one entry"),
        ([1], None, r"curves\[0\] must be a TradeoffCurve"),
        (CURVES, ["one"], "labels must have one entry for each curve; got 1 for 2"),
    ],
)
def test_wrong_input(curves: object, labels: object, words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        plots.tradeoffs(curves, labels=labels)  # type: ignore[arg-type]
