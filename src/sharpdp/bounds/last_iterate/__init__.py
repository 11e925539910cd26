"""The last iterate of noisy gradient descent: theorems, and the schedules of shifts they need."""
