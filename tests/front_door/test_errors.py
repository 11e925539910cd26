"""The exception tree: what each one is, and that the drawing shows all of it."""

import pytest

from sharpdp import errors

PARENTS = {
    errors.SharpDPError: (Exception,),
    errors.InvalidArgument: (errors.SharpDPError, ValueError),
    errors.WrongType: (errors.InvalidArgument, TypeError),
    errors.Unsupported: (errors.SharpDPError, NotImplementedError),
    errors.Inapplicable: (errors.Unsupported,),
    errors.NotCertified: (errors.SharpDPError, ArithmeticError),
    errors.Undecided: (errors.NotCertified,),
    errors.BudgetExceeded: (errors.SharpDPError, RuntimeError),
    errors.Contradiction: (errors.SharpDPError,),
    errors.MissingExtra: (errors.SharpDPError, ImportError),
}


@pytest.mark.parametrize(("error", "parents"), PARENTS.items())
def test_familiar_exceptions_catch_ours(error, parents):
    assert error.__bases__ == parents
    with pytest.raises(parents[-1], match="why"):
        raise error("why")


def test_the_drawing_shows_every_exception():
    assert {error.__name__ for error in PARENTS} == set(errors.__all__)
    for name in errors.__all__:
        assert name in errors.__doc__
