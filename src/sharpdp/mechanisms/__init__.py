"""Mechanisms as frozen data: noise, local randomizers, training, and their compositions."""

from sharpdp.mechanisms.composed import Adjacency, Mechanism, Repeated, Sequence
from sharpdp.mechanisms.correlated_noise import CorrelatedNoise, MinSeparation
from sharpdp.mechanisms.elementary import (
    ApproximateDP,
    FinitePair,
    Gaussian,
    Laplace,
    ProfileMechanism,
    PureDP,
)
from sharpdp.mechanisms.last_iterate import LastIterate, SmoothLoss
from sharpdp.mechanisms.local import (
    BlanketRandomizer,
    DiscreteRandomizer,
    LocalGaussian,
    LocalLaplace,
    RandomizedResponse,
)
from sharpdp.mechanisms.mixture import Mixture
from sharpdp.mechanisms.normal import NormalPair
from sharpdp.mechanisms.privacy_loss import PrivacyLoss
from sharpdp.mechanisms.random_start import RandomlyInitializedGD
from sharpdp.mechanisms.same_batches import SameBatches
from sharpdp.mechanisms.selection import BestOf
from sharpdp.mechanisms.shuffle import (
    ApproximateReports,
    SampledReports,
    ShuffledBlocks,
    ShuffledReports,
)
from sharpdp.mechanisms.shuffled_groups import ReportsOfGroup, ShuffledGroups
from sharpdp.mechanisms.strategies import (
    BandedStrategy,
    BufferedLinearToeplitz,
    MatrixStrategy,
    Strategy,
)
from sharpdp.mechanisms.training import DPSGD, BatchQueries

__all__ = [
    "DPSGD",
    "Adjacency",
    "ApproximateDP",
    "ApproximateReports",
    "BandedStrategy",
    "BatchQueries",
    "BestOf",
    "BlanketRandomizer",
    "BufferedLinearToeplitz",
    "CorrelatedNoise",
    "DiscreteRandomizer",
    "FinitePair",
    "Gaussian",
    "Laplace",
    "LastIterate",
    "LocalGaussian",
    "LocalLaplace",
    "MatrixStrategy",
    "Mechanism",
    "MinSeparation",
    "Mixture",
    "NormalPair",
    "PrivacyLoss",
    "ProfileMechanism",
    "PureDP",
    "RandomizedResponse",
    "RandomlyInitializedGD",
    "Repeated",
    "ReportsOfGroup",
    "SameBatches",
    "SampledReports",
    "Sequence",
    "ShuffledBlocks",
    "ShuffledGroups",
    "ShuffledReports",
    "SmoothLoss",
    "Strategy",
]
