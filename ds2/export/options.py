"""What may be asked of an export."""

from typing import Literal

Format = Literal["onnx", "sherpa", "web"]
Weights = Literal["float32", "float16", "int8"]  # how the file stores them; all arithmetic is in float32
