"""Requests to a registry, each sent as soon as the one before it on its connection is answered.

One thread, epoll and bytes: an answer is measured by its Content-Length and judged by its status,
and nothing else of it is looked at. That costs about ten microseconds a request, most of them the
kernel's; docs/benchmarks/registry.md has the figure. A request without keep-alive has a connection
of its own, which the registry closes.
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
    """What was answered in how long, each request from being sent to the last byte."""

    latencies: Latencies
    seconds: float

    @property
    def requests(self) -> int:
        return len(self.latencies.sorted)

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def answer_size(received: bytes) -> int | None:
    """Of the answer that begins here, with its head; None while the head is not complete."""
    end = received.find(_HEAD_END)
    if end < 0:
        return None
    head = received[:end].lower()
    at = head.find(_LENGTH)
    if at < 0:
        raise AnswerError(f"answered without a length: {head[:300]!r}")
    return end + len(_HEAD_END) + int(head[at + len(_LENGTH) :].partition(b"\r\n")[0])


class _Connection:
    """One request at a time. `take` says when its answer is there, and the connection closed
    if it is not kept."""

    def __init__(self, opened: socket.socket, *, keep_alive: bool) -> None:
        self.sent_at = 0
        self._socket = opened
        self._keep_alive = keep_alive
        self._received = b""
        self._size: int | None = None

    def send(self, request: bytes, at: int) -> None:
        self.sent_at = at
        self._socket.sendall(request)

    def take(self) -> bool:
        some = self._socket.recv(2**16)
        if not some:
            return self._closed()
        self._received = self._received + some if self._received else some
        if self._size is None:
            self._size = answer_size(self._received)
        if self._size is None or len(self._received) < self._size:
            return False
        if len(self._received) > self._size:
            raise AnswerError("more was answered than was asked for")
        if not self._received.startswith(_SUCCESS):
            raise AnswerError(f"answered {self._received[9:][:300]!r}")
        if self._keep_alive:
            self._received, self._size = b"", None
        return self._keep_alive

    def _closed(self) -> bool:
        """By the registry: as it was asked to, or without having answered."""
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
        opened = socket.create_connection(self._address, _PATIENCE)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setblocking(True)  # it is read when there is something to read
        connection = _Connection(opened, keep_alive=self._keep_alive)
        self._connections[opened.fileno()] = connection
        self._poll.register(opened, select.EPOLLIN)
        return connection

    def run(self, requests: Iterator[bytes], connections: int, seconds: float) -> float:
        """The seconds until the last answer."""
        ready = [self._open() for _ in range(connections if self._keep_alive else 0)]
        started = time.perf_counter()
        until = time.perf_counter_ns() + int(seconds * 1e9)
        waiting = 0
        for request in itertools.islice(requests, connections):
            at = time.perf_counter_ns()
            (ready[waiting] if self._keep_alive else self._open()).send(request, at)
            waiting += 1
        while waiting:
            for connection in self._answered():
                at = time.perf_counter_ns()
                self.latencies.append(at - connection.sent_at)
                next_request = next(requests, None) if at < until else None
                if next_request is None:
                    waiting -= 1
                elif self._keep_alive:
                    connection.send(next_request, at)
                else:
                    self._open().send(next_request, at)
        return time.perf_counter() - started

    def _answered(self) -> Iterator[_Connection]:
        ready = self._poll.poll(_PATIENCE)
        if not ready:
            raise AnswerError(f"no answer for {_PATIENCE:g} s")
        for descriptor, _ in ready:
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
    """Sends for so many seconds, or until there are no more requests; then waits for the rest.

    Without `keep_alive` the requests themselves have to ask for the connection to be closed.
    """
    with select.epoll() as poll:
        generator = _Generator(registry.address, poll, keep_alive=keep_alive)
        try:
            elapsed = generator.run(requests, connections, seconds)
        finally:
            generator.close()
    return Answered(Latencies(sorted(generator.latencies)), elapsed)


def metered(registry: Registry, run: Callable[[], Answered]) -> Sample:
    """How fast it went, and what the registry spent if its process is known."""
    if registry.pid is None:
        client = -own_cpu_seconds()
        done = run()
        client += own_cpu_seconds()
        return {**_speed(done), CLIENT_CORES: client / done.seconds}
    with Meter(registry.pid) as meter:
        done = run()
    return {
        **_speed(done),
        CPU: meter.broker_cpu / done.requests * 1000,
        CORES: meter.broker_cpu / done.seconds,
        CLIENT_CORES: meter.client_cpu / done.seconds,
        PEAK: meter.peak_bytes / 1e6,
        PROPORTIONAL: meter.proportional_bytes / 1e6,
    }


def _speed(done: Answered) -> dict[Figure, float]:
    return {
        RATE: done.rate,
        P50: done.latencies.milliseconds(0.5),
        P99: done.latencies.milliseconds(0.99),
    }
