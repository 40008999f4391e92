"""Tickets are run in turns: nobody waits behind all of somebody else's."""

import asyncio
import threading
from functools import partial

from broker.flusher import Flusher


class Recorded:
    """A ticket that tells when it was run."""

    def __init__(self, name: str, order: list[str]) -> None:
        self._name = name
        self._order = order

    def run(self) -> None:
        self._order.append(self._name)


class Held:
    """A ticket that is run until it is let go."""

    def __init__(self) -> None:
        self.runs = threading.Event()
        self.let_go = threading.Event()

    def run(self) -> None:
        self.runs.set()
        self.let_go.wait()


def test_clients_take_turns() -> None:
    async def flush() -> list[str]:
        order: list[str] = []
        held = Held()
        ended: asyncio.Queue[float] = asyncio.Queue()
        flusher = Flusher(asyncio.get_running_loop(), threads=1)
        flusher.start(held, ended.put_nowait, "with many")
        held.runs.wait()
        for number in range(4):
            flusher.start(Recorded(f"many {number}", order), ended.put_nowait, "with many")
        flusher.start(Recorded("one", order), ended.put_nowait, "with one")
        for number in range(2):
            flusher.start(Recorded(f"some {number}", order), ended.put_nowait, "with some")
        held.let_go.set()
        for _ in range(8):
            await ended.get()
        flusher.stop()
        return order

    assert asyncio.run(flush()) == [
        "many 0", "one", "some 0", "many 1", "some 1", "many 2", "many 3",
    ]  # fmt: skip


def test_what_catches_up_is_flushed_one_after_the_other_and_holds_up_nobody() -> None:
    async def flush() -> None:
        order: list[str] = []
        first, second = Held(), Held()
        ended: asyncio.Queue[float] = asyncio.Queue()
        flusher = Flusher(asyncio.get_running_loop())
        for held in (first, second):
            flusher.start(held, ended.put_nowait, "replication", catches_up=True)
        first.runs.wait()
        for number in range(20):
            flusher.start(Recorded(str(number), order), ended.put_nowait, "replication")
        for _ in range(20):
            await ended.get()
        assert len(order) == 20
        assert not second.runs.is_set()
        first.let_go.set()
        await ended.get()
        second.runs.wait()
        second.let_go.set()
        flusher.stop()

    asyncio.run(flush())


def test_what_was_started_is_finished_before_the_threads_end() -> None:
    order: list[str] = []

    async def flush() -> None:
        flusher = Flusher(asyncio.get_running_loop())
        for number in range(100):
            flusher.start(Recorded(str(number), order), lambda _: None, number % 7)
        flusher.stop()

    asyncio.run(flush())
    assert sorted(order, key=int) == [str(number) for number in range(100)]


def test_who_waits_for_an_idle_disk_comes_one_after_the_other_and_behind_all_others() -> None:
    async def flush() -> list[str]:
        order: list[str] = []
        held, next_ = Held(), Held()
        ended: asyncio.Queue[float] = asyncio.Queue()
        flusher = Flusher(asyncio.get_running_loop())

        def begin(name: str, ticket: Held | Recorded) -> None:
            order.append(f"began {name}")
            flusher.start(ticket, ended.put_nowait)

        flusher.start(held, ended.put_nowait)
        flusher.when_idle(partial(begin, "first", next_))
        flusher.when_idle(partial(begin, "second", Recorded("second", order)))
        flusher.when_idle(lambda: order.append("found nothing to do"))
        held.runs.wait()
        flusher.start(Recorded("awaited", order), ended.put_nowait)
        await ended.get()
        await asyncio.sleep(0)
        assert order == ["awaited"], "one is still under way"
        held.let_go.set()
        await ended.get()
        await asyncio.sleep(0)
        assert order == ["awaited", "began first"]
        next_.let_go.set()
        await ended.get()
        await ended.get()
        flusher.stop()
        return order

    assert asyncio.run(flush()) == [
        "awaited", "began first", "began second", "second", "found nothing to do",
    ]  # fmt: skip
