"""Composition of pairs: the losses add up, and engines evaluate delta of the sum with certified error."""
