"""Chunked bodies that two programs may read differently; llhttp is the judge of what is one."""

import h11
import httptools
import pytest

from audit.http.strict_requests import StrictRequests

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def is_whole(*pieces: bytes) -> bool:
    """As StrictRequests reads them, each when it comes."""
    connection, events = StrictRequests(65_536), []
    for piece in pieces:
        connection.receive_data(piece)
        while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            events.append(event)
    return isinstance(events[-1], h11.EndOfMessage)


@pytest.mark.parametrize(
    ("body", "is_plain"),
    [
        (b"0\r\n\r\n", True),
        (b"3\r\n0\n\n\r\n00;a=b\r\nX: y\r\nZ: 0\r\n\r\n", True),
        (b"0A\r\n0\r\n\n\n\r\n\n\na\r\n0\r\n\r\n", True),
        (b"0\r\n\n", False),
        (b"1\r\na\r\n0\r\n\n", False),
        (b"0\r\nX: y\n\n", False),
        (b"0\r\nX: y\n\r\n", False),
        (b"0\r\nX: y\r\n\n", False),
        (b"0\r\nX: y\nZ: 0\r\n\r\n", False),
        (b"0\r\nX: y\r\n z\r\n\r\n", False),
        (b"1;a\rb\r\na\r\n0\r\n\r\n", False),
        (b"1\na\r\n0\r\n\r\n", False),
        (b"1\r\na\n0\r\n\r\n", False),
    ],
)
def test_a_body_ends_where_every_proxy_sees_its_end(body: bytes, is_plain: bool) -> None:
    """However it is cut on the way."""
    request = HEAD + body
    parts = [[request[:at], request[at:]] for at in range(len(HEAD), len(request))]
    parts.append([bytes([byte]) for byte in request])
    if is_plain:
        httptools.HttpRequestParser(object()).feed_data(request)
        assert all(is_whole(*pieces) for pieces in parts)
        return
    with pytest.raises(httptools.HttpParserError):
        httptools.HttpRequestParser(object()).feed_data(request)
    for pieces in parts:
        with pytest.raises(h11.RemoteProtocolError):
            is_whole(*pieces)
