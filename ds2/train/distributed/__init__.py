"""Training with several processes: the strategies, the ranks, and their benchmark."""
