"""What deploy/test.sh asks of a running image; exits with 1 where the image fails."""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import httpx
import soundfile
import websockets

RECORDING = Path(__file__).parents[1] / "recipes" / "digits" / "audio" / "so762_000260033.opus"
TEXT = "three one seven nine"
PORT = 2790
STARTS = 3  # that are timed
# Runs in a container: an Opus file as AAC in MP4, which FFmpeg alone reads.
AS_MP4 = """
import io, sys, av
source, film = av.open(io.BytesIO(sys.stdin.buffer.read())), io.BytesIO()
with av.open(film, "w", format="mp4") as container:
    sound = container.add_stream("aac", rate=48000, layout="mono")
    fitted = av.AudioResampler(sound.codec_context.format, "mono", 48000, sound.codec_context.frame_size or 1024)
    for frame in [*source.decode(audio=0), None]:
        for part in fitted.resample(frame):
            container.mux(sound.encode(part))
    container.mux(sound.encode(None))
sys.stdout.buffer.write(film.getvalue())
"""
RUN = ["run", "--detach", "--network", "host", "--read-only", "--tmpfs", "/tmp:size=1g,mode=1777",
       "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]  # fmt: skip


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def logs(container: str) -> str:
    return subprocess.run(["docker", "logs", container], stderr=subprocess.PIPE, text=True, check=True).stderr


def started(image: str, model: str, port: int = PORT, **settings: str) -> tuple[str, float]:
    """A running container and the seconds until it took streams; `settings`: variables of ds2 serve."""
    settings = {"DS2_SERVE_PORT": str(port), "DS2_SERVE_MODEL": model, **settings}
    began = time.monotonic()
    container = docker(*RUN, *(f"--env={name}={text}" for name, text in settings.items()), image)
    while time.monotonic() < began + 120:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1)
            return container, time.monotonic() - began
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"not ready after two minutes:\n{logs(container)}")


def as_mp4(container: str) -> bytes:
    """The recording as a film without pictures."""
    command = ["docker", "exec", "--interactive", container, "python", "-c", AS_MP4]
    return subprocess.run(command, input=RECORDING.read_bytes(), stdout=subprocess.PIPE, check=True).stdout


def upload(
    port: int = PORT, name: str = RECORDING.name, content: bytes = RECORDING.read_bytes(), key: str | None = None
) -> str:
    """The text of the recording by OpenAI's protocol."""
    files = {"file": (name, content)}
    form = {"model": "whisper-1", "response_format": "json"}
    url = f"http://127.0.0.1:{port}/v1/audio/transcriptions"
    answer = httpx.post(url, data=form, files=files, headers=headers(key), timeout=60)
    return str(answer.raise_for_status().json()["text"])


def headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


async def live(
    stop: asyncio.Event | None = None, sent: asyncio.Event | None = None, port: int = PORT, key: str | None = None
) -> list[str]:
    """The texts of a live stream by Vosk's protocol.

    With `stop` the client does not end the stream: it waits for what the server sends once the stop is under way.
    """
    samples, rate = soundfile.read(RECORDING, dtype="int16")
    texts = []
    async with websockets.connect(f"ws://127.0.0.1:{port}", additional_headers=headers(key)) as socket:
        await socket.send(json.dumps({"config": {"sample_rate": rate}}))
        for start in range(0, len(samples), rate // 10):
            await socket.send(samples[start : start + rate // 10].tobytes())
        if sent is not None and stop is not None:
            sent.set()
            await stop.wait()
        else:
            await socket.send('{"eof": 1}')
        try:
            while True:
                message = json.loads(await socket.recv())
                texts += [message["text"]] if message.get("text") else []
        except websockets.ConnectionClosed:
            return texts


async def stopped_under_streams(
    end: Callable[[], object], streams: int = 5, port: int = PORT, key: str | None = None
) -> list[str]:
    """What live streams get when `end` stops the server under them."""
    stop, sent = asyncio.Event(), [asyncio.Event() for _ in range(streams)]
    clients = [asyncio.create_task(live(stop, each, port, key)) for each in sent]
    await asyncio.gather(*(each.wait() for each in sent))
    await asyncio.to_thread(end)
    stop.set()
    return [" ".join(texts) for texts in await asyncio.gather(*clients)]


def check(image: str) -> dict[str, bool]:
    container, _ = started(image, "digits-streaming")

    def end() -> None:
        docker("kill", "--signal", "TERM", container)

    try:
        return {
            "runs as 65532": docker("exec", container, "id", "-u") == "65532",
            "upload": TEXT in upload().lower(),
            "upload of MP4": TEXT in upload(name="a.mp4", content=as_mp4(container)).lower(),
            "live stream": " ".join(asyncio.run(live())) == TEXT,
            "health check": bool(docker("inspect", "--format", "{{.Config.Healthcheck}}", image)),
            "kernels come with the image": "compiling" not in logs(container),
            "finals at SIGTERM": asyncio.run(stopped_under_streams(end)) == [TEXT] * 5,
            "exit code 0": docker("wait", container) == "0",
        }
    finally:
        docker("rm", "--force", container)


def time_starts(image: str) -> None:
    """Prints how long it takes until streams are taken, and until the first text is there."""
    for _ in range(STARTS):
        container, ready = started(image, "english")
        try:
            began = time.monotonic()
            upload()
            print(
                f"english: ready after {ready:.1f} s, a first upload takes {time.monotonic() - began:.1f} s", flush=True
            )
        finally:
            docker("rm", "--force", container)


if __name__ == "__main__":
    results = check(sys.argv[1])
    for name, passed in results.items():
        print(f"{'ok' if passed else 'FAILED':6} {name}", flush=True)
    time_starts(sys.argv[1])
    sys.exit(not all(results.values()))
