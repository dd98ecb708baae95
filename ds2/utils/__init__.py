"""Modules that all packages use: errors, files, progress, configuration, optional packages, plots, CUDA libraries."""
