"""All numbers of a report, before they are put into words; and the report as plain data for JSON.

Which numbers are true is the business of the Guarantee; here they are only asked for, always in the
same order and of a Guarantee that was asked nothing before: equal plans give equal numbers.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import elementwise, half_open_probability, iso_date, short_repr
from sharpdp.bounds import Bound
from sharpdp.bounds.proofs import cited
from sharpdp.bracket import Bracket, Side
from sharpdp.display.progress import progress
from sharpdp.errors import InvalidArgument, NotCertified, Unsupported, WrongType
from sharpdp.plans.header import Header
from sharpdp.plans.plain_data import number_to_data
from sharpdp.plans.plan import DELTAS, Plan
from sharpdp.questions.account import Guarantee
from sharpdp.questions.derivations import Derivation
from sharpdp.report.citations import bibtex, keys
from sharpdp.report.picture import Points
from sharpdp.report.words import (
    in_words,
    neighbors,
    obligations,
    sampler,
    to_check,
    trusted,
    unit,
)

__all__ = [
    "DELTAS",
    "FALSE_POSITIVE_RATES",
    "FORMAT",
    "TITLE",
    "VERIFY",
    "Results",
    "as_data",
    "as_json",
    "asked_nothing",
    "checklist",
    "of_answer",
    "plain",
    "theorems",
    "to_dict",
    "to_json",
    "versions",
]

TITLE = "Privacy report"

VERIFY = "sharpdp verify report.json"
"""How a reader checks a report against a new computation."""

FORMAT = 2
"""Counts the changes of the format that a reader must know of.

Format 1 had no checklist and no header, and delta at epsilon 1, 2 and 4. It can still be verified.
"""

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
"""Where the success of an attack is reported."""


NO_HEADER = Header()


@runtime_checkable
class Audited(Protocol):
    """The result of an audit, which a report may tell of."""

    def summary(self, guarantee: Guarantee) -> dict[str, Any]:
        """Its title, whether it is consistent, and its sentences; an error if it is about another run."""


@dataclass(frozen=True)
class Results:
    """The contents of a report, before it is laid out.

    Args:
        guarantee: The answer that is reported.
        epsilons: Each delta that was asked, with epsilon there.
        deltas: Some epsilons, with delta there.
        rates: Some false-positive rates, with the largest true-positive rate of any attack there.
        advantage: Advantage of the best attack.
        mu: The mu of Gaussian differential privacy.
        curve: Points of the trade-off curve: false-positive rate, lower and upper false-negative rate.
        decided: The sides of epsilon that each theorem decided, at some of the deltas.
        versions: Versions of what computed the answers.
        date: What the caller says it is; None for no date.
        audits: What audits of the run found: title, whether it agrees, and sentences.
        header: What the report says about itself, but for the date.
        form: The format of its data, `FORMAT` or an earlier one.
    """

    guarantee: Guarantee
    epsilons: tuple[tuple[float, Bracket], ...]
    deltas: tuple[tuple[float, Bracket], ...]
    rates: tuple[tuple[float, Bracket], ...]
    advantage: Bracket
    mu: Bracket
    curve: Points
    decided: Mapping[Bound, tuple[Side, ...]]
    versions: Mapping[str, str]
    date: str | None = None
    audits: tuple[Mapping[str, Any], ...] = ()
    header: Header = NO_HEADER
    form: int = FORMAT

    @classmethod
    def of(
        cls,
        guarantee: Guarantee,
        *,
        delta: ArrayLike = DELTAS,
        date: str | None = None,
        audits: Iterable[Audited] = (),
        header: Header | Mapping[str, Any] | None = None,
        form: int = FORMAT,
    ) -> Results:
        """All numbers of a report, asked at the given deltas.

        Args:
            guarantee: The answer to report on, from `account`.
            delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
            date: Date to report as YYYY-MM-DD; None for no date.
            audits: Results of audits of this run.
            header: What the report says about itself: a mapping of the fields of `plans.Header`.
            form: Format of the data, 1 or 2.

        Returns:
            The numbers, always asked in the same order of a guarantee without earlier work, so that
            equal plans give equal numbers.

        Raises:
            InvalidArgument: A delta is out of range, date is no date, or the header has no such field or
                another date.
            WrongType: delta is no number or array of numbers, or header is no mapping.
            NotCertified: An answer cannot be given with a proof.
        """
        about = Header.of(header)
        if about.date is not None:
            if date not in (None, about.date):
                raise InvalidArgument(
                    f"date must be that of the header; got {date!r} and {about.date!r}."
                )
            date = about.date
        if date is not None:
            iso_date(date=date)
        asked = np.ravel(elementwise(half_open_probability, delta=delta)).tolist()
        told = tuple(audit.summary(guarantee) for audit in _checked_audits(audits))
        fresh = asked_nothing(guarantee)
        with progress("writing a report"):
            epsilons = tuple((value, fresh.epsilon(delta=value)) for value in asked)
            epsilon_values = (1.0, 2.0, 4.0) if form == 1 else _fitting(float(epsilons[0][1]))
            return cls(
                guarantee,
                epsilons,
                tuple((value, fresh.delta(epsilon=value)) for value in epsilon_values),
                tuple((rate, fresh.tpr(fpr=rate)) for rate in FALSE_POSITIVE_RATES),
                fresh.advantage(),
                fresh.mu(),
                _curve(fresh),
                _decided(fresh, asked),
                versions(),
                date,
                told,
                replace(about, date=None),
                form,
            )

    @property
    def brackets(self) -> tuple[Bracket, ...]:
        """The answers for a privacy claim: epsilon at each delta, then delta at each epsilon."""
        return tuple(bracket for _, bracket in (*self.epsilons, *self.deltas))

    @cached_property
    def plan(self) -> Plan:
        """The question as a plan."""
        answer = self.guarantee
        asked = tuple(delta for delta, _ in self.epsilons)
        return Plan(
            answer.mechanism,
            asked,
            str(answer.adjacency),
            answer.relative_width,
            answer.group_size,
        )

    @cached_property
    def unwritten(self) -> str:
        """Why the plan cannot be written; nothing if it can."""
        try:
            self.plan.to_dict()
        except Unsupported as why:
            return str(why)
        return ""


def _fitting(epsilon: float) -> tuple[float, ...]:
    """Where delta is reported: at a quarter, half and all of the epsilon of the run, in one digit.

    Beyond, delta is next to nothing; far below, it is next to everything.

    >>> _fitting(1.8282), _fitting(0.0), _fitting(float("inf"))
    ((0.5, 0.9, 2.0), (1.0,), (1.0, 2.0, 4.0))
    """
    if not epsilon > 0.0:
        return (1.0,)
    if epsilon == np.inf:
        return (1.0, 2.0, 4.0)
    return tuple(float(f"{share * epsilon:.0e}") for share in (0.25, 0.5, 1.0))


def _checked_audits(audits: object) -> list[Audited]:
    """The results of audits, if they are such."""
    listed = list(audits) if isinstance(audits, Iterable) and np.iterable(audits) else [audits]
    checked = [audit for audit in listed if isinstance(audit, Audited)]
    if isinstance(audits, Audited) or len(checked) < len(listed):
        raise WrongType(
            f"audits must be a list of results of sharpdp.audit; got {short_repr(audits)}."
        )
    return checked


def asked_nothing(guarantee: Guarantee) -> Guarantee:
    """The guarantee without the work that earlier questions left, which sharpens later answers."""
    lower, upper = (
        tuple(replace(route, composition=route.composition.fresh()) for route in side)
        for side in (guarantee.lower_derivations, guarantee.upper_derivations)
    )
    return replace(guarantee, lower_derivations=lower, upper_derivations=upper)


def _curve(guarantee: Guarantee) -> Points:
    """The trade-off curve, closer at both ends; six decimals, rounded away from the truth."""
    from sharpdp.curves.tradeoff.bands import sampled, tradeoff_band

    fpr = np.round(0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 81)), 6)
    lower, upper = tradeoff_band(sampled(guarantee), fpr)
    rounding = 1e-9  # far more than what the doubles of a band are off by
    low = np.maximum(np.floor((lower - rounding) * 1e6), 0.0) / 1e6
    high = np.minimum(np.ceil((upper + rounding) * 1e6), 1e6) / 1e6
    return tuple(zip(fpr.tolist(), low.tolist(), high.tolist(), strict=True))


def versions() -> dict[str, str]:
    """Versions of the programs that compute answers here."""
    import scipy

    from sharpdp import __version__

    return {
        "sharpdp": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


def _decided(guarantee: Guarantee, deltas: list[float]) -> dict[Bound, tuple[Side, ...]]:
    """The sides of epsilon that each theorem decided, at some of the deltas."""
    sides: dict[Bound, list[Side]] = {bound: [] for bound in guarantee.bounds}
    for side in Side:
        for bound in _deciding(guarantee, side, deltas):
            sides[bound].append(side)
    return {bound: tuple(ends) for bound, ends in sides.items()}


def _deciding(guarantee: Guarantee, side: Side, deltas: list[float]) -> list[Bound]:
    """The theorems whose epsilon is the best one of this side, at some delta."""
    is_lower = side is Side.LOWER
    every = guarantee.lower_derivations if is_lower else guarantee.upper_derivations
    if len(every) < 2:
        return [bound for derivation in every for bound in derivation.bounds]
    deciding: dict[Bound, None] = {}
    for delta in deltas:
        values = [_end(guarantee, side, derivation, delta) for derivation in every]
        best = max(values) if is_lower else min(values)
        for derivation, end in zip(every, values, strict=True):
            if end == best:
                deciding.update(dict.fromkeys(derivation.bounds))
    return list(deciding)


def _end(guarantee: Guarantee, side: Side, derivation: Derivation, delta: float) -> float:
    """The end of epsilon that one derivation alone gives."""
    try:
        bracket = guarantee.only(derivation).epsilon(delta=delta)
    except NotCertified:
        return -np.inf if side is Side.LOWER else np.inf
    return float(bracket.lower if side is Side.LOWER else bracket.upper)


Written = TypeVar("Written", covariant=True)


class OfAnswer(Protocol[Written]):
    """A form of the report, as a function of the answer that is reported."""

    def __call__(
        self,
        guarantee: Guarantee,
        *,
        delta: ArrayLike = DELTAS,
        date: str | None = None,
        audits: Iterable[Audited] = (),
        header: Header | Mapping[str, Any] | None = None,
    ) -> Written: ...


def of_answer(name: str, write: Callable[[Results], Written]) -> OfAnswer[Written]:
    """A form of the report under its public name, with the arguments that all forms have."""

    def written(
        guarantee: Guarantee,
        *,
        delta: ArrayLike = DELTAS,
        date: str | None = None,
        audits: Iterable[Audited] = (),
        header: Header | Mapping[str, Any] | None = None,
    ) -> Written:
        return write(Results.of(guarantee, delta=delta, date=date, audits=audits, header=header))

    written.__name__ = written.__qualname__ = name
    written.__annotations__["return"] = write.__annotations__["return"]
    written.__doc__ = f"""{write.__doc__}

    Args:
        guarantee: The answer to report on, from `account`.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to print as YYYY-MM-DD; none is printed by default.
        audits: Results of audits of this run, which the report tells of.
        header: What the report says about itself: a mapping of the fields of `plans.Header`.

    Returns:
        The report.

    Raises:
        InvalidArgument: A delta is out of range, date is no date, or the header has no such field.
        WrongType: delta is no number or array of numbers.
        NotCertified: An answer cannot be given with a proof.
    """
    return written


def as_json(results: Results) -> str:
    """The report on an answer as JSON of several lines; `from_json` gives the guarantee back."""
    return json.dumps(as_data(results), indent=2, allow_nan=False) + "\n"


def as_data(results: Results) -> dict[str, Any]:
    """The report on an answer as plain data: infinite ends are "inf", a missing lower side is None."""
    guarantee = results.guarantee
    run = guarantee.mechanism
    written = not results.unwritten
    return {
        "title": TITLE,
        "format": results.form,
        "mechanism": run.describe(),
        "in_words": in_words(run),
        "adjacency": guarantee.neighbors,
        "neighbors": neighbors(guarantee.adjacency, guarantee.group_size),
        "unit": unit(run, guarantee.group_size),
        "sampler": sampler(run),
        "trusted": trusted(run),
        **_answers(results),
        "tradeoff": [dict(zip(("fpr", "lower", "upper"), p, strict=True)) for p in results.curve],
        "theorems": _theorems(results),
        **({"conditions": list(guarantee.conditions)} if guarantee.conditions else {}),
        **({} if results.form == 1 else {"checklist": checklist(results)}),
        "not_covered": obligations(run, guarantee.group_size),
        "bibtex": bibtex(guarantee.bounds),
        "versions": dict(results.versions),
        "relative_width": guarantee.relative_width,
        "plan": results.plan.to_dict() if written else None,
        "hash": results.plan.hash if written else None,
        "verify": VERIFY if written else None,
        **({"header": results.header.to_dict()} if results.header != NO_HEADER else {}),
        **({} if results.date is None else {"date": results.date}),
        **({} if not results.audits else {"audits": [dict(audit) for audit in results.audits]}),
    }


def checklist(results: Results) -> list[str]:
    """Conditions of the upper ends, one thing to check in each line."""
    guarantee = results.guarantee
    deciding = [bound for bound, sides in results.decided.items() if Side.UPPER in sides]
    return to_check(
        guarantee.mechanism,
        [*(bound.needs(guarantee.adjacency) for bound in deciding), *guarantee.conditions],
        guarantee.group_size,
    )


def _answers(results: Results) -> dict[str, Any]:
    answer = results.guarantee
    return {
        "epsilon": [
            {"delta": delta, **plain(answer, bracket)} for delta, bracket in results.epsilons
        ],
        "delta": [
            {"epsilon": epsilon, **plain(answer, bracket)} for epsilon, bracket in results.deltas
        ],
        "tpr": [{"fpr": rate, **plain(answer, bracket)} for rate, bracket in results.rates],
        "advantage": plain(answer, results.advantage),
        "mu": plain(answer, results.mu),
    }


def _theorems(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "name": bound.name,
            "sides": [str(side) for side in bound.sides],
            "rigor": bound.rigor_words,
            "decided": [str(side) for side in results.decided[bound]],
            "holds_when": bound.needs(results.guarantee.adjacency) or None,
            "attained_when": bound.attained_when or None,
            "source": bound.grounds if bound.stated_by else bound.source,
            "proof": cited(bound.proof) if bound.proof else None,
            "keys": keys([bound]),
        }
        for bound in results.guarantee.bounds
    ]


def theorems(guarantee: Guarantee) -> dict[str, Any]:
    """The run and the theorems behind its answers, as plain data.

    Args:
        guarantee: The answer, from `account`.

    Returns:
        The mechanism, the neighbors, and of every bound its name, condition and source.

    >>> from sharpdp.questions.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> theorems(account(Gaussian(noise_multiplier=1.0)))["sources"]
    ['dong2022 Theorem 2.7; balle2018 Theorem 8']
    """
    from sharpdp import __version__

    return {
        "mechanism": guarantee.mechanism.describe(),
        "adjacency": guarantee.neighbors,
        "bounds": [bound.name for bound in guarantee.bounds],
        "holds_when": [bound.needs(guarantee.adjacency) or None for bound in guarantee.bounds],
        "attained_when": [bound.attained_when or None for bound in guarantee.bounds],
        "sources": [bound.grounds for bound in guarantee.bounds],
        **({"conditions": list(guarantee.conditions)} if guarantee.conditions else {}),
        "version": __version__,
    }


def plain(guarantee: Guarantee, bracket: Bracket) -> dict[str, Any]:
    """One bracket of an answer as plain data for JSON.

    Args:
        guarantee: The answer that the bracket is from.
        bracket: One of its brackets.

    Returns:
        Its quantity, lower end (None if no lower side is known), upper end and rigor. Infinite ends are
        "inf"; ends of arrays become flat lists.
    """
    return {
        "quantity": bracket.quantity,
        "lower": _json(bracket.lower) if guarantee.lower_derivations else None,
        "upper": _json(bracket.upper),
        "rigor": str(bracket.rigor),
    }


def _json(end: Any) -> Any:
    """A number, or a list of numbers, as JSON can hold it: infinities by their names."""
    if isinstance(end, np.ndarray):
        return [_json(float(number)) for number in end.ravel()]
    return number_to_data(float(end))


to_json = of_answer("to_json", as_json)
to_dict = of_answer("to_dict", as_data)
