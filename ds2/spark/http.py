"""HttpTranscriber: transcripts by a server, `ds2 serve` or another one with OpenAI's endpoint."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
import uuid
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import PurePath

from ds2.audio.files import InMemory
from ds2.spark.executor_work import Row, Settings
from ds2.spark.recording_stage import RecordingStage, recording
from ds2.spark.stage import Setting, number, text, whole
from ds2.spark.transcriber import TRANSCRIPT
from ds2.utils.errors import InputError

KEY_VARIABLE = "DS2_API_KEY"  # in the executors' environment: a key in a setting would be saved with the stage
WAIT_SECONDS = 5.0  # before another try, where the server does not say how long
LONGEST_WAIT = 300.0  # seconds, whatever the server says
LONGEST_ANSWER = 100_000_000  # bytes: a day's words
BUSY = (429, 503, 507)  # answers after which a request is sent again
FIELDS = {"model": "whisper-1", "response_format": "verbose_json", "timestamp_granularities[]": "word"}


def send_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[Row | InputError]:
    """Runs on an executor: up to `concurrency` requests at a time, results in order."""
    with ThreadPoolExecutor(settings["concurrency"]) as threads:
        waiting: deque[Future[Row | InputError]] = deque()
        for row in rows:
            waiting.append(threads.submit(transcribe_by_server, settings, row))
            if len(waiting) == settings["concurrency"]:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def transcribe_by_server(settings: Settings, row: Row) -> Row | InputError:
    """The transcript of one recording, or why there is none."""
    source = recording(row)
    try:
        data = source.data if isinstance(source, InMemory) else source.path.read_bytes()
        return _transcript(json.loads(_server_answer(settings, str(source), data)))
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "reason", None) or error
        return InputError(f"{row['path'] or 'recording'}: {settings['url']} gave no transcript: {reason!s:.200}")


def _server_answer(settings: Settings, name: str, data: bytes) -> bytes:
    """The body of the server's answer; a server that is busy is asked again.

    Raises:
        OSError: no connection, or an answer other than 200.
    """
    request = _request(settings["url"], PurePath(name).name, data)
    for tries_left in reversed(range(settings["retries"] + 1)):
        try:
            with urllib.request.urlopen(request, timeout=settings["timeout"]) as response:
                answer = bytes(response.read(LONGEST_ANSWER + 1))
                if len(answer) > LONGEST_ANSWER:
                    raise OSError(f"an answer of more than {LONGEST_ANSWER} bytes")
                return answer
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in BUSY or not tries_left:
                    raise OSError(f"{error.code}, {error.read(300).decode(errors='replace')}") from error
                wait = error.headers.get("Retry-After", "")
            time.sleep(min(float(wait), LONGEST_WAIT) if wait.isdecimal() else WAIT_SECONDS)
    raise AssertionError("the last try returns or raises")


def _request(url: str, name: str, data: bytes) -> urllib.request.Request:
    """multipart/form-data with a file and FIELDS."""
    boundary = uuid.uuid4().hex
    disposition = f"--{boundary}\r\nContent-Disposition: form-data; name="
    fields = "".join(f'{disposition}"{key}"\r\n\r\n{value}\r\n' for key, value in FIELDS.items())
    quoted = name.replace("\\", "").replace('"', "").encode("utf-8", "replace").decode()
    file = f'{disposition}"file"; filename="{quoted}"\r\nContent-Type: application/octet-stream\r\n\r\n'
    body = (fields + file).encode() + data + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    if key := os.environ.get(KEY_VARIABLE):
        headers["Authorization"] = f"Bearer {key}"
    return urllib.request.Request(f"{url.rstrip('/')}/v1/audio/transcriptions", body, headers)


def _transcript(answer: Row) -> Row:
    words = [
        {
            "text": str(word["word"]),
            "start": float(word["start"]),
            "end": float(word["end"]),
            "confidence": None,
            "speaker": None,
        }
        for word in answer.get("words", [])
    ]
    return {"text": str(answer["text"]), "words": words, "duration": float(answer["duration"])}


class HttpTranscriber(RecordingStage):
    """Sends recordings to a server; the result is that of SpeechTranscriber, without confidence, and the text
    as the server shows it, ds2 serve with punctuation.

    An API key is read from the environment variable DS2_API_KEY of the executors.
    """

    url = Setting("address of the server", text, "http://127.0.0.1:2700")
    concurrency = Setting("requests of a task at a time", whole, 4)
    timeout = Setting("seconds to wait for an answer", number, 300.0)
    retries = Setting("times that a recording is sent again to a server that is busy", whole, 5)
    work = staticmethod(send_rows)
    kind = TRANSCRIPT
