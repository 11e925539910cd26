"""Wrong questions to account, its answers and calibrate, each with the exact sentence it gets."""

import pytest

from sharpdp import (
    DPSGD,
    FixedSizeBatches,
    Gaussian,
    InvalidArgument,
    PoissonBatches,
    SharpDPError,
    Unsupported,
    account,
    calibrate,
)
from sharpdp.errors import WrongType

PLAN = PoissonBatches(sample_rate=0.01, steps=1000)
SUBSETS = FixedSizeBatches(dataset_size=10, batch_size=2, steps=3)
GAUSSIAN = Gaussian(noise_multiplier=1.0)
ANSWER = account(GAUSSIAN)

WRONG_QUESTIONS = [
    (
        lambda: account(3),
        WrongType,
        "mechanism must be a mechanism; got 3. Try DPSGD(PoissonBatches(...), "
        "noise_multiplier=1.0).",
    ),
    (
        lambda: account(Gaussian),
        WrongType,
        "mechanism must be a mechanism; got the class Gaussian. Try "
        "DPSGD(PoissonBatches(...), noise_multiplier=1.0).",
    ),
    (
        lambda: account(GAUSSIAN, relative_width=0),
        InvalidArgument,
        "relative_width must be between 1e-09 and 0.5; got 0.0.",
    ),
    (
        lambda: account(GAUSSIAN, relative_width="narrow"),
        WrongType,
        "relative_width must be a finite number; got 'narrow' (of type str). Pass a plain number.",
    ),
    (
        lambda: account(GAUSSIAN, relative_width=1e-30),
        InvalidArgument,
        "relative_width must be between 1e-09 and 0.5; got 1e-30.",
    ),
    (
        lambda: account(GAUSSIAN, adjacency="swap"),
        InvalidArgument,
        "adjacency must be one of 'add/remove', 'zero-out', 'replace-one', 'neighboring "
        "inputs'; got 'swap'.",
    ),
    (
        lambda: account(DPSGD(SUBSETS, noise_multiplier=1), adjacency="add/remove"),
        Unsupported,
        "adjacency add/remove has no theorem for DP-SGD (noise multiplier 1, fixed-size batches: 3 steps "
        "with 2 of 10 examples each, drawn without replacement). What exists: zero-out and replace-one.",
    ),
    (
        lambda: ANSWER.epsilon(delta=-1e-6),
        InvalidArgument,
        "delta must be in [0, 1); got -1e-06.",
    ),
    (
        lambda: ANSWER.epsilon(delta=1),
        InvalidArgument,
        "delta must be in [0, 1); got 1.",
    ),
    (
        lambda: ANSWER.epsilon(delta=1.5),
        InvalidArgument,
        "delta must be in [0, 1); got 1.5.",
    ),
    (
        lambda: ANSWER.epsilon(delta=float("nan")),
        InvalidArgument,
        "delta must be in [0, 1); got nan. It is not a number: look for 0/0 or inf - inf "
        "before this call.",
    ),
    (
        lambda: ANSWER.epsilon(delta="1e-5"),
        WrongType,
        "delta must be in [0, 1); got '1e-5' (of type str). Pass the number without quotes.",
    ),
    (
        lambda: ANSWER.epsilon(delta=[1e-5, 2]),
        InvalidArgument,
        "delta[1] must be in [0, 1); got 2.",
    ),
    (
        lambda: ANSWER.epsilon(delta=[]),
        InvalidArgument,
        "delta must be a number or an array with at least one number; got an array of shape (0,).",
    ),
    (
        lambda: ANSWER.delta(epsilon=-1),
        InvalidArgument,
        "epsilon must be a finite number, at least 0; got -1.",
    ),
    (
        lambda: ANSWER.delta(epsilon=float("inf")),
        InvalidArgument,
        "epsilon must be a finite number, at least 0; got inf.",
    ),
    (
        lambda: ANSWER.renyi(order=1),
        InvalidArgument,
        "order must be greater than 1; got 1.0.",
    ),
    (
        lambda: ANSWER.renyi(order=float("inf")),
        InvalidArgument,
        "order must be a finite number; got inf.",
    ),
    (
        lambda: ANSWER.tpr(fpr=-0.1),
        InvalidArgument,
        "fpr must be in [0, 1]; got -0.1. It is the false-positive rate of an attack.",
    ),
    (
        lambda: ANSWER.tpr(fpr=None),
        WrongType,
        "fpr must be a finite number; got None. It has no default.",
    ),
    (
        lambda: ANSWER.tradeoff().lower(2),
        InvalidArgument,
        "fpr must be in [0, 1]; got 2. It is the false-positive rate of an attack.",
    ),
    (
        lambda: calibrate(GAUSSIAN, epsilon=1, delta=1e-5),
        WrongType,
        "template must be a function of the unknown; got Gaussian(noise_multiplier=1.0). Try "
        "lambda s: Gaussian(noise_multiplier=s).",
    ),
    (
        lambda: calibrate(Gaussian),
        InvalidArgument,
        "exactly one target must be given; got 0. Give a target: epsilon= and delta=, or "
        "advantage=, or tpr= and fpr=, or mu=.",
    ),
    (
        lambda: calibrate(Gaussian, epsilon=1),
        InvalidArgument,
        "epsilon and delta must be given together. Give a target: epsilon= and delta=, or "
        "advantage=, or tpr= and fpr=, or mu=.",
    ),
    (
        lambda: calibrate(Gaussian, epsilon=1, delta=1e-5, advantage=0.1),
        InvalidArgument,
        "exactly one target must be given; got 2. Give a target: epsilon= and delta=, or "
        "advantage=, or tpr= and fpr=, or mu=.",
    ),
    (
        lambda: calibrate(Gaussian, tpr=0.1, fpr=0.2),
        InvalidArgument,
        "tpr must be greater than fpr = 0.2; got 0.1. An attacker who guesses reaches tpr = fpr.",
    ),
    (
        lambda: calibrate(Gaussian, advantage=2),
        InvalidArgument,
        "advantage must be in (0, 1); got 2.",
    ),
    (
        lambda: calibrate(Gaussian, epsilon=1, delta=1e-5, relative_error=0),
        InvalidArgument,
        "relative_error must be between 1e-08 and 0.5; got 0.0.",
    ),
    (
        lambda: calibrate(lambda s: 3, epsilon=1, delta=1e-5),
        WrongType,
        "template must return a mechanism; got 3.",
    ),
]


@pytest.mark.parametrize(
    ("question", "error", "sentence"),
    WRONG_QUESTIONS,
    ids=[row[2][:60] for row in WRONG_QUESTIONS],
)
def test_the_sentence_of_a_wrong_question(question, error, sentence):
    with pytest.raises(SharpDPError) as caught:
        question()
    assert type(caught.value) is error
    assert str(caught.value) == sentence
