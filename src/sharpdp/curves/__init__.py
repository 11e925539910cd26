"""One binary experiment (P, Q) and its views: profile, losses, composition, trade-off, Renyi."""
