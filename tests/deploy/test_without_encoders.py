"""deploy/without_encoders.py: an image reads sound as before, from films of every kind, too."""

import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import av
import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "without_encoders.py"
INSTALLED = Path(av.__file__).parents[1]
FILMS = [("a.mp4", "libx264", "aac"), ("b.mp4", "libx265", "ac3"), ("c.webm", "libvpx-vp9", "libopus")]
FILMS += [("d.mp4", "libsvtav1", "aac"), ("e.mkv", "mpeg4", "libmp3lame"), ("f.3gp", "", "libopencore_amrnb")]
READ = """
    import sys
    import av
    import numpy as np
    from ds2.audio.ffmpeg import FFmpegReader
    for path in sys.argv[1:]:
        reader = FFmpegReader(path.encode(), path)
        sys.stdout.buffer.write(np.concatenate(list(reader.buffers(0, 10**6))).tobytes())
    print(av.__file__, file=sys.stderr)
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("ld") is None or shutil.which("as") is None, reason="needs binutils"),
    pytest.mark.skipif(not (INSTALLED / "av.libs").exists(), reason="needs the wheel of PyAV for Linux"),
]


def film(path: Path, picture: str, sound: str) -> None:
    """A second of noise, with moving pictures or without."""
    random, rate = np.random.default_rng(0), 8000 if sound == "libopencore_amrnb" else 48000
    with av.open(str(path), "w") as container:
        tracks = [container.add_stream(picture, rate=10)] if picture else []
        for video in tracks:
            video.width, video.height, video.pix_fmt = 128, 96, "yuv420p"
        audio = container.add_stream(sound, rate=rate, layout="mono")
        for video in tracks:
            pixels = random.integers(0, 255, (12, 96, 128, 3), dtype=np.uint8)
            frames = [av.VideoFrame.from_ndarray(each, format="rgb24").reformat(format="yuv420p") for each in pixels]
            container.mux([packet for frame in [*frames, None] for packet in video.encode(frame)])
        noise = av.AudioFrame.from_ndarray(random.normal(0, 0.1, (1, rate)).astype(np.float32), "fltp", "mono")
        noise.sample_rate = rate
        context = audio.codec_context
        fitted = av.AudioResampler(context.format, "mono", rate, context.frame_size or 1024)
        frames = [*fitted.resample(noise), *fitted.resample(None), None]
        container.mux([packet for frame in frames for packet in audio.encode(frame)])


def heard(folder: Path, packages: Path | None) -> tuple[str, str]:
    """The sum of all sound that `packages`, or those installed here, read in the films; where its av lies."""
    places = [str(packages)] if packages else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*places, str(SCRIPT.parents[1])])}
    films = sorted(map(str, folder.iterdir()))
    command = [sys.executable, "-c", textwrap.dedent(READ), *films]
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert len(done.stdout) > 4 * 40_000 * len(FILMS) / 2
    return hashlib.sha256(done.stdout).hexdigest(), done.stderr.decode().splitlines()[-1]


def test_sound_is_read_as_before(tmp_path: Path) -> None:
    films, packages = tmp_path / "films", tmp_path / "packages"
    films.mkdir()
    for name, picture, sound in FILMS:
        film(films / name, picture, sound)
    for name in ("av", "av.libs"):
        shutil.copytree(INSTALLED / name, packages / name)
    before = sum(path.stat().st_size for path in (packages / "av.libs").iterdir())
    subprocess.run([sys.executable, str(SCRIPT), str(packages / "av.libs")], check=True)
    assert sum(path.stat().st_size for path in (packages / "av.libs").iterdir()) < before / 2
    expected, _ = heard(films, None)
    found, place = heard(films, packages)
    assert (found, place) == (expected, str(packages / "av" / "__init__.py"))
