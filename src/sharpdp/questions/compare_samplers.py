"""The cost of batch schemes: `compare_samplers(noise_multiplier=..., dataset_size=..., ...)`.

The same training run over every batch scheme, each accounted as it is: epsilon at one delta, and how
many times that of Poisson batches. Owns the table; the numbers come from `account`.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any

from sharpdp._validate import (
    count,
    invalid,
    is_among,
    nonnegative,
    open_probability,
    zero_or_scale,
)
from sharpdp.batches import (
    BallsAndBins,
    BatchScheme,
    DeterministicBatches,
    FixedSizeBatches,
    PoissonBatches,
    RandomAllocation,
    ShuffledBatches,
    TruncatedPoissonBatches,
)
from sharpdp.bracket import STANDARD_WIDTH, Bracket, Rigor
from sharpdp.display import notebook
from sharpdp.display.outward_digits import FEW
from sharpdp.display.progress import progress
from sharpdp.display.tabular import NamedRows, Plotted, Tabular
from sharpdp.display.text_table import table_lines, wrapped
from sharpdp.errors import InvalidArgument, NotCertified, Unsupported
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.mechanisms.composed import NO_LESS_NOISE
from sharpdp.mechanisms.composed import notion as named
from sharpdp.numerics.special import betainc
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import account, checked_width
from sharpdp.questions.calibrate import calibrate

__all__ = [
    "SamplerComparison",
    "SamplerRow",
    "compare_samplers",
    "padded_size",
    "sampler_rows",
    "schemes_for",
]

BASIS = "Poisson"
"""What the others are compared with."""

DISPLACED = (
    "Fixed-size batches cost more than Poisson batches because drawing one example displaces another: "
    "the sum of gradients changes by up to twice the clipping norm."
)
"""What users of other accountants do not expect."""


@dataclass(frozen=True)
class SamplerRow:
    """One batch scheme: the epsilon of the run over it, or the reason why there is none.

    Args:
        name: Name of the scheme, such as "Poisson" or "balls-and-bins".
        scheme: The batch scheme; None if these numbers do not allow one.
        adjacency: Which data sets are neighbors.
        epsilon: Bracket for epsilon; None if there is none.
        ratio: Bracket for epsilon over that of Poisson batches; None if either is missing.
        reason: Why there is no epsilon; empty if there is one.
    """

    name: str
    scheme: BatchScheme | None
    adjacency: Adjacency
    epsilon: Bracket | None
    ratio: Bracket | None
    reason: str = ""

    @property
    def lower(self) -> float:
        """The lower end of epsilon; not a number if there is none."""
        return math.nan if self.epsilon is None else float(self.epsilon.lower)

    @property
    def upper(self) -> float:
        """The upper end of epsilon; not a number if there is none."""
        return math.nan if self.epsilon is None else float(self.epsilon.upper)

    @property
    def shown(self) -> tuple[str, str]:
        """Epsilon in digits and its ratio in few, rounded outwards; dashes if there are none."""
        return (
            "-" if self.epsilon is None else self.epsilon.shown(),
            "-" if self.ratio is None else self.ratio.shown(FEW),
        )


@dataclass(frozen=True)
class SamplerComparison(NamedRows[SamplerRow], Tabular, Plotted):
    """One training run over every batch scheme, the smallest epsilon first.

    Args:
        noise_multiplier: Noise standard deviation over the clipping norm.
        dataset_size: Number of examples.
        batch_size: Examples per batch.
        epochs: Passes over the data.
        delta: Delta at which epsilon is asked for.
        rows: The schemes, those without an epsilon last.
    """

    noise_multiplier: float
    dataset_size: int
    batch_size: int
    epochs: int
    delta: float
    rows: tuple[SamplerRow, ...] = field(repr=False)

    _row_word = "scheme"

    def describe(self) -> str:
        """The training run in one line.

        Returns:
            The noise multiplier, the epochs and the sizes in words.
        """
        epochs = f"{self.epochs} epoch{'s' if self.epochs > 1 else ''}"
        return (
            f"DP-SGD, noise multiplier {self.noise_multiplier:.12g}, {epochs} over "
            f"{self.dataset_size:,} examples in batches of {self.batch_size:,}"
        )

    def __str__(self) -> str:
        """A table with bars, then what the schemes are."""
        longest = max((row.upper for row in self.rows if row.upper < math.inf), default=1.0)
        headings = ("batches", "epsilon", f"x {BASIS}", "neighbors", "")
        table = [headings, *(_cells(row, longest) for row in self.rows)]
        lines = [f"epsilon at delta={self.delta:g} | {self.describe()}"]
        lines += table_lines(table, right={1, 2})
        for row in self.rows:
            text = row.reason or (row.scheme.describe() if row.scheme else "")
            title = f"{row.name}: {text}" if row.reason else text
            lines += wrapped(title)
        return "\n".join([*lines, *(line for note in self.notes for line in wrapped(note))])

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on surprising rows of the table, with the reason; none if there are none."""
        rows = {row.name: row for row in self.rows if row.adjacency is Adjacency.ZERO_OUT}
        if "fixed size" not in rows or BASIS not in rows:
            return ()
        return (DISPLACED,) if rows["fixed size"].lower > rows[BASIS].upper else ()

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        most = max((row.upper for row in self.rows if row.upper < math.inf), default=1.0)
        rows = [
            (
                row.name,
                *row.shown,
                "" if row.epsilon is None else notebook.bar(row.lower, row.upper, most),
                row.reason,
            )
            for row in self.rows
        ]
        head = ("batches", "epsilon", f"x {BASIS}", "", "")
        title = f"epsilon at delta={self.delta:g}: {self.describe()}"
        return notebook.table(head, rows, title=title, notes=self.notes)

    def smallest_noise(self, name: str, *, epsilon: float, relative_error: float = 1e-3) -> float:
        """The smallest noise multiplier over one scheme that meets epsilon at the table's delta.

        It tells what a choice of batches costs in noise.

        Args:
            name: Name of the scheme, as in its row.
            epsilon: Target epsilon, at least 0.
            relative_error: How far above the smallest provable value the result may be, relative to it,
                from 1e-8 to 0.5.

        Returns:
            The noise multiplier, on the safe side; see `calibrate` for what it says about itself.

        Raises:
            InvalidArgument: There is no scheme of this name, an argument is out of range, or no noise
                multiplier meets the target.
            WrongType: epsilon or relative_error is no number.
            Unsupported: The table has no epsilon for this scheme.
            NotCertified: Double precision is not enough for a bound at a value that had to be tried.

        >>> table = compare_samplers(
        ...     noise_multiplier=1.0, dataset_size=1000, batch_size=100, epochs=1, delta=1e-5
        ... )
        >>> round(table.smallest_noise("deterministic", epsilon=1.0), 2)  # the Gaussian mechanism
        3.73
        """
        names = [row.name for row in self.rows]
        if not is_among(names, name):
            raise invalid("name", f"one of {', '.join(map(repr, sorted(names)))}", name)
        row = self[name]
        scheme = row.scheme
        if scheme is None or row.epsilon is None:
            raise Unsupported(f"nothing is known over {name} batches here: {row.reason}")
        return calibrate(
            lambda noise: DPSGD(scheme, noise_multiplier=noise),
            epsilon=nonnegative(epsilon=epsilon),
            delta=self.delta,
            adjacency=row.adjacency,
            relative_error=relative_error,
            whole=False,
        )

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The schemes as dictionaries, the smallest epsilon first; nothing more is asked.

        Each has both ends of epsilon and of its ratio to Poisson batches, the neighbors, and why it has
        no epsilon.
        """
        return [
            {
                "batches": row.name,
                "epsilon_lower": None if row.epsilon is None else row.lower,
                "epsilon_upper": None if row.epsilon is None else row.upper,
                "ratio_lower": None if row.ratio is None else float(row.ratio.lower),
                "ratio_upper": None if row.ratio is None else float(row.ratio.upper),
                "neighbors": str(row.adjacency),
                "reason": row.reason,
            }
            for row in self.rows
        ]

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw the epsilon of each scheme as a bar (needs the extra `plots`)."""
        from sharpdp import plots

        return plots.samplers(self, ax=ax, title=title)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON.

        Returns:
            A dictionary; an infinite value is "inf".
        """
        from sharpdp import __version__

        return {
            "quantity": "epsilon",
            "delta": self.delta,
            "noise_multiplier": self.noise_multiplier,
            "dataset_size": self.dataset_size,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
            "samplers": [_plain(row) for row in self.rows],
            "version": __version__,
        }


@underflow_is_zero
def compare_samplers(
    *,
    noise_multiplier: float,
    dataset_size: int,
    batch_size: int,
    epochs: int,
    delta: float,
    physical_batch_size: int | None = None,
    adjacency: Adjacency | str = Adjacency.ZERO_OUT,
    relative_width: float = STANDARD_WIDTH,
) -> SamplerComparison:
    """Epsilon of the same training run over every batch scheme, and its ratio to Poisson batches.

    Args:
        noise_multiplier: Noise standard deviation over the clipping norm, from 1e-30 to 1e30, or 0.
        dataset_size: Number of examples, at least 1.
        batch_size: Examples per batch, or on average if that is random; from 1 to dataset_size.
        epochs: Passes over the data, 0 or more.
        delta: Delta at which epsilon is asked for, in (0, 1).
        physical_batch_size: Size at which truncated Poisson batches are cut. None for the smallest at
            which the chance that any batch of the run is cut is at most delta / 100.
        adjacency: Which data sets are neighbors. Zero-out by default, since every scheme has a theorem
            for it; a scheme without one for another notion says so in its row.
        relative_width: Largest relative width of the brackets for epsilon, from 1e-9 to 0.5. One that
            theorems leave wider stays wider.

    Returns:
        One row per scheme, the smallest upper end first; one without an epsilon says why.

    Raises:
        InvalidArgument: An argument is out of range.
        WrongType: An argument has the wrong type.

    >>> table = compare_samplers(
    ...     noise_multiplier=1.0, dataset_size=1000, batch_size=100, epochs=1, delta=1e-5
    ... )
    >>> 4.3771780956812 in table["deterministic"].epsilon  # the Gaussian mechanism
    True
    >>> bool(table["Poisson"].upper < table["deterministic"].lower)
    True
    """
    asked: dict[str, Any] = {
        "noise_multiplier": zero_or_scale(noise_multiplier=noise_multiplier, hint=NO_LESS_NOISE),
        "dataset_size": count(dataset_size=dataset_size, hint="It counts examples."),
        "batch_size": count(batch_size=batch_size, hint="It counts examples of a batch."),
        "epochs": count(least=0, epochs=epochs, hint="It counts passes over the data."),
        "delta": open_probability(delta=delta),
    }
    rows = sampler_rows(
        **asked,
        physical_batch_size=physical_batch_size,
        adjacency=adjacency,
        relative_width=relative_width,
    )
    ordered = sorted(rows, key=lambda row: (row.epsilon is None, row.upper, row.lower))
    return SamplerComparison(**asked, rows=tuple(ordered))


def sampler_rows(
    *,
    noise_multiplier: float,
    dataset_size: int,
    batch_size: int,
    epochs: int,
    delta: float,
    physical_batch_size: int | None = None,
    adjacency: Adjacency | str = Adjacency.ZERO_OUT,
    relative_width: float = STANDARD_WIDTH,
    names: Container[str] | None = None,
) -> Iterator[SamplerRow]:
    """The rows of `compare_samplers` as they are computed, Poisson batches first.

    Arguments and errors are as in `compare_samplers`; sizes are checked when batches are made. If
    `names` is given, only the schemes with these names are computed; without Poisson batches among them,
    the rows have no ratio.
    """
    notion = named(adjacency)
    hint = "It is the largest batch that fits into memory."
    physical = (
        None
        if physical_batch_size is None
        else count(physical_batch_size=physical_batch_size, hint=hint)
    )
    width = checked_width(relative_width)
    plans = _plans(dataset_size, batch_size, epochs, delta, physical)
    plans[BASIS]()  # what is wrong with the numbers is said once, not in every row
    wanted = {name: plan for name, plan in plans.items() if names is None or name in names}
    basis = None
    with progress("comparing batch schemes", len(wanted)) as task:
        for name, plan in wanted.items():
            scheme, epsilon, reason = _answered(plan, noise_multiplier, delta, notion, width)
            basis = epsilon if name == BASIS else basis
            yield SamplerRow(name, scheme, notion, epsilon, _ratio(epsilon, basis), reason)
            task.advance()


def schemes_for(
    *, dataset_size: int, batch_size: int, epochs: int, delta: float
) -> dict[str, BatchScheme]:
    """The batch schemes of `compare_samplers` by name, without their answers.

    Args:
        dataset_size: Number of examples, at least 1.
        batch_size: Examples per batch, from 1 to dataset_size.
        epochs: Passes over the data, 0 or more.
        delta: Delta of the guarantee, in (0, 1); truncated batches are padded for it.

    Returns:
        The schemes that these numbers allow, Poisson batches first.

    Raises:
        InvalidArgument: An argument is out of range.
        WrongType: An argument has the wrong type.

    >>> list(schemes_for(dataset_size=100, batch_size=10, epochs=1, delta=1e-5))[:2]
    ['Poisson', 'deterministic']
    """
    plans = _plans(dataset_size, batch_size, epochs, delta, None)
    schemes = {BASIS: plans.pop(BASIS)()}  # what is wrong with the numbers is said here
    for name, plan in plans.items():
        with contextlib.suppress(InvalidArgument, Unsupported):
            schemes[name] = plan()
    return schemes


def padded_size(*, dataset_size: int, batch_size: int, steps: int, delta: float) -> int:
    """The smallest batch size that all Poisson batches of a run fit into, but for delta / 100.

    The chance that some batch does not fit is at most steps P(Binomial(n, b/n) > size).

    Args:
        dataset_size: Number n of examples, at least batch_size.
        batch_size: Expected examples b per batch, at least 1.
        steps: Batches of the run, at least 1.
        delta: Delta of the guarantee, in (0, 1). The arguments are not checked.

    Returns:
        The size, from batch_size to dataset_size.

    >>> padded_size(dataset_size=10**6, batch_size=1000, steps=1000, delta=1e-6)
    1219
    """
    rate = batch_size / dataset_size

    def fits(size: int) -> bool:
        # P(more than m) is the incomplete beta function at m + 1 and n - m
        beyond = float(betainc(size + 1.0, float(dataset_size - size), rate))
        return steps * beyond <= 1e-2 * delta

    return batch_size + bisect_left(range(batch_size, dataset_size), 1, key=fits)


Planned = Callable[[], BatchScheme]


def _plans(
    dataset_size: int, batch_size: int, epochs: int, delta: float, physical: int | None
) -> dict[str, Planned]:
    """Each scheme by name, made when it is asked for."""
    sizes: dict[str, Any] = {
        "dataset_size": dataset_size,
        "batch_size": batch_size,
        "epochs": epochs,
    }
    steps = -(-dataset_size // batch_size)

    def truncated() -> BatchScheme:
        total = steps * epochs
        if physical is not None:
            return TruncatedPoissonBatches(**sizes, physical_batch_size=physical)
        kept = padded_size(
            dataset_size=dataset_size, batch_size=batch_size, steps=total, delta=delta
        )
        return TruncatedPoissonBatches(**sizes, physical_batch_size=kept)

    return {
        BASIS: lambda: PoissonBatches(**sizes),
        "deterministic": lambda: DeterministicBatches(**sizes),
        "truncated Poisson": truncated,
        "balls-and-bins": lambda: BallsAndBins(**sizes),
        "kept bins": lambda: BallsAndBins(**sizes, order="kept"),
        "random allocation": lambda: RandomAllocation(
            steps=steps, epochs=epochs, dataset_size=dataset_size
        ),
        "fixed size": lambda: FixedSizeBatches(
            dataset_size=dataset_size, batch_size=batch_size, steps=steps * epochs
        ),
        "with replacement": lambda: FixedSizeBatches(
            dataset_size=dataset_size, batch_size=batch_size, steps=steps * epochs, replacement=True
        ),
        "shuffled": lambda: ShuffledBatches(**sizes),
        "shuffled, one left out": lambda: ShuffledBatches(**sizes, left_out=1, drop_last=True),
    }


def _answered(
    plan: Planned, noise: float, delta: float, adjacency: Adjacency, width: float
) -> tuple[BatchScheme | None, Bracket | None, str]:
    """The scheme and its epsilon, or why there is none."""
    scheme = None
    try:
        scheme = plan()
        run = DPSGD(scheme, noise_multiplier=noise)
        answer = account(run, relative_width=width, adjacency=adjacency)
        return scheme, answer.epsilon(delta=delta), ""
    except (InvalidArgument, Unsupported, NotCertified) as why:
        return scheme, None, str(why).partition(" There are")[0]


def _ratio(epsilon: Bracket | None, basis: Bracket | None) -> Bracket | None:
    """How many times the basis, both brackets taken at their worst; none of 0, or of infinity."""
    if epsilon is None or basis is None or basis.upper == 0.0 or basis.lower == math.inf:
        return None
    if epsilon is basis:
        return Bracket(1.0, 1.0, quantity="ratio")
    rigor = Rigor.weakest([epsilon.rigor, basis.rigor])
    low = _divided(float(epsilon.lower), float(basis.upper))
    high = _divided(float(epsilon.upper), float(basis.lower))
    return Bracket(math.nextafter(low, 0.0), math.nextafter(high, math.inf), rigor, "ratio")


def _divided(above: float, below: float) -> float:
    if math.isinf(below):
        return 0.0
    return above / below if below > 0.0 else math.inf


def _cells(row: SamplerRow, longest: float) -> tuple[str, ...]:
    """One line of the table: the bar is full up to the lower end, and dashed up to the upper one."""
    if row.epsilon is None:
        return row.name, *row.shown, str(row.adjacency), ""
    sure, may_be = (round(24 * min(end / (longest or 1.0), 1.0)) for end in (row.lower, row.upper))
    may = may_be - sure
    bar = "#" * sure + "-" * may
    return row.name, *row.shown, str(row.adjacency), bar


def _plain(row: SamplerRow) -> dict[str, Any]:
    """One row as plain data."""

    def ends(bracket: Bracket | None) -> dict[str, Any]:
        if bracket is None:
            return {"lower": None, "upper": None}
        both = {"lower": float(bracket.lower), "upper": float(bracket.upper)}
        return {side: value if math.isfinite(value) else str(value) for side, value in both.items()}

    ratio = ends(row.ratio)
    return {
        "name": row.name,
        "batches": None if row.scheme is None else row.scheme.describe(),
        "adjacency": str(row.adjacency),
        **ends(row.epsilon),
        "ratio_lower": ratio["lower"],
        "ratio_upper": ratio["upper"],
        "reason": row.reason or None,
    }
