"""What may be asked of the decoder."""

import pytest

from ds2.recognition.options import DecoderOptions
from ds2.utils.errors import ParameterError


@pytest.mark.parametrize(
    ("values", "parameter"),
    [
        ({"beam": -1}, "beam"),
        ({"beam": 1_000_001}, "beam"),
        ({"lm_weight": 1e308}, "lm_weight"),
        ({"lm_weight": float("nan")}, "lm_weight"),
        ({"word_bonus": float("inf")}, "word_bonus"),
        ({"beam": 0, "hot": ("a",)}, "beam"),
    ],
)
def test_the_wrong_parameter_is_named(values: dict[str, object], parameter: str) -> None:
    with pytest.raises(ParameterError) as caught:
        DecoderOptions(**values)  # type: ignore[arg-type]
    assert caught.value.parameter == parameter
