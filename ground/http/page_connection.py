"""A client's connection to a `PageServer`, with or without TLS.

Sent data is not copied: a large page that many clients read slowly is held in memory once. Belongs
to the server's event loop.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

_PIECE: Final = 128 * 1024

T = TypeVar("T")


class PageConnection:
    def __init__(self, connection: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        """`connection` must be non-blocking."""
        self._socket = connection
        self._loop = loop

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Performs the TLS handshake, before any other data is received. Raises OSError."""
        tls_socket = self._socket = context.wrap_socket(
            self._socket, server_side=True, do_handshake_on_connect=False
        )
        await self._when_it_can(tls_socket.do_handshake, self._readable)

    @property
    def has_certificate(self) -> bool:
        """Whether the client has presented a trusted certificate."""
        return isinstance(self._socket, ssl.SSLSocket) and bool(self._socket.getpeercert())

    async def receive(self, most: int) -> bytes:
        """Returns received data; b"" at the end of the stream."""
        return await self._when_it_can(partial(self._socket.recv, most), self._readable)

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # OpenSSL requires the same data again if it could not send it.
            send = partial(self._socket.send, rest[:_PIECE])
            rest = rest[await self._when_it_can(send, self._writable) :]

    def end_sending(self) -> None:
        """Ends the response. From then on received data, encrypted or not, can only be
        discarded."""
        if isinstance(self._socket, ssl.SSLSocket):
            with contextlib.suppress(ssl.SSLError):  # it would wait for the client's close_notify
                self._socket.unwrap()
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    async def _when_it_can(
        self, attempt: Callable[[], T], possible: Callable[[], Awaitable[None]]
    ) -> T:
        """Retries when the socket is ready; TLS may read in order to write, and vice versa."""
        while True:
            try:
                return attempt()
            except ssl.SSLWantReadError:
                await self._readable()
            except ssl.SSLWantWriteError:
                await self._writable()
            except BlockingIOError:
                await possible()

    async def _readable(self) -> None:
        await self._event(self._loop.add_reader, self._loop.remove_reader)

    async def _writable(self) -> None:
        await self._event(self._loop.add_writer, self._loop.remove_writer)

    async def _event(self, watch: Callable[..., None], unwatch: Callable[[int], bool]) -> None:
        descriptor = self._socket.fileno()
        readiness = asyncio.Event()
        watch(descriptor, readiness.set)
        try:
            await readiness.wait()
        finally:
            unwatch(descriptor)
