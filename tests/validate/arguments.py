"""Good and wrong values for the arguments of every public call, and objects whose methods are called.

A new class needs one line in `EXAMPLES`, a parameter with a new name one in `GOOD`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import sharpdp as dp
from sharpdp import learn
from sharpdp.curves.tradeoff import Polyline
from sharpdp.mechanisms import sensitivity
from sharpdp.pairs.pair import GaussianPair
from sharpdp.questions.estimate import DrawCache

__all__ = ["EXAMPLES", "GOOD", "WRONG", "Made"]


class Anything:
    """A class that takes whatever it is given."""

    def __init__(self, *_: object, **__: object) -> None:
        """Keep nothing."""


WRONG: dict[str, Any] = {
    "None": None,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-1": -1,
    "0": 0,
    "0.5": 0.5,
    "True": True,
    "10^400": 10**400,
    "-10^400": -(10**400),
    "1e308": 1e308,
    "5e-324": 5e-324,
    "text": "x",
    "bytes": b"x",
    "empty list": [],
    "dict": {},
    "dict with an entry": {"a": 1},
    "ragged": [[1.0], [1.0, 2.0]],
    "pairs": [(0.5, 0.5)],
    "texts": ["a", "b"],
    "nested text": [["a"], ["b"]],
    "matrix": np.ones((2, 3)),
    "empty array": np.zeros((0, 3)),
    "scalar array": np.array(0.25),
    "objects": np.array([None, "x"], dtype=object),
    "complex": 1j,
    "complexes": np.array([1j, 2.0]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "huge integers": [10**400, 1],
    "nans": [math.nan, 0.5],
    "fraction": Fraction(1, 3),
    "decimal": Decimal("0.1"),
    "decimal nan": Decimal("NaN"),
    "decimal snan": Decimal("sNaN"),
    "class": Anything,
    "object": object(),
    "returns None": lambda *_: None,
    "returns text": lambda *_: "x",
    "returns nan": lambda *_: math.nan,
    "generator": (x for x in ()),
    "module": math,
}
"""What is passed for one argument at a time."""


@dataclass(frozen=True)
class Made:
    """A good value that is made anew for every call."""

    make: Callable[[], Any]


PLAN = dp.PoissonBatches(dataset_size=20, sample_rate=0.25, steps=2)
CURVE = dp.TradeoffCurve.from_knots(fpr=[0, 0.25, 1], fnr=[1, 0.25, 0])
LINE = Polyline((0, Fraction(1, 4), 1), (1, Fraction(1, 4), 0))
BALL = learn.PrivUnitBall(dimension=2, local_epsilon=1.0)
GROUPS = dp.mechanisms.ShuffledGroups(users=[3, 5], local_epsilon=[1.0, 2.0], categories=2)
CLIENTS = learn.CLDPSGD(randomizer=BALL, users=2, population=4, rounds=2)
BLOCKS = learn.BlockSGD(records=4, blocks=2, epochs=2, local_epsilon=1.0, clip=1.0, dimension=2)
SMOOTH = dp.SmoothLoss(gradient_norm=1.0, smoothness=0.25, regularization=0.1)
PAIR = dp.FinitePair(p=[0.25, 0.75], q=[0.75, 0.25])
BANDED = dp.BandedStrategy(coefficients=(1.0, 0.5))
MIXTURE = dp.Mixture(components=(PAIR, PAIR), weights=(0.5, 0.5))


def _tensor(*shape: int) -> Any:
    """Zeros for torch, which is imported when it is needed."""
    return import_module("torch").zeros(*shape)


def _torch_layer() -> Any:
    """A model for torch."""
    return import_module("torch").nn.Linear(2, 1)


def _sampler() -> Any:
    """A sampler for torch."""
    return import_module("sharpdp.integrations.torch").BatchSampler(PLAN, key=7)


def _loader() -> Any:
    """A shuffled loader of torch's own."""
    data = import_module("torch.utils.data")
    return data.DataLoader(data.TensorDataset(_tensor(20, 2)), batch_size=5, shuffle=True)


@cache
def _checkpoint() -> Path:
    """Where a training run was saved."""
    path = Path(mkdtemp()) / "run.pt"
    training = import_module("sharpdp.learn.dpsgd").Training(
        GOOD["Training(mechanism)"],
        _torch_layer(),
        GOOD["loss"],
        _tensor(20, 2),
        _tensor(20, 1),
        clip=GOOD["clip"],
        learning_rate=GOOD["learning_rate"],
        key=GOOD["Training(key)"],
    )
    training.save(path)
    return path


@cache
def _event() -> Any:
    return import_module("sharpdp.integrations.dp_accounting").event_of(GOOD["mechanism"])


@cache
def _pld() -> Any:
    room = import_module("sharpdp.integrations.dp_accounting")
    return room.pld_of(GOOD["mechanism"], discretization=0.1)


@cache
def _begun_run() -> Path:
    """Where a run of clients was begun."""
    path = Path(mkdtemp()) / "run"
    learn.ClientRun(CLIENTS, no_gradients, np.zeros(2), path=path)
    return path


@cache
def _table() -> Path:
    """A CSV file of privacy losses."""
    path = Path(mkdtemp()) / "losses.csv"
    path.write_text("-0.5,0.375\n0.75,0.625\n")
    return path


def no_gradients(_: object, numbers: Any) -> Any:
    """Gradients that are all zero."""
    return np.zeros((len(numbers), 2))


GOOD: dict[str, Any] = {
    "adjacency": None,
    "advantage": None,
    "alternative": [0.75, 0.25],
    "at_infinity": 0.0,
    "at_zero": 0.0,
    "atoms": {1.0: 1.0},
    "attained": False,
    "ax": None,
    "batch_size": 5,
    "batches": PLAN,
    "budget": None,
    "budget_key": None,
    "buffer_size": 7,
    "baseline": 0.1,
    "blanket": 0.25,
    "block_size": 1,
    "blocks": 2,
    "candidates": 10,
    "categories": 3,
    "cdf": None,
    "claim": "instance",
    "clip": 1.0,
    "diameter": 2.0,
    "collate": None,
    "components": (PAIR, PAIR),
    "confidence": 0.99,
    "context": "",
    "conversion": "optimal",
    "coupling": None,
    "curve": LINE,
    "curves": [LINE, LINE],
    "cycle_length": 2,
    "dataset_size": 20,
    "delta": 1e-3,
    "deltas": [0.1],
    "deviation": 1.0,
    "dimension": 2,
    "discretization": 0.1,
    "distribution": CURVE.losses(dp.Side.UPPER),
    "enclosure": lambda left, _: (np.zeros_like(left), np.ones_like(left)),
    "epochs": 1,
    "epsilon": 1.0,
    "epsilons": [1.0],
    "every": 1,
    "example": np.zeros(2),
    "examples": [np.ones(2)],
    "fnr": [1, 0.25, 0],
    "format": "text",
    "fpr": 0.25,
    "from_common": [LINE, LINE],
    "function": lambda x: np.asarray(x) / 2,
    "gradients": no_gradients,
    "height": 0.25,
    "index": "hidden",
    "inputs": Made(lambda: _tensor(20, 2)),
    "indices": np.arange(3),
    "initialization": "hidden",
    "interval": None,
    "jump": 0,
    "key": 7,
    "kind": lambda x: (x - 1) ** 2,
    "Guarantee.plot(kind)": "tradeoff",
    "largest": 8.0,
    "laws": [((0.5, 0.5), (0.25, 0.75))],
    "learning_rate": 0.1,
    "left_out": 1,
    "drop_last": True,
    "lines": [(0.5, 1)],
    "local_epsilon": 1.0,
    "loss": lambda output, target: (output - target).square().sum(),
    "LastIterate(loss)": SMOOTH,
    "convex": True,
    "feature_norm": 1.0,
    "gradient_norm": 1.0,
    "regularization": 0.1,
    "smoothness": 0.25,
    "target_bound": 1.0,
    "fullness": 1.0,
    "ApproximateReports(randomizer)": dp.LocalGaussian(noise_multiplier=2.0),
    "losses": [-0.5, 0.75],
    "lower": LINE,
    "margin": 1.0,
    "mass_at_infinity": 0.0,
    "masses": [0.375, 0.625],
    "matrix": [[0.75, 0.25], [0.25, 0.75]],
    "mean": 3.0,
    "mechanism": dp.Gaussian(noise_multiplier=2.0),
    "mechanisms": [PAIR, PAIR],
    "mixture": MIXTURE,
    "model": Made(lambda: _torch_layer()),
    "mu": 1.0,
    "name": "a name",
    "noise_deviation": 1.0,
    "noise_multiplier": 2.0,
    "norm": 2,
    "null": [0.25, 0.75],
    "order": 2.0,
    "orders": [2.0, 3.0],
    "other": CURVE,
    "other_deviation": 1.0,
    "other_mean": 0.0,
    "other_weights": None,
    "p": [0.25, 0.75],
    "pair": GaussianPair(1.0),
    "parameters": np.zeros(2),
    "participations": 1,
    "BandedStrategy.correlated(memory)": (0.5,),
    "BufferedLinearToeplitz.correlated(memory)": (0.5, 0.5),
    "CorrelatedNoise(batches)": dp.BallsAndBins(dataset_size=20, batch_size=5, epochs=2),
    "MatrixStrategy.correlated(memory)": (0.5,),
    "MatrixStrategy(matrix)": [[1.0], [0.5, 1.0]],
    "Strategy.correlated(memory)": (0.5,),
    "StepNoise.added(lower)": None,
    "bands": 2,
    "buffers": 1,
    "error": "mean",
    "coefficients": (1.0, 0.5),
    "decays": (0.9, 0.5),
    "fresh": 0.5,
    "scales": (0.3, 0.1),
    "separation": 1,
    "strategy": BANDED,
    "path": None,
    "physical_batch_size": 10,
    "plan": CLIENTS,
    "points": [(0.25, 0.5)],
    "population": 4,
    "projection": None,
    "q": [0.75, 0.25],
    "pld": Made(lambda: _pld()),
    "event": Made(lambda: _event()),
    "prior": 0.5,
    "progress": False,
    "quantity": "epsilon",
    "radius": 1.0,
    "randomizer": BALL,
    "ratio": 1.0,
    "records": np.zeros((2, 2)),
    "relative_error": 0.1,
    "relative_width": 0.1,
    "reports": np.ones((2, 2)),
    "reverse": None,
    "rho": 0.5,
    "rigor": dp.Rigor.CERTIFIED,
    "rng": 7,
    "rounding": "exact",
    "rounds": 1,
    "sample_rate": 0.25,
    "samples": 1000,
    "scale": 1.0,
    "scheme": PLAN,
    "segments": [(0.5, 0.75), (0.5, 0.25)],
    "sensitivity": sensitivity.LeastSquares(slope=1.0, clip=1.0),
    "shape": "rising in |start|",
    "shard": (0, 1),
    "side": dp.Side.UPPER,
    "slope": -1.0,
    "smallest_fpr": 1e-3,
    "smallest_rate": 0.01,
    "start": 0,
    "start_range": None,
    "state": Made(lambda: _sampler().state_dict()),
    "step": 0,
    "steps": 2,
    "steps_per_pass": 1,
    "targets": Made(lambda: _tensor(20, 1)),
    "template": lambda x: dp.Gaussian(noise_multiplier=x),
    "unit": "record",
    "upper": LINE,
    "second_moment": 4.0,
    "users": 2,
    "values": [1.0, 1.5],
    "vectors": np.ones((2, 2)),
    "weight": 0.25,
    "weights": [0.5, 0.5],
    "width": 0.1,
    "workers": 1,
    "choice": "adaptive",
    "cohort": None,
    "despite_budget": False,
    "divergence": None,
    "filter_kind": "renyi",
    "note": "a note",
    "release": dp.Gaussian(noise_multiplier=50.0),
    "since": "2026-01-01",
    "time": "2026-01-31",
    "tradeoff": None,
    "until": "2026-12-31",
    "repetitions": "geometric",
    "run": dp.Gaussian(noise_multiplier=20.0),
    "BestOf(shape)": None,
    "Bracket(confidence)": None,
    "Budget(mu)": None,
    "Budget(order)": 8.0,
    "Budget(rho)": None,
    "Budget.spend(mechanism)": dp.Gaussian(noise_multiplier=100.0),
    "sweep(runs)": [dp.Gaussian(noise_multiplier=20.0)],
    "Ledger(path)": Made(lambda: Path(mkdtemp()) / "budget.jsonl"),
    "Ledger(unit)": "person",
    "Ledger.add(batches)": None,
    "Ledger.add(key)": None,
    "Ledger.add(run)": None,
    "Ledger.counted(key)": None,
    "Ledger.counted(run)": b"r" * 16,
    "Ledger.add(group_size)": 1,
    "Ledger.verify(path)": Made(lambda: EXAMPLES["Ledger"]().path),
    "Bracket(lower)": 0.25,
    "Bracket(upper)": 0.5,
    "BlockRun(plan)": BLOCKS,
    "BlockSGD(records)": 4,
    "ClientRun.resumed(path)": Made(lambda: _begun_run()),
    "ClippedGradients(physical_batch_size)": 3,
    "CompressedPrivUnit(candidates)": 8,
    "CompressedPrivUnit.estimates(reports)": [0, 1],
    "CompressedPrivUnit.mean(reports)": [0, 1],
    "CoordinateSigns.estimates(reports)": [0, 1],
    "CoordinateSigns.mean(reports)": [0, 1],
    "DiscreteRandomizer(local_epsilon)": 2.0,
    "HadamardSigns.estimates(reports)": [0, 1],
    "HadamardSigns.mean(reports)": [0, 1],
    "LeastSquares(points)": None,
    "MixtureComparison.values(row)": Made(lambda: EXAMPLES["MixtureComparison"]().rows[0]),
    "MonotoneSensitivity.values(starts)": np.arange(3.0),
    "BallsAndBins.steps_of(index)": 3,
    "BufferedShuffle.steps_of(index)": 3,
    "CyclicPoissonBatches.steps_of(index)": 3,
    "WeightedPoissonBatches.steps_of(index)": 3,
    "WeightedPoissonBatches.for_example(index)": 3,
    "WeightedPoissonBatches(weights)": [1.0] * 100,
    "WeightedPoissonBatches(epochs)": None,
    "FixedSizeBatches(weights)": None,
    "DeterministicBatches.steps_of(index)": 3,
    "FixedSizeBatches.steps_of(index)": 3,
    "PoissonBatches.steps_of(index)": 3,
    "RandomAllocation.steps_of(index)": 3,
    "ShuffledBatches.steps_of(index)": 3,
    "TruncatedPoissonBatches.steps_of(index)": 3,
    "BallsAndBins(order)": "kept",
    "CyclicPoissonBatches(batch_size)": None,
    "CyclicPoissonBatches(epochs)": None,
    "PoissonBatches(batch_size)": None,
    "PoissonBatches(epochs)": None,
    "Polyline(fpr)": [0, 0.25, 1],
    "Polyline.distance(other)": LINE,
    "Polyline.from_profile(points)": [(2, 0.5)],
    "Polyline.maximum(other)": LINE,
    "Polyline.minimum(other)": LINE,
    "PrivUnit.reports(records)": np.eye(2),
    "PrivUnit.variance(records)": np.eye(2),
    "ProfileMechanism(profile)": lambda x: np.exp(-x) / 2,
    "Randomizer.decoded(codes)": Made(lambda: BALL.encoded(BALL.reports(np.zeros((2, 2)), rng=1))),
    "Randomizer.encoded(reports)": Made(lambda: BALL.reports(np.zeros((2, 2)), rng=1)),
    "RandomizedAnswers.estimates(reports)": [0, 1],
    "RandomizedAnswers.mean(reports)": [0, 1],
    "RandomizedAnswers.reports(records)": [0, 1],
    "RandomizedAnswers.variance(records)": [0, 1],
    "RandomlyInitializedGD.least_squares(points)": 3,
    "RandomAllocation(steps_per_epoch)": None,
    "RenyiCurve(function)": None,
    "RenyiCurve.best_order(epsilon)": None,
    "Repeated(count)": 2,
    "ReportsOfGroup(groups)": GROUPS,
    "ReportsOfGroup(index)": 1,
    "SamplerComparison.smallest_noise(name)": "Poisson",
    "SameBatches(queries)": [dp.DPSGD(PLAN, noise_multiplier=2.0)],
    "ShuffledBatches(order)": "kept",
    "ShuffledGroups(categories)": 2,
    "ShuffledGroups(local_epsilon)": [1.0, 2.0],
    "ShuffledGroups(users)": [3, 5],
    "ShuffledGroups.group(index)": 1,
    "ShuffledReports(randomizer)": "shared",
    "StepNoise(key)": b"k" * 32,
    "StepNoise.added(total)": Made(lambda: {"weight": _tensor(2)}),
    "Training(key)": b"k" * 32,
    "Training.count_in(budget)": Made(lambda: dp.Budget(epsilon=1000.0, delta=1e-3)),
    "Training(mechanism)": dp.DPSGD(PLAN, noise_multiplier=2.0),
    "Training.resume(path)": Made(lambda: _checkpoint()),
    "Training.run(epsilon)": None,
    "Training.save(path)": "run.pt",
    "TradeoffCurve.from_knots(fpr)": [0, 0.25, 1],
    "TradeoffCurve.from_points(epsilons)": [1.0],
    "TruncatedPoissonBatches(epochs)": None,
    "affordable_steps(mechanism)": dp.DPSGD(PLAN, noise_multiplier=2.0),
    "calibrate(fpr)": None,
    "calibrate(mu)": None,
    "check_examples(inputs)": Made(lambda: _tensor(20, 2)),
    "compare(order)": None,
    "plan_collection(bits)": None,
    "plan_collection(clients)": 1000,
    "plan_collection(diameter)": None,
    "plan_collection(reports_per_client)": None,
    "compare_conversions(curve)": dp.RenyiCurve(orders=[2.0], values=[0.5]),
    "compare_conversions(epsilon)": None,
    "compare_mixture(epsilon)": None,
    "compare_samplers(adjacency)": dp.Adjacency.ZERO_OUT,
    "coupled(curves)": [[LINE, LINE], [LINE, LINE]],
    "coupled(other_weights)": [0.5, 0.5],
    "diagonal_coupling(other_weights)": [0.5, 0.5],
    "distribution(cdf)": lambda x: x,
    "distribution(places)": np.linspace(0.0, 1.0, 3),
    "EnclosedSensitivity.bounds(left)": np.zeros(2),
    "EnclosedSensitivity.bounds(right)": np.ones(2),
    "estimate(epsilon)": None,
    "estimate(progress)": None,
    "Guarantee.meets(fpr)": None,
    "Guarantee.meets(mu)": None,
    "Guarantee.risk(records)": 20,
    "PrivacyLoss.read(path)": Made(lambda: _table()),
    "Guarantee.from_json(text)": Made(cache(lambda: dp.account(PAIR).report("json"))),
    "hidden(weights)": [1],
    "loader(dataset)": np.zeros((20, 2)),
    "loader(sampler)": Made(lambda: _sampler()),
    "scheme_of(loader)": Made(lambda: _loader()),
    "scheme_of(collate)": None,
    "nothing_lost(weights)": [1],
    "relabeled(alternative)": [[0.5, 0], [0, 0.5]],
    "relabeled(curves)": [[LINE, LINE], [LINE, LINE]],
    "relabeled(null)": [[0.5, 0], [0, 0.5]],
    "secret(key)": b"k" * 32,
    "subsampled(between)": LINE,
}
"""A good value for each parameter, by its name, or by that of the call and its own."""

EXAMPLES: dict[str, Callable[[], Any]] = {
    "BatchScheme": lambda: PLAN,
    "Mechanism": lambda: PAIR,
    "Strategy": lambda: BANDED,
    "Randomizer": lambda: BALL,
    "VectorRandomizer": lambda: BALL,
    "Guarantee": cache(lambda: dp.account(PAIR)),
    "Ledger": cache(
        lambda: dp.Ledger(Path(mkdtemp()) / "budget.jsonl", epsilon=1000.0, delta=1e-3)
    ),
    "Comparison": cache(lambda: dp.compare(PAIR, delta=0.1)),
    "MixtureComparison": cache(lambda: dp.compare_mixture(MIXTURE, fpr=0.1)),
    "SampledReports": lambda: dp.ShuffledReports(users=2, local_epsilon=1.0, population=4),
    "SamplerComparison": cache(
        lambda: dp.compare_samplers(
            noise_multiplier=2.0, dataset_size=20, batch_size=10, epochs=1, delta=1e-3
        )
    ),
    "DrawCache": DrawCache,
    "TradeoffCurve": lambda: CURVE,
}
"""Objects of classes that nobody makes by their constructor."""
