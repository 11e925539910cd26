"""An entry for the registry of deployments (OpenDP, NIST), as far as a plan knows it.

The fields follow the registry's schema (github.com/opendp/deployments-registry-data, after
arXiv 2509.13509). What only the publisher knows is marked as to be filled in.
"""

from __future__ import annotations

import re
from typing import Any

from sharpdp.display.outward_digits import ROUND_CEILING
from sharpdp.mechanisms import (
    DPSGD,
    ApproximateReports,
    BlanketRandomizer,
    DiscreteRandomizer,
    LocalGaussian,
    LocalLaplace,
    Mechanism,
    RandomizedResponse,
    ReportsOfGroup,
    SampledReports,
    ShuffledGroups,
    ShuffledReports,
)
from sharpdp.report.model_card import safe
from sharpdp.report.results import Results
from sharpdp.report.words import in_words, neighbors, sampler, trusted, unit
from sharpdp.report.yaml_text import to_yaml

__all__ = ["TO_FILL_IN", "registry_entry", "registry_text"]

TO_FILL_IN = "TO FILL IN"
"""How a text starts that only the publisher knows."""

NO_DATE = "1900-01-01"
"""The registry's own placeholder, since it requires a date."""


def registry_entry(results: Results) -> dict[str, Any]:
    """The entry as plain data for JSON or YAML: a draft of tier 2, with most fields of tier 3.

    Args:
        results: The numbers of the report.

    Returns:
        The fields of the registry by name. Texts that start with `TO_FILL_IN` are for the publisher.

    Raises:
        Unsupported: The mechanism holds a function, so that no plan can be cited.
    """
    guarantee = results.guarantee
    run = guarantee.mechanism
    delta, epsilon = results.epsilons[0]
    about = results.header
    name = about.project or f"{TO_FILL_IN}: name of the data product"
    bracket = f"{epsilon:g}".replace(" to ", f" <= {epsilon.quantity} <= ")
    parameters: dict[str, Any] = {"delta": delta} if delta > 0.0 else {}
    if (most := safe(float(epsilon), ROUND_CEILING)) is not None:
        parameters = {"epsilon": most, **parameters}
    others = ", ".join(
        f"{safe(float(answer), ROUND_CEILING)} at delta {place:g}"
        for place, answer in results.epsilons[1:]
    )
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [about.owner or f"{TO_FILL_IN}: who publishes it"],
                "intended_use": f"{TO_FILL_IN}: what it is for",
                "data_product_type": "Machine learning model"
                if any(isinstance(part, DPSGD) for part, _ in run.parts())
                else "Summary statistics",
                "data_product_region": f"{TO_FILL_IN}: whose data, under which law",
                "description": _described(results),
                "publication_date": results.date or NO_DATE,
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if delta > 0.0 else "Pure DP",
                "unprotected_quantities": f"{TO_FILL_IN}: what is released without noise, such as the "
                "number of records",
            },
            "privacy_loss": {
                "privacy_unit": unit(run, guarantee.group_size),
                "privacy_unit_details": neighbors(guarantee.adjacency, guarantee.group_size),
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"{bracket} at delta={delta:g}, "
                f"{epsilon.rigor.by(epsilon.stated_by)}."
                + (f" Upper ends elsewhere: {others}." if others else ""),
            },
            "deployment_model": _model(run),
            "accounting": {
                "composition": "All parts of the plan are composed: "
                + "; ".join(f"{bound.name} ({bound.source})" for bound in guarantee.bounds)
                + "."
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"{TO_FILL_IN}: not counted in epsilon unless "
                "it is part of the plan",
                "mechanisms": " ".join([*in_words(run), *sampler(run)]),
            },
            "administrative": {
                "notes": _notes(results),
                "registry_authors": [about.contact or f"{TO_FILL_IN}: who wrote this entry"],
            },
        },
    }


def registry_text(results: Results) -> str:
    """The entry as YAML, the format of the registry.

    Args:
        results: The numbers of the report.

    Returns:
        The text of a file for its folder `deployments`.

    Raises:
        Unsupported: The mechanism holds a function, so that no plan can be cited.
    """
    return to_yaml(registry_entry(results)) + "\n"


def _described(results: Results) -> str:
    """The release, with the names in the header."""
    about = results.header
    data = f" Data: {about.data_set}." if about.data_set else ""
    version = f" Version: {about.version}." if about.version else ""
    return f"{results.guarantee.mechanism.describe()}.{data}{version}"


def _model(run: Mechanism) -> dict[str, str]:
    """Who has to be trusted: with shuffled reports the shuffler, with local ones nobody."""
    shuffled = (
        ApproximateReports,
        ReportsOfGroup,
        SampledReports,
        ShuffledGroups,
        ShuffledReports,
    )
    local = (
        BlanketRandomizer,
        DiscreteRandomizer,
        LocalGaussian,
        LocalLaplace,
        RandomizedResponse,
    )
    kinds = {
        "Shuffle"
        if isinstance(part, shuffled)
        else "Local"
        if isinstance(part, local)
        else "Central"
        for part, _ in run.parts()
    }
    name = kinds.pop() if len(kinds) == 1 else "Varies"
    people = " ".join(trusted(run))
    return {"model_name": name, **({"actors": people} if people else {})}


def _notes(results: Results) -> str:
    """How the claim can be checked, and what it needs beyond the conditions of theorems."""
    made = f"Computed by sharpdp {results.versions['sharpdp']}."
    reviewer = f" Reviewed by {results.header.reviewer}." if results.header.reviewer else ""
    needs = "".join(f" Provided that {clause}." for clause in results.guarantee.conditions)
    return f"{made} SHA-256 of the plan: {results.plan.hash}.{reviewer}{needs}"
