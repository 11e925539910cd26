"""A report names what was run, for which neighbors, how private it is, and on what that rests."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import json
import re
import subprocess
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR
from html.parser import HTMLParser
from statistics import NormalDist

import pytest

import sharpdp as dp
from sharpdp import report
from sharpdp.display.outward_digits import percent
from sharpdp.errors import WrongType
from sharpdp.mechanisms import ProfileMechanism
from sharpdp.plans import Plan
from sharpdp.report.citations import keys
from sharpdp.report.results import FALSE_POSITIVE_RATES
from sharpdp.report.words import attacker_goal, in_words, obligations, sampler, unit

POISSON = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
EPOCHS = dp.DeterministicBatches(dataset_size=100, batch_size=10, epochs=2)
MECHANISMS = [
    POISSON,
    dp.DPSGD(EPOCHS, noise_multiplier=2.0),
    dp.Gaussian(noise_multiplier=1.0),
    dp.Laplace(scale=1.0),
    dp.Gaussian(noise_multiplier=2.0) * 3 + dp.Laplace(scale=2.0),
    dp.PureDP(epsilon=1.0),
    dp.RandomizedResponse(local_epsilon=1.0, categories=3),
    dp.ShuffledBlocks(blocks=3, local_epsilon=1.0),
]
FEW = [MECHANISMS[1], MECHANISMS[4], MECHANISMS[-1]]
BRACKET = re.compile(r"^\W*(\S+) <= (\w+) <= (\S+)(?: (?:at|for) (.+))?$")


def brackets(text: str) -> dict[tuple[str, str], tuple[float, float]]:
    """(quantity, place) -> (lower, upper) of every line of a report that is a bracket."""
    found = {}
    for line in text.replace("≤", "<=").splitlines():
        if match := BRACKET.match(line.partition(": ")[0]):
            found[match[2], match[4] or ""] = float(match[1]), float(match[3])
    return found


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether both can hold: an answer asked again may be narrower."""
    return max(one[0], other[0]) <= min(one[1], other[1])


def joined(text: str) -> str:
    return " ".join(text.split())


class Words(HTMLParser):
    """The words of a page as a reader sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.hidden = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden = tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        self.words += [] if self.hidden else [data]


def read(answer: dp.Guarantee, form: str) -> str:
    """The words of a report, without markup."""
    text = answer.report(form, delta=1e-5)
    if form == "json":
        text = "\n".join(strings(json.loads(text)))
    if form == "html":
        text = "".join(Words(text).words)
    if form == "markdown":
        text = html.unescape(re.sub(r"\\([^u])", r"\1", text))
    return joined(text.replace("≤", "<=").replace("≥", ">="))


def strings(data: object) -> list[str]:
    """Every name and every word in some data."""
    if isinstance(data, dict):
        return [word for name, one in data.items() for word in (name, *strings(one))]
    if isinstance(data, list):
        return [word for one in data for word in strings(one)]
    return [data] if isinstance(data, str) else []


@pytest.mark.parametrize("form", report.SUFFIXES.values())
@pytest.mark.parametrize("mechanism", FEW, ids=lambda mechanism: mechanism.describe())
def test_every_format_says_everything(mechanism: dp.Mechanism, form: str) -> None:
    answer = dp.account(mechanism, relative_width=0.1)
    words = read(answer, form)
    plan = Plan(mechanism, (1e-5,), str(answer.adjacency), relative_width=0.1)
    needed = [
        mechanism.describe(),
        *in_words(mechanism),
        *sampler(mechanism),
        *obligations(mechanism),
    ]
    needed += [report.neighbors(answer.adjacency), unit(mechanism), plan.hash]
    needed += ["sharpdp verify report.json", dp.__version__, "numpy", "python"]
    needed += [part for one in answer.bounds for part in (one.name, one.source)]
    needed += [words for one in answer.bounds for _, words in one.conditions]
    needed += [f"{{{key}," for key in keys(answer.bounds)]
    assert keys(answer.bounds)
    for one in needed:
        assert joined(one) in words, one


@pytest.mark.parametrize("mechanism", MECHANISMS[1:], ids=lambda mechanism: mechanism.describe())
def test_text_and_data_say_the_same(mechanism: dp.Mechanism) -> None:
    answer = dp.account(mechanism, relative_width=0.1)
    shown = brackets(report.text(answer).partition("How private it is")[2])
    marked = report.markdown(answer)
    data = json.loads(json.dumps(report.to_dict(answer), allow_nan=False))
    assert len(shown) == len(data["epsilon"]) + len(data["delta"]) + 2
    for entry in data["epsilon"]:
        place = "epsilon", f"delta={entry['delta']:g}"
        assert overlap(shown[place], (entry["lower"], entry["upper"]))
        low, high = shown[place]
        assert f"| delta = {entry['delta']:g} | epsilon | {low:.15g} | {high:.15g} |" in marked
    assert [one["source"] for one in data["theorems"]] == [one.source for one in answer.bounds]


def test_a_report_says_which_theorem_decided() -> None:
    """Two theorems bound shuffled reports of binary randomized response from above."""
    run = dp.ShuffledReports(users=8, randomizer=dp.RandomizedResponse(local_epsilon=1.0))
    answer = dp.account(run)
    assert len(answer.upper_derivations) > 1
    data = report.to_dict(answer, delta=1e-3)
    best = answer.epsilon(delta=1e-3)
    for one in data["theorems"]:
        routes = [
            r for r in answer.upper_derivations if [b.name for b in r.bounds] == [one["name"]]
        ]
        for route in routes:
            alone = dataclasses.replace(answer, upper_derivations=(route,)).epsilon(delta=1e-3)
            assert ("upper" in one["decided"]) == (float(alone) <= float(best) * (1 + 1e-12))
    assert any("upper" in one["decided"] for one in data["theorems"])
    assert "Also evaluated; determined no end" in joined(answer.report())


def test_the_curve_of_a_report_encloses_that_of_gaussian_noise() -> None:
    """f(x) = Phi(Phi^-1(1 - x) - 1) for noise multiplier 1."""
    normal = NormalDist()
    points = report.to_dict(dp.account(dp.Gaussian(noise_multiplier=1.0)))["tradeoff"]
    assert (points[0]["fpr"], points[-1]["fpr"]) == (0.0, 1.0)
    for one in points[1:-1]:
        exact = normal.cdf(normal.inv_cdf(1.0 - one["fpr"]) - 1.0)
        assert one["lower"] <= exact <= one["upper"] <= one["lower"] + 0.01


def test_the_short_answer_of_gaussian_noise() -> None:
    """Even odds: right with probability Phi(1/2); e^4.37718 is 79.6..."""
    text = joined(dp.account(dp.Gaussian(noise_multiplier=1.0)).report())
    right = float(re.search(r"is right at most (\S+)% of the time", text)[1])
    assert 0 <= right - 100 * NormalDist().cdf(0.5) <= 0.1
    assert "To be quoted as (4.37718, 1e-05)-DP." in text
    assert "any set of outcomes is at most e^4.37718 = 79.7 times as likely" in text


def test_reports_can_be_compared() -> None:
    first, then = (dp.account(MECHANISMS[4]).report("html") for _ in range(2))
    assert first == then
    dated = dp.account(MECHANISMS[4]).report("html", date="2026-01-31")
    recorded = ',\n  "date": "2026-01-31"'
    assert recorded in dated
    shown = '<dl class="about">\n<div><dt>date</dt><dd>2026-01-31</dd></div>\n</dl>\n'
    assert dated.replace(shown, "").replace(recorded, "") == first


def test_a_page_needs_nothing_else() -> None:
    page = dp.account(dp.Gaussian(noise_multiplier=1.0)).report("html")
    assert "<svg" in page
    assert not re.findall(r"(?:src|href)=|url\(|@import", page)
    assert re.findall(r"<script[^>]*>", page) == [
        '<script type="application/json" id="sharpdp-report">'
    ]
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import sharpdp as dp; dp.account(dp.Gaussian(1.0)).report('html')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_cannot_break_a_page() -> None:
    name = "</script><script>alert(1)</script><!--|*x*"
    from sharpdp.report.html import embedded

    curve = dp.RenyiCurve(orders=[2.0], values=[0.1], name=name)
    page = dp.account(curve).report("html")
    assert page.count("<script") == page.count("</script") == 1
    assert "<!--" not in page
    assert json.loads(embedded(page))["plan"]["mechanism"]["name"] == name
    assert "\\|\\*x\\*" in dp.account(curve).report("markdown").splitlines()[2]


NAME = 'DP-SGD (noise multiplier 0.5), certified". [a](javascript:x) ![b](c) # ~~d~~ $e$ | > f'
NAMED = {
    "trade-off curve": lambda: dp.TradeoffCurve.from_knots(
        fpr=[0, 0.5, 1], fnr=[1, 0.4, 0], name=NAME
    ),
    "Renyi curve": lambda: dp.RenyiCurve(orders=[2.0], values=[0.1], name=NAME),
    "losses": lambda: dp.PrivacyLoss(losses=[0.0], masses=[1.0], name=NAME),
    "profile": lambda: ProfileMechanism(profile=lambda epsilon: 0 * epsilon, name=NAME),
}


@pytest.mark.parametrize("kind", NAMED)
def test_b13_names_are_those_of_an_author(kind: str) -> None:
    """Nothing vouches for a name, so that it is quoted, and cannot end its quotation marks."""
    mechanism = NAMED[kind]()
    quoted = f"named by its author: {json.dumps(NAME)}"
    assert quoted in mechanism.describe()
    answer = dp.account(mechanism)
    context = answer.epsilon(delta=1e-5).context
    assert NAME not in context.replace(json.dumps(NAME), "")
    for line in (" ".join(answer.report().split()), answer.report("markdown")):
        shown = line.partition("The plan:")[0].partition("{")[0]
        assert "DP-SGD" in shown
        for place in re.finditer("DP-SGD", shown):
            assert shown[: place.start()].endswith('"')


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("format_", ["markdown", "model-card"])
def test_b13_markdown_takes_nothing_of_a_name_for_markup(kind: str, format_: str) -> None:
    answer = dp.account(NAMED[kind]())
    header = {"project": NAME, "reviewer": NAME}
    text = answer.report(format_, header=header) if kind != "profile" else answer.report(format_)
    lines = re.sub(r"(?s)^---\n.*?\n---\n|```.*?```", "", text).splitlines()
    shown = [line for line in lines if "javascript" in line]
    assert shown
    for line in shown:
        # a table has bars of its own
        name = line[line.index("DP-SGD") : line.rindex("f") + 1]
        assert not re.search(r"(?<!\\)[\[\]!#~$|<>]", name), line


def test_s11_markdown_holds_no_html() -> None:
    curve = dp.RenyiCurve(orders=[2.0], values=[0.1], name="<script>x</script><img onerror=x> &lt;")
    text = dp.account(curve).report("markdown", header={"project": "<b>today</b>"})
    assert not re.search(r"<[a-z!/]", text)
    assert "&lt;img onerror=x&gt; &amp;lt;" in text
    assert "&lt;b&gt;today&lt;/b&gt;" in text


@pytest.mark.parametrize("sign", ["\x1b[2J", "\x07", "\n", "\u202e", "\u2066", "\u200b", "\ud800"])
def test_s11_control_and_bidi_characters_are_refused(sign: str) -> None:
    name = f"a{sign}b"
    for make in (
        lambda: dp.RenyiCurve(orders=[2.0], values=[0.1], name=name),
        lambda: dp.TradeoffCurve.from_knots(fpr=[0, 1], fnr=[1, 0], name=name),
        lambda: ProfileMechanism(profile=lambda epsilon: 0 * epsilon, name=name),
        lambda: dp.account(dp.PureDP(1.0)).report(date=name),
        lambda: dp.account(dp.PureDP(1.0)).report(header={"owner": name}),
    ):
        with pytest.raises(dp.InvalidArgument, match="must be text of one line without control"):
            make()
    plan = {"kind": "RenyiCurve", "orders": [2.0], "values": [0.1], "name": name}
    with pytest.raises(dp.InvalidArgument, match=f"got the character U\\+{ord(sign[0]):04X}"):
        Plan.from_dict({"mechanism": plan})


def test_s11_a_page_allows_nothing_but_its_own_style() -> None:
    page = dp.account(dp.Gaussian(noise_multiplier=1.0)).report("html")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)[1]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert " style=" not in page


def test_s1b_a_page_holds_its_report_and_shows_what_it_says() -> None:
    from sharpdp.report.html import embedded

    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    page = answer.report("html", date="2026-01-31")
    assert json.loads(embedded(page)) == report.to_dict(answer, date="2026-01-31")
    assert report.verify(page).verdict is report.Verdict.CONFIRMED
    assert report.verify(page.replace("\n", "\r\n")).verdict is report.Verdict.CONFIRMED
    assert dp.Guarantee.from_json(page) == answer


def test_s1b_every_changed_line_of_a_page_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    page = answer.report("html")
    results = report.Results.of(answer)
    monkeypatch.setattr(report.Results, "of", lambda *_, **__: results)
    start = page.index("</style>")
    end = page.index("<script")
    places = [match.start() for match in re.finditer(r"\d", page) if start < match.start() < end]
    for place in [*places[:20], *places[20::25]]:
        digit = str((int(page[place]) + 1) % 10)
        changed = page[:place] + digit + page[place + 1 :]
        verified = report.verify(changed)
        assert verified.verdict is report.Verdict.CONTRADICTED
        line = page[:place].count("\n") + 1
        assert verified.findings[0].field == f"line {line} of the page"
    for changed in (
        page.replace("</body>", "<p>approved</p></body>"),
        page.replace("default-src 'none'; ", ""),
        page.replace("<h1>", "<h1>\u202e"),
    ):
        assert report.verify(changed).verdict is report.Verdict.CONTRADICTED
    for broken in (
        page.replace("<script", "<script></script><script"),
        page[: page.index("<script")],
    ):
        with pytest.raises(dp.InvalidArgument, match="one report as JSON"):
            report.verify(broken)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"format": "htm"}, "Did you mean html?"),
        ({"format": 3}, "format must be one of"),
        ({"delta": 2.0}, "delta must be in"),
        ({"delta": []}, "at least one number"),
        ({"date": 2026}, "date must be text"),
    ],
)
def test_bad_questions(asked: dict[str, object], words: str) -> None:
    with pytest.raises((dp.InvalidArgument, WrongType), match=words.replace("?", r"\?")):
        dp.account(dp.Gaussian(noise_multiplier=1.0)).report(**asked)


def test_a_report_holds_the_references() -> None:
    """Cases (b) and (g) of the issue."""
    shown = brackets(dp.account(POISSON).report().partition("How private")[2])
    for place, exact, digit in (
        (("epsilon", "delta=1e-05"), 1.8282367, 1e-7),
        (("advantage", ""), 0.161018, 1e-6),
    ):
        lower, upper = shown[place]
        assert lower - digit <= exact <= upper + digit
        assert upper - lower < 1e-3 * upper


def test_attack_rates_are_rounded_away_from_the_truth() -> None:
    """Gaussian noise: the best attack finds Phi(Phi^-1(fpr) + 1) of the cases."""
    normal = NormalDist()
    text = joined(dp.account(dp.Gaussian(noise_multiplier=1.0)).report())
    said = re.findall(
        r"At a false-positive rate of (\S+)%, no attack identifies more than (\S+)% of the runs on "
        r"one of the inputs \(chance: \1%\), and some attack identifies (\S+)%\.",
        text,
    )
    assert len(said) == len(FALSE_POSITIVE_RATES)
    for rate, (alarms, most, least) in zip(FALSE_POSITIVE_RATES, said, strict=True):
        exact = 100 * normal.cdf(normal.inv_cdf(rate) + 1)
        assert float(alarms) == 100 * rate
        assert float(least) <= exact <= float(most) <= float(least) * 1.01
    lower, upper = brackets(dp.account(dp.Gaussian(noise_multiplier=1.0)).report())[
        "mu", "fpr>=1e-06"
    ]
    assert lower <= 1.0 <= upper


@pytest.mark.parametrize(
    ("rate", "direction", "words"),
    [
        (0.001, ROUND_CEILING, "0.1%"),
        (0.123412, ROUND_CEILING, "12.4%"),
        (0.123412, ROUND_FLOOR, "12.3%"),
        (1.0, ROUND_CEILING, "100%"),
        (0.0, ROUND_FLOOR, "0%"),
        (1e-9, ROUND_CEILING, "0.0000001%"),
    ],
)
def test_percentages(rate: float, direction: str, words: str) -> None:
    assert percent(rate, direction) == words


def test_other_deltas() -> None:
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    shown = brackets(report.text(answer, delta=[1e-3]).partition("How private")[2])
    assert [place for quantity, place in shown if quantity == "epsilon"] == ["delta=0.001"]
    with pytest.raises(dp.InvalidArgument, match=r"delta\[0\] must be in \[0, 1\); got 2"):
        report.text(answer, delta=[2])


def test_a_missing_lower_side_is_said() -> None:
    answer = dataclasses.replace(
        dp.account(dp.Gaussian(noise_multiplier=1.0)), lower_derivations=()
    )
    text = joined(answer.report())
    assert "No lower bound is known" in text
    assert "some attack finds" not in text
    assert "-inf" not in text
    assert not brackets(answer.report())
    assert " epsilon <= 4.37718 at delta=1e-05" in text
    assert report.to_dict(answer)["epsilon"][0]["lower"] is None


def test_an_infinite_epsilon_is_said() -> None:
    text = dp.account(dp.ApproximateDP(epsilon=1.0, delta=1e-6)).report()
    assert "epsilon is infinite at delta=1e-08" in text


def test_words_about_users_who_are_drawn() -> None:
    run = dp.ShuffledReports(users=5, local_epsilon=1.0, population=20, rounds=3)
    assert "5 of 20 users are sampled uniformly without replacement" in sampler(run)[0]
    assert unit(run).startswith("one user, with all of up to 3 reports together")
    assert any("the shuffler" in one for one in obligations(run))


@pytest.mark.parametrize("adjacency", list(dp.Adjacency))
def test_every_notion_of_neighbors_has_its_words(adjacency: dp.Adjacency) -> None:
    assert report.neighbors(adjacency).endswith(".")
    assert all(attacker_goal(adjacency))
