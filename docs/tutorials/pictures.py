"""Pictures of the landing page and the tutorials: python docs/tutorials/pictures.py [NAME ...].

Each function draws one file, named after it; every number in it comes from the calls that its page shows.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import sharpdp as dp
from sharpdp.learn import CLDPSGD, ClientRun, PrivUnitBall, RandomizedAnswers
from sharpdp.plots.sampler_curves import SIZE as SAMPLERS_SIZE
from sharpdp.plots.sampler_curves import samplers
from sharpdp.plots.style import BLUE, GRAY, INK, ORANGE, finish, matplotlib, styled_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).parent
GREEN = "#009E73"
"""A third color that is told apart from blue and orange by color-blind readers."""

BAND = 0.25
SIZE, WIDE = (6.2, 4.4), (7.4, 4.0)
Draw = Callable[[Any], None]


def band(axes: Axes, across: Any, lower: Any, upper: Any, color: str, label: str) -> None:
    """A bracket at each place: filled between its two edges."""
    axes.fill_between(across, lower, upper, color=color, alpha=BAND, linewidth=0.0)
    axes.plot(across, lower, color=color, linewidth=0.8)
    axes.plot(across, upper, color=color, linewidth=1.5, label=label)


def write(name: str, size: tuple[float, float], draw: Draw, ending: str = "svg") -> None:
    """One figure that is the same in every run: an SVG, or a PNG for pages that show no SVG."""
    figure = matplotlib("figure").Figure(size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    draw(figure)
    path = HERE / f"{name}.svg"
    with matplotlib("pyplot").rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        if ending == "png":
            # what it says, so that tests can read it
            words = "; ".join(text.get_text() for axes in figure.axes for text in axes.texts)
            metadata = {"Software": None, "Description": words}
            figure.savefig(path.with_suffix(".png"), dpi=200, metadata=metadata)
            return
        figure.savefig(path, metadata={"Date": None})
    lines = path.read_text("utf-8").split("\n")
    path.write_text(
        "\n".join(line if "<text" in line else shorter(line) for line in lines), "utf-8"
    )


def shorter(line: str) -> str:
    """Coordinates in hundredths of a point: enough, and half the size."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", line)


def training_run() -> dp.Guarantee:
    """The run that two pages look at."""
    plan = dp.PoissonBatches(sample_rate=0.01, steps=1000)
    return dp.account(dp.DPSGD(plan, noise_multiplier=1.0))


def honest_samplers() -> None:
    """Epsilon of every scheme for the run of the page."""
    table = dp.compare_samplers(
        noise_multiplier=1.0, dataset_size=1500, batch_size=50, epochs=20, delta=1e-5
    )
    write("honest-samplers", SAMPLERS_SIZE, lambda figure: samplers(table, figure.add_subplot()))


def landing_samplers() -> None:
    """Epsilon of every scheme for the run of the landing page."""
    table = dp.compare_samplers(
        noise_multiplier=0.8, dataset_size=60_000, batch_size=512, epochs=30, delta=1e-5
    )
    write("landing-samplers", SAMPLERS_SIZE, lambda figure: samplers(table, figure.add_subplot()))


def shuffled_versus_claimed() -> None:
    """What a Poisson accountant claims for one run, and what its batches really cost."""
    sizes = {"dataset_size": 60_000, "batch_size": 512, "epochs": 30}
    rows: tuple[tuple[str, dp.batches.BatchScheme, str], ...] = (
        ("claimed by a Poisson accountant", dp.PoissonBatches(**sizes), GRAY),
        ("DataLoader(shuffle=True): the run itself", dp.ShuffledBatches(**sizes), ORANGE),
        ("the same run over balls-and-bins batches", dp.BallsAndBins(**sizes), BLUE),
    )

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        for place, (name, scheme, color) in enumerate(reversed(rows)):
            found = dp.account(dp.DPSGD(scheme, noise_multiplier=0.8)).epsilon(delta=1e-5)
            axes.barh(place, found.lower, height=0.42, color=color)
            axes.barh(place, found.width, left=found.lower, height=0.42, color=color, alpha=0.3)
            style = {"va": "center", "color": INK}
            axes.text(
                found.upper + 0.6, place, found.shown(), fontsize=11, fontweight="bold", **style
            )
            axes.text(0.0, place + 0.38, name, fontsize=10, **style)
        axes.set(xlim=(0, 60), ylim=(-0.45, 2.62), yticks=[])
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("epsilon at delta = 1e-5: solid up to the lower bound, pale to the upper")
        axes.set_title(
            "Same noise, same epochs", loc="left", fontsize=13, fontweight="bold", pad=22
        )
        words = "DP-SGD, noise multiplier 0.8, 30 epochs over 60,000 examples in batches of 512"
        axes.text(0.0, 1.02, words, fontsize=9, color=GRAY, transform=axes.transAxes)

    write("shuffled-versus-claimed", (7.4, 3.3), draw, ending="png")


def honest_epochs() -> None:
    """Epsilon against epochs for what was claimed, what was run, and what could be."""
    epochs = np.array([1, 2, 3, 4, 6, 8, 11, 14, 17, 20])
    schemes: dict[str, tuple[type, str]] = {
        "shuffled: what was run": (dp.ShuffledBatches, ORANGE),
        "Poisson: what was claimed": (dp.PoissonBatches, BLUE),
        "balls-and-bins": (dp.BallsAndBins, GREEN),
    }

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        for name, (scheme, color) in schemes.items():
            runs = [scheme(dataset_size=1500, batch_size=50, epochs=int(one)) for one in epochs]
            found = [
                dp.account(dp.DPSGD(one, noise_multiplier=1.0)).epsilon(delta=1e-5) for one in runs
            ]
            ends = [[getattr(one, end) for one in found] for end in ("lower", "upper")]
            band(axes, epochs, *ends, color, name)
        axes.set(
            xticks=range(0, 21, 5),
            xlim=(0, 20.5),
            ylim=(0, 30),
            xlabel="epochs",
            ylabel="epsilon at delta = 1e-5",
        )
        words = "DP-SGD, noise multiplier 1, batches of 50 of 1,500 examples"
        finish(axes, "Epsilon vs. epochs", words, loc="upper left")

    write("honest-epochs", SIZE, draw)


def collection_design() -> None:
    """Central against local epsilon for three numbers of users."""
    local = np.linspace(0.5, 7.0, 27)

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        for users, color in ((1000, ORANGE), (5000, BLUE), (50_000, GREEN)):
            plans = [dp.ShuffledReports(users=users, local_epsilon=float(one)) for one in local]
            found = [dp.account(one).epsilon(delta=1e-6) for one in plans]
            ends = [[getattr(one, end) for one in found] for end in ("lower", "upper")]
            band(axes, local, *ends, color, f"{users:,} users".replace(",", " "))
        axes.plot(local, local, color=GRAY, linewidth=1.0, dashes=(1.5, 1.5), label="no shuffler")
        axes.axhline(1.0, color=INK, linewidth=0.8)
        axes.axvline(4.789, ymax=0.667, color=INK, linewidth=0.8, dashes=(4, 3))
        axes.text(4.72, 0.0115, "4.789", ha="right", fontsize=8.5, color=INK)
        axes.set(xlim=(0.5, 7.0), ylim=(0.01, 10.0), yscale="log")
        axes.set(xlabel="local epsilon of one report", ylabel="central epsilon at delta = 1e-6")
        words = "Any shared randomizer; upright: the largest local epsilon for 5000 users"
        finish(axes, "How much may each phone tell?", words, loc="lower right")

    write("collection-design", SIZE, draw)


def collection_estimate() -> None:
    """Estimates with two standard errors, with and without a shuffler."""
    names = ("bus", "bike", "car", "train", "walk", "none")
    truth = np.random.default_rng(0).choice(6, size=5000, p=[0.45, 0.25, 0.15, 0.08, 0.05, 0.02])
    shares = np.bincount(truth, minlength=6) / 5000

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        places = np.arange(6)
        axes.bar(places, shares, width=0.72, color="#dddddd", label="true answers of the 5000")
        shown = (
            (4.8, -0.14, BLUE, "shuffled, local epsilon 4.8"),
            (1.0, 0.14, ORANGE, "no shuffler, local epsilon 1"),
        )
        for local, shift, color, label in shown:
            answers = RandomizedAnswers(local_epsilon=local, categories=6)
            estimates = answers.estimates(answers.reports(truth, rng=1))
            error = 2 * estimates.std(axis=0) / math.sqrt(5000)
            style = {"fmt": "o", "markersize": 4, "capsize": 3, "linewidth": 1.4}
            axes.errorbar(
                places + shift, estimates.mean(axis=0), error, color=color, label=label, **style
            )
        axes.set_xticks(places, names)
        axes.grid(visible=False, axis="x")
        axes.set(ylabel="share of the answers")
        words = "Randomized response with central epsilon about 1; bars are two standard errors"
        finish(axes, "What does the city learn?", words, loc="upper right", reverse=False)

    write("collection-estimate", SIZE, draw)


def federated_rounds() -> None:
    """Epsilon against rounds: the paper's theorem, any randomizer, PrivUnit."""
    rounds = np.unique(np.geomspace(60, 6000, 13).round().astype(int))
    ball = PrivUnitBall(dimension=784, local_epsilon=2.0, radius=0.005)
    sizes = {"users": 2000, "population": 60_000}

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        any_of = [dp.ShuffledReports(**sizes, local_epsilon=2.0, rounds=int(one)) for one in rounds]
        tables = [dp.compare(one, delta=1e-5) for one in any_of]
        paper = [one["sampled_moments_epsilon_upper"].value for one in tables]
        axes.plot(rounds, paper, color=GRAY, linewidth=1.5, dashes=(4, 2), label="girgis2021")
        known = [ball.shuffled(**sizes, rounds=int(one)) for one in rounds]
        for name, color, plans in (
            ("any randomizer", ORANGE, any_of),
            ("PrivUnit", BLUE, known),
        ):
            found = [dp.account(one).epsilon(delta=1e-5) for one in plans]
            ends = [[getattr(one, end) for one in found] for end in ("lower", "upper")]
            band(axes, rounds, *ends, color, f"{name}, certified bracket")
        axes.set(xscale="log", yscale="log", xlim=(60, 6000), ylim=(0.03, 10))
        axes.set(xlabel="rounds", ylabel="epsilon at delta = 1e-5")
        words = "2,000 of 60,000 clients in a round, local epsilon 2"
        finish(axes, "What do the rounds cost?", words, loc="upper left", reverse=False)

    write("federated-rounds", SIZE, draw)


def federated_accuracy() -> None:
    """Accuracy against epsilon in the small run of the page, for four local epsilons."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=20)
    direction /= np.linalg.norm(direction)
    features = rng.normal(size=(20_000, 20))
    labels = np.where(3 * features @ direction + rng.logistic(size=20_000) > 0, 1.0, -1.0)

    def gradients(theta: Any, clients: Any) -> Any:
        margins = labels[clients] * (features[clients] @ theta)
        return -(labels[clients] / (1 + np.exp(margins)))[:, None] * features[clients]

    def right(theta: Any) -> float:
        return float(((features @ theta > 0) == (labels > 0)).mean())

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        best = right(direction)
        axes.axhline(best, color=GRAY, linewidth=1.0, dashes=(1.5, 1.5), label="best direction")
        for local, color in ((0.5, GREEN), (1.0, "#CC79A7"), (2.0, BLUE), (4.0, ORANGE)):
            ball = PrivUnitBall(dimension=20, local_epsilon=local, radius=1.0)
            plan = CLDPSGD(
                randomizer=ball,
                users=1000,
                population=20_000,
                rounds=100,
                learning_rate=lambda step: 2.0 / math.sqrt(step + 1),
            )
            run, spent, found = ClientRun(plan, gradients, np.zeros(20), rng=3), [], []
            for more in (2, 3, 5, 10, 20, 30, 30):
                run.run(rounds=more)
                spent.append(float(run.guarantee.epsilon(delta=1e-5)))
                found.append(right(run.parameters))
            label = f"local epsilon {local:g}"
            axes.plot(spent, found, "o-", color=color, markersize=3.5, linewidth=1.3, label=label)
        axes.set(xscale="log", ylim=(0.45, 0.86))
        axes.set(xlabel="certified epsilon at delta = 1e-5", ylabel="accuracy")
        words = "1,000 of 20,000 clients in a round, PrivUnit, 2 to 100 rounds"
        finish(axes, "What does epsilon buy?", words, loc="lower right", reverse=False)

    write("federated-accuracy", SIZE, draw)


def renyi_lost() -> None:
    """Epsilon at each delta, exactly and through divergences."""
    answer = training_run()
    curve = answer.renyi_curve()
    deltas = np.geomspace(1e-12, 1e-2, 41)

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        for name, color in (("classical", GRAY), ("optimal", ORANGE)):
            found = [curve.epsilon(delta=float(one), conversion=name).upper for one in deltas]
            axes.plot(deltas, found, color=color, linewidth=1.5, label=f"Rényi, {name} conversion")
        exact = answer.epsilon(delta=deltas)
        band(axes, deltas, exact.lower, exact.upper, BLUE, "exact")
        axes.set(xscale="log", xlim=(1e-2, 1e-12), ylim=(0, None))
        axes.set(xlabel="delta", ylabel="epsilon")
        words = "1000 steps of DP-SGD at noise multiplier 1 and sample rate 0.01"
        finish(axes, "What do the divergences lose?", words, loc="lower right", reverse=False)

    write("renyi-lost", SIZE, draw)


def roc_flipped() -> None:
    """A ROC curve and the trade-off curve of one mechanism, with the attack of the page."""
    rng = np.random.default_rng(0)
    without, used = rng.normal(0.0, 2.0, size=20_000), rng.normal(1.0, 2.0, size=20_000)
    dots = np.array([0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
    hits = np.array([(used > np.quantile(without, 1.0 - one)).mean() for one in dots])
    fpr = 0.5 - 0.5 * np.cos(np.linspace(1e-3, math.pi, 61))
    found = dp.account(dp.Gaussian(noise_multiplier=2.0)).tpr(fpr=fpr)

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for axes, upper, attack, chance, title in (
            (left, found.upper, hits, fpr, "ROC: true positives"),
            (right, 1 - np.asarray(found.lower), 1 - hits, 1 - fpr, "trade-off: false negatives"),
        ):
            styled_axes(axes)
            axes.plot(fpr, chance, color=GRAY, linewidth=1.0, dashes=(1.5, 1.5), label="guessing")
            axes.plot(fpr, upper, color=BLUE, linewidth=1.5, label="best attack, certified")
            axes.plot(dots, attack, "o", color=ORANGE, markersize=4, label="simulated attack")
            axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="false-positive rate")
            axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
        left.legend(frameon=False, fontsize=8.5, loc="lower right")

    write("roc-flipped", WIDE, draw)


def roc_same_auc() -> None:
    """Two mechanisms with the same AUC at small false-positive rates."""
    fpr = np.geomspace(1e-5, 1.0, 81)
    leak = dp.account(dp.FinitePair(p=[0.1225, 0.0, 0.8775], q=[0.0, 0.1225, 0.8775]))

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        axes.plot(fpr, fpr, color=GRAY, linewidth=1.0, dashes=(1.5, 1.5), label="guessing")
        axes.plot(
            fpr, training_run().tpr(fpr=fpr).upper, color=BLUE, linewidth=1.5, label="training run"
        )
        label = "gives the record away one time in eight"
        axes.plot(fpr, leak.tpr(fpr=fpr).upper, color=ORANGE, linewidth=1.5, label=label)
        axes.set(xscale="log", yscale="log", xlim=(1e-5, 1), ylim=(1e-5, 1.3))
        axes.set(xlabel="false-positive rate", ylabel="true-positive rate of the best attack")
        words = "Both have AUC 0.61; they differ where an attacker makes few mistakes"
        finish(axes, "The same AUC", words, loc="lower right", reverse=False)

    write("roc-same-auc", SIZE, draw)


def roc_lines() -> None:
    """The ROC curve of the training run below three lines."""
    answer, fpr = training_run(), np.linspace(1e-6, 1.0, 101)

    def draw(figure: Any) -> None:
        axes = styled_axes(figure.add_subplot())
        axes.plot(fpr, fpr, color=GRAY, linewidth=1.0, dashes=(1.5, 1.5), label="guessing")
        for epsilon, color in ((0.0, GREEN), (0.25, "#CC79A7"), (0.5, ORANGE)):
            delta = float(answer.delta(epsilon=epsilon))
            line = np.minimum(math.exp(epsilon) * fpr + delta, 1.0)
            label = f"epsilon {epsilon:g}, delta {delta:.2g}"
            axes.plot(fpr, line, color=color, linewidth=1.1, dashes=(5, 2), label=label)
        axes.plot(fpr, answer.tpr(fpr=fpr).upper, color=BLUE, linewidth=1.8, label="best attack")
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set(xlabel="false-positive rate", ylabel="true-positive rate")
        words = "No attack is above any of the lines, and each line touches the curve"
        finish(axes, "Epsilon and delta are lines", words, loc="lower right", reverse=False)

    write("roc-lines", (5.6, 5.6), draw)


def audit_rates() -> None:
    """Observed error rates of the honest and of the broken run of the page on audits."""
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    from sharpdp import audit

    digits = load_digits()
    inputs = torch.tensor(digits.data / 16, dtype=torch.float32)
    targets = torch.tensor(digits.target)
    size = {"dataset_size": len(inputs) + 1000, "batch_size": 280, "epochs": 10}
    runs = []
    for noise in (1.0, 0.1):
        torch.manual_seed(0)
        plan = dp.DPSGD(dp.PoissonBatches(**size), noise_multiplier=noise)
        settings = {"clip": 1.0, "learning_rate": 2.0, "key": b"a key for this page"}
        runs.append(
            audit.canaries(
                plan,
                nn.Linear(64, 10),
                nn.CrossEntropyLoss(),
                inputs,
                targets,
                progress=False,
                **settings,
            )
        )
    certificate = runs[0].audit.guarantee

    def draw(figure: Any) -> None:
        for place, (one, words) in enumerate(
            zip(runs, ("Honest: noise multiplier 1", "Broken: a tenth of the noise"), strict=True)
        ):
            result = audit.one_run(scores=one.scores, included=one.included, guarantee=certificate)
            axes = result.plot(figure.add_subplot(1, 2, place + 1))
            axes.set_title(words, loc="left", fontsize=11, fontweight="bold", pad=20)
            axes.texts[0].set_text(f"{result.found}; p-value {result.p_value:.2g}")

    write("audit-rates", (9.0, 5.4), draw)


PICTURES = (
    audit_rates,
    landing_samplers,
    shuffled_versus_claimed,
    honest_samplers,
    honest_epochs,
    collection_design,
    collection_estimate,
    federated_rounds,
    federated_accuracy,
    renyi_lost,
    roc_flipped,
    roc_same_auc,
    roc_lines,
)


def main() -> None:
    """Draw those that were named, or all."""
    wanted = {name.replace("-", "_") for name in sys.argv[1:]}
    for picture in PICTURES:
        if not wanted or picture.__name__ in wanted:
            picture()


if __name__ == "__main__":
    main()
