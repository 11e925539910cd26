"""The command `mixture`: what every inequality says about one mixture, as lines and as plain data."""

from __future__ import annotations

import argparse
from typing import Any

from sharpdp.cli.notation import mechanism
from sharpdp.cli.parser import Misuse

__all__ = ["mixture"]

FALSE_POSITIVE_RATES = (0.01, 0.1, 0.5)
"""Where the table answers if nothing else is asked."""


def mixture(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """The table of `compare_mixture` at --fpr or --epsilon: lines, and plain data."""
    if options.fpr is not None and options.epsilon is not None:
        raise Misuse(
            "give --fpr to ask for false-negative rates, or --epsilon to ask for delta; got both."
        )
    if options.weights is None:
        raise Misuse("give --weights, one per component.")
    from sharpdp.mechanisms import Mixture
    from sharpdp.tradeoffs import compare_mixture

    mixed = Mixture(
        components=tuple(mechanism(text) for text in options.components),
        weights=options.weights,
        other_weights=options.other_weights,
    )
    asked = (
        {"epsilon": options.epsilon}
        if options.epsilon
        else {"fpr": options.fpr or FALSE_POSITIVE_RATES}
    )
    found = compare_mixture(mixed, **asked)
    lines, data = str(found).splitlines(), found.to_dict()
    if options.output is not None:
        from sharpdp.plots.mixtures import save_mixture

        save_mixture(found, options.output)
        lines, data = [*lines, f"drawn: {options.output}"], {**data, "drawn": options.output}
    return lines, data
