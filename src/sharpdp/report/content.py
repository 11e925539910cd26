"""A report as sections of blocks, the same for every format: sentences, brackets, a picture, a text."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Context, Decimal

from sharpdp.accounting import Guarantee
from sharpdp.bounds import Bound
from sharpdp.bracket import Bracket, Rigor, Side
from sharpdp.mechanisms import Mechanism
from sharpdp.report.citations import bibtex
from sharpdp.report.outward_digits import FEW, ROUND_CEILING, ROUND_FLOOR, digits, percent
from sharpdp.report.results import VERIFY, Findings, Points
from sharpdp.report.words import (
    attacker_goal,
    in_words,
    neighbors,
    obligations,
    parameters,
    sampler,
    trusted,
    unit,
)

__all__ = [
    "Brackets",
    "Code",
    "Items",
    "Picture",
    "Section",
    "Table",
    "line",
    "sections",
    "short",
]

LARGEST_EXPONENT = 20.0
"""Beyond this e^epsilon is no factor that anyone pictures."""

CERTIFIED = (
    "Certified: the upper ends hold, for what was run and for these neighbors, if the conditions "
    "above do; no analysis can go below the lower ends, since something that the conditions allow "
    "attains them. The errors of discretization, truncation and rounding are bounded and counted in."
)


@dataclass(frozen=True)
class Items:
    """Sentences, one after the other."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Brackets:
    """Answers: what was given, what was asked, and the bracket; the lower end may be missing."""

    rows: tuple[tuple[str, Bracket], ...]
    guarantee: Guarantee


@dataclass(frozen=True)
class Picture:
    """The trade-off curve."""

    points: Points
    caption: str


@dataclass(frozen=True)
class Code:
    """A text for machines under a title."""

    title: str
    language: str
    text: str


Block = Items | Table | Brackets | Picture | Code


@dataclass(frozen=True)
class Section:
    """A heading with its blocks."""

    title: str
    blocks: tuple[Block, ...]


def sections(found: Findings) -> list[Section]:
    """The sections of a report, from the short answer to the small print.

    Args:
        found: The numbers of the report, from `findings`.

    Returns:
        The sections in order; their blocks are sentences, brackets, tables, a picture and code.
    """
    guarantee = found.guarantee
    run = guarantee.mechanism
    rigors = Rigor.weakest(bracket.rigor for bracket in found.brackets)
    return [
        Section("In short", (Items(tuple(_short_answer(found))),)),
        Section(
            "What was run",
            (Items(tuple(in_words(run))), Table(("parameter", "value"), tuple(parameters(run)))),
        ),
        Section("What is protected", (Items(_protected(guarantee)),)),
        *_drawn(run),
        Section(f"How private it is ({rigors})", (_answers(found), Items(_reading(guarantee)))),
        Section("What an attacker can do", (Items(tuple(_attacks(found))), _picture(found))),
        Section("What this rests on", (Items(tuple(_grounds(found))),)),
        Section("What is not covered", (Items(tuple(obligations(run))),)),
        Section("How to check it", tuple(_checks(found))),
        Section("Sources", (Code("BibTeX", "bibtex", bibtex(guarantee.bounds)),)),
    ]


def _drawn(run: Mechanism) -> list[Section]:
    """How batches are drawn, and who is trusted with shuffled reports; only what there is to say."""
    said = {"How batches are drawn": sampler(run), "Who has to be trusted": trusted(run)}
    return [Section(title, (Items(tuple(lines)),)) for title, lines in said.items() if lines]


def line(guarantee: Guarantee, bracket: Bracket) -> str:
    """A bracket in one line; without its lower end if no lower side is known.

    Args:
        guarantee: The answer that the bracket is from.
        bracket: One of its brackets.

    Returns:
        The text of the bracket.
    """
    words = str(bracket)
    return words if guarantee.lower_derivations else words.partition(" <= ")[2]


def short(guarantee: Guarantee, bracket: Bracket) -> str:
    """A bracket without the mechanism, which the report has named already.

    Args:
        guarantee: The answer that the bracket is from.
        bracket: One of its brackets.

    Returns:
        The text up to the mechanism; an epsilon that is infinite for sure says so.
    """
    words = line(guarantee, bracket).partition(" |")[0]
    if bracket.lower == math.inf and guarantee.lower_derivations:
        return words.partition(" <= ")[2].replace("<= inf", "is infinite")
    return words


def _short_answer(found: Findings) -> list[str]:
    """What was run, epsilon, and what they mean, in four sentences."""
    guarantee = found.guarantee
    at, epsilon = found.epsilons[0]
    lines = [f"What was run: {guarantee.mechanism.describe()}."]
    if guarantee.lower_derivations and epsilon.lower == math.inf:
        certain = "with at least that probability an attacker can be certain"
        why = certain if at > 0.0 else "no epsilon bounds all losses without a delta"
        lines.append(f"Epsilon is infinite at delta={at:g}: {why}.")
    elif math.isinf(float(epsilon)):
        lines.append(f"No finite epsilon is known at delta={at:g}.")
    else:
        safe = digits(float(epsilon), ROUND_CEILING)
        lines.append(f"{short(guarantee, epsilon)}. To be quoted as ({safe}, {at:g})-DP.")
        lines += _factor(float(epsilon), at)
    goal, members = attacker_goal(guarantee.adjacency)
    right = percent((1 + Decimal(repr(float(found.advantage)))) / 2, ROUND_CEILING)
    lines.append(
        f"An attacker who has to say {goal}, at even odds, is right at most {right} of the time; "
        "guessing is right 50% of the time."
    )
    rate, tpr = found.rates[0]
    return [*lines, _best_attack(rate, tpr, members)]


def _best_attack(fpr: float, tpr: Bracket, members: str, reached: str = "") -> str:
    """The most that any attack identifies at one false-positive rate."""
    chance, limit = percent(fpr, ROUND_CEILING), percent(float(tpr), ROUND_CEILING)
    return (
        f"At a false-positive rate of {chance}, no attack identifies more than {limit} of {members} "
        f"(chance: {chance}){reached}."
    )


def _factor(epsilon: float, delta: float) -> list[str]:
    """What (epsilon, delta) says about any outcome, where the factor can be pictured."""
    if epsilon > LARGEST_EXPONENT:
        return []
    safe = digits(epsilon, ROUND_CEILING)
    factor = Decimal(safe).exp(Context(prec=2 * FEW * FEW, rounding=ROUND_CEILING))
    more = f", plus a probability of {delta:g}" if delta > 0.0 else ""
    times = f"e^{safe} = {digits(factor, ROUND_CEILING)} times"
    return [
        f"That is: any set of outcomes is at most {times} as likely as it would be under a "
        f"neighboring data set{more}."
    ]


def _protected(guarantee: Guarantee) -> tuple[str, ...]:
    """The unit of privacy and the neighbors."""
    return (
        f"Unit of privacy: {unit(guarantee.mechanism)}.",
        neighbors(guarantee.adjacency),
        "Everything else about the data may be known to the attacker.",
    )


def _answers(found: Findings) -> Brackets:
    rows = [(f"delta = {at:g}", one) for at, one in found.epsilons]
    rows += [(f"epsilon = {at:g}", one) for at, one in found.deltas]
    return Brackets(tuple(rows), found.guarantee)


def _reading(guarantee: Guarantee) -> tuple[str, ...]:
    """How the brackets are read."""
    if not guarantee.lower_derivations:
        return (
            "Each upper end is a guarantee. No lower side is known: how far the upper ends are from "
            "the truth is open.",
        )
    return (
        "The truth lies between the two ends. The upper end is the guarantee; the lower end says "
        "how much better any analysis could possibly make it.",
    )


def _attacks(found: Findings) -> list[str]:
    """What the trade-off curve means for an attacker, in words."""
    guarantee = found.guarantee
    goal, members = attacker_goal(guarantee.adjacency)
    lines = [
        "The attacker knows everything but one secret, sees all that was released, and wants to "
        f"know {goal}. A false positive is a case in which the attacker says yes and is wrong.",
    ]
    for rate, tpr in found.rates:
        least = percent(float(tpr.lower), ROUND_FLOOR)
        reached = f", and some attack identifies {least}" if guarantee.lower_derivations else ""
        lines.append(_best_attack(rate, tpr, members, reached))
    advantage = short(guarantee, found.advantage)
    lines.append(f"{advantage}: the largest true-positive rate minus false-positive rate.")
    return [*lines, _gaussian(found)]


def _gaussian(found: Findings) -> str:
    """The trade-off curve against that of Gaussian noise, in words."""
    mu = float(found.mu)
    words = short(found.guarantee, found.mu)
    if not 0.0 < mu < math.inf:
        return f"{words}."
    return (
        f"{words}: at those false-positive rates no attack does better than against Gaussian noise "
        f"with noise multiplier {digits(1.0 / mu, ROUND_FLOOR)}."
    )


def _picture(found: Findings) -> Picture:
    known = (
        "The best attack lies inside the band"
        if found.guarantee.lower_derivations
        else ("No attack gets below the band")
    )
    return Picture(
        found.curve,
        "Trade-off curve: the false-negative rate of the best attack at each false-positive rate. "
        f"{known}; the dashed line is guessing.",
    )


def _grounds(found: Findings) -> list[str]:
    """The theorems, their conditions and sources, and what certified means."""
    guarantee = found.guarantee
    decided = found.decided
    ranked = sorted(guarantee.bounds, key=lambda one: not decided[one])
    lines = [_theorem(one, tuple(map(str, decided[one]))) for one in ranked]
    width = f"Brackets were asked for with relative width {guarantee.relative_width:g} or less."
    return [*lines, CERTIFIED, *_reviewed(found), width]


def _reviewed(found: Findings) -> list[str]:
    """Which ends of epsilon rest on published theorems, and which on proofs of our own."""
    lines = []
    premises = (part.premise for part, _ in found.guarantee.mechanism.parts())
    given = ""
    if Rigor.weakest(premises) is Rigor.UNREVIEWED:
        given = (
            " and on a given curve, which rests on our own proof that has not been peer reviewed"
        )
    for side in Side:
        deciding = [one for one, sides in found.decided.items() if side in sides]
        ours = [one for one in deciding if one.proof]
        if ours:
            names = " and ".join(one.name for one in ours)
            pages = " and ".join(dict.fromkeys(one.proof for one in ours))
            lines.append(
                f"The {side} ends of epsilon rest on our own proof, which has not been peer reviewed: "
                f"{names}. It ships with sharpdp; python -m sharpdp.proofs {pages} prints it."
            )
        elif deciding:
            lines.append(f"The {side} ends of epsilon rest on published theorems{given}.")
    return lines


def _theorem(one: Bound, decided: tuple[str, ...]) -> str:
    sides = " and ".join(str(side) for side in one.sides)
    ends = f"{' and '.join(decided)} {'ends' if len(decided) > 1 else 'end'} of epsilon"
    verdict = f"Decided the {ends}" if decided else "Was asked too and decided no end of epsilon"
    conditions = f"You must ensure: {one.holds_when}. " if one.holds_when else ""
    if one.attained_when:
        conditions += f"The lower bound is attained when {one.attained_when}. "
    return f"{one.name} ({sides} side; {one.grounds}). {conditions}{verdict}."


def _checks(found: Findings) -> list[Block]:
    """The plan with its hash, how it is verified, and the versions."""
    made = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    when = "" if found.date is None else f" on {found.date}"
    lines = [f"Computed by {made}{when}."]
    if found.unwritten:
        return [Items((f"No plan: {found.unwritten}", *lines))]
    lines += [
        f"SHA-256 of the plan: {found.plan.hash}",
        f"To check every field against a new computation: {VERIFY} (the report written as JSON or "
        "as HTML; text and Markdown cannot be checked). The hash is that of the plan below in one "
        "line, with sorted names and without spaces.",
    ]
    plan = json.dumps(found.plan.to_dict(), indent=2, sort_keys=True)
    return [Items(tuple(lines)), Code("The plan", "json", plan)]
