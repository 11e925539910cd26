"""Poisson-sampled Gaussians without a grid of losses: their moments by quadrature, to twelve digits.

With noise N(0, 1) in units of the noise, mu = 1/noise multiplier and

    w(y) = 1 - q + q e^{mu y - mu^2/2},      A(s) = E[w(y)^s],  y ~ N(0, 1),

the generating function of the loss is M(z) = A(z + 1) where the record is present under P, and
M(z) = A(-z) in the other direction. The trapezoid rule in y converges geometrically, because w has no
zero within |Im y| < pi/mu. Contour and Chernoff bounds are those of every composition; there is no
smoothing, since the losses have densities, whose characteristic functions are bounded layer by layer.

Everything is done for many kinds of steps at once: one row each, and columns where a number differs
between them. The rows may belong to one composition or to many: plans and moments of a whole sweep are
one table. This engine declines when it would be slow or inexact: few repetitions, tilts that reach into
the far tail, too many nodes or frequencies. The next engine then answers.
"""
