"""One theorem per function, each registered with what it bounds and when it holds."""

# importing a module of theorems registers them
import sharpdp.bounds.allocation.kept_bins
import sharpdp.bounds.allocation.theorems
import sharpdp.bounds.correlated_noise.theorems
import sharpdp.bounds.degenerate
import sharpdp.bounds.fixed_size.theorems
import sharpdp.bounds.fixed_size.with_replacement
import sharpdp.bounds.given.privacy_loss
import sharpdp.bounds.given.renyi
import sharpdp.bounds.given.tradeoff
import sharpdp.bounds.groups
import sharpdp.bounds.last_iterate.theorems
import sharpdp.bounds.mixture.theorems
import sharpdp.bounds.noise
import sharpdp.bounds.poisson
import sharpdp.bounds.random_start.theorems
import sharpdp.bounds.replace_one
import sharpdp.bounds.selection.published_selection
import sharpdp.bounds.selection.theorems
import sharpdp.bounds.shuffle_model.any_randomizer
import sharpdp.bounds.shuffle_model.blanket
import sharpdp.bounds.shuffle_model.blocks
import sharpdp.bounds.shuffle_model.groups_of_users
import sharpdp.bounds.shuffle_model.known_randomizer
import sharpdp.bounds.shuffle_model.one_report
import sharpdp.bounds.shuffle_model.published.epsilon
import sharpdp.bounds.shuffle_model.published.renyi
import sharpdp.bounds.shuffle_model.published.sampled_epsilon
import sharpdp.bounds.shuffle_model.published.strong_composition
import sharpdp.bounds.shuffle_model.published.unbounded
import sharpdp.bounds.shuffle_model.sampled_users
import sharpdp.bounds.shuffle_model.unbounded_randomizer
import sharpdp.bounds.shuffled_batches.buffered
import sharpdp.bounds.shuffled_batches.theorems  # noqa: F401
from sharpdp.bounds.registry import (
    Bound,
    Effort,
    PairCounts,
    all_bounds,
    bound,
    bounds_for,
    needs,
    temporarily,
)

__all__ = [
    "Bound",
    "Effort",
    "PairCounts",
    "all_bounds",
    "bound",
    "bounds_for",
    "needs",
    "temporarily",
]
