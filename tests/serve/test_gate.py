"""Admission without sockets."""

import contextlib

import pytest
from starlette.requests import HTTPConnection

from ds2.serve.config import Limits, ServeConfig
from ds2.serve.gate import CLIENTS, Gate, Refused
from ds2.serve.prometheus import Metrics


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
    assert len(gate.streams.buckets) == CLIENTS


def test_places_are_given_back_whatever_happens() -> None:
    gate = Gate(ServeConfig(limits=Limits(streams=1)), Metrics())
    with contextlib.suppress(KeyError), gate.place(visitor(), "live"):
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


def test_one_client_does_not_take_all_places() -> None:
    gate = Gate(ServeConfig(limits=Limits(streams=10, streams_per_client=2)), Metrics())
    with contextlib.ExitStack() as inside:
        for _ in range(2):
            inside.enter_context(gate.place(visitor("1.2.3.4"), "live"))
        refusal = refused(gate, visitor("1.2.3.4"))
        assert (refusal.status, refusal.kind) == (429, "client")
        gate.check(visitor("1.2.3.5"))
    gate.check(visitor("1.2.3.4"))
    assert not gate.places


def test_one_key_does_not_take_all_places() -> None:
    limits = Limits(streams=10, streams_per_client=1)
    gate = Gate(ServeConfig(api_keys=("one", "two"), limits=limits), Metrics())
    with gate.place(visitor("1.2.3.4", authorization="Bearer one"), "live"):
        assert refused(gate, visitor("1.2.3.5", authorization="Bearer one")).kind == "client"
        gate.check(visitor("1.2.3.4", authorization="Bearer two"))


def test_the_addresses_of_an_ipv6_network_are_one_client() -> None:
    gate = Gate(ServeConfig(limits=Limits(streams_per_client=1)), Metrics())
    with gate.place(visitor("2001:db8::1"), "live"):
        assert refused(gate, visitor("2001:db8::ffff:2")).kind == "client"
        gate.check(visitor("2001:db8:0:1::1"))


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:2700", "LOCALHOST", "a.localhost", "127.0.0.1:2700", "[::1]:2700", "10.0.0.7"]
)
def test_allowed_hosts(host: str) -> None:
    Gate(ServeConfig(), Metrics()).check_request(visitor(host=host))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:2700", "localhost.evil.example", "[::1", "127.0.0.1.e", ""]
)
def test_other_hosts_are_refused_unless_the_configuration_lists_them(host: str) -> None:
    with pytest.raises(Refused, match="host name"):
        Gate(ServeConfig(), Metrics()).check_request(visitor(host=host))
    Gate(ServeConfig(hosts=("*",)), Metrics()).check_request(visitor(host="evil.example"))
    Gate(ServeConfig(hosts=("speech.example",)), Metrics()).check_request(visitor(host="speech.example:443"))


def test_who_guesses_keys_must_wait() -> None:
    """Even a right key is refused then: otherwise a guesser would learn it."""
    gate = Gate(ServeConfig(api_keys=("good",), limits=Limits(wrong_keys_per_minute=3)), Metrics())
    for _ in range(5):
        assert refused(gate, visitor()).status == 401  # without a key nothing is guessed
    for guess in "abc":
        assert refused(gate, visitor(authorization=f"Bearer {guess}")).status == 401
    refusal = refused(gate, visitor(authorization="Bearer good"))
    assert (refusal.status, refusal.retry_after) == (429, 20)
    gate.check(visitor("1.2.3.5", authorization="Bearer good"))


def test_wrong_keys_do_not_lock_out_who_was_inside_before() -> None:
    """Behind one address, such as that of an office: a known key passes, another right one waits as a guess does."""
    gate = Gate(ServeConfig(api_keys=("good", "other"), limits=Limits(wrong_keys_per_minute=3)), Metrics())
    gate.check(visitor(authorization="Bearer good"))
    for guess in "abc":
        refused(gate, visitor(authorization=f"Bearer {guess}"))
    gate.check(visitor(authorization="Bearer good"))
    for key in ("d", "other"):
        assert refused(gate, visitor(authorization=f"Bearer {key}")).status == 429


def test_what_is_known_of_addresses_is_bounded() -> None:
    gate = Gate(ServeConfig(api_keys=("good",)), Metrics())
    for number in range(CLIENTS + 10):
        gate.check_key(visitor(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", authorization="Bearer good"))
    assert len(gate.known) == CLIENTS


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_key_with_an_accent(encoding: str) -> None:
    gate = Gate(ServeConfig(api_keys=("sécret", "日本")), Metrics())
    header = [(b"authorization", "Bearer sécret".encode(encoding))]
    gate.check(HTTPConnection({"type": "websocket", "headers": header, "client": ("1.2.3.4", 5)}))
    assert refused(gate, visitor(authorization="Bearer ??")).status == 401
