"""Sends requests as fast as they are answered, for a few microseconds of its own time a wake-up.

The requests are encoded beforehand; a connection sends slices of them while no more than a window
is unanswered, and refills when half of the window is free. It is woken when a quarter of the
window has been answered (SO_RCVLOWAT), so that the generator's cost does not grow with the number
of packets that a broker spreads its answers over. Requests without an answer are sent as fast as
they are taken, and a last one on each connection has an answer: the clock stops there.
"""

import selectors
import socket
import ssl
import time
from collections.abc import Sequence

import msgspec

from bench.loads.requests import AnswerError, EqualRequests

_PATIENCE = 60.0  # seconds without any answer
_MOST_AT_ONCE = 128 * 1024  # of what TLS is given: it takes that whole, or wants the same again


class Sent(msgspec.Struct, frozen=True):
    """What was sent, and answered where there are answers."""

    requests: int
    seconds: float


def connect(port: int, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A connection as clients make it; with TLS after its handshake."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock if tls is None else tls.wrap_socket(sock, server_hostname="localhost")


class _Connection:
    """One connection's window. `sent` and `answered` count bytes and requests since the start."""

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
        low = self.requests.answer_size * answers
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low)

    def send(self) -> bool:
        """Fills the window; True if the socket takes no more."""
        while True:
            some = self._next(self._room)
            if not some:
                return False
            try:
                self.sent += self.socket.send(some)
            except BlockingIOError:
                return True

    def finish(self) -> None:
        """Waits until what was sent in part of a request is sent whole."""
        rest = self._next(-self.sent % self.requests.request_size)
        self.socket.sendall(rest)
        self.sent += len(rest)

    def receive(self) -> None:
        got = self._read(memoryview(self._received)[self._kept :])
        if got is None:
            return
        if not got:
            raise AnswerError("the broker closed the connection")
        have = self._kept + got
        count = self.requests.check(memoryview(self._received)[:have])
        used = count * self.requests.answer_size
        self._kept = have - used
        self._received[: self._kept] = self._received[used:have]
        self.answered += count

    def _read(self, room: memoryview) -> int | None:
        """How much has come; None if nothing has."""
        try:
            return self.socket.recv_into(room)
        except BlockingIOError:
            return None

    @property
    def _room(self) -> int:
        """How many bytes more may be sent."""
        if not self.answers:
            return 2**20
        return max(0, (self.answered + self._window) * self.requests.request_size - self.sent)

    def _next(self, size: int) -> memoryview:
        """What is to be sent next, at most so many bytes of it."""
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
    """What TLS has begun to send counts as sent, and is given to it again until it has taken it."""

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
        waits = self._tls.gettimeout() != 0
        try:
            while count < len(room):
                got = self._tls.recv_into(room[count:])
                count += got
                if not got or (waits and not self._tls.pending()):
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
    """Sends each of the cycles to one of the ports, on a connection of its own, for so many seconds
    or until so many requests are sent. With `last`, these are what have answers, and no others."""
    opened: list[_Connection] = []
    try:
        for port, each in zip(ports, cycles, strict=True):
            sock = connect(port, tls)
            opened.append(
                _EncryptedConnection(sock, each, window=window, answers=not last)
                if isinstance(sock, ssl.SSLSocket)
                else _Connection(sock, each, window=window, answers=not last)
            )
        started = time.perf_counter()
        _run(opened, started + seconds, most)
        _finish(opened, last)
        elapsed = time.perf_counter() - started
    finally:
        for connection in opened:
            connection.socket.close()
    return Sent(sum(each.sent // each.requests.request_size for each in opened), elapsed)


def _run(opened: Sequence[_Connection], until: float, limit: int) -> None:
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    with selectors.EpollSelector() as selector:
        for each in opened:
            each.send()
            selector.register(each.socket, both, each)
        heard = time.perf_counter()
        while (now := time.perf_counter()) < until:
            ready = selector.select(until - now)
            if not ready and now - heard > _PATIENCE:
                raise AnswerError(f"no answer for {_PATIENCE:g} s")
            heard = now if ready else heard
            for key, _ in ready:
                each = key.data
                if each.answers:
                    each.receive()
                full = each.wants_more and each.send()
                wanted = both if full else selectors.EVENT_READ
                if wanted != key.events:
                    selector.modify(key.fileobj, wanted, each)
            if sum(each.sent // each.requests.request_size for each in opened) >= limit:
                return


def _finish(opened: Sequence[_Connection], last: Sequence[bytes]) -> None:
    """Ends every connection's last request and takes all answers."""
    for number, each in enumerate(opened):
        each.socket.settimeout(_PATIENCE)
        each.finish()
        if last:
            size = each.requests.request_size
            each.answered = each.sent // size
            each.socket.sendall(last[number])
            each.sent += size
    for each in opened:
        each.wake_after(1)
        try:
            while each.in_flight:
                each.receive()
        except TimeoutError:
            raise AnswerError(f"{each.in_flight} requests without an answer") from None
