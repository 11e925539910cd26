"""sharpdp: certified lower and upper bounds on the privacy of the pipeline you run.

Describe what is run, ask, and read off brackets:

    batches = dp.PoissonBatches(dataset_size=60_000, batch_size=512, epochs=30)
    answer = dp.account(dp.DPSGD(batches, noise_multiplier=1.0))
    answer.epsilon(delta=1e-5), answer.tpr(fpr=1e-3), answer.report()

- Mechanisms: `Gaussian`, `Laplace`, `RandomizedResponse`, `PureDP`, `ApproximateDP`, `FinitePair`,
  `PrivacyLoss`, `Mixture`, `BestOf`, `DPSGD`, `SameBatches`, `LastIterate`, `ShuffledReports`;
  `a + b`, `a * 10`.
- Batch schemes of DP-SGD: `PoissonBatches`, `ShuffledBatches`, `BallsAndBins`, ... in `sharpdp.batches`.
- Questions: `account`, `calibrate`, `sweep`, `compare`, `compare_samplers`, `design_collection`,
  `plan_collection`, `estimate`.
- Budgets and audits: `Ledger`, `Budget`, `sharpdp.audit`.
- Training and other packages: `sharpdp.learn`, `sharpdp.integrations`.
- Output: `sharpdp.report`, `sharpdp.plots`, `sharpdp.plans`, `sharpdp.explore`.
"""

from importlib import import_module

__version__ = "0.2.0"

_NAMES = {
    "accounting": "Guarantee account",
    "batches": "BallsAndBins BufferedShuffle DeterministicBatches FixedSizeBatches "
    "PoissonBatches RandomAllocation ShuffledBatches TruncatedPoissonBatches",
    "bounds": "all_bounds",
    "bracket": "Bracket Rigor Side",
    "budget": "Budget Ledger",
    "calibration": "calibrate",
    "collection_design": "design_collection",
    "collection_plan": "plan_collection",
    "comparison": "compare",
    "errors": "BudgetExceeded Contradiction InvalidArgument MissingExtra NotCertified SharpDPError "
    "Undecided Unsupported",
    "mechanisms": "Adjacency ApproximateDP BandedStrategy BatchQueries BestOf BufferedLinearToeplitz "
    "CorrelatedNoise DPSGD DiscreteRandomizer FinitePair Gaussian Laplace LastIterate LocalGaussian "
    "LocalLaplace MatrixStrategy Mechanism MinSeparation Mixture PrivacyLoss PureDP RandomizedResponse "
    "RandomlyInitializedGD SameBatches Sequence ShuffledBlocks ShuffledReports SmoothLoss",
    "mixtures": "compare_mixture",
    "montecarlo": "estimate",
    "renyi": "RenyiCurve compare_conversions",
    "sampler_comparison": "compare_samplers",
    "sweeps": "sweep",
    "tradeoff": "TradeoffCurve",
}
"""The public names by the module that defines them. `__init__.pyi` has them for type checkers."""

_SUBPACKAGES = (
    "audit",
    "batches",
    "bounds",
    "budget",
    "errors",
    "explore",
    "integrations",
    "learn",
    "mechanisms",
    "mixtures",
    "montecarlo",
    "plans",
    "plots",
    "renyi",
    "report",
    "tradeoff",
)

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    """A public name or subpackage, imported when it is first used: `sharpdp --help` needs none."""
    if name in _SUBPACKAGES:
        return import_module(f"sharpdp.{name}")
    known = {**_MODULE_OF, "BallsInBins": "batches"}
    if name in known:
        value = globals()[name] = getattr(import_module(f"sharpdp.{known[name]}"), name)
        return value
    from sharpdp.nearest_word import hint

    raise AttributeError(
        f"module 'sharpdp' has no attribute {name!r}.{hint(name, (*__all__, *_SUBPACKAGES))}",
        name=name,
        obj=None,  # a traceback need not guess as well
    )


def __dir__() -> list[str]:
    return sorted((*__all__, *_SUBPACKAGES))
