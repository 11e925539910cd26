"""The command `mixture`: what every inequality says about one mixture, as lines and as plain data."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sharpdp.cli import tables
from sharpdp.cli.mechanism_syntax import mechanism
from sharpdp.cli.parser import UsageError
from sharpdp.cli.run_spec import plan_of
from sharpdp.cli.views import Reply

if TYPE_CHECKING:
    from sharpdp.mechanisms import Mixture

__all__ = ["mixture"]

FALSE_POSITIVE_RATES = (0.01, 0.1, 0.5)
"""Where the table answers if nothing else is asked."""


def mixture(options: argparse.Namespace) -> Reply:
    """The table of `compare_mixture` at --fpr or --epsilon."""
    if options.fpr is not None and options.epsilon is not None:
        raise UsageError(
            "give --fpr to ask for false-negative rates, or --epsilon to ask for delta; got both."
        )
    from sharpdp.mixtures import compare_mixture

    asked = (
        {"epsilon": options.epsilon}
        if options.epsilon
        else {"fpr": options.fpr or FALSE_POSITIVE_RATES}
    )
    found = compare_mixture(_mixed(options), **asked)
    reply = Reply(str(found).splitlines(), found.to_dict(), tables.inequalities(found))
    if options.output is None:
        return reply
    from sharpdp.plots.mixture_comparison import save_mixture

    save_mixture(found, options.output)
    return reply.drawn(options.output)


def _mixed(options: argparse.Namespace) -> Mixture:
    """The mixture, by components and weights or by a plan."""
    from sharpdp.mechanisms import Mixture

    file = plan_of(options)
    if file is not None:
        if options.components or options.weights or options.other_weights:
            raise UsageError("give components and --weights, or a plan; got both.")
        found = file.plan({}).mechanism
        if not isinstance(found, Mixture):
            raise UsageError(
                f"sharpdp mixture takes a plan that runs a Mixture; {file.path} runs {file.kind}."
            )
        return found
    if not options.components:
        raise UsageError("name the components, or a plan. See sharpdp mixture --help.")
    if options.weights is None:
        raise UsageError("give --weights, one per component.")
    return Mixture(
        components=tuple(mechanism(text) for text in options.components),
        weights=options.weights,
        other_weights=options.other_weights,
    )
