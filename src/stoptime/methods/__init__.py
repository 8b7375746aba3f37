"""The methods: one formula each, no data."""
