"""Sends requests to a registry, each as soon as the previous one on its connection is answered.

One thread, epoll and bytes: only an answer's Content-Length and status are parsed. That costs about
ten microseconds per request, mostly the kernel's; docs/benchmarks/registry.md has the figure. A
request without keep-alive has its own connection, which the registry closes.
"""

import array
import itertools
import select
import socket
import time
from collections.abc import Callable, Iterator

import msgspec

from bench.figures.measurement import Figure, Sample
from bench.figures.processes import Meter, own_cpu_seconds
from bench.loads.requests import AnswerError
from bench.loads.steady_load import Latencies
from bench.servers.registry_servers import Registry

RATE = Figure("requests/s", more_is_better=True)
P50 = Figure("p50, ms", 2)
P99 = Figure("p99, ms", 2)
CPU = Figure("registry CPU-s/1,000 requests", 3)
CORES = Figure("registry cores in use", 2)
CLIENT_CORES = Figure("client cores in use", 2)
PEAK = Figure("registry peak RSS, MB")
PROPORTIONAL = Figure("registry Pss, MB")

_PATIENCE = 60.0  # seconds without any answer
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_SUCCESS = b"HTTP/1.1 200 "


class Answered(msgspec.Struct, frozen=True):
    """The latency of each answer, from sending the request to its last byte, and the total time."""

    latencies: Latencies
    seconds: float

    @property
    def requests(self) -> int:
        return len(self.latencies.sorted)

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def answer_size(received: bytes) -> int | None:
    """Returns the size of the answer including its head; None while the head is incomplete."""
    end = received.find(_HEAD_END)
    if end < 0:
        return None
    head = received[:end].lower()
    position = head.find(_LENGTH)
    if position < 0:
        raise AnswerError(f"an answer has no Content-Length: {head[:300]!r}")
    return end + len(_HEAD_END) + int(head[position + len(_LENGTH) :].partition(b"\r\n")[0])


class _Connection:
    """A connection that sends one request at a time.

    `take` returns True once the answer is complete and, without keep-alive, the connection closed.
    """

    def __init__(self, new_socket: socket.socket, *, keep_alive: bool) -> None:
        self.sent_at = 0
        self._socket = new_socket
        self._keep_alive = keep_alive
        self._received = b""
        self._size: int | None = None

    def send(self, request: bytes, send_time: int) -> None:
        self.sent_at = send_time
        self._socket.sendall(request)

    def take(self) -> bool:
        data = self._socket.recv(2**16)
        if not data:
            return self._closed()
        self._received = self._received + data if self._received else data
        if self._size is None:
            self._size = answer_size(self._received)
        if self._size is None or len(self._received) < self._size:
            return False
        if len(self._received) > self._size:
            raise AnswerError("the answer is longer than its Content-Length")
        if not self._received.startswith(_SUCCESS):
            raise AnswerError(f"the registry answered {self._received[9:][:300]!r}")
        if self._keep_alive:
            self._received, self._size = b"", None
        return self._keep_alive

    def _closed(self) -> bool:
        """Check that the close was requested and came after the answer."""
        if self._keep_alive or self._size is None or len(self._received) < self._size:
            raise AnswerError("the registry closed a connection")
        self._socket.close()
        return True

    def close(self) -> None:
        self._socket.close()


class _Generator:
    def __init__(self, address: tuple[str, int], poll: select.epoll, *, keep_alive: bool) -> None:
        self._address = address
        self._poll = poll
        self._keep_alive = keep_alive
        self._connections: dict[int, _Connection] = {}
        self.latencies = array.array("q")

    def _open(self) -> _Connection:
        new_socket = socket.create_connection(self._address, _PATIENCE)
        new_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        new_socket.setblocking(True)  # read only when readable
        connection = _Connection(new_socket, keep_alive=self._keep_alive)
        self._connections[new_socket.fileno()] = connection
        self._poll.register(new_socket, select.EPOLLIN)
        return connection

    def run(self, requests: Iterator[bytes], connections: int, seconds: float) -> float:
        """Sends the requests; returns the seconds until the last answer."""
        idle_connections = [self._open() for _ in range(connections if self._keep_alive else 0)]
        start_time = time.perf_counter()
        end_time = time.perf_counter_ns() + int(seconds * 1e9)
        pending_count = 0
        for request in itertools.islice(requests, connections):
            send_time = time.perf_counter_ns()
            (idle_connections[pending_count] if self._keep_alive else self._open()).send(
                request, send_time
            )
            pending_count += 1
        while pending_count:
            for connection in self._answered():
                send_time = time.perf_counter_ns()
                self.latencies.append(send_time - connection.sent_at)
                next_request = next(requests, None) if send_time < end_time else None
                if next_request is None:
                    pending_count -= 1
                elif self._keep_alive:
                    connection.send(next_request, send_time)
                else:
                    self._open().send(next_request, send_time)
        return time.perf_counter() - start_time

    def _answered(self) -> Iterator[_Connection]:
        ready_events = self._poll.poll(_PATIENCE)
        if not ready_events:
            raise AnswerError(f"no answer for {_PATIENCE:g} s")
        for descriptor, _ in ready_events:
            connection = self._connections[descriptor]
            if connection.take():
                if not self._keep_alive:
                    del self._connections[descriptor]
                yield connection

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def load(
    registry: Registry,
    requests: Iterator[bytes],
    *,
    connections: int,
    seconds: float,
    keep_alive: bool = True,
) -> Answered:
    """Sends requests for `seconds`, or until there are no more; then waits for outstanding answers.

    Without `keep_alive` the requests themselves must ask the registry to close the connection.
    """
    with select.epoll() as poll:
        generator = _Generator(registry.address, poll, keep_alive=keep_alive)
        try:
            elapsed = generator.run(requests, connections, seconds)
        finally:
            generator.close()
    return Answered(Latencies(sorted(generator.latencies)), elapsed)


def metered(registry: Registry, run: Callable[[], Answered]) -> Sample:
    """Returns the speed, and the registry's cost if its process is known."""
    if registry.pid is None:
        client = -own_cpu_seconds()
        result = run()
        client += own_cpu_seconds()
        return {**_speed(result), CLIENT_CORES: client / result.seconds}
    with Meter(registry.pid) as meter:
        result = run()
    return {
        **_speed(result),
        CPU: meter.broker_cpu / result.requests * 1000,
        CORES: meter.broker_cpu / result.seconds,
        CLIENT_CORES: meter.client_cpu / result.seconds,
        PEAK: meter.peak_bytes / 1e6,
        PROPORTIONAL: meter.proportional_bytes / 1e6,
    }


def _speed(result: Answered) -> dict[Figure, float]:
    return {
        RATE: result.rate,
        P50: result.latencies.milliseconds(0.5),
        P99: result.latencies.milliseconds(0.99),
    }
