"""Exact risk, calibration against ridge, limits and random batches."""
