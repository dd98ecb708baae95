"""A small configuration as a file, for tests that start real processes."""

import json
from pathlib import Path


def small_toml(manifest: Path) -> str:
    """SGD, whose updates are in proportion to the gradients; every sample of augmentation but no masks over features,
    which are drawn for each rank."""
    return (
        f"epochs = 3\nbatch_size = 4\ncheckpoint_minutes = 1e-6\n[data]\ntrain = [{json.dumps(str(manifest))}]\n"
        f"dev = {json.dumps(str(manifest))}\nworkers = 0\n[model]\nhidden = 16\nrecurrent_layers = 2\n"
        "fully_connected = 12\nrandom_walk = 2\nconvolutions = [{channels = 4, kernel = [11, 5], stride = [2, 2]}]\n"
        '[model.frontend]\nsample_rate = 8000\n[optimizer]\nname = "sgd"\nlearning_rate = 1e-4\nmomentum = 0.9\n'
        "[augment]\nfrequency_masks = 0\ntime_masks = 0\n"
    )
