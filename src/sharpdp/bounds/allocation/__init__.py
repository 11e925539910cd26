"""Random allocation and balls-and-bins batches: theorems, and the pairs they construct."""
