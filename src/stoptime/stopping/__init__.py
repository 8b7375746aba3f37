"""Rules that choose the stop."""
