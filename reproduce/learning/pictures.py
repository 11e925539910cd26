"""Pictures of the learning experiments, in the style of sharpdp."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from sharpdp.plots.style import BLUE, GRAY, ORANGE, finish, styled_axes, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["drawn_clients", "drawn_passes", "drawn_releases", "drawn_samplers"]

SIZE = (6.6, 4.6)


def _summary(runs: list[float]) -> tuple[float, float]:
    """Mean and spread in percent."""
    return 100.0 * mean(runs), 100.0 * stdev(runs) if len(runs) > 1 else 0.0


def _curve(
    axes: Axes, epsilons: list[float], runs: list[list[float]], color: str, label: str
) -> None:
    """Mean accuracies over seeds against epsilon, with their spread as bars."""
    middle = [_summary(one) for one in runs]
    heights, widths = ([pair[place] for pair in middle] for place in (0, 1))
    style: dict[str, Any] = {"marker": "o", "markersize": 3.5, "linewidth": 1.3}
    axes.errorbar(epsilons, heights, yerr=widths, color=color, label=label, **style)


def drawn_clients(found: dict[str, Any], path: Path) -> None:
    """Accuracy against epsilon: the paper's accounting, ours, and ours with the larger budget."""

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        small, large = found["accuracy"]
        curves = (
            ("Theorem 1 of the paper", found["paper"], found["accuracy"][small], GRAY),
            ("sharpdp, the same run", found["epsilon"][small], found["accuracy"][small], BLUE),
            (
                f"sharpdp, local epsilon {large:g}",
                found["epsilon"][large],
                found["accuracy"][large],
                ORANGE,
            ),
        )
        for label, epsilons, runs, color in curves:
            each = [[run[epoch] for run in runs] for epoch in range(len(epsilons))]
            _curve(axes, epsilons, each, color, label)
        axes.set(
            xscale="log", xlabel="epsilon (upper side) at delta = 1e-5", ylabel="test accuracy, %"
        )
        words = "each curve from the first epoch to the last; bars: spread over seeds"
        finish(axes, "What sharper accounting buys", words, loc="upper left")
        return axes

    write(path, SIZE, draw)


def drawn_releases(found: dict[str, Any], path: Path) -> None:
    """Accuracy for each kind of batches: every step released, and the last model only."""

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        for offset, (how, label, color) in enumerate(
            (("every", "every step released", GRAY), ("last", "last model only", BLUE))
        ):
            places = [place + 0.36 * (offset - 0.5) for place in range(len(found))]
            heights, widths = zip(*(_summary(one[how]) for one in found.values()), strict=True)
            axes.bar(places, heights, yerr=widths, width=0.32, color=color, label=label)
        axes.set_xticks(range(len(found)), list(found))
        axes.set(ylabel="test accuracy, %", ylim=(0.0, 100.0))
        words = "the same training at equal epsilon; bars: spread over seeds"
        finish(axes, "What hiding the steps buys", words, loc="upper right")
        return axes

    write(path, SIZE, draw)


def drawn_samplers(found: dict[str, Any], path: Path) -> None:
    """Epsilon brackets of the schemes, with the accuracy beside each."""

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        names = list(found)[::-1]
        for place, name in enumerate(names):
            one = found[name]
            axes.barh(place, one["upper"], color=BLUE, alpha=0.25, height=0.6)
            axes.barh(place, one["lower"], color=BLUE, height=0.6)
            middle, width = _summary(one["accuracy"])
            axes.text(
                one["upper"],
                place,
                f"  {middle:.1f} ± {width:.1f} % right",
                va="center",
                fontsize=8,
            )
        axes.set_yticks(range(len(names)), names)
        axes.set_xlim(0.0, 1.35 * max(one["upper"] for one in found.values()))
        axes.set_xlabel("epsilon at delta = 1e-5: dark up to the lower side, light up to the upper")
        axes.bar(0.0, 0.0, color=BLUE, label="lower side")
        axes.bar(0.0, 0.0, color=BLUE, alpha=0.25, label="upper side")
        words = "DP-SGD, noise multiplier 0.8; beside each bar the test accuracy"
        finish(axes, "The same training, four ways to draw batches", words, loc="lower right")
        return axes

    write(path, SIZE, draw)


def drawn_passes(found: dict[str, Any], path: Path) -> None:
    """Accuracy against the certified epsilon of one record, for both kinds of noise."""

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        for way, color in (("noise for blocks", BLUE), ("published noise", ORANGE)):
            points = [one for name, one in found.items() if name.startswith(way)]
            epsilons = [one["record"] for one in points]
            _curve(axes, epsilons, [one["accuracy"] for one in points], color, way)
        label = "certified epsilon of one record at delta = 1e-5"
        axes.set(xscale="log", xlabel=label, ylabel="test accuracy, %")
        finish(axes, "Passes over shuffled blocks", "50 epochs, 100 blocks, linear classifier")
        return axes

    write(path, SIZE, draw)
