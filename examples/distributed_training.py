"""Train one private model on several processes: same batches, same noise, same model as on one.

    torchrun --nproc-per-node 2 examples/distributed_training.py

Every rank has the whole data set and the same key. Each batch of the plan is shared out among the ranks,
clipped gradients are summed over all of them, and noise is added once.
"""

from __future__ import annotations

import hashlib

import torch
from torch import distributed, nn

import sharpdp as dp
from sharpdp.learn.dpsgd import Training


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(0)  # the same model and the same data on every rank
    inputs = torch.randn(2000, 10)
    targets = (inputs.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))

    plan = dp.PoissonBatches(dataset_size=2000, batch_size=100, epochs=5)
    run = Training(
        dp.DPSGD(plan, noise_multiplier=1.0),
        model,
        nn.CrossEntropyLoss(),
        inputs,
        targets,
        clip=1.0,
        learning_rate=1.0,
        key=hashlib.sha256(b"an example only: keep yours secret").digest(),
    ).run(progress=False)

    parameters = torch.cat([value.detach().reshape(-1) for value in model.parameters()])
    seen = hashlib.sha256(parameters.numpy().tobytes()).hexdigest()[:16]
    everywhere: list[str] = [""] * distributed.get_world_size()
    distributed.all_gather_object(everywhere, seen)
    if distributed.get_rank() == 0:
        for rank, parameters_there in enumerate(everywhere):
            print(f"rank {rank} of {len(everywhere)}: parameters {parameters_there}")
        right = (model(inputs).argmax(1) == targets).float().mean()
        print(f"accuracy {right:.3f}; {run.epsilon(delta=1e-5)}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
