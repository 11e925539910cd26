"""Mixtures of mechanisms and of normal distributions: theorems, and the pairs they construct."""
