"""Materialized batches read back: in order, once, and only if they are those of the plan."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sharpdp._validate.extras import optional_packages

with optional_packages("arrow", "pyarrow"):
    import pyarrow as pa
    from pyarrow import ipc

from sharpdp._validate import HintedKeywords, count, invalid, short_repr
from sharpdp.batches.scheme import PADDING, WHOLE, BatchScheme, Indices, Shard, checked_shard
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.integrations.materialized.layout import Key, key_of
from sharpdp.integrations.materialized.manifest import (
    MANIFEST,
    BatchFile,
    Manifest,
    file_name,
    key_fingerprint,
    plan_hash,
)
from sharpdp.integrations.materialized.records import INDEX

__all__ = ["MaterializedBatches", "StepsLeft", "loader"]

Batch = dict[str, Any]
"""Columns by name: arrays with a row for each record, or lists where there is no such array."""


class StepsLeft:
    """The steps of a run that are left, each handed out once: a sampler for torch.

    Args:
        steps: How many there are in all.
        fingerprint: Tells the run from others, in its states.
    """

    def __init__(self, steps: int, fingerprint: str) -> None:
        """Nothing is handed out yet."""
        self.steps, self.fingerprint, self.step = steps, fingerprint, 0

    def __len__(self) -> int:
        """How many are left."""
        return self.steps - self.step

    def __iter__(self) -> Iterator[int]:
        """The steps that are left; an error if there are none."""
        if self.step >= self.steps:
            raise InvalidArgument(
                f"the run of {self.steps} steps is over; got a request for more. To go through the same "
                "batches again is more than was accounted for: materialize a plan with more steps."
            )
        while self.step < self.steps:
            self.step += 1
            yield self.step - 1

    def state_dict(self) -> dict[str, Any]:
        """Where it stands."""
        return {"step": self.step, "fingerprint": self.fingerprint}

    def load_state_dict(self, state: Any) -> None:
        """Go on from a state of the same run; another one is an error."""
        if not isinstance(state, Mapping) or not {"step", "fingerprint"} <= set(state):
            raise WrongType(
                f"state must be one that state_dict() returned; got {short_repr(state)}."
            )
        if state["fingerprint"] != self.fingerprint:
            raise InvalidArgument("state must be that of the same batches; got one of others.")
        step = count(least=0, step=state["step"])
        if step > self.steps:
            raise invalid("step", f"at most steps = {self.steps}", step)
        self.step = step


class MaterializedBatches(HintedKeywords):
    """The batches in a folder, if they are those of a plan.

    The plan must be the one that was materialized, which is the one to account for. Every file is
    compared with its hash in the manifest when it is first opened. With a key, the manifest is compared
    with its seal, and every batch with the one that the plan draws. Without it, whoever may write to the
    folder may change both files and manifest.

    Iterating gives a mapping of arrays for every step, empty batches included: the columns of the
    records, and ``sharpdp_index``, their positions in the data set. Where batches are padded it is -1 for
    padding, whose values are zero; give them weight 0.

    Args:
        folder: The folder that `materialize` wrote.
        plan: The batch scheme that is accounted for.
        key: The key of the run; None to go without the comparison.
        shard: This worker's number, from 0 on, and the number of workers that share each batch.

    Raises:
        InvalidArgument: The folder has no manifest, is of another plan, key or number of records, or a
            file is missing or of another size.
        WrongType: An argument has the wrong type.
        MissingExtra: pyarrow is not installed.
    """

    def __init__(
        self, folder: str | Path, plan: BatchScheme, *, key: Key = None, shard: Shard = WHOLE
    ) -> None:
        """Read the manifest and compare it with the plan; files are looked at, not read."""
        if isinstance(plan, type) or not isinstance(plan, BatchScheme):
            raise WrongType(f"plan must be a batch scheme; got {short_repr(plan)}.")
        self.folder, self.plan, self.shard = Path(folder), plan, checked_shard(shard)
        self.manifest = Manifest.read(self.folder)
        if self.manifest.plan_sha256 != plan_hash(plan) or self.manifest.steps != plan.steps:
            raise InvalidArgument(
                f"plan must be the one whose batches were materialized, {self.manifest.plan}; got "
                f"{plan.describe()}. What is accounted for would not be what is run."
            )
        self._key = None
        if key is not None:
            self._key = key_of(plan, key)
            if key_fingerprint(plan, self._key) != self.manifest.key_fingerprint:
                raise InvalidArgument(
                    "key must be that of the materialized batches; got another one."
                )
            if self.manifest.seal != self.manifest.sealed(self._key):
                raise InvalidArgument(
                    f"{MANIFEST} must be as it was written; got one that was changed since then."
                )
        self._check_files()
        self.steps_left = StepsLeft(self.manifest.steps, self.manifest.sha256)
        self._checked: set[str] = set()
        self._file: tuple[str, Any] | None = None
        self._planned: tuple[int, Iterator[Indices]] | None = None

    def _check_files(self) -> None:
        """Sizes of all files, and that no step is missing."""
        following = 0
        for number, file in enumerate(self.manifest.files):
            path = self.folder / file_name(number)
            is_next = file.name == path.name and file.first_step == following
            if not is_next or not path.is_file():
                raise InvalidArgument(
                    f"folder must have the batches of step {following}; got none."
                )
            if path.stat().st_size != file.bytes:
                raise InvalidArgument(
                    f"{file.name} must have {file.bytes} bytes; got {path.stat().st_size}."
                )
            following += file.steps
        if following != self.manifest.steps:
            raise InvalidArgument(
                f"folder must have {self.manifest.steps} batches; got {following}."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Without open files, for the worker processes of a loader."""
        return {**self.__dict__, "_file": None, "_planned": None}

    def __len__(self) -> int:
        """Number of batches, empty ones included."""
        return self.manifest.steps

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step, or this worker's part of it.

        Args:
            step: Number of the step, from 0 on.

        Returns:
            Columns by name.

        Raises:
            InvalidArgument: The step is out of range, or its file or batch is not what was written.
        """
        number = count(least=0, step=step)
        if number >= len(self):
            raise invalid("step", f"below steps = {len(self)}", number)
        # files have equally many steps, but for the last
        file = self.manifest.files[number // self.manifest.files[0].steps]
        records = self._opened(file).get_batch(number - file.first_step)
        indices = records[INDEX].to_numpy()
        kept = int(np.count_nonzero(indices >= 0))
        if self._key is not None and self.plan.dataset_size is not None:
            planned = self._draw(number)
            if not np.array_equal(indices[:kept], planned):
                raise InvalidArgument(
                    f"the batch of step {number} must be the one that the plan draws; got another one."
                )
        worker, workers = self.shard
        mine = pa.array(np.arange(worker, kept, workers))
        places = self.manifest.places
        share = len(mine) if places is None else -(-places // workers)
        return {
            name: _array(column.take(mine), share, PADDING if name == INDEX else 0)
            for name, column in zip(records.schema.names, records.columns, strict=True)
        }

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left; a second pass is an error."""
        return (self[step] for step in self.steps_left)

    def _draw(self, step: int) -> Indices:
        """The batch of the plan; the next one is at hand if steps come in order."""
        if self._planned is None or self._planned[0] != step:
            self._planned = step, self.plan.batches(self._key, start=step)
        batches = self._planned[1]
        self._planned = step + 1, batches
        return next(batches)

    def _opened(self, file: BatchFile) -> Any:
        """A file, compared with its hash if it is opened for the first time."""
        if self._file is not None and self._file[0] == file.name:
            return self._file[1]
        path = self.folder / file.name
        if file.name not in self._checked:
            if _sha256(path) != file.sha256:
                raise InvalidArgument(
                    f"{file.name} must be as it was written; got another content."
                )
            self._checked.add(file.name)
        opened = ipc.open_file(pa.memory_map(str(path)))
        if opened.num_record_batches != file.steps:
            raise InvalidArgument(
                f"{file.name} must have {file.steps} batches; got {opened.num_record_batches}."
            )
        self._file = file.name, opened
        return opened


def _sha256(path: Path) -> str:
    """The hash of a file, read in parts."""
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while part := content.read(2**20):
            digest.update(part)
    return digest.hexdigest()


def _array(column: Any, places: int, padding: int) -> Any:
    """A column as an array, or as a list where it holds no numbers; filled up to so many places."""
    kind, shape = column.type, []
    values = column
    if isinstance(kind, pa.FixedShapeTensorType):
        shape, values = list(kind.shape), column.storage.flatten()
    else:
        while pa.types.is_fixed_size_list(kind):
            shape.append(kind.list_size)
            values, kind = values.flatten(), kind.value_type
    is_number = pa.types.is_primitive(values.type) and not pa.types.is_temporal(values.type)
    if values.null_count or column.null_count or not is_number:
        rows: list[Any] = column.to_pylist()
        return rows + [None] * (places - len(rows))
    found = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), *shape)
    filled = np.full((places, *shape), padding, dtype=found.dtype)
    filled[: len(found)] = found
    return filled


def loader(batches: MaterializedBatches, **options: Any) -> Any:
    """A torch DataLoader over materialized batches, from the step at which they stand to the last.

    Args:
        batches: The reader.
        **options: Options of torch's DataLoader, such as ``num_workers``; none that selects examples.

    Returns:
        The DataLoader; each batch is a mapping from columns to tensors.

    Raises:
        InvalidArgument: An option would make other batches.
        WrongType: batches is no `MaterializedBatches`.
        MissingExtra: torch is not installed.
    """
    if not isinstance(batches, MaterializedBatches):
        raise WrongType(f"batches must be MaterializedBatches; got {short_repr(batches)}.")
    ours = {"batch_sampler", "batch_size", "dataset", "drop_last", "sampler", "shuffle"}
    for name in sorted(ours & set(options)):
        raise InvalidArgument(
            f"{name} must be left out; got {short_repr(options[name])}. The batches are on disk."
        )
    with optional_packages("learn", "torch"):
        data = importlib.import_module("torch.utils.data")
    return data.DataLoader(batches, sampler=batches.steps_left, batch_size=None, **options)
