"""Gradient descent from a random start: theorems, and the pairs they construct."""
