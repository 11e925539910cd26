"""Mechanisms of every public kind with pairs that enclose them, alone and in sequences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx
from scipy.special import erfcx, log_ndtr, ndtr

import sharpdp as dp
from sharpdp.mechanisms import BlanketRandomizer, NormalPair, ProfileMechanism
from sharpdp.mechanisms.sensitivity import (
    EnclosedSensitivity,
    LeastSquares,
    Logistic,
    MonotoneSensitivity,
    SensitivityDistribution,
)
from tests.reference import gaussian as reference_gaussian
from tests.reference import laplace as reference_laplace
from tests.wild import exact, pairs
from tests.wild.pairs import Known

Random = np.random.Generator


@dataclass(frozen=True)
class Part:
    """One mechanism, what encloses it in both directions, and its exact masses if there are any."""

    kind: str
    call: str
    mechanism: dp.Mechanism
    forward: Known
    exact: tuple[list[arb], list[arb]] | None = None
    count: int = 1
    rounds: int = 1  # that the mechanism has by itself
    ball: Callable[[int, float], arb | None] | None = None  # delta of so many runs at an epsilon


@dataclass(frozen=True)
class Case:
    """One run: its parts, and the notion of neighbors that is asked for."""

    kind: str
    parts: tuple[Part, ...]
    adjacency: str | None = None
    mechanism: dp.Mechanism = field(init=False)

    def __post_init__(self) -> None:
        runs = [one.mechanism * one.count if one.count > 1 else one.mechanism for one in self.parts]
        made = runs[0] if len(runs) == 1 else dp.Sequence(runs)
        object.__setattr__(self, "mechanism", made)

    def __str__(self) -> str:
        shown = [f"{p.call} * {p.count}" if p.count > 1 else p.call for p in self.parts]
        return shown[0] if len(shown) == 1 else "dp.Sequence([" + ", ".join(shown) + "])"

    def exactly(self) -> exact.Exact | None:
        """All outcomes in balls, if there are few."""
        if any(one.exact is None for one in self.parts):
            return None
        steps = [(*one.exact, one.count) for one in self.parts if one.exact is not None]
        if exact.outcomes([(p, n) for p, _, n in steps]) > exact.MOST:
            return None
        return exact.Exact(steps)


def log_uniform(rng: Random, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _pick(rng: Random, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def gaussian(rng: Random) -> Part:
    sigma = log_uniform(rng, 0.2, 100.0)
    return Part(
        "Gaussian",
        f"dp.Gaussian({sigma!r})",
        dp.Gaussian(sigma),
        pairs.gaussian(1.0 / sigma),
        ball=lambda count, epsilon: reference_gaussian.delta(sigma, count, epsilon, 20),
    )


def laplace(rng: Random) -> Part:
    scale = log_uniform(rng, 0.1, 100.0)
    return Part(
        "Laplace",
        f"dp.Laplace({scale!r})",
        dp.Laplace(scale),
        pairs.laplace(scale),
        ball=lambda count, epsilon: (
            reference_laplace.delta(scale, count, epsilon, 20) if count <= 8 else None
        ),
    )


def _balls(epsilon: float, delta: float = 0.0, categories: int = 2) -> tuple[list[arb], list[arb]]:
    ctx.prec = exact.BITS
    x, d = arb(epsilon).exp(), arb(delta)
    heavy, light = (1 - d) * x / (x + categories - 1), (1 - d) / (x + categories - 1)
    p, q = [heavy, light], [light, heavy]
    if categories > 2:
        p, q = [*p, (categories - 2) * light], [*q, (categories - 2) * light]
    if delta > 0.0:
        p, q = [*p, d, arb(0)], [*q, arb(0), d]
    return p, q


def _local(rng: Random) -> float:
    return _pick(rng, [log_uniform(rng, 1e-3, 8.0), 0.5, 1.0, float(np.log(3.0))])


def randomized(rng: Random) -> Part:
    epsilon, k = _local(rng), int(_pick(rng, [2, 2, 3, 10, 1000]))
    return Part(
        "RandomizedResponse",
        f"dp.RandomizedResponse(local_epsilon={epsilon!r}, categories={k})",
        dp.RandomizedResponse(local_epsilon=epsilon, categories=k),
        pairs.equal(pairs.response(epsilon, k), symmetric=True),
        _balls(epsilon, 0.0, k),
    )


def pure(rng: Random) -> Part:
    epsilon = 0.0 if rng.random() < 0.05 else _local(rng)
    known = pairs.equal(pairs.response(epsilon), symmetric=True)
    call = f"dp.PureDP(epsilon={epsilon!r})"
    return Part("PureDP", call, dp.PureDP(epsilon=epsilon), known, _balls(epsilon))


def approximate(rng: Random) -> Part:
    epsilon = 0.0 if rng.random() < 0.15 else _local(rng)
    delta = _pick(rng, [log_uniform(rng, 1e-15, 1e-2), log_uniform(rng, 1e-300, 1e-100), 1e-6])
    return Part(
        "ApproximateDP",
        f"dp.ApproximateDP(epsilon={epsilon!r}, delta={delta!r})",
        dp.ApproximateDP(epsilon=epsilon, delta=delta),
        pairs.equal(pairs.approximate(epsilon, delta), symmetric=True),
        _balls(epsilon, delta),
    )


def _dyadic(rng: Random, size: int, bits: int = 40) -> list[float]:
    """Probabilities whose sum is 1 exactly."""
    cuts = np.sort(rng.integers(1, 2**bits, size - 1))
    if rng.random() < 0.3:  # some of them rare
        cuts = np.sort(np.exp2(rng.uniform(0, bits, size - 1)).astype(np.int64))
    ends = [0, *(int(c) for c in cuts), 2**bits]
    return [(b - a) / 2**bits for a, b in itertools.pairwise(ends)]


def _pmfs(rng: Random, gaps: bool = True) -> tuple[list[float], list[float]]:
    size = int(rng.integers(2, 6))
    p, q = _dyadic(rng, size), _dyadic(rng, size)
    if rng.random() < 0.4:  # close to each other
        weight = 2.0 ** -int(rng.integers(2, 12))
        q = [(1.0 - weight) * a + weight * b for a, b in zip(p, q, strict=True)]
    if gaps and rng.random() < 0.4:
        q = [*q, 0.0]
        rare = 2.0 ** -int(rng.integers(5, 50))
        p = [*(a * (1.0 - rare) for a in p), rare]
        if sum(Fraction(a) for a in p) != 1:
            p = [*_dyadic(rng, size, 20), 0.0]
            p[0], p[-1] = p[0] / 2, p[0] / 2
    return p, q


def _fractions(p: Sequence[float]) -> list[arb] | None:
    """The masses in balls if nothing has to be divided by their sum."""
    ctx.prec = exact.BITS
    return [arb(x) for x in p] if sum(map(Fraction, p)) == 1 else None


def finite(rng: Random) -> Part:
    p, q = _pmfs(rng)
    here, there = _fractions(p), _fractions(q)
    return Part(
        "FinitePair",
        f"dp.FinitePair(p={p!r}, q={q!r})",
        dp.FinitePair(p=p, q=q),
        pairs.equal(pairs.of(p, q)),
        (here, there) if here is not None and there is not None else None,
    )


def _profile_of_gaussian(mu: float) -> Callable[..., Any]:
    def profile(e: Any) -> Any:
        a = e / mu - 0.5 * mu
        return np.where(
            a > 0.0,
            0.5
            * np.exp(-0.5 * a * a)
            * np.maximum(
                erfcx(np.maximum(a, 0.0) / np.sqrt(2.0))
                - erfcx((np.maximum(a, 0.0) + mu) / np.sqrt(2.0)),
                0.0,
            ),
            ndtr(-a) - np.exp(e + log_ndtr(-a - mu)),
        )

    return profile


def _profile_of_laplace(e0: float) -> Callable[..., Any]:
    return lambda e: np.where(e < e0, -np.expm1((np.minimum(e, e0) - e0) / 2.0), 0.0)


def _profile_of_masses(p: Any, q: Any) -> Callable[..., Any]:
    """The profile of a finite pair, without cancellation next to its losses."""
    p, q = np.asarray(p), np.asarray(q)
    loss = np.log(p) - np.log(q)

    def profile(e: Any) -> Any:
        short = np.minimum(np.asarray(e)[..., None] - loss, 0.0)
        return np.clip((p * -np.expm1(short)).sum(-1), 0.0, 1.0)

    return profile


def profiled(rng: Random) -> Part:
    """A profile with or without its largest loss and its reverse."""
    which = int(rng.integers(4))
    given: dict[str, Any] = {}
    if which == 0:
        mu = log_uniform(rng, 0.05, 4.0)
        profile = _profile_of_gaussian(mu)
        known, top, source = pairs.gaussian(mu), np.inf, f"_profile_of_gaussian({mu!r})"
    elif which == 1:
        e0 = log_uniform(rng, 0.05, 5.0)
        profile = _profile_of_laplace(e0)
        known, top, source = pairs.laplace(1.0 / e0), e0, f"_profile_of_laplace({e0!r})"
    else:
        if which == 2:
            e0 = log_uniform(rng, 0.05, 4.0)
            one = pairs.response(e0)
            p, q = list(one.p), list(one.q)
            top = float(np.max(np.log(p) - np.log(q)))
        else:
            p, q = _pmfs(rng, gaps=False)
            top = float(np.max(np.abs(np.log(p) - np.log(q))))
            given["reverse"] = _profile_of_masses(q, p)
        profile = _profile_of_masses(p, q)
        known = pairs.equal(pairs.of(p, q), symmetric=which == 2)
        source = f"_profile_of_masses({p!r}, {q!r})"
    if np.isfinite(top) and rng.random() < 0.5:
        given["largest_loss"] = top
    mechanism = ProfileMechanism(profile=profile, **given)
    call = f"dp.mechanisms.ProfileMechanism(profile={source}, told={sorted(given)})"
    return Part("ProfileMechanism", call, mechanism, known)


def curve_of_points(rng: Random) -> Part:
    size = int(rng.integers(1, 4))
    epsilons = np.sort(rng.uniform(0.0, 4.0, size))
    deltas = np.sort([log_uniform(rng, 1e-9, 0.3) for _ in range(size)])[::-1]
    points = {"epsilons": [float(e) for e in epsilons], "deltas": [float(d) for d in deltas]}
    attained = bool(rng.random() < 0.7)
    pair = pairs.lines(points["epsilons"], points["deltas"])
    return Part(
        "TradeoffCurve.from_points",
        f"dp.TradeoffCurve.from_points(**{points!r}, attained={attained})",
        dp.TradeoffCurve.from_points(**points, attained=attained),
        Known(pair, pair, symmetric=True),
    )


def curve_of_pmfs(rng: Random) -> Part:
    """A curve of its own: the null is the data set without the record."""
    p, q = _pmfs(rng)
    here, there = _fractions(p), _fractions(q)
    return Part(
        "TradeoffCurve.from_pmfs",
        f"dp.TradeoffCurve.from_pmfs(null={q!r}, alternative={p!r})",
        dp.TradeoffCurve.from_pmfs(null=q, alternative=p),
        pairs.equal(pairs.of(p, q)),
        (here, there) if here is not None and there is not None else None,
    )


def gdp(rng: Random) -> Part:
    mu = log_uniform(rng, 0.01, 5.0)
    call = f"dp.TradeoffCurve.gaussian(mu={mu!r})"
    return Part(
        "TradeoffCurve.gaussian", call, dp.TradeoffCurve.gaussian(mu=mu), pairs.gaussian(mu)
    )


def renyi(rng: Random) -> Part:
    """The divergences of a Gaussian, which is then one of the mechanisms that have them."""
    mu = log_uniform(rng, 0.02, 3.0)
    orders = sorted({float(1.0 + log_uniform(rng, 1e-2, 200.0)) for _ in range(12)})
    values = [float(np.nextafter(0.5 * mu * mu * a, np.inf)) for a in orders]
    return Part(
        "RenyiCurve",
        f"dp.RenyiCurve(orders={orders!r}, values={values!r})",
        dp.RenyiCurve(orders=orders, values=values),
        Known(pairs.gaussian(mu).low, pairs.REVEALING, symmetric=True),
    )


def normal(rng: Random) -> Part:
    mean, other = float(rng.normal()), float(rng.normal())
    s = log_uniform(rng, 0.3, 5.0)
    t = s if rng.random() < 0.4 else s * log_uniform(rng, 0.7, 1.4)
    known = (
        pairs.gaussian(abs(mean - other) / s) if s == t else pairs.two_normals(mean, other, s, t)
    )
    given = {"mean": mean, "other_mean": other, "deviation": s, "other_deviation": t}
    return Part(
        "NormalPair",
        f"dp.mechanisms.NormalPair(**{given!r})",
        NormalPair(**given),
        known,
    )


def mixture(rng: Random) -> Part:
    size = int(rng.integers(2, 4))
    weights = _dyadic(rng, size, 10)
    which = int(rng.integers(4))
    if which < 2:  # finite, hidden or released
        points = int(rng.integers(2, 4))
        laws = [(_dyadic(rng, points, 20), _dyadic(rng, points, 20)) for _ in range(size)]
        index = ("hidden", "released")[which]
        parts = [dp.FinitePair(p=p, q=q) for p, q in laws]
        p, q = (
            [[w * x for x in law[side]] for w, law in zip(weights, laws, strict=True)]
            for side in (0, 1)
        )
        if index == "hidden":
            p, q = ([[sum(column) for column in zip(*rows, strict=True)]] for rows in (p, q))
        flat = [[x for row in rows for x in row] for rows in (p, q)]
        known = pairs.equal(pairs.of(*flat))
        balls = _fractions(flat[0]), _fractions(flat[1])
        call = f"dp.Mixture(components={parts!r}, weights={weights!r}, index={index!r})"
        made = dp.Mixture(components=parts, weights=weights, index=index)
        masses = (balls[0], balls[1]) if None not in balls else None
        return Part(f"Mixture {index}", call, made, known, masses)  # type: ignore[arg-type]
    if which == 2:  # normal laws, hidden
        means, others = rng.normal(size=size) * 1.5, rng.normal(size=size) * 1.5
        s = log_uniform(rng, 0.5, 4.0)
        other_weights = _dyadic(rng, size, 10) if rng.random() < 0.3 else None
        components = [
            NormalPair(mean=float(a), other_mean=float(b), deviation=s)
            for a, b in zip(means, others, strict=True)
        ]
        made = dp.Mixture(components=components, weights=weights, other_weights=other_weights)
        known = pairs.normals(weights, means, others, s, other_weights)
        given = f"weights={weights!r}, other_weights={other_weights!r}"
        call = f"dp.Mixture(components={components!r}, {given})"
        return Part("Mixture hidden normal", call, made, known)
    chosen = [_pick(rng, [gaussian, laplace, pure, finite])(rng) for _ in range(size)]
    made = dp.Mixture(
        components=[one.mechanism for one in chosen], weights=weights, index="released"
    )
    known = pairs.mixed(weights, [one.forward for one in chosen])
    calls = ", ".join(one.call for one in chosen)
    call = f"dp.Mixture(components=[{calls}], weights={weights!r}, index='released')"
    return Part("Mixture released", call, made, known)


def _starts(shares: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Known:
    """A Gaussian step whose sensitivity is drawn first: bounds of it, with probabilities."""
    return Known(
        pairs.together(shares, [_coarse(x).low for x in low]),
        pairs.together(shares, [_coarse(x).high for x in high]),
        symmetric=True,
    )


def _coarse(mu: float) -> Known:
    return pairs.gaussian(mu) if mu > 0.0 else pairs.equal(pairs.SILENT, symmetric=True)


def started(rng: Random) -> Part:
    """Gradient descent from a random, public start."""
    deviation = log_uniform(rng, 0.3, 5.0)
    which = int(rng.integers(4))
    if which == 0:
        size = int(rng.integers(1, 4))
        places = [0.0 if rng.random() < 0.3 else log_uniform(rng, 0.05, 3.0) for _ in range(size)]
        shares = _dyadic(rng, size, 20) if size > 1 else [1.0]
        law: Any = SensitivityDistribution(atoms=list(zip(places, shares, strict=True)))
        mus = [x / deviation for x in places]
        known = _starts(shares, mus, mus)
        call = f"SensitivityDistribution(atoms={list(zip(places, shares, strict=True))!r})"
    elif which == 1:
        rare = 2.0 ** -int(rng.integers(1, 40))
        place, low, high = log_uniform(rng, 0.05, 2.0), 0.5, 0.5 + log_uniform(rng, 0.1, 2.0)
        width = high - low
        law = SensitivityDistribution(
            atoms=[(place, 1.0 - rare)],
            cdf=lambda x: np.clip((x - low) / width, 0.0, 1.0),
            interval=(low, high),
        )
        ends = np.linspace(low, high, 12) / deviation
        shares = [1.0 - rare, *np.full(11, rare / 11)]
        known = _starts(shares, [place / deviation, *ends[:-1]], [place / deviation, *ends[1:]])
        call = f"SensitivityDistribution(atoms=[({place!r}, {1.0 - rare!r})], on ({low}, {high!r}))"
    else:
        slope, clip = float(rng.normal()), log_uniform(rng, 0.3, 3.0)
        call = f"clipped |start - {slope!r}| at {clip!r}"
        ends = np.concatenate([[-np.inf], np.linspace(slope - clip, slope + clip, 15), [np.inf]])
        if which == 2:
            law = LeastSquares(slope=slope, clip=clip)
        else:
            call += ", enclosed"
            law = EnclosedSensitivity(
                enclosure=lambda a, b: (
                    np.where(
                        (a < slope) & (b > slope),
                        0.0,
                        np.minimum(np.minimum(np.abs(a - slope), np.abs(b - slope)), clip),
                    ),
                    np.minimum(np.maximum(np.abs(a - slope), np.abs(b - slope)), clip),
                ),
                largest=clip,
            )
        shares = pairs.normal_masses(ends)
        sizes = np.minimum(np.abs(ends - slope), clip)
        crossing = (ends[:-1] < slope) & (ends[1:] > slope)
        low_ = np.where(crossing, 0.0, np.minimum(sizes[:-1], sizes[1:])) / deviation
        known = _starts(shares, low_, np.maximum(sizes[:-1], sizes[1:]) / deviation)
    made = dp.RandomlyInitializedGD(
        sensitivity=law, claim="instance", noise_deviation=deviation, initialization="public"
    )
    shown = f"dp.RandomlyInitializedGD(sensitivity={call}, noise_deviation={deviation!r}, public)"
    return Part("RandomlyInitializedGD", shown, made, known)


def shuffled(rng: Random) -> Part:
    users = int(_pick(rng, [2, 5, 20, round(log_uniform(rng, 10, 1e5)), 1000]))
    local = log_uniform(rng, 0.05, 5.0)
    rounds = int(_pick(rng, [1, 1, 1, 3, 30]))
    which = _pick(rng, ["shared", "individual", "response", "laplace", "discrete", "blanket"])
    population = None if rng.random() < 0.7 else round(users * log_uniform(rng, 1.0, 50.0)) + 1
    given: dict[str, Any] = {"users": users, "rounds": rounds, "population": population}
    kind = f"ShuffledReports {which}"
    rate = 1.0 if population is None else users / population
    low = pairs.shuffled_response(users, local, rate)
    if which in ("shared", "individual"):
        given |= {"local_epsilon": local, "randomizer": which}
    elif which == "response":
        k = int(_pick(rng, [2, 2, 3, 4]))
        given["randomizer"] = dp.RandomizedResponse(local_epsilon=local, categories=k)
        if k > 2:
            low = pairs.SILENT
    elif which == "laplace":
        given["randomizer"], low = dp.LocalLaplace(local_epsilon=local), pairs.SILENT
    elif which == "discrete":
        one = pairs.response(local)
        given["randomizer"] = dp.DiscreteRandomizer(matrix=[list(one.p), list(one.q)])
    else:
        blanket = float(np.nextafter(2.0 / (1.0 + np.exp(local)), 0.0))
        given["randomizer"] = BlanketRandomizer(local_epsilon=local, blanket=blanket)
    high = pairs.response(local)
    if users <= 30 and population is None:
        clone_rate = np.exp(-local) if which == "individual" else 2.0 / (1.0 + np.exp(local))
        high = pairs.clones(users, local, float(clone_rate))
    made = dp.ShuffledReports(**given)
    shown = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    return Part(kind, f"dp.ShuffledReports({shown})", made, Known(low, high), rounds=rounds)


def blocks(rng: Random) -> Part:
    count, local = int(_pick(rng, [2, 10, 100, 10_000])), log_uniform(rng, 0.05, 4.0)
    epochs, unit = int(_pick(rng, [1, 1, 5, 50])), _pick(rng, ["block", "record"])
    size = int(_pick(rng, [1, 10]))
    given = {
        "blocks": count,
        "block_size": size,
        "local_epsilon": local * (size if unit == "record" else 1),
        "epochs": epochs,
        "unit": unit,
    }
    low = pairs.shuffled_response(count, local) if unit == "block" else pairs.SILENT
    return Part(
        "ShuffledBlocks",
        f"dp.ShuffledBlocks(**{given!r})",
        dp.ShuffledBlocks(**given),
        Known(low, pairs.response(local)),
        rounds=epochs,
    )


def training(rng: Random) -> Part:
    """DP-SGD over every batch scheme; zero-out neighbors."""
    sigma = log_uniform(rng, 0.4, 20.0)
    mu = 1.0 / sigma
    which = int(rng.integers(7))
    n = int(_pick(rng, [20, 1000, 60_000]))
    b = int(_pick(rng, [1, 2, n // 10, n // 2, n]))
    epochs = int(_pick(rng, [1, 2, 10, 100]))
    steps = round(log_uniform(rng, 1.0, 5000.0))
    whole = pairs.gaussian(mu)
    sizes = {"dataset_size": n, "batch_size": b}
    if which == 0:
        rate = _pick(rng, [log_uniform(rng, 1e-6, 1.0), b / n, 1.0 - log_uniform(rng, 1e-9, 0.1)])
        scheme: Any = dp.PoissonBatches(sample_rate=rate, steps=steps)
        known, rounds = pairs.poisson(rate, mu), steps
    elif which == 1:
        scheme = dp.DeterministicBatches(**sizes, epochs=epochs)
        known, rounds = whole, epochs
    elif which == 2:
        scheme = dp.FixedSizeBatches(**sizes, steps=steps)
        # the other records of a batch make room for this one, so that more may be revealed
        known, rounds = Known(pairs.poisson(b / n, mu).low, whole.high), steps
    elif which == 3:
        order = _pick(rng, ["redrawn", "kept"])
        drop = _pick(rng, [False, True])
        out = _pick(rng, [0, 0, 0, 1, (n - b) // 2]) if n > b else 0
        options = {"order": order, "drop_last": drop, "left_out": out}
        scheme = dp.ShuffledBatches(**sizes, epochs=epochs, **options)
        bins = scheme.steps_per_epoch
        low = pairs.SILENT
        if scheme.examples_per_epoch == n and n % b == 0 and order == "redrawn":
            low = pairs.largest_of(bins, 1, mu)
        known, rounds = Known(low, whole.high), epochs
    elif which == 4:
        scheme = dp.BallsAndBins(**sizes, epochs=epochs)
        known, rounds = Known(pairs.largest_of(n // b, 1, mu), whole.high), epochs
    elif which == 5:
        t = int(_pick(rng, [1, 2, 3, 10, 100, 1000]))
        k = int(_pick(rng, [1, 1, 2, max(t // 10, 1)]))
        k = min(k, t)
        scheme = dp.RandomAllocation(steps=t, participations=k, epochs=epochs)
        high = pairs.gaussian(mu * np.sqrt(k)).high
        known, rounds = Known(pairs.largest_of(t, k, mu), high), epochs
    else:
        most = int(_pick(rng, [b, min(n, 2 * b), n]))
        scheme = dp.TruncatedPoissonBatches(**sizes, physical_batch_size=most, steps=steps)
        known, rounds = Known(pairs.SILENT, whole.high), steps
        if most == n:
            known, rounds = pairs.poisson(b / n, mu), steps
    run = dp.DPSGD(scheme, noise_multiplier=sigma)
    call = f"dp.DPSGD(dp.{scheme!r}, noise_multiplier={sigma!r})"
    return Part(f"DPSGD {type(scheme).__name__}", call, run, known, rounds=rounds)


def monotone(rng: Random) -> Part:
    """A sensitivity that rises with the start, which is uniform."""
    deviation, a = log_uniform(rng, 0.3, 5.0), log_uniform(rng, 0.1, 2.0)
    law = MonotoneSensitivity(
        function=lambda x: a * x * x,
        shape="rising",
        cdf=lambda x: np.clip(x, 0.0, 1.0),
        start_range=(0.0, 1.0),
    )
    ends = np.linspace(0.0, 1.0, 15)
    mus = a * ends**2 / deviation
    known = _starts(np.full(14, 1.0 / 14.0), mus[:-1], mus[1:])
    made = dp.RandomlyInitializedGD(
        sensitivity=law, claim="instance", noise_deviation=deviation, initialization="public"
    )
    call = f"dp.RandomlyInitializedGD(MonotoneSensitivity({a!r} x^2, uniform), {deviation!r})"
    return Part("RandomlyInitializedGD monotone", call, made, known)


def logistic(rng: Random) -> Part:
    """One step of logistic regression, worst case, with the start public."""
    deviation, margin = log_uniform(rng, 0.3, 5.0), log_uniform(rng, 0.3, 4.0)
    ends = np.concatenate([np.linspace(0.0, 8.0, 15), [np.inf]])
    shares = 2.0 * pairs.normal_masses(ends)
    mus = margin / (1.0 + np.exp(-ends * margin)) / deviation
    made = dp.RandomlyInitializedGD(
        sensitivity=Logistic(margin=margin),
        claim="worst-case",
        noise_deviation=deviation,
        initialization="public",
    )
    call = f"dp.RandomlyInitializedGD(Logistic({margin!r}), worst-case, {deviation!r})"
    return Part("RandomlyInitializedGD logistic", call, made, _starts(shares, mus[:-1], mus[1:]))


QUICK = (
    gaussian,
    laplace,
    pure,
    pure,
    approximate,
    approximate,
    approximate,
    finite,
    finite,
    finite,
    curve_of_pmfs,
    curve_of_points,
    gdp,
)
ANY = (*QUICK, profiled, profiled, profiled, normal, mixture, mixture, started, monotone, renyi)
REPLACED = (randomized, randomized, randomized, shuffled, shuffled, blocks)
ZEROED = (training, training, training, logistic)
# (kinds, kinds of the other parts, share of the cases, share of sequences among them)
FAMILIES = (
    (QUICK, QUICK, 0.44, 0.5),
    ((randomized,), QUICK, 0.12, 0.5),
    (ANY, ANY, 0.18, 0.4),
    (REPLACED, ANY, 0.13, 0.15),
    (ZEROED, ANY, 0.13, 0.15),
)


def case(seed: int, index: int) -> Case:
    """The index-th case of a seed: one kind, or two to four of them, some often."""
    rng = np.random.default_rng([seed, index, 15])
    own, others, _, together = FAMILIES[int(rng.choice(5, p=[share for *_, share, _ in FAMILIES]))]
    size = int(rng.integers(2, 5)) if rng.random() < together else 1
    makers = [_pick(rng, own), *(_pick(rng, others) for _ in range(size - 1))]
    parts = []
    for make in makers:
        one = make(rng)
        most = 1e6 if rng.random() < 0.15 else 20.0
        count = 1 if rng.random() < 0.5 else max(1, round(log_uniform(rng, 1.0, most)))
        parts.append(replace(one, count=count))
    shared = set.intersection(*({str(a) for a in p.mechanism.adjacencies} for p in parts))
    if not shared:  # no common notion of neighbors: the first part alone
        parts = parts[:1]
    kind = (
        parts[0].kind if len(parts) == 1 else " + ".join(sorted({p.kind.split()[0] for p in parts}))
    )
    return Case(kind, tuple(parts))
