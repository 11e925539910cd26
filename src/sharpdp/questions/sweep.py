"""Many runs at once: `sweep` accounts each run of a grid, and answers with arrays of the grid's shape."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from math import log, prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import (
    checked_executor,
    elementwise,
    false_positive_rate,
    half_open_probability,
    invalid,
    keyword_hint,
    nonnegative,
    renyi_order,
    short_repr,
)
from sharpdp.bracket import STANDARD_WIDTH, Bracket, Rigor
from sharpdp.display import notebook
from sharpdp.display.progress import progress
from sharpdp.display.tabular import Tabular
from sharpdp.display.text_table import table_lines
from sharpdp.errors import WrongType
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.numerics.underflow import underflow_is_zero, underflow_is_zero_in_methods
from sharpdp.profile.composition import Composition
from sharpdp.profile.planning import prepare_epsilons
from sharpdp.questions.account import Guarantee, account
from sharpdp.questions.derivations import Composable

__all__ = ["Sweep", "sweep"]

Value = TypeVar("Value")

TOGETHER = 16
"""So many runs are prepared together, here or by a worker; their work is dropped before the next ones."""


@underflow_is_zero
def sweep(
    runs: Callable[..., Mechanism] | Iterable[Mechanism],
    /,
    *,
    relative_width: float = STANDARD_WIDTH,
    adjacency: Adjacency | str | None = None,
    group_size: int = 1,
    executor: Executor | None = None,
    **axes: Iterable[object],
) -> Sweep:
    """The privacy of many runs: every combination of some settings, or a list of mechanisms.

    The answers are arrays with one axis for each setting. Each of their entries is the bracket that
    `account` would give for that run. Runs of DP-SGD over Poisson batches are computed as the rows of
    one table, some times faster than one by one; all others one after the other.

    Args:
        runs: A function that takes the settings by name and returns a mechanism; or a list of mechanisms.
        relative_width: How wide a bracket may be, as a share of its upper end: from 1e-9 to 0.5.
        adjacency: Which data sets are neighbors; None for the default of each mechanism.
        group_size: In how many records neighbors differ at most.
        executor: An executor of `concurrent.futures` whose workers compute the answers, such as a process
            pool or dask's `client.get_executor()`; None for this process. Answers are the same for any
            number of workers. A setting of this name cannot be swept.
        **axes: For each setting its values, in the order of the axes of the answers.

    Returns:
        The Sweep, which answers for all runs at once.

    Raises:
        InvalidArgument: a setting has no values, or there are no runs.
        WrongType: runs is neither a function with settings nor a list of mechanisms.
        Unsupported: no theorem covers one of the runs.

    >>> import sharpdp as dp
    >>> def run(noise, batch_size):
    ...     batches = dp.PoissonBatches(dataset_size=60_000, batch_size=batch_size, epochs=10)
    ...     return dp.DPSGD(batches, noise_multiplier=noise)
    >>> answers = dp.sweep(run, batch_size=[128, 512], noise=[0.8, 1.0, 1.5])
    >>> answers.epsilon(delta=1e-5).upper.round(3).tolist()
    [[1.244, 0.734, 0.384], [2.872, 1.668, 0.841]]
    >>> print(answers.table(delta=1e-5))
      batch_size  noise  epsilon at least   at most
             128    0.8           1.24376   1.24377
             128      1          0.733895  0.733896
             128    1.5          0.384109   0.38411
             512    0.8           2.87204   2.87205
             512      1            1.6677   1.66771
             512    1.5           0.84105  0.841051
    """
    if callable(runs):
        named = {name: _values(name, values) for name, values in axes.items()}
        if not named:
            raise WrongType(
                "runs is a function, and no setting has values: give them by name, such as "
                "noise=[0.8, 1.0, 1.2]."
            )
        combinations = itertools.product(*named.values())
        mechanisms = [runs(**dict(zip(named, values, strict=True))) for values in combinations]
    else:
        if axes:
            raise WrongType("runs must be a function if settings have values.")
        mechanisms = list(_values("runs", runs))
        named = {}
    for mechanism in mechanisms:
        if not isinstance(mechanism, Mechanism):
            raise WrongType(
                f"runs must be mechanisms, or a function that returns one; got {short_repr(mechanism)}."
            )
    checked_executor(executor)
    guarantees = np.empty(len(mechanisms), dtype=object)
    with progress("computing bounds", parts=len(mechanisms)) as task:
        for index, mechanism in enumerate(mechanisms):
            guarantees[index] = account(
                mechanism,
                relative_width=relative_width,
                adjacency=adjacency,
                group_size=group_size,
            )
            task.advance()
    axis_values = named or {"run": tuple(mechanism.describe() for mechanism in mechanisms)}
    shape = tuple(len(values) for values in axis_values.values())
    return Sweep(axis_values, guarantees.reshape(shape), executor)


def _values(name: str, values: Iterable[Value]) -> tuple[Value, ...]:
    """The values of one setting, at least one."""
    if isinstance(values, str | bytes) or not np.iterable(values):
        raise WrongType(f"{name} must be a list of values; got {short_repr(values)}.")
    listed = tuple(values.tolist()) if isinstance(values, np.ndarray) else tuple(values)
    if not listed:
        raise invalid(name, "a list with at least one value", list(listed))
    return listed


@underflow_is_zero_in_methods
@dataclass(frozen=True, eq=False)
class Sweep(Tabular):
    """Guarantees of many runs; each method answers one question for all of them.

    Made by `sweep`. An answer is a Bracket of arrays with one axis for each setting; if the question is
    about an array, such as several deltas, its axes follow.

    Args:
        axes: The settings by name, each with its values.
        guarantees: For each run its Guarantee, as an array with one axis for each setting.
        executor: Whose workers compute the answers; None for this process.
    """

    axes: Mapping[str, Sequence[object]]
    guarantees: NDArray[np.object_] = field(repr=False)
    executor: Executor | None = field(repr=False, default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each setting has."""
        return self.guarantees.shape

    @keyword_hint
    def epsilon(self, *, delta: ArrayLike) -> Bracket:
        """Brackets for the smallest epsilon at which each run is (epsilon, delta)-DP.

        Args:
            delta: One delta in [0, 1), or an array of them.

        Returns:
            The brackets; an upper end is infinite where no finite epsilon is proved.

        Raises:
            InvalidArgument: a delta is outside [0, 1), or the array is empty.
            WrongType: a delta is not a number.
            NotCertified: double precision is not enough for one of the runs.
        """
        return self._answer("epsilon", "delta", elementwise(half_open_probability, delta=delta))

    @keyword_hint
    def delta(self, *, epsilon: ArrayLike) -> Bracket:
        """Brackets for the smallest delta at which each run is (epsilon, delta)-DP.

        Args:
            epsilon: One finite epsilon >= 0, or an array of them.

        Returns:
            The brackets, within [0, 1].

        Raises:
            InvalidArgument: an epsilon is negative or not finite, or the array is empty.
            WrongType: an epsilon is not a number.
            NotCertified: double precision is not enough for one of the runs.
        """
        return self._answer("delta", "epsilon", elementwise(nonnegative, epsilon=epsilon))

    @keyword_hint
    def tpr(self, *, fpr: ArrayLike) -> Bracket:
        """Brackets for the largest true-positive rate of any attack on each run.

        Args:
            fpr: One false-positive rate in [0, 1], or an array of them.

        Returns:
            The brackets, between fpr and 1.

        Raises:
            InvalidArgument: an fpr is outside [0, 1], or the array is empty.
            WrongType: an fpr is not a number.
            NotCertified: double precision is not enough for one of the runs.
        """
        return self._answer("tpr", "fpr", elementwise(false_positive_rate, fpr=fpr))

    @keyword_hint
    def renyi(self, *, order: ArrayLike) -> Bracket:
        """Brackets for the Renyi divergence of an order > 1 of each run.

        Args:
            order: One finite order > 1, or an array of them.

        Returns:
            The brackets; an upper end is infinite where no finite divergence is proved.

        Raises:
            InvalidArgument: an order is not finite or not above 1, or the array is empty.
            WrongType: an order is not a number.
            NotCertified: double precision is not enough for one of the runs.
        """
        return self._answer("renyi", "order", elementwise(renyi_order, order=order))

    @keyword_hint
    def table(self, *, delta: float) -> str:
        """Every run in a line of plain text: its settings, and both ends of epsilon.

        Args:
            delta: One delta in [0, 1).

        Returns:
            The lines, the first of which has the headings.

        Raises:
            InvalidArgument: delta is outside [0, 1).
            WrongType: delta is not a number.
            NotCertified: double precision is not enough for one of the runs.
        """
        answer = self.epsilon(delta=half_open_probability(delta=delta))
        intervals = zip(
            np.ravel(answer.lower).tolist(), np.ravel(answer.upper).tolist(), strict=True
        )
        rows = [(*self.axes, "epsilon at least", "at most")]
        for settings, interval in zip(
            itertools.product(*self.axes.values()), intervals, strict=True
        ):
            lower, upper = f"{Bracket(*interval):.6g}".split(" to ")
            rows.append((*map(_shown, settings), lower, upper))
        right = {*range(len(rows[0]))} - {
            index
            for index, values in enumerate(self.axes.values())
            if any(isinstance(value, str | type) for value in values)
        }
        return "\n".join(table_lines(rows, right=right))

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        r"""The runs as dictionaries: their settings, and both ends of epsilon.

        Args:
            **asked: delta, in [0, 1).

        Returns:
            One dictionary per run, the last setting varying fastest.

        Raises:
            WrongType: there is no delta, or it is no number.
            InvalidArgument: delta is outside [0, 1).

        >>> from sharpdp.mechanisms import Gaussian
        >>> some = sweep(lambda noise: Gaussian(noise_multiplier=noise), noise=[1.0, 2.0])
        >>> print(some.to_latex(delta=1e-5))
        \begin{tabular}{rrr}
        \toprule
        noise & epsilon lower & epsilon upper \\
        \midrule
        1 & 4.37717 & 4.37718 \\
        2 & 1.99309 & 1.9931 \\
        \bottomrule
        \end{tabular}
        """
        if set(asked) != {"delta"}:
            raise WrongType(f"a sweep is asked at one delta, such as delta=1e-5; got {asked}.")
        answer = self.epsilon(delta=half_open_probability(**asked))
        intervals = zip(
            np.ravel(answer.lower).tolist(), np.ravel(answer.upper).tolist(), strict=True
        )
        return [
            {
                **{
                    name: value if isinstance(value, int | float) else _shown(value)
                    for name, value in zip(self.axes, settings, strict=True)
                },
                "epsilon_lower": lower,
                "epsilon_upper": upper,
            }
            for settings, (lower, upper) in zip(
                itertools.product(*self.axes.values()), intervals, strict=True
            )
        ]

    def plot(self, ax: Any = None, *, delta: float, title: str | None = "auto") -> Any:
        """Draw epsilon against the last setting, one band for each choice of the others (extra `plots`).

        Args:
            ax: Matplotlib axes to draw on; None for a new figure.
            delta: Delta at which epsilon is asked for, in [0, 1).
            title: Heading of the picture; None for none, "auto" for its own.

        Returns:
            The axes.

        Raises:
            MissingExtra: matplotlib is not installed.
            WrongType: ax is neither axes nor None, or delta is no number.
            InvalidArgument: delta is outside [0, 1).
        """
        from sharpdp import plots

        return plots.sweep(self, delta=delta, ax=ax, title=title)

    def _repr_html_(self) -> str:
        """The sweep as a notebook shows it: its settings; epsilon is asked with `table`."""
        rows = [
            (
                name,
                ", ".join(_shown(value) for value in values[:8])
                + (", ..." if len(values) > 8 else ""),
            )
            for name, values in self.axes.items()
        ]
        return notebook.table(("setting", "values"), rows, title=str(self))

    def __repr__(self) -> str:
        """The sweep in one line."""
        return f"<{self}>"

    def __str__(self) -> str:
        """How many runs there are, and of which settings."""
        settings = " x ".join(f"{name} ({len(values)})" for name, values in self.axes.items())
        return f"Sweep of {prod(self.shape)} runs: {settings}"

    def _answer(self, quantity: str, given: str, values: float | NDArray[np.float64]) -> Bracket:
        """The brackets of all runs in one."""
        flat: list[Guarantee] = self.guarantees.ravel().tolist()
        chunks = [flat[start : start + TOGETHER] for start in range(0, len(flat), TOGETHER)]
        answers: list[Bracket] = []
        with progress(f"computing {quantity} of {len(flat)} runs", parts=len(flat)) as task:
            for answer in self._brackets(chunks, quantity, given, values):
                answers.append(answer)
                task.advance()
        low, high = (
            np.reshape(ends, (*self.shape, *np.shape(values)))
            for ends in zip(*((answer.lower, answer.upper) for answer in answers), strict=True)
        )
        rigor = Rigor.weakest(answer.rigor for answer in answers)
        context = _context([answer.context for answer in answers])
        modules = dict.fromkeys(module for answer in answers for module in answer.stated_by)
        return Bracket(low, high, rigor, quantity, context, stated_by=tuple(modules))

    def _brackets(
        self,
        chunks: list[list[Guarantee]],
        quantity: str,
        given: str,
        values: float | NDArray[np.float64],
    ) -> Iterator[Bracket]:
        """The answers in the order of the runs, computed here or by the workers."""
        if self.executor is None:
            for chunk in chunks:
                yield from _answers(chunk, quantity, given, values)
            return
        futures = [
            self.executor.submit(_answers_of, list(map(_settings, chunk)), quantity, given, values)
            for chunk in chunks
        ]
        try:
            for future in futures:
                yield from future.result()
        finally:
            for future in futures:
                future.cancel()


Settings = tuple[Mechanism, Adjacency, float, int]


def _settings(guarantee: Guarantee) -> Settings:
    """The settings with which a worker makes the guarantee again."""
    return (
        guarantee.mechanism,
        guarantee.adjacency,
        guarantee.relative_width,
        guarantee.group_size,
    )


def _answers_of(
    runs: Sequence[Settings], quantity: str, given: str, values: float | NDArray[np.float64]
) -> list[Bracket]:
    """The answers of some runs, for another process."""
    guarantees = [
        account(mechanism, adjacency=adjacency, relative_width=width, group_size=group_size)
        for mechanism, adjacency, width, group_size in runs
    ]
    return list(_answers(guarantees, quantity, given, values))


def _answers(
    guarantees: Sequence[Guarantee],
    quantity: str,
    given: str,
    values: float | NDArray[np.float64],
) -> Iterator[Bracket]:
    """The answers of some runs, whose tables are made together."""
    runs = _compositions(guarantees)
    if quantity == "epsilon":
        for delta in np.ravel(values)[np.ravel(values) > 0.0].tolist():
            prepare_epsilons(runs, log(delta))
    for guarantee in guarantees:
        yield getattr(guarantee, quantity)(**{given: values})
    for run in runs:
        run.forget()


def _compositions(guarantees: Iterable[Guarantee]) -> list[Composition]:
    """The compositions that the guarantees rest on, equal ones of one guarantee once."""
    runs: list[Composable] = []
    for guarantee in guarantees:
        runs += dict.fromkeys(way.composition for way in guarantee.derivations)
    return [run for run in runs if isinstance(run, Composition)]


def _context(contexts: list[str]) -> str:
    """The context that all answers share; if they differ, the question and their number."""
    if len(set(contexts)) == 1:
        return contexts[0]
    asked = contexts[0].split(" | ")[0]
    wide = sum("wider than asked" in context or "gap between" in context for context in contexts)
    note = f", {wide} of them wider than asked" if wide else ""
    return f"{asked} | {len(contexts)} runs{note}"


def _shown(value: object) -> str:
    """A setting's value in a table."""
    if isinstance(value, type):
        return value.__name__
    return f"{value:g}" if isinstance(value, float) else str(value)
