"""Heads that two programs may read differently; llhttp is the judge of what is one."""

import httptools
import pytest

from ground.http.heads import AmbiguousHead, check_head

LINE, HOST = b"POST / HTTP/1.1\r\n", b"Host: x\r\n"
SMUGGLING = (
    HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    HOST + b"transfer-encoding: chunked\r\nCONTENT-LENGTH: 5\r\n\r\n",
    HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
    HOST + b"Content-Length: 5, 5\r\n\r\n",
    HOST + b"Content-Length: +5\r\n\r\n",
    HOST + b"A: b\nContent-Length: 5\r\n\r\n",
    HOST + b"A: b\r\n\n",
    HOST + b"A: b\n\r\n",
    HOST + b"A: b\r\n c\r\n\r\n",
    HOST + b"A: b\r\n\tc\r\n\r\n",
    HOST + b"A: b\rc\r\n\r\n",
    b" Host: x\r\n\r\n",
)
PLAIN = (
    HOST + b"\r\n",
    HOST + b"Content-Length: 5\r\n\r\na\n b",
    HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
    HOST + b"X-Content-Length: 5\r\nA: Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
)


def as_llhttp(data: bytes) -> None:
    httptools.HttpRequestParser(object()).feed_data(data)


@pytest.mark.parametrize("rest", SMUGGLING)
def test_what_could_be_read_in_two_ways_is_refused(rest: bytes) -> None:
    with pytest.raises(httptools.HttpParserError):
        as_llhttp(LINE + rest)
    with pytest.raises(AmbiguousHead):
        check_head(LINE + rest)


@pytest.mark.parametrize("rest", PLAIN)
def test_what_can_be_read_in_one_way_passes_however_much_of_it_is_there(rest: bytes) -> None:
    as_llhttp(LINE + rest)
    for size in range(len(LINE + rest) + 1):
        check_head((LINE + rest)[:size])
