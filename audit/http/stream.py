"""Handles `/api/v1/stream`, which sends a line to each open page after every change, at most once a
second.

Belongs to the event loop of the HTTP server. A line says that something changed and not what, so a
page may miss one. Without changes the last number is repeated now and then, with the time up to
which the ledger has been read. A stream ends if its client is too slow, when the server stops, and
after an hour, which bounds how long it outlives a login; the page reconnects. Streams are limited
for each address (for IPv6, its /64).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.types import Receive, Send

from ground.network.networks import NetworkRoom

MOST_STREAMS: Final = 64
MOST_OF_ONE: Final = MOST_STREAMS * 3 // 4  # of one address, which may be a proxy's
LONGEST_S: Final = 3600.0

_APART_S: Final = 1.0
_SIGN_OF_LIFE_S: Final = 15.0
_PATIENCE_S: Final = 10.0
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy must not hold the lines back
]


class Streams:
    """The open streams. `line` makes the line to send; a caller takes a place in `room` before it
    calls `serve`."""

    def __init__(self, line: Callable[[], bytes], longest_s: float = LONGEST_S) -> None:
        self._line = line
        self._longest_s = longest_s
        self.room = NetworkRoom(MOST_OF_ONE, MOST_STREAMS)
        self._changed = asyncio.Event()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """Sends a line to all streams."""
        self._changed.set()
        self._changed = asyncio.Event()

    def end(self) -> None:
        """Ends all streams."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def serve(self, receive: Receive, send: Send) -> None:
        """Sends lines until the client disconnects or is too slow."""
        disconnection = asyncio.ensure_future(_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            async for line in self._lines(disconnection):
                async with asyncio.timeout(_PATIENCE_S):
                    await send({"type": "http.response.body", "body": line, "more_body": True})
            if not disconnection.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            disconnection.cancel()

    async def _lines(self, gone: asyncio.Future[None]) -> AsyncIterator[bytes]:
        change = asyncio.ensure_future(self._changed.wait())
        end_time = asyncio.get_running_loop().time() + self._longest_s
        yield self._line()
        while not self._over(gone) and asyncio.get_running_loop().time() < end_time:
            await _first(gone, self._ended, within=_APART_S)
            await _first(change, gone, self._ended, within=_SIGN_OF_LIFE_S)
            if self._over(gone):
                break
            if change.done():
                change = asyncio.ensure_future(self._changed.wait())
            yield self._line()
        change.cancel()

    def _over(self, gone: asyncio.Future[None]) -> bool:
        return self._ended.done() or gone.done()


async def _first(*waited: asyncio.Future[Any], within: float) -> None:
    await asyncio.wait(waited, timeout=within, return_when=asyncio.FIRST_COMPLETED)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
