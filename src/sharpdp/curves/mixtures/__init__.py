"""Mixtures, and what each inequality says about them."""

from sharpdp.curves.mixtures.compare import MixtureComparison, compare_mixture

__all__ = ["MixtureComparison", "compare_mixture"]
