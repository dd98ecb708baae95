"""Acoustic models: samples or frames in, log-probabilities out. Knows no files, no text, no servers."""
