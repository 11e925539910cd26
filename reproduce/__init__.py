"""Five papers again: what they print, what their methods give, and what is true.

    python -m reproduce                          everything; pages and pictures go to docs/papers
    python -m reproduce wang2023                 one paper
    python -m reproduce wang2023 --only table1   one of its tables or figures
    python -m reproduce --quick                  fewer points, in seconds; goes to out/reproduce
    python -m reproduce --fresh                  whatever is in out/cache is computed again

A paper is a module with a `PAPER`: tables and figures by name, what deviates and why. The learning
experiments have a command of their own, `python -m reproduce.learning`.
"""
