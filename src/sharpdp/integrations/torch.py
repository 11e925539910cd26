"""Batch schemes and torch loaders: a loader for a scheme, and the scheme of a loader.

A torch `DataLoader` takes its batches from any iterable of lists of indices, so that the sampler itself
needs no torch; what does says so if it is missing. Sampling, and so the guarantee, is left to the scheme:
every batch that a run hands out is one that the scheme has drawn, empty ones included.

`scheme_of` goes the other way: it says which scheme an existing loader follows, or why none.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import math
import secrets
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import (
    HintedKeywords,
    count,
    has_entries,
    invalid,
    is_among,
    kind_of,
    short_repr,
)
from sharpdp.batches import (
    DeterministicBatches,
    FixedSizeBatches,
    PoissonBatches,
    ShuffledBatches,
)
from sharpdp.batches.scheme import WHOLE, BatchScheme, EpochScheme, Shard
from sharpdp.errors import InvalidArgument, MissingExtra, SharpDPError, Unsupported, WrongType
from sharpdp.integrations.framework_loaders import (
    DISTRIBUTED,
    DRAW_OURS,
    SECRET,
    collate_inside,
    imported,
    is_trainer,
    loader_inside,
    planned_run,
    sampler_inside,
    seed_of,
    trained_on,
    undescribed,
)
from sharpdp.mechanisms.training import known_seed
from sharpdp.randomness.given_secret import conditions_on
from sharpdp.randomness.keyed_stream import KEY_BYTES

__all__ = [
    "BatchSampler",
    "Collate",
    "loader",
    "scheme_of",
    "shard_of_rank",
    "shared_key",
]

Indices = NDArray[np.int64]

COMPARED = 8
"""Examples that ranks compare before they train together."""

KNOWN_ORDER = (
    "the order of the batches follows from seed {seed}, which others can find out by trying. So it "
    "counts as known: the answer is that of deterministic batches. {secret} Otherwise call torch.seed() "
    "before training, or draw the batches of a scheme: loader(data, BatchSampler(scheme))."
)
"""What `scheme_of` warns of."""


ALWAYS_USED = 40.0
"""If so many examples are expected never to be dropped, there is one but for a chance of e^-40."""


class Deliveries:
    """Batches on their way from a sampler to training: the number of each in the run, and its length.

    A loader with worker processes asks for batches ahead of training, so that a sampler does not know
    which of them training has seen. The loader of `counted_loader` does: it notes each batch as it hands
    it out. Another loader over the same sampler, such as that of Opacus' `BatchMemoryManager`, does not.

    Attributes:
        drawn: Batches that the sampler gave, and that were not delivered.
        delivered: Batches that reached training, and were not used up by a step.
        passes: Passes under way over the loader that notes what it hands out.
    """

    def __init__(self) -> None:
        """Nothing is drawn yet."""
        self.drawn: deque[tuple[int, int]] = deque()
        self.delivered: deque[tuple[int, int]] = deque()
        self.passes = 0

    def noted(self, start: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """The batches of a new pass, each noted when it is handed out.

        Args:
            start: Starts the pass of a loader, which may draw some batches ahead at once.

        Returns:
            The same batches. Those that an earlier pass has drawn and not delivered are lost.
        """
        self.drawn.clear()
        self.passes += 1
        return self._noted(start())

    def _noted(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            for batch in batches:
                self.delivered.append(self.drawn.popleft())
                yield batch
        finally:
            self.passes -= 1
            if not self.passes:
                self.drawn.clear()

    def forget(self) -> None:
        """Take everything so far as settled."""
        self.drawn.clear()
        self.delivered.clear()


class BatchSampler(HintedKeywords):
    """The batches of one run of a scheme, as lists of indices: ``DataLoader(batch_sampler=...)``.

    One pass over it is one run, from the step at which it stands to the last; with
    ``steps_per_pass=plan.steps_per_epoch`` one pass is one epoch. It continues where it stopped, and
    never starts anew: to go through the same batches again is more than was accounted for. So a pass
    after the last is an error.

    ``key`` is secret: it determines the batches. Without one, a key is taken from the operating
    system; keep `key` in a safe place, apart from checkpoints, to go on after a crash. The state knows
    only the step and a fingerprint of the key. A small integer can be found from it by
    trying.

    Every worker of a distributed run gives the same key and its own shard, and sees as many batches as
    all others, some of them maybe empty.

    Args:
        scheme: How batches are drawn; it must have a dataset_size.
        key: Secret of at least 16 bytes; None for a fresh one. An integer is a seed for tests.
        shard: This worker's number, from 0 on, and the number of workers.
        steps_per_pass: Batches of one pass, at least 1; None for all of the run.

    Attributes:
        conditions: What must be true if a key or a seed was given; for `Guarantee.provided`.

    Raises:
        InvalidArgument: An argument is out of range, or there is a shard without a key.
        WrongType: An argument has the wrong type.

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
            raise WrongType(f"scheme must be a batch scheme; got {short_repr(scheme)}.")
        if isinstance(key, bool) or not (key is None or isinstance(key, bytes | int)):
            raise WrongType(f"key must be bytes, a seed or None; got {short_repr(key)}.")
        part: object = shard
        if key is None and not (isinstance(part, tuple) and part == WHOLE):
            raise InvalidArgument(
                f"key must be given, the same to every worker, with shard = {short_repr(shard)}; "
                "got None. Try shared_key()."
            )
        self.scheme, self.shard, self.step = scheme, shard, 0
        self.deliveries: Deliveries | None = None
        self.key = secrets.token_bytes(KEY_BYTES) if key is None else key
        self.conditions = conditions_on(key)
        limit = count(steps_per_pass=scheme.steps if steps_per_pass is None else steps_per_pass)
        self.steps_per_pass, self._last = limit, scheme.steps
        scheme.batches(self.key, shard=shard)

    @property
    def begun(self) -> int:
        """Number of steps of the scheme begun: `step`."""
        return self.step

    def stop_after(self, steps: int) -> None:
        """End the run after a number of steps of the scheme, such as those that a budget allows.

        From then on a pass has no batches, instead of being an error.

        Args:
            steps: Number of steps from the beginning of the run, at least 0.

        Raises:
            InvalidArgument: steps is negative.
            WrongType: steps is no number.

        >>> from sharpdp.batches import PoissonBatches
        >>> sampler = BatchSampler(PoissonBatches(sample_rate=0.5, steps=9, dataset_size=2), key=7)
        >>> sampler.stop_after(4)
        >>> len(list(sampler)), len(list(sampler))
        (4, 0)
        """
        self._last = min(count(steps=steps, least=0), self.scheme.steps)

    def __len__(self) -> int:
        """Number of batches left in the current pass."""
        return min(self.steps_per_pass - self.step % self.steps_per_pass, self._left())

    @property
    def drop_last(self) -> bool:
        """What frameworks ask for that share out batches again; an error.

        Accelerate with several processes (and the Trainer of transformers, which uses it) hands each rank
        other batches than those that were accounted.
        """
        raise InvalidArgument(
            "batches must reach training as they were drawn; got a framework that shares them out again. "
            "Make every rank's loader with BatchSampler(scheme, key, shard=shard_of_rank()), and keep it "
            "out of accelerator.prepare."
        )

    def __iter__(self) -> Iterator[list[int]]:
        """The batches that are left of the pass in which it stands."""
        if self.step >= self.scheme.steps:
            hint = "Account for a scheme with more steps, and go on with its batches."
            if self.steps_per_pass >= self.scheme.steps:
                epoch = getattr(self.scheme, "steps_per_epoch", None)
                given = "scheme.steps_per_epoch" if epoch else "..."
                hint = (
                    "One pass was the whole run. To make passes of one epoch each: "
                    f"BatchSampler(scheme, steps_per_pass={given})."
                )
            raise InvalidArgument(
                f"the run of {self.scheme.steps} steps is over; got a request for more. {hint}"
            )
        return self._pass(len(self))

    def state_dict(self, *, step: int | None = None) -> dict[str, Any]:
        """Where it stands: to be saved with the model, without the key.

        A loader with worker processes asks for batches ahead of training. Pass ``step``, the number of
        steps that training has finished, so that none is left out.

        Args:
            step: Steps that training has finished, from 0 to those of the scheme; None for the batches
                handed out.

        Returns:
            The step and a fingerprint of the key.

        Raises:
            InvalidArgument: step is out of range.
            WrongType: step is no number.
        """
        done = self.step if step is None else count(least=0, step=step)
        if done > self.scheme.steps:
            raise invalid("step", f"at most steps = {self.scheme.steps}", done)
        return {"step": done, "fingerprint": self._fingerprint()}

    def load_state_dict(self, state: Any) -> None:
        """Go on from a saved state of a sampler with the same scheme and key.

        Args:
            state: What `state_dict` gave.

        Raises:
            InvalidArgument: The state is that of another key or kind of scheme, or its step is out of
                range.
            WrongType: It is no such state.
        """
        if not isinstance(state, Mapping) or not {"step", "fingerprint"} <= set(state):
            raise WrongType(
                f"state must be one that state_dict() returned; got {short_repr(state)}."
            )
        if not is_among((self._fingerprint(),), state["fingerprint"]):
            raise InvalidArgument(
                "state must come from a sampler with the same key and kind of scheme; got another one. "
                "Make the sampler with the key of the run that is to go on."
            )
        step = count(least=0, step=state["step"])
        if step > self.scheme.steps:
            raise invalid("step", f"at most steps = {self.scheme.steps}", step)
        self.step = step

    def _left(self) -> int:
        return max(self._last - self.step, 0)

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
            if self.deliveries is not None:
                self.deliveries.drawn.append((step, len(batch)))
            yield batch.tolist()

    @property
    def batch_key(self) -> bytes:
        """What the batches follow from, for a ledger that refuses the same batches twice."""
        seed = hashlib.sha256(repr(self.key).encode()).digest()
        return self.key if isinstance(self.key, bytes) else seed

    def _fingerprint(self) -> str:
        kind = f"{self.scheme.label} {self.key!r}".encode()
        # enough to tell keys apart; nothing can be learned from it about a key of 16 random bytes
        # or more
        return hashlib.shake_256(b"fingerprint" + kind).hexdigest(16)


class CountedBatches:
    """The batches of a torch or Opacus batch sampler, counted as steps of the scheme that it follows.

    A pass over a shuffled or stored order counts as a whole epoch from its first batch on, since the next
    pass draws a new order wherever this one was left; Poisson batches count one by one. A pass, or a
    batch, beyond the steps of the scheme is an error.
    """

    def __init__(self, sampler: Any, scheme: BatchScheme) -> None:
        """Nothing is handed out yet."""
        self.sampler, self.scheme = sampler, scheme
        self.begun, self._drawn = 0, 0
        self.deliveries = Deliveries()

    def __len__(self) -> int:
        """Number of batches per pass."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one pass."""
        by_pass = isinstance(self.scheme, EpochScheme)
        if by_pass:
            self._begin(len(self))
        for batch in self.sampler:
            if not by_pass:
                self._begin(1)
            self.deliveries.drawn.append((self._drawn, len(batch)))
            self._drawn += 1
            yield batch

    def _begin(self, steps: int) -> None:
        if self.begun + steps > self.scheme.steps:
            raise InvalidArgument(
                f"batches must be at most the {self.scheme.steps} of {self.scheme.describe()}; got a "
                f"request for more after {self.begun}. A pass that is broken off counts as a whole one. "
                "Account for a scheme with more epochs or steps."
            )
        self.begun += steps


class Collate:
    """A collate function that knows what an empty batch looks like.

    An empty batch is a step like any other: noise is added and the model moves. It is made by collating
    one example and keeping none of it, so that shapes and types are those of every batch.

    With ``places``, say the physical_batch_size of `TruncatedPoissonBatches`, every batch is filled up to
    so many places with the example and comes with a mask, False where nobody is: what is masked must get
    weight 0. The example should be a blank one then, not a record.

    Args:
        example: An example that collate takes; its content is used with places only.
        collate: Function from a list of examples to a batch; None for torch's default.
        places: Fixed number of places, at least 1, to which every batch is filled up; None to leave
            batches as they are.

    Raises:
        InvalidArgument: places is out of range.
        WrongType: collate is no function, or places is no number.
        MissingExtra: collate is None, and torch is not installed.

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
            raise WrongType(f"collate must be a function of a list; got {short_repr(collate)}.")
        self.example = example
        self.collate = _torch("utils.data").default_collate if collate is None else collate
        self.places = None if places is None else count(places=places)

    def __call__(self, examples: list[Any]) -> Any:
        """The examples as one batch, with a mask if it has a fixed number of places.

        Args:
            examples: The examples, maybe none; at most as many as places.

        Returns:
            What collate returns; with places, a pair of that and the mask.

        Raises:
            InvalidArgument: There are more examples than places, or collate fails.
            WrongType: examples is no list, or collate returns something of which an empty batch cannot be
                made.
        """
        if not has_entries(examples):
            raise WrongType(f"examples must be a list; got {kind_of(examples)}.")
        rows = list(examples)
        if self.places is None:
            return self._joined(rows) if rows else _emptied(self._joined([self.example]))
        free = self.places - len(rows)
        if free < 0:
            raise invalid("examples", f"at most places = {self.places}", len(rows))
        batch = self._joined([*rows, *[self.example] * free])
        return batch, np.arange(self.places) < len(rows)

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

    Args:
        dataset: A data set, or tensors that have a length, of the scheme's dataset_size examples.
        sampler: The batches.
        collate: Function from a list of examples to a batch; None for torch's default.
        **options: Options of torch's DataLoader, such as ``num_workers``; none that selects examples.

    Returns:
        The DataLoader.

    Raises:
        InvalidArgument: An option would draw other batches, the data set is of another size, or torch's
            DataLoader refuses an argument.
        WrongType: sampler is no `BatchSampler`, or collate is no function.
        Unsupported: A record of the data set is at two indices.
        MissingExtra: torch is not installed.
    """
    data = _torch("utils.data")
    if not isinstance(sampler, BatchSampler):
        raise WrongType(f"sampler must be a BatchSampler; got {short_repr(sampler)}.")
    # these would draw other batches than the scheme's
    ours = {"batch_sampler", "batch_size", "collate_fn", "drop_last", "sampler", "shuffle"}
    for name in sorted(ours & set(options)):
        raise InvalidArgument(
            f"{name} must be left out; got {short_repr(options[name])}. "
            "The scheme says which examples are in a batch."
        )
    size = sampler.scheme.dataset_size
    length = _length(dataset)
    if length is None or length != size:
        got = short_repr(dataset) if length is None else length
        hint = "The scheme and the data set must be about the same examples."
        if isinstance(dataset, data.DataLoader):
            hint = "Pass the data set of the loader: loader.dataset."
        raise invalid("dataset", f"of dataset_size = {size} examples", got, hint)
    check_records(dataset)
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


def hash_of_some(loader: Any, key: bytes | int) -> str:
    """A hash of some examples that the key picks, to compare the data of a rank with those of others.

    Examples that are not the same when they are read twice, as random crops are, are left out.
    """
    digest, dataset = hashlib.blake2b(), loader.dataset
    for number in range(COMPARED):
        picked = hashlib.blake2b(f"compared {key!r} {number}".encode()).digest()
        index = int.from_bytes(picked, "big") % len(dataset)
        once, again = (_plain(loader.collate_fn([dataset[index]])) for _ in range(2))
        if once == again:
            digest.update(repr((index, once)).encode())
    return digest.hexdigest()


def _plain(batch: Any) -> list[object]:
    """A batch as bytes, shapes and words."""
    leaves, _ = _torch("utils._pytree").tree_flatten(batch)
    tensor = _torch("").Tensor
    return [
        (one.detach().cpu().numpy().tobytes(), tuple(one.shape))
        if isinstance(one, tensor)
        else repr(one)
        for one in leaves
    ]


def counted_loader(loader: Any, scheme: BatchScheme) -> tuple[Any, BatchSampler | CountedBatches]:
    """A loader over the same batches that notes those it hands out, and its sampler, which counts them.

    It is made anew from the parts of the loader: over its `BatchSampler`, or over `CountedBatches` of the
    scheme. Batches of the old loader are not noted, and counted only by a `BatchSampler`.
    """
    if getattr(loader, "in_order", True) is False:
        raise undescribed(
            loader, "with in_order=False hands out batches as they are ready", "Leave it out."
        )
    sampler = loader.batch_sampler
    if not isinstance(sampler, BatchSampler):
        sampler = CountedBatches(sampler, scheme)
    elif sampler.deliveries is None:
        sampler.deliveries = Deliveries()
    names = (
        *("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn"),
        *("multiprocessing_context", "generator", "prefetch_factor", "persistent_workers"),
    )
    options = {name: getattr(loader, name) for name in names}
    return _noting_loader()(batch_sampler=sampler, **options), sampler


@cache
def _noting_loader() -> Any:
    """The class of loaders over a sampler of ours that note the batches they hand out."""

    class NotingLoader(_torch("utils.data").DataLoader):  # type: ignore[misc]  # torch is optional
        def __iter__(self) -> Iterator[Any]:
            return self.batch_sampler.deliveries.noted(super().__iter__)  # type: ignore[no-any-return]

    return NotingLoader


def batches_per_pass(scheme: Any) -> tuple[int, ...]:
    """Possible numbers of batches per pass: those of an epoch, or 1 / sample_rate rounded either way."""
    if isinstance(scheme, EpochScheme):
        return (scheme.steps // scheme.epochs,)
    exact = 1.0 / scheme.sample_rate
    return tuple(sorted({math.floor(exact), math.ceil(exact)}))


def scheme_of(
    loader: Any,
    *,
    epochs: int | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    seed: str | None = None,
) -> BatchScheme:
    """The batch scheme that a torch DataLoader follows; `Unsupported` says why there is none.

    Recognized are loaders with ``shuffle=True`` (`RandomSampler`) or without (`SequentialSampler`), with
    ``drop_last``; draws with replacement (`RandomSampler`, `WeightedRandomSampler`), if all batches have
    one size; Opacus' `DPDataLoader`, also inside `BatchMemoryManager`; loaders over a `BatchSampler`; and
    what Accelerate's ``prepare`` makes of these on one process. Only these very classes are: a subclass
    may draw in its own way. A Trainer of transformers or Lightning that has trained is read as well: its
    loader, and how many passes over it were begun.

    A seed closer to zero than 2^32 in the generator of the sampler, or in torch's own if it has none, can
    be found by trying: ``torch.manual_seed(0)``, Lightning's ``seed_everything``, and the seed 42 of
    transformers' TrainingArguments. Then a shuffled order counts as known, with a warning: the scheme is
    `DeterministicBatches`, and names the seed. (With ``drop_last`` its lower end is that of an example
    that is never dropped.) Draws that follow from such a seed are described by no scheme. What is seen is
    the seed at the time of the call. Larger seeds count as secret, also those that a script spells out.

    Opacus draws by comparing single-precision random numbers with its sample rate, which rounds the
    probability up to a multiple of 2^-24. The scheme has the probability that is really used.

    Holds when: torch's generator counts as random, its seed is secret unless the scheme names it, and it
    is not seeded anew during the run; the records of the data set are different people's, and its
    `__getitem__` returns the record of that index. Weights are public, or chosen without looking at the
    records. A model ignores what transformers' collators pad.

    Args:
        loader: a torch DataLoader, or one of Opacus or Accelerate; or a Trainer of transformers or
            Lightning, for the run of its last ``train`` or ``fit``.
        epochs: how many passes over the loader the run makes. To be left out for a Trainer, which knows;
            may be left out for a loader over a `BatchSampler`, whose scheme knows.
        collate: the loader's own collate function, if it is neither torch's default nor one of
            transformers that give every example a row of its own. Passing it says that it treats every
            example by itself: it repeats, mixes and drops none.
        seed: "secret" if nobody else can know the seed of the generator, however small it is; None
            (default) to go by its size.

    Returns:
        `ShuffledBatches`, `DeterministicBatches`, `FixedSizeBatches` or `PoissonBatches`, or the scheme
        of a `BatchSampler`.

    Raises:
        InvalidArgument: epochs is missing, superfluous or out of range, a Trainer has not trained, or
            seed is another word.
        Unsupported: the batches follow no scheme of sharpdp, or that cannot be determined.
        WrongType: loader is neither of these.

    >>> from torch.utils.data import DataLoader
    >>> scheme_of(
    ...     DataLoader(range(100), batch_size=30, shuffle=True, drop_last=True), epochs=5
    ... ).describe()
    'shuffled batches: 5 epochs of 3 batches, 30 of 100 examples each, order redrawn in every epoch;
     the remaining 10 examples of every epoch are dropped'
    """
    if seed is not None and not is_among(("secret",), seed):
        raise invalid("seed", '"secret" or None', seed, "The generator is asked for the number.")
    taken = None
    if is_trainer(loader):
        if epochs is not None:
            raise invalid("epochs", "None for a Trainer, which counts them", epochs)
        run = planned_run(loader)
        if run is not None:
            planned: BatchScheme = run.taken.batches
            return planned
        loader, epochs, taken = trained_on(loader)
    scheme = _scheme_of(loader, epochs, collate, is_secret=seed is not None)
    if taken is not None and not isinstance(scheme, EpochScheme):
        drawn: Any = scheme  # batch by batch, wherever a pass was broken off
        scheme = replace(drawn, steps=taken)
    known = known_seed(scheme)
    if known is not None:
        warnings.warn(KNOWN_ORDER.format(seed=known, secret=SECRET), stacklevel=2)
    return scheme


def _scheme_of(
    loader: Any,
    epochs: int | None,
    collate: Callable[[list[Any]], Any] | None,
    *,
    is_secret: bool,
) -> BatchScheme:
    """The scheme of a loader, whose seeds are secret or count as known if they are small."""
    data = _torch("utils.data")
    if not isinstance(loader, data.DataLoader):
        raise WrongType(f"loader must be a torch DataLoader; got {short_repr(loader)}.")
    loader = loader_inside(loader)
    known = (data.DataLoader, imported("opacus.data_loader", "DPDataLoader"), _noting_loader())
    if type(loader) not in known:
        raise undescribed(loader, "may change the batches", "Pass the DataLoader inside it.")
    if isinstance(loader.dataset, data.IterableDataset):
        raise undescribed(
            loader.dataset,
            "hands out examples in an order of its own",
            "Use a data set with indices, and loader(data, BatchSampler(scheme)).",
        )
    sampler = loader.batch_sampler
    if sampler is None:
        raise undescribed(loader.dataset, "makes its batches itself (batch_size=None)", DRAW_OURS)
    _check_collate(loader.collate_fn, collate)
    check_records(loader.dataset)
    if type(sampler) is imported("opacus.utils.batch_memory_manager", "BatchSplittingSampler"):
        sampler = sampler.sampler
    if isinstance(sampler, CountedBatches):
        sampler = sampler.sampler
    sampler = sampler_inside(sampler)
    if type(sampler) is BatchSampler:
        return _scheme_of_ours(sampler, epochs)
    size = len(loader.dataset)
    if type(sampler) is imported("opacus.utils.uniform_sampler", "UniformWithReplacementSampler"):
        return _scheme_of_opacus(sampler, size, epochs, is_secret=is_secret)
    if type(sampler) is data.BatchSampler:
        return _scheme_of_slices(sampler, size, epochs, is_secret=is_secret)
    hint = DISTRIBUTED if "Distributed" in type(sampler).__name__ else DRAW_OURS
    raise undescribed(sampler, "draws batches in a way that is not known", hint)


def _scheme_of_ours(sampler: BatchSampler, epochs: int | None) -> BatchScheme:
    """The scheme of a `BatchSampler`, if the epochs are its own."""
    planned = sampler.scheme.epochs if isinstance(sampler.scheme, EpochScheme) else epochs
    if epochs is not None and count(epochs=epochs) != planned:
        raise invalid(
            "epochs", f"those of the sampler's scheme, {planned}", epochs, "Leave it out."
        )
    return sampler.scheme


def _scheme_of_opacus(
    sampler: Any, dataset_size: int, epochs: int | None, *, is_secret: bool
) -> PoissonBatches:
    """The scheme of Opacus' Poisson sampler, with the probability of its comparison of floats."""
    _check_source(sampler, sampler.num_samples, dataset_size)
    _check_draws(sampler, is_secret=is_secret)
    torch = _torch("")
    bits = {torch.float32: 24, torch.float64: 53}.get(torch.get_default_dtype())
    if bits is None:
        name = short_repr(str(torch.get_default_dtype()))
        raise Unsupported(f"Opacus must draw with float32 or float64; the default type is {name}.")
    rate = Fraction(np.float32(sampler.sample_rate).item() if bits == 24 else sampler.sample_rate)
    drawn = min(Fraction(math.ceil(rate * 2**bits), 2**bits), Fraction(1))
    steps = _epochs(epochs) * count(steps=sampler.steps)
    return PoissonBatches(sample_rate=float(drawn), steps=steps, dataset_size=dataset_size)


def _scheme_of_slices(
    sampler: Any, dataset_size: int, epochs: int | None, *, is_secret: bool
) -> BatchScheme:
    """The scheme of torch's own batch sampler: slices of a stored or a random order, or of draws."""
    data, order = _torch("utils.data"), sampler.sampler
    shuffles = (data.RandomSampler, imported("accelerate.data_loader", "SeedableRandomSampler"))
    seed: int | None = None
    if type(order) is data.SequentialSampler:
        _check_source(order, len(order), dataset_size)
    elif type(order) in (*shuffles, data.WeightedRandomSampler) and order.replacement:
        _check_draws(order, is_secret=is_secret)
        return _scheme_of_draws(sampler, dataset_size, epochs)
    elif type(order) in shuffles:
        _check_source(order, len(order.data_source), dataset_size)
        if order.num_samples != dataset_size:
            raise undescribed(
                order,
                f"with num_samples={order.num_samples} of {dataset_size} examples covers no whole epoch",
                "Leave num_samples out.",
            )
        seed = seed_of(order)
        if seed is None or is_secret:
            return _shuffled(sampler, dataset_size, epochs)
    else:
        hint = DISTRIBUTED if "Distributed" in type(order).__name__ else DRAW_OURS
        if type(order) is data.SubsetRandomSampler:
            hint = "Use shuffle=True over torch.utils.data.Subset(data, indices)."
        if type(order) is data.WeightedRandomSampler:
            hint = "Without replacement it is covered by no theorem. Use replacement=True."
        raise undescribed(order, "draws examples in a way that is not covered", hint)
    # examples that are dropped are never used in the stored order, and others each time in known ones
    used = dataset_size - _dropped(sampler, dataset_size)
    never_dropped = dataset_size * (used / dataset_size) ** _epochs(epochs)
    if seed is not None and used < dataset_size and never_dropped < ALWAYS_USED:
        raise undescribed(
            order,
            f"with seed {seed}, which others can find out, and drop_last=True leaves out so many "
            "examples that maybe none is used in all epochs",
            f"{SECRET} Otherwise take the upper end of DeterministicBatches, or leave drop_last out.",
        )
    size = min(sampler.batch_size, dataset_size)
    return DeterministicBatches(
        dataset_size=used, batch_size=size, epochs=_epochs(epochs), seed=seed
    )


def _shuffled(sampler: Any, dataset_size: int, epochs: int | None) -> ShuffledBatches:
    """The scheme of slices of a secret order that is drawn anew in every epoch."""
    return ShuffledBatches(
        dataset_size=dataset_size,
        batch_size=min(sampler.batch_size, dataset_size),
        epochs=_epochs(epochs),
        drop_last=_dropped(sampler, dataset_size) > 0,
    )


def _dropped(sampler: Any, dataset_size: int) -> int:
    """How many examples a batch sampler leaves out in every epoch."""
    dropped: int = dataset_size % sampler.batch_size if sampler.drop_last else 0
    if dropped == dataset_size:
        raise invalid("loader", "one with batches", "none, since drop_last=True drops all examples")
    return dropped


def _scheme_of_draws(sampler: Any, dataset_size: int, epochs: int | None) -> FixedSizeBatches:
    """The scheme of slices of draws with replacement, if all batches are of one size."""
    order = sampler.sampler
    weights = getattr(order, "weights", None)  # a RandomSampler has none: they are equal
    covered = len(order.data_source) if weights is None else len(weights)
    _check_source(order, covered, dataset_size)
    whole, rest = divmod(order.num_samples, sampler.batch_size)
    if (rest and not sampler.drop_last) or whole == 0 or sampler.batch_size > dataset_size:
        raise undescribed(
            order,
            f"makes batches of several sizes from num_samples={order.num_samples}, or larger ones than "
            "the data set",
            "Use drop_last=True, and batches of at most as many examples as there are.",
        )
    shares = None if weights is None else tuple(weights.tolist())
    return FixedSizeBatches(
        dataset_size=dataset_size,
        batch_size=sampler.batch_size,
        steps=_epochs(epochs) * whole,
        replacement=True,
        weights=None if shares is None or len(set(shares)) == 1 else shares,
    )


def _check_draws(sampler: Any, *, is_secret: bool) -> None:
    """Refuse draws that follow from a known seed: how often an example is used is then known, too."""
    seed = seed_of(sampler)
    if seed is not None and not is_secret:
        raise undescribed(
            sampler,
            f"draws with seed {seed}, which others can find out by trying, so that they know how often "
            "each example is used",
            f"{SECRET} Otherwise call torch.seed() before training, or draw the batches of a scheme: "
            "loader(data, BatchSampler(scheme)).",
        )


def _check_source(sampler: Any, covered: int, dataset_size: int) -> None:
    """Refuse a sampler over other indices than those of the data set."""
    if covered != dataset_size:
        raise undescribed(
            sampler,
            f"draws from {covered} indices, while the data set has {dataset_size} examples",
            "Make the sampler with this data set.",
        )


def _check_collate(used: Any, vouched: Any) -> None:
    """Refuse a collate function that the caller did not pass as `collate`."""
    while type(used) is imported("opacus.data_loader", "CollateFnWithEmpty"):
        used = used.wrapped_collator_fn
    default, inside = _torch("utils.data").default_collate, collate_inside(used)
    if inside is None or inside is default or type(inside) is Collate:
        return
    if used is vouched or inside is vouched:
        return
    name = getattr(inside, "__qualname__", type(inside).__name__)
    raise Unsupported(
        f"the collate function {name} may repeat, mix or drop examples, so that nobody can tell what "
        "a batch holds. If it treats every example by itself, say so: collate=the same function."
    )


def check_records(dataset: Any) -> None:
    """Refuse a data set that is known to have one record at two indices.

    Every index is followed to the data set in which the record lies: through torch's `Subset` and
    `ConcatDataset`, nested in any way, and through wrappers of one's own that keep the data set inside as
    `dataset`, with `indices` or as many examples. Rows of tensors and arrays are told apart by where they
    lie in memory, so that slices that overlap are found, too. Copies of a record are not.
    """
    size = _length(dataset)
    if size is None:
        return
    lying: dict[int, list[tuple[Places, Places]]] = {}
    for source, places, indices in _origins(dataset, range(size), range(size)):
        lying.setdefault(source, []).append((places, indices))
    for parts in lying.values():
        if not _are_apart([places for places, _ in parts]):
            _refuse_repeated(dataset, parts)


Places = range | Indices
"""Places of records, in a range where that is enough: there may be far more than memory holds."""

MEMORY = -1
"""The source of rows of tensors and arrays, whose places are addresses."""


def _origins(dataset: Any, chosen: Places, indices: Places) -> Iterator[tuple[int, Places, Places]]:
    """Sources of chosen records: an identity, their places there, and their indices in the whole."""
    inside, rows = _inside(dataset), _addresses(dataset)
    if isinstance(dataset, _torch("utils.data").ConcatDataset):
        for part, mine, where in _split(chosen, dataset.cumulative_sizes):
            yield from _origins(dataset.datasets[part], mine, _at(indices, where))
    elif inside is not None:
        inner, picked = inside
        yield from _origins(inner, _at(_checked_indices(dataset, inner, picked), chosen), indices)
    elif rows is not None:
        yield MEMORY, _at(rows, chosen), indices
    else:
        yield id(dataset), chosen, indices


def _inside(dataset: Any) -> tuple[Any, Any] | None:
    """The data set that another one wraps, and at which of its indices; None if that is not known."""
    inner, length = getattr(dataset, "dataset", None), _length(dataset)
    size = None if inner is None else _length(inner)
    if size is None or length is None:
        return None
    indices = getattr(dataset, "indices", None)
    if indices is None:
        return (inner, range(size)) if size == length else None
    return (inner, indices) if _length(indices) == length else None


def _checked_indices(dataset: Any, inner: Any, indices: Any) -> Places:
    """The indices of a subset, none of them negative."""
    size = _length(inner)
    assert size is not None
    lowest, highest = _span(indices) if isinstance(indices, range) and indices else (0, 0)
    if isinstance(indices, range) and lowest >= 0:
        picked: Places = indices
    else:
        picked = np.asarray(indices)
        if picked.dtype.kind not in "iu":
            picked = np.fromiter(map(int, indices), np.int64, len(indices))
        picked = np.where(picked < 0, picked + size, picked)
        lowest, highest = (int(picked.min()), int(picked.max())) if len(picked) else (0, 0)
    if len(picked) and not 0 <= lowest <= highest < size:
        outside = f"has indices from {lowest} to {highest} of {size} examples"
        raise undescribed(dataset, outside, "Use those that exist.")
    return picked


def _at(places: Places, chosen: Places) -> Places:
    """Some of the places.

    >>> _at(range(10, 30, 2), range(1, 7, 3)), _at(np.array([4, 5, 6]), range(1, 3)).tolist()
    (range(12, 24, 6), [5, 6])
    """
    if isinstance(places, range):
        if isinstance(chosen, range):
            start, step = places.start + places.step * chosen.start, places.step * chosen.step
            return range(start, start + step * len(chosen), step)
        return np.asarray(places.start + places.step * chosen)
    return np.asarray(places[_array(chosen)])


def _array(places: Places) -> Indices:
    if isinstance(places, range):
        return np.arange(places.start, places.stop, places.step)
    return places


def _split(chosen: Places, ends: list[int]) -> Iterator[tuple[int, Places, Places]]:
    """Which of the parts of a concatenation are chosen: part, places in it, and where they stood."""
    if isinstance(chosen, range) and chosen == range(ends[-1]):
        for part, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            yield part, range(end - start), range(start, end)
        return
    numbers = _array(chosen)
    parts = np.searchsorted(ends, numbers, "right")
    order = np.argsort(parts, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1):
        if len(group):
            part = int(parts[group[0]])
            yield part, numbers[group] - (ends[part - 1] if part else 0), group


def _span(places: range) -> tuple[int, int]:
    """The smallest and the largest place, without a look at those between."""
    return min(places[0], places[-1]), max(places[0], places[-1])


def _are_apart(parts: list[Places]) -> bool:
    """Whether places differ because each part is a range, and one ends before the next begins."""
    if not all(isinstance(places, range) for places in parts):
        return False
    spans = sorted(_span(places) for places in parts if isinstance(places, range) and places)
    return all(one[1] < other[0] for one, other in itertools.pairwise(spans))


def _refuse_repeated(dataset: Any, parts: list[tuple[Places, Places]]) -> None:
    """An error if one of the places comes twice."""
    places, indices = (
        np.concatenate([_array(one) for one in some]) for some in zip(*parts, strict=True)
    )
    order = np.argsort(places, kind="stable")
    again = np.flatnonzero(np.diff(places[order]) == 0)
    if len(again):
        one, other = sorted(int(indices[order[again[0] + offset]]) for offset in (0, 1))
        raise undescribed(
            dataset,
            f"has a record more than once: the one at index {one} is at index {other}, too",
            "A record at two indices is in twice as many batches. Keep one.",
        )


def _addresses(dataset: Any) -> range | None:
    """Where the rows of tensors or of an array begin in memory; None for anything else."""
    is_tensors = type(dataset) is _torch("utils.data").TensorDataset
    for array in dataset.tensors if is_tensors else (dataset,):
        if isinstance(array, np.ndarray):
            start, step = array.__array_interface__["data"][0], array.strides[0]
        elif isinstance(array, _torch("").Tensor) and array.layout is _torch("").strided:
            start, step = array.data_ptr(), array.stride(0) * array.element_size()
        else:
            continue
        if start and step and math.prod(array.shape):  # else all rows are in one place, or nowhere
            return range(start, start + step * len(array), step)
    return None


def _epochs(epochs: int | None) -> int:
    if epochs is None:
        raise InvalidArgument(
            "epochs must be given for this loader; got None. It counts the passes that the run makes."
        )
    return count(epochs=epochs)


def _length(dataset: object) -> int | None:
    """Number of examples; None for what has no length or no first example."""
    if isinstance(dataset, str | bytes | Mapping | type) or not hasattr(dataset, "__getitem__"):
        return None
    try:
        return len(dataset) if isinstance(dataset, Sized) else None
    except TypeError:  # an array without entries
        return None


def shard_of_rank() -> Shard:
    """Rank and number of processes in torch.distributed; (0, 1) if it is not initialized.

    Returns:
        The pair that `BatchSampler` takes as shard.

    Raises:
        MissingExtra: torch is not installed.
    """
    rank, size = _ranks().shard
    return rank, size


def shared_key() -> bytes:
    """A fresh key that all processes of torch.distributed agree on: that of rank 0.

    Returns:
        The key; every process must call this.

    Raises:
        MissingExtra: torch is not installed.
    """
    key: bytes = _ranks().fresh_key()
    return key


def _ranks() -> Any:
    """This process among those of torch.distributed, which needs torch."""
    _torch("distributed")
    from sharpdp.learn.ranks import Ranks

    return Ranks.of_process()


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
        f"collate must return arrays, or lists, tuples and dictionaries of them; got {kind_of(batch)}."
    )


def _torch(module: str) -> Any:
    """A module of torch, imported when it is needed; MissingExtra if there is none."""
    try:
        return importlib.import_module(f"torch.{module}" if module else "torch")
    except ImportError as missing:
        raise MissingExtra(
            "torch is needed to load batches and is not installed: pip install torch"
        ) from missing
