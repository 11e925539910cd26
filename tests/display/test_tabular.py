"""Answers as data frames, CSV and LaTeX: numbers of the API, few digits rounded outwards."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.display.tabular import Tabular
from sharpdp.errors import WrongType

SIZES: dict[str, Any] = {"dataset_size": 100, "batch_size": 10, "epochs": 1}
GAUSSIAN = dp.account(dp.Gaussian(noise_multiplier=1.0))


def ledger(folder: Path) -> dp.Ledger:
    made = dp.Ledger(folder / "budget.jsonl", epsilon=3.0, delta=1e-6, choice="fixed in advance")
    made.add(dp.Gaussian(noise_multiplier=8.0), note="a & b, 50%")
    return made


@pytest.fixture
def tabular(tmp_path: Path) -> dict[str, tuple[Tabular, dict[str, Any]]]:
    noise = dp.sweep(lambda noise: dp.Gaussian(noise_multiplier=noise), noise=[1.0, 2.0])
    return {
        "Guarantee": (GAUSSIAN, {}),
        "Comparison": (dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=1e-5), {}),
        "SamplerComparison": (
            dp.compare_samplers(noise_multiplier=1.0, **SIZES, delta=1e-5),
            {},
        ),
        "Sweep": (noise, {"delta": 1e-5}),
        "TradeoffCurve": (GAUSSIAN.tradeoff(), {"fpr": [0.0, 0.5, 1.0]}),
        "RenyiCurve": (GAUSSIAN.renyi_curve(orders=[2.0, 8.0]), {}),
        "CollectionDesign": (
            dp.design_collection(
                users=1000, rounds=1, categories=3, delta=1e-6, local_epsilon=[1.0]
            ),
            {},
        ),
        "Ledger": (ledger(tmp_path), {}),
    }


def test_rows_are_written_as_they_are(
    tabular: dict[str, tuple[Tabular, dict[str, Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    for name, (answer, asked) in tabular.items():
        rows = answer.records(**asked)
        assert rows, name
        assert len({tuple(row) for row in rows}) == 1, name  # the same keys in every row
        read = list(csv.DictReader(io.StringIO(answer.to_csv(tmp_path / "a.csv", **asked))))
        assert (tmp_path / "a.csv").read_text("utf-8") == answer.to_csv(**asked)
        for row, line in zip(rows, read, strict=True):
            for key, value in row.items():
                assert line[key] == ("" if value is None else str(value)), name
        assert answer.to_dataframe(**asked) == rows
        latex = answer.to_latex(**asked)
        assert latex.count(r"\\") == len(rows) + 1, name
        columns = latex.splitlines()[0].removeprefix(r"\begin{tabular}{").rstrip("}")
        for line in latex.splitlines():
            if line.endswith(r"\\"):
                assert line.replace(r"\&", "").count("&") == len(columns) - 1, line


def test_pandas_takes_the_rows() -> None:
    pandas = pytest.importorskip(
        "pandas", reason="run by make test-frameworks; or pip install pandas"
    )
    table = dp.compare_samplers(noise_multiplier=1.0, **SIZES, delta=1e-5)
    frame = table.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["epsilon_upper"].iloc[0] == table.rows[0].upper


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(dp.MissingExtra, match="pip install pandas"):
        GAUSSIAN.to_dataframe()


def test_few_digits_are_rounded_outwards() -> None:
    class Rows(Tabular):
        def records(self, **asked: Any) -> list[dict[str, Any]]:
            return [
                {
                    "x_lower": 1.2345678,
                    "x_upper": 1.2345612,
                    "y_upper": math.inf,
                    "z_lower": 1.0000009e-7,
                    "note": "50% & more_x",
                    "n": 60000,
                    "none": None,
                }
            ]

    line = Rows().to_latex().splitlines()[4]
    assert line == (
        r"1.23456 & 1.23457 & $\infty$ & $1 \cdot 10^{-7}$ & 50\% \& more\_x & 60,000 \\"
    )


@pytest.mark.parametrize(
    ("answer", "asked", "words"),
    [
        (GAUSSIAN, {"fpr": 0.5}, "asked at delta"),
        (GAUSSIAN.tradeoff(), {"delta": 1e-5}, "asked at fpr"),
        (GAUSSIAN.renyi_curve(), {"delta": 1e-5}, "asked at order"),
        (dp.sweep([dp.Gaussian(noise_multiplier=1.0)]), {}, "asked at one delta"),
    ],
)
def test_wrong_questions_get_a_sentence(answer: Tabular, asked: Any, words: str) -> None:
    with pytest.raises(WrongType, match=words):
        answer.to_csv(**asked)
