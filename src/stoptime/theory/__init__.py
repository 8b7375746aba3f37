"""Exact risk, calibration against ridge, limits and plans."""
