"""How runs show themselves: what was planned, how much of it was run, and no secret."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import sharpdp as dp
from sharpdp.learn import CLDPSGD, BlockRun, BlockSGD, ClientRun, PrivUnitBall
from sharpdp.learn.dpsgd import Training

KEY = bytes(range(65, 97))


def test_training_shows_its_steps_and_not_its_key() -> None:
    plan = dp.PoissonBatches(dataset_size=20, batch_size=5, epochs=1)
    data = torch.zeros(20, 2), torch.zeros(20, 1)
    run = dp.DPSGD(plan, noise_multiplier=1.5)
    training = Training(run, nn.Linear(2, 1), nn.MSELoss(), *data, clip=1.0, key=KEY)
    assert repr(training).startswith("<Training: 0 of 4 steps of DP-SGD (noise multiplier 1.5, ")
    training.advance()
    shown = repr(training)
    assert "1 of 4 steps" in shown
    for secret in (KEY.hex(), KEY.decode(), repr(KEY)[2:-1]):
        assert secret[:8] not in shown


def test_clients_and_blocks_show_what_was_begun() -> None:
    ball = PrivUnitBall(dimension=2, local_epsilon=1.0)
    clients = CLDPSGD(randomizer=ball, users=5, population=50, rounds=3)
    blocks = BlockSGD(records=40, blocks=10, epochs=2, local_epsilon=1.0, clip=1.0, dimension=2)
    rows = np.ones((50, 2))
    first = ClientRun(clients, lambda theta, who: theta - rows[who], np.zeros(2))
    second = BlockRun(blocks, lambda theta, who: theta - rows[who], np.zeros(2))
    assert repr(first).startswith("<ClientRun: 0 of 3 rounds of 5 of 50 clients through PrivUnit")
    assert repr(second).startswith("<BlockRun: 0 of 2 epochs of 10 blocks of 40 records through ")
    first.step()
    second.epoch()
    assert "1 of 3 rounds" in repr(first)
    assert "1 of 2 epochs" in repr(second)
