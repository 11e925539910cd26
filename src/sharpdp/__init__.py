"""Certified lower and upper bounds on the differential privacy of what you run."""

__version__ = "0.1.0"
