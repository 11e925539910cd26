"""Renyi curves: what is known if all that is known is a divergence at each order.

`RenyiCurve` is a mechanism with an upper side only. It converts itself to epsilon and delta by all orders
together (`renyi.several_orders`), or by a conversion of `renyi.conversion` at the order that is best;
composing it with other mechanisms is for `account`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import (
    check_unmasked,
    doubles,
    elementwise,
    half_open_probability,
    has_entries,
    invalid,
    is_among,
    keyword_hint,
    nonnegative,
    one_line,
    positive,
    real,
    renyi_order,
    short_repr,
    single,
)
from sharpdp._validate import count as counted
from sharpdp.bracket import Bracket, Rigor, bracketed
from sharpdp.curves.renyi.conversion import CONVERSIONS, delta_from, epsilon_from, forcing_level
from sharpdp.curves.renyi.several_orders import ConvertedLevel, joint_conversion
from sharpdp.display import notebook
from sharpdp.display.tabular import Tabular
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.composed import ANY_SAMPLES, Mechanism
from sharpdp.mechanisms.given_name import named_by_author
from sharpdp.numerics.special import Array
from sharpdp.numerics.tolerances import QUOTIENT_ERROR
from sharpdp.numerics.two_doubles import multiply_exactly
from sharpdp.numerics.underflow import underflow_is_zero, underflow_is_zero_in_methods

__all__ = ["QUOTIENT_ERROR", "RenyiCurve", "chords", "compare_conversions", "least_over"]

Divergence = Callable[[Array], Array]

_NAMES = ("joint", *CONVERSIONS)
"""The conversions by name, the best one first."""

LARGEST_DIP = 1e-9
"""Relative fall of the values that is taken for rounding: the smaller value holds at both orders."""


@dataclass(frozen=True)
class Proportional:
    """The function rho * order, which can be written down."""

    rho: float

    def __call__(self, orders: Array) -> Array:
        """The divergences at some orders, rounded up; infinite where they are beyond all doubles."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinite is right then, too
            product, missing = multiply_exactly(self.rho, orders)
        # what is missing is not known at the ends of the range
        is_exact = (missing <= 0.0) & (product > 1e-280) & (product < 1e280)
        return np.where(is_exact, product, np.nextafter(product, np.inf))


@dataclass(frozen=True)
class Summed:
    """The sum of curves, each so many times, rounded upwards."""

    parts: tuple[tuple[RenyiCurve, int], ...]

    def __call__(self, orders: Array) -> Array:
        """The divergences at some orders."""
        total = sum(times * curve.at(orders) for curve, times in self.parts)
        return np.asarray(total * (1.0 + 2.0 * QUOTIENT_ERROR))


@underflow_is_zero_in_methods
@dataclass(frozen=True, kw_only=True, repr=False)
class RenyiCurve(Mechanism, Tabular):
    """Any mechanism that is known only by its Renyi divergences, in both directions.

    Give either ``orders`` and ``values``, or ``function``. Between the orders, (order - 1) times the
    divergence is convex, so chords are upper bounds as well. Lists from Opacus (its ``rdp`` and its
    orders) can be passed unchanged, and ``orders`` and ``values`` of the curve can be passed to other
    tools.

    Holds when: the values bound the divergence of both directions, for all neighbors.

    Args:
        orders: At least one number > 1, all different, in any order; one may be infinite.
        values: For each order an upper bound >= 0 on its divergence, which may be infinite. They never
            fall as the order grows, except by rounding: a relative 1e-9.
        function: Maps an array of finite orders > 1 to as many values >= 0 that never fall; tried at a
            few orders when the curve is made. None if orders and values are given.
        name: One line of text for descriptions; "unnamed", the default, is left out of them.
        rigor: That of the answer the values were read from: CERTIFIED or UNREVIEWED, or its words.

    Raises:
        InvalidArgument: neither or both ways are used, the lists differ in length, an entry is out of
            range or falls, the function's values do, the name is not one line, or the rigor is weaker.
        WrongType: a list, an entry, the function or the name is not of the right kind.

    >>> curve = RenyiCurve(orders=[2.0, 8.0], values=[0.0125, 0.05])
    >>> curve.epsilon(delta=1e-6).upper < RenyiCurve(orders=[8], values=[0.05]).epsilon(
    ...     delta=1e-6
    ... ).upper
    False
    >>> (curve * 10).values[0] >= 0.125
    True
    """

    orders: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    function: Divergence | None = field(default=None, hash=False)
    name: str = "unnamed"
    rigor: Rigor = Rigor.CERTIFIED

    _draws = ANY_SAMPLES

    def __post_init__(self) -> None:
        """Check the orders and values, or the function."""
        one_line(name=self.name)
        object.__setattr__(self, "rigor", Rigor.of_premise(rigor=self.rigor))
        if self.function is not None:
            _check_function(self.function, self.orders, self.values)
            return
        orders, values = _sorted(self.orders, self.values)
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "values", values)

    @classmethod
    def zcdp(cls, *, rho: float) -> RenyiCurve:
        """The curve rho * order of rho-zCDP; Gaussian noise has rho = 1 / (2 noise_multiplier^2).

        Args:
            rho: The zCDP parameter, finite and > 0.

        Returns:
            The curve, known at all orders.

        Raises:
            InvalidArgument: rho is not finite or not above 0.
            WrongType: rho is not a number.

        >>> RenyiCurve.zcdp(rho=0.5).renyi(order=4.0).upper
        2.0
        """
        clean = positive(rho=rho)
        return cls(function=Proportional(clean), name=f"{clean:.12g}-zCDP")

    @property
    def premise(self) -> Rigor:
        """What stands behind the values."""
        return self.rigor

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return "Renyi curve"

    def describe(self) -> str:
        """The mechanism in one line."""
        extent = f"at {len(self.orders)} orders" if self.function is None else "at all orders"
        name = "" if self.name == "unnamed" else f", {named_by_author(self.name)}"
        return f"mechanism known by its Renyi divergences ({extent}{name})"

    def __repr__(self) -> str:
        """The curve in one line."""
        return f"<RenyiCurve: {self.describe()}>"

    def __mul__(self, count: object) -> RenyiCurve:  # type: ignore[override]
        """The mechanism run ``count`` times: divergences are multiplied."""
        if isinstance(count, Mechanism):
            return super().__mul__(count)  # type: ignore[return-value]  # raises
        times = counted(count=count, hint="It says how often the mechanism is run.")
        return self.summed(((self, times),), f"{times} x {self.name}")

    def __rmul__(self, count: object) -> RenyiCurve:  # type: ignore[override]
        """The mechanism run ``count`` times."""
        return self * count

    def __add__(self, other: object) -> Mechanism:  # type: ignore[override]
        """This mechanism, then the other: divergences add up if both are known by them."""
        if isinstance(other, RenyiCurve):
            return self.summed(((self, 1), (other, 1)), f"{self.name}, then {other.name}")
        return super().__add__(other)

    @staticmethod
    def summed(parts: tuple[tuple[RenyiCurve, int], ...], name: str = "unnamed") -> RenyiCurve:
        """The sum of curves, each with its multiplicity; at all orders that one of them lists.

        Args:
            parts: At least one curve, each with how often it is run, at least 1.
            name: One line of text for descriptions.

        Returns:
            The curve of the sequence, with the weakest rigor of its parts; a single curve that is run
            once as it is. It is a function if one of the parts is.
        """
        if len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0]

        function, rigor = Summed(parts), Rigor.weakest(curve.rigor for curve, _ in parts)
        if any(curve.function is not None for curve, _ in parts):
            return RenyiCurve(function=function, name=name, rigor=rigor)
        orders = np.array(sorted({order for curve, _ in parts for order in curve.orders}))
        return RenyiCurve(
            orders=tuple(orders.tolist()),
            values=tuple(function(orders).tolist()),
            name=name,
            rigor=rigor,
        )

    def at(self, orders: Array) -> Array:
        """Upper bounds on the divergences at any orders: chords of (order - 1) times the divergence.

        Below the first order its value holds, beyond the last finite one the slope is at most the value
        at infinity, if there is one; nothing is known otherwise.

        Args:
            orders: An array of orders > 1, which may be infinite; not checked.

        Returns:
            An array of the same shape; infinite where nothing is known.
        """
        orders = np.asarray(orders, dtype=float)
        if self.function is not None:
            return _from_function(self.function, orders)
        known_orders, values = np.array(self.orders), np.array(self.values)
        return chords(known_orders, values, orders)

    @keyword_hint
    def renyi(self, *, order: ArrayLike) -> Bracket:
        """Bracket for the Renyi divergence of the given order > 1 (infinity allowed); upper side only.

        Args:
            order: One order > 1, or an array of them; infinity is allowed.

        Returns:
            The bracket from 0 to the upper bound, which is infinite where nothing is known.

        Raises:
            InvalidArgument: an order is not above 1, or the array is empty.
            WrongType: an order is not a number.
        """
        clean = elementwise(_order, order=order)
        return self._upper_bracket("renyi", "order", clean, self.at(np.ravel(clean)), self.label)

    @keyword_hint
    def epsilon(self, *, delta: ArrayLike, conversion: str = "joint") -> Bracket:
        """Bracket for the smallest epsilon at delta that the curve implies; upper side only.

        The best order is looked for, between the given ones too; it is printed, and `best_order` gives
        it. Where two orders together say more, both are printed.

        Args:
            delta: One delta in [0, 1), or an array of them; at 0 only an infinite order gives a bound.
            conversion: "joint" (all orders together: no better one exists for the curve at its orders),
                "optimal" (none better exists for a single order), "lemma1", "balle" or "classical".

        Returns:
            The bracket from 0 to the upper bound, which is infinite where the curve implies nothing.

        Raises:
            InvalidArgument: a delta is outside [0, 1), the array is empty, or the conversion is unknown.
            WrongType: a delta is not a number.

        >>> curve = RenyiCurve(orders=[8.0], values=[0.05])
        >>> print(curve.epsilon(delta=1e-6, conversion="balle"))
        0 <= epsilon <= 1.59305 at delta=1e-06 | Renyi curve, balle conversion at order 8, certified
        """
        return self._converted(
            "epsilon", "delta", elementwise(half_open_probability, delta=delta), conversion
        )

    @keyword_hint
    def delta(self, *, epsilon: ArrayLike, conversion: str = "joint") -> Bracket:
        """Bracket for the smallest delta at epsilon that the curve implies; upper side only.

        Args:
            epsilon: One finite epsilon >= 0, or an array of them.
            conversion: As for `epsilon`.

        Returns:
            The bracket from 0 to the upper bound, which is 1 where the curve implies nothing.

        Raises:
            InvalidArgument: an epsilon is negative or not finite, the array is empty, or the conversion
                is unknown.
            WrongType: an epsilon is not a number.
        """
        return self._converted(
            "delta", "epsilon", elementwise(nonnegative, epsilon=epsilon), conversion
        )

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The curve at some orders as dictionaries.

        Args:
            **asked: order, one or several; by default those of the curve, or some usual ones.

        Returns:
            For each order the upper bound on its divergence.

        Raises:
            WrongType: something other than order is asked.
        """
        if set(asked) - {"order"}:
            raise WrongType(f"a curve is asked at order, such as order=8; got {asked}.")
        usual = self.orders or (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0)
        orders = np.ravel(asked.get("order", usual))
        values = np.ravel(self.renyi(order=orders).upper)
        return [
            {"order": order, "divergence_upper": value}
            for order, value in zip(orders.tolist(), values.tolist(), strict=True)
        ]

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw the divergences against their orders (needs the extra `plots`).

        Args:
            ax: Matplotlib axes to draw on; None for a new figure.
            title: Heading of the picture; None for none, "auto" for its own.

        Returns:
            The axes.

        Raises:
            InvalidArgument: no divergence of the curve is finite and positive.
            MissingExtra: matplotlib is not installed.
            WrongType: ax is neither axes nor None.
        """
        from sharpdp import plots

        return plots.renyi(self, ax=ax, title=title)

    def _repr_html_(self) -> str:
        """The curve as a notebook shows it: some orders, and epsilon that they imply."""
        every = self.records()
        some = every[:: max(1, -(-len(every) // 8))]
        rows = [(f"{row['order']:g}", f"{row['divergence_upper']:.4g}") for row in some]
        implied = f"epsilon at delta=1e-05 is at most {float(self.epsilon(delta=1e-5)):.4g}"
        return notebook.headline(self.describe(), implied) + notebook.table(
            ("order", "divergence, about"), rows
        )

    def best_order(
        self,
        *,
        delta: float | None = None,
        epsilon: float | None = None,
        conversion: str = "optimal",
    ) -> float:
        """The order that gives the smallest epsilon at this delta, or the smallest delta at this epsilon.

        Args:
            delta: One delta in [0, 1); None if epsilon is given.
            epsilon: One finite epsilon >= 0; None if delta is given.
            conversion: As for `epsilon`.

        Returns:
            The order, which may be infinite.

        Raises:
            InvalidArgument: not exactly one of delta and epsilon is given, it is out of range, or the
                conversion is unknown.
            WrongType: delta or epsilon is not a number.

        >>> RenyiCurve(orders=[2.0, 8.0], values=[0.0, 1.0]).best_order(delta=1e-3)
        2.0
        """
        if (delta is None) == (epsilon is None):
            got = "neither" if delta is None else "both"
            raise InvalidArgument(f"exactly one of delta and epsilon must be given; got {got}.")
        if delta is not None:
            return self.best("epsilon", half_open_probability(delta=delta), conversion)[1]
        return self.best("delta", nonnegative(epsilon=epsilon), conversion)[1]

    def best(self, quantity: str, given: float, conversion: str) -> tuple[float, float]:
        """The smallest "epsilon" or "delta" over the orders, and the order that gives it.

        Args:
            quantity: "epsilon" or "delta".
            given: The delta in [0, 1) or the epsilon >= 0 at which it is asked; not checked.
            conversion: As for `epsilon`.

        Returns:
            (value, order): the value is an upper bound. For "joint", the order is the best one by itself.

        Raises:
            InvalidArgument: the conversion is unknown.
        """
        _check_conversion(conversion)
        if conversion == "joint":
            value, order, _ = self._jointly(quantity, given)
            return value, order
        # delta never rises with epsilon: that of a smaller one, within doubles, is an upper side
        convert, level_at = _ways(quantity, min(given, 1e16))

        def answers(orders: Array) -> Array:
            values = self.at(orders)
            if conversion != "optimal":
                return convert(orders, values, conversion)
            quick = convert(orders, values, "lemma1")
            smallest = float(np.min(quick))
            if math.isinf(smallest):
                return quick
            # only an order whose value is below what the best one so far needs can be better
            better = level_at(orders, smallest) >= values
            quick[better] = convert(orders[better], values[better], "optimal")
            return quick

        # chords between listed orders are seldom better than the best one of them
        return least_over(self.first_orders(), answers, 4 if self.function is not None else 1)

    def _jointly(self, quantity: str, given: float) -> tuple[float, float, tuple[float, ...]]:
        """The smallest value by all orders together, the best order by itself, and the orders used."""
        value, order = self.best(quantity, given, "optimal")
        orders = self.first_orders()
        best = ConvertedLevel(value, order, float(self.at(np.array([order]))[0]))
        value, used = joint_conversion(quantity, given, orders, self.at(orders), best)
        return value, order, used

    def first_orders(self) -> Array:
        """The orders that are tried first: all that are listed, or many from next to one to 1e8.

        Returns:
            An array of orders, in rising order.
        """
        if self.function is None:
            return np.array(self.orders)
        return np.asarray(1.0 + np.geomspace(1e-3, 1e8, 192))

    def _converted(self, quantity: str, given: str, at: float | Array, conversion: str) -> Bracket:
        _check_conversion(conversion)
        every, words = [], f"{conversion} conversion"
        for asked in np.ravel(at).tolist():
            if conversion == "joint":
                value, _, orders = self._jointly(quantity, asked)
            else:
                value, order = self.best(quantity, asked, conversion)
                orders = (order,)
            every.append(value)
        if len(every) == 1:
            words = _conversion_words(conversion, orders)
        return self._upper_bracket(quantity, given, at, every, f"{self.label}, {words}")

    def _upper_bracket(
        self, quantity: str, given: str, at: float | Array, upper: Iterable[float], words: str
    ) -> Bracket:
        """A bracket of which only the upper end is known."""
        intervals = [(0.0, float(value)) for value in upper]
        return bracketed(quantity, given, at, intervals, f"| {words}", self.rigor)


def _conversion_words(conversion: str, orders: tuple[float, ...]) -> str:
    """The conversion and the orders that it used, for an answer."""
    if len(orders) == 1:
        # one order by itself is converted optimally
        return f"{'optimal' if conversion == 'joint' else conversion} conversion at order {orders[0]:.6g}"
    first, second = (f"{order:.6g}" for order in orders)
    if first == second:
        return f"joint conversion of both directions at order {first}"
    return f"joint conversion of orders {first} and {second}"


@underflow_is_zero
def compare_conversions(
    curve: RenyiCurve, *, delta: float | None = None, epsilon: float | None = None
) -> dict[str, tuple[float, float]]:
    """What every conversion makes of a curve: its name, the smallest value, and the order it is at.

    Args:
        curve: The Renyi curve to convert.
        delta: One delta in [0, 1), to bound epsilon; None if epsilon is given.
        epsilon: One finite epsilon >= 0, to bound delta; None if delta is given.

    Returns:
        For each conversion by name, the best one first, (value, order): an upper bound on epsilon at
        delta, or on delta at epsilon, and the order that gives it; for "joint", which uses all orders,
        the one that is best by itself.

    Raises:
        InvalidArgument: not exactly one of delta and epsilon is given, or it is out of range.
        WrongType: curve is not a RenyiCurve, or delta or epsilon is not a number.

    >>> table = compare_conversions(RenyiCurve(orders=[8.0], values=[0.05]), delta=1e-6)
    >>> {name: round(value, 6) for name, (value, _) in table.items()}
    {'joint': 1.418822, 'optimal': 1.418822, 'lemma1': 1.552338, 'balle': 1.59305, 'classical': 2.023644}
    """
    if not isinstance(curve, RenyiCurve):
        raise WrongType(
            f"curve must be a RenyiCurve; got {short_repr(curve)}. Try RenyiCurve(orders=.., values=..)."
        )
    if (delta is None) == (epsilon is None):
        got = "neither" if delta is None else "both"
        raise InvalidArgument(f"exactly one of delta and epsilon must be given; got {got}.")
    if delta is not None:
        quantity, given = "epsilon", half_open_probability(delta=delta)
    else:
        quantity, given = "delta", nonnegative(epsilon=epsilon)
    return {name: curve.best(quantity, given, name) for name in _NAMES}


def _ways(quantity: str, given: float) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """How a level becomes the quantity, and which level the quantity would need."""
    if quantity == "epsilon":
        return (
            lambda orders, values, name: epsilon_from(orders, values, given, name),
            lambda orders, epsilon: forcing_level(orders, epsilon, given),
        )
    return (
        lambda orders, values, name: delta_from(orders, values, given, name),
        lambda orders, delta: forcing_level(orders, given, np.minimum(delta, 1.0 - QUOTIENT_ERROR)),
    )


def _from_function(function: Divergence, orders: Array) -> Array:
    """The values of a function where they are numbers; infinity, which claims nothing, elsewhere."""
    with np.errstate(all="ignore"):
        values = np.asarray(function(orders), dtype=float)
    return np.where(values >= 0.0, values, np.inf)


def _sorted(orders: object, values: object) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Orders and values as tuples, in rising order; an error that names what is wrong."""
    xs = _listed("orders", orders, _order, math.nextafter(1.0, 2.0))
    ys = _listed("values", values, _value, 0.0)
    if len(xs) != len(ys):
        raise InvalidArgument(
            f"orders and values must have equally many entries; got {len(xs)} and {len(ys)}."
        )
    pairs = sorted(zip(xs, ys, strict=True))
    for (x, y), (next_x, next_y) in itertools.pairwise(pairs):
        if x == next_x:
            raise InvalidArgument(f"orders must be different from each other; got {x:g} twice.")
        if next_y < y * (1.0 - LARGEST_DIP):
            raise InvalidArgument(
                f"values must not fall as the order grows; got {y:g} at order {x:g} and "
                f"{next_y:g} at order {next_x:g}. Renyi divergences rise with the order."
            )
    # each value bounds the divergences of all smaller orders too
    bounds = np.minimum.accumulate(np.array([y for _, y in pairs])[::-1])[::-1]
    return tuple(x for x, _ in pairs), tuple(bounds.tolist())


def _listed(
    title: str, entries: object, check: Callable[..., float], smallest: float
) -> tuple[float, ...]:
    if not has_entries(entries):
        raise WrongType(f"{title} must be a list of numbers; got {short_repr(entries)}.")
    check_unmasked(**{title: entries})
    every = entries.tolist() if isinstance(entries, np.ndarray) else list(entries)
    if every and all(type(entry) is float and entry >= smallest for entry in every):
        return tuple(every)  # beyond doubt, so that no message needs to be prepared
    checked = tuple(check(**{f"{title}[{i}]": entry}) for i, entry in enumerate(every))
    if not checked:
        raise InvalidArgument(f"{title} must have at least one entry; got an empty list.")
    return checked


def _order(*, hint: str = "", **argument: object) -> float:
    """The argument as a float above 1, which may be infinite."""
    ((name, value),) = argument.items()
    if _plain_number(name, value) == math.inf:
        return math.inf
    return renyi_order(hint=hint or "An order may be infinite.", **argument)


def _value(**argument: object) -> float:
    """The argument as a float, 0 or more, which may be infinite."""
    ((name, value),) = argument.items()
    number = _plain_number(name, value)
    if not number >= 0.0:
        raise invalid(name, "at least 0", value, "It is a Renyi divergence.")
    return number


def _plain_number(name: str, value: object) -> float:
    """The number; infinity passes, anything that is no number does not."""
    value = single(value)
    if isinstance(value, float | np.floating) and math.isinf(value):
        return float(value)
    if isinstance(value, float | np.floating) and math.isnan(value):
        raise invalid(name, "a number", value, "Look for 0/0 or inf - inf before this call.")
    return real(hint="", **{name: value})


def _check_function(function: object, orders: object, values: object) -> None:
    """Look at a few values: as many as asked for, not negative, none below the one before."""
    probes = np.array([1.5, 2.0, 8.0, 64.0])
    if orders != () or values != ():
        raise InvalidArgument("function must be given without orders and values; got both.")
    if not callable(function):
        raise WrongType(f"function must map orders to values; got {short_repr(function)}.")
    seen = doubles(result := function(probes.copy()))
    wanted = "function must map an array of orders to as many values >= 0 that never fall"
    if seen.shape != probes.shape:
        raise InvalidArgument(f"{wanted}; got {short_repr(result)} for {probes.size} orders.")
    falls = np.diff(seen[np.isfinite(seen)]) < -LARGEST_DIP * seen[np.isfinite(seen)][:-1]
    if np.isnan(seen).any() or (seen < 0.0).any() or falls.any():
        listed = ", ".join(f"{value:.6g}" for value in seen)
        raise InvalidArgument(f"{wanted}; got {listed} at orders 1.5, 2, 8, 64.")


def _check_conversion(conversion: object) -> None:
    if not is_among(_NAMES, conversion):
        names = ", ".join(map(repr, _NAMES))
        raise InvalidArgument(f"conversion must be one of {names}; got {short_repr(conversion)}.")


def least_over(
    orders: Array, answers: Callable[[Array], Array], refinements: int = 4
) -> tuple[float, float]:
    """The smallest answer and its order: at the rising orders, and closer and closer around the best.

    Around the best one 24 orders are tried at a time.

    >>> value, order = least_over(np.array([2.0, 4.0, 6.0]), lambda a: (a - 3.0) ** 2 + 1.0)
    >>> round(value, 6), round(order, 3)
    (1.0, 3.0)
    """
    values = answers(orders)
    for _ in range(refinements):
        best = int(np.argmin(values))
        last = int(np.isfinite(orders).sum()) - 1
        if last < 1 or not 0.0 < values[best] < np.inf:
            break
        low, high = orders[max(min(best, last) - 1, 0)], orders[min(best + 1, last)]
        between = 1.0 + np.geomspace(low - 1.0, high - 1.0, 26)[1:-1]
        between = np.setdiff1d(between, orders)
        if between.size == 0:
            break
        orders = np.concatenate([orders, between])
        values = np.concatenate([values, answers(between)])
        rising = np.argsort(orders)
        orders, values = orders[rising], values[rising]
    best = int(np.argmin(values))
    return float(values[best]), float(orders[best])


def chords(known_orders: Array, values: Array, orders: Array) -> Array:
    """Upper bounds between known orders, from the convexity of (order - 1) times the divergence.

    Below the first order its value holds; beyond the last finite one the slope is at most the value at
    infinity, if that is known, and nothing is known otherwise.

    Numerics: moved up by a relative 4e-15.

    Source: vanerven2014 Theorem 3, Corollary 2.

    >>> chords(np.array([2.0, 4.0]), np.array([1.0, 3.0]), np.array([3.0])).round(
    ...     9
    ... )  # (1 + 9) / 2 / 2
    array([2.5])
    """
    finite = np.isfinite(known_orders)
    x, y = known_orders[finite], values[finite]
    top = values[~finite][0] if not finite.all() else np.inf
    if x.size == 0:
        return np.full(orders.shape, top)
    index = np.clip(np.searchsorted(x, orders) - 1, 0, x.size - 1)
    after = np.minimum(index + 1, x.size - 1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # a mean of the two values with weights that add up to one
        weight = (orders - x[index]) * (x[after] - 1.0) / ((x[after] - x[index]) * (orders - 1.0))
        mean = y[index] + weight * (y[after] - y[index])
        beyond = y[-1] + (orders - x[-1]) / (orders - 1.0) * (top - y[-1])
    mean = np.where(weight >= 1.0, y[after], mean * (1.0 + 4.0 * QUOTIENT_ERROR))
    beyond = np.where(np.isnan(beyond), top, beyond * (1.0 + 4.0 * QUOTIENT_ERROR))
    result = np.where(orders > x[-1], np.minimum(beyond, top), mean)
    result = np.where(orders <= x[0], y[0], result)
    exact = np.isin(orders, x)
    result[exact] = y[np.searchsorted(x, orders[exact])]
    return np.where(np.isnan(result), np.inf, result)
