"""Flushes logs to disk, off the event loop, with one `fdatasync` for everything that arrives
meanwhile.

A few threads wait for tickets. A ticket names the files to sync and the offset up to which they are
on disk after that; when it is done, the event loop is notified. A log has one ticket under way at a
time: what is appended while it runs is covered by the next one. So the slower the disk, the larger
the groups.

Many small waiting tickets are run together, a few on each thread: reacquiring the interpreter lock
and waking the event loop then cost once for all of them.

Clients take turns: one that wrote to thousands of logs has thousands of tickets waiting, and the
ticket of a client that wrote to one log does not wait behind them.

Records that a consumer waits for, and that no producer awaits the flush of, are flushed when
nothing else is, one log after the other. So a consumer at the end of a log sees acks=1 records as
soon as the disk is free, and an awaited flush has at most one such flush before its own.

Replicas that catch up have a thread of their own, so their tickets, of megabytes each, run one
after the other. An awaited flush finds the other threads free, and competes with at most one of
these tickets for the disk: files that share a journal make the small one wait for all the data of
the large one.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

_MOST_TOGETHER: Final = 16  # so that the first of them waits for only a few more flushes

log = logging.getLogger(__name__)


class Ticket(Protocol):
    """A flush that is ready to run. Records its own success."""

    @property
    def is_plain(self) -> bool:
        """Whether the ticket may run together with other flushes."""


T = TypeVar("T", bound=Ticket)
Run = Callable[[Sequence[T]], None]  # runs several tickets together, on any thread
Done = Callable[[float], None]  # seconds it took
Begin = Callable[[], None]  # starts a ticket, or finds that none is due any more


class Flusher(Generic[T]):
    """All threads that flush. `start` and the callbacks belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Run[T], threads: int = 4) -> None:
        self._loop = loop
        self._awaited = _Threads(loop, run, "flush", threads, together=_MOST_TOGETHER)
        self._catching_up = _Threads(loop, run, "flush-behind", 1, together=1)
        self._under_way = 0  # awaited tickets
        self._when_idle: deque[Begin] = deque()
        self._looks_soon = False  # a check whether nothing is under way is scheduled

    def start(
        self, ticket: T, done: Done, client: Hashable = None, *, catches_up: bool = False
    ) -> None:
        """Runs `ticket` when it is the client's turn, then calls `done` on the event loop."""
        if catches_up:
            self._catching_up.start(ticket, done, client)
            return
        self._under_way += 1
        self._awaited.start(ticket, partial(self._ended, done), client)

    def when_idle(self, begin: Begin) -> None:
        """Calls `begin` on the event loop, once, when no awaited ticket is running: at the end of
        this turn at the earliest, with everything that arrives in it."""
        self._when_idle.append(begin)
        if not self._looks_soon:
            self._looks_soon = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        while self._when_idle and not self._under_way:
            self._when_idle.popleft()()

    def _ended(self, done: Done, seconds: float) -> None:
        self._under_way -= 1
        done(seconds)
        if self._when_idle and not self._looks_soon:
            self._looks_soon = True
            self._loop.call_soon(self._look)

    def stop(self) -> None:
        """Finishes the started tickets, then ends the threads. Blocks."""
        self._awaited.stop()
        self._catching_up.stop()


class _Threads(Generic[T]):
    """A pool of threads for tickets of the same kind."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run: Run[T],
        name: str,
        threads: int,
        *,
        together: int,
    ) -> None:
        self._loop = loop
        self._run = run
        self._together = together  # at most
        # By client; the next one stands first.
        self._waiting: dict[Hashable, deque[tuple[T, Done]]] = {}
        self._turn = threading.Lock()  # of `_waiting`
        self._count: queue.SimpleQueue[bool] = queue.SimpleQueue()  # one for each waiting ticket
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, ticket: T, done: Done, client: Hashable) -> None:
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
            works = self._next()
            start_time = time.perf_counter()
            try:
                self._run([ticket for ticket, _ in works])
            except Exception:
                log.exception("flush failed")
            callbacks = [callback for _, callback in works]
            self._loop.call_soon_threadsafe(self._tell, callbacks, time.perf_counter() - start_time)

    def _tell(self, callbacks: Sequence[Done], seconds: float) -> None:
        for callback in callbacks:
            self._loop.call_soon(callback, seconds)

    def _next(self) -> list[tuple[T, Done]]:
        """The ticket whose turn it is; if it is plain, with a thread's share of plain ones."""
        max_tickets = min(1 + self._count.qsize() // len(self._threads), self._together)
        with self._turn:
            tickets = [self._take()]
            if tickets[0][0].is_plain:
                while len(tickets) < max_tickets and self._may_take_another():
                    tickets.append(self._take())
        return tickets

    def _take(self) -> tuple[T, Done]:
        client, works = next(iter(self._waiting.items()))
        work = works.popleft()
        del self._waiting[client]
        if works:
            self._waiting[client] = works
        return work

    def _may_take_another(self) -> bool:
        """Whether the next ticket is plain, and not needed by a thread that was already woken."""
        next_queue = next(iter(self._waiting.values()), None)
        if next_queue is None or not next_queue[0][0].is_plain:
            return False
        try:
            has_ticket = self._count.get_nowait()
        except queue.Empty:
            return False
        if not has_ticket:
            self._count.put(False)  # for another thread, or for this one later
        return has_ticket
