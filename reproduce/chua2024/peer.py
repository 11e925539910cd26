"""What dp-accounting says at the points of the figures of chua2024, recorded once.

    .venv-peers/bin/python reproduce/chua2024/peer.py       writes peer.json beside this file

The library that the paper used, in a version of ours, at its usual discretization of 1e-4.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_suffix(".json")
INTERVAL = 1e-4
POINTS = 13

EPSILON_FIGURES = {"1": (1e-6, 10**5), "4": (1e-6, 10**4), "5": (1e-5, 1000)}
"""Figures of epsilon against the noise: delta, and steps."""

NOISES = (0.35, 1.25)
"""Noise multipliers of those figures, from and to."""

DELTA_FIGURES = {
    "2": (0.3, 10, 60.0),
    "3": (0.4, 10**4, 16.0),
    "6": (0.8, 1000, 5.0),
    "7": (1.0, 1000, 4.0),
}
"""Figures of delta against epsilon: noise multiplier, steps, largest epsilon."""


QUOTED = {
    "epsilon_P, 0.4, 1e5": (0.4, 10**5, "delta", 1e-6),
    "delta_P(4), 0.4, 1e4": (0.4, 10**4, "epsilon", 4.0),
    "epsilon_P, 0.5, 1e4": (0.5, 10**4, "delta", 1e-6),
    "epsilon_P, 0.7, 1e3": (0.7, 1000, "delta", 1e-5),
    "delta_P(1), 0.8, 1e3": (0.8, 1000, "epsilon", 1.0),
    "delta_P(4), 0.8, 1e3": (0.8, 1000, "epsilon", 4.0),
    "delta_P(0.5), 1, 1e3": (1.0, 1000, "epsilon", 0.5),
    "delta_P(1), 1, 1e3": (1.0, 1000, "epsilon", 1.0),
}
"""Numbers of the text about Poisson batches: noise multiplier, steps, what is given, and where."""

COARSE, FINE = 1e-3, 1e-5
"""Discretizations of the numbers of the text."""


def places(low: float, high: float) -> list[float]:
    """Equally spaced values in a few digits, so that both environments ask the same."""
    return [round(low + (high - low) * i / (POINTS - 1), 4) for i in range(POINTS)]


def loss_distribution(noise: float, steps: int, interval: float = INTERVAL) -> Any:
    """The privacy loss distribution of one epoch of Poisson batches."""
    from dp_accounting.pld import privacy_loss_distribution as library

    return library.from_gaussian_mechanism(
        noise, sampling_prob=1.0 / steps, value_discretization_interval=interval
    ).self_compose(steps)


def divergences(noise: float, steps: int) -> Any:
    """The Renyi accountant of one epoch of Poisson batches."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    event = dp_accounting.GaussianDpEvent(noise)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(1.0 / steps, event), steps)
    return accountant


def quoted(noise: float, steps: int, given: str, at: float) -> dict[str, float]:
    """One number of the text: by loss distributions of two discretizations, and by divergences."""
    coarse, fine = (loss_distribution(noise, steps, interval) for interval in (COARSE, FINE))
    accountant = divergences(noise, steps)
    if given == "delta":
        by_losses = [float(one.get_epsilon_for_delta(at)) for one in (coarse, fine)]
        by_orders = float(accountant.get_epsilon(at))
    else:
        by_losses = [float(one.get_delta_for_epsilon(at)) for one in (coarse, fine)]
        by_orders = float(accountant.get_delta(at))
    return {"coarse": by_losses[0], "fine": by_losses[1], "rdp": by_orders}


def main() -> None:
    """Record everything."""
    found: dict[str, Any] = {}
    for name, (delta, steps) in EPSILON_FIGURES.items():
        noises = places(*NOISES)
        found[name] = {
            "x": noises,
            "pld": [
                loss_distribution(noise, steps).get_epsilon_for_delta(delta) for noise in noises
            ],
            "rdp": [divergences(noise, steps).get_epsilon(delta) for noise in noises],
        }
        print(name, flush=True)
    for name, (noise, steps, most) in DELTA_FIGURES.items():
        epsilons = places(0.0, most)
        losses, accountant = loss_distribution(noise, steps), divergences(noise, steps)
        found[name] = {
            "x": epsilons,
            "pld": [float(losses.get_delta_for_epsilon(epsilon)) for epsilon in epsilons],
            "rdp": [float(accountant.get_delta(epsilon)) for epsilon in epsilons],
        }
        print(name, flush=True)
    found["quoted"] = {name: quoted(*question) for name, question in QUOTED.items()}
    RECORD.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
