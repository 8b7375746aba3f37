"""The version of the package, for files that have to name it."""

__version__ = "0.1.0"
