"""Models with names: in a configuration `[model] preset = "ds2-small"`, any other key of the section beside it."""

from ds2.model.acoustic import ModelConfig
from ds2.model.convolution import ConvolutionConfig
from ds2.model.frontend import FrontendConfig

PRESETS = {
    # The paper's research model: 100 million parameters, meant for bigrams, which allow the time stride of 3.
    "ds2-research": ModelConfig(
        convolutions=(
            ConvolutionConfig(32, (41, 11), (2, 3)),
            ConvolutionConfig(32, (21, 11), (2, 1)),
            ConvolutionConfig(96, (21, 11), (2, 1)),
        ),
        cell="rnn",
        recurrent_layers=7,
        hidden=1760,
        fully_connected=1760,
    ),
    # The paper's deployed model: forward only, so that it can stream.
    "ds2-deploy": ModelConfig(
        frontend=FrontendConfig(power="adaptive"),
        recurrent_layers=5,
        hidden=2560,
        bidirectional=False,
        lookahead=19,
        fully_connected=2560,
    ),
    "ds2-small": ModelConfig(recurrent_layers=5, hidden=360),
    "ds2-tiny": ModelConfig(
        convolutions=(ConvolutionConfig(16, (41, 11), (2, 2)), ConvolutionConfig(16, (21, 11), (2, 1))),
        recurrent_layers=3,
        hidden=128,
    ),
}
OUTPUTS = {"ds2-research": 729}  # tokens that the tables count with: characters and bigrams; all others 29
