"""Connections as clients meet them: order, long answers, slow readers, the end."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from harness.processes.event_loops import on_event_loop
from registry.http.connections.connection import HttpConnection, Unread
from registry.http.connections.messages import HttpRequest, HttpResponse, answer, long_answer
from registry.http.connections.request_reader import Bodies

LONG = [{"number": number, "text": "x" * 1000} for number in range(20_000)]


async def slowly(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0.05)
    return answer({"slow": request.target})


def serve(request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
    if request.target == "/slow":
        return slowly(request)
    if request.target == "/long":
        return long_answer(LONG)
    if request.target == "/busy":
        until = time.monotonic() + 0.001
        while time.monotonic() < until:
            pass
    if request.target == "/bug":
        raise ZeroDivisionError("a bug")
    return answer({"path": request.target, "body": request.body.decode()})


class Listening:
    """A server of these connections, in this loop."""

    def __init__(self, unread: int) -> None:
        self.bodies = Bodies(1000, 10_000)
        self.unread = Unread(unread)
        self.connections: set[HttpConnection] = set()
        self.port = 0

    def connection(self) -> HttpConnection:
        return HttpConnection(serve, self.bodies, self.unread, self.connections)


@asynccontextmanager
async def listening(unread: int = 1_000_000) -> AsyncIterator[Listening]:
    served = Listening(unread)
    server = await asyncio.get_running_loop().create_server(served.connection, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for connection in list(served.connections):
            connection.abort()
        await asyncio.sleep(0.01)


async def ask(port: int, sent: bytes, *, end: bool = True) -> bytes:
    """All that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    if end:
        writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def bodies(stream: bytes) -> list[bytes]:
    """The bodies of answers that say their length."""
    found = []
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        found.append(rest[:length])
        stream = rest[length:]
    return found


@on_event_loop
async def test_what_came_before_nonsense_is_answered_first() -> None:
    async with listening() as served:
        came = await ask(served.port, get("/1") + get("/slow") + b"nonsense\r\n\r\n", end=False)
        first, second, last = bodies(came)
        assert json.loads(first)["path"] == "/1"
        assert json.loads(second) == {"slow": "/slow"}
        assert json.loads(last)["error_code"] == 400


@on_event_loop
async def test_nobody_waits_for_all_that_one_client_has_asked() -> None:
    async with listening() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=2**24)
        writer.write(get("/1"))
        await reader.readuntil(b"}")
        head = get("/busy").replace(b"GET", b"HEAD")
        writer.write(head * 300 + get("/last", "Connection: close") + b"nonsense")
        assert b"/other" in await ask(served.port, get("/other"))
        assert any(each.busy for each in served.connections)
        come = await asyncio.wait_for(reader.read(), 60)
        assert come.count(b"HTTP/1.1 200") == 301
        assert b"/last" in come
        writer.close()


@on_event_loop
async def test_a_bug_is_answered_and_hurts_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as served:
        first, second = bodies(await ask(served.port, get("/bug") + get("/1")))
        assert json.loads(first)["error_code"] == 500
        assert json.loads(second)["path"] == "/1"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.not_quick("sends megabytes")
@on_event_loop
async def test_a_long_answer_comes_whole_to_who_reads_it_slowly() -> None:
    async with listening() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=2**16)
        writer.write(get("/long") + get("/1", "Connection: close"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        assert json.loads(body) == LONG
        assert await reader.readexactly(2) == b"\r\n"
        assert b"/1" in await reader.read()
        assert served.unread.held == 0
        writer.close()


@on_event_loop
async def test_old_clients_get_it_without_chunks() -> None:
    async with listening() as served:
        came = await ask(served.port, b"GET /long HTTP/1.0\r\n\r\n", end=False)
        head, _, body = came.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert json.loads(body) == LONG


@pytest.mark.parametrize(("readers", "unread"), [(10, 4_000_000), (20, 1_000_000)])
@on_event_loop
async def test_long_answers_that_nobody_reads_take_little_memory(
    readers: int, unread: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be kept cuts some off."""
    async with listening(unread=unread) as served:
        writers = []
        for _ in range(readers):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(get("/long"))
            writers.append(writer)
        await asyncio.sleep(0.5)
        assert 0 < served.unread.held <= unread
        is_enough = readers == 10
        assert (len(served.connections) == readers) is is_enough
        assert b"/1" in await ask(served.port, get("/1"))
        for writer in writers:
            writer.close()
    assert ("disconnecting a client" in caplog.text) is not is_enough


@on_event_loop
async def test_who_expects_to_be_told_to_go_on_is_told() -> None:
    async with listening() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST /1 HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        writer.write_eof()
        (body,) = bodies(await reader.read())
        assert json.loads(body)["body"] == "body"
        writer.close()


@on_event_loop
async def test_what_waits_when_a_server_stops_is_not_carried_out() -> None:
    async with listening() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(get("/slow") * 4)
        await asyncio.sleep(0.02)
        (connection,) = served.connections
        connection.finish()
        assert len(bodies(await reader.read())) == 1
        assert served.bodies.held == 0
        writer.close()


@on_event_loop
async def test_head_is_get_without_a_body() -> None:
    async with listening() as served:
        came = await ask(served.port, get("/1").replace(b"GET", b"HEAD"))
        head, _, body = came.partition(b"\r\n\r\n")
        assert b"Content-Length: 23" in head
        assert body == b""


@on_event_loop
async def test_what_is_overdue() -> None:
    async with listening() as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST /1 HTTP/1.1\r\nContent-Le")
        await asyncio.sleep(0.1)
        (connection,) = served.connections
        assert connection.overdue(idle_s=100, stalled_s=0.01)
        assert not connection.overdue(idle_s=100, stalled_s=100)
        writer.close()
