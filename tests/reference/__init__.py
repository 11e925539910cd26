"""Independent reference values for the tests, in arb balls and exact fractions.

Nothing here imports sharpdp. Every function returns a ball (flint.arb) that contains the exact
answer for the exact binary values of its float arguments, or a Fraction.
"""
