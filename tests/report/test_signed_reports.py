"""Reports for those who sign them: headers, checklists, few digits, extracts, hashes, old formats."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import sharpdp as dp
from sharpdp import report
from sharpdp.cli import main
from sharpdp.errors import MissingExtra, WrongType
from sharpdp.plans import Header, Plan
from sharpdp.report.results import Results
from sharpdp.report.yaml_text import to_yaml

OLD = Path(__file__).resolve().parents[1] / "golden" / "reports"
HEADER = {
    "project": "Commute survey",
    "data_set": "answers of May 2026",
    "version": "1.2",
    "owner": "City of Linz",
    "contact": "privacy@linz.example",
    "date": "2026-06-01",
    "reviewer": "M. Huber",
}
NOISE = dp.account(dp.Gaussian(noise_multiplier=2.0))
SURVEY = dp.account(dp.ShuffledReports(users=300, local_epsilon=1.0), relative_width=0.05)


# --- headers ---


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_every_format_shows_the_header(form: str) -> None:
    text = NOISE.report(form, delta=1e-5, header=HEADER)
    assert all(value in text for value in HEADER.values())
    assert HEADER["project"] not in NOISE.report(form, delta=1e-5)


@pytest.mark.parametrize("form", ["html", "json"])
def test_a_header_is_said_not_to_be_checked(form: str) -> None:
    found = report.verify(NOISE.report(form, delta=1e-5, header=HEADER))
    assert found.verdict is report.Verdict.CONFIRMED
    for name, value in HEADER.items():
        place = "/date" if name == "date" else f"/header/{name}"
        assert f"{place} ({value})" in found.unchecked


def test_a_page_shows_the_header_that_is_in_its_data() -> None:
    page = NOISE.report("html", delta=1e-5, header=HEADER)
    body = page.index("<body>")
    forged = page[:body] + page[body:].replace("M. Huber", "A. Other", 1)
    assert report.verify(forged).verdict is report.Verdict.CONTRADICTED


def test_headers_cannot_break_a_document() -> None:
    header = {"project": "</script><b>*x*</b>|"}
    page = NOISE.report("html", delta=1e-5, header=header)
    assert page.count("<script") == page.count("</script") == 1
    assert "<b>*x*" not in page
    assert not re.search(r"<[a-z!/]", NOISE.report("markdown", delta=1e-5, header=header))


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ({"projct": "x"}, "a header has no field 'projct'. Did you mean project?"),
        ({"owner": "a\x1b[2J"}, "owner must be text of one line"),
        ({"owner": 3}, "owner must be text"),
        ({"owner": " "}, "owner must not be empty"),
        ("Commute survey", "header must be a mapping"),
    ],
)
def test_wrong_headers_are_refused(header: Any, sentence: str) -> None:
    with pytest.raises((dp.InvalidArgument, WrongType), match=re.escape(sentence)):
        NOISE.report(header=header)


def test_a_date_is_given_once() -> None:
    with pytest.raises(dp.InvalidArgument, match="date must be that of the header"):
        NOISE.report(date="2026-01-01", header=HEADER)
    assert "2026-06-01" in NOISE.report(date="2026-06-01", header=HEADER)


def test_the_header_of_a_plan_is_no_part_of_what_is_asked(tmp_path: Path) -> None:
    plain = {"mechanism": {"kind": "Gaussian", "noise_multiplier": 2.0}}
    plan = Plan.from_dict({**plain, "header": HEADER})
    assert plan.header == Header(**HEADER)
    assert plan == Plan.from_dict(plain)
    assert plan.hash == Plan.from_dict(plain).hash
    assert "header" not in plan.to_dict()
    file, written = tmp_path / "plan.json", tmp_path / "report.json"
    file.write_text(json.dumps({**plain, "header": HEADER}), "utf-8")
    assert (
        main(["report", str(file), "-o", str(written), "--owner", "Board", "--version", "2"]) == 0
    )
    data = json.loads(written.read_text("utf-8"))
    assert data["header"] == {
        **{name: value for name, value in HEADER.items() if name != "date"},
        "owner": "Board",
        "version": "2",
    }
    assert data["date"] == HEADER["date"]
    assert data["hash"] == plan.hash


# --- checklist and digits ---


def test_the_checklist_has_every_condition_of_the_deciding_theorems() -> None:
    for answer in (NOISE, SURVEY):
        data = report.to_dict(answer, delta=1e-5)
        said = " ".join(data["checklist"]).lower()
        for theorem in data["theorems"]:
            if "upper" in theorem["decided"]:
                for part in theorem["holds_when"].split(";"):
                    assert part.strip().lower() in said
        page = answer.report("html", delta=1e-5)
        assert page.count("<li>", page.index('class="boxes"'), page.index('class="sign"')) == len(
            data["checklist"]
        )
    assert "Trust in the shuffler" in " ".join(report.to_dict(SURVEY)["checklist"])


@pytest.mark.parametrize("answer", [NOISE, SURVEY], ids=["noise", "survey"])
def test_shown_ends_are_outside_of_those_in_the_data(answer: dp.Guarantee) -> None:
    text = answer.report("markdown", delta=[1e-5, 1e-6])
    data = report.to_dict(answer, delta=[1e-5, 1e-6])
    shown = re.findall(r"\| (delta|epsilon) = (\S+) \| \w+ \| (\S+) \| (\S+) \|", text)
    entries = [*data["epsilon"], *data["delta"]]
    assert len(shown) == len(entries)
    for (_, _, low, high), entry in zip(shown, entries, strict=True):
        assert float(low) <= entry["lower"] <= entry["upper"] <= float(high)
        for end in (low, high):
            mantissa = end.partition("e")[0].replace(".", "").lstrip("0")
            assert len(mantissa) <= 6


@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0, 40.0])
def test_rows_of_delta_fit_the_run(noise: float) -> None:
    data = report.to_dict(dp.account(dp.Gaussian(noise_multiplier=noise)), delta=1e-5)
    epsilon = data["epsilon"][0]["upper"]
    for entry in data["delta"]:
        assert 0.2 * epsilon < entry["epsilon"] < 1.5 * epsilon
        assert 1e-12 < entry["upper"] < 0.999


def test_expert_sections_are_folded() -> None:
    page = NOISE.report("html", delta=1e-5)
    folded = re.findall(r"<details>\n<summary><h2>(.*?)</h2></summary>", page)
    assert folded == ["What this rests on", "How to check it", "Sources"]
    assert page.count("</details>") == 3
    assert "details::details-content" in page  # unfolded on paper


# --- older formats ---


@pytest.mark.parametrize("name", ["format1.json", "format1-shuffled.json"])
def test_numbers_of_format_1_are_still_confirmed(name: str) -> None:
    text = (OLD / name).read_text("utf-8")
    found = report.verify(text)
    other = {finding.field for finding in found.findings if "versions" not in finding.field}
    # a sensitivity now names the neighbors for which it must hold
    assert other == ({"/theorems/0/holds_when"} if name == "format1.json" else set())
    data = json.loads(text)
    data["delta"][0]["upper"] *= 0.9
    assert report.verify(json.dumps(data)).verdict is not report.Verdict.CONFIRMED
    data = json.loads(text)
    data["checklist"] = ["anything"]
    assert report.verify(json.dumps(data)).findings[0].field == "/checklist"


def test_of_a_page_of_format_1_only_the_data_are_checked() -> None:
    found = report.verify((OLD / "format1.html").read_text("utf-8"))
    assert found.verdict is report.Verdict.UNCONFIRMED
    assert [finding.field for finding in found.findings] == ["/theorems/0/holds_when"]


def test_a_later_format_is_not_judged() -> None:
    data = {**report.to_dict(NOISE, delta=1e-5), "format": 3}
    (finding,) = report.verify(json.dumps(data)).findings
    assert finding.field == "/format"


# --- extracts ---


def test_yaml_is_read_back_as_it_was_written() -> None:
    yaml = pytest.importorskip("yaml")
    data = {
        "texts": ["yes", "1e-05", 'a "b": c', "ü | # x", "", "null"],
        "numbers": {"tiny": 1e-300, "small": 1e-05, "one": 1.0, "whole": 7, "large": 1e22},
        "inf": float("inf"),
        "none": None,
        "flag": True,
        "empty": [],
    }
    assert yaml.safe_load(to_yaml(data)) == data


def test_a_model_card_has_the_claim_in_its_metadata() -> None:
    yaml = pytest.importorskip("yaml")
    text = NOISE.report("model-card", delta=[1e-5, 1e-6], header=HEADER)
    _, metadata, body = text.split("---\n", 2)
    data = yaml.safe_load(metadata)
    bracket = NOISE.epsilon(delta=1e-5)
    claim = data["privacy"]
    assert claim["epsilon_lower"] <= bracket.lower <= bracket.upper <= claim["epsilon"]
    assert claim["epsilon"] < 1.001 * bracket.upper
    assert claim["delta"] == 1e-5
    assert claim["project"] == HEADER["project"]
    assert data["tags"] == ["differential-privacy"]
    assert "## Differential privacy" in body


def test_a_model_card_is_read_by_the_hub() -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    card = hub.ModelCard(NOISE.report("model-card", delta=1e-5))
    privacy = card.data.to_dict()["privacy"]
    assert privacy["epsilon"] >= float(NOISE.epsilon(delta=1e-5))
    again = hub.ModelCard(str(card))
    assert again.data.to_dict() == card.data.to_dict()


FIELDS = {
    "basic": {
        "name", "data_curators", "intended_use", "data_product_type", "data_product_region",
        "description", "publication_date",
    },
    "dp_variant": {"variant_name", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details",
    },
    "deployment_model": {"model_name"},
    "accounting": {"composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms"},
    "administrative": {"notes", "registry_authors"},
}  # fmt: skip
"""Fields of the registry's schema that an entry has."""


def test_a_registry_entry_has_the_fields_of_the_registry() -> None:
    yaml = pytest.importorskip("yaml")
    results = Results.of(NOISE, delta=1e-5, header=HEADER)
    entry = report.registry_entry(results)
    assert yaml.safe_load(report.registry_text(results)) == json.loads(json.dumps(entry)) == entry
    deployment = entry["deployment"]
    assert {name: set(part) for name, part in deployment.items()} == FIELDS
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters["epsilon"] >= float(NOISE.epsilon(delta=1e-5))
    assert deployment["basic"]["publication_date"] == HEADER["date"]
    assert (entry["status"], entry["url_slug"]) == ("Draft", "commute_survey")


@pytest.mark.parametrize(
    ("run", "model", "variant"),
    [
        (dp.ShuffledReports(users=300, local_epsilon=1.0), "Shuffle", "Approximate DP"),
        (dp.RandomizedResponse(local_epsilon=1.0), "Local", "Approximate DP"),
        (dp.Laplace(scale=1.0), "Central", "Pure DP"),
        (
            dp.RandomizedResponse(local_epsilon=1.0) + dp.Gaussian(noise_multiplier=3.0),
            "Varies",
            "Approximate DP",
        ),
    ],
)
def test_a_registry_entry_says_who_is_trusted(run: Any, model: str, variant: str) -> None:
    delta = 0.0 if variant == "Pure DP" else 1e-5
    answer = dp.account(run, relative_width=0.1)
    entry = report.registry_entry(Results.of(answer, delta=delta))["deployment"]
    assert entry["deployment_model"]["model_name"] == model
    assert entry["dp_variant"]["variant_name"] == variant
    assert entry["basic"]["name"].startswith("TO FILL IN")
    assert ("delta" in entry["privacy_loss"]["privacy_parameters"]) == (delta > 0)


def test_an_infinite_epsilon_is_no_number_of_an_extract() -> None:
    answer = dp.account(dp.ApproximateDP(epsilon=1.0, delta=1e-4))
    results = Results.of(answer, delta=1e-6)
    assert report.card_data(results)["privacy"]["epsilon"] is None
    entry = report.registry_entry(results)["deployment"]["privacy_loss"]
    assert entry["privacy_parameters"] == {"delta": 1e-6}


# --- MLflow ---


def test_mlflow_gets_numbers_and_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, Any] = {"text": {}}
    stub = types.SimpleNamespace(
        log_metrics=lambda metrics: calls.update(metrics=metrics),
        log_params=lambda params: calls.update(params=params),
        set_tags=lambda tags: calls.update(tags=tags),
        log_text=lambda text, path: calls["text"].update({path: text}),
    )
    monkeypatch.setitem(sys.modules, "mlflow", stub)
    from sharpdp.integrations.mlflow import log_privacy

    log_privacy(NOISE, delta=1e-5, header=HEADER)
    bracket = NOISE.epsilon(delta=1e-5)
    assert calls["metrics"]["dp_epsilon"] == pytest.approx(float(bracket), rel=1e-3)
    assert calls["metrics"]["dp_epsilon_lower"] <= calls["metrics"]["dp_epsilon"]
    assert calls["params"]["dp_mechanism"] == NOISE.mechanism.describe()
    assert set(calls["text"]) == {"privacy/report.html", "privacy/report.json"}
    for text in calls["text"].values():
        assert report.verify(text).verdict is report.Verdict.CONFIRMED
    assert calls["tags"]["dp.plan_sha256"] in calls["text"]["privacy/report.json"]


def test_mlflow_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from sharpdp.integrations.mlflow import log_privacy

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match="pip install mlflow-skinny"):
        log_privacy(NOISE)


def test_the_real_mlflow_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    from sharpdp.integrations.mlflow import log_privacy

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        log_privacy(NOISE, delta=1e-5)
    data = mlflow.get_run(run.info.run_id).data
    assert data.metrics["dp_delta"] == 1e-5
    (file,) = tmp_path.rglob("report.html")
    assert report.verify(file.read_text("utf-8")).verdict is report.Verdict.CONFIRMED


# --- hashes and signatures ---


def written(tmp_path: Path) -> Path:
    file = tmp_path / "report.html"
    line = ["report", "gaussian noise_multiplier=2", "--delta", "1e-5", "-o", str(file), "--sha256"]
    assert main(line) == 0
    return file


def test_the_detached_hash_is_that_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    beside = tmp_path / "report.html.sha256"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert beside.read_text("utf-8") == f"{digest}  report.html\n"
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "-c", beside.name], cwd=tmp_path, check=True)
    assert main(["verify", str(file)]) == 0
    assert "OK  report.html.sha256 matches the file" in capsys.readouterr().out
    file.write_bytes(file.read_bytes() + b"\n")  # says the same, and is another file
    assert main(["verify", str(file)]) == 1
    assert "is not the one that report.html.sha256 was made from" in capsys.readouterr().out
    beside.write_text("anything", "utf-8")
    assert main(["verify", str(file)]) == 2


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_report_is_signed_with_a_key_of_ssh(tmp_path: Path) -> None:
    """The commands of docs/how-to/sign-a-report.md."""
    file = written(tmp_path)

    def run(*words: str, text: bytes | None = None) -> int:
        return subprocess.run(words, cwd=tmp_path, input=text, capture_output=True).returncode

    who = "m.huber@linz.example"
    assert run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", "key") == 0
    assert run("ssh-keygen", "-Y", "sign", "-f", "key", "-n", "file", "report.html") == 0
    public = (tmp_path / "key.pub").read_text("utf-8")
    (tmp_path / "allowed_signers").write_text(f"{who} {public}", "utf-8")
    check = (
        *("ssh-keygen", "-Y", "verify", "-f", "allowed_signers", "-I", who),
        *("-n", "file", "-s", "report.html.sig"),
    )
    assert run(*check, text=file.read_bytes()) == 0
    assert run(*check, text=file.read_bytes() + b" ") != 0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["--sha256"], "--sha256 hashes a file"),
        (["--format", "registry", "-o", "entry.json"], "--output of registry must end in .yaml"),
        (["--format", "html", "-o", "entry.html"], "give --output"),
        (["--format", "model card"], "Did you mean model-card?"),
        (["--project", "a\x07"], "--project must be text of one line"),
    ],
)
def test_wrong_options_get_a_sentence(
    line: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["report", "gaussian noise_multiplier=2", *line]) == 2
    assert sentence in capsys.readouterr().err
