"""Certified lower and upper bounds on the differential privacy of what you run."""

__all__ = ["__version__"]

__version__ = "0.1.0"
