"""sharpdp: how private is the pipeline you run, how sure are we, and what to change to reach a target."""

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
    "comparison": "compare",
    "errors": "BudgetExceeded InvalidArgument MissingExtra NotCertified SharpDPError Undecided "
    "Unsupported",
    "mechanisms": "Adjacency ApproximateDP BatchQueries BestOf DPSGD DiscreteRandomizer FinitePair "
    "Gaussian Laplace LocalGaussian LocalLaplace Mechanism Mixture PrivacyLoss PureDP "
    "RandomizedResponse RandomlyInitializedGD Sequence ShuffledBlocks ShuffledReports",
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
        f"module 'sharpdp' has no attribute {name!r}.{hint(name, (*__all__, *_SUBPACKAGES))}"
    )


def __dir__() -> list[str]:
    return sorted((*__all__, *_SUBPACKAGES))
