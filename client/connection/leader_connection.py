"""A connection to a leader on an event loop: requests are sent in order, responses awaited.

A thread opens it, because name resolution, TLS and login may block. From then on nothing blocks:
the loop reports when the socket is ready. No callback handles more than a megabyte.

Unless the owner provides memory, each response is received into the memory of the one before, so
the owner must take what it needs from a response before it sends the next request.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Final, Self, TypeVar

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.connection.channel import Channel
from client.connection.connection import BrokerConnection
from client.connection.conversation import Memory
from client.errors import ClientError, ConnectionLost
from wire.framing.codec import Api
from wire.record_batches.batch import Buffer

Request = TypeVar("Request")
Response = TypeVar("Response")

_AT_ONCE: Final = 1024 * 1024  # bytes received in one callback
_SMALL: Final = 64 * 1024
_LARGE_STEP: Final = 1024 * 1024


class AnswerMemory:
    """Memory for one response at a time. The large buffer is kept while large responses arrive."""

    def __init__(self) -> None:
        self._small = memoryview(bytearray(_SMALL))
        self._large = memoryview(b"")

    def __call__(self, size: int) -> memoryview:
        if size <= _SMALL:
            self._large = memoryview(b"")
            return self._small[:size]
        if size > len(self._large):
            self._large = memoryview(b"")  # freed before the next is allocated
            room = -(-size // _LARGE_STEP) * _LARGE_STEP
            # Pages take memory only when they are written, not all in one callback.
            self._large = memoryview(mmap(-1, room, flags=MAP_PRIVATE | MAP_ANONYMOUS))
        return self._large[:size]


class LeaderConnection:
    """A connection that belongs to an event loop. Create it with `open`; unusable after an
    error."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self._channel = channel
        self._loop = loop
        self._descriptor = channel.fileno()
        self._writing = False
        self._failure: ClientError | None = None
        loop.add_reader(self._descriptor, self._readable)

    @classmethod
    async def open(
        cls, address: Address, client_id: str, access: Access, memory: Memory | None = None
    ) -> Self:
        """Opens a connection; responses are received into `memory`. Raises ClientError."""
        answer_memory = memory or AnswerMemory()
        loop = asyncio.get_running_loop()
        connection_future: asyncio.Future[BrokerConnection] = loop.create_future()

        def arrived(result: BrokerConnection | Exception) -> None:
            if isinstance(result, Exception):
                if not connection_future.cancelled():
                    connection_future.set_exception(result)
            elif connection_future.cancelled():
                result.close()
            else:
                connection_future.set_result(result)

        def connect() -> None:
            result: BrokerConnection | Exception
            try:
                result = BrokerConnection(address, client_id, access, memory=answer_memory)
            except Exception as error:  # noqa: BLE001 raised where it is awaited
                result = error
            try:
                loop.call_soon_threadsafe(arrived, result)
            except RuntimeError:  # the loop has ended
                if isinstance(result, BrokerConnection):
                    result.close()

        threading.Thread(target=connect, name=f"open {address}", daemon=True).start()
        try:
            return cls(Channel(await connection_future), loop)
        except asyncio.CancelledError:
            if (
                connection_future.done()
                and not connection_future.cancelled()
                and connection_future.exception() is None
            ):
                connection_future.result().close()  # it arrived just as the caller was cancelled
            raise

    @property
    def is_spent(self) -> bool:
        """Whether the login has expired, so that another connection must be opened."""
        return time.monotonic() >= self._channel.spent_at

    def check(self) -> None:
        """Checks that the connection has not failed. Raises ClientError."""
        if self._failure is not None:
            raise self._failure

    async def ask(self, api: Api[Request, Response], request: Request, within: float) -> Response:
        """Sends a request and returns its response. Raises ClientError."""
        version = self._channel.version(api)
        return await self.put(api, version, [api.encode_request(version, request)], within)

    def version(self, api: Api[Any, Any]) -> int:
        """Returns the API version that a request will use. Raises `Unsupported`."""
        return self._channel.version(api)

    def put(
        self, api: Api[Any, Response], version: int, body: Sequence[Buffer], within: float
    ) -> "asyncio.Future[Response]":
        """Sends an encoded request, after earlier ones, without copying its pieces. The returned
        future yields the response or raises ClientError, and must be awaited."""
        self.check()
        answer_future: asyncio.Future[Response] = self._loop.create_future()
        timer = self._loop.call_later(within, self._overdue)

        def called_back(answer: Response | ClientError) -> None:
            timer.cancel()
            if answer_future.done():
                return
            if isinstance(answer, ClientError):
                answer_future.set_exception(answer)
            else:
                answer_future.set_result(answer)

        self._channel.put(api, version, body, called_back, deadline=time.monotonic() + within)
        if self._channel.failure is not None:
            self._end(self._channel.failure)
        self._watch_writing()
        return answer_future

    def close(self) -> None:
        """Closes the connection; requests in flight fail."""
        self._end(ConnectionLost(f"{self._channel.address}: closed"))

    def _overdue(self) -> None:
        self._end(ConnectionLost(f"{self._channel.address}: no answer in time"))

    def _readable(self) -> None:
        if self._failure is not None:
            return
        try:
            if self._channel.read(_AT_ONCE):
                self._loop.call_soon(
                    self._readable
                )  # TLS may have buffered bytes that the socket no longer shows
        except ClientError as error:
            self._end(error)

    def _writable(self) -> None:
        try:
            self._channel.write()
        except ClientError as error:
            self._end(error)
        else:
            self._watch_writing()

    def _watch_writing(self) -> None:
        wants_to_write = self._channel.wants_to_write and self._failure is None
        if wants_to_write and not self._writing:
            self._loop.add_writer(self._descriptor, self._writable)
        elif self._writing and not wants_to_write:
            self._loop.remove_writer(self._descriptor)
        self._writing = wants_to_write

    def _end(self, error: ClientError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._loop.remove_reader(self._descriptor)
        self._watch_writing()
        self._channel.end(error)
