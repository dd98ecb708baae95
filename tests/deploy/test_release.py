"""deploy/release.py: what the SBOM says of a wheel, and the files of images. tests/release.sh builds whole releases."""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

sys.path.insert(0, str(Path(__file__).parents[2] / "deploy"))
from release import bill_of_materials
from release_image import normalise

METADATA = """\
Metadata-Version: 2.4
Name: some-speech
Version: 1.2.3
License-Expression: Apache-2.0
Provides-Extra: serve
Provides-Extra: dev
Requires-Dist: rich>=10
Requires-Dist: numpy; sys_platform == "nowhere"
Requires-Dist: uvicorn; extra == "serve"
Requires-Dist: pytest; extra == "dev"
"""


def test_the_sbom_holds_what_a_wheel_brings_along(tmp_path: Path) -> None:
    """Rich with what it needs itself; of the extras what is for users; nothing that the platform leaves out."""
    wheel = tmp_path / "some_speech-1.2.3-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("some_speech-1.2.3.dist-info/METADATA", METADATA)
    text = bill_of_materials(wheel, 0)
    bill = json.loads(text)
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/some-speech@1.2.3"
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    assert scopes == dict.fromkeys(("rich", "markdown-it-py", "mdurl", "pygments"), "required") | dict.fromkeys(
        ("uvicorn", "click", "h11"), "optional"
    )
    needs = {each["ref"].partition("@")[0]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert [each.partition("@")[0] for each in needs["pkg:pypi/some-speech"]] == ["pkg:pypi/rich", "pkg:pypi/uvicorn"]
    assert [each.partition("@")[0] for each in needs["pkg:pypi/markdown-it-py"]] == ["pkg:pypi/mdurl"]
    assert all(each["licenses"] for each in bill["components"])
    assert text == bill_of_materials(wheel, 0)


def saved(path: Path, seconds: int, names: list[str], user: str) -> None:
    """An image with two layers as `docker save` writes it."""
    with tarfile.open(path, "w") as archive:

        def add(name: str, data: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), seconds
            archive.addfile(member, io.BytesIO(data))

        layers = [layer(seconds, names, user), layer(seconds, ["opt"], user)]
        for number, data in enumerate(layers):
            add(f"{number}/layer.tar", data)
        sums = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in layers]
        created = f"2026-01-01T00:00:{seconds % 60:02}Z"
        description = {
            "architecture": "amd64", "os": "linux", "config": {"User": "65532"}, "created": created,
            "container": f"of {seconds}", "history": [{"created": created, "created_by": "COPY / /"}],
            "rootfs": {"type": "layers", "diff_ids": sums},
        }  # fmt: skip
        add("config.json", json.dumps(description).encode())
        manifest = {"Config": "config.json", "RepoTags": ["ds2:1"], "Layers": ["0/layer.tar", "1/layer.tar"]}
        add("manifest.json", json.dumps([manifest]).encode())


def layer(seconds: int, names: list[str], user: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.uid, member.uname, member.mtime = 7, user, 1000 if name == "old" else seconds
            if name == "linked":
                member.type, member.linkname = tarfile.LNKTYPE, "zoo"
            member.size = 0 if name == "linked" else len(name)
            archive.addfile(member, None if name == "linked" else io.BytesIO(name.encode()))
    return file.getvalue()


def test_an_image_is_the_same_bytes_whenever_and_in_whatever_order_it_was_built(tmp_path: Path) -> None:
    """Two builds differ in times, the order of files and names of users; docker finds each layer by its sum."""
    for number, (seconds, names, user) in enumerate(
        [(2_000_000_001, ["zoo", "old", "linked"], "root"), (2_000_000_002, ["old", "zoo", "linked"], "toor")]
    ):
        saved(tmp_path / f"{number}.tar", seconds, names, user)
        normalise(tmp_path / f"{number}.tar", tmp_path / f"{number}.tgz", 1_900_000_000)
    assert (tmp_path / "0.tgz").read_bytes() == (tmp_path / "1.tgz").read_bytes()
    with tarfile.open(tmp_path / "0.tgz") as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    [image] = json.loads(files["manifest.json"])
    description = json.loads(files[image["Config"]])
    assert description["config"] == {"User": "65532"}
    assert "container" not in description
    assert description["created"] == description["history"][0]["created"] == "2030-03-17T17:46:40Z"
    sums = [f"sha256:{hashlib.sha256(files[name]).hexdigest()}" for name in image["Layers"]]
    assert sums == description["rootfs"]["diff_ids"]
    with tarfile.open(fileobj=io.BytesIO(files[image["Layers"][0]])) as inner:
        assert [(each.name, each.mtime, each.uid, each.uname) for each in inner] == [
            ("old", 1000, 7, ""), ("zoo", 1_900_000_000, 7, ""), ("linked", 1_900_000_000, 7, ""),
        ]  # fmt: skip
        assert inner.extractfile("linked").read() == b"zoo"  # type: ignore[union-attr]
