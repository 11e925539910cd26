"""How answers and messages are shown: digits, tables, notebooks, progress, and the nearest known word."""
