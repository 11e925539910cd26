"""Other ways to state a guarantee, and their calculus: Rényi and trade-off curves, mixtures of them."""
