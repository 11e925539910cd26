"""sharpdp: how private is the pipeline you run, how sure are we, and what to change to reach a target."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee, account
    from sharpdp.batches import (
        BallsAndBins,
        BatchScheme,
        DeterministicBatches,
        FixedSizeBatches,
        PoissonBatches,
        RandomAllocation,
        ShuffledBatches,
        TruncatedPoissonBatches,
    )
    from sharpdp.bounds import all_bounds
    from sharpdp.bracket import Bracket, Rigor, Side
    from sharpdp.calibration import calibrate
    from sharpdp.comparison import Comparison, compare
    from sharpdp.errors import (
        InvalidArgument,
        MissingExtra,
        NotCertified,
        SharpDPError,
        Undecided,
        Unsupported,
        WrongType,
    )
    from sharpdp.mechanisms import (
        DPSGD,
        Adjacency,
        ApproximateDP,
        BatchQueries,
        BlanketRandomizer,
        DiscreteRandomizer,
        FinitePair,
        Gaussian,
        Laplace,
        LocalLaplace,
        Mechanism,
        Mixture,
        NormalPair,
        ProfileMechanism,
        PureDP,
        RandomizedResponse,
        RandomlyInitializedGD,
        Sequence,
        ShuffledBlocks,
        ShuffledReports,
    )
    from sharpdp.mixtures import MixtureComparison, compare_mixture
    from sharpdp.montecarlo import Tally, estimate
    from sharpdp.renyi import RenyiCurve, compare_conversions
    from sharpdp.sampler_comparison import SamplerComparison, compare_samplers
    from sharpdp.tradeoff import TradeoffCurve

__version__ = "0.1.0"

__all__ = [
    "Adjacency",
    "ApproximateDP",
    "BallsAndBins",
    "BatchQueries",
    "BatchScheme",
    "BlanketRandomizer",
    "Bracket",
    "Comparison",
    "DPSGD",
    "DeterministicBatches",
    "DiscreteRandomizer",
    "FinitePair",
    "FixedSizeBatches",
    "Gaussian",
    "Guarantee",
    "InvalidArgument",
    "Laplace",
    "LocalLaplace",
    "Mechanism",
    "MissingExtra",
    "Mixture",
    "MixtureComparison",
    "NormalPair",
    "NotCertified",
    "PoissonBatches",
    "ProfileMechanism",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "RandomlyInitializedGD",
    "RenyiCurve",
    "Rigor",
    "SamplerComparison",
    "Sequence",
    "SharpDPError",
    "ShuffledBatches",
    "ShuffledBlocks",
    "ShuffledReports",
    "Side",
    "Tally",
    "TradeoffCurve",
    "TruncatedPoissonBatches",
    "Undecided",
    "Unsupported",
    "WrongType",
    "account",
    "all_bounds",
    "calibrate",
    "compare",
    "compare_conversions",
    "compare_mixture",
    "compare_samplers",
    "estimate",
]

_PUBLIC_MODULES = (
    "errors",
    "bracket",
    "batches",
    "mechanisms",
    "renyi",
    "tradeoff",
    "mixtures",
    "bounds",
    "accounting",
    "calibration",
    "comparison",
    "sampler_comparison",
    "montecarlo",
)
"""Where the public names live, lightest first."""


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: `sharpdp --help` needs none of them."""
    if name == "BallsInBins":
        return __getattr__("BallsAndBins")
    if name in __all__:
        for room in _PUBLIC_MODULES:
            home = import_module(f"sharpdp.{room}")
            if name in home.__all__:
                return getattr(home, name)
    raise AttributeError(f"module 'sharpdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
