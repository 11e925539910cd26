"""Learning with the accounting attached: the papers' experiments, at three sizes.

    python -m reproduce.learning clients            girgis2021: clients with PrivUnit, MNIST, short
    python -m reproduce.learning tuned              the same clients, tuned at each epsilon, one seed
    python -m reproduce.learning units              chen2024: ReLU units, as published and as programmed
    python -m reproduce.learning passes             chen2024: passes over shuffled blocks, PCA, short
    python -m reproduce.learning budgets            chua2024: four batch schemes at equal epsilon
    python -m reproduce.learning samplers           DP-SGD at equal noise under four batch schemes, short
    python -m reproduce.learning releases           every step released, or the last model only
    python -m reproduce.learning clients --full     the sizes of the papers (hours); resumes where it was
    python -m reproduce.learning clients --quick    scikit-learn's digits, seconds, as in the tests

Every run is kept in out/learning and not made twice; tables, pictures and, of clients and tuned, all
accuracies go to docs/experiments. MNIST is
found by --mnist FILE or the environment variable MNIST; a run that needs it stops without it.
"""
