"""Checkpoints: whole, checked, and refused in one line where they are not."""

import io
import random
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from helpers.training import Manifests, augmented_config

from ds2.train.checkpoint import load_checkpoint, save_checkpoint
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError

STATE = {"weights": torch.arange(2000.0), "step": 7, "name": "a"}


def same(one: dict, other: dict) -> bool:
    rest = {key: value for key, value in one.items() if key != "weights"}
    return torch.equal(one["weights"], other["weights"]) and rest == {key: other[key] for key in rest}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "checkpoint.pt", STATE)
    assert same(load_checkpoint(tmp_path / "checkpoint.pt", "weights"), STATE)


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    """Flips 300 random bits; those in the weights are all refused. Fails if torch stops writing CRC-32."""
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    start = whole.index(STATE["weights"].numpy().tobytes())  # type: ignore[attr-defined]
    rng, refused = random.Random(0), 0
    for place in [rng.randrange(len(whole)) for _ in range(200)] + [start + rng.randrange(8000) for _ in range(100)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        found = loaded_or_none(path)
        assert found is None or (same(found, STATE) and not start <= place < start + 8000), place
        refused += found is None
    assert refused > 150


def loaded_or_none(path: Path) -> dict | None:
    """None where it is refused in one line."""
    try:
        return load_checkpoint(path, "weights", "step", "name")
    except InputError as error:
        if "\n" in str(error):
            raise
        return None


def rewritten(path: Path, pickled: bytes | None = None, compression: int = zipfile.ZIP_STORED) -> bytes:
    """A checkpoint with the same parts, with other values or packed."""
    changed = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, pickled if pickled and name.endswith("data.pkl") else old.read(name))
    return changed.getvalue()


def bombs(path: Path) -> dict[str, bytes]:
    """A few thousand bytes of a checkpoint each, for hundreds of megabytes of memory or more."""
    save_checkpoint(path, {"a": torch.zeros(1).expand(1 << 40)})
    found = {"expanded": path.read_bytes()}
    wide = torch.zeros(100)
    save_checkpoint(path, {"a": [wide[number % 2 :] for number in range(50)]})
    found["overlapping"] = path.read_bytes()
    save_checkpoint(path, {"a": torch.zeros(500_000)})
    found["packed"] = rewritten(path, compression=zipfile.ZIP_DEFLATED)
    save_checkpoint(path, {"a": torch.zeros(1)})
    size = struct.pack("<i", 1 << 28)
    head = b"\x80\x02}X\x01\0\0\0a"
    found["bytearray"] = rewritten(path, head + b"cbuiltins\nbytearray\nJ" + size + b"\x85Rs.")
    found["untyped"] = rewritten(path, head + b"ctorch\nUntypedStorage\nJ" + size + b"\x85Rs.")
    legacy = io.BytesIO()
    torch.save({"a": torch.zeros(1)}, legacy, _use_new_zipfile_serialization=False)
    found["two forms"] = legacy.getvalue() + path.read_bytes()
    return found


@pytest.mark.parametrize("bomb", ["expanded", "overlapping", "packed", "bytearray", "untyped", "two forms"])
def test_what_claims_more_than_the_file_holds_is_refused(bomb: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(bombs(path)[bomb])
    with pytest.raises(InputError, match=r"damaged checkpoint, .*; remove it"):
        load_checkpoint(path, "a")


@pytest.mark.parametrize("content", [{}, [], 5, {"fingerprint": {}, "state": {}, "replicas": [], "random": []}])
def test_something_else_in_a_checkpoints_place_is_one_line(
    spoken_digits: Manifests, tmp_path: Path, content: object
) -> None:
    (tmp_path / "run").mkdir()
    torch.save(content, tmp_path / "run" / "checkpoint.pt")
    with pytest.raises(InputError, match=r"checkpoint\.pt: ") as refusal:
        Trainer(augmented_config(spoken_digits(4)), tmp_path / "run")
    assert "\n" not in str(refusal.value)


def test_a_state_of_another_form_is_one_line(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = augmented_config(spoken_digits(4), epochs=1)
    Trainer(config, tmp_path / "run").run()
    path = tmp_path / "run" / "checkpoint.pt"
    saved = load_checkpoint(path)
    for part, value in (("state", {"epochs": 3}), ("replicas", [{}]), ("replicas", [])):
        torch.save({**saved, part: value}, path)
        with pytest.raises(InputError, match=r"checkpoint\.pt: not a checkpoint of this version"):
            Trainer(config, tmp_path / "run")


def test_damaged_checkpoint_is_one_line(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = augmented_config(spoken_digits(4), epochs=1)
    Trainer(config, tmp_path / "run").run()
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"checkpoint\.pt: damaged"):
        Trainer(config, tmp_path / "run")
