"""Modules that need a package which is not installed are not collected for their examples."""

from importlib.util import find_spec

NEEDS = {
    "flwr": ["flower.py", "flower_strategy.py"],
    "grain": ["grain.py", "materialized/grain.py"],
    "lightning": ["lightning.py"],
    "pyarrow": ["materialized"],
    "apache_beam": ["materialized/beam.py"],
    "transformers": ["huggingface.py"],
}

collect_ignore = [
    f"src/sharpdp/integrations/{name}"
    for package, names in NEEDS.items()
    if not find_spec(package)
    for name in names
]
