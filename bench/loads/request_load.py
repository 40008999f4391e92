"""Sends requests as fast as they are answered, using only a few microseconds per wake-up.

The requests are encoded beforehand. A connection sends slices of them while fewer than a window are
unanswered, and refills when half of the window is free. It wakes when a quarter of the window is
answered (SO_RCVLOWAT), so the generator's cost does not depend on how a broker splits its answers
into packets. Requests without answers are sent as fast as the socket takes them; each connection
then sends a last one with an answer, which stops the clock.
"""

import selectors
import socket
import ssl
import time
from collections.abc import Sequence

import msgspec

from bench.loads.requests import AnswerError, EqualRequests

_PATIENCE = 60.0  # seconds without any answer
_MOST_AT_ONCE = 128 * 1024  # given to TLS, which takes all of it or wants the same again


class Sent(msgspec.Struct, frozen=True):
    """The number of requests that were sent (and answered, if they are answered at all), and the
    time."""

    requests: int
    seconds: float


def connect(port: int, tls: ssl.SSLContext | None = None) -> socket.socket:
    """Connects as clients do, with a TLS handshake if `tls` is given."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock if tls is None else tls.wrap_socket(sock, server_hostname="localhost")


class _Connection:
    """A connection with a window of unanswered requests. `sent` counts bytes, `answered` counts
    requests."""

    def __init__(
        self, sock: socket.socket, requests: EqualRequests, *, window: int, answers: bool
    ) -> None:
        self.requests = requests
        self.socket = sock
        self.answers = answers
        self.sent = 0
        self.answered = 0
        self._window = window
        self._cycle = memoryview(requests.cycle)
        self._received = bytearray(2**20)
        self._kept = 0
        self.wake_after(max(1, window // 4) if answers else 1)
        self.socket.setblocking(False)

    def wake_after(self, answers: int) -> None:
        lower_bound = self.requests.answer_size * answers
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, lower_bound)

    def send(self) -> bool:
        """Fills the window; returns True if the socket takes no more."""
        while True:
            data = self._next(self._room)
            if not data:
                return False
            try:
                self.sent += self.socket.send(data)
            except BlockingIOError:
                return True

    def finish(self) -> None:
        """Sends the rest of a partly sent request."""
        rest = self._next(-self.sent % self.requests.request_size)
        self.socket.sendall(rest)
        self.sent += len(rest)

    def receive(self) -> None:
        size = self._read(memoryview(self._received)[self._kept :])
        if size is None:
            return
        if not size:
            raise AnswerError("the broker closed the connection")
        total = self._kept + size
        count = self.requests.check(memoryview(self._received)[:total])
        used_bytes = count * self.requests.answer_size
        self._kept = total - used_bytes
        self._received[: self._kept] = self._received[used_bytes:total]
        self.answered += count

    def _read(self, room: memoryview) -> int | None:
        """The number of bytes received; None if there were none yet."""
        try:
            return self.socket.recv_into(room)
        except BlockingIOError:
            return None

    @property
    def _room(self) -> int:
        """The number of bytes that may be sent now."""
        if not self.answers:
            return 2**20
        return max(0, (self.answered + self._window) * self.requests.request_size - self.sent)

    def _next(self, size: int) -> memoryview:
        """The next bytes to send, at most `size`."""
        start = self.sent % len(self._cycle)
        return self._cycle[start : start + size]

    @property
    def wants_more(self) -> bool:
        """Whether half of the window is free."""
        return not self.answers or self.in_flight <= self._window // 2

    @property
    def in_flight(self) -> int:
        return self.sent // self.requests.request_size - self.answered


class _EncryptedConnection(_Connection):
    """A connection with TLS. Data counts as sent once it is passed to TLS, and is passed again
    until TLS has taken it."""

    def __init__(
        self, sock: ssl.SSLSocket, requests: EqualRequests, *, window: int, answers: bool
    ) -> None:
        super().__init__(sock, requests, window=window, answers=answers)
        self._tls = sock
        self._begun = memoryview(b"")

    def send(self) -> bool:
        while True:
            if not self._begun:
                self._begun = self._next(min(self._room, _MOST_AT_ONCE))
                self.sent += len(self._begun)
            if not self._begun:
                return False
            try:
                self._tls.send(self._begun)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return True
            self._begun = memoryview(b"")

    def finish(self) -> None:
        self._tls.sendall(self._begun)
        super().finish()

    def _read(self, room: memoryview) -> int | None:
        count = 0
        is_blocking = self._tls.gettimeout() != 0
        try:
            while count < len(room):
                size = self._tls.recv_into(room[count:])
                count += size
                if not size or (is_blocking and not self._tls.pending()):
                    break
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not count:
                return None
        return count


def send_all(
    ports: Sequence[int],
    cycles: Sequence[EqualRequests],
    *,
    window: int,
    seconds: float,
    most: int = 2**62,
    last: Sequence[bytes] = (),
    tls: ssl.SSLContext | None = None,
) -> Sent:
    """Sends each cycle of requests to its port on a separate connection, for `seconds` or until
    `most` are sent.

    With `last`, only these requests have answers.
    """
    open_connections: list[_Connection] = []
    try:
        for port, requests in zip(ports, cycles, strict=True):
            sock = connect(port, tls)
            open_connections.append(
                _EncryptedConnection(sock, requests, window=window, answers=not last)
                if isinstance(sock, ssl.SSLSocket)
                else _Connection(sock, requests, window=window, answers=not last)
            )
        start_time = time.perf_counter()
        _run(open_connections, start_time + seconds, most)
        _finish(open_connections, last)
        elapsed = time.perf_counter() - start_time
    finally:
        for connection in open_connections:
            connection.socket.close()
    return Sent(
        sum(connection.sent // connection.requests.request_size for connection in open_connections),
        elapsed,
    )


def _run(open_connections: Sequence[_Connection], until: float, limit: int) -> None:
    read_and_write = selectors.EVENT_READ | selectors.EVENT_WRITE
    with selectors.EpollSelector() as selector:
        for connection in open_connections:
            connection.send()
            selector.register(connection.socket, read_and_write, connection)
        last_answer = time.perf_counter()
        while (now := time.perf_counter()) < until:
            ready_keys = selector.select(until - now)
            if not ready_keys and now - last_answer > _PATIENCE:
                raise AnswerError(f"no answer for {_PATIENCE:g} s")
            last_answer = now if ready_keys else last_answer
            for key, _ in ready_keys:
                connection = key.data
                if connection.answers:
                    connection.receive()
                is_full = connection.wants_more and connection.send()
                events = read_and_write if is_full else selectors.EVENT_READ
                if events != key.events:
                    selector.modify(key.fileobj, events, connection)
            if (
                sum(
                    connection.sent // connection.requests.request_size
                    for connection in open_connections
                )
                >= limit
            ):
                return


def _finish(open_connections: Sequence[_Connection], last: Sequence[bytes]) -> None:
    """Complete every connection's last request and receive all answers."""
    for number, connection in enumerate(open_connections):
        connection.socket.settimeout(_PATIENCE)
        connection.finish()
        if last:
            size = connection.requests.request_size
            connection.answered = connection.sent // size
            connection.socket.sendall(last[number])
            connection.sent += size
    for connection in open_connections:
        connection.wake_after(1)
        try:
            while connection.in_flight:
                connection.receive()
        except TimeoutError:
            raise AnswerError(f"{connection.in_flight} requests without an answer") from None
