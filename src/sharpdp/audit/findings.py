"""Findings of the single tests of an audit, and which fail together at a stated false-alarm rate."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["AuditResult", "Finding", "TestedClaim", "certain", "judged"]


@dataclass(frozen=True)
class Finding:
    """One test, and what it saw.

    Attributes:
        test: What was tested, in a few words.
        p_value: If everything is as claimed, something as odd or odder is seen with at most this
            probability; 0 for what cannot happen at all.
        sentence: What was seen.
        failed: Whether this test alone contradicts the claim, corrected for all other tests.
        certain: Whether the claim leaves no exception, so that there are no false alarms.
    """

    test: str
    p_value: float
    sentence: str
    failed: bool = False
    certain: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data, for JSON.

        Returns:
            A dictionary of numbers and text.
        """
        return {
            "test": self.test,
            "p_value": self.p_value,
            "failed": self.failed,
            "sentence": self.sentence,
        }


class AuditResult:
    """The result of an audit, as plain data and as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, for JSON.

        Returns:
            A dictionary of numbers, text and lists.
        """
        raise NotImplementedError

    def to_json(self) -> str:
        """The result as JSON.

        Returns:
            One object, indented.
        """
        return json.dumps(self.to_dict(), indent=2) + "\n"


class TestedClaim(AuditResult):
    """The result of an audit by several tests."""

    findings: tuple[Finding, ...]

    @property
    def consistent(self) -> bool:
        """Whether no test failed."""
        return not any(finding.failed for finding in self.findings)

    def _failures(self) -> list[str]:
        """The tests that failed, one line each."""
        return [
            f"- {finding.test}: {finding.sentence}" for finding in self.findings if finding.failed
        ]


def certain(test: str, sentence: str, *, holds: bool) -> Finding:
    """The finding on a promise without exceptions: it holds, or the claim is wrong."""
    return Finding(test, 1.0 if holds else 0.0, sentence, certain=True)


def judged(findings: list[Finding], level: float) -> tuple[tuple[Finding, ...], float]:
    """The findings by p-value, those that Holm's method rejects marked, and the p-value of all.

    If the claim is true, any finding is marked with probability at most `level`.
    """
    ordered = sorted(findings, key=lambda finding: finding.p_value)
    # what cannot happen at all is no false alarm, and takes no part of the risk
    left = sum(not finding.certain for finding in ordered)
    marked, rejecting, overall = [], True, 1.0
    for finding in ordered:
        adjusted = min(max(left, 1) * finding.p_value, 1.0)
        left -= not finding.certain
        rejecting = rejecting and adjusted <= level
        marked.append(replace(finding, failed=rejecting))
        overall = min(overall, adjusted)
    return tuple(marked), overall
