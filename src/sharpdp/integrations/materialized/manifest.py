"""What is in a folder of materialized batches: the plan, the key's fingerprint, and files with hashes."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.integrations.materialized.layout import Layout
from sharpdp.plans import parsed, text_of, to_data
from sharpdp.plans.files import canonical

__all__ = ["MANIFEST", "BatchFile", "Manifest", "file_name", "key_fingerprint", "plan_hash"]

MANIFEST = "manifest.json"
"""Name of the manifest, which is written last: a folder without one is not finished."""

FORMAT = "sharpdp materialized batches 1"


@dataclass(frozen=True)
class BatchFile:
    """One file of batches.

    Args:
        name: Its name in the folder.
        first_step: The step of its first batch.
        steps: How many batches it has, empty ones included.
        rows: How many rows they have together, without padding.
        bytes: Its size.
        sha256: Its hash.
    """

    name: str
    first_step: int
    steps: int
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What was written, of which plan and with which key.

    The number of rows of a file says how often records were drawn for its steps. So the manifest belongs
    to the secrets of the run, as the files do.

    Args:
        plan: The batch scheme as plain data.
        plan_sha256: Hash of it.
        key_fingerprint: Tells keys apart, and says nothing about a key of 16 random bytes or more.
        records: How many records the data set has.
        steps: Number of batches.
        rows: How many rows all batches have together, without padding.
        places: Rows of every batch with padding; None if there is none.
        columns: Name and type of each column of the records.
        files: The files, by their first steps.
        seal: Hash of all of it under the key, so that who has the key sees that none of it was changed;
            None if there is no key.
    """

    plan: dict[str, Any]
    plan_sha256: str
    key_fingerprint: str
    records: int
    steps: int
    rows: int
    places: int | None
    columns: tuple[tuple[str, str], ...]
    files: tuple[BatchFile, ...]
    seal: str | None = None

    @classmethod
    def of(
        cls, layout: Layout, key: bytes | int | None, schema: Any, files: Iterable[BatchFile]
    ) -> Manifest:
        """The manifest of files that are all there; an error if one is not, or is there twice."""
        ordered = tuple(sorted(files, key=lambda file: file.first_step))
        expected = [layout.steps_of_file(number) for number in range(layout.files)]
        if [(file.first_step, file.steps) for file in ordered] != [
            (span.start, len(span)) for span in expected
        ]:
            raise SharpDPError(
                f"files must be {layout.files}, each written once; got {len(ordered)} or other steps."
            )
        written = cls(
            to_data(layout.plan),
            plan_hash(layout.plan),
            key_fingerprint(layout.plan, key),
            layout.records,
            layout.plan.steps,
            sum(file.rows for file in ordered),
            layout.places,
            tuple((field.name, str(field.type)) for field in schema),
            ordered,
        )
        return replace(written, seal=written.sealed(key))

    def sealed(self, key: bytes | int | None) -> str | None:
        """What the seal must be if nothing was changed since it was made with this key.

        Args:
            key: The key of the run; None where nothing is drawn.

        Returns:
            The seal, or None without a key.
        """
        if key is None:
            return None
        content = replace(self, seal=None).to_json().encode()
        return hmac.new(b"manifest " + repr(key).encode(), content, "sha256").hexdigest()

    def to_json(self) -> str:
        """The manifest as JSON.

        Returns:
            The text of the file.
        """
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @property
    def sha256(self) -> str:
        """Hash of the manifest, and so of everything that it lists."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def read(cls, folder: str | Path) -> Manifest:
        """The manifest in a folder.

        Args:
            folder: The folder of the batches.

        Returns:
            The manifest.

        Raises:
            InvalidArgument: There is none, or it is damaged.
            WrongType: folder is no path.
        """
        if not (Path(folder) / MANIFEST).is_file():
            raise InvalidArgument(
                f"folder must hold finished batches, with {MANIFEST}; got {str(folder)!r} without it."
            )
        data = dict(parsed(text_of(Path(folder) / MANIFEST, "manifest"), MANIFEST))
        if data.pop("format", None) != FORMAT:
            raise InvalidArgument(f"{MANIFEST} must be of format {FORMAT!r}; got another one.")
        try:
            files = tuple(BatchFile(**file) for file in data.pop("files"))
            columns = tuple((name, kind) for name, kind in data.pop("columns"))
            return cls(**data, files=files, columns=columns)
        except (KeyError, TypeError, ValueError) as fault:
            raise InvalidArgument(f"{MANIFEST} must be a manifest; got a damaged one.") from fault


def file_name(number: int) -> str:
    """The name of a file of batches.

    >>> file_name(7)
    'batches-000007.arrow'
    """
    return f"batches-{number:06}.arrow"


def plan_hash(plan: Any) -> str:
    """SHA-256 of a batch scheme as plain data.

    >>> from sharpdp.batches import PoissonBatches
    >>> one, other = (PoissonBatches(sample_rate=0.5, steps=n, dataset_size=9) for n in (3, 4))
    >>> plan_hash(one) == plan_hash(other)
    False
    """
    return hashlib.sha256(canonical(to_data(plan)).encode()).hexdigest()


def key_fingerprint(plan: Any, key: bytes | int | None) -> str:
    """Enough to tell keys apart; of a seed, which can be found by trying, it is no secret."""
    text = f"{plan_hash(plan)} {key!r}".encode()
    return hashlib.shake_256(b"materialized batches" + text).hexdigest(16)
