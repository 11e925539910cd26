"""sharpdp: how private is the pipeline you run, how sure are we, and what to change to reach a target."""

from sharpdp.account import Guarantee, TradeoffCurve, account
from sharpdp.batches import BatchScheme, DeterministicBatches, PoissonBatches
from sharpdp.bounds import all_bounds
from sharpdp.bracket import Bracket, Rigor, Side
from sharpdp.calibrate import calibrate
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
    FinitePair,
    Gaussian,
    Laplace,
    Mechanism,
    ProfileMechanism,
    PureDP,
    RandomizedResponse,
    Sequence,
)

__version__ = "0.1.0"

__all__ = [
    "Adjacency",
    "ApproximateDP",
    "BatchScheme",
    "Bracket",
    "DPSGD",
    "DeterministicBatches",
    "FinitePair",
    "Gaussian",
    "Guarantee",
    "InvalidArgument",
    "Laplace",
    "Mechanism",
    "MissingExtra",
    "NotCertified",
    "PoissonBatches",
    "ProfileMechanism",
    "PureDP",
    "RandomizedResponse",
    "Rigor",
    "Sequence",
    "SharpDPError",
    "Side",
    "TradeoffCurve",
    "Undecided",
    "Unsupported",
    "WrongType",
    "account",
    "all_bounds",
    "calibrate",
]
