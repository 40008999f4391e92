"""Bytes become requests: however they are cut, whatever they are, and within bounds."""

import tracemalloc
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.http.connections.messages import HttpRequest
from registry.http.connections.request_reader import Bodies, RequestReader

GET = b"GET /subjects?deleted=true HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"
POST = b"POST /subjects/a HTTP/1.1\r\nContent-Length: 7\r\nContent-Type: a/b\r\n\r\n{'a':1}"
CHUNKED = (
    b"POST /subjects/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\n{'a\r\n4\r\n':1}\r\n0\r\n\r\n"
)


def a_reader(of_one: int = 1000, of_all: int = 10_000) -> RequestReader:
    return RequestReader(Bodies(of_one, of_all))


@given(st.lists(st.sampled_from([GET, POST, CHUNKED]), max_size=5), st.data())
def test_requests_are_the_same_however_they_are_cut(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(sent)
    whole = a_reader().feed(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = a_reader()
    pieces: list[HttpRequest] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        pieces += reader.feed(stream[begin:end])
    assert pieces == whole
    assert len(whole) == len(sent)
    assert not reader.under_way


def test_what_a_request_says() -> None:
    (request,) = a_reader().feed(POST)
    assert request.method == "POST"
    assert request.target == "/subjects/a"
    assert request.headers == {"content-length": "7", "content-type": "a/b"}
    assert request.body == b"{'a':1}"
    assert request.keep_alive
    (old,) = a_reader().feed(b"GET / HTTP/1.0\r\n\r\n")
    assert not old.keep_alive


def test_a_body_that_is_too_large_is_dropped_and_its_request_still_answered() -> None:
    bodies = Bodies(1000, 10_000)
    reader = RequestReader(bodies)
    head = b"POST /a HTTP/1.1\r\nContent-Length: 5000\r\n\r\n"
    assert reader.feed(head + b"x" * 999) == []
    assert bodies.held == 999
    assert reader.feed(b"x" * 1000) == []
    assert bodies.held == 0
    dropped, following = reader.feed(b"x" * 3001 + GET)
    assert dropped.dropped is HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert dropped.body == b""
    assert following.dropped is None


@pytest.mark.not_quick("measures memory")
def test_a_body_in_small_chunks_takes_no_more_than_is_counted() -> None:
    bodies = Bodies(1_000_000, 1_000_000)
    reader = RequestReader(bodies)
    reader.feed(b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    tracemalloc.start()
    try:
        for _ in range(1000):
            reader.feed(b"2\r\nxx\r\n" * 100)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bodies.held == 200_000
    assert taken < 2 * bodies.held


def test_all_bodies_together_have_a_bound() -> None:
    bodies = Bodies(1000, 1500)
    first, second = RequestReader(bodies), RequestReader(bodies)
    head = b"POST /a HTTP/1.1\r\nContent-Length: 1000\r\n\r\n"
    (held,) = first.feed(head + b"x" * 1000)
    (dropped,) = second.feed(head + b"x" * 1000)
    assert dropped.dropped is HTTPStatus.SERVICE_UNAVAILABLE
    first.let_go(held)
    assert bodies.held == 0
    (taken,) = second.feed(head + b"x" * 1000)
    assert taken.dropped is None


def test_what_an_unfinished_request_holds_is_let_go_of() -> None:
    bodies = Bodies(1000, 1500)
    reader = RequestReader(bodies)
    reader.feed(b"POST /a HTTP/1.1\r\nContent-Length: 1000\r\n\r\nxxx")
    assert reader.under_way
    assert bodies.held == 3
    reader.close()
    assert bodies.held == 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, 431),
    ],
)
def test_what_cannot_be_a_request(sent: bytes, status: int) -> None:
    reader = a_reader()
    assert reader.feed(sent) == []
    assert reader.broken is not None
    assert reader.broken.status == status
    assert reader.feed(GET) == []


def test_an_offer_of_another_protocol_is_not_taken_up() -> None:
    """Java's client makes one with its first request, and goes on in HTTP/1.1 after the answer."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAE\r\n"
    get = GET.replace(b"Host", offer + b"Host")
    post = POST.replace(b"Content-Type", offer + b"Content-Type")
    reader = a_reader()
    requests = reader.feed(get + post + GET)
    assert [request.method for request in requests] == ["GET", "POST", "GET"]
    assert requests[1].body == b"{'a':1}"
    assert all(request.keep_alive for request in requests)
    assert reader.broken is None


def test_a_body_without_end_is_cut_off() -> None:
    reader = a_reader()
    reader.feed(b"POST /a HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n")
    megabyte = bytes(1024 * 1024)
    for _ in range(65):
        reader.feed(megabyte)
    assert reader.broken is not None
    assert reader.broken.status == 413


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nX-",
        b"GET / HTTP/1.1\r\nX: ",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nX: ",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
)
def test_what_has_no_end_takes_no_memory_and_little_time(begun: bytes) -> None:
    """A header, or what stands beside a chunk: of neither anything is told before it is whole."""
    reader = a_reader()
    reader.feed(begun)
    piece = b"\r\n" * 512 if not begun else b"x" * 1024
    fed = 0
    while reader.broken is None and fed < 1024 * 1024:
        reader.feed(piece)
        fed += len(piece)
    assert reader.broken is not None
    assert reader.broken.status == 431
    assert fed < 100_000


def test_a_long_header_may_come_in_pieces() -> None:
    reader = a_reader()
    sent = b"GET / HTTP/1.1\r\nX: " + b"x" * 32_000 + b"\r\n\r\n"
    taken = [request for at in range(len(sent)) for request in reader.feed(sent[at : at + 1])]
    assert len(taken) == 1
    assert reader.broken is None


@given(st.binary(max_size=300))
def test_no_bytes_do_worse_than_that(sent: bytes) -> None:
    reader = a_reader()
    for request in reader.feed(sent):
        reader.let_go(request)
    assert reader.broken is None or reader.broken.status == 400
