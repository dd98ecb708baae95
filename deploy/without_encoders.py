"""Empties those libraries of PyAV's FFmpeg that only write files, play, or fetch: ds2 reads sound and no more.

    python3 deploy/without_encoders.py .../site-packages/av.libs

An emptied library has the names that the others want of it; each of its functions does nothing and returns 0. x264 and
x265, which are under the GPL, leave an image thereby. Needs binutils.
"""

import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LIBRARIES = ["x264", "x265", "SvtAv1Enc", "vpx", "vpl", "webp", "webpmux", "sharpyuv", "mp3lame"]  # encoders
LIBRARIES += ["gnutls", "asound", "drm", "xcb", "xcb-shm", "xcb-shape", "xcb-xfixes"]  # https, players, screens
ZERO = {"x86_64": "xor %eax, %eax; ret", "aarch64": "mov x0, #0; ret"}[platform.machine()]
CODE = "TWi"  # what nm calls functions; the rest are data


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(library: Path) -> Iterator[tuple[str, str, str, int]]:
    """Name, version, kind and bytes of all that a library offers, without what only old programs ask for."""
    for line in run("nm", "--dynamic", "--defined-only", "--format=posix", library).splitlines():
        name, kind, _, *size = line.split()
        name, at, version = re.fullmatch(r"([^@]+)(@*)(.*)", name).groups()
        if kind != "A" and at != "@":
            yield name, version, kind, int(size[0], 16) if size else 0


def empty(library: Path) -> None:
    offered = list(symbols(library))
    functions = [name for name, _, kind, _ in offered if kind in CODE]
    data = [(name, size) for name, _, kind, size in offered if kind not in CODE]
    lines = [f".globl {name}\n.type {name}, %function\n{name}:" for name in functions] + [ZERO, ".bss", ".balign 64"]
    lines += [f".globl {name}\n.type {name}, %object\n.size {name}, {size}\n{name}: .zero {max(size, 8)}\n.balign 64"
              for name, size in data]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        source, code, versions = (Path(folder, name) for name in ("empty.s", "empty.o", "versions"))
        source.write_text(".text\n" + "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""]))
        named = sorted({version for _, version, _, _ in offered if version})
        nodes = [f"{each} {{ global: {' '.join(f'{n};' for n, v, *_ in offered if v == each)} }};" for each in named]
        versions.write_text("\n".join(nodes))
        run("as", "-o", code, source)
        script = [f"--version-script={versions}"] if named else []
        run("ld", "-shared", "--strip-all", f"-soname={library.name}", *script, "-o", library, code)


def main(folder: Path) -> None:
    for library in sorted(folder.iterdir()):
        if re.match(r"lib([\w-]+?)-[0-9a-f]{8}\.so", library.name)[1] in LIBRARIES:
            empty(library)
    # What only the emptied ones needed.
    while unused := [each for each in folder.iterdir() if not used(each, folder)]:
        for each in unused:
            each.unlink()


def used(library: Path, folder: Path) -> bool:
    others = {*folder.iterdir(), *folder.parent.glob("av/**/*.so")} - {library}
    return any(f"[{library.name}]" in run("readelf", "--dynamic", "--wide", other) for other in others)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
