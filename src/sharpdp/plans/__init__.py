"""Plans: what is run and what is asked of it, as plain data that is read from TOML or JSON files.

A mechanism is written as its kind and its fields, a batch scheme inside it likewise:

    delta = [1e-5, 1e-6]

    [mechanism]
    kind = "DPSGD"
    noise_multiplier = 0.8

    [mechanism.batches]
    kind = "ShuffledBatches"
    dataset_size = 60000
    batch_size = 512
    epochs = 30
"""

from sharpdp.plans.files import text_of, written
from sharpdp.plans.header import Header
from sharpdp.plans.plain_data import kinds, mechanism_from_data, to_data
from sharpdp.plans.plan import DELTAS, Plan, plan_schema
from sharpdp.storage.json_text import parsed

__all__ = [
    "DELTAS",
    "Header",
    "Plan",
    "kinds",
    "mechanism_from_data",
    "parsed",
    "plan_schema",
    "text_of",
    "to_data",
    "written",
]
