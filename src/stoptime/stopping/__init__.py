"""Rules that pick the stop from a spectrum."""

from stoptime.stopping.plugin import Oracle, estimate_oracle

__all__ = ["Oracle", "estimate_oracle"]
