"""Wrong calls, each with the exact sentence it gets: a name, what is allowed, the value, a hint."""

import re

import numpy as np
import pytest

from sharpdp.batches import DeterministicBatches, FixedSizeBatches, PoissonBatches
from sharpdp.bounds import bounds_for
from sharpdp.bracket import Bracket
from sharpdp.errors import InvalidArgument, SharpDPError, Undecided, Unsupported, WrongType
from sharpdp.mechanisms import (
    DPSGD,
    ApproximateDP,
    FinitePair,
    Gaussian,
    Laplace,
    ProfileMechanism,
    PureDP,
    RandomizedResponse,
    Sequence,
)
from sharpdp.questions.account import account

PLAN = PoissonBatches(sample_rate=0.01, steps=1000)
SUBSETS = FixedSizeBatches(dataset_size=10, batch_size=2, steps=3)
GAUSSIAN = Gaussian(noise_multiplier=1.0)
FORMS = (
    "Give sample_rate= and steps= (and dataset_size= to draw batches), "
    "or dataset_size=, batch_size= and epochs= (or steps=)."
)

WRONG_CALLS = [
    (
        lambda: Gaussian(noise_multiplier=-1),
        InvalidArgument,
        "noise_multiplier must be at least 0; got -1. 0 is no noise at all.",
    ),
    (
        lambda: Gaussian(noise_multiplier=float("nan")),
        InvalidArgument,
        "noise_multiplier must be at least 0; got nan. It is not a number: look for 0/0 "
        "or inf - inf before this call.",
    ),
    (
        lambda: Gaussian(noise_multiplier=float("inf")),
        InvalidArgument,
        "noise_multiplier must be between 1e-30 and 1e+30; got inf. Beyond that, double "
        "precision breaks down.",
    ),
    (
        lambda: Gaussian(noise_multiplier="0.8"),
        WrongType,
        "noise_multiplier must be at least 0; got '0.8' (of type str). Pass the number "
        "without quotes.",
    ),
    (
        lambda: Gaussian(noise_multiplier="loud"),
        WrongType,
        "noise_multiplier must be at least 0; got 'loud' (of type str). Pass a plain number.",
    ),
    (
        lambda: Gaussian(noise_multiplier=None),
        WrongType,
        "noise_multiplier must be at least 0; got None. It has no default.",
    ),
    (
        lambda: Gaussian(noise_multiplier=True),
        WrongType,
        "noise_multiplier must be at least 0; got True. True and False are not taken for 1 and 0.",
    ),
    (
        lambda: Gaussian(noise_multiplier=[0.8, 1.0]),
        WrongType,
        "noise_multiplier must be at least 0; got [0.8, 1.0] (of type list). Pass one number.",
    ),
    (
        lambda: Gaussian(noise_multiplier=np.array([0.8])),
        WrongType,
        "noise_multiplier must be at least 0; got an array of shape (1,). Pass one number.",
    ),
    (
        lambda: Gaussian(noise_multiplier=1e-320),
        InvalidArgument,
        "noise_multiplier must be between 1e-30 and 1e+30; got 1e-320. Beyond that, double "
        "precision breaks down.",
    ),
    (
        lambda: Gaussian(noise_multiplier=10**400),
        InvalidArgument,
        "noise_multiplier must be between 1e-30 and 1e+30; got 10^400. Beyond that, double "
        "precision breaks down.",
    ),
    (
        lambda: Gaussian(noise_multiplier=1j),
        WrongType,
        "noise_multiplier must be at least 0; got 1j (of type complex). Pass its real "
        "part if that is what you mean.",
    ),
    (
        lambda: Laplace(scale=float),
        WrongType,
        "scale must be at least 0; got the class float. Pass a plain number.",
    ),
    (
        lambda: PureDP(epsilon=-1),
        InvalidArgument,
        "epsilon must be at least 0; got -1. 0 is perfect privacy, and larger is less.",
    ),
    (
        lambda: PureDP(epsilon=float("inf")),
        InvalidArgument,
        "epsilon must be between 1e-30 and 1e+30; got inf. Beyond that, double precision "
        "breaks down.",
    ),
    (
        lambda: PureDP(epsilon=1e300),
        InvalidArgument,
        "epsilon must be between 1e-30 and 1e+30; got 1e+300. Beyond that, double precision"
        " breaks down.",
    ),
    (
        lambda: ApproximateDP(epsilon=1, delta=2),
        InvalidArgument,
        "delta must be in [0, 1]; got 2. Did you swap epsilon and delta?",
    ),
    (
        lambda: ApproximateDP(epsilon=1, delta=-1e-9),
        InvalidArgument,
        "delta must be in [0, 1]; got -1e-09. Did you swap epsilon and delta?",
    ),
    (
        lambda: ApproximateDP(epsilon=1, delta="1e-6"),
        WrongType,
        "delta must be in [0, 1]; got '1e-6' (of type str). Pass the number without quotes.",
    ),
    (
        lambda: RandomizedResponse(local_epsilon=-0.5),
        InvalidArgument,
        "local_epsilon must be at least 0; got -0.5. 0 is perfect privacy, and larger is less.",
    ),
    (
        lambda: RandomizedResponse(local_epsilon=1, categories=1),
        InvalidArgument,
        "categories must be a whole number, at least 2; got 1. It counts the possible answers.",
    ),
    (
        lambda: RandomizedResponse(local_epsilon=1, categories=2.5),
        InvalidArgument,
        "categories must be a whole number, at least 2; got 2.5. It counts the possible answers.",
    ),
    (
        lambda: FinitePair(p=[0.5, 0.5], q=[0.5, 0.4]),
        InvalidArgument,
        "q must be probabilities with sum 1; got masses with sum 0.9. Divide them by their "
        "sum if that is what you mean.",
    ),
    (
        lambda: FinitePair(p=[0.5, 0.5], q=[1.0]),
        InvalidArgument,
        "p and q must have equally many points; got 2 and 1. Give a point that one of them "
        "never takes the probability 0.",
    ),
    (
        lambda: FinitePair(p=[1.5, -0.5], q=[0.5, 0.5]),
        InvalidArgument,
        "p[1] must be a finite number, at least 0; got -0.5. It is a probability.",
    ),
    (
        lambda: FinitePair(p=[0.5, None], q=[0.5, 0.5]),
        WrongType,
        "p[1] must be a finite number, at least 0; got None. It has no default.",
    ),
    (
        lambda: FinitePair(p=0.5, q=0.5),
        WrongType,
        "p must be a list of at least one probability; got 0.5 (of type float). Give one "
        "probability per outcome, such as [0.25, 0.75].",
    ),
    (
        lambda: FinitePair(p=[], q=[]),
        InvalidArgument,
        "p must be a list of at least one probability; got an empty one. Give one probability"
        " per outcome, such as [0.25, 0.75].",
    ),
    (
        lambda: FinitePair(p="ab", q=[0.5, 0.5]),
        WrongType,
        "p must be a list of at least one probability; got 'ab' (of type str). Give one "
        "probability per outcome, such as [0.25, 0.75].",
    ),
    (
        lambda: ProfileMechanism(profile=0.1),
        WrongType,
        "profile must be a function of epsilon; got 0.1.",
    ),
    (
        lambda: ProfileMechanism(profile=np.exp),
        InvalidArgument,
        "profile must map an array of epsilon to as many deltas in [0, 1] that never rise; "
        "got 1, 1.28403, 2.71828, 54.5982, 8.88611e+06 at epsilon = 0, 0.25, 1, 4, 16.",
    ),
    (
        lambda: ProfileMechanism(profile=lambda epsilon: 0.1),
        InvalidArgument,
        "profile must map an array of epsilon to as many deltas in [0, 1] that never rise; "
        "got 0.1 for 5 epsilons.",
    ),
    (
        lambda: ProfileMechanism(profile=np.zeros_like, largest_loss=-1),
        InvalidArgument,
        "largest_loss must be greater than 0; got -1. Leave it out if there is none.",
    ),
    (
        lambda: PoissonBatches(),
        InvalidArgument,
        "exactly one of sample_rate and batch_size must be given; got neither. " + FORMS,
    ),
    (
        lambda: PoissonBatches(sample_rate=1.7, steps=10),
        InvalidArgument,
        "sample_rate must be in [0, 1]; got 1.7. Did you mean batch_size / dataset_size?",
    ),
    (
        lambda: PoissonBatches(sample_rate=1e-200, steps=10),
        InvalidArgument,
        "sample_rate must be 0, or between 1e-30 and 1; got 1e-200. Beyond that, double "
        "precision breaks down.",
    ),
    (
        lambda: PoissonBatches(sample_rate=512, steps=10),
        InvalidArgument,
        "sample_rate must be in [0, 1]; got 512. Did you mean batch_size / dataset_size?",
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1),
        InvalidArgument,
        "exactly one of steps and epochs must be given; got neither. " + FORMS,
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, steps=2.5),
        InvalidArgument,
        "steps must be a whole number, at least 0; got 2.5. It counts batches, over all epochs.",
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, steps=1e30),
        InvalidArgument,
        "steps must be at most 10^18; got 1e+30. It counts batches, over all epochs.",
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, steps=10, epochs=1),
        InvalidArgument,
        "exactly one of steps and epochs must be given; got both. " + FORMS,
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, epochs=3),
        InvalidArgument,
        "epochs must come with dataset_size and batch_size; got epochs=3 without them. " + FORMS,
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, batch_size=10, dataset_size=100, steps=10),
        InvalidArgument,
        "exactly one of sample_rate and batch_size must be given; got both. " + FORMS,
    ),
    (
        lambda: PoissonBatches(batch_size=10, epochs=1),
        InvalidArgument,
        "dataset_size must be given with batch_size; got None. " + FORMS,
    ),
    (
        lambda: PoissonBatches(dataset_size=100, batch_size=1000, epochs=1),
        InvalidArgument,
        "batch_size must be at most dataset_size = 100; got 1000. Did you swap the two?",
    ),
    (
        lambda: PoissonBatches(dataset_size=100.5, batch_size=10, epochs=1),
        InvalidArgument,
        "dataset_size must be a whole number, at least 1; got 100.5. It counts examples.",
    ),
    (
        lambda: PoissonBatches(dataset_size=10**18, batch_size=1, epochs=10),
        InvalidArgument,
        "steps must be at most 10^18; got 10000000000000000000. That is epochs times batches "
        "per epoch.",
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, steps=10).batches(),
        InvalidArgument,
        "dataset_size must be given to draw batches; got only sample_rate and steps. Use "
        "PoissonBatches(sample_rate=0.1, steps=10, dataset_size=...).",
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, steps=10, dataset_size=5).batches("seed"),
        WrongType,
        "rng must be a key (bytes, at least 16), a seed (an integer, at least 0), a numpy Generator "
        "or None; got 'seed'. Try secrets.token_bytes(32).",
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, steps=10, dataset_size=5).batches(-1),
        InvalidArgument,
        "rng must be a key (bytes, at least 16), a seed (an integer, at least 0), a numpy Generator "
        "or None; got -1. Leave the sign out.",
    ),
    (
        lambda: PoissonBatches(sample_rate=0.1, steps=10, dataset_size=5).batches(True),
        WrongType,
        "rng must be a key (bytes, at least 16), a seed (an integer, at least 0), a numpy Generator "
        "or None; got True. Try secrets.token_bytes(32).",
    ),
    (
        lambda: DeterministicBatches(dataset_size=100, batch_size=1000, epochs=1),
        InvalidArgument,
        "batch_size must be at most dataset_size = 100; got 1000. Did you swap the two?",
    ),
    (
        lambda: DeterministicBatches(dataset_size=0, batch_size=1, epochs=1),
        InvalidArgument,
        "dataset_size must be a whole number, at least 1; got 0. It counts examples.",
    ),
    (
        lambda: DeterministicBatches(dataset_size=100, batch_size=None, epochs=1),
        WrongType,
        "batch_size must be a whole number, at least 1; got None. It has no default.",
    ),
    (
        lambda: DeterministicBatches(dataset_size=100, batch_size=10, epochs=1.5),
        InvalidArgument,
        "epochs must be a whole number, at least 0; got 1.5. It counts passes over the data.",
    ),
    (
        lambda: DPSGD(PLAN, noise_multiplier=-1),
        InvalidArgument,
        "noise_multiplier must be at least 0; got -1. 0 is no noise at all.",
    ),
    (
        lambda: DPSGD([[0, 1], [2, 3]], noise_multiplier=1),
        WrongType,
        "batches must be a batch scheme; got [[0, 1], [2, 3]]. Try "
        "PoissonBatches(sample_rate=..., steps=...).",
    ),
    (
        lambda: DPSGD(PoissonBatches, noise_multiplier=1),
        WrongType,
        "batches must be a batch scheme; got the class PoissonBatches. Try "
        "PoissonBatches(sample_rate=..., steps=...).",
    ),
    (
        lambda: DPSGD(SUBSETS, noise_multiplier=1).adjacency("add/remove"),
        Unsupported,
        "adjacency add/remove has no theorem for DP-SGD (noise multiplier 1, fixed-size batches: 3 steps "
        "with 2 of 10 examples each, drawn without replacement). What exists: zero-out and replace-one.",
    ),
    (
        lambda: DPSGD(PLAN, noise_multiplier=1).adjacency("swap"),
        InvalidArgument,
        "adjacency must be one of 'add/remove', 'zero-out', 'replace-one', 'neighboring "
        "inputs'; got 'swap'.",
    ),
    (
        lambda: GAUSSIAN * -1,
        InvalidArgument,
        "count must be a whole number, at least 0; got -1. It says how often the mechanism is run.",
    ),
    (
        lambda: 2.5 * GAUSSIAN,
        InvalidArgument,
        "count must be a whole number, at least 0; got 2.5. It says how often the mechanism "
        "is run.",
    ),
    (
        lambda: GAUSSIAN * True,
        WrongType,
        "count must be a whole number, at least 0; got True. True and False are not taken for"
        " 1 and 0.",
    ),
    (
        lambda: GAUSSIAN * "2",
        WrongType,
        "count must be a whole number, at least 0; got '2' (of type str). Pass the number "
        "without quotes.",
    ),
    (
        lambda: GAUSSIAN * GAUSSIAN,
        WrongType,
        "a mechanism is multiplied by how often it is run; got "
        "Gaussian(noise_multiplier=1.0). Did you mean a + b?",
    ),
    (
        lambda: GAUSSIAN * 10**19,
        InvalidArgument,
        "count must be at most 10^18; got 10000000000000000000. It says how often the "
        "mechanism is run.",
    ),
    (
        lambda: GAUSSIAN * 10**10 * 10**10,
        InvalidArgument,
        "count must be at most 10^18 for each part; got 100000000000000000000 times Gaussian "
        "noise (noise multiplier 1).",
    ),
    (
        lambda: GAUSSIAN + 1,
        WrongType,
        "only a mechanism can be added to a mechanism; got 1. Did you mean mechanism * count?",
    ),
    (
        lambda: 1 + GAUSSIAN,
        WrongType,
        "only a mechanism can be added to a mechanism; got 1. Did you mean count * mechanism?",
    ),
    (
        lambda: Sequence(GAUSSIAN),
        WrongType,
        "mechanisms must be a list of mechanisms; got Gaussian(noise_multiplier=1.0). Use "
        "Sequence([a, b]) or a + b.",
    ),
    (
        lambda: Sequence([GAUSSIAN, Gaussian]),
        WrongType,
        "mechanisms[1] must be a mechanism; got the class Gaussian. Try "
        "Gaussian(noise_multiplier=1.0).",
    ),
    (
        lambda: Sequence([GAUSSIAN, 3]),
        WrongType,
        "mechanisms[1] must be a mechanism; got 3. Try Gaussian(noise_multiplier=1.0).",
    ),
    (
        lambda: (
            account(DPSGD(SUBSETS, noise_multiplier=1)).tradeoff()
            + RandomizedResponse(local_epsilon=1)
        ),
        Unsupported,
        "mechanisms of a sequence must share a notion of neighboring data sets; got: fixed-size"
        " batches has zero-out; randomized response has replace-one.",
    ),
    (
        lambda: bounds_for(GAUSSIAN * 2),
        InvalidArgument,
        "mechanism must not be composed of others; got 2 x Gaussian noise (noise multiplier "
        "1). Ask for each of its parts().",
    ),
    (
        lambda: Bracket(2.0, 1.0),
        InvalidArgument,
        "lower must be at most upper; got lower=2.0, upper=1.0.",
    ),
    (
        lambda: Bracket(1.0, 2.0) < 1.5,
        Undecided,
        "undecided: whether epsilon in [1, 2] is < 1.5 is not known. Ask for a smaller "
        "relative_width, or compare .lower and .upper.",
    ),
    (
        lambda: float(Bracket([1.0], [2.0])),
        WrongType,
        "only a bracket of one epsilon is a float; this one has shape (1,). Use .lower and .upper.",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "sentence"), WRONG_CALLS, ids=[row[2][:60] for row in WRONG_CALLS]
)
def test_the_sentence_of_a_wrong_call(call, error, sentence):
    with pytest.raises(SharpDPError) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == sentence


@pytest.mark.parametrize("sentence", [row[2] for row in WRONG_CALLS])
def test_sentences_read_like_sentences(sentence):
    assert sentence.endswith((".", "?"))
    assert not re.search(r"\s\s|(?<!\.)\.\.(?!\.)|;;|\bnp\.", sentence)


def test_there_are_some_fifty_of_them():
    assert len(WRONG_CALLS) >= 50
