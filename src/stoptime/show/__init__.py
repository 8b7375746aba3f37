"""Pages for people: the report on a fit and the explorer of risk curves."""
