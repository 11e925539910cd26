"""Which audits are tested where torch is not installed: those of scores and of batches."""

from importlib.util import find_spec

collect_ignore = (
    []
    if find_spec("torch")
    else [
        "test_broken_variants.py",
        "test_canaries.py",
        "test_correlated_runs.py",
        "test_replay.py",
    ]
)
