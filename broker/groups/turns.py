"""Turns at a scarce resource, such as threads: by client, so that a client with many requests
delays only itself.

A client is identified by its principal, or without login by its network; None stands for the broker
itself. Belongs to the event loop.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker.connections.caller import ANONYMOUS, Caller
from ground.network.networks import network_of

Client = str | None


def client_of(caller: Caller) -> Client:
    if caller.principal != ANONYMOUS:
        return f"principal {caller.principal}"
    return f"network {network_of(caller.host)}"


class Turns:
    """Turns, of which `most` are taken at a time."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: dict[Client, deque[asyncio.Future[None]]] = {}  # the next one stands first

    @asynccontextmanager
    async def of(self, client: Client) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._hand_on()

    async def _wait(self, client: Client) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._hand_on()  # the turn was given to a task that has been cancelled
            raise

    def _hand_on(self) -> None:
        while self._waiting:
            client, turns = next(iter(self._waiting.items()))
            del self._waiting[client]
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
