"""MLflow: the claim of an answer as parameters, metrics and tags of a run, and its report as artifacts.

Needs mlflow or mlflow-skinny, which sharpdp does not install.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from numpy.typing import ArrayLike

from sharpdp.errors import MissingExtra
from sharpdp.questions.account import Guarantee
from sharpdp.report import Results
from sharpdp.report.html import page
from sharpdp.report.results import DELTAS, as_json

__all__ = ["log_privacy"]


def log_privacy(
    guarantee: Guarantee,
    *,
    delta: ArrayLike = DELTAS,
    header: Mapping[str, Any] | None = None,
    folder: str = "privacy",
) -> None:
    """Log an answer to the active run of MLflow.

    Metrics are ``dp_epsilon`` (the upper end at the first delta, not rounded), ``dp_epsilon_lower`` if a
    lower side is known, ``dp_delta`` and ``dp_advantage``. The parameters ``dp_mechanism`` and
    ``dp_adjacency`` and the tags ``dp.rigor`` and ``dp.plan_sha256`` say what they are about. The
    artifacts ``privacy/report.html`` and ``privacy/report.json`` can be checked with ``sharpdp verify``.

    Args:
        guarantee: The answer, from `account`.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        header: What the report says about itself: a mapping of the fields of `plans.Header`.
        folder: Folder of the artifacts.

    Raises:
        MissingExtra: MLflow is not installed.
        InvalidArgument: A delta is out of range, or the header has no such field.
        WrongType: An argument has the wrong type.
        NotCertified: An answer cannot be given with a proof.
    """
    try:
        mlflow: Any = import_module("mlflow")
    except ImportError as missing:
        raise MissingExtra(
            "mlflow is needed to log to it and is not installed: pip install mlflow-skinny"
        ) from missing
    results = Results.of(guarantee, delta=delta, header=header)
    place, epsilon = results.epsilons[0]
    metrics = {
        "dp_epsilon": float(epsilon),
        "dp_delta": place,
        "dp_advantage": float(results.advantage),
    }
    if guarantee.lower_derivations:
        metrics["dp_epsilon_lower"] = float(epsilon.lower)
    mlflow.log_metrics(metrics)
    mlflow.log_params(
        {"dp_mechanism": guarantee.mechanism.describe(), "dp_adjacency": guarantee.neighbors}
    )
    tags = {"dp.rigor": epsilon.rigor.by(epsilon.stated_by)}
    if not results.unwritten:
        tags["dp.plan_sha256"] = results.plan.hash
    mlflow.set_tags(tags)
    mlflow.log_text(page(results), f"{folder}/report.html")
    mlflow.log_text(as_json(results), f"{folder}/report.json")
