"""Flushes logs to disk, off the event loop, one `fdatasync` for all that arrived meanwhile.

A few threads wait for tickets. A ticket says which files to sync and up to which offset they then
are on disk; when it is done, the event loop is told. A log has one ticket under way at a time:
what is appended while it runs is covered by the next one. So the slower the disk, the larger the
groups.

Clients take turns: who wrote to thousands of logs has thousands of tickets waiting, and the one of
a client that wrote to one log does not wait behind them.

What catches up has a thread of its own, so its tickets, of megabytes each, run one after the other.
Whoever somebody waits for finds the other threads free, and at the disk one of these tickets at
most: a journal that two files share makes the small one wait for all that the large one has there.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

log = logging.getLogger(__name__)


class Ticket(Protocol):
    """A flush that has been decided: `run` may be called on any thread, and notes its success."""

    def run(self) -> None: ...


Done = Callable[[float], None]  # seconds it took
_Work = tuple[Ticket, Done]


class Flusher:
    """All of it. `start` and the callbacks belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self._awaited = _Threads(loop, "flush", threads)
        self._catching_up = _Threads(loop, "flush-behind", 1)

    def start(
        self, ticket: Ticket, done: Done, client: Hashable = None, *, catches_up: bool = False
    ) -> None:
        """Run `ticket` when it is the client's turn, then call `done` on the event loop."""
        threads = self._catching_up if catches_up else self._awaited
        threads.start(ticket, done, client)

    def stop(self) -> None:
        """Finish what was started, then end the threads. Blocks."""
        self._awaited.stop()
        self._catching_up.stop()


class _Threads:
    """Some that do the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, threads: int) -> None:
        self._loop = loop
        self._waiting: dict[
            Hashable, deque[_Work]
        ] = {}  # by client; whose turn is next stands first
        self._turn = threading.Lock()  # of `_waiting`
        self._count: queue.SimpleQueue[bool] = queue.SimpleQueue()  # one for each that waits
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, ticket: Ticket, done: Done, client: Hashable) -> None:
        with self._turn:
            self._waiting.setdefault(client, deque()).append((ticket, done))
        self._count.put(True)

    def stop(self) -> None:
        for _ in self._threads:
            self._count.put(False)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while self._count.get():
            ticket, done = self._next()
            began = time.perf_counter()
            try:
                ticket.run()
            except OSError as error:
                log.error("flush failed error=%r", str(error))
            except Exception:
                log.exception("flush failed")
            self._loop.call_soon_threadsafe(done, time.perf_counter() - began)

    def _next(self) -> _Work:
        with self._turn:
            client, works = next(iter(self._waiting.items()))
            work = works.popleft()
            del self._waiting[client]
            if works:
                self._waiting[client] = works
        return work
