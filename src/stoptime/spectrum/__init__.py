"""From data to a spectrum: one kind of data in each file."""
