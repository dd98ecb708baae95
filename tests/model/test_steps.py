"""The sizes of live steps, by hand."""

from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.steps import Steps

FRONTEND = FrontendConfig(8000, power="adaptive")  # windows of 160 samples, every 80
THREE = (ConvolutionConfig(1, (11, 5), (2, 3)),)  # an output frame every 3 frames


def test_a_forward_only_model_takes_so_many_frames_in_whole_output_frames() -> None:
    model = ModelConfig(FRONTEND, THREE, bidirectional=False, lookahead=4)
    steps = Steps(hop=80, overlap=80, stride=3, delay=4, frames=12, long_frames=48, least_frames=12)
    assert Steps.of(model) == steps
    assert Steps.of(model, 10, 20) == Steps(80, 80, 3, 4, 12, 21, 12)


def test_a_model_with_a_chunk_takes_that_and_at_the_end_less() -> None:
    steps = Steps.of(ModelConfig(FRONTEND, THREE, chunk=32))
    assert (steps.frames, steps.long_frames, steps.least_frames) == (96, 96, 12)


def test_samples_of_frames_and_output_frames() -> None:
    steps = Steps.of(ModelConfig(FRONTEND, THREE, bidirectional=False))
    assert [steps.samples(frames) for frames in (1, 12)] == [160, 80 * 12 + 80]
    assert [steps.outputs(frames) for frames in (0, 1, 3, 4)] == [0, 1, 1, 2]
