"""Whether a report still says what its plan gives: every field is held against a new computation.

The report is rebuilt from the plan in it. Numbers of a bracket may differ in their last digits; of
another version of sharpdp, or of the packages below it, they may differ by more, and are then judged by
what they claim. Everything else must be the same, character by character.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from sharpdp._validate import is_unseen, short_repr
from sharpdp.bracket import Bracket, Rigor
from sharpdp.display.notebook import Shown
from sharpdp.errors import Contradiction, InvalidArgument, SharpDPError, WrongType
from sharpdp.plans.header import Header
from sharpdp.plans.plain_data import number_from_data
from sharpdp.plans.plan import Plan
from sharpdp.questions.account import NARROWEST, Guarantee
from sharpdp.report.json_schema import faults, report_fields
from sharpdp.report.results import (
    FORMAT,
    TITLE,
    Results,
    as_data,
    asked_nothing,
    plain,
    versions,
)
from sharpdp.storage.json_text import parsed

__all__ = ["Finding", "Verdict", "Verification", "from_json", "verify"]

ABSENT = "(absent)"
"""What is said of a field that is missing on one side."""

GIVEN = {"epsilon": "delta", "delta": "epsilon", "tpr": "fpr", "tradeoff": "fpr"}
"""What each list of brackets was asked at."""

Interval = tuple[float, float]
Data = Mapping[str, Any]


class Verdict(Enum):
    """The verdict on a claim, from the best to the worst.

    - CONFIRMED: what is computed now is at least as sharp, so the claim is true.
    - UNCONFIRMED: it may be true, but nothing that was computed now shows it.
    - CONTRADICTED: it cannot be what this plan and this version give, or cannot be true.
    """

    CONFIRMED = "confirmed"
    UNCONFIRMED = "not confirmed"
    CONTRADICTED = "contradicted"

    @staticmethod
    def worst(verdicts: Iterable[Verdict]) -> Verdict:
        """The worst of some verdicts; confirmed if there is none.

        Args:
            verdicts: Any number of verdicts.

        Returns:
            The worst one.

        >>> Verdict.worst([Verdict.CONTRADICTED, Verdict.CONFIRMED])
        <Verdict.CONTRADICTED: 'contradicted'>
        """
        order = list(Verdict)
        return max(verdicts, key=order.index, default=Verdict.CONFIRMED)

    def __str__(self) -> str:
        """The verdict in a word or two."""
        return self.value


@dataclass(frozen=True)
class Finding:
    """A field that is not confirmed: where it stands, what it says, and what it should say.

    Args:
        field: Path in the JSON, such as /epsilon/0/upper.
        verdict: What became of the claim.
        why: The reason in words.
        recorded: What the report says; None if that is not shown.
        recomputed: What was computed now; None if that is not shown.
    """

    field: str
    verdict: Verdict
    why: str
    recorded: object = None
    recomputed: object = None

    def __str__(self) -> str:
        """The finding in one line."""
        values = "" if self.recorded is None else f" recorded {short_repr(self.recorded)};"
        if self.recomputed is not None:
            values += f" recomputed {short_repr(self.recomputed)};"
        return f"{self.field}:{values} {self.verdict}: {self.why}"


@dataclass(frozen=True)
class Judged:
    """A recorded bracket with the one that is computed now.

    Args:
        field: Path in the JSON, such as /epsilon/0.
        verdict: What became of the claim.
        recorded: The bracket in the report.
        recomputed: The bracket that is computed now.
    """

    field: str
    verdict: Verdict
    recorded: Data
    recomputed: Data


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """The result of verifying a report.

    Args:
        findings: Every field that is not confirmed, by its path in the JSON.
        brackets: Every bracket that was computed again, the points of the trade-off curve included.
        unchecked: Fields that no computation can confirm, and what was not looked at.
        guarantee: That of the plan in the report; None if it was not computed.
        hash: SHA-256 of that plan; None if it was not computed.
        recorded_by: Version of sharpdp that the report names.
        is_page: True if the report is an HTML page.
    """

    findings: tuple[Finding, ...]
    brackets: tuple[Judged, ...] = ()
    unchecked: tuple[str, ...] = ()
    guarantee: Guarantee | None = None
    hash: str | None = None
    recorded_by: str = ""
    is_page: bool = False

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all fields."""
        return Verdict.worst(finding.verdict for finding in self.findings)

    def __str__(self) -> str:
        """The verdict, and the findings."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The verdict and the findings as lines for a reader.

        Returns:
            One sentence each, the verdict first; at most 25 findings are listed.
        """
        here = versions()["sharpdp"]
        lines = [f"{self.verdict}: {self._subject()}"]
        lines += [str(finding) for finding in self.findings[:25]]
        if len(self.findings) > 25:
            lines.append(f"... and {len(self.findings) - 25} fields more")
        if self.guarantee is not None:
            lines.append(f"OK  plan hash matches: {self.hash}")
        if self.brackets:
            good = sum(judged.verdict is Verdict.CONFIRMED for judged in self.brackets)
            lines.append(
                f"brackets: {good} of {len(self.brackets)} recorded by sharpdp {self.recorded_by} "
                f"are confirmed by sharpdp {here}"
            )
        if self.recorded_by not in ("", here):
            lines.append(f"To check every word, verify it with sharpdp {self.recorded_by}.")
        if self.verdict is Verdict.CONFIRMED:
            text = "every other field and the text of the page" if self.is_page else "all others"
            lines.append(f"fields: {text} are what sharpdp {here} writes for this plan")
        if self.unchecked:
            lines.append(f"not checked: {', '.join(self.unchecked)}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The verification as plain data for JSON.

        Returns:
            The verdict, the findings, and every bracket as recorded and as recomputed.
        """
        return {
            "verdict": str(self.verdict),
            "plan": self.hash,
            "findings": [
                {
                    "field": finding.field,
                    "verdict": str(finding.verdict),
                    "why": finding.why,
                    "recorded": finding.recorded,
                    "recomputed": finding.recomputed,
                }
                for finding in self.findings
            ],
            "brackets": [
                {
                    "field": judged.field,
                    "verdict": str(judged.verdict),
                    "recorded": [judged.recorded["lower"], judged.recorded["upper"]],
                    "recomputed": [judged.recomputed["lower"], judged.recomputed["upper"]],
                }
                for judged in self.brackets
            ],
            "not_checked": list(self.unchecked),
            "recorded_by": self.recorded_by,
            "checked_by": versions()["sharpdp"],
        }

    def _subject(self) -> str:
        if self.guarantee is None:
            return "the report was not computed again"
        return f"{self.guarantee.mechanism.describe()}, {self.guarantee.neighbors}"


def from_json(text: str) -> Guarantee:
    """The guarantee of a report in JSON or HTML, if `verify` confirms every field.

    Args:
        text: The report, as for `verify`.

    Returns:
        The guarantee of its plan.

    Raises:
        InvalidArgument: the text is no report, or a field is not confirmed; the message names it.
        WrongType: it is no text.

    >>> from sharpdp.questions.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> answer = account(Gaussian(noise_multiplier=1.0))
    >>> from_json(answer.report("json")) == answer
    True
    """
    verification = verify(text)
    if verification.guarantee is None or verification.verdict is not Verdict.CONFIRMED:
        first, *others = verification.findings
        more = f" So are {len(others)} fields more." if others else ""
        raise InvalidArgument(f"the report must be confirmed; {first}.{more}")
    return verification.guarantee


def verify(text: str) -> Verification:
    """A report in JSON or HTML held against a new computation, field by field.

    Args:
        text: what `report("json")` or `report("html")` gave; a page holds its report as JSON.

    Returns:
        The verdict with every field that is not confirmed. Only a verdict of CONFIRMED means that the
        report says what this version of sharpdp says about its plan.

    Raises:
        InvalidArgument: the text cannot be read as a report.
        WrongType: it is no text.

    >>> from sharpdp.questions.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> text = account(Gaussian(noise_multiplier=1.0)).report("json", delta=1e-5)
    >>> print(verify(text).verdict)
    confirmed
    >>> forged = text.replace('"certified"', '"peer reviewed"', 1)
    >>> print(verify(forged).findings[0].field)
    /epsilon/0/rigor
    """
    page, data = _read(text)
    recorded_by = _version(data)
    wrong = [*_misshapen(data), *_unprintable(data)]
    if wrong:
        return Verification(tuple(wrong), unchecked=("whatever else it says",))
    made = partial(Verification, recorded_by=recorded_by, is_page=page is not None)
    plan = _plan(data)
    if isinstance(plan, Finding):
        return made((plan,), unchecked=("whatever else it says",))
    try:
        # conditions are of the run, about which the plan says nothing
        guarantee = plan.guarantee().provided(*data.get("conditions", ()))
        now = Results.of(guarantee, delta=plan.delta, date=data.get("date"), form=data["format"])
        # what an audit found cannot be computed again: it is taken as recorded, and said to be
        now = replace(
            now, audits=tuple(data.get("audits", ())), header=Header.of(data.get("header"))
        )
    except Contradiction:
        raise
    except SharpDPError as fault:
        why = f"this plan cannot be computed again; {fault}"
        return made((Finding("/plan", Verdict.UNCONFIRMED, why),))
    compared = held_against(data, now)
    result = made(
        tuple(compared.findings),
        tuple(compared.brackets),
        tuple(_taken(data)),
        guarantee,
        plan.hash,
    )
    if page is None or result.findings:
        return result
    return replace(result, findings=tuple(_differing_text(page, data, now)))


# --- reading -----------------------------------------------------------------------------------


def _read(text: str) -> tuple[str | None, Data]:
    """The page, if it is one, and the report in it."""
    from sharpdp.report.html import embedded

    if not isinstance(text, str):
        raise WrongType(f"the report must be text; got {short_repr(text)}.")
    start = text[:1000].lstrip("\ufeff# \r\n\t")
    is_page = start.startswith("<")
    if start.startswith(TITLE):
        raise InvalidArgument(
            "the report must be JSON or HTML; got text or Markdown, which hold no data to check. "
            "Write it with the ending .json or .html."
        )
    data = parsed(embedded(text) if is_page else text, "the report")
    properties = report_fields()["properties"]
    if 2 * sum(name in data for name in properties) < len(properties):
        raise InvalidArgument(
            "the report must be what report('json') gives; got something without most of its fields."
        )
    return (text if is_page else None), data


def _misshapen(data: Data) -> Iterator[Finding]:
    """Fields that are missing, unknown or of the wrong type; of another format nothing else is said."""
    form = data.get("format")
    if type(form) is int and not 1 <= form <= FORMAT:
        why = f"this version reads formats 1 to {FORMAT}: verify it with the version that wrote it"
        yield Finding("/format", Verdict.UNCONFIRMED, why, recorded=form)
        return
    other_version = _version(data) != versions()["sharpdp"]
    for path, why, value in faults(report_fields(1 if form == 1 else FORMAT), data):
        # earlier versions took any text for a date
        free = path == "/date" and isinstance(value, str) and other_version
        verdict = Verdict.UNCONFIRMED if free else Verdict.CONTRADICTED
        yield Finding(path or "/", verdict, why, recorded=value)


def _unprintable(data: Any, path: str = "") -> Iterator[Finding]:
    """Texts and names with characters that steer a terminal or reorder what is read."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _unprintable(value, f"{path}/{name}")
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _unprintable(value, f"{path}/{index}")
    elif isinstance(data, str):
        allowed = "\n" if path == "/bibtex" else ""
        if not data.isprintable() and any(is_unseen(char) for char in set(data) - set(allowed)):
            why = "it has control or formatting characters"
            yield Finding(path, Verdict.CONTRADICTED, why, recorded=data)


def _plan(data: Data) -> Plan | Finding:
    """The plan of the report, if it has one with the recorded hash."""
    if data["plan"] is None:
        why = "the report has no plan, since its mechanism holds functions: nothing can be computed"
        return Finding("/plan", Verdict.UNCONFIRMED, why)
    try:
        plan = Plan.from_dict(data["plan"])
        sha = plan.hash
    except SharpDPError as fault:
        return Finding("/plan", Verdict.CONTRADICTED, f"it is no plan; {fault}")
    if sha == data["hash"]:
        return plan
    why = "it is not that of /plan: the plan or the hash was changed after the report was written"
    return Finding("/hash", Verdict.CONTRADICTED, why, data["hash"], sha)


def _version(data: Data) -> str:
    made = data.get("versions")
    return str(made.get("sharpdp")) if isinstance(made, dict) else "an unknown version"


def _taken(data: Data) -> Iterator[str]:
    """Fields that are taken on trust: versions other than the ones here, and the header."""
    here = versions()
    for name, version in data["versions"].items():
        if version != here[name]:
            yield f"/versions/{name} ({version}; here {here[name]})"
    for name, text in data.get("header", {}).items():
        yield f"/header/{name} ({text})"
    if "date" in data:
        yield f"/date ({data['date']})"
    for index, condition in enumerate(data.get("conditions", ())):
        yield f"/conditions/{index} ({condition})"
    for index, audit in enumerate(data.get("audits", ())):
        yield f"/audits/{index} ({audit['title']})"


# --- comparing ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A comparison of a report with what is computed now."""

    findings: list[Finding]
    brackets: list[Judged]


def held_against(data: Data, now: Results) -> Comparison:
    """Every field of a report of the right shape, compared with what its plan gives now."""
    rebuilt: Data = json.loads(json.dumps(as_data(now)))
    brackets = ("epsilon", "delta", "tpr", "advantage", "mu", "tradeoff")
    # what a report says about itself, header, date and versions, no computation can confirm
    others = [
        name
        for name in {**rebuilt, **data}
        if name not in (*brackets, "audits", "date", "header", "versions")
    ]
    recorded_by, here = data["versions"]["sharpdp"], rebuilt["versions"]["sharpdp"]
    for theorem in rebuilt["theorems"]:  # each version ships its own copy of a proof
        if theorem["proof"]:
            theorem["proof"] = theorem["proof"].replace(
                f"sharpdp {here}/", f"sharpdp {recorded_by}/"
            )
    same_version = recorded_by == here
    unlike = Verdict.CONTRADICTED if same_version else Verdict.UNCONFIRMED
    judge = _Judge(data, now, rebuilt, unlike, exact=data["versions"] == rebuilt["versions"])
    wrong: list[Finding] = []
    for name in others:
        parts = data.get(name, ABSENT), rebuilt.get(name, ABSENT)
        wrong += _differences(f"/{name}", *parts, unlike)
    for name in brackets:
        wrong += judge.of(name)
    return Comparison(wrong, judge.brackets)


def _differences(
    path: str, recorded: object, rebuilt: object, verdict: Verdict
) -> Iterator[Finding]:
    """The leaves in which two texts, numbers, lists or mappings differ."""
    if isinstance(recorded, dict) and isinstance(rebuilt, dict):
        for name in {**rebuilt, **recorded}:
            parts = recorded.get(name, ABSENT), rebuilt.get(name, ABSENT)
            yield from _differences(f"{path}/{name}", *parts, verdict)
    elif isinstance(recorded, list) and isinstance(rebuilt, list):
        for index in range(max(len(recorded), len(rebuilt))):
            left, right = (
                entries[index] if index < len(entries) else ABSENT
                for entries in (recorded, rebuilt)
            )
            yield from _differences(f"{path}/{index}", left, right, verdict)
    elif not _same(recorded, rebuilt):
        why = (
            "this version writes it differently"
            if verdict is Verdict.UNCONFIRMED
            else "the report was changed"
        )
        yield Finding(path, verdict, why, recorded, rebuilt)


def _same(recorded: object, rebuilt: object) -> bool:
    """Whether two leaves are equal; a whole number may stand for a float, since JSON has one kind."""
    if isinstance(rebuilt, float) and type(recorded) is int:
        return recorded == rebuilt
    return type(recorded) is type(rebuilt) and recorded == rebuilt


@dataclass
class _Judge:
    """Brackets of a report, each judged by the one that is computed now.

    `exact` says that the same software computed both; `unlike` is the verdict on other differences.
    """

    data: Data
    now: Results
    rebuilt: Data
    unlike: Verdict
    exact: bool

    def __post_init__(self) -> None:
        self.brackets: list[Judged] = []
        self._guarantee = asked_nothing(self.now.guarantee)

    def of(self, name: str) -> Iterator[Finding]:
        """Findings on the brackets of one field."""
        recorded, rebuilt = self.data[name], self.rebuilt[name]
        if isinstance(rebuilt, dict):
            yield from self._judged(f"/{name}", name, recorded, rebuilt)
            return
        given = GIVEN[name]
        recorded_at, asked = (
            [{given: entry[given]} for entry in entries] for entries in (recorded, rebuilt)
        )
        if recorded_at != asked:
            yield from _differences(f"/{name}", recorded_at, asked, self.unlike)
            if self.unlike is Verdict.CONTRADICTED or len(recorded_at) > 200:
                return
            rebuilt = [self._elsewhere(name, entry) for entry in recorded]
        for index, (entry, now) in enumerate(zip(recorded, rebuilt, strict=True)):
            yield from self._judged(f"/{name}/{index}", name, entry, now)

    def _judged(self, path: str, name: str, recorded: Data, rebuilt: Data) -> Iterator[Finding]:
        """The finding on one bracket."""
        for label, value in recorded.items():
            if label not in ("lower", "upper"):
                yield from _differences(f"{path}/{label}", value, rebuilt[label], self.unlike)
        claim, now = _interval(recorded), _interval(rebuilt)
        verdict, known = _claimed(claim, now), now
        if verdict is Verdict.UNCONFIRMED and not self.exact:
            known = self._narrower(name, recorded, now)
            verdict = _claimed(claim, known)
        sharper = _below(known[0], claim[0]), _below(claim[1], known[1])
        apart = verdict is Verdict.CONTRADICTED
        for index, end in enumerate(("lower", "upper")):
            foreign = self._is_foreign(name, claim[index], now[index])
            if not sharper[index] and not (foreign or self._is_off(claim[index], now[index])):
                continue
            if apart and sharper[index]:
                why = "the two brackets do not overlap, so one of them is wrong"
            elif sharper[index]:
                why = "it claims more than this version can show"
            else:
                why = "this version writes a sharper number"
            if foreign and not apart:
                why += ": the report was changed"
            found = Verdict.CONTRADICTED if foreign or apart else Verdict.UNCONFIRMED
            verdict = Verdict.worst((verdict, found))
            yield Finding(f"{path}/{end}", found, why, recorded[end], rebuilt[end])
        self.brackets.append(Judged(path, verdict, recorded, rebuilt))

    def _is_foreign(self, name: str, claim: float, now: float) -> bool:
        """Whether this version of sharpdp does not give such an end, whatever it runs on.

        By other processors and packages below it, an end moves by less than the width that was asked.
        """
        if self.unlike is Verdict.UNCONFIRMED or _close(claim, now):
            return False  # another version may have known less, or more
        if math.isinf(claim) or math.isinf(now):
            return True
        width = 1e-6 if name == "tradeoff" else self._guarantee.relative_width * abs(now)
        return abs(claim - now) > width

    def _is_off(self, claim: float, now: float) -> bool:
        """Whether the same software writes another number."""
        return self.exact and not _close(claim, now)

    def _elsewhere(self, name: str, recorded: Data) -> Data:
        """The brackets that are computed now where another version asked."""
        try:
            answer = self._asked(self._guarantee, name, recorded)
        except Contradiction:
            raise
        except SharpDPError:  # there is no such place
            return {**recorded, "lower": None, "upper": "inf"}
        return {**recorded, **plain(self._guarantee, answer)}

    def _asked(self, guarantee: Guarantee, name: str, recorded: Data) -> Bracket:
        """One bracket, computed again."""
        if name == "tradeoff":
            return guarantee.fnr(fpr=recorded["fpr"])
        given = {GIVEN[name]: recorded[GIVEN[name]]} if name in GIVEN else {}
        answer: Bracket = getattr(guarantee, name)(**given)
        return answer

    def _narrower(self, name: str, recorded: Data, known: Interval) -> Interval:
        """The bracket computed once more, with more work, where that makes it narrower."""
        width = max(self._guarantee.relative_width / 100.0, NARROWEST)
        finer = replace(self._guarantee, relative_width=width)
        try:
            low, high = _interval(plain(finer, self._asked(finer, name, recorded)))
        except Contradiction:
            raise
        except SharpDPError:
            return known
        return max(low, known[0]), min(high, known[1])


def _claimed(claim: Interval, known: Interval) -> Verdict:
    """The claim of a bracket, held against one that is known to be true."""
    if _below(claim[1], known[0]) or _below(known[1], claim[0]):
        return Verdict.CONTRADICTED
    if _below(claim[1], known[1]) or _below(known[0], claim[0]):
        return Verdict.UNCONFIRMED
    return Verdict.CONFIRMED


def _below(one: float, other: float) -> bool:
    """Whether the first number is smaller by more than its last digits."""
    return one < other and not _close(one, other)


def _close(one: float, other: float) -> bool:
    """Whether two numbers may be the same one, computed on different processors."""
    return one == other or abs(one - other) <= 1e-9 * min(abs(one), abs(other))


def _interval(entry: Data) -> Interval:
    """Both ends; a missing lower one is no claim."""
    low, high = (number_from_data(entry[name]) for name in ("lower", "upper"))
    return (-math.inf if low is None else float(low)), float(high)


# --- pages -------------------------------------------------------------------------------------


def _differing_text(page: str, data: Data, now: Results) -> Iterator[Finding]:
    """The first line in which a page is not what its own data give."""
    from sharpdp.report.html import page as laid_out

    if now.form < FORMAT:
        why = f"pages of format {now.form} are laid out differently; only the report in it was checked"
        yield Finding("the text of the page", Verdict.UNCONFIRMED, why)
        return
    both = page.replace("\r\n", "\n"), laid_out(_recorded(data, now))
    lines, wanted = (text.rstrip("\n").split("\n") for text in both)
    for number in range(max(len(lines), len(wanted))):
        parts = [rows[number] if number < len(rows) else None for rows in (lines, wanted)]
        if parts[0] != parts[1]:
            same = data["versions"]["sharpdp"] == now.versions["sharpdp"]
            why = (
                "the page does not show what the report in it says: it was changed"
                if same
                else "this version lays out pages differently; only the report in it was checked"
            )
            verdict = Verdict.CONTRADICTED if same else Verdict.UNCONFIRMED
            yield Finding(f"line {number + 1} of the page", verdict, why, *parts)
            return


def _recorded(data: Data, now: Results) -> Results:
    """The results with the numbers that were recorded, which may differ in their last digits."""

    def bracket(quantity: str, entry: Data, context: str) -> Bracket:
        low, high = _interval(entry)
        return Bracket(low, high, Rigor(entry["rigor"]), quantity, context)

    def listed(name: str) -> tuple[tuple[float, Bracket], ...]:
        given = GIVEN[name]
        return tuple(
            (entry[given], bracket(name, entry, f"at {given}={entry[given]:g} |"))
            for entry in data[name]
        )

    return replace(
        now,
        epsilons=listed("epsilon"),
        deltas=listed("delta"),
        rates=listed("tpr"),
        advantage=bracket("advantage", data["advantage"], "|"),
        mu=bracket("mu", data["mu"], now.mu.context),
        curve=tuple((point["fpr"], point["lower"], point["upper"]) for point in data["tradeoff"]),
        versions=data["versions"],
    )
