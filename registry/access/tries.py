"""Logins that have failed make the next ones wait: those of the same user from the same address
for long, those of anybody else from there for a moment.

So whoever tries passwords gets through some thousand a day and not a million, and whoever shares an
address with him waits a second and not for ever. Logins that were right lately are not looked at
again, and so do not wait at all. What one address may have waiting is bounded, and what is
remembered of addresses too.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from ground.networks import network_of

_FIRST_S: Final = 0.1
_OF_A_USER_S: Final = 10.0  # at most
_OF_A_HOST_S: Final = 1.0
_FORGOTTEN_S: Final = 900.0
_MOST_KEPT: Final = 10_000
_MOST_OF_A_USER: Final = 64  # that wait
_MOST_OF_A_HOST: Final = 256

_Key = TypeVar("_Key")


class TooManyTries(Exception):
    """More wait already."""


class _Queue(msgspec.Struct):
    """Those that are looked at one after the other."""

    longest: float
    failures: int = 0
    not_before: float = 0.0
    waiting: int = 0
    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def failed(self, now: float) -> None:
        if now - self.not_before > _FORGOTTEN_S:
            self.failures = 0
        pause = min(_FIRST_S * 2.0 ** min(self.failures, 30), self.longest)
        self.failures += 1
        self.not_before = now + pause


class Tries:
    """Belongs to the event loop."""

    def __init__(
        self,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._users: OrderedDict[tuple[str, str], _Queue] = OrderedDict()
        self._hosts: OrderedDict[str, _Queue] = OrderedDict()

    @asynccontextmanager
    async def turn(self, address: str, user: str) -> AsyncIterator[Callable[[], None]]:
        """Within it nobody else from there is looked at. What it gives is called if the login has
        failed. Raises TooManyTries."""
        host = network_of(address)
        of_user = _found(self._users, (host, user), _OF_A_USER_S)
        of_host = _found(self._hosts, host, _OF_A_HOST_S)

        def failed() -> None:
            of_user.failed(self._now())
            of_host.failed(self._now())

        async with (
            self._in_turn(of_user, _MOST_OF_A_USER),
            self._in_turn(of_host, _MOST_OF_A_HOST),
        ):
            yield failed

    @asynccontextmanager
    async def _in_turn(self, queue: _Queue, most: int) -> AsyncIterator[None]:
        if queue.waiting >= most:
            raise TooManyTries
        queue.waiting += 1
        try:
            async with queue.lock:
                await self._sleep(max(queue.not_before - self._now(), 0))
                yield
        finally:
            queue.waiting -= 1


def _found(queues: "OrderedDict[_Key, _Queue]", key: _Key, longest: float) -> _Queue:
    """The oldest that nobody waits in make room."""
    queue = queues.get(key)
    if queue is None:
        if len(queues) >= _MOST_KEPT:
            idle = next((each for each, found in queues.items() if not found.waiting), None)
            if idle is None:
                raise TooManyTries
            del queues[idle]
        queue = queues[key] = _Queue(longest)
    queues.move_to_end(key)
    return queue
