"""Random bits and exact draws from them: keyed streams, permutations, binomials, normals."""
