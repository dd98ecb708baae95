"""Training by many processes: strategies, their processes, and how fast they are."""
