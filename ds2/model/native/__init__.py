"""The deployed model on NumPy and numba, without PyTorch: the layers of ds2/model, frame by frame in memory.

Activations are (B, T, D) float32. D is bins, then channels, so that a kernel finds the frames that it covers side by
side. A layer takes frames with their context, zeros offline and the past in a live stream, and gives those between.
"""
