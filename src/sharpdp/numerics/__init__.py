"""Floating-point tools that know nothing of privacy: tails, sums, transforms, roots with errors."""
