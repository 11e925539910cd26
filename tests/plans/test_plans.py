"""Plan files: everything that can be written is read back, and what is wrong is named."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sharpdp as dp
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.errors import WrongType
from sharpdp.mechanisms import ProfileMechanism
from sharpdp.mechanisms.composed import Grouped
from sharpdp.mechanisms.sensitivity import MonotoneSensitivity, SensitivityDistribution
from sharpdp.plans import Plan, files, kinds, mechanism_from_data, plan_schema, to_data
from tests.laws.registered import MAKERS, Subject

TOML = """
delta = 1e-5
adjacency = "zero-out"

[mechanism]
kind = "DPSGD"
noise_multiplier = 0.8

[mechanism.batches]
kind = "ShuffledBatches"
dataset_size = 60000
batch_size = 512
epochs = 30
"""

GAUSSIAN = {"kind": "Gaussian", "noise_multiplier": 2.0}
CHECK = jsonschema.Draft202012Validator(plan_schema())

THIRDS = Polyline((0, Fraction(1, 3), 1), (Fraction(2, 3), Fraction(1, 6), 0))
CURVES = [
    dp.RenyiCurve(orders=[2.0, math.inf], values=[0.1, 3.0], name="both"),
    dp.RenyiCurve(orders=[2.0, 8.0], values=[0.1, math.inf]),
    dp.RenyiCurve.zcdp(rho=0.3),
    dp.RenyiCurve.zcdp(rho=0.3) * 7,
    dp.RenyiCurve.zcdp(rho=0.3) + dp.RenyiCurve(orders=[2.0, 64.0], values=[0.1, 0.2]),
    dp.TradeoffCurve.gaussian(mu=0.7),
    dp.TradeoffCurve.gaussian(mu=0.0),
    dp.TradeoffCurve.between(THIRDS, THIRDS, attained=True, name="thirds"),
    dp.TradeoffCurve.from_pmfs(null=[0.25, 0.75], alternative=[0.75, 0.25]),
    dp.TradeoffCurve.from_points(epsilons=[0.5, 1.0], deltas=[1e-3, 1e-5], name="points"),
    dp.TradeoffCurve.from_points(epsilons=[0.5], deltas=[1e-3], attained=True),
    dp.TradeoffCurve.between(Polyline.revealed(), THIRDS),
    dp.account(dp.Gaussian(2.0), adjacency="replace-one").tradeoff(),
]
STARTS = [
    dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=math.inf, claim="instance"),
    dp.RandomlyInitializedGD.logistic(margin=2.0, claim="worst-case", initialization="public"),
    dp.RandomlyInitializedGD(
        sensitivity=SensitivityDistribution(atoms=[(0.5, 0.25), (1.0, 0.75)]), claim="instance"
    ),
]


def test_a_plan_may_say_balls_in_bins() -> None:
    sizes = {"dataset_size": 100, "batch_size": 10, "epochs": 2}
    data = {"kind": "BallsInBins", **sizes}
    assert mechanism_from_data(data) == dp.BallsInBins(**sizes) == dp.BallsAndBins(**sizes)


def fields_of(mechanism: object) -> str:
    """What a mechanism is, for those that are equal to themselves only."""
    return json.dumps(to_data(mechanism), sort_keys=True, allow_nan=False)


def read_again(mechanism: dp.Mechanism) -> Any:
    """Written as JSON, held against the schema, and read."""
    data = json.loads(json.dumps(to_data(mechanism), allow_nan=False))
    CHECK.validate({"mechanism": data})
    return mechanism_from_data(data)


@pytest.mark.parametrize(
    "subject", [s for s in MAKERS if s[0] not in (ProfileMechanism, Grouped)], ids=str
)
def test_mechanisms_survive_being_written(subject: Subject) -> None:
    rng = np.random.default_rng(8)
    for _ in range(4):
        run = MAKERS[subject](rng)
        for each in (run, run * 3, run + dp.Gaussian(noise_multiplier=2.0)):
            again = read_again(each)
            assert fields_of(again) == fields_of(each)
            is_curve = isinstance(run, dp.RenyiCurve | dp.TradeoffCurve)
            assert is_curve or again == each


@pytest.mark.parametrize("run", [*CURVES, *STARTS], ids=lambda run: run.describe())
def test_curves_and_starts_give_the_same_answers(run: dp.Mechanism) -> None:
    again = read_again(run)
    assert type(again) is type(run)
    assert fields_of(again) == fields_of(run)
    assert again.describe() == run.describe()
    first, then = (dp.account(one).epsilon(delta=1e-3) for one in (run, again))
    assert (first.lower, first.upper) == (then.lower, then.upper)


def test_exact_fractions_stay_exact() -> None:
    curve = read_again(dp.TradeoffCurve.between(THIRDS, THIRDS, attained=True))
    assert curve.polyline == THIRDS
    knots = {"kind": "TradeoffCurve.from_knots", "fpr": [0, "1/3", 1], "fnr": ["2/3", "1/6", 0]}
    assert mechanism_from_data(knots).polyline == THIRDS


def leaves() -> st.SearchStrategy[dp.Mechanism]:
    scales = st.floats(1e-30, 1e30)
    masses = st.lists(st.floats(1e-3, 1.0), min_size=2, max_size=5)
    epsilons = st.one_of(st.just(0.0), scales)
    counts = st.integers(1, 10**6)
    return st.one_of(
        st.builds(dp.Gaussian, noise_multiplier=scales),
        st.builds(dp.PureDP, epsilon=epsilons),
        st.builds(dp.ApproximateDP, epsilon=epsilons, delta=st.floats(0.0, 0.999)),
        st.builds(
            lambda p: dp.FinitePair(p=np.divide(p, np.sum(p)), q=np.divide(p[::-1], np.sum(p))),
            masses,
        ),
        st.builds(
            lambda steps, rate, noise: dp.DPSGD(
                dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=noise
            ),
            counts,
            st.floats(1e-30, 1.0),
            scales,
        ),
        st.builds(
            lambda slope, clip, points: dp.RandomlyInitializedGD.least_squares(
                slope=slope, clip=clip, points=points, claim="instance"
            ),
            st.floats(-1e6, 1e6),
            st.one_of(st.just(math.inf), scales),
            st.one_of(st.none(), counts),
        ),
    )


def compositions(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda one, count: one * count, parts, st.integers(1, 1000)),
        st.builds(dp.Sequence, st.lists(parts, min_size=1, max_size=3)),
    )


@settings(max_examples=60, deadline=None)
@given(st.recursive(leaves(), compositions, max_leaves=6))
def test_any_composition_survives(run: Any) -> None:
    again = mechanism_from_data(json.loads(json.dumps(to_data(run), allow_nan=False)))
    assert again == run


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.fractions(0, 1, max_denominator=10**6), min_size=1, max_size=6),
    st.lists(st.fractions(0, 1, max_denominator=10**6), min_size=1, max_size=6),
)
def test_any_exact_curve_survives(null: list[Fraction], alternative: list[Fraction]) -> None:
    size = max(len(null), len(alternative))
    laws = [[*one, *[Fraction(0)] * (size - len(one)), Fraction(1)] for one in (null, alternative)]
    masses = [[part / sum(law) for part in law] for law in laws]
    curve = dp.TradeoffCurve.from_pmfs(null=masses[0], alternative=masses[1])
    assert read_again(curve).polyline == curve.polyline


def test_a_plan_of_the_api_in_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(TOML)
    plan = Plan.read(path)
    batches = dp.ShuffledBatches(dataset_size=60_000, batch_size=512, epochs=30)
    assert plan.mechanism == dp.DPSGD(batches, noise_multiplier=0.8)
    assert plan.delta == (1e-5,)
    assert plan.guarantee().adjacency is dp.Adjacency.ZERO_OUT
    CHECK.validate(plan.to_dict())


def test_plans_round_trip_and_hash_by_content(tmp_path: Path) -> None:
    plan = Plan(dp.Gaussian(noise_multiplier=2.0) * 4, (1e-6,), "replace-one", 1e-4)
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    assert Plan.read(path) == Plan.from_json(plan.to_json()) == plan
    assert Plan.read(path).hash == plan.hash
    assert Plan(plan.mechanism, (1e-7,)).hash != plan.hash
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    assert plan.hash == sha, "what sha256sum says of the file"


def test_plans_that_ask_the_same_have_one_hash() -> None:
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.5, steps=2), noise_multiplier=1)
    hashes = {
        Plan(run, delta=1e-5).hash,
        Plan(run, [1e-5], "add-remove").hash,
        Plan(run, np.array([1e-5]), dp.Adjacency.ADD_REMOVE, 0.001).hash,
    }
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mechanism": 3}, "mechanism must be a mechanism; got 3"),
        ({"mechanism": dp.Gaussian}, "mechanism must be a mechanism; got the class"),
        ({"delta": -1e-9}, r"delta must be in \[0, 1\)"),
        ({"delta": math.nan}, "delta must be in"),
        ({"delta": "1e-5"}, "without quotes"),
        ({"delta": []}, "at least one number"),
        ({"delta": None}, "delta must be"),
        ({"adjacency": "next door"}, "adjacency must be one of"),
        ({"adjacency": 3}, "adjacency must be a word"),
        ({"relative_width": 0.0}, "relative_width must be between"),
        ({"relative_width": "narrow"}, "relative_width must be"),
    ],
)
def test_a_plan_checks_its_fields(fields: dict[str, Any], words: str) -> None:
    with pytest.raises((dp.InvalidArgument, WrongType), match=words):
        Plan(**{"mechanism": dp.Gaussian(1.0), **fields})


def test_b13_a_plan_asks_for_so_many_deltas_and_parts() -> None:
    """Each takes time: 100,000 deltas took more than a minute."""
    gaussian = dp.Gaussian(noise_multiplier=1.0)
    deltas = [1e-9 * (1 + index) for index in range(1001)]
    assert len(Plan(gaussian, tuple(deltas[:1000])).delta) == 1000
    words = "delta must have at most 1,000 values in a plan; got 1,001"
    with pytest.raises(dp.InvalidArgument, match=words):
        Plan(gaussian, tuple(deltas))
    with pytest.raises(dp.InvalidArgument, match=words):
        Plan.from_dict({"mechanism": to_data(gaussian), "delta": deltas})
    many = [dp.Gaussian(noise_multiplier=1.0 + index / 10**5) for index in range(10_001)]
    Plan(dp.Sequence([*many[:-1], many[0]]))  # equal parts are one
    with pytest.raises(
        dp.Unsupported, match="at most 10,000 different parts in a plan; got 10,001"
    ):
        Plan(dp.Sequence(many))


def test_a_plan_refuses_neighbors_without_a_theorem() -> None:
    batches = dp.ShuffledBatches(dataset_size=10, batch_size=2, epochs=1)
    with pytest.raises(dp.Unsupported, match="adjacency add/remove has no theorem"):
        Plan(dp.DPSGD(batches, noise_multiplier=1.0), 1e-5, "add/remove")


def two(second: object) -> dict[str, object]:
    """A sequence of which the second part is given."""
    return {"mechanism": {"kind": "Sequence", "mechanisms": [GAUSSIAN, second]}}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "must have a mechanism"),
        ({"mechanism": 3}, "must be a mechanism; got 3"),
        ({"mechanism": {"noise_multiplier": 1.0}}, "must have a kind.*; got noise_multiplier"),
        ({"mechanism": {"kind": "Gausian"}}, "Did you mean Gaussian?"),
        ({"mechanism": {"kind": ["Gaussian"]}}, "mechanism.kind must be known"),
        (
            {"mechanism": {"kind": "DPSGD", "noise_multiplier": 1, "batches": {"kind": "?"}}},
            "There are BallsAndBins, Buf",
        ),
        ({"mechanism": {"kind": "PoissonBatches", "sample_rate": 0.1, "steps": 3}}, "a mechanism"),
        ({"mechanism": {**GAUSSIAN, "noise_multiplyer": 1.0}}, "Did you mean noise_multiplier?"),
        ({"mechanism": {"kind": "Gaussian"}}, "needs noise_multiplier"),
        ({"mechanism": {"kind": "Gaussian", "noise_multiplier": -1.0}}, "noise_multiplier must be"),
        ({"mechanism": {"kind": "Gaussian", "noise_multiplier": "inf"}}, "noise_multiplier must"),
        ({"mechanism": {"kind": "ProfileMechanism", "profile": 3}}, "kind must be known"),
        ({"mechanism": {"kind": "RenyiCurve", "function": 3}}, "has no field 'function'"),
        ({"mechanism": GAUSSIAN, "delta": 2.0}, "delta must be"),
        ({"mechanism": GAUSSIAN, "deltas": [1e-5]}, "Did you mean delta?"),
        (two({"kind": "X"}), r"mechanism.mechanisms\[1\].kind must be known"),
        (two({"kind": "Laplace", "scale": -1}), r"mechanism.mechanisms\[1\]: scale must be"),
        (two({"kind": "Laplace", "scales": 1}), r"mechanisms\[1\]: Laplace has no field 'scales'"),
        (two(3), r"mechanisms\[1\] must be a mechanism"),
        (
            {"mechanism": {"kind": "RenyiCurve.summed", "curves": [GAUSSIAN], "counts": [1]}},
            "Renyi",
        ),
        ({"mechanism": {"kind": "SampledReports", "reports": 3, "population": 5}}, "reports must"),
        ({"mechanism": {"kind": "TradeoffCurve.gaussian", "mu": "1/3"}}, "mu must be"),
        ({"mechanism": {"kind": "TradeoffCurve.of", "mechanism": 3}}, "mechanism: mechanism must"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(data: dict[str, object], words: str) -> None:
    with pytest.raises((dp.InvalidArgument, WrongType), match=words.replace("?", r"\?")):
        Plan.from_dict(data)


def nested(depth: int, kind: str) -> str:
    """A mechanism inside many others, as JSON."""
    opened = f'{{"kind": "{kind}", "count": 1, "mechanism": ' * depth
    return f'{{"mechanism": {opened}{json.dumps(GAUSSIAN)}{"}" * depth}}}'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "delta = ", "must be TOML"),
        ("a.toml", "delta = " + "[" * 20_000, "a.toml must be TOML"),
        ("a.toml", "delta = " + "9" * 5000, "thousands of digits"),
        ("a.json", "{", "must be JSON"),
        ("a.toml", "delta = 2026-02-31", "Invalid date"),
        ("b.json", "[]", "must hold one object"),
        ("c.json", "[" * 200_000, "nested too deeply"),
        ("d.json", '{"delta": ' + "9" * 5000 + "}", "thousands of digits"),
        ("e.json", '{"delta": 0.1, "delta": 0.2}', "'delta' comes twice"),
        ("f.json", nested(100, "Repeated"), "nested more than 64 deep"),
        ("g.json", '{"mechanism": {"kind": "Polyline", "fpr": ["1/0"], "fnr": [1]}}', "fpr"),
        (
            "h.json",
            '{"mechanism": {"kind": "Polyline", "fpr": ["1/%s"], "fnr": [1]}}' % ("9" * 5000),
            "mechanism.fpr: a fraction must have fewer digits",
        ),
        ("i.json", f'{{"delta": NaN, "mechanism": {json.dumps(GAUSSIAN)}}}', "delta must be"),
    ],
)
def test_files_that_are_no_plans(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises((dp.InvalidArgument, WrongType), match=words):
        Plan.read(path)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "a" + ".a" * 50_000 + " = 1", "at most 16 dots in a key; got 50000"),
        ("a.toml", "[a" + " . a" * 50_000 + "]", "at most 16 dots in a key"),
        ("a.toml", "x = {a" + ".a" * 50_000 + " = 1}", "at most 16 dots in a key"),
        ("a.toml", "','" + ".'='" * 50_000 + " = 1", "at most 16 dots in a key"),
        ("a.toml", '"#"' + '."\\""' * 30_000 + " = 1", "at most 16 dots in a key"),
        ("a.toml", '"' + '\\"' * 100_000, "must be TOML"),
        ("a.toml", "x = 1\n" * 10**5, "at most 250000 characters"),
        ("a.json", "{" + '"a":1,' * 10**5 + '"b":1}', "'a' comes twice"),
        (
            "a.json",
            "{" + "".join(f'"{n}":1,' for n in range(10**5)) + '"99999":1}',
            "'99999' comes twice",
        ),
        ("a.json", '{"a":' * 10**6, "nested too deeply"),
    ],
)
def test_s10_no_file_takes_long_to_read(tmp_path: Path, name: str, text: str, words: str) -> None:
    """At a15ee80 the keys with dots and the object of 100,000 names took minutes."""
    path = tmp_path / name
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(dp.InvalidArgument, match=words):
        Plan.read(path)
    assert time.process_time() - start < 1.0


def test_s10_ordinary_plans_with_many_dots_are_read(tmp_path: Path) -> None:
    """Numbers, strings and comments may hold as many dots as they like."""
    path = tmp_path / "a.toml"
    dots = "." * 100
    masses = ", ".join(["0.0078125"] * 128)
    path.write_text(
        f"# {dots}\n[mechanism]\nkind = 'RenyiCurve'\nname = '{dots}'\norders = [2.0] # {dots}\n"
        f"values = [0.5]\n"
    )
    assert Plan.read(path).mechanism.name == dots
    path.write_text(
        f'[mechanism]\nkind = "FinitePair"\np = [{masses}]\nq = [\n{masses}\n]\n', "utf-8"
    )
    assert len(Plan.read(path).mechanism.p) == 128


def test_paths_that_are_no_plans(tmp_path: Path) -> None:
    with pytest.raises(dp.InvalidArgument, match="there is no such file"):
        Plan.read(tmp_path / "none.toml")
    with pytest.raises(dp.InvalidArgument, match="which is no file"):
        Plan.read(tmp_path)
    with pytest.raises(WrongType, match="path must be the name"):
        Plan.read(3)  # type: ignore[arg-type]
    (tmp_path / "a.json").write_bytes(b"\xff\xfe")
    with pytest.raises(dp.InvalidArgument, match="UTF-8"):
        Plan.read(tmp_path / "a.json")


def unwritable() -> Iterator[tuple[dp.Mechanism, str]]:
    class Gaussian(dp.Gaussian):
        """Not the one it is named after."""

    yield Gaussian(1.0), "a plan cannot hold"
    yield ProfileMechanism(profile=lambda epsilon: 0 * epsilon), "a plan cannot hold"
    yield dp.RenyiCurve(function=lambda orders: orders), "renyi_curve"
    gradient = MonotoneSensitivity(function=np.exp, shape="rising")
    yield dp.RandomlyInitializedGD(sensitivity=gradient, claim="instance"), "a plan cannot hold"
    pair = dp.Mixture(components=[dp.Gaussian(1.0)], weights=[1.0])
    deep = pair
    for _ in range(40):
        deep = dp.Mixture(components=[deep], weights=[1.0])
    yield deep, "nested more than 64 deep"


@pytest.mark.parametrize(("run", "words"), list(unwritable()), ids=lambda one: str(one)[:30])
def test_what_cannot_be_written_is_said(run: dp.Mechanism, words: str) -> None:
    with pytest.raises(dp.Unsupported, match=words):
        to_data(run)


def test_every_kind_is_in_the_schema() -> None:
    assert set(kinds()) <= set(plan_schema()["$defs"])
    jsonschema.Draft202012Validator.check_schema(plan_schema())


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"mechanism": 3},
        {"mechanism": {**GAUSSIAN, "noise_multiplyer": 1.0}},
        {"mechanism": {"kind": "Gaussian"}},
        {"mechanism": {"kind": "Gaussian", "noise_multiplier": "1"}},
        {"mechanism": {"kind": "PoissonBatches", "sample_rate": 0.1, "steps": 3}},
        {"mechanism": GAUSSIAN, "delta": 2.0},
        {"mechanism": GAUSSIAN, "delta": []},
        {"mechanism": GAUSSIAN, "deltas": 1e-5},
    ],
)
def test_the_schema_refuses_what_is_no_plan(data: dict[str, object]) -> None:
    assert not CHECK.is_valid(data)


def test_toml_without_a_parser_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.10 has no tomllib; tomli is the same by another name."""
    path = tmp_path / "plan.toml"
    path.write_text('[mechanism]\nkind = "Gaussian"\nnoise_multiplier = 2.0', "utf-8")
    parser = files._toml()
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", parser)
    assert Plan.read(path).mechanism == dp.Gaussian(noise_multiplier=2.0)
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(dp.MissingExtra, match="pip install tomli, or write the plan as JSON"):
        Plan.read(path)
