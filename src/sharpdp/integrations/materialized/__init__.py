"""Batches of a plan written to files, for data that are too large to be drawn from at random.

    from sharpdp.integrations.materialized import MaterializedBatches, loader, materialize

    materialize(["records-0.parquet", "records-1.parquet"], plan, key, "batches", executor=pool)
    reader = MaterializedBatches("batches", plan, key=key)
    for batch in loader(reader):          # torch; or BatchesDataset of .grain
        ...

Records are read once, in any pieces and on any number of workers, and every batch is compared with the
one that the plan draws before it is written. The folder shows who is in which batch: it is as secret as
the key. `MaterializeBatches` of `.beam` does the same on Apache Beam.

Needs `pip install "sharpdp[arrow]"`.
"""

from sharpdp.integrations.materialized.manifest import Manifest
from sharpdp.integrations.materialized.reader import MaterializedBatches, loader
from sharpdp.integrations.materialized.writer import materialize

__all__ = ["Manifest", "MaterializedBatches", "loader", "materialize"]
