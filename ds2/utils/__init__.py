"""What all rooms use: errors, files, progress, typed configuration, optional packages, plots, CUDA libraries."""
