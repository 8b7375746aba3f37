"""Data that are read once and not kept: chunks, Dask, statistics."""
