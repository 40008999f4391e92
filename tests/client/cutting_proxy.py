"""A proxy between a client and a broker that breaks connections at random points.

It replaces the broker's address in Metadata answers by its own, so that clients keep using it. A
connection breaks after a random number of bytes, counted over both directions; the rest of the
written data is lost.
"""

import contextlib
import random
import socket
import threading
from collections import Counter, deque
from typing import Self

from msgspec.structs import replace

from client.connection.addresses import Address
from wire.framing.requests import has_tagged_header, read_header, read_response
from wire.messages import metadata


class CuttingProxy:
    """`with CuttingProxy(broker, random.Random(1), most=100_000) as proxy: proxy.address`."""

    def __init__(
        self, broker: Address, chance: random.Random | None = None, *, most: int = 1
    ) -> None:
        """While `cutting`, connections break after 1 to `most` bytes, if `chance` is given."""
        self.cutting = chance is not None
        self.cuts = 0
        self.asked: Counter[int] = Counter()  # requests, by the keys of their APIs
        self._swallowing: int | None = None
        self._swallowed = threading.Event()
        self._broker = broker
        self._chance = chance or random.Random(0)
        self._most = most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for each in self._sockets:
            _end(each)
        for thread in self._threads[1:]:
            thread.join()

    def swallow_next(self, api_key: int) -> None:
        """Drop the next answer to this API, and its connection."""
        self._swallowed.clear()
        self._swallowing = api_key

    def swallowed(self) -> bool:
        """Whether that answer was dropped."""
        return self._swallowed.is_set()

    def swallows(self, api_key: int) -> bool:
        if self._swallowing != api_key:
            return False
        self._swallowing = None
        self._swallowed.set()
        return True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self._broker, timeout=60)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            self._sockets += [client, broker]
            passing = _Passing(self, client, broker, self._chance.randint(1, self._most))
            for run in (passing.requests, passing.answers):
                self._threads.append(threading.Thread(target=run))
                self._threads[-1].start()


class _Passing:
    """One connection."""

    def __init__(
        self, proxy: CuttingProxy, client: socket.socket, broker: socket.socket, left: int
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._left = left
        self._lock = threading.Lock()
        self._asked: deque[tuple[int, int]] = deque()  # keys and versions

    def requests(self) -> None:
        self._pass(self._client, self._broker, is_answer=False)

    def answers(self) -> None:
        self._pass(self._broker, self._client, is_answer=True)

    def _pass(self, source: socket.socket, sink: socket.socket, *, is_answer: bool) -> None:
        with source, source.makefile("rb") as stream, contextlib.suppress(OSError):
            while prefix := stream.read(4):
                size = int.from_bytes(prefix, "big")
                frame = stream.read(size)
                if len(frame) < size:
                    break
                if is_answer:
                    key, version = self._asked.popleft()
                    if self._proxy.swallows(key):
                        break
                    if key == metadata.API.key:
                        frame = self._renamed(frame, version)
                else:
                    header = read_header(memoryview(frame))
                    self._asked.append((header.api_key, header.api_version))
                    self._proxy.asked[header.api_key] += 1
                if not self._forward(sink, len(frame).to_bytes(4, "big") + frame):
                    break
            _end(self._client)
            _end(self._broker)

    def _forward(self, sink: socket.socket, data: bytes) -> bool:
        with self._lock:
            allowed = min(self._left, len(data)) if self._proxy.cutting else len(data)
            self._left -= allowed
        sink.sendall(data[:allowed])
        if allowed == len(data):
            return True
        self._proxy.cuts += 1
        return False

    def _renamed(self, frame: bytes, version: int) -> bytes:
        tagged = has_tagged_header(metadata.API, version)
        _, body = read_response(memoryview(frame), tagged_header=tagged)
        answer = metadata.API.decode_response(version, body)
        host, port = self._proxy.address
        named = tuple(replace(broker, host=host, port=port) for broker in answer.brokers)
        answer = replace(answer, brokers=named)
        return frame[: len(frame) - len(body)] + metadata.API.encode_response(version, answer)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
