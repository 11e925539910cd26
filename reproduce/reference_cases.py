"""The reference cases: sharpdp's brackets beside independent high-accuracy values.

Run it with `make reproduce`. Prints one line per question and fails if a bracket misses its value.
Where no independent value is printed, the bracket stands alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import sharpdp as dp


@dataclass(frozen=True)
class Question:
    """One question, and the independent value as printed (its digits say how far to trust it)."""

    case: str
    text: str
    ask: Callable[[], dp.Bracket]
    printed: str = ""

    def holds(self, bracket: dp.Bracket) -> bool:
        """Whether the bracket meets the interval that rounds to the printed value."""
        if not self.printed:
            return True
        value = float(self.printed)
        mantissa, _, exponent = self.printed.partition("e")
        decimals = len(mantissa.partition(".")[2])
        half_unit = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
        return bracket.lower <= value + half_unit and bracket.upper >= value - half_unit


def poisson(sample_rate: float, noise_multiplier: float, steps: int) -> dp.DPSGD:
    """DP-SGD over Poisson batches."""
    plan = dp.PoissonBatches(sample_rate=sample_rate, steps=steps)
    return dp.DPSGD(plan, noise_multiplier=noise_multiplier)


def changing_steps() -> dp.Sequence:
    """Case (e): a hundred different steps, ten times each."""
    return dp.Sequence([poisson(0.005 + 0.0001 * i, 0.8 + 0.01 * i, 10) for i in range(100)])


def calibrated() -> dp.Bracket:
    """Case (f): the smallest noise, enclosed by the safe-side value and its tolerance."""
    upper = dp.calibrate(lambda unknown: poisson(0.01, unknown, 1000), epsilon=1.0, delta=1e-6)
    return dp.Bracket(upper * (1 - 1e-4), upper, quantity="noise_multiplier")


def questions() -> list[Question]:
    """Every question of the reference cases, each on a fresh answer."""
    a = lambda: dp.account(poisson(1e-3, 0.8, 10**4))  # noqa: E731
    b = lambda: dp.account(poisson(0.01, 1.0, 1000))  # noqa: E731
    rates = (("10/999", 10 / 999), ("100/999", 100 / 999), ("500/999", 500 / 999))
    curve = ("0.970836", "0.805644", "0.340958")
    return [
        Question("a", "epsilon at 1e-6", lambda: a().epsilon(delta=1e-6), "0.947195"),
        Question("a", "delta at 1", lambda: a().delta(epsilon=1.0), "5.3196e-7"),
        Question("b", "epsilon at 1e-5", lambda: b().epsilon(delta=1e-5), "1.8282367"),
        Question(
            "c",
            "epsilon at 1e-6",
            lambda: dp.account(poisson(1e-4, 0.6, 10**6)).epsilon(delta=1e-6),
            "1.920737",
        ),
        Question(
            "d",
            "epsilon at 1e-5",
            lambda: dp.account(dp.Gaussian(noise_multiplier=20.0) * 1000).epsilon(delta=1e-5),
            "7.5112759007",
        ),
        Question("e", "epsilon at 1e-5", lambda: dp.account(changing_steps()).epsilon(delta=1e-5)),
        Question("f", "noise for 1, 1e-6", calibrated, "1.562666"),
        *(
            Question("g", f"trade-off at {name}", lambda rate=rate: tradeoff(b(), rate), value)
            for (name, rate), value in zip(rates, curve, strict=True)
        ),
        Question("g", "advantage", lambda: b().advantage(), "0.161018"),
        Question(
            "h",
            "epsilon at 1e-5",
            lambda: dp.account(poisson(0.01, 0.3, 1000)).epsilon(delta=1e-5),
        ),
        Question("i", "epsilon at 1e-12", lambda: b().epsilon(delta=1e-12), "3.914298"),
        Question("i", "epsilon at 1e-20", lambda: b().epsilon(delta=1e-20), "6.361700"),
    ]


def tradeoff(answer: dp.Guarantee, fpr: float) -> dp.Bracket:
    """The enclosed false-negative rate at one false-positive rate."""
    curve = answer.tradeoff()
    return dp.Bracket(float(curve.lower(fpr)), float(curve.upper(fpr)), quantity="fnr")


def main() -> int:
    """Print the table; the exit status is the number of brackets that miss their value."""
    print(
        "case question             independent    lower            upper            width    CPU s"
    )
    missed = 0
    for question in questions():
        start = time.process_time()
        bracket = question.ask()
        seconds = time.process_time() - start
        verdict = "" if question.holds(bracket) else "  MISSED"
        missed += bool(verdict)
        print(
            f"({question.case})  {question.text:20s} {question.printed:13s}"
            f"  {bracket.lower:<15.10g}  {bracket.upper:<15.10g}"
            f"  {bracket.relative_width:<7.1e}  {seconds:.3f}{verdict}"
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
