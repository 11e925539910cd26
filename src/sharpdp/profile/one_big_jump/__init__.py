"""Engine for rare large losses: delta as a sum over jump patterns, a contour for every one that matters.

With a small sampling rate one step's loss is a narrow core and, rarely, a jump. No single tilt suits
both, but the sum over which steps jump is finite in all that matters. Cuts c < ... < f split one step's
loss measure into a core (up to c), a few stretches, and what is far (beyond f > epsilon). Then

    delta(k) = [far] + sum over patterns of  ways * E[(1 - e^{k - S})_+; these steps in these stretches],

- a pattern says how many steps jump into each stretch; the others stay in the core. Each pattern is a
  composition of sub-probability measures and gets its own tilt, window and nodes;
- far: some step jumps beyond f, P(far) - e^k Q(far) + E[(e^{k - S} - 1)_+; far], the last of these
  bounded by Chernoff;
- patterns that cannot matter, and all with more jumps, are bounded by Chernoff (upper side only).

Masses come from cells of the normal variable (`loss_cells`), with full relative accuracy.

Sources: alghamdi2023 (the contour); the decomposition is the total probability over jumps.
"""
