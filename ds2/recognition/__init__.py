"""Audio in, text out: the recogniser, what may be asked of its decoder, its transcripts, and alignment."""
