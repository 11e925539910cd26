"""sharpdp beside dp-accounting, prv-accountant, Opacus and riskcal, in one run.

    python benchmarks/peers.py --setup     make .venv-peers with the other accountants
    python benchmarks/peers.py             measure everything (about ten minutes)
    python benchmarks/peers.py a b --only sharpdp --only prv-accountant

Each measurement is a process of its own (one thread): a warm-up, then the best of three CPU times.
Every repetition changes the noise in the twelfth digit, so that no cache can answer. An answer is
valid if it is on the safe side of the golden value (tests/golden/issue.json), and close if it is
within 1% of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import ROOT, in_process, require_peers, setup, worker

CLOSE = 0.01
OURS = "sharpdp"
DEFAULTS = {  # the grid of the PLD accountants, the epsilon error of the PRV ones
    "dp-accounting PLD": 1e-4,
    "dp-accounting calibrate": 1e-4,
    "prv-accountant": 0.01,
    "opacus PRV": 0.01,
    "opacus calibrate": 0.01,
    "riskcal": 1e-4,
    "riskcal beta": 1e-4,
    "riskcal calibrate": 1e-4,
}

Steps = list[tuple[float, float, int]]  # (rate, noise multiplier, how often)


@dataclass(frozen=True)
class Question:
    """One of the reference cases: what is asked and which golden value answers it."""

    name: str
    steps: Steps
    quantity: str  # epsilon, delta, beta, noise
    at: float  # the delta, the epsilon, the false-positive rate
    target: float = 0.0  # epsilon wanted, for noise


B: Steps = [(0.01, 1.0, 1000)]
LADDER: Steps = [(0.005 + 0.0001 * i, 0.8 + 0.01 * i, 10) for i in range(100)]
QUESTIONS = {
    "a": Question("a", [(1e-3, 0.8, 10**4)], "epsilon", 1e-6),
    "b": Question("b", B, "epsilon", 1e-5),
    "c": Question("c", [(1e-4, 0.6, 10**6)], "epsilon", 1e-6),
    "d": Question("d", [(1.0, 20.0, 1000)], "epsilon", 1e-5),
    "e": Question("e", LADDER, "epsilon", 1e-5),
    "f": Question("f", B, "noise", 1e-6, 1.0),
    "g": Question("g", B, "beta", 100 / 999),
    "h": Question("h", [(0.01, 0.3, 1000)], "epsilon", 1e-5),
    "i12": Question("i", B, "epsilon", 1e-12),
    "i20": Question("i", B, "epsilon", 1e-20),
}

Answer = tuple[float | None, float | None]  # (lower, upper); None where a side is not offered
Method = Callable[[Question, float], Answer]


# --- dp-accounting ------------------------------------------------------------------------------


def pld(question: Question, interval: float, *, pessimistic: bool = True) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as library

    total = None
    for rate, noise, count in question.steps:
        one = library.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            value_discretization_interval=interval,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        ).self_compose(count)
        total = one if total is None else total.compose(one)
    return total


def dp_accounting_pld(question: Question, interval: float) -> Answer:
    return None, pld(question, interval).get_epsilon_for_delta(question.at)


def dp_accounting_both(question: Question, interval: float) -> Answer:
    low = pld(question, interval, pessimistic=False).get_epsilon_for_delta(question.at)
    return low, dp_accounting_pld(question, interval)[1]


def dp_accounting_rdp(question: Question, _: float) -> Answer:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    for rate, noise, count in question.steps:
        event = dp_accounting.GaussianDpEvent(noise)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, event), count)
    return None, accountant.get_epsilon(question.at)


def dp_accounting_closed(question: Question, _: float) -> Answer:
    """One Gaussian with noise sigma / sqrt(T): the user must merge the steps by hand."""
    import dp_accounting

    ((_, noise, count),) = question.steps
    return None, dp_accounting.get_epsilon_gaussian(noise / count**0.5, question.at)


def dp_accounting_noise(question: Question, interval: float) -> Answer:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    ((rate, _, count),) = question.steps
    found = dp_accounting.calibrate_dp_mechanism(
        lambda: PLDAccountant(value_discretization_interval=interval),
        lambda noise: dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)), count
        ),
        question.target,
        question.at,
        bracket_interval=dp_accounting.ExplicitBracketInterval(0.5, 5.0),
        tol=1e-4,
    )
    return None, found


# --- prv-accountant -----------------------------------------------------------------------------


def prv(question: Question, error: float) -> Answer:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import (
        GaussianMechanism,
        PoissonSubsampledGaussianMechanism,
    )

    variables = [
        GaussianMechanism(noise)
        if rate == 1
        else PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
        for rate, noise, _ in question.steps
    ]
    counts = [count for _, _, count in question.steps]
    accountant = PRVAccountant(
        prvs=variables,
        max_self_compositions=counts,
        eps_error=error,
        delta_error=question.at / 1000,
    )
    low, _, high = accountant.compute_epsilon(question.at, counts)
    return low, high


# --- Opacus -------------------------------------------------------------------------------------


def opacus(question: Question, kind: str, **settings: float) -> Answer:
    from opacus.accountants import create_accountant

    accountant = create_accountant(kind)
    accountant.history = [(noise, rate, count) for rate, noise, count in question.steps]
    return None, float(accountant.get_epsilon(delta=question.at, **settings))


def opacus_prv(question: Question, error: float) -> Answer:
    return opacus(question, "prv", eps_error=error)


def opacus_rdp(question: Question, _: float) -> Answer:
    return opacus(question, "rdp")


def opacus_noise(question: Question, tolerance: float) -> Answer:
    from opacus.accountants.utils import get_noise_multiplier

    ((rate, _, count),) = question.steps
    found = get_noise_multiplier(
        target_epsilon=question.target,
        target_delta=question.at,
        sample_rate=rate,
        steps=count,
        accountant="prv",
        epsilon_tolerance=tolerance,
        eps_error=tolerance,
    )
    return None, found


# --- riskcal ------------------------------------------------------------------------------------


def riskcal_accountant(question: Question) -> Any:
    from riskcal.accountants import CTDAccountant

    accountant = CTDAccountant()
    accountant.history = [(noise, rate, count) for rate, noise, count in question.steps]
    return accountant


def riskcal_epsilon(question: Question, interval: float) -> Answer:
    return None, riskcal_accountant(question).get_epsilon(delta=question.at, grid_step=interval)


def riskcal_beta(question: Question, interval: float) -> Answer:
    return float(riskcal_accountant(question).get_beta(alpha=question.at, grid_step=interval)), None


def riskcal_noise(question: Question, interval: float) -> Answer:
    from riskcal.accountants import CTDAccountant
    from riskcal.calibration.blackbox import find_noise_multiplier_for_epsilon_delta

    ((rate, _, count),) = question.steps
    found = find_noise_multiplier_for_epsilon_delta(
        CTDAccountant,
        sample_rate=rate,
        num_steps=count,
        epsilon=question.target,
        delta=question.at,
        mu_min=0.5,
        mu_max=5.0,
        grid_step=interval,
    )
    return None, float(found)


# --- sharpdp ------------------------------------------------------------------------------------


def sharpdp(question: Question, width: float) -> Answer:
    import sharpdp as dp

    def step(rate: float, noise: float, count: int) -> Any:
        if rate == 1:
            return dp.Gaussian(noise_multiplier=noise) * count
        return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=count), noise_multiplier=noise)

    parts = [step(*one) for one in question.steps]
    mechanism = parts[0] if len(parts) == 1 else dp.Sequence(parts)
    answer = dp.account(mechanism, relative_width=width)
    if question.quantity == "beta":
        curve = answer.tradeoff()
        return float(curve.lower(question.at)), float(curve.upper(question.at))
    bracket = answer.epsilon(delta=question.at)
    return float(bracket.lower), float(bracket.upper)


def sharpdp_noise(question: Question, _: float) -> Answer:
    import sharpdp as dp

    ((rate, _, count),) = question.steps
    plan = dp.PoissonBatches(sample_rate=rate, steps=count)
    found = dp.calibrate(
        lambda noise: dp.DPSGD(plan, noise_multiplier=noise),
        epsilon=question.target,
        delta=question.at,
    )
    return None, float(found)


METHODS: dict[str, tuple[Method, tuple[float, ...]]] = {
    "dp-accounting PLD": (dp_accounting_pld, (1e-2, 1e-3, 3e-4, 1e-4, 1e-5)),
    "dp-accounting PLD both": (dp_accounting_both, (1e-4,)),
    "dp-accounting RDP": (dp_accounting_rdp, (0.0,)),
    "dp-accounting closed form": (dp_accounting_closed, (0.0,)),
    "dp-accounting calibrate": (dp_accounting_noise, (1e-2, 1e-3, 1e-4)),
    "prv-accountant": (prv, (0.1, 0.01, 0.001)),
    "opacus PRV": (opacus_prv, (0.1, 0.01, 0.001)),
    "opacus RDP": (opacus_rdp, (0.0,)),
    "opacus calibrate": (opacus_noise, (0.01, 0.005)),
    "riskcal": (riskcal_epsilon, (1e-3, 1e-4, 1e-5)),
    "riskcal beta": (riskcal_beta, (1e-3, 1e-4, 1e-5)),
    "riskcal calibrate": (riskcal_noise, (1e-3, 1e-4)),
    OURS: (sharpdp, (1e-3, 1e-6)),
    "sharpdp calibrate": (sharpdp_noise, (0.0,)),
}
BY_QUANTITY = {
    "noise": (
        "dp-accounting calibrate",
        "opacus calibrate",
        "riskcal calibrate",
        "sharpdp calibrate",
    ),
    "beta": ("riskcal beta", OURS),
    "epsilon": (
        "dp-accounting PLD",
        "dp-accounting PLD both",
        "dp-accounting RDP",
        "prv-accountant",
        "opacus PRV",
        "opacus RDP",
        "riskcal",
        OURS,
    ),
}


def shifted(question: Question, amount: float) -> Question:
    """The same question with the noise (and for calibration the target) changed a little."""
    steps = [(rate, noise * (1 + amount), count) for rate, noise, count in question.steps]
    target = question.target * (1 + amount)
    return Question(question.name, steps, question.quantity, question.at, target)


# --- judging ------------------------------------------------------------------------------------


def truths() -> dict[str, tuple[float, float]]:
    """The golden enclosure of every question."""
    found = {}
    entries = json.loads((ROOT / "tests" / "golden" / "issue.json").read_text())
    for key, question in QUESTIONS.items():
        for entry in entries:
            arguments = entry["ask"]
            at = arguments.get("fpr", arguments.get("delta"))
            if entry["name"] == question.name and at == question.at:
                value, radius = float(entry["value"]), float(entry["radius"])
                found[key] = (value - radius, value + radius)
    return found


def judge(row: dict[str, Any], truth: tuple[float, float]) -> dict[str, Any]:
    """Add error, validity and closeness; beta is bounded from below, all else from above."""
    if "failed" in row:
        return row
    safe = row["lower"] if QUESTIONS[row["case"]].quantity == "beta" else row["upper"]
    side = -1.0 if QUESTIONS[row["case"]].quantity == "beta" else 1.0
    error = side * (safe - (truth[0] + truth[1]) / 2)
    slack = max(truth[1] - truth[0], 4e-16 * truth[1])
    valid = error >= -slack and (row["lower"] is None or row["lower"] <= truth[1] + slack)
    row["error"], row["valid"] = error, valid
    row["close"] = abs(error) <= CLOSE * truth[1]
    return row


def number(x: float | None) -> str:
    return "-" if x is None else f"{x:.9g}"


def table(key: str, rows: list[dict[str, Any]], truth: tuple[float, float]) -> None:
    """One block per case, then the ratios."""
    print(f"\n({key}) truth {sum(truth) / 2:.12g}")
    for row in rows:
        head = f"  {row['method']:26s} {row['setting']:8g}  "
        if "failed" in row:
            print(f"{head}{row['failed']}")
            continue
        verdict = ("valid" if row["valid"] else "WRONG") + (", close" if row["close"] else "")
        print(
            f"{head}{number(row['lower']):>13s} {number(row['upper']):>13s}  "
            f"error {row['error']:+.1e}  {row['seconds']:9.4f} s "
            f"{row['megabytes']:6.0f} MB  {verdict}"
        )
    compare(rows)
    sys.stdout.flush()


def compare(rows: list[dict[str, Any]]) -> None:
    """The fastest valid close peer against sharpdp."""
    good = [r for r in rows if r.get("valid") and r.get("close")]
    peers = [r for r in good if not r["method"].startswith(OURS)]
    ours = [r for r in good if r["method"].startswith(OURS)]
    if not peers:
        print("  -> no peer is valid and within 1%")
        return
    for best in fastest(peers):
        told = f"{best['method']} {best['setting']:g}, {best['seconds']:.5f} s"
        print(f"  -> fastest valid peer within 1%: {told}")
        against(best, ours)


def fastest(peers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fastest at any setting, chosen with hindsight; of those at their defaults; closed form."""
    closed = [r for r in peers if "closed" in r["method"]]
    rest = [r for r in peers if r not in closed]
    usual = [r for r in rest if r["setting"] == DEFAULTS.get(r["method"])]
    groups = [group for group in (closed, rest, usual) if group]
    found = [min(group, key=lambda r: r["seconds"]) for group in groups]
    return [row for k, row in enumerate(found) if row not in found[:k]]


def against(best: dict[str, Any], ours: list[dict[str, Any]]) -> None:
    """Speed and width of sharpdp relative to one peer."""
    for row in ours:
        width = row["upper"] - row["lower"] if row["lower"] is not None else abs(row["error"])
        narrower = abs(best["error"]) / width if width else float("inf")
        print(
            f"     {row['method']} {row['setting']:g}: {best['seconds'] / row['seconds']:.1f} times "
            f"faster, its width {width:.1e} is {narrower:.3g} times narrower than the peer's error"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*QUESTIONS, []], default=[])
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--only", action="append", default=[], help="methods that start so")
    parser.add_argument("--worker", nargs=3, metavar=("CASE", "METHOD", "SETTING"))
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "peers.json")
    told = parser.parse_args()
    if told.setup:
        setup()
        return
    if told.worker:
        key, name, setting = told.worker
        question, (method, _) = QUESTIONS[key], METHODS[name]
        worker(lambda amount: method(shifted(question, amount), float(setting)))
        return
    require_peers()
    truth, rows = truths(), []
    told.output.parent.mkdir(parents=True, exist_ok=True)
    for key in told.cases or list(QUESTIONS):
        block = case_rows(key, told.only, truth[key])
        table(key, block, truth[key])
        rows += block
        told.output.write_text(json.dumps(rows, indent=1) + "\n")


def case_rows(key: str, only: list[str], truth: tuple[float, float]) -> list[dict[str, Any]]:
    """All measurements of one case."""
    names = BY_QUANTITY[QUESTIONS[key].quantity]
    if key == "d":
        names = ("dp-accounting closed form", *names)
    rows = []
    for name in names:
        if only and not any(name.startswith(start) for start in only):
            continue
        for setting in METHODS[name][1]:
            told = {"case": key, "method": name, "setting": setting}
            answer = in_process(__file__, key, name, repr(setting))
            rows.append(judge({**told, **answer}, truth))
            print(".", end="", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
