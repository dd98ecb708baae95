"""Admission without sockets."""

import contextlib

import pytest
from starlette.requests import HTTPConnection

from ds2.serve.admission import CLIENTS, Admission, Refused
from ds2.serve.config import Limits, ServeConfig
from ds2.serve.prometheus import Metrics


def visitor(address: str = "1.2.3.4", **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "websocket", "headers": raw, "client": (address, 5)})


def refused(admission: Admission, connection: HTTPConnection) -> Refused:
    with pytest.raises(Refused) as refusal:
        admission.check(connection)
    return refusal.value


def test_a_rate_is_of_each_client() -> None:
    admission = Admission(ServeConfig(limits=Limits(streams_per_minute=3)), Metrics())
    for _ in range(3):
        admission.check(visitor())
    refusal = refused(admission, visitor())
    assert (refusal.status, refusal.retry_after) == (429, 20)
    admission.check(visitor("1.2.3.5"))


def test_a_rate_is_of_a_key_only_where_keys_are_checked() -> None:
    open_to_all = Admission(ServeConfig(limits=Limits(streams_per_minute=1)), Metrics())
    open_to_all.check(visitor(authorization="Bearer one"))
    assert refused(open_to_all, visitor(authorization="Bearer two")).status == 429
    locked = Admission(ServeConfig(api_keys=("one", "two"), limits=Limits(streams_per_minute=1)), Metrics())
    locked.check(visitor(authorization="Bearer one"))
    locked.check(visitor(authorization="Bearer two"))
    assert refused(locked, visitor("1.2.3.5", authorization="Bearer one")).status == 429


def test_the_clients_remembered_are_bounded() -> None:
    admission = Admission(ServeConfig(), Metrics())
    for number in range(CLIENTS + 10):
        admission.check(visitor(str(number)))
    assert len(admission.streams.buckets) == CLIENTS


def test_places_are_given_back_whatever_happens() -> None:
    admission = Admission(ServeConfig(limits=Limits(streams=1)), Metrics())
    with contextlib.suppress(KeyError), admission.place(visitor(), "live"):
        assert refused(admission, visitor()).status == 503
        raise KeyError
    admission.check(visitor())


def test_an_allowed_origin() -> None:
    admission = Admission(ServeConfig(origins=("https://example.org",)), Metrics())
    admission.check(visitor(origin="https://example.org", host="localhost"))
    admission.check(visitor(origin="http://localhost:2700", host="localhost:2700"))
    for origin in ("https://example.org.evil.com", "null", "http://localhost:2701", "http://[evil"):
        assert refused(admission, visitor(origin=origin, host="localhost:2700")).status == 403


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Basic good", "Bearer good2", "Bearer goo", "Bearer gööd"])
def test_wrong_keys(given: str) -> None:
    admission = Admission(ServeConfig(api_keys=("good",)), Metrics())
    assert refused(admission, visitor(authorization=given)).status == 401
    admission.check(visitor(authorization="bearer good"))


def test_a_key_of_any_letters_as_a_subprotocol() -> None:
    admission = Admission(ServeConfig(api_keys=("a/b==, ü",)), Metrics())
    admission.check(visitor(sec_websocket_protocol="ds2, ds2.key.a%2Fb%3D%3D%2C%20%C3%BC"))


def test_one_client_does_not_take_all_places() -> None:
    admission = Admission(ServeConfig(limits=Limits(streams=10, streams_per_client=2)), Metrics())
    with contextlib.ExitStack() as inside:
        for _ in range(2):
            inside.enter_context(admission.place(visitor("1.2.3.4"), "live"))
        refusal = refused(admission, visitor("1.2.3.4"))
        assert (refusal.status, refusal.kind) == (429, "client")
        admission.check(visitor("1.2.3.5"))
    admission.check(visitor("1.2.3.4"))
    assert not admission.places


def test_one_key_does_not_take_all_places() -> None:
    limits = Limits(streams=10, streams_per_client=1)
    admission = Admission(ServeConfig(api_keys=("one", "two"), limits=limits), Metrics())
    with admission.place(visitor("1.2.3.4", authorization="Bearer one"), "live"):
        assert refused(admission, visitor("1.2.3.5", authorization="Bearer one")).kind == "client"
        admission.check(visitor("1.2.3.4", authorization="Bearer two"))


def test_the_addresses_of_an_ipv6_network_are_one_client() -> None:
    admission = Admission(ServeConfig(limits=Limits(streams_per_client=1)), Metrics())
    with admission.place(visitor("2001:db8::1"), "live"):
        assert refused(admission, visitor("2001:db8::ffff:2")).kind == "client"
        admission.check(visitor("2001:db8:0:1::1"))


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:2700", "LOCALHOST", "a.localhost", "127.0.0.1:2700", "[::1]:2700", "10.0.0.7"]
)
def test_allowed_hosts(host: str) -> None:
    Admission(ServeConfig(), Metrics()).check_request(visitor(host=host))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:2700", "localhost.evil.example", "[::1", "127.0.0.1.e", ""]
)
def test_other_hosts_are_refused_unless_the_configuration_lists_them(host: str) -> None:
    with pytest.raises(Refused, match="host name"):
        Admission(ServeConfig(), Metrics()).check_request(visitor(host=host))
    Admission(ServeConfig(hosts=("*",)), Metrics()).check_request(visitor(host="evil.example"))
    Admission(ServeConfig(hosts=("speech.example",)), Metrics()).check_request(visitor(host="speech.example:443"))


def test_who_guesses_keys_must_wait() -> None:
    """Even a right key is refused then: otherwise a guesser would learn it."""
    admission = Admission(ServeConfig(api_keys=("good",), limits=Limits(wrong_keys_per_minute=3)), Metrics())
    for _ in range(5):
        assert refused(admission, visitor()).status == 401  # without a key nothing is guessed
    for guess in "abc":
        assert refused(admission, visitor(authorization=f"Bearer {guess}")).status == 401
    refusal = refused(admission, visitor(authorization="Bearer good"))
    assert (refusal.status, refusal.retry_after) == (429, 20)
    admission.check(visitor("1.2.3.5", authorization="Bearer good"))


def test_wrong_keys_do_not_lock_out_who_was_inside_before() -> None:
    """Behind one address, such as that of an office: a known key passes, another right one waits as a guess does."""
    admission = Admission(ServeConfig(api_keys=("good", "other"), limits=Limits(wrong_keys_per_minute=3)), Metrics())
    admission.check(visitor(authorization="Bearer good"))
    for guess in "abc":
        refused(admission, visitor(authorization=f"Bearer {guess}"))
    admission.check(visitor(authorization="Bearer good"))
    for key in ("d", "other"):
        assert refused(admission, visitor(authorization=f"Bearer {key}")).status == 429


def test_what_is_known_of_addresses_is_bounded() -> None:
    admission = Admission(ServeConfig(api_keys=("good",)), Metrics())
    for number in range(CLIENTS + 10):
        admission.check_key(
            visitor(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", authorization="Bearer good")
        )
    assert len(admission.known) == CLIENTS


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_key_with_an_accent(encoding: str) -> None:
    admission = Admission(ServeConfig(api_keys=("sécret", "日本")), Metrics())
    header = [(b"authorization", "Bearer sécret".encode(encoding))]
    admission.check(HTTPConnection({"type": "websocket", "headers": header, "client": ("1.2.3.4", 5)}))
    assert refused(admission, visitor(authorization="Bearer ??")).status == 401
