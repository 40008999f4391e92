"""A peer that answers as a test tells it to, byte by byte, over a real socket.

For what no real broker does on demand: garbage, silence, a connection that breaks at a given byte.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from client.connection.addresses import Address
from wire.framing.requests import read_header
from wire.messages import api_versions
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse

# Takes a request (with its header), returns the bytes to send; None closes the connection.
Answer = Callable[[memoryview], bytes | None]


def frame(correlation_id: int, body: bytes, *, tagged: bool = False) -> bytes:
    """A response as it travels."""
    payload = correlation_id.to_bytes(4, "big") + b"\0" * tagged + body
    return len(payload).to_bytes(4, "big") + payload


def greeting(request: memoryview, served: dict[int, tuple[int, int]]) -> bytes:
    """The answer to ApiVersions."""
    header = read_header(request)
    keys = tuple(
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in served.items()
    )
    body = api_versions.API.encode_response(header.api_version, ApiVersionsResponse(api_keys=keys))
    return frame(header.correlation_id, bytes(body))


class ScriptedBroker:
    """`with ScriptedBroker([greet, answer]) as broker`: one answer for each request, in turn.

    Every connection begins the script anew; after its end requests are read and not answered. A
    request that ends with its connection, before it is whole, is none.
    """

    def __init__(self, script: list[Answer]) -> None:
        self.requests: list[bytes] = []
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]
        self._connections: list[socket.socket] = []
        self._reading = threading.Lock()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nobody is there any more."""
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self._threads[0].join()
        self.hang_up()
        for thread in self._threads[1:]:
            thread.join()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Reads nothing meanwhile."""
        with self._reading:
            yield

    def wait_until_left(self) -> None:
        """Until the other side has closed its connections."""
        for thread in self._threads[1:]:
            thread.join(60)
            assert not thread.is_alive()

    def hang_up(self) -> None:
        """Breaks the connections there are."""
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            script = iter(self._script)
            try:
                while prefix := stream.read(4):
                    with self._reading:
                        pass
                    size = int.from_bytes(prefix, "big")
                    request = stream.read(size)
                    if len(request) < size:
                        return
                    self.requests.append(request)
                    if (answer := next(script, None)) is None:
                        continue
                    if (reply := answer(memoryview(request))) is None:
                        _hang_up_after_what_was_said(connection)
                        return
                    connection.sendall(reply)
            except OSError:
                return  # the other side went away


def _hang_up_after_what_was_said(connection: socket.socket) -> None:
    """A connection that is closed while requests of it are unread is reset, and the system drops
    answers that are not with the other side yet: they are said first."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(64 * 1024):
        pass
