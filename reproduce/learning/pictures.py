"""Pictures of the learning experiments, in the style of sharpdp."""

from __future__ import annotations

from math import isfinite
from operator import itemgetter
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from reproduce.drawing import GREEN
from sharpdp.plots.style import BLUE, GRAY, ORANGE, finish, styled_axes, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "drawn_budgets",
    "drawn_clients",
    "drawn_correlated",
    "drawn_passes",
    "drawn_releases",
    "drawn_samplers",
    "drawn_tuned",
    "drawn_units",
]

SIZE, TALL = (6.6, 4.6), (6.6, 5.4)
BELOW: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.14)}
"""A legend below the label of the horizontal axis, in pictures that are tall."""


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


def _band(
    axes: Axes, epsilons: list[float], runs: list[list[float]], color: str, label: str
) -> None:
    """Mean accuracies over seeds against epsilon, with their spread as a band."""
    middle = [_summary(one) for one in runs]
    heights, widths = ([pair[place] for pair in middle] for place in (0, 1))
    axes.plot(epsilons, heights, color=color, label=label, linewidth=1.4)
    low, high = ([h + sign * w for h, w in zip(heights, widths, strict=True)] for sign in (-1, 1))
    axes.fill_between(epsilons, low, high, color=color, alpha=0.2, linewidth=0.0)


PRINTED = ((3.0, 81.15, 0.7), (3.0, 76.46, 1.9), (5.8, 89.7, 0.5))
"""Epsilon, accuracy and spread in the text of girgis2021."""

MARKED, TICKS = (10, 50, 100, 200), (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Epochs that are marked on its curves, and ticks of the axis of epsilon."""


def drawn_clients(found: dict[str, Any], path: Path) -> None:
    """Accuracy against epsilon with the settings of the paper: its accounting, ours, a larger budget."""

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        small, *larger = found["curves"]
        curves = (
            ("epsilon by Theorem 1, local epsilon 2", small, "theorem", GRAY),
            ("epsilon by sharpdp, local epsilon 2", small, "ours", BLUE),
            *(
                (f"epsilon by sharpdp, local epsilon {one:g}", one, "ours", ORANGE)
                for one in larger
            ),
        )
        for label, local, account, color in curves:
            one = found["curves"][local]
            _band(axes, one[account], one["accuracy"], color, label)
            for epsilon, epoch, runs in zip(
                one[account], one["epochs"], one["accuracy"], strict=True
            ):
                if epoch in MARKED:
                    axes.plot(epsilon, _summary(runs)[0], color=color, marker="o", markersize=4)
        _published(axes)
        _accuracy_by_epsilon(axes)
        words = "dots: epochs 10, 50, 100, 200; bands: standard deviation over seeds"
        finish(axes, "The paper's training: accuracy against epsilon", words, **BELOW)
        return axes

    write(path, TALL, draw)


def drawn_tuned(found: dict[str, Any], path: Path) -> None:
    """Accuracy against epsilon: the paper's settings and its accounting, and both tuned models."""

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        paper = found["paper"]
        for one, account, color in (("theorem", "Theorem 1", GRAY), ("ours", "sharpdp", BLUE)):
            label = f"network, the paper's settings, epsilon by {account}"
            _band(axes, paper[one], paper["accuracy"], color, label)
        for (model, points), color in zip(found["points"].items(), (ORANGE, GREEN), strict=True):
            rising = sorted(points, key=lambda one: one["spent"][1])
            label = f"{model}, tuned, epsilon by sharpdp"
            ends = [one["spent"][1] for one in rising]
            _curve(axes, ends, [one["accuracy"] for one in rising], color, label)
        _published(axes)
        _accuracy_by_epsilon(axes)
        axes.set(ylim=(60.0, 100.0))
        words = "standard deviation over seeds; clip and step chosen on held-out training images"
        finish(axes, "Tuned for each epsilon: accuracy against epsilon", words, **BELOW)
        return axes

    write(path, TALL, draw)


def _published(axes: Axes) -> None:
    """The accuracies that are printed in the paper."""
    places, heights, widths = zip(*PRINTED, strict=True)
    style: dict[str, Any] = {"marker": "D", "markersize": 4, "linestyle": "none"}
    axes.errorbar(
        places,
        heights,
        yerr=widths,
        color="black",
        label="published, epsilon by the paper",
        **style,
    )
    for place, height, _ in PRINTED:
        axes.annotate(
            f"{height:g}", (place, height), (7, -3), textcoords="offset points", fontsize=8
        )


def _accuracy_by_epsilon(axes: Axes) -> None:
    """The labels of both axes."""
    axes.set(xscale="log", xlabel="epsilon (upper side) at delta = 1e-5", ylabel="test accuracy, %")
    axes.set_xticks(TICKS, [f"{one:g}" for one in TICKS])
    axes.minorticks_off()


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
        axes.set_xlabel("epsilon at delta = 1e-5")
        axes.bar(0.0, 0.0, color=BLUE, label="lower side")
        axes.bar(0.0, 0.0, color=BLUE, alpha=0.25, label="upper side")
        words = "DP-SGD, noise multiplier 0.8; beside each bar the test accuracy"
        finish(axes, "The same training, four ways to draw batches", words, loc="lower right")
        return axes

    write(path, SIZE, draw)


def drawn_budgets(found: dict[str, Any], path: Path) -> None:
    """Accuracy against epsilon, a curve for each way to draw batches."""
    _drawn_at_equal_epsilon(found, path, "What each way to draw batches learns")


def drawn_correlated(found: dict[str, Any], path: Path) -> None:
    """Accuracy against epsilon, a curve for each kind of batches and noise."""
    _drawn_at_equal_epsilon(found, path, "What correlated noise learns")


def _drawn_at_equal_epsilon(found: dict[str, Any], path: Path, title: str) -> None:
    """Accuracy against epsilon, a curve for each of four runs."""

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        for (label, points), color in zip(found.items(), (GRAY, ORANGE, BLUE, GREEN), strict=True):
            epsilons = [one["epsilon"] for one in points]
            _curve(axes, epsilons, [one["accuracy"] for one in points], color, label)
        axes.set(
            xscale="log",
            xlabel="epsilon (upper side) at delta = 1e-5, noise calibrated for each",
            ylabel="test accuracy, %",
        )
        axes.set_xticks(epsilons, [f"{one:g}" for one in epsilons])
        axes.minorticks_off()
        words = "bars: spread over seeds; the best of several learning rates"
        finish(axes, title, words, loc="lower right")
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


def drawn_units(found: dict[str, Any], path: Path) -> None:
    """Accuracy against the local epsilon, for Algorithm 1 and for the public program."""
    curves = (
        ("Algorithm 1", "record", 100, BLUE, "Algorithm 1 as printed, 100 units"),
        ("public program", "columns of the mean", 1000, ORANGE, "the public program, 1000 units"),
    )

    def draw(ax: Axes) -> Axes:
        axes = styled_axes(ax)
        for program, clip, hidden, color, label in curves:
            runs = [
                one
                for one in found.values()
                if (one["program"], one["clip"], one["hidden"]) == (program, clip, hidden)
            ]
            noisy = sorted((one for one in runs if isfinite(one["local"])), key=itemgetter("local"))
            heights = [one["accuracy"] for one in noisy]
            _curve(axes, [one["local"] for one in noisy], heights, color, label)
            for one in runs:
                if not isfinite(one["local"]):
                    level, _ = _summary(one["accuracy"])
                    axes.axhline(level, color=color, linestyle=":", linewidth=1.0)
        for printed in (98.18, 96.41):
            axes.axhline(printed, color=GRAY, linewidth=0.8)
            axes.annotate(
                f"{printed} printed", (0.01, printed), (0, 2), fontsize=8,
                xycoords=("axes fraction", "data"), textcoords="offset points", color=GRAY,
            )  # fmt: skip
        axes.set(xlabel="local epsilon (50 epochs)", ylabel="train accuracy, %", ylim=(None, 101))
        words = "dotted: the same without noise; no bound holds for the public program"
        finish(axes, "Figure 4 of chen2024", words, loc="lower right")
        return axes

    write(path, SIZE, draw)
