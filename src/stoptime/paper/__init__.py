"""Reproduction of the paper: its figures, their numbers, and its constants."""
