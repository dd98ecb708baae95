"""Models with names: in a configuration `[model] preset = "ds2-small"`, any other key of the section beside it.

Each is a dictionary of the values in which it differs from the defaults of ModelConfig.
"""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    # The paper's research model: 100 million parameters; bigrams allow its time stride of 3.
    "ds2-research": {
        "convolutions": [
            {"channels": 32, "kernel": [41, 11], "stride": [2, 3]},
            {"channels": 32, "kernel": [21, 11], "stride": [2, 1]},
            {"channels": 96, "kernel": [21, 11], "stride": [2, 1]},
        ],
        "cell": "rnn",
        "recurrent_layers": 7,
        "hidden": 1760,
        "fully_connected": 1760,
    },
    # The paper's deployed model: forward only, so that it can stream.
    "ds2-deploy": {
        "frontend": {"power": "adaptive"},
        "recurrent_layers": 5,
        "hidden": 2560,
        "bidirectional": False,
        "lookahead": 19,
        "fully_connected": 2560,
    },
    # Its predecessor (Hannun et al. 2014): three dense layers, of which the first sees nine frames to each side, a
    # simple RNN in both directions, and another dense layer; without batch normalisation.
    "ds1": {
        "convolutions": [
            {"channels": 2048, "kernel": [0, 19], "stride": [1, 2]},
            {"channels": 2048, "kernel": [1, 1], "stride": [1, 1]},
            {"channels": 2048, "kernel": [1, 1], "stride": [1, 1]},
        ],
        "cell": "rnn",
        "recurrent_layers": 1,
        "hidden": 2048,
        "fully_connected": 2048,
        "batch_norm": False,
    },
    "ds2-small": {"recurrent_layers": 5, "hidden": 360},
    "ds2-tiny": {
        "convolutions": [
            {"channels": 16, "kernel": [41, 11], "stride": [2, 2]},
            {"channels": 16, "kernel": [21, 11], "stride": [2, 1]},
        ],
        "recurrent_layers": 3,
        "hidden": 128,
    },
}
OUTPUTS = {"ds2-research": 729}  # tokens assumed in tables of sizes: characters and bigrams; 29 for the other models
