"""The best of several runs: theorems on private selection."""
