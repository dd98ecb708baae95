"""Vosk's protocol, as its own test clients speak it, over real sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import websockets
from serve.conftest import RunningServer
from websockets import ClientConnection, ConnectionClosed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def socket(server: RunningServer) -> AsyncIterator[ClientConnection]:
    """A connection of a client."""
    async with websockets.connect(server.live) as socket:
        yield socket


async def tell(socket: ClientConnection, message: object) -> None:
    await socket.send(message if isinstance(message, bytes) else json.dumps(message))


async def hear(socket: ClientConnection) -> dict[str, Any]:
    return json.loads(await socket.recv())


async def lock_step(socket: ClientConnection, samples: np.ndarray, size: int = 1600) -> list[dict[str, Any]]:
    """As vosk-server's test.py: sends 0.2 s, waits for the reply, sends the next; the last reply is to eof."""
    replies = []
    data = samples.tobytes()
    for start in range(0, len(data), 2 * size):
        await tell(socket, data[start : start + 2 * size])
        replies.append(await hear(socket))
    await tell(socket, {"eof": 1})
    return [*replies, await hear(socket)]


def text_of(replies: list[dict[str, Any]]) -> str:
    return " ".join(reply["text"] for reply in replies if reply.get("text"))


async def close_code(socket: ClientConnection) -> tuple[int | None, str]:
    """What the server closes with, and its last message."""
    last = ""
    try:
        while True:
            last = str(await socket.recv())
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None, last


async def test_vosks_test_client_gets_partial_results_and_a_final_one(
    socket: ClientConnection, spoken: dict[str, np.ndarray]
) -> None:
    text, samples = next(iter(spoken.items()))
    await socket.send('{ "config" : { "sample_rate" : 8000.0 } }')
    replies = await lock_step(socket, samples)
    assert all(reply.keys() in ({"partial"}, {"result", "text"}, {"text"}) for reply in replies[:-1])
    assert any(reply.get("partial") for reply in replies)
    assert text_of(replies) == text
    words = [word for reply in replies for word in reply.get("result", [])]
    assert [word["word"] for word in words] == text.split()
    for word in words:
        assert word.keys() == {"conf", "end", "start", "word"}
        assert 0 <= word["start"] < word["end"] <= len(samples) / 8000
    assert (await close_code(socket))[0] == 1000


async def test_hot_words_are_those_of_one_stream(server: RunningServer, spoken: dict[str, np.ndarray]) -> None:
    text, samples = next(iter(spoken.items()))
    digit = text.split()[-1]
    async with websockets.connect(server.live) as socket:
        await tell(socket, {"config": {"sample_rate": 8000, "hot": [f"{digit}=-60"]}})
        found = text_of(await lock_step(socket, samples)).split()
    assert digit not in found
    assert found[:3] == text.split()[:3]
    async with websockets.connect(server.live) as socket:
        await tell(socket, {"config": {"sample_rate": 8000, "hot": ["nine", "nine unheard"]}})
        results = [result for result in await lock_step(socket, samples) if result.get("text")]
    assert results
    assert "hot: unheard: unknown to the model" in results[0]["warning"]
    assert not any("warning" in result for result in results[1:])  # it is said once
    async with websockets.connect(server.live) as socket:
        assert text_of(await lock_step(socket, samples)) == text


async def test_hot_words_that_are_no_list_are_refused(socket: ClientConnection) -> None:
    await tell(socket, {"config": {"hot": "nine"}})
    code, last = await close_code(socket)
    assert code == 1007
    assert "hot must be a list of words, got 'nine'" in last


async def test_8000_hz_is_the_default_and_eof_may_have_blanks(
    socket: ClientConnection, spoken: dict[str, np.ndarray]
) -> None:
    text, samples = next(iter(spoken.items()))
    await socket.send(samples.tobytes())
    first = await hear(socket)
    await socket.send('{"eof" : 1}')
    assert text_of([first, await hear(socket)]) == text


async def test_sound_of_a_studios_card(socket: ClientConnection, spoken: dict[str, np.ndarray]) -> None:
    text, samples = next(iter(spoken.items()))
    await tell(socket, {"config": {"sample_rate": 192_000}})
    assert text_of(await lock_step(socket, samples.repeat(24), 38_400)) == text


async def test_a_segment_ends_at_a_pause_and_the_stream_goes_on(
    socket: ClientConnection, spoken: dict[str, np.ndarray]
) -> None:
    (first, sound), (second, more) = list(spoken.items())[:2]
    replies = await lock_step(socket, np.concatenate([sound, np.zeros(16000, np.int16), more]))
    said = [reply["text"] for reply in replies if reply.get("text")]
    assert said == [first, second]
    assert replies[-1]["result"][0]["start"] > len(sound) / 8000


async def test_reset_gives_a_final_result_and_goes_on(socket: ClientConnection, spoken: dict[str, np.ndarray]) -> None:
    (first, sound), (second, more) = list(spoken.items())[:2]
    await tell(socket, sound.tobytes())
    replies = [await hear(socket)]
    await tell(socket, {"reset": 1})
    replies.append(await hear(socket))
    assert text_of(replies) == first
    assert text_of(await lock_step(socket, more)) == second


async def test_alternatives_and_no_words(socket: ClientConnection, spoken: dict[str, np.ndarray]) -> None:
    text, samples = next(iter(spoken.items()))
    await tell(socket, {"config": {"sample_rate": 8000, "words": 0, "max_alternatives": 3, "phrase_list": ["one"]}})
    last = (await lock_step(socket, samples))[-1]
    assert last["alternatives"][0]["text"] == text
    assert last["alternatives"][0].keys() == {"text", "confidence"}


async def test_numbers_as_strings_and_what_a_second_config_does_not_name(
    socket: ClientConnection, spoken: dict[str, np.ndarray]
) -> None:
    text, samples = next(iter(spoken.items()))
    await tell(socket, {"config": {"sample_rate": "16000", "max_alternatives": "3"}})
    await tell(socket, {"config": {"words": 0}})
    last = (await lock_step(socket, samples.repeat(2)))[-1]
    assert last["alternatives"][0].keys() == {"text", "confidence"}
    assert last["alternatives"][0]["text"] == text


async def test_a_config_after_sound_leaves_the_sound_as_it_is(
    socket: ClientConnection, spoken: dict[str, np.ndarray]
) -> None:
    text, samples = next(iter(spoken.items()))
    await tell(socket, samples[:4000].tobytes())
    replies = [await hear(socket)]
    await tell(socket, {"config": {"sample_rate": 16000, "words": 0, "push": 1}})
    replies += await lock_step(socket, samples[4000:])
    assert text_of(replies) == text
    assert not any("result" in reply for reply in replies)


async def test_nothing_but_eof_in_the_form_of_alternatives(socket: ClientConnection) -> None:
    await tell(socket, {"config": {"max_alternatives": 2}})
    await tell(socket, {"eof": 1})
    assert await hear(socket) == {"alternatives": [{"confidence": 0.0, "text": ""}]}


async def test_nothing_but_eof(socket: ClientConnection) -> None:
    await tell(socket, {"eof": 1})
    assert await hear(socket) == {"text": ""}
    assert (await close_code(socket))[0] == 1000


async def test_pushed_results_come_without_being_asked_for(
    socket: ClientConnection, spoken: dict[str, np.ndarray]
) -> None:
    text, samples = next(iter(spoken.items()))
    await tell(socket, {"config": {"sample_rate": 8000, "push": 1}})
    half = len(samples) // 2
    await tell(socket, samples[:half].tobytes())
    messages = [await hear(socket)]
    while not (messages[-1].get("partial") and "stable" in messages[-1]):
        messages.append(await hear(socket))
    await tell(socket, samples[half:].tobytes())
    await tell(socket, {"eof": 1})
    messages += [json.loads(message) async for message in socket]
    assert text_of(messages) == text


async def test_a_client_may_send_everything_before_it_reads(
    socket: ClientConnection, spoken: dict[str, np.ndarray]
) -> None:
    text, samples = next(iter(spoken.items()))
    arrays = np.array_split(samples, 40)
    for array in arrays:
        await tell(socket, array.tobytes())
    await tell(socket, {"eof": 1})
    replies = [json.loads(message) async for message in socket]
    assert len(replies) == len(arrays) + 1
    assert text_of(replies) == text


@pytest.mark.parametrize("size", [1, 3, 333])
async def test_half_samples_and_single_bytes(
    socket: ClientConnection, spoken: dict[str, np.ndarray], size: int
) -> None:
    text, samples = min(spoken.items(), key=lambda item: len(item[1]))
    await tell(socket, {"config": {"push": 1}})
    data = samples.tobytes()
    for start in range(0, 3000, size):
        await tell(socket, data[start : min(3000, start + size)])
    await tell(socket, data[3000:])
    await tell(socket, {"eof": 1})
    assert text_of([json.loads(message) async for message in socket]) == text


@pytest.mark.parametrize(
    ("messages", "code", "words"),
    [
        (["not json"], 1007, "JSON"),
        (["[1, 2]"], 1007, "JSON"),
        (["[" * 50000], 1007, "JSON"),
        (['{"what": 1}'], 1007, "config, reset or eof"),
        (['{"config": {"sample_rate": 3}}', b"\0\0"], 1007, "sample_rate"),
        (['{"config": {"sample_rate": "fast"}}'], 1007, "sample_rate"),
        (['{"config": {"sample_rate": null}}'], 1007, "sample_rate"),
        (['{"config": {"sample_rate": %s}}' % ("9" * 400)], 1007, "sample_rate"),
        (['{"config": {"sample_rate": NaN}}'], 1007, "sample_rate"),
        (['{"config": {"max_alternatives": -1}}'], 1007, "max_alternatives must be 0 or more, got -1"),
        (['{"config": {"encoding": []}}'], 1007, "encoding"),
        (['{"config": {"sample_rat": 16000}}'], 1007, "sample_rat"),
        (['{"config": {"encoding": "\\ud800"}}'], 1007, "encoding"),
        (['{"config": {"encoding": "%s"}}' % ("é" * 200)], 1007, "encoding"),
        (['{"config": {"encoding": "%s"}}' % ("x" * 500_000)], 1007, "encoding"),
        (['{"config": {"encoding": "mp3"}}'], 1007, "encoding"),
        (['{"config": {"encoding": "float32"}}', b"\0\0\xc0\x7f" * 10], 1011, "NaN"),
        ([bytes(10 << 20)], 1009, ""),
    ],
)
async def test_garbage_is_told_and_closes_the_connection(
    socket: ClientConnection, server: RunningServer, messages: list[str | bytes], code: int, words: str
) -> None:
    with contextlib.suppress(ConnectionClosed):  # while 10 MB are on their way
        for message in messages:
            await socket.send(message)
    found, last = await close_code(socket)
    assert found == code
    assert words in (json.loads(last)["error"] if last else "")
    assert len(last) < 200
    assert server.get("/readyz") == "ready\n"


async def test_clients_that_vanish_leave_no_stream_behind(server: RunningServer, spoken: dict[str, np.ndarray]) -> None:
    text, samples = next(iter(spoken.items()))
    sockets = [await websockets.connect(server.live) for _ in range(20)]
    for socket in sockets:
        await socket.send(samples[:9000].tobytes())
    for socket in sockets:
        socket.transport.abort()
    async with websockets.connect(server.live) as socket:
        assert text_of(await lock_step(socket, samples)) == text
    for _ in range(500):
        if server.metric("ds2_streams_open") == 0:
            return
        await asyncio.sleep(0.01)
    pytest.fail("streams stay open")


async def test_thirty_streams_at_once_hear_what_each_alone_hears(
    server: RunningServer, spoken: dict[str, np.ndarray]
) -> None:
    async def one(text: str, samples: np.ndarray, size: int) -> None:
        async with websockets.connect(server.live) as socket:
            assert text_of(await lock_step(socket, samples, size)) == text

    items = list(spoken.items())
    await asyncio.gather(*(one(*items[number % len(items)], 400 + 100 * number) for number in range(30)))
