"""The reference of the site has every command, option, configuration key and package."""

import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ds2.cli.commands import all_commands
from ds2.model.config import ConvolutionConfig, FrontendConfig
from ds2.train.config import OptimizerConfig, TrainConfig

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(DOCS))
    try:
        import pages
    finally:
        sys.path.remove(str(DOCS))
    folder = tmp_path_factory.mktemp("reference")
    pages.write_reference(folder)
    return folder


def test_every_command_is_in_the_reference_with_its_example(reference: Path) -> None:
    sections = (reference / "commands.md").read_text().split("\n### ")
    found = {section.partition("\n")[0]: section for section in sections}
    for command in all_commands():
        assert f"```shell\nds2 {command}" in found[f"ds2 {command}"]
    assert "| `--hot STR` | Word or 'phrase of words' to prefer" in found["ds2 transcribe"]
    assert "| `-o, --output PATH` |" in found["ds2 transcribe"]


def test_every_key_is_in_the_reference_with_type_default_and_meaning(reference: Path) -> None:
    text = (reference / "configuration.md").read_text()
    for config in (TrainConfig, OptimizerConfig, FrontendConfig, ConvolutionConfig):
        for field in fields(config):
            assert f"| `{field.name}` | " in text or f"[{field.name}]" in text or f"[model.{field.name}" in text
    assert "| `hop` | `float` | `0.01` | seconds |" in text
    # a comment on the line before the key, not after it
    assert "| `mean` |" in text
    assert "what is subtracted from each bin" in text


def test_functions_are_in_the_reference_with_signature_and_arguments(reference: Path) -> None:
    text = (reference / "ds2.ctc.md").read_text()
    assert "{py:function} ctc_loss(logits: Tensor, targets: Tensor" in text
    assert "- `target_lengths`: (B,) labels of each utterance, 0 allowed." in text
    index = (DOCS / "index.md").read_text()
    for page in reference.glob("*.md"):
        assert f"reference/{page.stem}\n" in index, page.stem
