"""Measurements: accuracy against the peers and on long text. `python -m benchmarks --help`."""
