"""Shuffled batches: theorems, and the pairs they construct."""
