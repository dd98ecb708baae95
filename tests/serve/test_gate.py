"""Who may come in, without sockets."""

import contextlib

import pytest
from starlette.requests import HTTPConnection

from ds2.serve.config import Limits, ServeConfig
from ds2.serve.gate import CLIENTS, Gate, Refused
from ds2.serve.metrics import Metrics


def visitor(address: str = "1.2.3.4", **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "websocket", "headers": raw, "client": (address, 5)})


def refused(gate: Gate, connection: HTTPConnection) -> Refused:
    with pytest.raises(Refused) as refusal:
        gate.check(connection)
    return refusal.value


def test_a_rate_is_of_each_client() -> None:
    gate = Gate(ServeConfig(limits=Limits(streams_per_minute=3)), Metrics())
    for _ in range(3):
        gate.check(visitor())
    refusal = refused(gate, visitor())
    assert (refusal.status, refusal.retry_after) == (429, 20)
    gate.check(visitor("1.2.3.5"))


def test_a_rate_is_of_a_key_only_where_keys_are_checked() -> None:
    open_to_all = Gate(ServeConfig(limits=Limits(streams_per_minute=1)), Metrics())
    open_to_all.check(visitor(authorization="Bearer one"))
    assert refused(open_to_all, visitor(authorization="Bearer two")).status == 429
    locked = Gate(ServeConfig(api_keys=("one", "two"), limits=Limits(streams_per_minute=1)), Metrics())
    locked.check(visitor(authorization="Bearer one"))
    locked.check(visitor(authorization="Bearer two"))
    assert refused(locked, visitor("1.2.3.5", authorization="Bearer one")).status == 429


def test_the_clients_remembered_are_bounded() -> None:
    gate = Gate(ServeConfig(), Metrics())
    for number in range(CLIENTS + 10):
        gate.check(visitor(str(number)))
    assert len(gate.tokens) == CLIENTS


def test_places_are_given_back_whatever_happens() -> None:
    gate = Gate(ServeConfig(limits=Limits(streams=1)), Metrics())
    with contextlib.suppress(KeyError), gate.enter("live"):
        assert refused(gate, visitor()).status == 503
        raise KeyError
    gate.check(visitor())


def test_an_allowed_origin() -> None:
    gate = Gate(ServeConfig(origins=("https://example.org",)), Metrics())
    gate.check(visitor(origin="https://example.org", host="localhost"))
    gate.check(visitor(origin="http://localhost:2700", host="localhost:2700"))
    for origin in ("https://example.org.evil.com", "null", "http://localhost:2701", "http://[evil"):
        assert refused(gate, visitor(origin=origin, host="localhost:2700")).status == 403


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Basic good", "Bearer good2", "Bearer goo", "Bearer gööd"])
def test_wrong_keys(given: str) -> None:
    gate = Gate(ServeConfig(api_keys=("good",)), Metrics())
    assert refused(gate, visitor(authorization=given)).status == 401
    gate.check(visitor(authorization="bearer good"))


def test_a_key_of_any_letters_as_a_subprotocol() -> None:
    gate = Gate(ServeConfig(api_keys=("a/b==, ü",)), Metrics())
    gate.check(visitor(sec_websocket_protocol="ds2, ds2.key.a%2Fb%3D%3D%2C%20%C3%BC"))
