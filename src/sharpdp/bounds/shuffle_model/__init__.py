"""The shuffle model: theorems for known and unknown randomizers, and the pairs they construct."""
