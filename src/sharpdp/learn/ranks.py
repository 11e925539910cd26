"""Several processes that train one model: they share one batch, one sum and one noise.

Clipped gradients are whole multiples of a grid, and sums of up to 2^22 of them are exact in double
precision (`sharpdp.learn.gradients`). Ranks share out whole pieces of a batch, which are cut in the same
way for any number of them. So the sum over all ranks does not depend on how the pieces are spread over
them, and noise that is a function of the key, the step and the sum is the same on every rank: it is one
release, which each rank computes for itself. On processors of one kind it equals that of a single
process bit for bit; the last bits of a gradient depend on the instructions that compute it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.learn.gradients import LARGEST_BATCH
from sharpdp.randomness.keyed_stream import KEY_BYTES
from sharpdp.storage.run_lock import OwnProcess

__all__ = ["Ranks", "unwrapped"]

Made = TypeVar("Made")


@dataclass(frozen=True)
class Ranks:
    """This process among those of torch.distributed that train together.

    Args:
        rank: Number of this process, from 0 on.
        size: How many there are.

    >>> Ranks.of_process()  # torch.distributed is not initialized
    Ranks(rank=0, size=1)
    """

    rank: int = 0
    size: int = 1
    process: OwnProcess = field(default_factory=OwnProcess, init=False, repr=False, compare=False)

    @classmethod
    def of_process(cls) -> Ranks:
        """The ranks of the default process group; one alone if there is none."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def shard(self) -> tuple[int, int]:
        """Which part of every batch is that of this rank, as batch schemes take it."""
        return self.rank, self.size

    def pieces(self, length: int, size: int) -> list[tuple[int, slice]]:
        """The pieces of a batch that are this rank's: every so many-th, with its number in the batch.

        Pieces are cut from the whole batch in the same way for any number of ranks. So the gradient of an
        example, which may depend on its piece in the last bits, does not depend on who computes it.

        Args:
            length: How many examples the whole batch has.
            size: How many a piece has.

        >>> Ranks(1, 2).pieces(10, 3)
        [(1, slice(3, 6, None)), (3, slice(9, 12, None))]
        """
        numbers = range(self.rank, -(-length // size), self.size)
        return [(number, slice(number * size, (number + 1) * size)) for number in numbers]

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that reads and writes files."""
        return self.rank == 0

    def from_first(self, make: Callable[[], Made]) -> Made:
        """What the first rank makes, on every rank; if it fails there, it fails on all of them."""
        if self.size == 1:
            return make()
        made: list[object] = [None, None]
        fault: BaseException | None = None
        if self.is_first:
            try:
                made[0] = make()
            except BaseException as raised:
                made[1], fault = str(raised), raised
        distributed.broadcast_object_list(made, src=0)
        if fault is not None:
            raise fault
        if made[1] is not None:
            raise InvalidArgument(f"rank 0 failed: {made[1]}")
        return made[0]  # type: ignore[return-value]  # what make() returned on rank 0

    def fresh_key(self) -> bytes:
        """A fresh secret of the operating system, the same on all ranks."""
        return self.from_first(partial(secrets.token_bytes, KEY_BYTES))

    def check_same(self, **digests: str) -> None:
        """An error, on every rank, unless all of them were given the same things.

        Args:
            **digests: A hash of each thing, by its name.
        """
        if self.size == 1:
            return
        all_of_them: list[dict[str, str]] = [{}] * self.size
        distributed.all_gather_object(all_of_them, digests)
        for name in digests:
            if len({given[name] for given in all_of_them}) > 1:
                raise InvalidArgument(
                    f"{name} must be the same on all {self.size} ranks; got different ones. Give every "
                    "rank the whole data set, the same model and the same key: ranks share out each "
                    "batch by themselves."
                )

    def check_unchanged(self, made: str) -> None:
        """An error if processes joined or left since something was made, or in a fork of the process.

        A fork is refused before anything is computed: threads of torch do not survive it.

        Args:
            made: What was made.
        """
        self.process.check()
        now = Ranks.of_process()
        if now != self:
            raise InvalidArgument(
                f"{made} must be made after torch.distributed is initialized; got {self.size} ranks when "
                f"it was made and {now.size} now, which would release other sums."
            )

    def summed(
        self, examples: int, make: Callable[[], dict[str, Tensor]], like: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The sum of what all ranks make, exactly; if one of them fails, all of them do.

        Args:
            examples: How many examples are in the part of this rank.
            make: Makes the sum over that part, in double precision.
            like: Tensors of the names and shapes of the sum.

        Returns:
            The sum over the whole batch, the same on all ranks.
        """
        if self.size == 1:
            return make()
        fault: Exception | None = None
        try:
            part = make()
        except Exception as raised:
            fault = raised
            part = {
                name: torch.zeros_like(value, dtype=torch.float64) for name, value in like.items()
            }
        flat = [part[name].reshape(-1) for name in like]
        told = flat[0].new_tensor([float(fault is not None), float(examples)])
        everything = torch.cat([told, *flat])
        distributed.all_reduce(everything)
        if fault is not None:
            raise fault
        failed, drawn = (int(number) for number in everything[:2])
        if failed:
            raise SharpDPError(
                f"{failed} other ranks could not compute their part of the sum. Nothing was released; "
                "their messages say why."
            )
        if drawn > LARGEST_BATCH:
            raise InvalidArgument(
                f"batches must have at most {LARGEST_BATCH:,} examples for their sums to be exact; got "
                f"{drawn:,} on all ranks together."
            )
        pieces = torch.split(everything[2:], [value.numel() for value in like.values()])
        shaped = zip(like.items(), pieces, strict=True)
        return {name: piece.view(value.shape) for (name, value), piece in shaped}


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside of DistributedDataParallel, whose own averaging of gradients is not used."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        inner: nn.Module = model.module
        return inner
    return model
