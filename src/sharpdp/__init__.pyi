"""What type checkers see of `sharpdp`: the names of the table in `__init__.py`."""

from sharpdp import (
    audit as audit,
    batches as batches,
    bounds as bounds,
    budget as budget,
    errors as errors,
    explore as explore,
    integrations as integrations,
    learn as learn,
    mechanisms as mechanisms,
    mixtures as mixtures,
    montecarlo as montecarlo,
    plans as plans,
    plots as plots,
    renyi as renyi,
    report as report,
    tradeoff as tradeoff,
)
from sharpdp.accounting import (
    Guarantee as Guarantee,
    account as account,
)
from sharpdp.batches import (
    BallsAndBins as BallsAndBins,
)
from sharpdp.batches import (
    BufferedShuffle as BufferedShuffle,
    DeterministicBatches as DeterministicBatches,
    FixedSizeBatches as FixedSizeBatches,
    PoissonBatches as PoissonBatches,
    RandomAllocation as RandomAllocation,
    ShuffledBatches as ShuffledBatches,
    TruncatedPoissonBatches as TruncatedPoissonBatches,
)
from sharpdp.batches.random_allocation import BallsInBins as BallsInBins
from sharpdp.bounds import (
    all_bounds as all_bounds,
)
from sharpdp.bracket import (
    Bracket as Bracket,
    Rigor as Rigor,
    Side as Side,
)
from sharpdp.budget import (
    Budget as Budget,
    Ledger as Ledger,
)
from sharpdp.calibration import (
    calibrate as calibrate,
)
from sharpdp.collection_design import (
    design_collection as design_collection,
)
from sharpdp.collection_plan import (
    plan_collection as plan_collection,
)
from sharpdp.comparison import (
    compare as compare,
)
from sharpdp.errors import (
    BudgetExceeded as BudgetExceeded,
    Contradiction as Contradiction,
    InvalidArgument as InvalidArgument,
    MissingExtra as MissingExtra,
    NotCertified as NotCertified,
    SharpDPError as SharpDPError,
    Undecided as Undecided,
    Unsupported as Unsupported,
)
from sharpdp.mechanisms import (
    DPSGD as DPSGD,
    Adjacency as Adjacency,
    ApproximateDP as ApproximateDP,
    BandedStrategy as BandedStrategy,
    BatchQueries as BatchQueries,
    BestOf as BestOf,
    BufferedLinearToeplitz as BufferedLinearToeplitz,
    CorrelatedNoise as CorrelatedNoise,
    DiscreteRandomizer as DiscreteRandomizer,
    FinitePair as FinitePair,
    Gaussian as Gaussian,
    Laplace as Laplace,
    LastIterate as LastIterate,
    LocalGaussian as LocalGaussian,
    LocalLaplace as LocalLaplace,
    MatrixStrategy as MatrixStrategy,
    Mechanism as Mechanism,
    MinSeparation as MinSeparation,
    Mixture as Mixture,
    PrivacyLoss as PrivacyLoss,
    PureDP as PureDP,
    RandomizedResponse as RandomizedResponse,
    RandomlyInitializedGD as RandomlyInitializedGD,
    SameBatches as SameBatches,
    Sequence as Sequence,
    ShuffledBlocks as ShuffledBlocks,
    ShuffledReports as ShuffledReports,
    SmoothLoss as SmoothLoss,
)
from sharpdp.mixtures import (
    compare_mixture as compare_mixture,
)
from sharpdp.montecarlo import (
    estimate as estimate,
)
from sharpdp.renyi import (
    RenyiCurve as RenyiCurve,
    compare_conversions as compare_conversions,
)
from sharpdp.sampler_comparison import (
    compare_samplers as compare_samplers,
)
from sharpdp.sweeps import (
    sweep as sweep,
)
from sharpdp.tradeoff import (
    TradeoffCurve as TradeoffCurve,
)

__version__: str
