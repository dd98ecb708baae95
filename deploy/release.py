"""Builds a release from the commit that is checked out, the same bytes each time: make release.

ds2_speech-VERSION-py3-none-any.whl, ds2_speech-VERSION.tar.gz     for the package index
ds2_speech-VERSION-cp311-cp311-manylinux_2_29_x86_64.whl           with compiled kernels, for the Python of this machine
NAME.safetensors, NAME.md, models.json                             models for ds2 models pull
ds2-VERSION-TARGET.tgz                                             images for docker load, those of --images
sbom.json                                                          what the package brings along (CycloneDX)
SHA256SUMS                                                         of all these
"""

import argparse
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from release_image import build_image
from release_wheel import add_kernels, can_link

from ds2.data.model_index import write_index
from ds2.data.verified_download import digest_of

ROOT = Path(__file__).parents[1]
BUILDER = "setuptools==84.2.1"  # another version may write other bytes


def release(output: Path, images: Sequence[str] = ()) -> None:
    """Writes all files of a release into an empty folder; `images`: targets of the Dockerfile."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct").decode().strip()
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        # Of a file's rights git keeps only whether it can be run; the rest is the same here, whatever the umask.
        with tarfile.open(fileobj=io.BytesIO(git("-c", "tar.umask=0022", "archive", "HEAD"))) as archive:
            archive.extraction_filter = getattr(tarfile, "tar_filter", None)  # which Python before 3.11.4 lacks
            archive.extractall(source)
        constraint = Path(folder, "builder.txt")
        constraint.write_text(BUILDER + "\n")
        fixed = {"SOURCE_DATE_EPOCH": seconds, "PIP_CONSTRAINT": str(constraint)}
        build = [sys.executable, "-m", "build", "--outdir", str(output), str(source)]
        subprocess.run(build, check=True, env={**os.environ, **fixed}, umask=0o022, stdout=subprocess.DEVNULL)
        for file in sorted((source / "ds2" / "models").iterdir()):
            shutil.copyfile(file, output / file.name)
        [wheel], [sdist] = output.glob("*.whl"), output.glob("*.tar.gz")
        revision, version = git("rev-parse", "HEAD").decode().strip(), wheel.name.split("-")[1]
        for target in images:
            print(f"building the image {target}", flush=True)
            build_image(source, target, version, revision, output / f"ds2-{version}-{target}.tgz", int(seconds))
    normalise(sdist, int(seconds))
    if can_link():
        print("compiling kernels for the second wheel", flush=True)
        add_kernels(wheel, int(seconds))
    else:
        print("no wheel with compiled kernels: that needs Linux on x86-64, g++ and Python's headers")
    write_index(output)
    (output / "sbom.json").write_text(bill_of_materials(wheel, int(seconds)))
    files = sorted(output.iterdir())
    (output / "SHA256SUMS").write_text("".join(f"{digest_of(file)}  {file.name}\n" for file in files))


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True).stdout


def normalise(sdist: Path, seconds: int) -> None:
    """Writes an sdist anew: sorted, without users, all files of one time, which setuptools does for a wheel alone."""
    with tarfile.open(sdist) as old:
        members = {member.name: (member, old.extractfile(member)) for member in old}
        with (
            sdist.with_suffix(".new").open("wb") as file,
            gzip.GzipFile("", "wb", 9, file, mtime=seconds) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
        ):
            for _, (member, content) in sorted(members.items()):
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mtime, member.pax_headers = seconds, {}
                new.addfile(member, content)
    sdist.with_suffix(".new").replace(sdist)


def bill_of_materials(wheel: Path, seconds: int) -> str:
    """The packages that a wheel needs and those of its users' extras (scope optional), in the versions installed here.

    Raises:
        ValueError: what was written is not valid by CycloneDX's schema.
    """
    from cyclonedx.validation.json import JsonStrictValidator  # takes seconds to import

    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    extras = set(metadata.get_all("Provides-Extra") or []) - {"dev", "docs"}
    core, all_needed = closure(metadata, set()), closure(metadata, extras)
    components = {name: component(found, ComponentScope.REQUIRED if name in core else ComponentScope.OPTIONAL)
                  for name, found in all_needed.items()}  # fmt: skip
    bom = Bom(components=components.values())
    bom.metadata.component = component(metadata, None)
    bom.metadata.timestamp = datetime.fromtimestamp(seconds, UTC)
    bom.serial_number = uuid5(NAMESPACE_URL, f"{wheel.name} {digest_of(wheel)}")
    bom.register_dependency(bom.metadata.component, [components[name] for name in direct(metadata, extras)])
    for name, found in all_needed.items():
        bom.register_dependency(
            components[name], [components[each] for each in direct(found, set()) if each in components]
        )
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"sbom.json: {error}")
    return text + "\n"


def closure(metadata: Message, extras: set[str]) -> dict[str, Message]:
    """All packages that one with this metadata needs, and their metadata, as they are installed."""
    found: dict[str, Message] = {}
    left = list(direct(metadata, extras).items())
    while left:
        name, wanted = left.pop()
        known = name in found
        found[name] = installed = distribution(name).metadata
        new = direct(installed, wanted)
        left += [(each, more) for each, more in new.items() if each not in found or (more and not known)]
    return found


def direct(metadata: Message, extras: set[str]) -> dict[str, set[str]]:
    """The packages that one names itself, each with the extras that it wants of it."""
    found: dict[str, set[str]] = {}
    for requirement in map(Requirement, metadata.get_all("Requires-Dist") or []):
        if any(requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in ["", *extras]):
            found.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
    return found


def component(metadata: Message, scope: ComponentScope | None) -> Component:
    name, version = canonicalize_name(metadata["Name"]), metadata["Version"].partition("+")[0]
    url = PackageURL("pypi", name=name, version=version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=str(url),
        purl=url,
        scope=scope,
        licenses=[LicenseFactory().make_from_string(text) for text in licences(metadata)],
    )


def licences(metadata: Message) -> Iterator[str]:
    """An SPDX expression where there is one, otherwise what the classifiers say, otherwise a short text."""
    trove = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or [] if line.startswith("License")]
    text = (metadata.get("License") or "").strip()
    if expression := metadata.get("License-Expression"):
        yield expression
    elif trove:
        yield from sorted(set(trove))
    elif text and len(text) < 100:
        yield text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("dist"), help="folder, which is made anew")
    parser.add_argument("--images", nargs="*", default=[], metavar="TARGET", help="of the Dockerfile: cpu, onnx, cuda")
    arguments = parser.parse_args()
    folder = arguments.output
    shutil.rmtree(folder, ignore_errors=True)
    release(folder, arguments.images)
    print((folder / "SHA256SUMS").read_text(), end="")
