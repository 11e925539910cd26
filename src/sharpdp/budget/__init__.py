"""The joint cost of several releases: budgets that stop in time, and ledgers that are kept on disk."""

from sharpdp.budget.early_stopping import ExPostEpsilon, ex_post_epsilon
from sharpdp.budget.filters import AdaptiveFilter, Filter, GaussianFilter, RenyiFilter, ZcdpFilter
from sharpdp.budget.ledger import Entry, Ledger
from sharpdp.budget.spending import Budget, check_counted, counted_rounds

__all__ = [
    "AdaptiveFilter",
    "Budget",
    "Entry",
    "ExPostEpsilon",
    "Filter",
    "GaussianFilter",
    "Ledger",
    "RenyiFilter",
    "ZcdpFilter",
    "check_counted",
    "counted_rounds",
    "ex_post_epsilon",
]
