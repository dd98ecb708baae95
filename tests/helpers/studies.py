"""Studies as files."""

from pathlib import Path

from helpers.train_toml import small_toml

SPACE = '[space]\n"optimizer.learning_rate" = {choices = [1e-5, 1e-3]}\n'


def write_study(folder: Path, manifest: Path, text: str) -> Path:
    """A study of `text` over a small configuration."""
    (folder / "train.toml").write_text(small_toml(manifest))
    (folder / "study.toml").write_text(f'config = "train.toml"\n{text}')
    return folder / "study.toml"
