"""Engine for rare large losses: delta as a sum over the patterns of a few big jumps."""
