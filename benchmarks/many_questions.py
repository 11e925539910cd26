"""Many questions about one run, beside the accountants that answer them: one table, one picture.

    make bench-many                                    or, without make:
    python benchmarks/many_questions.py                everything (about twenty minutes)
    python benchmarks/many_questions.py deltas grid    some of the rows
    python benchmarks/many_questions.py --only sharpdp without the peers
    python benchmarks/many_questions.py --peers out/many_questions.json
                                                       with the peers' times of an earlier run

The first rows are the reference cases (a) to (i) of peers.py. Then one call is asked for a thousand
epsilons, deltas or points of a trade-off curve, for 200 runs, and so on. Each answer is measured as
measuring.py says; memory is the peak of its process. An accountant without a call for arrays composes
once and loops; one that composes anew for every question is asked some of them, and its time is scaled
up (marked ~).

A peer is *valid* if none of its answers is on the wrong side of our certified bracket, and *close* if all
are within 1% of the truth: false-negative rates within 0.01, all others relative to the answer. A second
ratio is against the fastest close peer, valid or not. Our own answers are held against the golden values
of tests/golden/issue.json, which other code computed, and against the closed form of Renyi
divergences at whole orders.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import peers
from measuring import ROOT, in_process, require_peers, worker
from peers import CLOSE, OURS, Question

MOST_MEMORY = 300.0  # megabytes
KEPT = 1000  # answers of a call that the parent process sees
RATE, NOISE, STEPS = 0.01, 1.0, 1000
GRID_DELTA = 1e-5

Measured = dict[str, Any]
Answers = tuple[Any, Any]  # (lower ends, upper ends); None where a side is not offered
Method = Callable[[float, float], Answers]
"""Of the relative change of the noise and the setting of the accountant."""


def lists(lower: Any, upper: Any) -> Answers:
    """Both sides as lists of at most KEPT numbers."""
    import numpy as np

    def thinned(side: Any) -> Any:
        if side is None:
            return None
        values = np.asarray(side, dtype=float).ravel()
        return values[:: max(1, values.size // KEPT)].tolist()

    return thinned(lower), thinned(upper)


# --- what is asked ------------------------------------------------------------------------------


def deltas() -> Any:
    """From 1e-12 on, a hundred for each power of ten; 1e-12 and 1e-5 are golden."""
    import numpy as np

    return 10.0 ** (np.arange(-1200, -200) / 100.0)


def epsilons(count: int) -> Any:
    """From 0, which is golden, up to where delta is about 1e-12."""
    import numpy as np

    return np.linspace(0.0, 3.9, count)


def rates() -> Any:
    """False-positive rates; those of numbers 10, 100 and 500 are golden."""
    import numpy as np

    return np.linspace(0.0, 1.0, 1000)


def small_rates() -> Any:
    """False-positive rates from 1e-6 to 0.1."""
    import numpy as np

    return np.geomspace(1e-6, 0.1, 1000)


def orders() -> Any:
    """A hundred orders, 2 to 64 among them."""
    import numpy as np

    return np.concatenate([np.linspace(1.1, 1.99, 37), np.arange(2, 65)])


def grid() -> list[tuple[float, float, int]]:
    """Two hundred runs (noise, rate, steps)."""
    noises = [0.6, 0.8, 1.0, 1.5, 2.0]
    sample_rates = [1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05]
    return list(product(noises, sample_rates, [300, 1000, 3000, 10_000, 30_000]))


# --- sharpdp ------------------------------------------------------------------------------------


def run(noise: float, rate: float = RATE, steps: int = STEPS) -> Any:
    import sharpdp as dp

    return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=noise)


def guarantee(amount: float) -> Any:
    import sharpdp as dp

    return dp.account(run(NOISE * (1 + amount)))


def our_epsilons(amount: float, _: float) -> Answers:
    asked = guarantee(amount).epsilon(delta=deltas())
    return lists(asked.lower, asked.upper)


def our_deltas(count: int) -> Method:
    def answers(amount: float, _: float) -> Answers:
        asked = guarantee(amount).delta(epsilon=epsilons(count))
        return lists(asked.lower, asked.upper)

    return answers


def our_curve(amount: float, _: float) -> Answers:
    curve = guarantee(amount).tradeoff()
    return lists(curve.lower(rates()), curve.upper(rates()))


def our_tprs(amount: float, _: float) -> Answers:
    asked = guarantee(amount).tpr(fpr=small_rates())
    return lists(asked.lower, asked.upper)


def our_renyi(amount: float, _: float) -> Answers:
    asked = guarantee(amount).renyi(order=orders())
    return lists(asked.lower, asked.upper)


def our_grid(amount: float, _: float) -> Answers:
    import sharpdp as dp

    runs = [run(noise * (1 + amount), rate, steps) for noise, rate, steps in grid()]
    asked = dp.sweep(runs).epsilon(delta=GRID_DELTA)
    return lists(asked.lower, asked.upper)


def our_report(amount: float, _: float) -> Answers:
    text = guarantee(amount).report(format="html")
    return None, [float(len(text))]


def our_advantage_noise(amount: float, _: float) -> Answers:
    import sharpdp as dp

    found = dp.calibrate(lambda s: run(s), advantage=0.1 * (1 + amount))
    return None, [float(found)]


def our_tpr_noise(amount: float, _: float) -> Answers:
    import sharpdp as dp

    found = dp.calibrate(lambda s: run(s), tpr=0.2 * (1 + amount), fpr=0.1)
    return None, [float(found)]


# --- dp-accounting and riskcal, whose curves are those of dp-accounting -----------------------------


def question(amount: float, at: float = 1e-5) -> Question:
    return Question("b", [(RATE, NOISE * (1 + amount), STEPS)], "epsilon", at)


def pld_epsilons(amount: float, interval: float) -> Answers:
    law = peers.pld(question(amount), interval)
    return lists(None, [law.get_epsilon_for_delta(float(delta)) for delta in deltas()])


def pld_deltas(count: int) -> Method:
    def answers(amount: float, interval: float) -> Answers:
        law = peers.pld(question(amount), interval)
        return lists(None, law.get_delta_for_epsilon(epsilons(count)))

    return answers


def pld_grid(amount: float, interval: float) -> Answers:
    asked = [
        Question("b", [(rate, noise * (1 + amount), steps)], "epsilon", GRID_DELTA)
        for noise, rate, steps in grid()
    ]
    return lists(None, [peers.dp_accounting_pld(one, interval)[1] for one in asked])


def rdp_orders(amount: float, _: float) -> Answers:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders())
    event = dp_accounting.GaussianDpEvent(NOISE * (1 + amount))
    accountant.compose(dp_accounting.PoissonSampledDpEvent(RATE, event), STEPS)
    return lists(None, accountant._rdp)


def riskcal_curve(amount: float, interval: float) -> Answers:
    accountant = peers.riskcal_accountant(question(amount))
    return lists(accountant.get_beta(alpha=rates(), grid_step=interval), None)


def riskcal_tprs(amount: float, interval: float) -> Answers:
    accountant = peers.riskcal_accountant(question(amount))
    return lists(None, 1.0 - accountant.get_beta(alpha=small_rates(), grid_step=interval))


def riskcal_advantage_noise(amount: float, interval: float) -> Answers:
    from riskcal.calibration.dpsgd import find_noise_multiplier_for_advantage

    target = 0.1 * (1 + amount)
    found = find_noise_multiplier_for_advantage(
        target, RATE, STEPS, interval, noise_min=0.5, noise_max=5.0
    )
    return None, [float(found)]


def riskcal_tpr_noise(amount: float, interval: float) -> Answers:
    from riskcal.calibration.dpsgd import find_noise_multiplier_for_err_rates

    target = 1.0 - 0.2 * (1 + amount)
    found = find_noise_multiplier_for_err_rates(
        0.1, target, RATE, STEPS, interval, noise_min=0.5, noise_max=5.0
    )
    return None, [float(found)]


# --- prv-accountant and Opacus --------------------------------------------------------------------


def prv_law(amount: float, error: float, delta_error: float) -> Any:
    """One composition, which all questions share."""
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    one = PoissonSubsampledGaussianMechanism(
        sampling_probability=RATE, noise_multiplier=NOISE * (1 + amount)
    )
    accountant = PRVAccountant(
        prvs=[one], max_self_compositions=[STEPS], eps_error=error, delta_error=delta_error
    )
    return accountant.compute_composition([STEPS])


def prv_epsilons(amount: float, error: float) -> Answers:
    slack = deltas()[0] / 1000
    law = prv_law(amount, error, slack)
    ends = [law.compute_epsilon(float(delta), slack, error) for delta in deltas()]
    return lists([low for low, _, _ in ends], [high for _, _, high in ends])


def prv_deltas(count: int) -> Method:
    def answers(amount: float, error: float) -> Answers:
        slack = 1e-15
        law = prv_law(amount, error, slack)
        asked = [float(epsilon) for epsilon in epsilons(count)]
        low = [law.compute_delta_estimate(one + error) - slack for one in asked]
        high = [law.compute_delta_estimate(one - error) + slack for one in asked]
        return lists(low, high)

    return answers


def opacus_epsilons(share: int) -> Method:
    """Every so many questions; the accountant composes anew for each."""

    def answers(amount: float, error: float) -> Answers:
        few = deltas()[::share]
        return lists(None, [peers.opacus_prv(question(amount, float(d)), error)[1] for d in few])

    return answers


def opacus_orders(amount: float, _: float) -> Answers:
    from opacus.accountants.analysis.rdp import compute_rdp

    noise = NOISE * (1 + amount)
    found = compute_rdp(q=RATE, noise_multiplier=noise, steps=STEPS, orders=orders())
    return lists(None, found)


# --- the rows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One accountant on one row: its settings, and on which share of the questions it is timed."""

    name: str
    method: Method
    settings: tuple[float, ...] = (0.0,)
    share: int = 1


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    key: str
    title: str
    asked: tuple[Asked, ...]
    side: str = "upper"  # which side of the answer must be safe
    absolute: bool = False


PLD, PRV = "dp-accounting PLD", "prv-accountant"


def single(key: str, title: str, settings: dict[str, tuple[float, ...]]) -> Row:
    """A reference case of peers.py with the settings that are worth measuring."""

    def method(name: str) -> Method:
        ask = peers.METHODS[name][0]

        def answers(amount: float, setting: float) -> Answers:
            lower, upper = ask(peers.shifted(peers.QUESTIONS[key], amount), setting)
            return (None if lower is None else [lower]), (None if upper is None else [upper])

        return answers

    ours = "sharpdp calibrate" if peers.QUESTIONS[key].quantity == "noise" else OURS
    beta = peers.QUESTIONS[key].quantity == "beta"
    return Row(
        key,
        title,
        (
            Asked(OURS, method(ours), (1e-3,)),
            *(Asked(name, method(name), used) for name, used in settings.items()),
        ),
        side="lower" if beta else "upper",
        absolute=beta,
    )


# The settings around the fastest that was close in a run of peers.py, which has them all.
CALIBRATE = {
    "dp-accounting calibrate": (1e-2, 1e-3),
    "riskcal calibrate": (1e-3,),
    "opacus calibrate": (0.01,),
}
ONE = {PLD: (1e-2, 1e-3, 3e-4), "riskcal": (1e-3,), PRV: (0.01,), "opacus PRV": (0.01,)}
ROWS = [
    single("a", "(a) rate 0.001, noise 0.8, 10^4 steps", {PLD: (1e-3, 3e-4), PRV: (0.01,)}),
    single("b", "(b) rate 0.01, noise 1, 1000 steps", ONE),
    single("c", "(c) rate 1e-4, noise 0.6, 10^6 steps", {PLD: (3e-4, 1e-4)}),
    single("d", "(d) 1000 Gaussians", {PLD: (1e-2, 1e-3), "dp-accounting closed form": (0.0,)}),
    single("e", "(e) 100 different steps", {PLD: (1e-3,), "riskcal": (1e-3,)}),
    single("f", "(f) noise for epsilon 1", CALIBRATE),
    single("g", "(g) one false-negative rate", {"riskcal beta": (1e-3,)}),
    single("h", "(h) rate 0.01, noise 0.3", {PLD: (1e-2, 1e-3)}),
    single("i12", "(i) delta 1e-12", {PLD: (1e-3, 3e-4)}),
    single("i20", "(i) delta 1e-20", {PLD: (3e-4,)}),
    Row(
        "epsilons",
        "1000 epsilons of (b)",
        (
            Asked(OURS, our_epsilons),
            Asked(PLD, pld_epsilons, (1e-3, 1e-4)),
            Asked(PRV, prv_epsilons, (0.01,)),
            Asked("opacus PRV", opacus_epsilons(100), (0.01,), share=100),
        ),
    ),
    Row(
        "deltas",
        "1000 deltas of (b)",
        (
            Asked(OURS, our_deltas(1000)),
            Asked(PLD, pld_deltas(1000), (1e-3, 3e-4, 1e-4)),
            Asked(PRV, prv_deltas(1000), (0.01,)),
        ),
    ),
    Row(
        "many-deltas",
        "200,000 deltas of (b)",
        (Asked(OURS, our_deltas(200_000)), Asked(PLD, pld_deltas(200_000), (3e-4, 1e-4))),
    ),
    Row(
        "curve",
        "trade-off curve, 1000 points",
        (Asked(OURS, our_curve), Asked("riskcal", riskcal_curve, (1e-3, 3e-4))),
        side="lower",
        absolute=True,
    ),
    Row(
        "tprs",
        "1000 true-positive rates",
        (Asked(OURS, our_tprs), Asked("riskcal", riskcal_tprs, (1e-3, 1e-4))),
    ),
    Row(
        "renyi",
        "Renyi divergence, 100 orders",
        (
            Asked(OURS, our_renyi),
            Asked("dp-accounting RDP", rdp_orders),
            Asked("opacus RDP", opacus_orders),
        ),
    ),
    Row(
        "grid",
        "200 runs (noise, rate, steps)",
        (Asked(OURS, our_grid), Asked(PLD, pld_grid, (1e-3, 3e-4))),
    ),
    Row(
        "advantage",
        "noise for advantage 0.1",
        (Asked(OURS, our_advantage_noise), Asked("riskcal", riskcal_advantage_noise, (1e-3,))),
    ),
    Row(
        "tpr",
        "noise for tpr 0.2 at fpr 0.1",
        (Asked(OURS, our_tpr_noise), Asked("riskcal", riskcal_tpr_noise, (1e-3,))),
    ),
    Row("report", "a report of (b), HTML", (Asked(OURS, our_report),)),
]
BY_KEY = {row.key: row for row in ROWS}


# --- judging ------------------------------------------------------------------------------------


def golden(key: str) -> dict[int, float]:
    """Proved answers by the position of their question in the call."""
    truth = {name: sum(ends) / 2 for name, ends in peers.truths().items()}
    if key in truth:
        return {0: truth[key]}
    entries = json.loads((ROOT / "tests" / "golden" / "issue.json").read_text())
    of_g = {
        tuple(sorted(one["ask"].items())): float(one["value"])
        for one in entries
        if one["name"] == "g"
    }
    if key == "epsilons":
        return {0: truth["i12"], 700: truth["b"]}
    if key in ("deltas", "many-deltas"):
        return {0: of_g[("epsilon", 0.0), ("quantity", "delta")]}
    if key == "curve":
        return {i: of_g[("fpr", i / 999), ("quantity", "tradeoff")] for i in (10, 100, 500)}
    if key == "grid":
        return {grid().index((NOISE, RATE, STEPS)): truth["b"]}
    if key == "renyi":
        return {37 + order - 2: STEPS * renyi(order) for order in range(2, 65)}
    return {}


def renyi(order: int) -> float:
    """One step at a whole order, of the worse direction: a binomial sum."""
    logs = [
        math.log(math.comb(order, k))
        + k * math.log(RATE)
        + (order - k) * math.log1p(-RATE)
        + k * (k - 1) / (2 * NOISE**2)
        for k in range(order + 1)
    ]
    top = max(logs)
    return (top + math.log(math.fsum(math.exp(one - top) for one in logs))) / (order - 1)


def judged_ours(row: Row, answer: Measured) -> Measured:
    """Add the largest width and whether every golden value is enclosed."""
    lower, upper = answer["lower"], answer["upper"]
    known = golden(row.key)
    slack = 1e-11 if row.key == "renyi" else 1e-14  # of the golden value itself
    answer["width"] = answer["valid"] = None
    if lower is not None:
        widths = [
            (high - low) / (1.0 if row.absolute else max(abs(high), 1e-300))
            for low, high in zip(lower, upper, strict=True)
            if high > low
        ]
        answer["width"] = max(widths, default=0.0)
        answer["valid"] = all(
            lower[i] * (1 - slack) <= value <= upper[i] * (1 + slack) for i, value in known.items()
        )
    elif known:
        answer["width"] = max(upper[i] / value - 1.0 for i, value in known.items())
        answer["valid"] = all(upper[i] >= value * (1 - slack) for i, value in known.items())
    return answer


def judged(row: Row, answer: Measured, ours: Measured, share: int) -> Measured:
    """Add the peer's largest error, whether it is valid, and whether it is close."""
    side, sign = answer[row.side], -1.0 if row.side == "lower" else 1.0
    truths = [  # for a calibrated number only our own safe end is known
        (high if low is None else low, high)
        for low, high in zip(
            ours["lower"] or [None] * len(ours["upper"]), ours["upper"], strict=True
        )
    ][::share]
    errors, wrong = [], 0
    slack = 1e-9  # what is wrong by less is called rounding
    for said, (low, high) in zip(side, truths, strict=True):
        middle = (low + high) / 2
        scale = 1.0 if row.absolute else max(abs(middle), 1e-300)
        errors.append(abs(said - middle) / scale if math.isfinite(said) else math.inf)
        if ours["lower"] is not None:
            wrong += said < low - slack * scale if sign > 0 else said > high + slack * scale
    for i, value in golden(row.key).items():
        if i % share == 0:
            wrong += sign * (side[i // share] - value) < -slack * abs(value)
    found = {"error": max(errors), "wrong": wrong, "of": len(side)}
    return {**answer, **found, "valid": wrong == 0, "close": max(errors) <= CLOSE}


# --- the table and the picture --------------------------------------------------------------------


def measured_row(row: Row, only: list[str], earlier: list[Measured]) -> list[Measured]:
    """All measurements of one row, ours first; peers that were measured earlier are only judged again."""
    found: list[Measured] = []
    shares = {one.name: one.share for one in row.asked}
    for one in row.asked:
        if one.name != OURS and (earlier or not is_asked(one.name, only)):
            continue
        for setting in one.settings:
            told = {"row": row.key, "method": one.name, "setting": setting, "share": one.share}
            answer = in_process(__file__, row.key, one.name, repr(setting))
            if "failed" not in answer:
                answer["seconds"] *= one.share
            found.append({**told, **answer})
    found += [one for one in earlier if one["method"] != OURS]
    if "failed" not in found[0]:
        found[0] = judged_ours(row, found[0])
        found[1:] = [
            one if "failed" in one else judged(row, one, found[0], shares[one["method"]])
            for one in found[1:]
        ]
    for one in found:
        print(f"  {line(one)}", file=sys.stderr, flush=True)
    return found


def is_asked(name: str, only: list[str]) -> bool:
    """Whether a peer is among those that are named."""
    return not only or any(name.startswith(word) for word in only)


def line(one: Measured) -> str:
    """One measurement in words."""
    start = f"{one['method']} {one['setting']:g}"
    if "failed" in one:
        return f"{start}: {one['failed']}"
    error = "width" if one["method"] == OURS else "error"
    state = "valid" if one.get("valid") else "WRONG" if one.get("valid") is False else "-"
    if one.get("wrong"):
        state += f" in {one['wrong']} of {one['of']}"
    about = "" if one.get(error) is None else f"{error} {one[error]:.1e}, "
    return (
        f"{start}: {'~' if one['share'] > 1 else ''}{one['seconds']:.4g} s, {about}"
        f"{one['megabytes']:.0f} MB, {state}"
    )


def best_peer(found: list[Measured], *, valid: bool = True) -> Measured | None:
    """The fastest (valid) peer within 1%; the closed form of (d) is no accountant."""
    good = [one for one in found[1:] if one.get("close") and (one["valid"] or not valid)]
    good = [one for one in good if "closed" not in one["method"]]
    return min(good, key=lambda one: one["seconds"], default=None)


HEADS = (
    "question",
    "sharpdp CPU s",
    "MB",
    "width",
    "fastest valid peer within 1%",
    "its error",
    "CPU s",
    "MB",
    "ratio",
    "valid or not",
)


def cells(row: Row, found: list[Measured]) -> list[str]:
    """One line of the table."""
    ours = found[0]
    if "failed" in ours:
        return [row.title, ours["failed"], *[""] * 8]
    width = "" if ours["width"] is None else f"{ours['width']:.1e}"
    if ours["valid"] is False:
        width += " **WRONG**"
    start = [row.title, f"{ours['seconds']:.3g}", f"{ours['megabytes']:.0f}", width]
    best = best_peer(found)
    if best is None:
        tried = ", ".join(sorted({one["method"] for one in found[1:]}))
        start.append(f"none ({tried})" if tried else "none answers it")
        return [*start, "", "", "", "", ratio_of(found, valid=False)]
    about = "~" if best["share"] > 1 else ""
    setting = f", {best['setting']:g}" if best["setting"] else ""
    return [
        *start,
        f"{best['method']}{setting}",
        f"{best['error']:.1e}",
        f"{about}{best['seconds']:.3g}",
        f"{best['megabytes']:.0f}",
        ratio_of(found, valid=True),
        ratio_of(found, valid=False),
    ]


def ratio_of(found: list[Measured], *, valid: bool) -> str:
    """How many times longer the fastest (valid) peer within 1% takes."""
    best = best_peer(found, valid=valid)
    if best is None:
        return ""
    about = "~" if best["share"] > 1 else ""
    return about + two_digits(best["seconds"] / found[0]["seconds"])


def two_digits(ratio: float) -> str:
    """A ratio to two digits, as people write it.

    >>> two_digits(1834.2), two_digits(8.67)
    ('1,800', '8.7')
    """
    return f"{float(f'{ratio:.2g}'):,.{0 if ratio >= 9.95 else 1}f}"


def picture(results: dict[str, list[Measured]], path: Path) -> None:
    """CPU seconds of sharpdp and of the fastest valid peer within 1%, row by row."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = [(BY_KEY[key], found) for key, found in results.items() if "failed" not in found[0]]
    figure, axes = plt.subplots(figsize=(8, 0.36 * len(shown) + 1.1), layout="constrained")
    for y, (_, found) in enumerate(shown):
        ours, best = found[0]["seconds"], best_peer(found)
        axes.plot(ours, y, "o", color="#0b6e4f", label="sharpdp" if y == 0 else None)
        if best is None:
            continue
        axes.plot([ours, best["seconds"]], [y, y], color="#cccccc", zorder=0)
        label = "fastest valid peer within 1%" if y == 0 else None
        axes.plot(best["seconds"], y, "s", color="#c1440e", label=label)
        ratio = f"{two_digits(best['seconds'] / ours)} x"
        axes.annotate(ratio, (best["seconds"], y), (7, -3), textcoords="offset points", fontsize=8)
    axes.set_yticks(range(len(shown)), [row.title for row, _ in shown])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.16)
    axes.set_xlabel("CPU seconds")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower left", fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help=", ".join(BY_KEY))
    parser.add_argument("--only", action="append", default=[], help="peers that start so")
    parser.add_argument("--peers", type=Path, help="results of an earlier run, for its peers")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=ROOT / "out")
    told = parser.parse_args()
    if told.worker:
        key, name, setting = told.worker
        (method,) = [one.method for one in BY_KEY[key].asked if one.name == name]
        worker(lambda amount: method(amount, float(setting)))
        return 0
    unknown = [key for key in told.rows if key not in BY_KEY]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}; there are {', '.join(BY_KEY)}")
    require_peers()
    told.output.mkdir(parents=True, exist_ok=True)
    earlier = json.loads(told.peers.read_text()) if told.peers else {}
    results: dict[str, list[Measured]] = {}
    print(f"| {' | '.join(HEADS)} |\n{'|---' * len(HEADS)}|")
    for row in ROWS:
        if told.rows and row.key not in told.rows:
            continue
        results[row.key] = measured_row(row, told.only, earlier.get(row.key, []))
        print(f"| {' | '.join(cells(row, results[row.key]))} |", flush=True)
        (told.output / "many_questions.json").write_text(json.dumps(results) + "\n")
    picture(results, told.output / "many_questions.svg")
    return verdict(results)


def verdict(results: dict[str, list[Measured]]) -> int:
    """1 if an answer of ours is wrong or missing, or takes too much memory."""
    bad = [
        f"{key}: {line(found[0])}"
        for key, found in results.items()
        if "failed" in found[0] or found[0]["valid"] is False or found[0]["megabytes"] > MOST_MEMORY
    ]
    for text in bad:
        print(f"not as promised: {text}", file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
