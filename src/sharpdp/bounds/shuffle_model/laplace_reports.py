"""Reports with Laplace noise on [0, 1]: their blanket, and what is seen through cells.

R_x has density (s/2) e^{-s |y - x|}, s = local_epsilon, E = e^s. The blanket w = min_x R_x is
(s/2) e^{-s max(y, 1 - y)}: symmetric around 1/2 and falling away from it.

The values 0 and 1 are the worst: for l >= 1 the summand (R_x0 - l R_x1) / w under w is below that of
(0, 1) in convex order, or never positive. Proof: let D(x0, x1, l, c) = int (R_x0 - l R_x1 - c w)_+; all
means are 1 - l, so it is enough that D is largest at (0, 1) for every c. Let x0 < x1 (else mirror y)
and d = x1 - x0. For l >= e^{s d} the summand is never positive. Since int u_+ = int (-u)_+ + int u,
c < 0 is the same claim for 1/l and -c/l with the mirrored values. So let c >= 0 and
e^{-s d} < l < e^{s d}, and let A be where the integrand is positive.

1. D rises with x1: its slope is s l (R_x1(A, y < x1) - R_x1(A, y > x1)), and A has no y > x1, since
   R_x0 / R_x1 = e^{-s d} < l there. So x1 = 1.
2. D rises as x0 <= 1/2 falls: if y > x0 is in A, so is its mirror image 2 x0 - y, where R_x0 is the same
   and both R_x1 and w are not larger. So x0 = 0.
3. For x0 > 1/2, x1 = 1 compare directly. With m = l/E and a = e^{-s x0}, 1/E <= a <= E^{-1/2},

       D(0, 1) = 1 - sqrt(m + c/E)                if 1 <= l + c <= E,
       D(0, 1) = 1 - c E^{-1/2} - sqrt(m (1 - c))   if l + c < 1,

   and both are 0 if l + c > E, since R_x0 <= E w and R_1 >= w. A is an interval (y1, y2) around x0.
   - If y1 >= 1/2, D(x0, 1) = 1 - r, r = sqrt(c (a - m)) + sqrt(m (1/a - c)). y1 >= 1/2 says
     c >= E (a - m), so l + c >= E a >= 1; y1 <= y2 says c m <= (a - m)(1/a - c), so
     r^2 >= c a + m/a >= c/E + m.
   - Else y1 = -inf and D(x0, 1) = 1 - c E^{-1/2} - sqrt(m (1/a - c)). For l + c < 1 use 1/a >= 1. For
     l + c >= 1, y2 >= x0 says 1/a - c >= m/a^2, hence (c E^{-1/2} + sqrt(m (1/a - c)))^2 - m - c/E
     >= c^2/E + m (1/a - c) + 2 c m - m - c/E >= c (l + c - 1)/E >= 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports


def _cells(epsilon: float, density: tuple[int, int, int]) -> int:
    """The number of cells, a multiple of four: the values of the others are edges of cells.

    By how many there are per unit of epsilon, at least, and at most. From below cells lose a share of the
    square of their width, from above they cost three times that.
    """
    per_epsilon, smallest, largest = density
    return 4 * (min(max(round(per_epsilon * epsilon), smallest), largest) // 4)


def noise_blanket(epsilon: float, users: int, rate: float = 1.0) -> Reports:
    """The blanket of Laplace noise on [0, 1] at the values 0 and 1, cells spread onto their ends.

    Outside of [0, 1] the ratios are (E, 1) and (1, E), E = e^epsilon, with weight 1/(2 E) each. Between
    0 and 1/2 they are (e^u, 1) with density e^{-(epsilon + u)/2} / 4, 0 < u < epsilon, and mirrored in
    the other half. On a cell from a to b the mean of e^u keeps its place if the share
    (mean - e^a) / (e^b - e^a) of the weight moves to b.

    >>> blanket = noise_blanket(2.0, 5)
    >>> round(1.0 - blanket.weights[-1], 12) == round(
    ...     math.exp(-1.0), 12
    ... )  # its mass is e^{-epsilon/2}
    True
    """
    edges = np.linspace(0.0, epsilon, _cells(epsilon, (40, 32, 96)) + 1)
    left, width = edges[:-1], np.diff(edges)  # of the cells as they are, rounded ends and all
    # two exponentials: the exponent of one would be rounded by units of itself
    weight = -0.5 * math.exp(-0.5 * epsilon) * np.exp(-0.5 * left) * np.expm1(-0.5 * width)
    # the mean of e^u on a cell is e^{a + width/2}
    share = np.expm1(0.5 * width) / np.expm1(width)
    weights = np.zeros(edges.size)
    weights[:-1] += weight * (1.0 - share)
    weights[1:] += weight * share
    weights[-1] += 0.5 * math.exp(-epsilon)
    ratios, ones = np.exp(edges), np.ones(edges.size)
    return Reports(
        (*weights.tolist(), *weights.tolist(), -math.expm1(-0.5 * epsilon)),
        (*ratios.tolist(), *ones.tolist(), 0.0),
        (*ones.tolist(), *ratios.tolist(), 0.0),
        users,
        rate,
    )


def binned_noise(epsilon: float) -> tuple[tuple[float, ...], ...]:
    """Laplace noise around 0, 1 and the values of the others, as the cell of [0, 1] it falls into."""
    cells = _cells(epsilon, (12, 24, 48))
    # by the distance in cells: the exponent is known beyond its rounding, which large ones would show
    exact = [Fraction(epsilon) * distance / cells for distance in range(cells + 1)]
    falls = [math.exp(-float(x)) * (1.0 - float(x - Fraction(float(x)))) for x in exact]
    # 0 and 1, then those that all others may hold: the other half is a mirror image
    values = (0.0, 1.0, 0.0, 0.25, 0.5)
    return tuple(_cell_masses(round(value * cells), falls, epsilon / cells) for value in values)


def _cell_masses(edge: int, falls: list[float], width: float) -> tuple[float, ...]:
    """Masses below 0, in each cell, and above 1, of noise around an edge; `width` is that of the loss.

    Each is right to five units: those of an exponential and three products.
    """
    inside = -math.expm1(-width)
    left = [falls[edge - 1 - cell] * inside for cell in range(edge)]
    right = [falls[cell - edge] * inside for cell in range(edge, len(falls) - 1)]
    masses = (falls[edge], *left, *right, falls[len(falls) - 1 - edge])
    return tuple(0.5 * mass for mass in masses)
