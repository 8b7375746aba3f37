"""Sparse matrices and operators: spectra from Krylov spaces."""
