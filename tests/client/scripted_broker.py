"""A peer that follows a script, byte by byte, over a real socket.

For situations that no real broker produces on demand: garbage, silence, a connection that breaks at
a given byte.
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
    """A framed response."""
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

    Every connection starts the script again; requests after its end are read and not answered.
    A request that is incomplete when its connection ends is ignored.
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
        """Stop listening and close all connections."""
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self._threads[0].join()
        self.hang_up()
        for thread in self._threads[1:]:
            thread.join()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Read nothing within the block."""
        with self._reading:
            yield

    def wait_until_left(self) -> None:
        """Wait until the peer has closed its connections."""
        for thread in self._threads[1:]:
            thread.join(60)
            assert not thread.is_alive()

    def hang_up(self) -> None:
        """Reset the open connections."""
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
    """Closing a connection with unread requests resets it and drops answers that are still in
    flight, so those are delivered first.
    """
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(64 * 1024):
        pass
