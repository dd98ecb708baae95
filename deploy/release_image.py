"""An image as a file for docker load, the same bytes each time.

    docker load --input ds2-0.2.0-cpu.tgz

Needs a docker daemon. Debian's packages are those of the day, Python's those of constraints.txt.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

KEPT = ("architecture", "config", "os", "variant")  # of an image's description; the rest is of its building


def build_image(source: Path, target: str, version: str, revision: str, output: Path, seconds: int) -> None:
    """Builds a target of the Dockerfile and writes it as a file. BASE and BUILD are those of test.sh.

    Args:
        source: the files of the release, and nothing else.
        seconds: since 1970, the time of all that the image holds.
    """
    tag = f"ds2:{version}-{target}"
    base = os.environ.get("BASE", "debian:bookworm-slim")
    arguments = [f"BASE={base}", f"VERSION={version}", f"REVISION={revision}"]
    command = ["docker", "build", "--quiet", "--network", "host", "--file", "deploy/Dockerfile", "--target", target]
    command += ["--tag", tag, *(f"--build-arg={each}" for each in arguments), *os.environ.get("BUILD", "").split(), "."]
    subprocess.run(
        command, check=True, cwd=source, stdout=subprocess.DEVNULL, env={**os.environ, "DOCKER_BUILDKIT": "1"}
    )
    saved = output.with_suffix(".saved")
    try:
        subprocess.run(["docker", "save", "--output", str(saved), tag], check=True)
        normalise(saved, output, seconds)
    finally:
        saved.unlink(missing_ok=True)


def normalise(saved: Path, output: Path, seconds: int) -> None:
    """Writes what `docker save` wrote of an image anew: layers sorted, no file later than `seconds`, no other times."""
    with (
        tarfile.open(saved) as old,
        output.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        [image] = json.loads(content(old, "manifest.json"))
        description = json.loads(content(old, image["Config"]))
        names, sums = [], []
        for name in image["Layers"]:
            layer = normalised_layer(content(old, name), seconds)
            sums.append(hashlib.sha256(layer).hexdigest())
            names.append(f"{sums[-1]}.tar")
            add(new, names[-1], layer, seconds)
        fixed = described(description, sums, seconds)
        configuration = f"{hashlib.sha256(fixed).hexdigest()}.json"
        add(new, configuration, fixed, seconds)
        manifest = [{"Config": configuration, "RepoTags": image["RepoTags"], "Layers": names}]
        add(new, "manifest.json", json.dumps(manifest).encode(), seconds)


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None, name
    return file.read()


def add(archive: tarfile.TarFile, name: str, data: bytes, seconds: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(data), seconds
    archive.addfile(member, io.BytesIO(data))


def normalised_layer(layer: bytes, seconds: int) -> bytes:
    """Its files sorted, hard links behind what they link to; names of users and times of reading are left out."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(layer)) as old,
        tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: (each.islnk(), each.name)):
            data: IO[bytes] | None = old.extractfile(member) if member.isreg() else None
            member.uname = member.gname = ""
            member.mtime = min(int(member.mtime), seconds)
            attributes = {key: text for key, text in member.pax_headers.items() if key.startswith("SCHILY.xattr.")}
            member.pax_headers = attributes
            new.addfile(member, data)
    return written.getvalue()


def described(description: dict[str, Any], sums: list[str], seconds: int) -> bytes:
    """What runs, on which layers, made by which steps."""
    created = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {key: description[key] for key in KEPT if key in description}
    history = [{**step, "created": created} for step in description["history"]]
    layers = {"type": "layers", "diff_ids": [f"sha256:{each}" for each in sums]}
    return json.dumps({**kept, "created": created, "history": history, "rootfs": layers}, sort_keys=True).encode()
