"""Files that survive crashes: locks, checksums, replacement as a whole."""
