"""A report as sections of blocks, the same for every format, and its layout as text and Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from numpy.typing import ArrayLike

from sharpdp._validate import is_among, short_repr
from sharpdp.bounds import Bound
from sharpdp.bracket import Bracket, Rigor, Side
from sharpdp.display.nearest_word import hint
from sharpdp.display.notebook import Page
from sharpdp.display.outward_digits import (
    ROUND_CEILING,
    ROUND_FLOOR,
    few_digits,
    in_digits,
    percent,
)
from sharpdp.display.text_table import wrapped
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.plans.header import Header
from sharpdp.questions.account import Guarantee
from sharpdp.questions.risk import precision_of
from sharpdp.report.citations import bibtex
from sharpdp.report.picture import Points, data_address, sketch
from sharpdp.report.results import (
    DELTAS,
    TITLE,
    VERIFY,
    Audited,
    Results,
    as_json,
    checklist,
    of_answer,
)
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
    "FORMATS",
    "EXTRACTS",
    "SUFFIXES",
    "Boxes",
    "Brackets",
    "Code",
    "Items",
    "Picture",
    "Section",
    "Table",
    "ends",
    "header_rows",
    "line",
    "markdown",
    "marked",
    "render",
    "sections",
    "short",
    "text",
]

SUFFIXES = {".txt": "text", ".md": "markdown", ".html": "html", ".json": "json"}
"""What a report is written as, by the ending of the file's name."""

EXTRACTS = {"model-card": (".md",), "registry": (".yaml", ".yml")}
"""What is written for other places, with the endings of its file: part of a report, not all of it."""

FORMATS = (*SUFFIXES.values(), *EXTRACTS)
"""What a report can be written as."""

NOT_OURS = (
    "Not to be quoted as a result of sharpdp: it rests on a theorem of others, which sharpdp has not "
    "checked."
)
"""What a report says in place of a claim."""

SIGNATURE = ("Name", "Date", "Signature")
"""What whoever signs a report fills in."""


@dataclass(frozen=True)
class Items:
    """Sentences, one after the other."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Boxes:
    """A checklist: sentences with a box to tick, and a line to sign."""

    lines: tuple[str, ...]
    signer: str


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


Block = Items | Boxes | Table | Brackets | Picture | Code


@dataclass(frozen=True)
class Section:
    """A heading with its blocks; those for experts are folded where that can be."""

    title: str
    blocks: tuple[Block, ...]
    is_folded: bool = False


def sections(results: Results) -> list[Section]:
    """The sections of a report, from the short answer to the small print.

    Args:
        results: The numbers of the report.

    Returns:
        The sections in order; their blocks are sentences, brackets, tables, a picture and code.
    """
    guarantee = results.guarantee
    run = guarantee.mechanism
    rigors = Rigor.weakest(bracket.rigor for bracket in results.brackets)
    return [
        Section("In short", (Items(tuple(_short_answer(results))),)),
        Section(
            "What was run",
            (Items(tuple(in_words(run))), Table(("parameter", "value"), tuple(parameters(run)))),
        ),
        Section("What is protected", (Items(_protected(guarantee)),)),
        *_drawn(run),
        Section(f"How private it is ({rigors})", (_answers(results), Items(_reading(results)))),
        Section("What an attacker can do", (Items(tuple(_attacks(results))), _picture(results))),
        *_audited(results),
        Section(
            "What must be true",
            (Boxes(tuple(checklist(results)), results.header.reviewer or ""),),
        ),
        Section("What is not covered", (Items(tuple(obligations(run, guarantee.group_size))),)),
        Section("What this rests on", (Items(tuple(_grounds(results))),), is_folded=True),
        Section("How to check it", tuple(_checks(results)), is_folded=True),
        Section("Sources", (Code("BibTeX", "bibtex", bibtex(guarantee.bounds)),), is_folded=True),
    ]


def header_rows(results: Results) -> list[tuple[str, str]]:
    """The header of the report, the date included: a name and a text each."""
    rows = results.header.rows()
    return rows if results.date is None else [*rows, ("date", results.date)]


def _drawn(run: Mechanism) -> list[Section]:
    """How batches are drawn, and who is trusted with shuffled reports; only what there is to say."""
    said = {"How batches are drawn": sampler(run), "Who has to be trusted": trusted(run)}
    return [Section(title, (Items(tuple(lines)),)) for title, lines in said.items() if lines]


def _audited(results: Results) -> list[Section]:
    """Results of audits of the run, if there are any."""
    lines: list[str] = []
    for audit in results.audits:
        verdict = {True: "no contradiction", False: "CONTRADICTION", None: "nothing was tested"}
        lines.append(f"{audit['title']}: {verdict[audit['consistent']]}.")
        lines += audit["sentences"]
    return [Section("What audits found", (Items(tuple(lines)),))] if lines else []


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
    low, high = f"{bracket:g}".split(" to ")
    start = f"{low} <= " if guarantee.lower_derivations else ""
    question = bracket.context.partition("|")[0].strip()
    words = f"{start}{bracket.quantity} <= {high} {question}".rstrip()
    if bracket.lower == math.inf and guarantee.lower_derivations:
        return words.partition(" <= ")[2].replace("<= inf", "is infinite")
    return words


def _short_answer(results: Results) -> list[str]:
    """The run, its epsilon, and their meaning, in four sentences."""
    guarantee = results.guarantee
    delta, epsilon = results.epsilons[0]
    lines = [f"What was run: {guarantee.mechanism.describe()}."]
    if guarantee.lower_derivations and epsilon.lower == math.inf:
        certain = "with at least that probability an attacker can be certain"
        why = certain if delta > 0.0 else "no epsilon bounds all losses without a delta"
        lines.append(f"Epsilon is infinite at delta={delta:g}: {why}.")
    elif math.isinf(float(epsilon)):
        lines.append(f"No finite epsilon is known at delta={delta:g}.")
    else:
        safe = in_digits(float(epsilon), ROUND_CEILING)
        claim = (
            NOT_OURS
            if epsilon.rigor is Rigor.STATED
            else f"To be quoted as ({safe}, {delta:g})-DP."
        )
        lines.append(f"{short(guarantee, epsilon)}. {claim}")
        lines += _factor(float(epsilon), delta)
    goal, members = attacker_goal(guarantee.adjacency, guarantee.group_size)
    right = percent((1 + Decimal(repr(float(results.advantage)))) / 2, ROUND_CEILING)
    lines.append(
        f"An attacker who has to say {goal}, at even odds, is right at most {right} of the time; "
        "guessing is right 50% of the time."
    )
    rate, tpr = results.rates[0]
    return [*lines, _best_attack(rate, tpr, members)]


def _best_attack(fpr: float, tpr: Bracket, members: str, reached: str = "") -> str:
    """The most that any attack identifies at one false-positive rate."""
    chance, limit = percent(fpr, ROUND_CEILING), percent(float(tpr), ROUND_CEILING)
    return (
        f"At a false-positive rate of {chance}, no attack identifies more than {limit} of {members} "
        f"(chance: {chance}){reached}."
    )


def _factor(epsilon: float, delta: float) -> list[str]:
    """The meaning of (epsilon, delta) for any outcome, where the factor can be pictured."""
    if epsilon > 20.0:  # beyond, e^epsilon is no factor that anyone pictures
        return []
    safe = in_digits(epsilon, ROUND_CEILING)
    factor = Decimal(safe).exp(Context(prec=18, rounding=ROUND_CEILING))
    more = f", plus a probability of {delta:g}" if delta > 0.0 else ""
    times = f"e^{safe} = {few_digits(factor, ROUND_CEILING)} times"
    return [
        f"That is: any set of outcomes is at most {times} as likely as it would be under a "
        f"neighboring data set{more}."
    ]


def _protected(guarantee: Guarantee) -> tuple[str, ...]:
    """The unit of privacy and the neighbors."""
    return (
        f"Unit of privacy: {unit(guarantee.mechanism, guarantee.group_size)}.",
        neighbors(guarantee.adjacency, guarantee.group_size),
        "Everything else about the data may be known to the attacker.",
    )


def _answers(results: Results) -> Brackets:
    rows = [(f"delta = {delta:g}", bracket) for delta, bracket in results.epsilons]
    rows += [(f"epsilon = {epsilon:g}", bracket) for epsilon, bracket in results.deltas]
    return Brackets(tuple(rows), results.guarantee)


def _reading(results: Results) -> tuple[str, ...]:
    """How the brackets are read, and what would make them smaller."""
    guarantee = results.guarantee
    deltas = [delta for delta, _ in results.epsilons if delta > 0.0]
    suggestions = guarantee.suggestions(delta=deltas[0]) if deltas else ()
    if not guarantee.lower_derivations:
        return (
            "Each upper end is a guarantee. No lower bound is known, so it is not known how far the "
            "upper ends are from the truth.",
            *suggestions,
        )
    return (
        "The truth lies between the two ends. The upper end is the guarantee; the lower end is the best "
        "that any analysis could prove. Both are rounded outwards to six digits; the report as JSON has "
        "all digits.",
        *suggestions,
    )


def _attacks(results: Results) -> list[str]:
    """The meaning of the trade-off curve for an attacker, in words."""
    guarantee = results.guarantee
    goal, members = attacker_goal(guarantee.adjacency, guarantee.group_size)
    lines = [
        "The attacker knows everything but one secret, sees all that was released, and wants to "
        f"know {goal}. A false positive is a case in which the attacker says yes and is wrong.",
    ]
    for rate, tpr in results.rates:
        share = percent(float(tpr.lower), ROUND_FLOOR)
        reached = f", and some attack identifies {share}" if guarantee.lower_derivations else ""
        lines.append(_best_attack(rate, tpr, members, reached))
    lines += _risks(results)
    advantage = short(guarantee, results.advantage)
    lines.append(f"{advantage}: the largest true-positive rate minus false-positive rate.")
    return [*lines, _gaussian(results)]


def _risks(results: Results) -> list[str]:
    """How often an accusation is right, and how much a secret can be told, read off the same rates."""
    (few, accused), *_, (chance, found) = results.rates
    right = percent(precision_of(0.01, few, float(accused))[1], ROUND_CEILING)
    limit = percent(float(found), ROUND_CEILING)
    lines = []
    if results.guarantee.adjacency is not Adjacency.REPLACE_ONE:
        lines.append(
            f"If 1% of the suspects were used, an accusation at a false-positive rate of "
            f"{percent(few, ROUND_CEILING)} is right in at most {right} of the cases."
        )
    lines.append(
        "A secret of one record (an attribute, or the record itself) that would be guessed with "
        f"probability {percent(chance, ROUND_CEILING)} without the release is guessed with probability "
        f"at most {limit}. answer.risk() and sharpdp risk answer for other probabilities, and state what "
        "each number assumes."
    )
    return lines


def _gaussian(results: Results) -> str:
    """The trade-off curve against that of Gaussian noise, in words."""
    mu = float(results.mu)
    words = short(results.guarantee, results.mu)
    if not 0.0 < mu < math.inf:
        return f"{words}."
    return (
        f"{words}: at those false-positive rates no attack does better than against Gaussian noise "
        f"with noise multiplier {in_digits(1.0 / mu, ROUND_FLOOR)}."
    )


def _picture(results: Results) -> Picture:
    band = (
        "The best attack lies inside the band"
        if results.guarantee.lower_derivations
        else "No attack gets below the band"
    )
    return Picture(
        results.curve,
        "Trade-off curve: the false-negative rate of the best attack at each false-positive rate. "
        f"{band}; the dashed line is guessing.",
    )


def _grounds(results: Results) -> list[str]:
    """The theorems, their conditions and sources, and what certified means."""
    guarantee = results.guarantee
    decided = results.decided
    ranked = sorted(guarantee.bounds, key=lambda bound: not decided[bound])
    lines = [
        _theorem(bound, bound.needs(guarantee.adjacency), tuple(map(str, decided[bound])))
        for bound in ranked
    ]
    certified = (
        "Certified: if the conditions above hold, the upper ends hold for what was run and for these "
        "neighbors; no analysis can go below the lower ends, since something that the conditions allow "
        "attains them. The errors of discretization, truncation and rounding are bounded and included."
    )
    if Rigor.weakest(bracket.rigor for bracket in results.brackets) is Rigor.STATED:
        certified = NOT_OURS
    width = (
        f"Brackets were requested with a relative width of at most {guarantee.relative_width:g}."
    )
    lines += [f"You must also ensure: {condition}." for condition in guarantee.conditions]
    return [*lines, certified, *_reviewed(results), width]


def _reviewed(results: Results) -> list[str]:
    """Which ends of epsilon rest on published theorems, and which on proofs of our own."""
    lines = []
    premises = (part.premise for part, _ in results.guarantee.mechanism.parts())
    given_curve = ""
    if Rigor.weakest(premises) is Rigor.UNREVIEWED:
        given_curve = (
            " and on a given curve, which rests on our own proof that has not been peer reviewed"
        )
    for side in Side:
        deciding = [bound for bound, sides in results.decided.items() if side in sides]
        ours = [bound for bound in deciding if bound.proof]
        others = [f"{bound.name} ({bound.rigor_words})" for bound in deciding if bound.stated_by]
        if others:
            lines.append(f"The {side} ends of epsilon rest on {' and '.join(others)}.")
        elif ours:
            names = " and ".join(bound.name for bound in ours)
            pages = " and ".join(dict.fromkeys(bound.proof for bound in ours))
            lines.append(
                f"The {side} ends of epsilon rest on our own proof, which has not been peer reviewed: "
                f"{names}. It ships with sharpdp; python -m sharpdp.bounds.proofs {pages} prints it."
            )
        elif deciding:
            lines.append(f"The {side} ends of epsilon rest on published theorems{given_curve}.")
    return lines


def _theorem(bound: Bound, needs: str, decided: tuple[str, ...]) -> str:
    sides = " and ".join(str(side) for side in bound.sides)
    ends = f"{' and '.join(decided)} {'ends' if len(decided) > 1 else 'end'} of epsilon"
    verdict = (
        f"Determined the {ends}" if decided else "Also evaluated; determined no end of epsilon"
    )
    conditions = f"You must ensure: {needs}. " if needs else ""
    if bound.attained_when:
        conditions += f"The lower bound is attained when {bound.attained_when}. "
    return f"{bound.name} ({sides} side; {bound.grounds}). {conditions}{verdict}."


def _checks(results: Results) -> list[Block]:
    """The plan with its hash, how it is verified, and the versions."""
    made = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    lines = [f"Computed by {made}."]
    if results.unwritten:
        return [Items((f"No plan: {results.unwritten}", *lines))]
    lines += [
        f"SHA-256 of the plan: {results.plan.hash}",
        f"To check every field against a new computation: {VERIFY} (for a report written as JSON or "
        "HTML; text and Markdown cannot be checked). The hash is that of the plan below on one line, "
        "with sorted names and without spaces.",
    ]
    plan = json.dumps(results.plan.to_dict(), indent=2, sort_keys=True)
    return [Items(tuple(lines)), Code("The plan", "json", plan)]


def render(
    guarantee: Guarantee,
    format: str = "text",  # noqa: A002  # the word of the public call
    *,
    delta: ArrayLike = DELTAS,
    date: str | None = None,
    audits: Iterable[Audited] = (),
    header: Header | Mapping[str, Any] | None = None,
) -> str:
    """The report on an answer as text, Markdown, one HTML page or JSON, or an extract of it.

    Args:
        guarantee: The answer to report on, from `account`.
        format: "text", "markdown", "html" or "json"; "model-card" for the block of a model card of
            Hugging Face, "registry" for an entry of the registry of deployments.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to print as YYYY-MM-DD, such as "2026-01-31". None prints no date: the same run gives
            the same report.
        audits: Results of audits of this run, such as that of `sharpdp.audit.one_run`.
        header: What the report says about itself: a mapping with project, data_set, version, owner,
            contact, date and reviewer, or some of them.

    Returns:
        The report.

    Raises:
        InvalidArgument: There is no such format, a delta is out of range, date is no date, the header
            has control characters, or it has no such field.
        WrongType: delta is no number or array of numbers, or date is no text.
        NotCertified: An answer cannot be given with a proof.

    >>> from sharpdp.questions.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> render(account(Gaussian(noise_multiplier=1.0)), "markdown").splitlines()[0]
    '## Privacy report'
    """
    if not is_among(FORMATS, format):
        allowed = ", ".join(map(repr, FORMATS))
        ask = hint(str(format), FORMATS)
        raise InvalidArgument(f"format must be one of {allowed}; got {short_repr(format)}.{ask}")
    results = Results.of(guarantee, delta=delta, date=date, audits=audits, header=header)
    if format == "html":
        from sharpdp.report.html import page

        return Page(page(results))
    if format == "model-card":
        from sharpdp.report.model_card import model_card as write
    elif format == "registry":
        from sharpdp.report.registry_entry import registry_text as write
    else:
        write = {"text": as_text, "markdown": as_markdown, "json": as_json}[format]
    return write(results)


def as_text(results: Results) -> str:
    """The report on an answer as plain text, in lines of 88 characters where they can be broken."""
    lines = [TITLE, "=" * len(TITLE)]
    first, *others = sections(results)
    if rows := header_rows(results):
        lines += [*_plain(Section("", (Table(("", ""), tuple(rows)),))), ""]
    lines += _plain(first)
    for section in others:
        lines += ["", section.title, "-" * len(section.title), *_plain(section)]
    return "\n".join(lines)


def _plain(section: Section) -> list[str]:
    lines: list[str] = []
    for block in section.blocks:
        if isinstance(block, Items):
            lines += [part for entry in block.lines for part in wrapped(entry, width=88)]
        elif isinstance(block, Boxes):
            boxes = (f"[ ] {entry}" for entry in block.lines)
            lines += [part for box in boxes for part in wrapped(box, width=88, hanging=" " * 6)]
            lines += ["", f"  {'  '.join(_to_sign(block, '_'))}"]
        elif isinstance(block, Brackets):
            lines += [f"  {short(block.guarantee, bracket)}" for _, bracket in block.rows]
        elif isinstance(block, Table):
            wide = max(len(row[0]) for row in block.rows)
            rows = [f"{row[0]:<{wide}}  {'  '.join(row[1:])}" for row in block.rows]
            lines += [
                part for row in rows for part in wrapped(row, width=88, hanging=" " * (wide + 4))
            ]
        elif isinstance(block, Picture):
            lines += ["", *(f"  {line}" for line in sketch(block.points)), ""]
            caption = block.caption.replace("the dashed line", "the line of dots")
            lines += wrapped(caption, width=88)
        else:
            lines += ["", *(f"  {line}".rstrip() for line in block.text.splitlines())]
    return lines


def as_markdown(results: Results) -> str:
    """The report on an answer as Markdown, with the picture of the trade-off curve."""
    lines = [f"## {TITLE}", ""]
    first, *others = sections(results)
    if rows := header_rows(results):
        lines += [*_table(("", ""), rows), ""]
    lines += marked(first)
    for section in others:
        lines += [f"### {section.title}", "", *marked(section)]
    return "\n".join(lines).rstrip() + "\n"


def marked(section: Section) -> list[str]:
    """The blocks of a section as lines of Markdown."""
    lines: list[str] = []
    for block in section.blocks:
        if isinstance(block, Items):
            lines += [f"- {_escaped(entry)}" for entry in block.lines]
        elif isinstance(block, Boxes):
            lines += [f"- [ ] {_escaped(entry)}" for entry in block.lines]
            lines += ["", _escaped("   ".join(_to_sign(block, ".")))]
        elif isinstance(block, Brackets):
            rows = [
                (condition, bracket.quantity, *ends(block, bracket))
                for condition, bracket in block.rows
            ]
            lines += _table(("given", "asked", "at least", "at most"), rows)
        elif isinstance(block, Table):
            lines += _table(block.head, block.rows)
        elif isinstance(block, Picture):
            picture = f"![trade-off curve]({data_address(block.points)})"
            lines += [picture, "", _escaped(block.caption), ""]
            listed = [[f"{x:g}" for x in row] for row in block.points[::10]]
            lines += _table(
                ("false-positive rate", "false-negative rate, at least", "at most"), listed
            )
        else:
            lines += [f"{block.title}:", "", f"```{block.language}", _fenced(block), "```"]
        lines.append("")
    return lines


def ends(block: Brackets, bracket: Bracket) -> tuple[str, str]:
    """Both ends of one answer, rounded outwards; no lower one if none is known."""
    low, high = f"{bracket:g}".split(" to ")
    return (low if block.guarantee.lower_derivations else "not known"), high


def _to_sign(block: Boxes, stroke: str) -> list[str]:
    """Lines to fill in when signing; the name may be known."""
    room = {"Name": block.signer or stroke * 24, "Date": stroke * 12, "Signature": stroke * 24}
    return [f"{label}: {room[label]}" for label in SIGNATURE]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    shown = [f"| {' | '.join(map(_escaped, row))} |" for row in (head, *rows)]
    return [shown[0], "|" + "---|" * (shown[0].count(" | ") + 1), *shown[1:]]


def _escaped(entry: str) -> str:
    """The entry as Markdown shows it: nothing in it is taken for markup."""
    escaped = entry.replace("\\", "\\\\").replace("<=", "≤").replace(">=", "≥")
    for mark in "*_|`[]!#~$":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fenced(block: Code) -> str:
    """A text for machines; in JSON every < is written by its number, so that none starts a tag."""
    return block.text.replace("<", "\\u003c") if block.language == "json" else block.text


text = of_answer("text", as_text)
markdown = of_answer("markdown", as_markdown)
