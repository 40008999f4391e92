"""One client's connection to a `PageServer`, in the clear or by TLS.

What is sent is not copied: a large page that many clients read slowly is held once. Belongs to the
server's event loop.
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
        """`connection` does not block."""
        self._socket = connection
        self._loop = loop

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Before anything is received. Raises OSError: what TLS does not like is one."""
        encrypted = self._socket = context.wrap_socket(
            self._socket, server_side=True, do_handshake_on_connect=False
        )
        await self._when_it_can(encrypted.do_handshake, self._readable)

    @property
    def has_certificate(self) -> bool:
        """Whether the client has shown one that is believed."""
        return isinstance(self._socket, ssl.SSLSocket) and bool(self._socket.getpeercert())

    async def receive(self, most: int) -> bytes:
        """Nothing at the end."""
        return await self._when_it_can(partial(self._socket.recv, most), self._readable)

    async def send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            # What OpenSSL did not take is given to it again as it was.
            send = partial(self._socket.send, left[:_PIECE])
            left = left[await self._when_it_can(send, self._writable) :]

    def end_sending(self) -> None:
        """What the client still sends is only taken away after that, encrypted or not."""
        if isinstance(self._socket, ssl.SSLSocket):
            with contextlib.suppress(ssl.SSLError):  # it wants to wait for the client's own end
                self._socket.unwrap()
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    async def _when_it_can(
        self, attempt: Callable[[], T], possible: Callable[[], Awaitable[None]]
    ) -> T:
        """TLS may have to be read before it can be written, and the other way round."""
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
        await self._told(self._loop.add_reader, self._loop.remove_reader)

    async def _writable(self) -> None:
        await self._told(self._loop.add_writer, self._loop.remove_writer)

    async def _told(self, watch: Callable[..., None], leave: Callable[[int], bool]) -> None:
        descriptor = self._socket.fileno()
        told = asyncio.Event()
        watch(descriptor, told.set)
        try:
            await told.wait()
        finally:
            leave(descriptor)
