"""Connections that are slow, idle, many, half-closed, or speak something that is not HTTP.

The registry of this module has few places, and waits a second for the rest of a request.
"""

import contextlib
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.system.registry.hostile import MIB, Watched
from tests.system.registry.raw_http import Closed, RawHttp, request

STALLED_SECONDS = 1.0
PLACES = 500
TYPES = "/schemas/types"
GET = request("GET", TYPES)
INT = b'{"schema":"\\"int\\""}'
POST = request("POST", "/subjects/raw/versions", INT)


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    limits = {"connections": PLACES, "stalled_request_seconds": STALLED_SECONDS}
    with RegistryProcess(
        tmp_path_factory.mktemp("connections"),
        brokers=running_broker.bootstrap,
        settings={"topic": "_schemas_connections", "limits": limits},
    ) as registry:
        yield registry


@pytest.fixture(scope="module", autouse=True)
def others_are_served(registry: RegistryProcess) -> Iterator[None]:
    with Watched(registry, TYPES, grown=80 * MIB):
        yield


@contextlib.contextmanager
def connections(registry: RegistryProcess, count: int) -> Iterator[list[RawHttp]]:
    """So many at once; the limit of open files is raised for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 500, hard), hard))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RawHttp(registry.address)) for _ in range(count)]


def replaced(head: bytes, old: bytes, new: bytes) -> bytes:
    assert old in head
    return head.replace(old, new)


LENGTH = b"Content-Length: %d" % len(INT)
CHUNKED = replaced(POST, LENGTH, b"Transfer-Encoding: chunked").removesuffix(INT)
# Bytes that are no HTTP otherwise: tests/registry/http/connections/test_request_reader.py.
NOT_HTTP = {
    "a handshake of TLS": (bytes.fromhex("16030100a5010000a10303") + bytes(200), 400),
    "a request of Kafka's": (b"\0\0\0\x12\0\x12\0\0\0\0\0\1\0\6client", 400),
    "zeros": (bytes(1000), 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "an unknown method": (replaced(GET, b"GET", b"BREW"), 400),
    "newlines alone": (replaced(GET, b"\r\n", b"\n"), 400),
    "a space in a name": (replaced(GET, b"Host:", b"Host :"), 400),
    "a control character": (replaced(GET, b"registry", b"regi\x01stry"), 400),
    "a header of a megabyte": (replaced(GET, b"registry", b"r" * MIB), 431),
    "a hundred thousand headers": (replaced(GET, b"Host", b"A: b\r\n" * 100_000 + b"Host"), 431),
    "a path of a megabyte": (replaced(GET, b"types", b"t" * MIB), 414),
    "a length of letters": (replaced(POST, LENGTH, b"Content-Length: abc"), 400),
    "two lengths": (replaced(POST, LENGTH, LENGTH + b"\r\nContent-Length: 5"), 400),
    "an unknown encoding": (replaced(POST, LENGTH, b"Transfer-Encoding: gzip"), 400),
    "chunks of letters": (CHUNKED + b"zz\r\nabc\r\n", 400),
    "chunks of negative size": (CHUNKED + b"-5\r\nabcde\r\n", 400),
    "a chunk longer than it says": (CHUNKED + b"2\r\nabcdef\r\n0\r\n\r\n", 400),
}


@pytest.mark.parametrize("sent", NOT_HTTP, ids=NOT_HTTP.keys())
def test_what_is_not_http(registry: RegistryProcess, sent: str) -> None:
    """It is told so, in JSON, and the connection is closed."""
    data, status = NOT_HTTP[sent]
    with RawHttp(registry.address) as connection:
        with contextlib.suppress(Closed):  # when it has heard enough
            connection.send(data)
        answer = connection.answer()
        assert (answer.status, answer.code) == (status, status)
        assert answer.headers["connection"] == "close"
        assert connection.rest() == b""


CHUNKS = b"".join(b"1\r\n%c\r\n" % each for each in INT) + b"0\r\n\r\n"
UNUSUAL = {
    "chunks of a byte": CHUNKED + CHUNKS,
    "chunks with extensions": CHUNKED
    + b"%x;%b\r\n%b\r\n0\r\n\r\n" % (len(INT), b"x" * 100_000, INT),
    "chunks with trailers": CHUNKED + b"%x\r\n%b\r\n0\r\nA: b\r\n\r\n" % (len(INT), INT),
    "empty lines first": b"\r\n\r\n" + POST,
    "a proxy's target": replaced(POST, b"POST /", b"POST http://elsewhere:1/"),
    "a body for GET": request("GET", TYPES, b"hello"),
    "an expectation": replaced(POST, b"Host", b"Expect: 100-continue\r\nHost"),
    "an offer of HTTP/2": replaced(GET, b"Host", b"Connection: Upgrade\r\nUpgrade: h2c\r\nHost"),
    "no host": replaced(GET, b"Host: registry\r\n", b""),
    "many parameters": request("GET", f"{TYPES}?{'&'.join('a=1' for _ in range(1000))}"),
    "parameters that are none": request("GET", f"{TYPES}?%zz=%ff&&=&deleted=%00"),
}


@pytest.mark.parametrize("sent", UNUSUAL, ids=UNUSUAL.keys())
def test_what_is_http_all_the_same(registry: RegistryProcess, sent: str) -> None:
    with RawHttp(registry.address) as connection:
        answer = connection.ask(UNUSUAL[sent])
        assert answer.status == 200
        assert connection.ask(GET).body == ["AVRO"]


def test_thousands_of_requests_before_the_first_answer_is_read(registry: RegistryProcess) -> None:
    """Of three kinds, one of which is done by the writer: answered in their order."""
    missing = request("GET", "/schemas/ids/999999999")
    with RawHttp(registry.address) as connection:
        for _ in range(8):
            connection.send((GET + missing) * 249 + GET + POST)
        time.sleep(0.5)
        for _ in range(8):
            statuses = [connection.answer().status for _ in range(500)]
            assert statuses == [200, 404] * 249 + [200, 200]


def test_a_client_that_only_reads_on_is_answered(registry: RegistryProcess) -> None:
    with RawHttp(registry.address) as connection:
        connection.send(GET + POST)
        connection.finish_sending()
        assert connection.answer().body == ["AVRO"]
        assert connection.answer().status == 200
        assert connection.rest() == b""
    with RawHttp(registry.address) as connection:
        connection.send(POST[:-3])
        connection.finish_sending()
        assert connection.rest() == b""


def test_slow_requests_end(registry: RegistryProcess) -> None:
    """A byte now and then does not help."""
    long = replaced(POST, LENGTH, b"Content-Length: 100000")
    with connections(registry, 200) as slow:
        for number, connection in enumerate(slow):
            connection.send(long[: 20 + number % (len(long) - 20)])
        left = set(slow)

        def all_are_closed() -> bool:
            for connection in list(left):
                try:
                    connection.send(b"x")
                except Closed:
                    left.remove(connection)
            return not left

        wait_until(all_are_closed, what="all are closed", every=STALLED_SECONDS / 4)


def test_thousands_that_say_nothing_leave_room_for_others(registry: RegistryProcess) -> None:
    """Many more than there are places. They may have to try again, as many as come at once."""
    files = registry.process.open_files()
    with connections(registry, 2000):
        with RawHttp(registry.address) as newcomer:
            assert newcomer.ask(GET).body == ["AVRO"]
        assert registry.process.open_files() <= files + PLACES + 20
    wait_until(lambda: registry.process.open_files() <= files + 5, what="all are let go of")


def test_hundreds_that_connect_while_it_is_busy(registry: RegistryProcess) -> None:
    """The process is stopped until all are connected: there is room for them to wait in.

    Who finds no room tries again and again, and in vain.
    """
    os.kill(registry.process.pid, signal.SIGSTOP)
    try:
        with connections(registry, 400) as waiting:
            os.kill(registry.process.pid, signal.SIGCONT)
            for connection in waiting:
                assert connection.ask(GET).status == 200
    finally:
        os.kill(registry.process.pid, signal.SIGCONT)


def test_hundreds_that_come_and_go(registry: RegistryProcess) -> None:
    files = registry.process.open_files()
    reset = struct.pack("ii", 1, 0)
    for number in range(800):
        with RawHttp(registry.address) as connection:
            connection.send((GET, POST, POST[:50], GET * 20)[number % 4])
            if number % 3 == 0:
                connection.answer() if number % 4 != 2 else None
            elif number % 3 == 1:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    wait_until(lambda: registry.process.open_files() <= files + 5, what="all are let go of")
