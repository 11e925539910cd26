"""What is asked about a case, and what independent values and plain laws say to the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from scipy.special import ndtri

import sharpdp as dp
from tests.wild.convolved import Composition, Grid
from tests.wild.kinds import Case, log_uniform
from tests.wild.pairs import Known

SLACK = 1e-6  # relative, of masses in floats
FINEST = 1e-290  # deltas below this are not compared in floats


@dataclass(frozen=True)
class Question:
    """One call, and what must be true of its answer: None if all is well, else what is wrong."""

    quantity: str
    argument: float | None
    ask: Callable[[dp.Guarantee], dp.Bracket]
    judge: Callable[[dp.Bracket], str | None]

    def __str__(self) -> str:
        name = {"delta": "epsilon", "epsilon": "delta", "renyi": "order"}.get(self.quantity, "fpr")
        asked = "" if self.argument is None else f"{name}={self.argument!r}"
        return f"{self.quantity}({asked})"


class Truth:
    """What is known about a case from elsewhere."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.exact = case.exactly()
        parts = case.parts
        self.steps: list[tuple[Known, int]] = [(p.forward, p.count * p.rounds) for p in parts]
        self.slack = SLACK + 1e-11 * sum(count for _, count in self.steps)

    @cached_property
    def ways(self) -> list[tuple[Composition, Composition]]:
        """(hides more, reveals more) in each direction."""
        found = []
        both = all(known.symmetric for known, _ in self.steps)
        for backward in (False,) if both else (False, True):
            steps = [(k.reverse() if backward else k, n) for k, n in self.steps]
            low = Composition([(k.low, n) for k, n in steps])
            same = all(k.low is k.high or k.low.p is k.high.p for k, _ in steps)
            found.append((low, low if same else Composition([(k.high, n) for k, n in steps])))
        return found

    def _grids(self, tilt: Callable[[Composition], float]) -> Iterator[tuple[Grid, Grid]]:
        for low, high in self.ways:
            theta = tilt(low)
            one = low.on_grid(theta)
            yield one, one if high is low else high.on_grid(theta)

    def ball(self, epsilon: float) -> arb | None:
        """delta in a ball."""
        if self.exact is not None:
            return self.exact.delta(epsilon)
        part = self.case.parts[0]
        if len(self.case.parts) == 1 and part.ball is not None:
            return part.ball(part.count, epsilon)
        return None

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) in floats."""
        found = [
            (low.delta_low(epsilon), high.delta_high(epsilon))
            for low, high in self._grids(lambda one: one.tilt_at(epsilon))
        ]
        return max(low for low, _ in found), max(high for _, high in found)

    def tpr(self, fpr: float) -> tuple[float, float]:
        found = []
        for low, high in self._grids(lambda one: one.tilt_for_rate(math.log(fpr))):
            found.append((low.tpr(fpr)[0], high.tpr(fpr)[1]))
        return max(low for low, _ in found), max(high for _, high in found)

    def mu(self, smallest: float) -> tuple[float, float]:
        found = [(a.mu(smallest)[0], b.mu(smallest)[1]) for a, b in self._grids(lambda _: 0.0)]
        return max(low for low, _ in found), max(high for _, high in found)

    def renyi(self, order: float) -> tuple[float, float]:
        found = [(low.renyi(order)[0], high.renyi(order)[1]) for low, high in self.ways]
        return max(low for low, _ in found), max(high for _, high in found)

    @property
    def top(self) -> float:
        """The largest loss."""
        if self.exact is not None:
            return self.exact.largest_loss()
        return max(high.top for _, high in self.ways)

    @property
    def revealed(self) -> float:
        if self.exact is not None:
            return float(self.exact.revealed())
        return max(high.revealed for _, high in self.ways)


def _ends(bracket: dp.Bracket) -> tuple[float, float]:
    return float(bracket.lower), float(bracket.upper)


def _in_order(bracket: dp.Bracket) -> str | None:
    low, high = _ends(bracket)
    return None if low <= high else f"lower {low!r} above upper {high!r}"


def _against(low: float, high: float, truth: arb) -> str | None:
    if math.isfinite(low) and arb(low) > truth:
        return f"lower {low!r} above {truth.str(20)}"
    if math.isinf(low) and truth.is_finite():
        return f"lower is infinite, truth {truth.str(20)}"
    if math.isfinite(high) and arb(high) < truth:
        return f"upper {high!r} below {truth.str(20)}"
    return None


def judge_delta(truth: Truth, epsilon: float, bracket: dp.Bracket) -> str | None:
    low, high = _ends(bracket)
    ball = truth.ball(epsilon)
    if ball is not None:
        return _in_order(bracket) or _against(low, high, ball)
    least, most = truth.delta(epsilon)
    if low > most * (1.0 + truth.slack) + FINEST:
        return f"lower {low!r} above {most!r}"
    if high < least * (1.0 - truth.slack) - FINEST:
        return f"upper {high!r} below {least!r}"
    return _in_order(bracket)


def judge_epsilon(truth: Truth, delta: float, bracket: dp.Bracket) -> str | None:
    low, high = _ends(bracket)
    for end, sign in ((low, 1), (high, -1)):
        if math.isinf(end):
            if sign < 0:
                continue
            known = truth.exact.revealed() if truth.exact else None
            enough = known >= delta if known is not None else truth.revealed * (1 + 1e-6) >= delta
            # a truth without end is right where so much is revealed for certain
            if not enough:
                return f"infinite, but only {known or truth.revealed!r} is revealed"
            continue
        if sign > 0 and end <= 0.0:
            continue
        ball = truth.ball(end)
        if ball is not None:
            # delta(lower) may not be below the delta asked for, delta(upper) not above it
            if (sign > 0 and ball < delta) or (sign < 0 and ball > delta):
                return f"delta({end!r}) is {ball.str(20)}"
            continue
        least, most = truth.delta(end)
        if sign > 0 and most < delta * (1.0 - truth.slack) - FINEST:
            return f"delta(lower={end!r}) is at most {most!r}"
        if sign < 0 and least > delta * (1.0 + truth.slack) + FINEST:
            return f"delta(upper={end!r}) is at least {least!r}"
    return _in_order(bracket)


def judge_tpr(truth: Truth, fpr: float, bracket: dp.Bracket) -> str | None:
    low, high = _ends(bracket)
    if truth.exact is not None:
        return _in_order(bracket) or _against(low, high, truth.exact.tpr(fpr))
    least, most = truth.tpr(fpr) if fpr > 0.0 else (0.0, truth.revealed)
    if low > most * (1.0 + truth.slack) + FINEST:
        return f"lower {low!r} above {most!r}"
    if high < least * (1.0 - truth.slack) - FINEST:
        return f"upper {high!r} below {least!r}"
    return _in_order(bracket)


def judge_fnr(truth: Truth, fpr: float, bracket: dp.Bracket) -> str | None:
    low, high = _ends(bracket)
    if truth.exact is not None:
        return _in_order(bracket) or _against(low, high, 1 - truth.exact.tpr(fpr))
    least, most = truth.tpr(fpr) if fpr > 0.0 else (0.0, truth.revealed)
    if low > (1.0 - least) + truth.slack * least + 1e-15:
        return f"lower {low!r} above 1 - {least!r}"
    if high < (1.0 - most) - truth.slack * most - 1e-15:
        return f"upper {high!r} below 1 - {most!r}"
    return _in_order(bracket)


def judge_renyi(truth: Truth, order: float, bracket: dp.Bracket) -> str | None:
    low, high = _ends(bracket)
    if truth.exact is not None:
        return _in_order(bracket) or _against(low, high, truth.exact.renyi(order))
    least, most = truth.renyi(order)
    margin = 1e-12 * sum(count for _, count in truth.steps) * order
    if low > most * (1.0 + SLACK) + margin:
        return f"lower {low!r} above {most!r}"
    if high < least * (1.0 - SLACK) - margin:
        return f"upper {high!r} below {least!r}"
    return _in_order(bracket)


def judge_mu(truth: Truth, smallest: float, bracket: dp.Bracket) -> str | None:
    low, high = _ends(bracket)
    least, most = truth.mu(smallest)
    if low > most + 1e-6:
        return f"lower {low!r} above {most!r}"
    if high < least - 1e-6:
        return f"upper {high!r} below {least!r}"
    return _in_order(bracket)


def _neighbor(rng: np.random.Generator, value: float, units: int = 3) -> float:
    """A double at most so many units away, or at some small distance."""
    if units > 1 and rng.random() < 0.5:
        return value * (1.0 + float(rng.choice([-1.0, 1.0])) * log_uniform(rng, 1e-15, 1e-2))
    for _ in range(abs(move := int(rng.integers(-units, units + 1)))):
        value = math.nextafter(value, math.inf if move > 0 else 0.0)
    return value


def questions(case: Case, rng: np.random.Generator) -> Iterator[Question]:
    """The questions about one case: usual arguments, and edges."""
    truth = Truth(case)

    def ask(quantity: str, argument: float | None, judge: Any, **named: float) -> Question:
        return Question(
            quantity,
            argument,
            lambda answer: getattr(answer, quantity)(**named),
            lambda bracket: judge(bracket),
        )

    def epsilon(delta: float) -> Question:
        return ask("epsilon", delta, lambda b: judge_epsilon(truth, delta, b), delta=delta)

    def delta(at: float) -> Question:
        return ask("delta", at, lambda b: judge_delta(truth, at, b), epsilon=at)

    def rate(quantity: str, judge: Any, fpr: float) -> Question:
        return ask(quantity, fpr, lambda b: judge(truth, fpr, b), fpr=fpr)

    def renyi(order: float) -> Question:
        return ask("renyi", order, lambda b: judge_renyi(truth, order, b), order=order)

    top, revealed = truth.top, truth.revealed
    # few outcomes are answered quickly and judged exactly: more places, and edges above all
    for _ in range(1 if truth.exact is None else 6):
        usual = log_uniform(rng, 1e-12, 0.2)
        yield epsilon(usual)
        if 0.0 < revealed < 1.0:
            yield epsilon(min(_neighbor(rng, revealed), math.nextafter(1.0, 0.0)))
            yield epsilon(min(_neighbor(rng, revealed, 1), math.nextafter(1.0, 0.0)))
        yield delta(_scale(truth, usual) * float(rng.uniform(0.0, 1.3)))
        if math.isfinite(top) and top > 0.0:
            yield delta(_neighbor(rng, top))
            if rng.random() < 0.5:
                yield delta(top * (1.0 - log_uniform(rng, 1e-12, 1e-2)))
        yield renyi(1.0 + log_uniform(rng, 1e-2, 100.0))
        if rng.random() < 0.3:
            yield epsilon(log_uniform(rng, 1e-250, 1e-12))
    if rng.random() < 0.3:
        yield epsilon(0.0)
    if rng.random() < 0.5:
        yield ask("advantage", None, lambda b: judge_delta(truth, 0.0, b))
    if rng.random() < 0.4:
        tiny = 0.0 if rng.random() < 0.5 else log_uniform(rng, 1e-80, 1e-9)
        yield rate("tpr", judge_tpr, tiny)
    if rng.random() < 0.5:
        yield rate("tpr", judge_tpr, log_uniform(rng, 1e-9, 0.5))
    if rng.random() < 0.3:
        yield rate("fnr", judge_fnr, log_uniform(rng, 1e-4, 0.9))
    if rng.random() < 0.15:
        yield ask("mu", 1e-6, lambda b: judge_mu(truth, 1e-6, b))


def _scale(truth: Truth, delta: float) -> float:
    """An epsilon of about the size that this delta has."""
    low = truth.ways[0][0]
    theta = low.tilt_for(math.log(delta))
    mean = low.moments(theta)[1]
    return max(mean, 1e-9)


def laws(case: Case, answer: dp.Guarantee, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Laws that hold whatever the truth is: (name, function that says what is wrong)."""
    delta = log_uniform(rng, 1e-10, 0.1)
    fpr = log_uniform(rng, 1e-6, 0.1)

    def there_and_back() -> str | None:
        found = answer.epsilon(delta=delta)
        for end, sign in ((float(found.upper), 1.0), (float(found.lower), -1.0)):
            if math.isfinite(end) and end > 0.0:
                low, high = _ends(answer.delta(epsilon=end))
                if (sign > 0 and low > delta * (1 + 1e-9)) or (
                    sign < 0 and high < delta * (1 - 1e-9)
                ):
                    return f"epsilon({delta!r}) = {found}, delta({end!r}) = {low!r}..{high!r}"
        return None

    def rates() -> str | None:
        """tpr is at least fpr, never falls, and keeps under delta + e^epsilon fpr."""
        small, large = answer.tpr(fpr=fpr), answer.tpr(fpr=min(3.0 * fpr, 1.0))
        if float(small.upper) < fpr or float(small.lower) > float(large.upper):
            return f"tpr({fpr!r}) = {small}, tpr(3 fpr) = {large}"
        most = float(answer.delta(epsilon=1.0).upper) + math.e * fpr
        if float(small.lower) > most * (1 + 1e-9):
            return f"tpr({fpr!r}) = {small}, above {most!r}"
        return None

    def growing() -> str | None:
        """One more run of it never reveals less."""
        once = answer.epsilon(delta=delta)
        twice = dp.account(case.mechanism * 2).epsilon(delta=delta)
        if float(twice.upper) < float(once.lower):
            return f"once {once}, twice {twice}"
        return None

    def normal_rates() -> str | None:
        """mu covers a point of the curve."""
        mu = float(answer.mu().upper)
        tpr = float(answer.tpr(fpr=fpr).lower)
        if 1e-6 < tpr < 1.0 - 1e-6 and ndtri(tpr) - ndtri(fpr) > mu + 1e-9:
            return f"mu = {mu!r}, but tpr({fpr!r}) >= {tpr!r}"
        return None

    if rng.random() < 0.5:
        yield "epsilon and back", there_and_back
    if rng.random() < 0.7:
        return
    chosen = (("rates", rates), ("one more run", growing), ("mu", normal_rates))
    yield chosen[int(rng.integers(len(chosen)))]
