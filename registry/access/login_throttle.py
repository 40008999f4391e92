"""Delays logins after failed ones: long for the same user and address, briefly for others from
that address.

Guessing passwords is thus limited to some thousand attempts a day, while other users of the same
address wait a second at most. Recently verified logins do not wait at all. Both the logins that one
address may have waiting and the addresses that are tracked are bounded.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from ground.network.networks import network_of

_FIRST_S: Final = 0.1
_OF_A_USER_S: Final = 10.0  # at most
_OF_A_HOST_S: Final = 1.0
_FORGOTTEN_S: Final = 900.0
_MOST_KEPT: Final = 10_000
_MOST_OF_A_USER: Final = 64  # waiting
_MOST_OF_A_HOST: Final = 256

_Key = TypeVar("_Key")


class TooManyLogins(Exception):
    """Too many logins for this user or from this address are waiting."""


class _Queue(msgspec.Struct):
    """Logins that are checked one after the other."""

    longest: float
    failures: int = 0
    not_before: float = 0.0
    waiting: int = 0
    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def failed(self, time: float) -> None:
        if time - self.not_before > _FORGOTTEN_S:
            self.failures = 0
        pause = min(_FIRST_S * 2.0 ** min(self.failures, 30), self.longest)
        self.failures += 1
        self.not_before = time + pause


class LoginThrottle:
    """The delays and queues of logins. Belongs to the event loop."""

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
        """Waits for the turn of this user and address, and keeps it during the block. Yields a
        function to call if the login fails.

        Raises TooManyLogins.
        """
        host = network_of(address)
        user_queue = _queue_of(self._users, (host, user), _OF_A_USER_S)
        host_queue = _queue_of(self._hosts, host, _OF_A_HOST_S)

        def failed() -> None:
            user_queue.failed(self._now())
            host_queue.failed(self._now())

        async with (
            self._in_turn(user_queue, _MOST_OF_A_USER),
            self._in_turn(host_queue, _MOST_OF_A_HOST),
        ):
            yield failed

    @asynccontextmanager
    async def _in_turn(self, queue: _Queue, most: int) -> AsyncIterator[None]:
        if queue.waiting >= most:
            raise TooManyLogins
        queue.waiting += 1
        try:
            async with queue.lock:
                await self._sleep(max(queue.not_before - self._now(), 0))
                yield
        finally:
            queue.waiting -= 1


def _queue_of(queues: "OrderedDict[_Key, _Queue]", key: _Key, longest: float) -> _Queue:
    """The queue of a key. At capacity, the oldest queue without waiters makes room."""
    queue = queues.get(key)
    if queue is None:
        if len(queues) >= _MOST_KEPT:
            idle_key = next((key for key, queue in queues.items() if not queue.waiting), None)
            if idle_key is None:
                raise TooManyLogins
            del queues[idle_key]
        queue = queues[key] = _Queue(longest)
    queues.move_to_end(key)
    return queue
