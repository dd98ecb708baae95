"""Log-probabilities -> hypotheses. Knows no audio and no text, only token indices and output frames."""
