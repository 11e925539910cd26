"""Shuffled Gaussian reports: our brackets, the Renyi bound and the FFT of the literature, in one run.

`python benchmarks/gaussian_reports.py`; with the package shuffgauss (spliew/shuffgauss) installed its
own answer stands beside ours. Times are CPU seconds.
"""

import math
import time

import numpy as np

import sharpdp as dp
from sharpdp.bounds.shuffle_model.published.unbounded import shuffled_gaussian_moments_epsilon
from sharpdp.mechanisms import ApproximateReports

QUESTIONS = ((1000, 2.0), (10_000, 2.0), (10_000, 1.0), (100_000, 5.0))
DELTA = 1e-6


def normal(y: np.ndarray, mean: float) -> np.ndarray:
    """The density of N(mean, 1)."""
    return np.exp(-0.5 * (y - mean) ** 2) / math.sqrt(2.0 * math.pi)


def blanket_by_fft(noise: float, users: int, epsilon: float) -> float:
    """The blanket divergence of takagi2026 by a plain FFT of the sum's distribution; not certified."""
    scale, cell, size = 1.0 / noise, 1e-3, 1 << 20
    y = np.arange(-9.0, 9.0 + scale, cell)
    r0, r1 = normal(y, 0.0), normal(y, scale)
    w = np.minimum(r0, r1)
    values = np.append((r1 - math.exp(epsilon) * r0) / w, 0.0)
    masses = w * cell
    masses = np.append(masses, max(1.0 - masses.sum(), 0.0))
    spread = math.sqrt(users * float(values**2 @ masses))
    # room for the mean of the sum, and for large deviations
    step = (30.0 * spread + 4.0 * users * math.expm1(epsilon)) / size
    index = np.clip(values / step, -size // 2, size // 2 - 2)
    low = np.floor(index).astype(int)
    share = index - low
    law = np.bincount(low % size, masses * (1.0 - share), size)
    law += np.bincount((low + 1) % size, masses * share, size)
    total = np.fft.irfft(np.fft.rfft(law) ** users, size)
    points = (np.arange(size) + size // 2) % size - size // 2
    return float(np.sum(np.maximum(points * step, 0.0) * total)) / users


def epsilon_by_fft(noise: float, users: int) -> float:
    """Epsilon at DELTA by bisection."""
    low, high = 0.0, 0.5
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if blanket_by_fft(noise, users, middle) > DELTA else (low, middle)
        )
    return high


def shuffgauss(noise: float, users: int) -> str:
    """The answer of the authors' program for orders up to 20, if it is installed."""
    try:
        import shuffgauss as sg
    except ImportError:
        return "-"
    moments = sg.ShuffGaussRDPtoDP(noise, users, 20)
    moments.get_shuff()
    return f"{moments.get_eps(DELTA, 1)[0]:.5f}"


def main() -> None:
    """Print one row for each question."""
    print(
        "users noise | ours, certified: lower upper, s | liew2022 | shuffgauss | takagi2026 by FFT, s"
    )
    for users, noise in QUESTIONS:
        start = time.process_time()
        run = dp.ShuffledReports(users=users, randomizer=dp.LocalGaussian(noise))
        ours = dp.account(run).epsilon(delta=DELTA)
        seconds = time.process_time() - start
        one = ApproximateReports(users=users, randomizer=dp.LocalGaussian(noise))
        renyi = shuffled_gaussian_moments_epsilon(one, DELTA)
        peer = shuffgauss(noise, users)
        start = time.process_time()
        fourier = epsilon_by_fft(noise, users)
        fft_seconds = time.process_time() - start
        print(
            f"{users:7,} {noise:3g} | {ours.lower:.5f} {ours.upper:.5f} {seconds:5.1f} | {renyi:.5f} | "
            f"{peer} | {fourier:.5f} {fft_seconds:5.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
