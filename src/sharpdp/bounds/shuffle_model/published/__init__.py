"""Published formulas for the shuffle model, kept for comparison with the certified bounds."""
