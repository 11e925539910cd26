"""Batches of a scheme for torch: a batch sampler, a collate function for empty batches, a loader.

A torch `DataLoader` takes its batches from any iterable of lists of indices, so that the sampler itself
needs no torch; what does says so if it is missing. Sampling, and so the guarantee, is left to the scheme:
every batch that a run hands out is one that the scheme has drawn, empty ones included.
"""

from __future__ import annotations

import hashlib
import importlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from sharpdp._validate import count, fault, has_entries, is_among, shown
from sharpdp.batches.scheme import WHOLE, BatchScheme, Shard
from sharpdp.batches.source import KEY_BYTES
from sharpdp.errors import InvalidArgument, MissingExtra, SharpDPError, WrongType

__all__ = ["BatchSampler", "Collate", "loader", "shard_of_rank", "shared_key"]

OURS = {"batch_sampler", "batch_size", "collate_fn", "drop_last", "sampler", "shuffle"}
"""Options of torch's DataLoader that would draw other batches than the scheme's."""

OURS_HINT = "The scheme says which examples are in a batch."

FINGERPRINT_BYTES = 16
"""Enough to tell keys apart; nothing can be learned from it about a key of 16 random bytes or more."""


class BatchSampler:
    """The batches of one run of a scheme, as lists of indices: ``DataLoader(batch_sampler=...)``.

    One pass over it is one run, from the step at which it stands to the last; with
    ``steps_per_pass=plan.steps_per_epoch`` one pass is one epoch. It goes on where it was left, and
    never starts anew: to go through the same batches again is more than was accounted for. So a pass
    after the last is an error.

    ``key`` is secret: whoever knows it knows the batches. Without one, a key is taken from the operating
    system; keep `key` in a safe place, apart from checkpoints, to go on after a crash. The state knows
    only the step and a fingerprint of the key.

    Every worker of a distributed run gives the same key and its own shard, and sees as many batches as
    all others, some of them maybe empty.

    >>> from sharpdp.batches import PoissonBatches
    >>> plan = PoissonBatches(sample_rate=0.5, steps=3, dataset_size=2)
    >>> sampler = BatchSampler(plan, key=7)
    >>> len(sampler), len(list(sampler)), sampler.step
    (3, 3, 3)
    """

    def __init__(
        self,
        scheme: BatchScheme,
        key: bytes | int | None = None,
        *,
        shard: Shard = WHOLE,
        steps_per_pass: int | None = None,
    ) -> None:
        """Take the key, or a fresh one, and check everything before training starts."""
        if isinstance(scheme, type) or not isinstance(scheme, BatchScheme):
            raise WrongType(f"scheme must be a batch scheme; got {shown(scheme)}.")
        if isinstance(key, bool) or not (key is None or isinstance(key, bytes | int)):
            raise WrongType(f"key must be bytes, a seed or None; got {shown(key)}.")
        part: object = shard
        if key is None and not (isinstance(part, tuple) and part == WHOLE):
            raise InvalidArgument(
                f"key must be given, the same to every worker, with shard = {shown(shard)}; got None. "
                "Try shared_key()."
            )
        self.scheme, self.shard, self.step = scheme, shard, 0
        self.key = secrets.token_bytes(KEY_BYTES) if key is None else key
        most = count(steps_per_pass=scheme.steps if steps_per_pass is None else steps_per_pass)
        self.steps_per_pass = most
        scheme.batches(self.key, shard=shard)

    def __len__(self) -> int:
        """How many batches are left of the pass in which it stands."""
        return min(self.steps_per_pass - self.step % self.steps_per_pass, self._left())

    def __iter__(self) -> Iterator[list[int]]:
        """The batches that are left of the pass in which it stands."""
        if self._left() == 0:
            raise InvalidArgument(
                f"the run of {self.scheme.steps} steps is over; got a request for more. "
                "Account for a scheme with more steps, and go on with its batches."
            )
        return self._pass(len(self))

    def state_dict(self, *, step: int | None = None) -> dict[str, Any]:
        """Where it stands: to be saved with the model, without the key.

        A loader with worker processes asks for batches ahead of training. Pass ``step``, the number of
        steps that training has finished, so that none is left out.
        """
        done = self.step if step is None else count(least=0, step=step)
        if done > self.scheme.steps:
            raise fault("step", f"at most steps = {self.scheme.steps}", done)
        return {"step": done, "fingerprint": self._fingerprint()}

    def load_state_dict(self, state: Any) -> None:
        """Go on from a saved state of a sampler with the same scheme and key."""
        if not isinstance(state, Mapping) or not {"step", "fingerprint"} <= set(state):
            raise WrongType(f"state must be one that state_dict() returned; got {shown(state)}.")
        if not is_among((self._fingerprint(),), state["fingerprint"]):
            raise InvalidArgument(
                "state must come from a sampler with the same key and kind of scheme; got another one. "
                "Make the sampler with the key of the run that is to go on."
            )
        step = count(least=0, step=state["step"])
        if step > self.scheme.steps:
            raise fault("step", f"at most steps = {self.scheme.steps}", step)
        self.step = step

    def _left(self) -> int:
        return self.scheme.steps - self.step

    def _pass(self, length: int) -> Iterator[list[int]]:
        first = self.step
        batches = self.scheme.batches(self.key, start=first, shard=self.shard)
        for step, batch in zip(range(first, first + length), batches, strict=False):
            if self.step != step:
                raise InvalidArgument(
                    f"only one pass may be under way; got a second one at step {self.step}. "
                    "Make a sampler of its own for each run."
                )
            self.step += 1
            yield batch.tolist()

    def _fingerprint(self) -> str:
        kind = f"{self.scheme.label} {self.key!r}".encode()
        return hashlib.shake_256(b"fingerprint" + kind).hexdigest(FINGERPRINT_BYTES)


class Collate:
    """A collate function that knows what an empty batch looks like.

    An empty batch is a step like any other: noise is added and the model moves. It is made by collating
    one example and keeping none of it, so that shapes and types are those of every batch. ``collate`` is
    torch's default if it is left out.

    With ``places``, say the physical_batch_size of `TruncatedPoissonBatches`, every batch is filled up to
    so many places with the example and comes with a mask, False where nobody is: what is masked must get
    weight 0. The example should be a blank one then, not a record.

    >>> import numpy as np
    >>> stack = Collate(np.zeros(3), collate=np.stack)
    >>> stack([np.ones(3), np.ones(3)]).shape, stack([]).shape
    ((2, 3), (0, 3))
    >>> Collate(np.zeros(3), collate=np.stack, places=4)([np.ones(3)])[1].tolist()
    [True, False, False, False]
    """

    def __init__(
        self,
        example: Any,
        collate: Callable[[list[Any]], Any] | None = None,
        *,
        places: int | None = None,
    ) -> None:
        """Keep one example for its shape."""
        if collate is not None and not callable(collate):
            raise WrongType(f"collate must be a function of a list; got {shown(collate)}.")
        self.example = example
        self.collate = _torch("utils.data").default_collate if collate is None else collate
        self.places = None if places is None else count(places=places)

    def __call__(self, examples: list[Any]) -> Any:
        """The examples as one batch, with a mask if it has a fixed number of places."""
        if not has_entries(examples):
            raise WrongType(f"examples must be a list; got {shown(examples)}.")
        given = list(examples)
        if self.places is None:
            return self._joined(given) if given else _emptied(self._joined([self.example]))
        free = self.places - len(given)
        if free < 0:
            raise fault("examples", f"at most places = {self.places}", len(given))
        batch = self._joined([*given, *[self.example] * free])
        return batch, np.arange(self.places) < len(given)

    def _joined(self, examples: list[Any]) -> Any:
        try:
            return self.collate(examples)
        except Exception as refused:  # torch, numpy and functions of one's own each have their own
            raise InvalidArgument(
                "examples must be ones that collate puts together; got "
                f"{type(refused).__name__}: {refused}."
            ) from refused


def loader(
    dataset: Any,
    sampler: BatchSampler,
    *,
    collate: Callable[[list[Any]], Any] | None = None,
    **options: Any,
) -> Any:
    """A torch DataLoader over the batches of a sampler, empty ones included.

    ``options`` go to torch's DataLoader: ``num_workers``, ``pin_memory`` and so on.
    """
    data = _torch("utils.data")
    if not isinstance(sampler, BatchSampler):
        raise WrongType(f"sampler must be a BatchSampler; got {shown(sampler)}.")
    for name in sorted(OURS & set(options)):
        raise InvalidArgument(f"{name} must be left out; got {shown(options[name])}. {OURS_HINT}")
    size = getattr(sampler.scheme, "dataset_size", None)
    found = _length(dataset)
    if found is None or found != size:
        got = shown(dataset) if found is None else found
        hint = "The scheme and the data set must be about the same examples."
        raise fault("dataset", f"of dataset_size = {size} examples", got, hint)
    try:
        together = Collate(dataset[0], collate)
        return data.DataLoader(dataset, batch_sampler=sampler, collate_fn=together, **options)
    except SharpDPError:
        raise
    except Exception as refused:  # torch, and data sets of one's own, each have their own
        raise InvalidArgument(
            "dataset and options must be what torch's DataLoader takes; got "
            f"{type(refused).__name__}: {refused}."
        ) from refused


def _length(dataset: object) -> int | None:
    """How many examples there are; None for what has no length or no first example."""
    if isinstance(dataset, str | bytes | Mapping | type) or not hasattr(dataset, "__getitem__"):
        return None
    try:
        return len(dataset) if isinstance(dataset, Sized) else None
    except TypeError:  # an array without entries
        return None


def shard_of_rank() -> Shard:
    """This process and how many there are in torch.distributed; (0, 1) if it is not initialised."""
    distributed = _torch("distributed")
    if not (distributed.is_available() and distributed.is_initialized()):
        return WHOLE
    return distributed.get_rank(), distributed.get_world_size()


def shared_key() -> bytes:
    """A fresh key that all processes of torch.distributed agree on: that of rank 0."""
    distributed = _torch("distributed")
    keys = [secrets.token_bytes(KEY_BYTES)]
    if distributed.is_available() and distributed.is_initialized():
        distributed.broadcast_object_list(keys, src=0)
    return keys[0]


def _emptied(batch: Any) -> Any:
    """The batch without its examples: every array in it cut to length 0."""
    if isinstance(batch, Mapping):
        return {name: _emptied(part) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_emptied(part) for part in batch))
    if isinstance(batch, list | tuple) and not all(isinstance(part, str | bytes) for part in batch):
        return type(batch)(_emptied(part) for part in batch)
    if isinstance(batch, Sequence) or hasattr(batch, "__getitem__"):
        return batch[:0]
    raise WrongType(
        f"collate must return arrays, or lists, tuples and dictionaries of them; got {shown(batch)}."
    )


def _torch(module: str) -> Any:
    """A module of torch, imported when it is needed; MissingExtra if there is none."""
    try:
        return importlib.import_module(f"torch.{module}")
    except ImportError as missing:
        raise MissingExtra(
            "torch is needed to load batches and is not installed: pip install torch==2.13.0"
        ) from missing
