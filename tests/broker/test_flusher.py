"""Tickets are run in turns: nobody waits behind all of somebody else's."""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial

from broker.flusher import Flusher
from harness.event_loops import on_event_loop


class Recorded:
    """A ticket that tells when it was run."""

    def __init__(self, name: str, order: list[str], *, is_plain: bool = True) -> None:
        self._name = name
        self._order = order
        self.is_plain = is_plain

    def run(self) -> None:
        self._order.append(self._name)


class Held:
    """A ticket that is run until it is let go."""

    is_plain = True

    def __init__(self) -> None:
        self.runs = threading.Event()
        self.let_go = threading.Event()

    def run(self) -> None:
        self.runs.set()
        self.let_go.wait()


def run_each(tickets: Sequence[Held | Recorded]) -> None:
    for ticket in tickets:
        ticket.run()


def test_clients_take_turns() -> None:
    async def flush() -> list[str]:
        order: list[str] = []
        held = Held()
        ended: asyncio.Queue[float] = asyncio.Queue()
        flusher = Flusher(asyncio.get_running_loop(), run_each, threads=1)
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


@on_event_loop
async def test_what_catches_up_is_flushed_one_after_the_other_and_holds_up_nobody() -> None:
    order: list[str] = []
    first, second = Held(), Held()
    ended: asyncio.Queue[float] = asyncio.Queue()
    flusher = Flusher(asyncio.get_running_loop(), run_each)
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


@on_event_loop
async def test_what_was_started_is_finished_before_the_threads_end() -> None:
    order: list[str] = []

    flusher = Flusher(asyncio.get_running_loop(), run_each)
    for number in range(100):
        flusher.start(Recorded(str(number), order), lambda _: None, number % 7)
    flusher.stop()

    assert sorted(order, key=int) == [str(number) for number in range(100)]


def test_who_waits_for_an_idle_disk_comes_one_after_the_other_and_behind_all_others() -> None:
    async def flush() -> list[str]:
        order: list[str] = []
        held, next_ = Held(), Held()
        ended: asyncio.Queue[float] = asyncio.Queue()
        flusher = Flusher(asyncio.get_running_loop(), run_each)

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


def test_plain_ones_that_wait_are_run_together_some_by_each_thread() -> None:
    """Sixteen at most, so that none waits long; and what is not plain holds up no others."""

    async def flush() -> list[list[str]]:
        order: list[str] = []
        groups: list[list[str]] = []

        def run(tickets: Sequence[Held | Recorded]) -> None:
            begins_at = len(order)
            run_each(tickets)
            groups.append(order[begins_at:])

        held = Held()
        ended: asyncio.Queue[float] = asyncio.Queue()
        flusher = Flusher(asyncio.get_running_loop(), run, threads=1)
        flusher.start(held, ended.put_nowait)
        held.runs.wait()
        for number in range(20):
            flusher.start(Recorded(str(number), order), ended.put_nowait)
        for name, is_plain in (("slow", False), ("slower", False), ("a", True), ("b", True)):
            flusher.start(Recorded(name, order, is_plain=is_plain), ended.put_nowait)
        held.let_go.set()
        for _ in range(25):
            await ended.get()
        flusher.stop()
        return groups

    first, *groups = asyncio.run(flush())
    assert first == []
    assert groups == [
        [str(number) for number in range(16)], ["16", "17", "18", "19"],
        ["slow"], ["slower"], ["a", "b"],
    ]  # fmt: skip


def test_what_waits_is_shared_among_the_threads() -> None:
    """None takes what another one, that has been woken for it, could begin with now."""

    async def flush() -> int:
        together: list[int] = []

        def run(tickets: Sequence[Held | Recorded]) -> None:
            together.append(len(tickets))
            run_each(tickets)

        helds = [Held() for _ in range(4)]
        ended: asyncio.Queue[float] = asyncio.Queue()
        flusher = Flusher(asyncio.get_running_loop(), run)
        for held in helds:
            flusher.start(held, ended.put_nowait)
        for held in helds:
            held.runs.wait()
        together.clear()
        for number in range(8):
            flusher.start(Recorded(str(number), []), ended.put_nowait, number)
        for held in helds:
            held.let_go.set()
        for _ in range(12):
            await ended.get()
        flusher.stop()
        return max(together)

    assert asyncio.run(flush()) <= 1 + 7 // 4


@on_event_loop
async def test_a_fault_of_the_program_leaves_nobody_waiting() -> None:
    def fail(_tickets: Sequence[Recorded]) -> None:
        raise RuntimeError

    ended: asyncio.Queue[float] = asyncio.Queue()
    flusher = Flusher(asyncio.get_running_loop(), fail)
    for number in range(20):
        flusher.start(Recorded(str(number), []), ended.put_nowait)
    for _ in range(20):
        await ended.get()
    flusher.stop()
