"""Correlated noise: how far one example moves the noised sums, however it may take part."""
