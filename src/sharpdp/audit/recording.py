"""Grey-box audit of a training step: record what enters the noise, and replay it on neighboring data.

The step runs on the data and says what it adds noise to. On a neighbor it runs again and gets the
*recorded* noisy values instead of new ones. Then everything that it does afterwards, and everything
that it publishes, must be the same as before, bit for bit: what differs is known to the step from the
data, and no noise covers it. What is the same, and changes by no more than the sensitivity where the
noise is added, is what the accounting assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import (
    count,
    flag,
    has_entries,
    open_probability,
    positive_scale,
    real,
    short_repr,
)
from sharpdp.audit.findings import Finding, TestedClaim, certain, judged
from sharpdp.audit.tails import MARGIN, two_sided
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.numerics.special import Array, betaincc
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import Guarantee

__all__ = ["Release", "ReplayAudit", "replay"]

Values = dict[str, Array]

Release = Callable[..., Any]
"""`release(value, deviation)` adds the noise: a number, an array, or a dictionary of them by name."""

ROUNDING = 1e-6
"""Relative excess of a sensitivity, or of a scale, that single precision explains."""


@dataclass(frozen=True)
class ReplayAudit(TestedClaim):
    """The outcome of replaying a step on neighboring data with the same noisy values.

    Attributes:
        sensitivity: The l2 norm by which one record may change what noise is added to.
        largest_change: The largest change that any neighbor made.
        releases: How often noise was added.
        neighbors: On how many neighbors the step was replayed.
        false_alarm: The probability with which a correct step is called inconsistent, at most.
        findings: Every test, the most surprising first.
    """

    sensitivity: float
    largest_change: float
    releases: int
    neighbors: int
    false_alarm: float
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        """The verdict and what failed."""
        verdict = "consistent" if self.consistent else "NOT consistent"
        lines = [
            f"Replay on {self.neighbors:,} neighbors: {verdict} with one noisy release of sensitivity "
            f"{self.sensitivity:g} at a time; the largest change was {self.largest_change:.6g} in "
            f"{self.releases:,} releases"
        ]
        return "\n".join([*lines, *self._failures()])

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, for JSON.

        Returns:
            A dictionary of numbers, text and lists.
        """
        return {
            "title": "Replay audit",
            "consistent": self.consistent,
            "sensitivity": self.sensitivity,
            "largest_change": self.largest_change,
            "releases": self.releases,
            "neighbors": self.neighbors,
            "false_alarm": self.false_alarm,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def summary(self, guarantee: Guarantee) -> dict[str, Any]:
        """The account of this audit in a report on a guarantee.

        Args:
            guarantee: The guarantee that is reported; a replay does not know of which run it was.

        Returns:
            The title, whether it is consistent, and sentences.
        """
        lines = [line.removeprefix("- ") for line in str(self).splitlines()]
        return {
            "title": "Audit (replay)",
            "consistent": self.consistent,
            "sentences": [f"{line}." for line in lines],
        }


@underflow_is_zero
def replay(
    step: Callable[[Any, Release], Any],
    *,
    data: Any,
    neighbors: Iterable[Any] = (),
    sensitivity: float,
    noise_multiplier: float | None = None,
    releases: int | None = None,
    adversarial: bool = False,
    false_alarm: float = 1e-6,
    seed: int = 0,
) -> ReplayAudit:
    """Run a step on the data, and again on neighbors with the noisy values of the first run.

    The step takes the data and a function `release`. Whatever gets noise goes through it:
    ``noisy = release(value, deviation)``, where the value is a number, an array, or a dictionary of them
    by name, and the deviation that of the Gaussian noise. A step that draws its noise itself passes the
    outcome as well, ``release(value, deviation, noisy)``, and must go on with what it gets back. The step
    returns everything that it publishes: new parameters, losses, counts. Other random numbers that it
    draws must be the same in every call.

    Tested are: the change of every value between neighbors against the sensitivity; that noise is added
    equally often and at equal scales; its scale and its distribution, if the step draws it itself; that
    no noise comes twice; and that nothing else differs.

    `training_step` makes such a step of `sharpdp.learn.Training`, `opacus_step` of a loop with Opacus.

    Args:
        step: A function of the data and `release` that returns what it publishes.
        data: The data, as the step takes them.
        neighbors: Data sets that differ from the data in one record. What they do not show is not seen:
            take some with an outlier. May be left out if ``adversarial``.
        sensitivity: The l2 norm by which one record may change a value: the clipping norm.
        noise_multiplier: The planned deviation of the noise over the sensitivity; None tests no scale.
        releases: How often noise should be added; None for as often as it is.
        adversarial: True to move the records to kinks of the loss, where rounding decides about whole
            gradients, and to take for neighbors also data in which one of them is spoiled. For steps of
            `training_step`, and data that are two tensors, inputs and targets.
        false_alarm: Probability, in (0, 1), with which a correct step may be called inconsistent.
        seed: For the noise, if the step leaves that to `release`.

    Returns:
        The result: `consistent`, `findings` and `largest_change`.

    Raises:
        InvalidArgument: an argument is out of range, or there are no neighbors.
        WrongType: an argument has the wrong type, or the step releases no numbers.

    >>> records = np.array([[3.0, 4.0], [0.3, 0.4], [1.0, 0.0]])
    >>> def noisy_mean(rows, release):
    ...     norms = np.linalg.norm(rows, axis=1, keepdims=True)
    ...     total = np.sum(rows / np.maximum(norms, 1.0), axis=0)
    ...     return release(total, 2.0) / len(rows)  # the size is known from the data
    >>> print(replay(noisy_mean, data=records, neighbors=[records[1:]], sensitivity=1.0))
    Replay on 1 neighbors: NOT consistent with one noisy release of sensitivity 1 at a time; the largest
    change was 1 in 1 releases
    - published: result differs on neighbor 0, although the noisy values were the same
    """
    most = positive_scale(sensitivity=sensitivity)
    multiplier = (
        None if noise_multiplier is None else positive_scale(noise_multiplier=noise_multiplier)
    )
    level = open_probability(false_alarm=false_alarm)
    function: object = step
    if isinstance(function, type) or not callable(function):
        raise WrongType(f"step must be a function of data and release; got {short_repr(step)}.")
    untyped: object = neighbors
    others = list(untyped) if has_entries(untyped) else []
    if flag(adversarial=adversarial):
        harden = getattr(step, "adversarial", None)
        if harden is None:
            raise WrongType(
                f"step must be one of training_step for adversarial=True; got {short_repr(step)}."
            )
        data, spoiled = harden(data)
        others += spoiled
    if not others:
        raise InvalidArgument("neighbors must be a list of at least one data set; got none.")
    recorder = Recorder(np.random.default_rng(count(seed=seed, least=0)))
    published = flattened(step(data, recorder))
    findings = _noise_findings(recorder, most, multiplier, releases)
    changes: list[tuple[float, str]] = []
    for index, neighbor in enumerate(others):
        again = Replayer(recorder.recorded)
        try:
            differing = _difference(published, flattened(step(neighbor, again)))
        except Diverged as divergence:
            findings.append(
                certain("control flow", f"{divergence} on neighbor {index}", holds=False)
            )
            continue
        except Exception as fault:  # of any kind that a step may have
            words = (
                f"the step raises {type(fault).__name__} on neighbor {index}, and not on the data"
            )
            findings.append(certain("control flow", words, holds=False))
            continue
        findings += again.findings(index)
        changes += again.changes
        if differing:
            words = (
                f"{differing} differs on neighbor {index}, although the noisy values were the same"
            )
            findings.append(certain("published", words, holds=False))
    largest, group = max(changes, default=(0.0, ""))
    where = f" (most of it in {group})" if group else ""
    words = f"one record changes a value by {largest:.6g}, where {most:g} is allowed{where}"
    findings.append(certain("sensitivity", words, holds=largest <= most * (1.0 + ROUNDING)))
    ordered, _ = judged(_distinct(findings), level)
    return ReplayAudit(most, largest, len(recorder.recorded), len(others), level, ordered)


def _distinct(findings: list[Finding]) -> list[Finding]:
    """One finding of each kind that failed, so that many neighbors do not repeat one sentence."""
    kept: dict[str, Finding] = {}
    for finding in findings:
        if finding.test not in kept or finding.p_value < kept[finding.test].p_value:
            kept[finding.test] = finding
    return list(kept.values())


@dataclass(frozen=True, eq=False)
class Recorded:
    """One noisy release."""

    value: Values
    deviation: float
    noisy: Any
    is_own: bool
    """Whether the step drew the noise itself."""


class Recorder:
    """The `release` of the first run: it remembers every value, its scale, and what came out."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Nothing is recorded yet."""
        self.rng = rng
        self.recorded: list[Recorded] = []

    def __call__(self, value: Any, deviation: float, noisy: Any = None) -> Any:
        """The noisy value, which later runs get as well."""
        values = _values(value)
        scale = real(deviation=deviation)
        own = noisy is not None
        if not own:
            drawn = {
                name: array + scale * self.rng.normal(size=array.shape)
                for name, array in values.items()
            }
            noisy = drawn if isinstance(value, Mapping) else drawn["value"]
        self.recorded.append(Recorded(values, scale, noisy, own))
        return noisy


class Diverged(Exception):
    """The step took another way on a neighbor than on the data."""


class Replayer:
    """The `release` of later runs: it hands out what was recorded, and measures what changed."""

    def __init__(self, recorded: list[Recorded]) -> None:
        """Nothing is handed out yet."""
        self.recorded = recorded
        self.used = 0
        self.changes: list[tuple[float, str]] = []
        self.other_scale = ""

    def __call__(self, value: Any, deviation: float, noisy: Any = None) -> Any:
        """The recorded noisy value."""
        if self.used >= len(self.recorded):
            raise Diverged(f"noise is added more often than {len(self.recorded)} times")
        before, values = self.recorded[self.used], _values(value)
        self.used += 1
        shapes = [{name: array.shape for name, array in x.items()} for x in (before.value, values)]
        if shapes[0] != shapes[1]:
            raise Diverged(f"release {self.used} has another shape")
        squares = {name: float(np.sum((values[name] - before.value[name]) ** 2)) for name in values}
        group = max(squares, key=lambda name: squares[name]) if len(squares) > 1 else ""
        self.changes.append((float(np.sqrt(sum(squares.values()))), group))
        if abs(real(deviation=deviation) - before.deviation) > ROUNDING * before.deviation:
            self.other_scale = f"{deviation:.6g} instead of {before.deviation:.6g}"
        return before.noisy

    def findings(self, neighbor: int) -> list[Finding]:
        """Whether noise was added as often, and at the same scales, as on the data."""
        found = []
        if self.used < len(self.recorded):
            words = (
                f"noise is added {self.used} times on neighbor {neighbor}, and "
                f"{len(self.recorded)} on the data"
            )
            found.append(certain("control flow", words, holds=False))
        if self.other_scale:
            words = f"the scale of the noise depends on the data: {self.other_scale}"
            found.append(certain("scale of the noise", words, holds=False))
        return found


def _noise_findings(
    recorder: Recorder, sensitivity: float, multiplier: float | None, releases: int | None
) -> list[Finding]:
    """Tests of the noise of the first run."""
    recorded = recorder.recorded
    findings = []
    if not recorded:
        words = "the step releases nothing through release(value, deviation)"
        findings.append(certain("noise is added", words, holds=False))
    if releases is not None:
        planned = count(releases=releases)
        words = f"noise is added {len(recorded)} times, where {planned} are planned"
        findings.append(certain("noise is added", words, holds=len(recorded) == planned))
    if multiplier is not None and recorded:
        scale = multiplier * sensitivity
        worst = max(recorded, key=lambda release: abs(release.deviation - scale)).deviation
        holds = abs(worst - scale) <= ROUNDING * scale
        words = f"the deviation of the noise is {worst:.6g}, where {scale:.6g} is planned"
        findings.append(certain("scale of the noise", words, holds=holds))
    noise = [
        (number, _noise(release))
        for number, release in enumerate(recorded)
        if release.is_own and release.deviation > 0.0
    ]
    return findings + _law(noise) + _repeated(noise)


def _noise(release: Recorded) -> Array:
    """The noise of a release, in deviations."""
    noisy = _values(release.noisy)
    parts = [
        (noisy[name] - value).ravel() / release.deviation for name, value in release.value.items()
    ]
    return np.concatenate(parts)


def _law(noise: list[tuple[int, Array]]) -> list[Finding]:
    """Whether the squares of the noise sum up like squares of normal numbers: a chi-squared law."""
    from scipy.special import gammainc, gammaincc

    if not noise:
        return []
    tails = []
    for number, values in noise:
        half, total = 0.5 * values.size, 0.5 * float(np.sum(values * values))
        tail = float(two_sided(gammainc(half, total), gammaincc(half, total))) * MARGIN
        tails.append((tail, number, np.sqrt(2.0 * total / values.size)))
    tail, number, scale = min(tails)
    words = (
        f"the noise of release {number} has {scale:.4g} times the deviation that was stated for it"
    )
    return [Finding("distribution of the noise", min(len(tails) * tail, 1.0), words)]


def _repeated(noise: list[tuple[int, Array]]) -> list[Finding]:
    """Whether two releases have noise in common: the cosine of independent normal vectors is small.

    Its square has the law Beta(1/2, (d - 1)/2) for d entries.
    """
    pairs: list[tuple[float, int, int, float]] = []
    for index, (first, own) in enumerate(noise):
        for second, other in noise[:index]:
            if own.size != other.size or own.size < 2:
                continue
            norms = float(np.linalg.norm(own) * np.linalg.norm(other))
            cosine = float(np.dot(own, other)) / norms if norms else 1.0
            tail = float(betaincc(0.5, 0.5 * (own.size - 1.0), min(cosine * cosine, 1.0)))
            pairs.append((min(tail * MARGIN + 1e-300, 1.0), second, first, cosine))
    if not pairs:
        return []
    tail, second, first, cosine = min(pairs)
    words = f"the noise of releases {second} and {first} has correlation {cosine:.3g}"
    return [Finding("noise used again", min(len(pairs) * tail, 1.0), words)]


def _values(value: Any) -> Values:
    """The released values, as arrays of doubles by name."""
    named = value if isinstance(value, Mapping) else {"value": value}
    values = {}
    for name, entry in named.items():
        array = np.asarray(_plain(entry))
        if array.dtype.kind not in "fiub":
            raise WrongType(f"release must be given numbers; got {short_repr(entry)}.")
        values[str(name)] = array.astype(np.float64)
    return values


def _plain(value: Any) -> Any:
    """A tensor of torch as an array; anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def flattened(published: Any, name: str = "result") -> dict[str, NDArray[Any]]:
    """The published values of a step as arrays by name, whatever lists and dictionaries hold them.

    >>> list(flattened({"loss": 1.0, "weights": [np.zeros(2), 3]}))
    ["result['loss']", "result['weights'][0]", "result['weights'][1]"]
    """
    if isinstance(published, Mapping):
        parts = [flattened(entry, f"{name}[{key!r}]") for key, entry in published.items()]
    elif isinstance(published, Sequence) and not isinstance(published, str | bytes):
        parts = [flattened(entry, f"{name}[{index}]") for index, entry in enumerate(published)]
    else:
        return {name: np.asarray(_plain(published))}
    return {key: array for part in parts for key, array in part.items()}


def _difference(first: dict[str, NDArray[Any]], second: dict[str, NDArray[Any]]) -> str:
    """The name of something that two runs do not publish alike; empty if there is none."""
    for name in {**first, **second}:
        if name not in first or name not in second:
            return name
        own, other = first[name], second[name]
        if own.dtype != other.dtype or own.shape != other.shape or own.tobytes() != other.tobytes():
            return name
    return ""
