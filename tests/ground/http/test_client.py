"""Whoever is asked over HTTP, and does not answer as it should: there is an end to it in time."""

import select
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ground.http.client import (
    HttpAnswer,
    HttpClient,
    HttpError,
    HttpUrl,
    NoAnswer,
    NotHttp,
    NotReached,
    NotTrusted,
    TimedOut,
    TooLarge,
    parse_program_url,
    parse_url,
)
from tests.ground.peers import Peer, answer, peer, request

NOT_HTTP = "it does not speak HTTP"

LONG = 30.0
SHORT = 0.3
OK = b"HTTP/1.1 200 OK\r\n"
LENGTHLESS = OK + b"\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
# Of no use elsewhere: everyone has its key.
CERTIFICATE = Path(__file__).parents[2] / "schemas" / "localhost.pem"


def at(port: int, scheme: str = "http", **more: str) -> HttpUrl:
    return HttpUrl(scheme, "127.0.0.1", port, **more)


def asked(port: int, *, within: float = LONG, most_bytes: int = 1_000) -> HttpAnswer:
    with HttpClient(at(port), most_bytes=most_bytes) as client:
        return client.ask("GET", "/x", within=within)


def sends(content: bytes) -> Peer:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(content)

    return serve


def dribble(connection: socket.socket, part: bytes) -> None:
    """A part every now and then, for ever."""
    connection.settimeout(0.02)
    while True:
        connection.sendall(part)
        try:
            if not connection.recv(1):
                return
        except TimeoutError:
            continue


def dribbles(begin: bytes, part: bytes) -> Peer:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(begin)
        dribble(connection, part)

    return serve


def floods(begin: bytes, part: bytes) -> Peer:
    """As fast as it can, for ever."""

    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(begin)
        while True:
            connection.sendall(part * 1_000)

    return serve


def says_nothing(connection: socket.socket) -> None:
    while connection.recv(65_536):
        pass


def dribbles_tls(connection: socket.socket) -> None:
    """The head of a long record, and then, now and then, a byte of it."""
    connection.recv(65_536)
    connection.sendall(b"\x16\x03\x03\x3f\xff")
    dribble(connection, b"\x02")


def reads_nothing(connection: socket.socket) -> None:
    """Until the other end is gone."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll(60_000)


def reads_slowly(connection: socket.socket) -> None:
    """A megabyte a second, with no long pause."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
    while connection.recv(20_000):
        time.sleep(0.02)


@contextmanager
def ends_in_time(error: type[HttpError], why: str) -> Iterator[None]:
    began = time.monotonic()
    with pytest.raises(HttpError, match=why) as raised:
        yield
    # Longer than it may take, on a busy machine, and shorter than if it were waited for.
    assert time.monotonic() - began < 15
    assert isinstance(raised.value, error)
    assert str(raised.value) == f"{raised.value.url}: {raised.value.why}"


@contextmanager
def full() -> Iterator[int]:
    """The port of somebody who takes no connection any more, and refuses none."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        while True:
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.2)
            try:
                waiting.connect(listener.getsockname())
            except TimeoutError:
                break
        yield listener.getsockname()[1]


def believing() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CERTIFICATE)


def serving() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


# Answers


def test_an_answer_is_of_any_status_and_followed_nowhere() -> None:
    with peer(sends(answer(b"yes", status="302 Found\r\nLocation: http://127.0.0.1:1/"))) as port:
        assert asked(port) == HttpAnswer(302, "Found", b"yes")


def test_what_is_sent() -> None:
    heads = []

    def serve(connection: socket.socket) -> None:
        while head := request(connection):
            heads.append(head)
            connection.sendall(answer(b""))

    with peer(serve) as port:
        url = at(port, path="/below", user="me:sécret")
        with HttpClient(url) as client:
            client.ask("GET", "/x?y=1", within=LONG)
            client.ask("POST", "?y", b"1", within=LONG, headers={"Content-Type": "a/b"})
        with HttpClient(at(port)) as client:
            client.ask("GET", "", within=LONG)
            client.ask("GET", "?y", within=LONG)
    lines = [set(head.decode().split("\r\n\r\n")[0].split("\r\n")) for head in heads]
    authorized = f"Authorization: Basic {b64encode('me:sécret'.encode()).decode()}"
    common = {f"Host: 127.0.0.1:{port}", "Accept-Encoding: identity"}
    accepted = common | {"Accept: application/json"}
    assert lines == [
        accepted | {"GET /below/x?y=1 HTTP/1.1", authorized},
        common | {"POST /below?y HTTP/1.1", authorized, "Content-Type: a/b", "Content-Length: 1"},
        accepted | {"GET / HTTP/1.1"},
        accepted | {"GET /?y HTTP/1.1"},
    ]


@pytest.mark.parametrize(
    "content",
    [
        answer(b"x" * 1_000),
        LENGTHLESS + b"x" * 1_000,
        CHUNKED + b"3e7\r\n" + b"x" * 999 + b"\r\n1;a=b\r\nx\r\n0\r\nA: b\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"x" * 1_000),
    ],
)
def test_a_body_may_be_as_large_as_is_allowed(content: bytes) -> None:
    with peer(sends(content)) as port:
        assert asked(port).body == b"x" * 1_000


def test_a_body_that_is_not_wanted_is_not_waited_for() -> None:
    with peer(dribbles(LENGTHLESS, b"x")) as port, HttpClient(at(port)) as client:
        answers = [client.ask("GET", "/", within=LONG, whole=False) for _ in range(2)]
        assert answers == [HttpAnswer(200, "OK", b"")] * 2


def test_content_larger_than_any_buffer() -> None:
    sent = b"x" * (8 << 20)
    received = []

    def serve(connection: socket.socket) -> None:
        head, _, body = (read := request(connection)).partition(b"\r\n\r\n")
        assert b"Content-Length: 8388608" in head
        while len(body) < len(sent):
            body += connection.recv(1 << 20)
        received.append(body)
        connection.sendall(answer(read[:4]))

    with peer(serve) as port, HttpClient(at(port)) as client:
        assert client.ask("POST", "/", sent, within=LONG).body == b"POST"
    assert received == [sent]


# Connections


def test_a_connection_is_kept_and_made_anew_when_it_was_closed() -> None:
    connections = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        for _ in range(2):
            request(connection)
            connection.sendall(answer(b"%d" % len(connections)))

    with peer(serve) as port, HttpClient(at(port)) as client:
        assert [client.ask("GET", "/", within=LONG).body for _ in range(4)] == [
            *(b"1", b"1", b"2", b"2")
        ]


def test_a_connection_that_ends_under_a_request_is_made_anew_once() -> None:
    heads = []

    def serve(connection: socket.socket) -> None:
        heads.append(request(connection))
        connection.sendall(answer(b"yes"))
        heads.append(request(connection))

    with peer(serve) as port, HttpClient(at(port)) as client:
        for _ in range(3):
            assert client.ask("GET", "/", within=LONG).body == b"yes"
    assert [bool(head) for head in heads] == [True, True, True, True, True, False]


def test_what_must_not_be_served_twice_is_sent_once_and_on_no_kept_connection() -> None:
    heads, kept = [], []

    def serve(connection: socket.socket) -> None:
        heads.append(request(connection))
        if len(heads) == 1:
            connection.sendall(answer(b"yes"))
            kept.append(connection.dup())

    with peer(serve) as port, HttpClient(at(port)) as client:
        client.ask("GET", "/", within=LONG)
        with ends_in_time(NoAnswer, "remote end closed connection without response"):
            client.ask("DELETE", "/", within=LONG, repeatable=False)
    assert [head[:4] for head in heads] == [b"GET ", b"DELE"]
    (open_still,) = kept
    with open_still:
        assert open_still.recv(1) == b""


@pytest.mark.parametrize("pause", [0, 0.05], ids=["at once", "later"])
def test_what_comes_behind_an_answer_answers_nothing(pause: float) -> None:
    """A length that is a lie, or somebody who speaks without being asked."""
    come = threading.Event()

    def serve(connection: socket.socket) -> None:
        while request(connection):
            connection.sendall(answer(b"yes") + (b"" if pause else answer(b"no")))
            if pause:
                time.sleep(pause)
                connection.sendall(answer(b"no"))
            come.set()

    with peer(serve) as port, HttpClient(at(port)) as client:
        for _ in range(3):
            assert client.ask("GET", "/", within=LONG).body == b"yes"
            assert come.wait(LONG)
            come.clear()


def test_a_server_that_closes_each_connection() -> None:
    with (
        peer(sends(OK + b"Connection: close\r\n\r\nyes")) as port,
        HttpClient(at(port)) as client,
    ):
        assert [client.ask("GET", "/", within=LONG).body for _ in range(2)] == [b"yes", b"yes"]


def test_a_closed_client_keeps_nothing() -> None:
    ended = []

    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(answer(b""))
        ended.append(request(connection))

    with peer(serve) as port:
        client = HttpClient(at(port))
        client.close()
        for _ in range(2):
            client.ask("GET", "/", within=LONG)
    assert ended == [b"", b""]


# What is no answer


@pytest.mark.parametrize(
    ("content", "error", "why"),
    [
        (b"", NoAnswer, "remote end closed connection without response"),
        (b"SSH-2.0-OpenSSH\r\n", NotHttp, r"it does not speak HTTP \(BadStatusLine\)$"),
        (b"\0\0\0\x10kafka says no", NotHttp, NOT_HTTP),
        (b"\x15\x03\x01\0\x02\x02\x46", NotHttp, r"but TLS: https:// instead of http://\?"),
        (OK + b"X: " + b"x" * 100_000 + b"\r\n\r\n", NotHttp, NOT_HTTP),
        (OK + b"X: x\r\n" * 1_000 + b"\r\n", NotHttp, NOT_HTTP),
        (OK + (b"X: " + b"x" * 9_000 + b"\r\n") * 90, NotHttp, r"not speak HTTP \(LineTooLong\)"),
        (OK, NoAnswer, "the response was cut off"),
        (OK + b"Content-Length: 1", NoAnswer, "the response was cut off"),
        (answer(b"short", length=100), NoAnswer, "the response was cut off"),
        (CHUNKED + b"5\r\nsho", NoAnswer, "the response was cut off"),
        (CHUNKED + b"zz\r\nsho", NoAnswer, "the response was cut off"),
        (answer(b"", length=1_001), TooLarge, "its response has more than 1,000 bytes"),
        (answer(b"", length=10**12), TooLarge, "its response has more than 1,000 bytes"),
        (LENGTHLESS + b"x" * 1_001, TooLarge, "its response has more than 1,000 bytes"),
        (CHUNKED + b"ffffffffffff\r\n" + b"x" * 1_001, TooLarge, "has more than 1,000 bytes"),
    ],
)
def test_what_is_no_answer(content: bytes, error: type[HttpError], why: str) -> None:
    with peer(sends(content)) as port, ends_in_time(error, why):
        asked(port)


NO_ANSWER = rf"no answer within {SHORT} s"


@pytest.mark.parametrize(
    ("serve", "error", "why"),
    [
        (says_nothing, TimedOut, NO_ANSWER),
        (dribbles(b"", b"H"), TimedOut, NO_ANSWER),
        (dribbles(OK, b"a"), TimedOut, NO_ANSWER),
        (dribbles(OK, b"a: b\r\n"), TimedOut, NO_ANSWER),
        (dribbles(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), TimedOut, NO_ANSWER),
        (dribbles(answer(b"", length=900), b"x"), TimedOut, NO_ANSWER),
        (dribbles(LENGTHLESS, b"x"), TimedOut, NO_ANSWER),
        (dribbles(CHUNKED, b"1\r\nx\r\n"), TimedOut, NO_ANSWER),
        (dribbles(CHUNKED + b"0\r\n", b"a: b\r\n"), TimedOut, NO_ANSWER),
        (floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), NotHttp, NOT_HTTP),
        (floods(OK, b"a: b\r\n"), NotHttp, NOT_HTTP),
        (floods(LENGTHLESS, b"x"), TooLarge, "has more than 1,000 bytes"),
        (floods(CHUNKED, b"1\r\nx\r\n"), TooLarge, "has more than 1,000 bytes"),
        # Python 3.14 limits the number of trailers.
        (floods(CHUNKED + b"0\r\n", b"a: b\r\n"), NoAnswer, f"{NO_ANSWER}|{NOT_HTTP}"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_who_is_slow_or_endless_is_given_up(
    serve: Peer, error: type[HttpError], why: str, scheme: str
) -> None:
    tls = serving() if scheme == "https" else None
    with (
        peer(serve, tls) as port,
        HttpClient(at(port, scheme), tls=believing(), most_bytes=1_000) as client,
        ends_in_time(error, why),
    ):
        client.ask("GET", "/", within=SHORT if NO_ANSWER in why else 5)


@pytest.mark.parametrize("serve", [reads_nothing, reads_slowly])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_who_does_not_read_is_given_up(serve: Peer, scheme: str) -> None:
    tls = serving() if scheme == "https" else None
    with (
        peer(serve, tls) as port,
        HttpClient(at(port, scheme), tls=believing()) as client,
        ends_in_time(TimedOut, NO_ANSWER),
    ):
        client.ask("POST", "/", b"x" * (32 << 20), within=SHORT)


def test_a_kept_connection_is_given_up_in_time_too() -> None:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(answer(b"yes"))
        says_nothing(connection)

    with peer(serve) as port, HttpClient(at(port)) as client:
        client.ask("GET", "/", within=LONG)
        with ends_in_time(TimedOut, NO_ANSWER):
            client.ask("GET", "/", within=SHORT)


# Who is not reached


def nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_nobody_listens() -> None:
    with ends_in_time(NotReached, ": connection refused$"):
        asked(nobody())


def test_who_takes_no_connection_is_given_up() -> None:
    with full() as port:
        with ends_in_time(NotReached, f"no connection within {SHORT} s"):
            asked(port, within=SHORT)
        with (
            HttpClient(at(port), connect_within=SHORT) as client,
            ends_in_time(NotReached, f"no connection within {SHORT} s"),
        ):
            client.ask("GET", "/", within=LONG)


def test_another_address_of_the_name_is_tried_in_time() -> None:
    def resolve(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        assert (host, port) == ("many.example", good)
        ports = (hung, nobody(), good)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", to)) for to in ports]

    with full() as hung, peer(sends(answer(b"yes"))) as good:
        url = HttpUrl("http", "many.example", good)
        with HttpClient(url, connect_within=1, resolve=resolve) as client:
            assert client.ask("GET", "/", within=LONG).body == b"yes"


def test_a_resolver_that_hangs_is_given_up_and_asked_by_one_thread() -> None:
    over = threading.Event()
    asked_for = []

    def resolve(host: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        asked_for.append(host)
        over.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with HttpClient(HttpUrl("http", "slow.example", 80), resolve=resolve) as client:
        for _ in range(3):
            with ends_in_time(NotReached, f"its name was not resolved within {SHORT} s"):
                client.ask("GET", "/", within=SHORT)
        assert asked_for == ["slow.example"]
        over.set()
        for _ in range(2):
            with ends_in_time(NotReached, "cannot be resolved: name or service not known"):
                client.ask("GET", "/", within=LONG)
        assert len(asked_for) <= 3


def test_what_no_host_can_be_called() -> None:
    with (
        HttpClient(HttpUrl("http", "a..b", 80)) as client,
        ends_in_time(NotReached, "its name cannot be resolved: not a host name"),
    ):
        client.ask("GET", "/", within=LONG)


def test_a_name_is_resolved() -> None:
    with (
        peer(sends(answer(b"yes"))) as port,
        HttpClient(HttpUrl("http", "localhost", port)) as client,
    ):
        assert client.ask("GET", "/", within=LONG).body == b"yes"


# TLS


def test_who_shows_a_certificate_that_is_believed_is_asked() -> None:
    connections = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        while request(connection):
            connection.sendall(answer(b"yes"))

    with (
        peer(serve, serving()) as port,
        HttpClient(at(port, "https"), tls=believing()) as client,
    ):
        assert [client.ask("GET", "/", within=LONG).body for _ in range(3)] == [b"yes"] * 3
    assert len(connections) == 1


def test_any_other_is_not_told_a_word() -> None:
    heads = []
    with (
        peer(lambda connection: heads.append(request(connection)), serving()) as port,
        HttpClient(at(port, "https", user="me:secret")) as client,
        ends_in_time(NotTrusted, r"its certificate: self-signed certificate \(SSL_CERT_FILE"),
    ):
        client.ask("GET", "/", within=LONG)
    assert heads == []


def test_a_certificate_of_somebody_else() -> None:
    def resolve(*_: object, **__: object) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    with (
        peer(says_nothing, serving()) as port,
        HttpClient(
            HttpUrl("https", "other.example", port), tls=believing(), resolve=resolve
        ) as client,
        ends_in_time(NotTrusted, "its certificate: Hostname mismatch"),
    ):
        client.ask("GET", "/", within=LONG)


def test_who_speaks_no_tls_is_found_out() -> None:
    with (
        peer(lambda connection: connection.sendall(answer(b""))) as port,
        HttpClient(at(port, "https")) as client,
        ends_in_time(NotReached, r"it does not speak TLS \(.*\): http:// instead of https://\?"),
    ):
        client.ask("GET", "/", within=LONG)


@pytest.mark.parametrize("serve", [says_nothing, dribbles_tls])
def test_who_does_not_end_the_handshake_is_given_up(serve: Peer) -> None:
    with (
        peer(serve) as port,
        HttpClient(at(port, "https")) as client,
        ends_in_time(NotReached, f"no TLS handshake within {SHORT} s"),
    ):
        client.ask("GET", "/", within=SHORT)


# URLs


def test_urls() -> None:
    assert parse_url("https://me%40x:s%3Acret@[::1]/a/?b=c#d") == HttpUrl(
        "https", "::1", 443, "/a/", "b=c", "me@x:s:cret"
    )
    assert parse_program_url("HTTP://A:8081/x/") == HttpUrl("http", "a", 8081, "/x")


def test_urls_are_shown_without_what_may_be_a_secret() -> None:
    url = parse_url("https://me:secret@[::1]:1/a?key=secret")
    assert str(url) == "https://[::1]:1/a"
    assert "secret" not in repr(url)
    with ends_in_time(NotReached, "connection refused"), HttpClient(url) as client:
        client.ask("GET", "/", within=LONG)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must begin with http"),
        ("secret:8081", "must begin with http"),
        ("http:secret", "must begin with http"),
        ("ftp://secret", "must begin with http"),
        ("http://", "not a URL"),
        ("http://secret:b", "not a URL"),
        ("http://secret:99999", "not a URL"),
        ("http://[secret", "not a URL"),
        ("http://secret b", "not a URL"),
        ("http://secret/\u00e9", "not a URL"),
        ("http://secret/?\u00e9", "not a URL"),
        ("http://secret/\r\nX: y", "not a URL"),
        ("http://secret:0", "0 is not a port"),
    ],
)
def test_what_is_no_url(text: str, why: str) -> None:
    for parse in (parse_url, parse_program_url):
        with pytest.raises(ValueError, match=why) as error:
            parse(text)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://me:secret@a", "a user and password in the URL are not supported"),
        ("http://a/?b", "the URL must end after the path"),
        ("http://a/#b", "the URL must end after the path"),
    ],
)
def test_what_is_no_programs_url(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_program_url(text)
