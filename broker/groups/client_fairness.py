"""Fairness among clients: turns at a scarce resource, such as threads, and shares of a limited
amount, such as memory. A client with many requests delays only itself.

A client is identified by its principal, or without login by its network; None stands for the broker
itself. Belongs to the event loop.
"""

import asyncio
from collections import Counter, deque
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
    """Grants at most `most` turns at a time, shared fairly among clients."""

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
        turn_future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn_future)
        try:
            await turn_future
        except asyncio.CancelledError:
            if turn_future.done() and not turn_future.cancelled():
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


class Shares:
    """Divides the amount `most` among clients, so that one client cannot exhaust it.

    A client may have as much as is left for others: alone, half of it; a second one, half of the
    rest. The broker itself may have everything.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_client: Counter[Client] = Counter()
        self.taken = 0

    def has_room(self, client: Client, more: int) -> bool:
        """Returns whether the client may take this much more."""
        held_amount = 0 if client is None else self._by_client[client]
        return held_amount + more <= self._most - self.taken

    def take(self, client: Client, amount: int) -> None:
        """Takes an amount, even if there is no room; a negative amount is given back."""
        self.taken += amount
        self._by_client[client] += amount
        if not self._by_client[client]:
            del self._by_client[client]
