"""Training: the loop, its checkpoints, and what one sees of it."""
