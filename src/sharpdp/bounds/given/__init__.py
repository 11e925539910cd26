"""Curves that the user hands in: Renyi curves and trade-off curves as bounds."""
