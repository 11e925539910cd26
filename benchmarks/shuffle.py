"""sharpdp on shuffled reports beside a plain sum over all clones, and dp-accounting fed with atoms.

    python benchmarks/shuffle.py            all questions (about six minutes)
    python benchmarks/shuffle.py 1e4 1e6    only these numbers of users

No package on PyPI accounts for the shuffle model (autodp names it among its plans). What a user of PyPI
can do: sum the definition over all n values of the number of clones in floats, or list all atoms of the
pair and hand them to dp-accounting. Both do it here, measured as measuring.py says.

`excess` is how far the upper end lies above the exact pair of clones, `gap` how far the lower end, that
of randomized response, lies below the upper one: the truth for "some shared randomizer" is in between.
For many rounds the exact value is known to four digits only, from another program's bracket.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from measuring import in_process, require_peers, worker

MOST_TERMS = 10**7  # beyond, a plain sum over all clones does not fit into memory
MOST_ATOMS_USERS = 10**4  # 10^6 users have 10^9 atoms

OURS = "sharpdp"

Answer = tuple[float | None, float | None]  # (lower, upper)


@dataclass(frozen=True)
class Question:
    """One question and the exact value of the pair of clones (tests/reference/shuffle.py)."""

    users: int
    local_epsilon: float
    quantity: str
    at: float
    exact: float
    rounds: int = 1

    def __str__(self) -> str:
        rounds = f"{self.rounds} rounds of " if self.rounds > 1 else ""
        return (
            f"{rounds}{self.users:.0e} users, local epsilon {self.local_epsilon:g}: "
            f"{self.quantity} at {self.at:g}"
        )


QUESTIONS = (
    Question(10**4, 1.0, "delta", 0.04, 2.62410712645028e-6),
    Question(10**4, 1.0, "epsilon", 1e-6, 0.0432061580845),
    Question(10**6, 2.0, "delta", 0.013, 1.05574464585956e-8),
    Question(10**6, 2.0, "epsilon", 1e-8, 0.01303686958327),
    Question(10**9, 4.0, "delta", 0.0017, 3.5258940902879e-12),
    Question(10**9, 4.0, "epsilon", 1e-12, 0.001770606772),
    Question(10**12, 4.0, "delta", 5e-5, 8.3857919901292e-13),
    Question(10**12, 4.0, "epsilon", 1e-12, 4.96603887e-5),
    Question(10**4, 1.0, "epsilon", 1e-6, 1.7583, 1000),
    Question(10**4, 4.0, "epsilon", 1e-6, 19.866, 1000),
)


# --- methods ----------------------------------------------------------------------------------------


def sharpdp(question: Question, *, both: bool = True) -> Answer:
    import sharpdp as dp

    run = dp.ShuffledReports(
        users=question.users, local_epsilon=question.local_epsilon, rounds=question.rounds
    )
    answer = dp.account(run)
    if not both:
        answer = replace(answer, lower_derivations=())
    if question.quantity == "delta":
        bracket = answer.delta(epsilon=question.at)
    else:
        bracket = answer.epsilon(delta=question.at)
    return float(bracket.lower) if both else None, float(bracket.upper)


def upper_side(question: Question) -> Answer:
    return sharpdp(question, both=False)


def plain_delta(users: int, local: float, epsilon: float) -> float:
    """The definition: a sum over every number of clones, each with two binomial tails."""
    import numpy as np
    from scipy.special import bdtrc
    from scipy.stats import binom

    x, w = np.exp(epsilon), 1.0 / (np.exp(local) + 1.0)
    s = 1.0 - w - x * w
    g = (x * (1.0 - w) - w) / s
    c = np.arange(users, dtype=float)
    k = np.ceil(g * (c + 1.0) / (1.0 + g))
    heavy = np.where(k >= 2.0, bdtrc(k - 2.0, c, 0.5), 1.0)
    light = np.where(k >= 1.0, np.where(k > c, 0.0, bdtrc(np.minimum(k - 1.0, c), c, 0.5)), 1.0)
    return float(s * (binom.pmf(c, users - 1, 2.0 * w) @ (heavy - g * light)))


def plain_sum(question: Question) -> Answer:
    if question.rounds > 1 or question.users > MOST_TERMS:
        raise NotImplementedError("one round of at most 10^7 users")
    users, local = question.users, question.local_epsilon
    if question.quantity == "delta":
        return None, plain_delta(users, local, question.at)
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return plain_delta(users, local, epsilon) - question.at

    return None, float(brentq(excess, 1e-6 * local, 0.99 * local, rtol=1e-4))


def atoms(question: Question) -> Answer:
    import numpy as np
    from dp_accounting.pld import privacy_loss_distribution as library
    from scipy.stats import binom

    if question.users > MOST_ATOMS_USERS:
        raise NotImplementedError("too many atoms")
    odds = np.exp(question.local_epsilon)
    clones = binom(question.users - 1, 2.0 / (odds + 1.0))
    counts = np.arange(clones.ppf(1e-14), clones.isf(1e-14) + 1.0)
    p: dict[tuple[int, int], float] = {}
    q: dict[tuple[int, int], float] = {}
    for count, mass in zip(counts.tolist(), clones.logpmf(counts).tolist(), strict=True):
        whole = count + 1.0
        near = 8.0 * np.sqrt(whole) / 2.0
        a = np.arange(max(0.0, np.floor(whole / 2 - near)), min(whole, whole / 2 + near) + 1)
        each = mass + binom.logpmf(a, whole, 0.5) + np.log(2.0 / (whole * (odds + 1.0)))
        first = each + np.log(odds * a + whole - a)
        keys = [(int(count), int(one)) for one in a.tolist()]
        p.update(zip(keys, first.tolist(), strict=True))
        q.update(zip(keys, (each + np.log(a + odds * (whole - a))).tolist(), strict=True))
    pld = library.from_two_probability_mass_functions(
        q, p, value_discretization_interval=1e-5 * question.local_epsilon, symmetric=True
    )
    if question.rounds > 1:
        pld = pld.self_compose(question.rounds)
    if question.quantity == "delta":
        return None, float(pld.get_delta_for_epsilon(question.at))
    return None, float(pld.get_epsilon_for_delta(question.at))


METHODS: dict[str, Callable[[Question], Answer]] = {
    OURS: sharpdp,
    "sharpdp, upper side": upper_side,
    "plain sum over clones": plain_sum,
    "atoms in dp-accounting": atoms,
}


# --- judging ----------------------------------------------------------------------------------------


def shown(name: str, row: dict[str, Any], exact: float, ours: float | None) -> str:
    """One line: ends, distance from the exact pair, time, and its ratio to sharpdp's."""
    if "failed" in row:
        return f"  {name:24} {row['failed']}"
    lower = "-" if row["lower"] is None else f"{row['lower']:.7g}"
    gap = "" if row["lower"] is None else f"  gap {1 - row['lower'] / row['upper']:.1%}"
    ratio = "" if ours is None else f"  {row['seconds'] / ours:8.3g} x"
    return (
        f"  {name:24} {lower:>13} {row['upper']:>14.9g}  excess {row['upper'] / exact - 1:+.1e}"
        f"  {1e3 * row['seconds']:10.2f} ms{ratio}{gap}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("users", nargs="*", type=float, help="only these numbers of users")
    parser.add_argument("--worker", nargs=2, metavar=("INDEX", "METHOD"))
    told = parser.parse_args()
    if told.worker:
        question, method = QUESTIONS[int(told.worker[0])], METHODS[told.worker[1]]
        local = question.local_epsilon
        worker(lambda amount: method(replace(question, local_epsilon=local * (1 + amount))))
        return
    require_peers()
    for index, question in enumerate(QUESTIONS):
        if told.users and question.users not in told.users:
            continue
        print(f"\n{question} | exact pair {question.exact:.9g}")
        ours = None
        for name in METHODS:
            row = in_process(__file__, str(index), name)
            print(shown(name, row, question.exact, ours), flush=True)
            if name == OURS:
                ours = row.get("seconds")


if __name__ == "__main__":
    main()
