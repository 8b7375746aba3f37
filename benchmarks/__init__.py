"""Benchmarks: speed as ratios to other packages. Run them with ``python -m benchmarks``."""
