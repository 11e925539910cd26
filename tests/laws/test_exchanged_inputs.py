"""Both directions count: an answer about (P, Q) is one about (Q, P), and is the worse of the two.

In these runs the two directions are closer to each other than a rough look at one of them is sharp, and
the one that is asked second is the worse one for one of the two orders.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

import sharpdp as dp

CLOSE = {305: 314, 355: 304, 375: 1611, 438: 299}
"""Seeds of pairs whose directions differ by a few thousandths of epsilon, and how often they are run."""


def pmfs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    rng.uniform()
    p = rng.dirichlet(np.full(size, 2.0))
    q = p * np.exp(rng.normal(0.0, rng.uniform(0.02, 0.7), size))
    return p, q / q.sum()


@pytest.mark.parametrize("delta", [1e-2, 1e-4])
@pytest.mark.parametrize(("seed", "times"), CLOSE.items())
def test_exchanging_the_inputs_changes_no_answer(seed: int, times: int, delta: float) -> None:
    p, q = pmfs(seed)
    ahead, behind = (
        dp.account(dp.FinitePair(p=one.tolist(), q=two.tolist()) * times).epsilon(delta=delta)
        for one, two in ((p, q), (q, p))
    )
    assert ahead.lower <= behind.upper
    assert behind.lower <= ahead.upper


def exact_delta(p: np.ndarray, q: np.ndarray, times: int, epsilon: float) -> float:
    """All results of three outcomes, by how often each occurs."""
    first = np.arange(times + 1.0)[:, None]
    second = np.arange(times + 1.0)[None, :]
    counts = np.stack(np.broadcast_arrays(first, second, times - first - second))
    counts = counts[:, counts[2] >= 0.0]
    ways = gammaln(times + 1.0) - gammaln(counts + 1.0).sum(axis=0)
    log_p, log_q = (ways + np.log(law) @ counts for law in (p, q))
    return float(np.sum(np.maximum(np.exp(log_p) - np.exp(log_q + epsilon), 0.0)))


@pytest.mark.underflows
@pytest.mark.parametrize("exchanged", [False, True])
def test_the_worse_direction_is_not_dropped(*, exchanged: bool) -> None:
    p, q = pmfs(375)
    times, delta = CLOSE[375], 1e-2
    laws = (q, p) if exchanged else (p, q)
    pair = dp.FinitePair(p=laws[0].tolist(), q=laws[1].tolist())
    answer = dp.account(pair * times).epsilon(delta=delta)
    at_lower, at_upper = (
        max(exact_delta(p, q, times, end), exact_delta(q, p, times, end))
        for end in (float(answer.lower), float(answer.upper))
    )
    assert at_upper <= delta * (1.0 + 1e-8)
    assert at_lower >= delta * (1.0 - 1e-8)
