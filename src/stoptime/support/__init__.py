"""Tools that every other package may use: arrays, files, progress, words and figures."""
