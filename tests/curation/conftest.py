"""The bundled model, which knows digits."""

import pytest

from ds2.recognition.recognizer import Recognizer


@pytest.fixture(scope="session")
def recognizer() -> Recognizer:
    return Recognizer.load("digits", "cpu")
