"""Cycles of the longest stretches of code of the CUDA kernels, computed from the machine code without a GPU.

    python benchmarks/cycles.py ctc columns [--architecture 90] [--most 4]

Since Volta an instruction says for how many cycles its warp stalls behind it, and which results of unknown delay it
waits for (Jia et al. 2018, "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", section 2.1). Added up
over a stretch without branches that is the time of a warp that has its scheduler to itself, where memory has answered
in time. Needs nvcc and cuobjdump, of the CUDA toolkit.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ds2.utils.cuda_library import FLAGS, SOURCES

DELAYS = {"SHFL": 25, "LDS": 29, "MUFU": 20, "F2I": 20, "FRND": 20}  # cycles, as measured on Hopper by several authors
LINE = re.compile(r"/\*([0-9a-f]{4,6})\*/\s+([^;]*);\s+/\* 0x[0-9a-f]{16} \*/\s+/\* 0x([0-9a-f]{16}) \*/")
NONE = 7  # of the six barriers that results of unknown delay are waited for with


class Instruction(NamedTuple):
    """One instruction: its address, text, and from its control bits the stall, the barrier it sets, those it awaits."""

    address: int
    text: str
    stall: int
    sets: int
    awaits: int

    @property
    def operation(self) -> str:
        return re.sub(r"^@!?U?P[T\d]+ ", "", self.text).split()[0].split(".")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="of csrc/, such as ctc")
    parser.add_argument("kernel", help="part of its mangled name, such as columnsIfLi2E: two pairs a thread")
    parser.add_argument("--architecture", default="90")
    parser.add_argument("--most", type=int, default=4, help="stretches to print of each kernel")
    arguments = parser.parse_args()
    for tool in ("nvcc", "cuobjdump"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} of the CUDA toolkit is not on PATH; install the toolkit or add its bin folder")
    print("| kernel | from | instructions | shuffles | cycles |\n|---|---|---|---|---|")
    for kernel, listing in kernels(arguments.library, arguments.architecture):
        if arguments.kernel in kernel:
            for part in sorted(stretches(instructions(listing)), key=len)[: -arguments.most - 1 : -1]:
                shuffles = sum(one.operation == "SHFL" for one in part)
                print(f"| {kernel} | {part[0].address:#x} | {len(part)} | {shuffles} | {cycles(part)} |")


def kernels(library: str, architecture: str) -> Iterator[tuple[str, str]]:
    """Name and listing of each kernel of csrc/LIBRARY.cu."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cubin"
        flags = [flag for flag in FLAGS if flag.startswith(("-std", "-O"))]
        source = str(SOURCES / f"{library}.cu")
        subprocess.run(["nvcc", *flags, "-cubin", f"-arch=sm_{architecture}", "-o", str(path), source], check=True)
        dump = subprocess.run(["cuobjdump", "--dump-sass", str(path)], check=True, capture_output=True, text=True)
    for listing in dump.stdout.split("Function : ")[1:]:
        yield listing.split(maxsplit=1)[0], listing


def instructions(listing: str) -> list[Instruction]:
    found = []
    for address, text, high in LINE.findall(listing):
        control = int(high, 16) >> 41
        found.append(Instruction(int(address, 16), text.strip(), control & 15, control >> 5 & 7, control >> 11 & 63))
    return found


def stretches(code: list[Instruction]) -> Iterator[list[Instruction]]:
    """The code cut where it branches, or is branched to."""
    goals = {int(goal, 16) for one in code for goal in re.findall(r"BRA.*?(0x[0-9a-f]+)", one.text)}
    part: list[Instruction] = []
    for one in code:
        if one.address in goals and part:
            yield part
            part = []
        part.append(one)
        if one.operation in ("BRA", "EXIT") and "BRA.DIV" not in one.text:
            yield part
            part = []


def cycles(part: list[Instruction]) -> int:
    now, ready = 0, [0] * 6
    for one in part:
        now = max([now, *(ready[barrier] for barrier in range(6) if one.awaits >> barrier & 1)])
        if one.sets != NONE:
            ready[one.sets] = now + DELAYS.get(one.operation, 0)
        now += max(1, one.stall)
    return now


if __name__ == "__main__":
    main()
