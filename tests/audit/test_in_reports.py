"""Reports tell what audits of their run found, and verification says that nobody computed it again."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sharpdp as dp
from sharpdp import audit
from sharpdp.errors import InvalidArgument
from sharpdp.report import verify

ANSWER = dp.account(dp.Gaussian(noise_multiplier=1.0))
RNG = np.random.default_rng(0)


def audited(guarantee: dp.Guarantee, mu: float = 1.0) -> audit.ScoreAudit:
    scores = RNG.normal(mu, size=100), RNG.normal(size=100)
    return audit.many_runs(with_record=scores[0], without_record=scores[1], guarantee=guarantee)


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_a_report_tells_of_an_audit(form: str) -> None:
    text = ANSWER.report(form, delta=1e-5, audits=[audited(ANSWER, 5.0)])
    assert "Audit (many runs)" in text
    assert "CONTRADICT" in text
    assert "What audits found" in text or form == "json"


@pytest.mark.parametrize("form", ["html", "json"])
def test_a_report_with_an_audit_is_confirmed(form: str) -> None:
    text = ANSWER.report(form, delta=1e-5, audits=[audited(ANSWER)])
    verification = verify(text)
    assert str(verification.verdict) == "confirmed", verification.lines()
    assert any("/audits/0" in line for line in verification.lines())


def test_a_page_that_hides_a_contradiction_is_seen() -> None:
    page = ANSWER.report("html", delta=1e-5, audits=[audited(ANSWER, 5.0)])
    forged = page.replace("CONTRADICTION", "no contradiction", 1)
    assert forged != page
    assert str(verify(forged).verdict) == "contradicted"


def test_an_audit_of_another_run_is_refused() -> None:
    other = dp.account(dp.Gaussian(noise_multiplier=2.0))
    with pytest.raises(InvalidArgument, match="audits must be of the run"):
        ANSWER.report(audits=[audited(other)])
    scheme = dp.PoissonBatches(dataset_size=100, batch_size=10, epochs=1)
    drawn = audit.sampler(batches=scheme.batches(0), scheme=scheme)
    with pytest.raises(InvalidArgument, match="audits must be of the run"):
        ANSWER.report(audits=[drawn])


def test_audits_of_batches_and_of_steps() -> None:
    scheme = dp.PoissonBatches(dataset_size=100, batch_size=1, epochs=3)
    run = dp.account(dp.DPSGD(scheme, noise_multiplier=1.0))
    drawn = audit.sampler(batches=scheme.batches(0), scheme=scheme)
    replayed = audit.replay(
        lambda rows, release: release(rows.sum(), 1.0),
        data=np.array([1.0, 0.5]),
        neighbors=[np.array([1.0])],
        sensitivity=1.0,
    )
    data = json.loads(run.report("json", delta=1e-5, audits=[drawn, replayed]))
    assert [one["title"] for one in data["audits"]] == ["Audit (batches)", "Audit (replay)"]
    assert all(one["consistent"] for one in data["audits"])


def test_results_as_json_and_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    result = audited(ANSWER)
    data = json.loads(result.to_json())
    assert data["epsilon"]["lower"] == result.epsilon.lower
    assert data["guarantee"] == "Gaussian noise (noise multiplier 1), neighboring inputs"
    axes = result.plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "observed" in labels
    assert len(labels) == 3
    # the band holds at every threshold: it is nowhere below what was observed
    assert np.all(result.fpr_upper >= result.fpr)
    assert np.all(result.fnr_upper >= result.fnr)
