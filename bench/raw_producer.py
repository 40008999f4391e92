"""Produces as fast as the broker answers, for a few microseconds of its own time a wake-up.

The requests are encoded beforehand; a connection sends slices of them while no more than a window
is unanswered, and refills when half of the window is free. It is woken when a quarter of the
window has been answered (SO_RCVLOWAT), so that the generator's cost does not grow with the number
of packets that a broker spreads its answers over. Requests with acks=0 have no answer: each
connection ends with one that has, and the clock stops there.
"""

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.requests import (
    MESSAGE_SIZE,
    AnswerError,
    ProduceRequests,
    produce_requests,
    record_batch,
)

_PATIENCE = 60.0  # seconds without any answer


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a load generator got through."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def bytes(self) -> int:
        """Of payload: keys, framing and headers not counted."""
        return self.messages * MESSAGE_SIZE


class _Connection:
    """One connection's window. `sent` and `answered` count bytes and requests since the start."""

    def __init__(self, port: int, requests: ProduceRequests, *, window: int, answers: bool) -> None:
        self.requests = requests
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = answers
        self.window = window
        self.sent = 0
        self.answered = 0
        self.marked = False
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
        size = self.requests.request_size
        while True:
            room = (self.answered + self.window) * size - self.sent if self.answers else 2**20
            if room <= 0:
                return False
            start = self.sent % len(self._cycle)
            try:
                self.sent += self.socket.send(self._cycle[start : start + room])
            except BlockingIOError:
                return True

    def unfinished(self) -> memoryview:
        """What is missing of a request that was sent in part."""
        missing = -self.sent % self.requests.request_size
        start = self.sent % len(self._cycle)
        return self._cycle[start : start + missing]

    def receive(self) -> None:
        try:
            got = self.socket.recv_into(memoryview(self._received)[self._kept :])
        except BlockingIOError:
            return
        if not got:
            raise AnswerError("the broker closed the connection")
        have = self._kept + got
        count = self.requests.check(memoryview(self._received)[:have])
        used = count * self.requests.answer_size
        self._kept = have - used
        self._received[: self._kept] = self._received[used:have]
        self.answered += count

    @property
    def wants_more(self) -> bool:
        """Whether half of the window is free."""
        return not self.answers or self.in_flight <= self.window // 2

    @property
    def in_flight(self) -> int:
        return self.sent // self.requests.request_size - self.answered


def produce(
    port: int,
    topic: str,
    *,
    batch: int,
    acks: int,
    connections: int = 1,
    partitions: int = 1,
    window: int,
    seconds: float,
    limit: int = 2**62,
) -> Throughput:
    """Sends batches of `batch` messages for so many seconds, or until `limit` are answered."""
    body = record_batch(batch)
    opened = [
        _Connection(
            port,
            produce_requests(topic, number % partitions, body, batch, acks, at_least=window),
            window=window,
            answers=acks != 0,
        )
        for number in range(connections)
    ]
    marks = [
        produce_requests(topic, number % partitions, body, batch, 1).cycle
        for number in range(connections)
    ]
    try:
        started = time.perf_counter()
        _run(opened, started + seconds, max(1, limit // batch))
        _finish(opened, marks if acks == 0 else [])
        elapsed = time.perf_counter() - started
    finally:
        for each in opened:
            each.socket.close()
    requests = sum(each.sent // each.requests.request_size for each in opened)
    return Throughput(messages=requests * batch, seconds=elapsed)


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


def _finish(opened: Sequence[_Connection], marks: Sequence[bytes]) -> None:
    """Ends every connection's last request and takes all answers."""
    for number, each in enumerate(opened):
        each.socket.setblocking(True)
        each.socket.settimeout(_PATIENCE)
        rest = each.unfinished()
        each.socket.sendall(rest)
        each.sent += len(rest)
        if marks:
            size = each.requests.request_size
            each.answered = each.sent // size
            each.socket.sendall(marks[number][:size])
            each.sent += size
    for each in opened:
        each.wake_after(1)
        try:
            while each.in_flight:
                each.receive()
        except TimeoutError:
            raise AnswerError(f"{each.in_flight} requests without an answer") from None
