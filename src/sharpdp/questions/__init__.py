"""The questions that users ask, one module each: about one run, about many, and about what to change."""
