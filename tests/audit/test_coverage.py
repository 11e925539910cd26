"""The stated confidence is kept: mechanisms of known privacy are audited many times.

Every test allows as many errors as a true error rate at the stated one exceeds with probability 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from sharpdp import audit
from sharpdp.audit import repeated_runs, single_run
from sharpdp.audit.score_results import LARGEST_EPSILON
from tests.audit.mechanisms import KNOWN, Known

CONFIDENCE, DELTA = 0.9, 1e-3
FALSE_ALARM = 1e-6
METHODS = ("many runs", "one run", "sequential")


def allowed(repetitions: int) -> int:
    return int(stats.binom.isf(FALSE_ALARM, repetitions, 1.0 - CONFIDENCE))


def audited(
    method: str, known: Known, rng: np.random.Generator, **more: object
) -> audit.ScoreAudit:
    settings = {"confidence": CONFIDENCE, "delta": DELTA, **more}
    if method == "one run":
        coins = rng.random(200) < 0.5
        return audit.one_run(scores=known.draw(rng, coins), included=coins, **settings)
    inside, outside = (known.draw(rng, np.full(120, value)) for value in (True, False))
    if method == "many runs":
        return audit.many_runs(with_record=inside, without_record=outside, **settings)
    running = audit.Sequential(**settings)
    for some in range(0, 120, 10):  # the best of all looks is kept
        running.add(with_record=inside[some : some + 10], without_record=outside[some : some + 10])
    return running.result()


def errors(method: str, name: str, repetitions: int, seed: int) -> dict[str, int]:
    """How often each statement was wrong, and how often a false one was refuted."""
    known, rng = KNOWN[name], np.random.default_rng(seed)
    guarantee = known.guarantee
    epsilon = guarantee.epsilon(delta=DELTA).upper
    found = {"epsilon": 0, "p_value": 0, "mu": 0}
    for _ in range(repetitions):
        result = audited(method, known, rng, guarantee=guarantee)
        found["epsilon"] += result.epsilon.lower > epsilon
        found["p_value"] += not result.consistent
        # mu of the Gaussian mechanism is 1; for the other one there is none but the worst rate's
        found["mu"] += name == "gaussian" and result.mu.lower > 1.0
    return found


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("method", METHODS)
def test_some_audits_keep_their_confidence(method: str, name: str) -> None:
    repetitions = 15
    assert max(errors(method, name, repetitions, seed=1).values()) <= allowed(repetitions)


@pytest.fixture
def only_the_truth(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds are searched for at the truth alone: they are above it if and only if that is refuted."""
    epsilon = KNOWN[name].guarantee.epsilon(delta=DELTA).upper

    def at_truth(refuted: Callable[[float], bool], largest: float) -> float:
        truth = epsilon if largest == LARGEST_EPSILON else 1.0
        return 1.001 * truth if refuted(truth) else 0.0

    monkeypatch.setattr(single_run, "largest_refuted", at_truth)
    monkeypatch.setattr(repeated_runs, "largest_refuted", at_truth)


@pytest.mark.slow
@pytest.mark.usefixtures("only_the_truth")
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("method", METHODS)
def test_many_audits_keep_their_confidence(method: str, name: str) -> None:
    repetitions = 2000
    found = errors(method, name, repetitions, seed=2)
    print(method, name, found, flush=True)  # noqa: T201
    assert max(found.values()) <= allowed(repetitions)


def test_the_count_of_errors_can_fail() -> None:
    """A mechanism that reveals far more than it claims is caught."""
    rng = np.random.default_rng(3)
    claimed = KNOWN["gaussian"].guarantee
    loud = Known(KNOWN["gaussian"].mechanism, lambda rng, x: 5.0 * x + rng.normal(size=x.shape))
    for method in ("many runs", "sequential"):
        assert not any(audited(method, loud, rng, guarantee=claimed).consistent for _ in range(5))
