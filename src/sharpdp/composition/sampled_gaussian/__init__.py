"""Engine for Poisson-sampled Gaussian steps: moments by quadrature on a contour."""
