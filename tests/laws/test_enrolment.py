"""Nothing escapes the laws: every bound and every mechanism has a maker."""

import pytest

import sharpdp as dp
from tests.laws.registered import MAKERS, kinds, some, subjects


def test_every_bound_is_about_something_that_can_be_made() -> None:
    missing = [subject for subject in subjects() if subject not in MAKERS]
    assert not missing, f"add makers to tests/laws/registered.py for {missing}"


def test_every_mechanism_can_be_made() -> None:
    missing = [kind.__name__ for kind in kinds() if kind not in {of for of, _ in MAKERS}]
    assert not missing, f"add makers to tests/laws/registered.py for {missing}"


def test_every_batch_scheme_can_be_made() -> None:
    schemes = {getattr(dp.batches, name) for name in dp.batches.__all__} - {dp.batches.BatchScheme}
    missing = [scheme.__name__ for scheme in schemes if scheme not in {over for _, over in MAKERS}]
    assert not missing, f"add makers to tests/laws/registered.py for {missing}"


@pytest.mark.underflows
def test_makers_make_what_they_say() -> None:
    for of, over in MAKERS:
        for mechanism in some((of, over), 0, 3):
            assert type(mechanism) is of
            assert over is None or type(mechanism.batches) is over  # type: ignore[attr-defined]
