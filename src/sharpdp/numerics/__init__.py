"""Floating-point tools that know nothing of privacy: tails, sums, transforms, roots, each with its error."""
