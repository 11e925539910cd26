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

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.2.0"

_NAMES = {
    "batches": "BallsAndBins BufferedShuffle DeterministicBatches FixedSizeBatches "
    "PoissonBatches RandomAllocation ShuffledBatches TruncatedPoissonBatches",
    "bracket": "Bracket",
    "budget": "Budget Ledger",
    "curves.renyi": "RenyiCurve",
    "mechanisms": "ApproximateDP BestOf DPSGD FinitePair Gaussian Laplace Mixture PrivacyLoss PureDP "
    "RandomizedResponse SameBatches Sequence ShuffledReports",
    "questions.account": "account",
    "questions.calibrate": "calibrate",
    "questions.compare": "compare",
    "questions.compare_samplers": "compare_samplers",
    "questions.design_collection": "design_collection",
    "questions.estimate": "estimate",
    "questions.plan_collection": "plan_collection",
    "questions.sweep": "sweep",
}
"""The public names by the module that defines them. The imports below are for type checkers."""

_ELSEWHERE = {
    "batches": "BallsInBins",
    "bounds": "all_bounds",
    "bracket": "Rigor Side",
    "curves.mixtures": "compare_mixture",
    "curves.renyi": "compare_conversions",
    "curves.tradeoff": "TradeoffCurve",
    "errors": "BudgetExceeded Contradiction InvalidArgument MissingExtra NotCertified SharpDPError "
    "Undecided Unsupported",
    "mechanisms": "Adjacency BandedStrategy BatchQueries BufferedLinearToeplitz CorrelatedNoise "
    "DiscreteRandomizer LastIterate LocalGaussian LocalLaplace MatrixStrategy Mechanism "
    "MinSeparation RandomlyInitializedGD ShuffledBlocks SmoothLoss",
    "questions.account": "Guarantee",
}
"""Names that live in a subpackage and are not listed here, but work as `sharpdp.NAME`, too."""

_SUBPACKAGES = {
    **{name: name for name in ("audit", "batches", "bounds", "budget", "errors", "explore")},
    **{name: name for name in ("integrations", "learn", "mechanisms", "plans", "plots", "report")},
    "mixtures": "curves.mixtures",
    "montecarlo": "questions.estimate",
    "renyi": "curves.renyi",
    "tradeoff": "curves.tradeoff",
}
"""The public subpackages by the folder that each is in."""


def _places(table: dict[str, str]) -> dict[str, str]:
    return {name: module for module, names in table.items() for name in names.split()}


__all__ = sorted(_places(_NAMES))
_MODULE_OF = {**_places(_ELSEWHERE), **_places(_NAMES)}
"""The names that work as `sharpdp.NAME`, by the module that defines them."""


class _Elsewhere(ModuleType):
    """Stands for a public module in another folder, which is imported when a name of it is used.

    So `import sharpdp.renyi` works, although the folder is `curves/renyi`, and there is one of each.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        _, subpackage, *module = self.__name__.split(".")
        return getattr(
            import_module(".".join(["sharpdp", _SUBPACKAGES[subpackage], *module])), name
        )


for _name in (
    *("mixtures", "mixtures.advanced_joint_concavity", "mixtures.inequalities", "montecarlo"),
    *("renyi", "tradeoff", "tradeoff.divergences", "tradeoff.polyline"),
):
    sys.modules.setdefault(f"sharpdp.{_name}", _Elsewhere(f"sharpdp.{_name}"))


def __dir__() -> list[str]:
    return sorted((*__all__, *_SUBPACKAGES))


TYPE_CHECKING = False  # type checkers take it for true; typing need not be imported for it
if TYPE_CHECKING:
    from sharpdp.curves import mixtures as mixtures, renyi as renyi, tradeoff as tradeoff
    from sharpdp.questions import estimate as _estimate
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
        plans as plans,
        plots as plots,
        report as report,
    )
    from sharpdp.questions.account import (
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
    from sharpdp.questions.calibrate import (
        calibrate as calibrate,
    )
    from sharpdp.questions.design_collection import (
        design_collection as design_collection,
    )
    from sharpdp.questions.plan_collection import (
        plan_collection as plan_collection,
    )
    from sharpdp.questions.compare import (
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
    from sharpdp.curves.mixtures import (
        compare_mixture as compare_mixture,
    )
    from sharpdp.questions.estimate import (
        estimate as estimate,
    )
    from sharpdp.curves.renyi import (
        RenyiCurve as RenyiCurve,
        compare_conversions as compare_conversions,
    )
    from sharpdp.questions.compare_samplers import (
        compare_samplers as compare_samplers,
    )
    from sharpdp.questions.sweep import (
        sweep as sweep,
    )
    from sharpdp.curves.tradeoff import (
        TradeoffCurve as TradeoffCurve,
    )

    montecarlo = _estimate
else:

    def __getattr__(name: str) -> object:
        """A public name or subpackage, imported when it is first used: `sharpdp --help` needs none."""
        if name in _SUBPACKAGES:
            value = globals()[name] = import_module(f"sharpdp.{_SUBPACKAGES[name]}")
            return value
        if name in _MODULE_OF:
            value = globals()[name] = getattr(import_module(f"sharpdp.{_MODULE_OF[name]}"), name)
            return value
        from sharpdp.display.nearest_word import hint

        names = (*_SUBPACKAGES, *sorted(_MODULE_OF.keys() - {"BallsInBins"}))
        raise AttributeError(
            f"module 'sharpdp' has no attribute {name!r}.{hint(name, names)}",
            name=name,
            obj=None,  # a traceback need not guess as well
        )
