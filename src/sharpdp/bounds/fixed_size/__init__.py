"""Batches of fixed or truncated size: theorems, and the pairs they construct."""
