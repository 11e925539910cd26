"""Batches on disk are those of the plan, whoever wrote them; a reader refuses others.

Tests are skipped where pyarrow, Apache Beam or Grain is not installed: `make test-frameworks` installs
all of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import InvalidArgument, SharpDPError, WrongType
from tests.sampling.test_runs import PLANS, ids

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")

from pyarrow import ipc, parquet  # noqa: E402

from sharpdp.integrations import materialized  # noqa: E402
from sharpdp.integrations.materialized import records, writer  # noqa: E402
from sharpdp.integrations.materialized.layout import Layout  # noqa: E402

KEY = b"k" * 32
RECORDS = 40
PLAN = dp.PoissonBatches(dataset_size=RECORDS, batch_size=8, steps=12)
STREAM = dp.PoissonBatches(sample_rate=0.2, steps=12)


def table(size: int = RECORDS) -> Any:
    """Records of several types, some with nulls: value and words tell the position."""
    positions = np.arange(size)
    words = [None if place % 7 == 3 else f"record {place}" for place in range(size)]
    pixels = np.repeat(positions.astype(np.float32), 3)
    return pa.table(
        {
            "value": pa.array(positions * 10),
            "words": pa.array(words).dictionary_encode(),
            "pixels": pa.FixedSizeListArray.from_arrays(pa.array(pixels), 3),
            "missing": pa.array(positions, mask=positions % 5 == 0),
        }
    )


def files(folder: Path, cuts: tuple[int, ...] = (RECORDS,), rows: int = 7) -> list[Path]:
    """The records in files that end at the cuts, one of them Parquet, in groups of so many rows."""
    whole, paths, start = table(cuts[-1]), [], 0
    for number, stop in enumerate(cuts):
        part = whole.slice(start, stop - start).combine_chunks()
        path = folder / f"records-{len(cuts)}-{rows}-{number}"
        if number % 2 == 0:
            parquet.write_table(part, path, row_group_size=rows)
        else:
            with ipc.new_file(str(path), part.schema, options=OPTIONS) as file:
                file.write_table(part, max_chunksize=rows)
        paths.append(path)
        start = stop
    return paths


OPTIONS = ipc.IpcWriteOptions(emit_dictionary_deltas=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read(folder: Path, plan: Any, **more: Any) -> list[dict[str, Any]]:
    return list(materialized.MaterializedBatches(folder, plan, key=KEY, **more))


@pytest.mark.parametrize("plan", [*PLANS, STREAM], ids=ids)
def test_batches_on_disk_are_those_of_the_plan(plan: Any, tmp_path: Path) -> None:
    manifest = materialized.materialize(
        files(tmp_path, (11, 25, RECORDS)), plan, KEY, tmp_path / "out", rows_per_file=20
    )
    assert len(manifest.files) > 1
    batches = read(tmp_path / "out", plan)
    assert len(batches) == plan.steps == manifest.steps
    counts = np.zeros((plan.steps, RECORDS), dtype=int)
    for example in range(RECORDS):
        np.add.at(counts[:, example], plan.steps_of(example, KEY), 1)
    for step, batch in enumerate(batches):
        real = batch["sharpdp_index"] >= 0
        places = batch["sharpdp_index"][real]
        assert np.array_equal(places, np.repeat(np.arange(RECORDS), counts[step]))
        assert np.array_equal(batch["value"][real], places * 10)
        assert np.array_equal(batch["pixels"][real], np.repeat(places[:, None], 3, axis=1))
        words = [word for word, is_there in zip(batch["words"], real, strict=True) if is_there]
        assert words == [None if place % 7 == 3 else f"record {place}" for place in places]
    assert manifest.rows == counts.sum()
    if plan.dataset_size is not None:
        for batch, planned in zip(batches, plan.batches(KEY), strict=True):
            assert np.array_equal(batch["sharpdp_index"][: planned.size], planned)


def test_batches_on_disk_pass_the_audit(tmp_path: Path) -> None:
    paths = files(tmp_path, (300,), 100)
    for number, plan in enumerate(
        (
            dp.PoissonBatches(dataset_size=300, batch_size=10, steps=60),
            dp.ShuffledBatches(dataset_size=300, batch_size=10, epochs=3),
            dp.BallsAndBins(dataset_size=300, batch_size=10, epochs=3),
        )
    ):
        materialized.materialize(paths, plan, KEY, tmp_path / str(number))
        drawn = [batch["sharpdp_index"].tolist() for batch in read(tmp_path / str(number), plan)]
        assert dp.audit.sampler(batches=drawn, scheme=plan).consistent
        late = [*drawn[1:], drawn[0][:1] * 9]
        assert not dp.audit.sampler(batches=late, scheme=plan).consistent


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def serial(folder: Path, plan: Any, out: Path) -> None:
    materialized.materialize(files(folder, (RECORDS,), 100), plan, KEY, out, rows_per_file=20)


def threads(folder: Path, plan: Any, out: Path) -> None:
    """Smaller pieces of more files, on three threads."""
    with ThreadPoolExecutor(3) as pool:
        materialized.materialize(
            files(folder, (3, 20, 33, RECORDS), 4), plan, KEY, out, rows_per_file=20, executor=pool
        )


def by_beam(folder: Path, plan: Any, out: Path, workers: int = 1) -> None:
    beam = pytest.importorskip("apache_beam", reason="needs apache-beam")
    from apache_beam.options.pipeline_options import PipelineOptions

    from sharpdp.integrations.materialized.beam import MaterializeBatches, read_piece

    pieces, schema = writer.pieces_of(files(folder, (18, RECORDS), 5))
    mode = "in_memory" if workers == 1 else "multi_processing"
    options = PipelineOptions(
        direct_num_workers=workers, direct_running_mode=mode, runner="FnApiRunner"
    )
    with beam.Pipeline(options=options) as pipeline:
        (
            pipeline
            | beam.Create(pieces[::-1])
            | beam.Map(read_piece, schema)
            | MaterializeBatches(
                plan, KEY, str(out), schema=schema, records=RECORDS, rows_per_file=20
            )
        )


ENGINES: list[Callable[..., None]] = [threads, by_beam]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "plan", [PLAN, STREAM, PLANS[2], PLANS[4], PLANS[8], PLANS[12], PLANS[15]], ids=ids
)
def test_files_are_the_same_for_any_engine(
    plan: Any, engine: Callable[..., None], tmp_path: Path
) -> None:
    """Byte for byte, manifest included: with pieces of other sizes in other files, on other workers."""
    serial(tmp_path, plan, tmp_path / "one")
    engine(tmp_path, plan, tmp_path / "other")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_files_are_the_same_for_a_pool_of_processes(processes: Executor, tmp_path: Path) -> None:
    serial(tmp_path, PLAN, tmp_path / "one")
    paths = files(tmp_path, (3, 20, 33, RECORDS), 4)
    materialized.materialize(
        paths, PLAN, KEY, tmp_path / "other", rows_per_file=20, executor=processes
    )
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


@pytest.mark.slow
def test_files_are_the_same_for_beam_with_several_processes(tmp_path: Path) -> None:
    for number, plan in enumerate((PLAN, PLANS[12])):
        serial(tmp_path, plan, tmp_path / f"one {number}")
        by_beam(tmp_path, plan, tmp_path / f"other {number}", workers=2)
        assert contents(tmp_path / f"one {number}") == contents(tmp_path / f"other {number}")


def test_a_plan_with_a_physical_size_is_padded(tmp_path: Path) -> None:
    plan = dp.TruncatedPoissonBatches(
        dataset_size=RECORDS, batch_size=8, steps=12, physical_batch_size=9
    )
    serial(tmp_path, plan, tmp_path / "out")
    sizes = []
    for batch, planned in zip(read(tmp_path / "out", plan), plan.batches(KEY), strict=True):
        assert batch["sharpdp_index"].tolist() == plan.padded(planned).tolist()
        assert batch["value"].shape == (9,)
        assert batch["value"][planned.size :].tolist() == [0] * (9 - planned.size)
        sizes.append(planned.size)
    assert min(sizes) < 9 == max(sizes)  # some are padded, some were cut
    parts = [read(tmp_path / "out", plan, shard=(worker, 2)) for worker in range(2)]
    for first, second, planned in zip(*parts, plan.batches(KEY), strict=True):
        assert first["value"].shape == second["value"].shape == (5,)
        both = np.concatenate([first["sharpdp_index"], second["sharpdp_index"]])
        assert np.array_equal(np.sort(both[both >= 0]), planned)


def test_a_batch_that_outgrows_its_places_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="physical_batch_size must be at least"):
        materialized.materialize(
            files(tmp_path), PLAN, KEY, tmp_path / "out", physical_batch_size=3
        )
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(InvalidArgument, match="folder must hold finished batches"):
        materialized.MaterializedBatches(tmp_path / "out", PLAN)


def test_another_plan_or_key_is_refused(tmp_path: Path) -> None:
    serial(tmp_path, PLAN, tmp_path / "out")
    others = (
        dataclasses.replace(PLAN, steps=11),
        dataclasses.replace(PLAN, sample_rate=0.1),
        dp.TruncatedPoissonBatches(
            dataset_size=RECORDS, batch_size=8, steps=12, physical_batch_size=40
        ),
    )
    for plan in others:
        with pytest.raises(InvalidArgument, match="plan must be the one whose batches were"):
            materialized.MaterializedBatches(tmp_path / "out", plan)
    with pytest.raises(InvalidArgument, match="key must be that of the materialized batches"):
        materialized.MaterializedBatches(tmp_path / "out", PLAN, key=b"j" * 32)
    with pytest.raises(WrongType, match="plan must be a batch scheme"):
        materialized.MaterializedBatches(tmp_path / "out", dp.DPSGD(PLAN, noise_multiplier=1))  # type: ignore[arg-type]


def test_files_that_changed_are_refused(tmp_path: Path) -> None:
    serial(tmp_path, PLAN, tmp_path / "out")
    path = sorted((tmp_path / "out").glob("*.arrow"))[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(InvalidArgument, match="must have"):
        read(tmp_path / "out", PLAN)
    place = whole.index(b"record ")
    path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
    with pytest.raises(InvalidArgument, match="must be as it was written"):
        read(tmp_path / "out", PLAN)
    path.unlink()
    with pytest.raises(InvalidArgument, match="folder must have the batches of step"):
        read(tmp_path / "out", PLAN)


def test_files_of_another_run_are_found_by_the_key(tmp_path: Path) -> None:
    """Batches and hashes of another key, under the fingerprint of this one."""
    serial(tmp_path, PLAN, tmp_path / "out")
    materialized.materialize(files(tmp_path), PLAN, b"j" * 32, tmp_path / "other", rows_per_file=20)
    right = json.loads((tmp_path / "out" / "manifest.json").read_text())
    other = json.loads((tmp_path / "other" / "manifest.json").read_text())
    other["key_fingerprint"] = right["key_fingerprint"]
    path = tmp_path / "other" / "manifest.json"
    path.write_text(json.dumps(other))
    list(materialized.MaterializedBatches(tmp_path / "other", PLAN))  # no key, no comparison
    with pytest.raises(InvalidArgument, match=r"manifest\.json must be as it was written"):
        read(tmp_path / "other", PLAN)
    seal = materialized.Manifest.read(tmp_path / "other").sealed(KEY)
    path.write_text(json.dumps({**other, "seal": seal}))
    with pytest.raises(InvalidArgument, match="the batch of step 0 must be the one"):
        read(tmp_path / "other", PLAN)


def test_a_manifest_that_was_changed_together_with_its_files_is_found_by_the_key(
    tmp_path: Path,
) -> None:
    """Records of others under the right indices, with hashes that fit."""
    serial(tmp_path, PLAN, tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    file = tmp_path / "out" / manifest["files"][0]["name"]
    file.write_bytes(file.read_bytes().replace(b"record 1", b"record 2"))
    manifest["files"][0]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest))
    list(materialized.MaterializedBatches(tmp_path / "out", PLAN))  # hashes fit
    with pytest.raises(InvalidArgument, match=r"manifest\.json must be as it was written"):
        read(tmp_path / "out", PLAN)
    manifest["files"][0]["name"] = f"../out/{file.name}"
    path.write_text(json.dumps(manifest))
    with pytest.raises(InvalidArgument, match="folder must have the batches of step 0"):
        materialized.MaterializedBatches(tmp_path / "out", PLAN)


def test_lost_doubled_and_exchanged_records_are_found() -> None:
    """Whatever an engine does with pieces, a batch is written only if it is the plan's."""
    layout = Layout.of(PLAN, RECORDS, 10**6, None)
    schema = records.plain_schema(table().schema)
    whole = records.plain(table().combine_chunks().to_batches()[0], schema)
    starts = np.array([0, 20])
    needed = dict(records.needed_records(layout, KEY, 0, starts))

    def rows(*pieces: tuple[int, int]) -> list[Any]:
        """Records of some pieces, each at the place of another one."""
        found = []
        for piece, place in pieces:
            first = int(starts[place])
            part = whole.slice(int(starts[piece]), 20)
            found += [part for _, part in records.routed(layout, KEY, first, part, [needed[place]])]
        return found

    assert len(list(records.assembled(layout, KEY, 0, rows((1, 1), (0, 0)), schema))) == 12
    for wrong in ([(0, 0)], [(0, 0), (1, 1), (1, 1)]):
        with pytest.raises(SharpDPError, match="must be the one that the plan draws"):
            list(records.assembled(layout, KEY, 0, rows(*wrong), schema))
    with pytest.raises(InvalidArgument, match="records must have positions from 0 to below 40"):
        list(records.routed(layout, KEY, 21, whole.slice(0, 20)))


def test_wrong_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="records must be the dataset_size = 40 examples"):
        materialized.materialize(files(tmp_path, (39,)), PLAN, KEY, tmp_path / "out")
    with pytest.raises(WrongType, match="records must be a list of files"):
        materialized.materialize("records", PLAN, KEY, tmp_path / "out")
    with pytest.raises(InvalidArgument, match="records must be files"):
        materialized.materialize([tmp_path / "none"], PLAN, KEY, tmp_path / "out")
    paths = files(tmp_path, (20,))
    parquet.write_table(pa.table({"value": np.arange(20)}), tmp_path / "other")
    with pytest.raises(InvalidArgument, match="records must all have the same columns"):
        materialized.materialize([*paths, tmp_path / "other"], PLAN, KEY, tmp_path / "out")
    parquet.write_table(pa.table({"sharpdp_index": np.arange(40)}), tmp_path / "taken")
    with pytest.raises(InvalidArgument, match="no column 'sharpdp_index'"):
        materialized.materialize([tmp_path / "taken"], PLAN, KEY, tmp_path / "out")
    for key in (None, b"short"):
        with pytest.raises(InvalidArgument, match="rng must be"):
            materialized.materialize(files(tmp_path), PLAN, key, tmp_path / "out")
    serial(tmp_path, PLAN, tmp_path / "out")
    with pytest.raises(InvalidArgument, match="folder must be new or empty"):
        serial(tmp_path, PLAN, tmp_path / "out")


def test_a_key_may_be_fetched_by_the_workers(tmp_path: Path) -> None:
    asked = []

    def fetch() -> bytes:
        asked.append(1)
        return KEY

    serial(tmp_path, PLAN, tmp_path / "one")
    materialized.materialize(files(tmp_path), PLAN, fetch, tmp_path / "other", rows_per_file=20)
    assert len(asked) > 3
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_nobody_else_reads_the_folder_and_the_key_is_not_in_it(tmp_path: Path) -> None:
    serial(tmp_path, PLAN, tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0
    for path in (tmp_path / "out").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert KEY not in path.read_bytes()


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_reads_every_batch_once(workers: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    plan = dataclasses.replace(PLAN, sample_rate=0.03)  # some batches are empty
    serial(tmp_path, plan, tmp_path / "out")
    reader = materialized.MaterializedBatches(tmp_path / "out", plan, key=KEY)
    context = None if workers == 0 else "spawn"
    delivered = materialized.loader(reader, num_workers=workers, multiprocessing_context=context)
    seen = []
    for batch in delivered:
        assert batch["pixels"].dtype == torch.float32
        assert batch["pixels"].shape == (len(batch["value"]), 3)
        seen.append(batch["sharpdp_index"].tolist())
    assert seen == [batch.tolist() for batch in plan.batches(KEY)]
    assert [] in seen
    with pytest.raises(InvalidArgument, match="the run of 12 steps is over"):
        next(iter(delivered))
    with pytest.raises(InvalidArgument, match="shuffle must be left out"):
        materialized.loader(reader, shuffle=True)


def test_a_reader_goes_on_where_it_stood(tmp_path: Path) -> None:
    serial(tmp_path, PLAN, tmp_path / "out")
    first = materialized.MaterializedBatches(tmp_path / "out", PLAN, key=KEY)
    passed = [batch for batch, _ in zip(first, range(5), strict=False)][:5]
    state = {**first.steps_left.state_dict(), "step": 5}
    second = materialized.MaterializedBatches(tmp_path / "out", PLAN, key=KEY)
    second.steps_left.load_state_dict(state)
    seen = [batch["sharpdp_index"].tolist() for batch in [*passed, *second]]
    assert seen == [batch.tolist() for batch in PLAN.batches(KEY)]
    with pytest.raises(InvalidArgument, match="state must be that of the same batches"):
        second.steps_left.load_state_dict({**state, "fingerprint": "other"})
    with pytest.raises(WrongType, match="state must be one that"):
        second.steps_left.load_state_dict(5)
    with pytest.raises(InvalidArgument, match="step must be below steps = 12"):
        second[12]


def test_grain_reads_every_batch_once(tmp_path: Path) -> None:
    grain = pytest.importorskip("grain", reason="needs grain")
    from sharpdp.integrations.materialized.grain import BatchesDataset

    serial(tmp_path, PLAN, tmp_path / "out")

    def made() -> Any:
        return iter(
            BatchesDataset(materialized.MaterializedBatches(tmp_path / "out", PLAN, key=KEY))
        )

    first, second = made(), made()
    seen = [next(first)["sharpdp_index"].tolist() for _ in range(5)]
    second.set_state(first.get_state())
    seen += [batch["sharpdp_index"].tolist() for batch in second]
    assert seen == [batch.tolist() for batch in PLAN.batches(KEY)]
    with pytest.raises(StopIteration):
        next(second)
    again = BatchesDataset(materialized.MaterializedBatches(tmp_path / "out", PLAN, key=KEY))
    with pytest.raises(InvalidArgument, match="more than was accounted for"):
        list(grain.experimental.RepeatIterDataset(again, 2))


def benchmark(*task: str) -> str:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "benchmarks" / "materialize.py"), *task]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return done.stdout


@pytest.mark.parametrize("scheme", ["Poisson", "shuffled"])
def test_a_worker_holds_no_more_of_many_records(scheme: str) -> None:
    """One piece of a million among 10^10 records: nothing of their number is held."""
    words = benchmark("piece", scheme, str(10**10)).split()
    assert words[-1] == "more"
    assert float(words[-3]) < 300  # megabytes; the indices alone of all records are 80,000


@pytest.mark.slow
def test_ten_million_records(tmp_path: Path) -> None:
    words = benchmark("run", "Poisson", str(10**7), "2").split()
    assert words[-2:] == ["a", "worker"]
    assert float(words[-4]) < 600  # megabytes
