"""Tickets are run in turns: nobody waits behind all of somebody else's."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from broker.replicas.flusher import Flusher
from harness.processes.event_loops import on_event_loop
from harness.processes.waiting import wait_until_async


class Recorded:
    """A ticket that tells when it was run."""

    def __init__(self, name: object, order: list[str], *, is_plain: bool = True) -> None:
        self._name = str(name)
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


Tickets = Sequence[Held | Recorded]


def run_each(tickets: Tickets) -> None:
    for ticket in tickets:
        ticket.run()


class Flushing:
    """A flusher, which tickets were run, and how many ended."""

    def __init__(self, run: Callable[[Tickets], None] = run_each, **more: Any) -> None:
        self.order: list[str] = []
        self._ended: asyncio.Queue[float] = asyncio.Queue()
        self.flusher: Flusher[Any] = Flusher(asyncio.get_running_loop(), run, **more)

    def start(self, ticket: Held | Recorded, *client: object, **more: bool) -> None:
        self.flusher.start(ticket, self._ended.put_nowait, *client, **more)

    def record(self, name: object, *client: object, **more: bool) -> None:
        self.start(Recorded(name, self.order, **more), *client)

    def hold(self, *client: object) -> Held:
        """A ticket that runs."""
        held = Held()
        self.start(held, *client)
        held.runs.wait()
        return held

    async def ended(self, count: int = 1) -> None:
        for _ in range(count):
            await self._ended.get()


@on_event_loop
async def test_clients_take_turns() -> None:
    flushing = Flushing(threads=1)
    held = flushing.hold("with many")
    for number in range(4):
        flushing.record(f"many {number}", "with many")
    flushing.record("one", "with one")
    for number in range(2):
        flushing.record(f"some {number}", "with some")
    held.let_go.set()
    await flushing.ended(8)
    flushing.flusher.stop()
    assert flushing.order == [
        "many 0", "one", "some 0", "many 1", "some 1", "many 2", "many 3",
    ]  # fmt: skip


@on_event_loop
async def test_what_catches_up_is_flushed_one_after_the_other_and_holds_up_nobody() -> None:
    flushing = Flushing()
    first, second = Held(), Held()
    for held in (first, second):
        flushing.start(held, "replication", catches_up=True)
    first.runs.wait()
    for number in range(20):
        flushing.record(number, "replication")
    await flushing.ended(20)
    assert len(flushing.order) == 20
    assert not second.runs.is_set()
    first.let_go.set()
    await flushing.ended()
    second.runs.wait()
    second.let_go.set()
    flushing.flusher.stop()


@on_event_loop
async def test_what_was_started_is_finished_before_the_threads_end() -> None:
    flushing = Flushing()
    for number in range(100):
        flushing.record(number, number % 7)
    flushing.flusher.stop()
    assert sorted(flushing.order, key=int) == [str(number) for number in range(100)]


@on_event_loop
async def test_who_waits_for_an_idle_disk_comes_one_after_the_other_and_behind_all_others() -> None:
    flushing = Flushing()
    order, next_ = flushing.order, Held()

    def begin(name: str, ticket: Held | Recorded) -> None:
        order.append(f"began {name}")
        flushing.start(ticket)

    held = flushing.hold()
    flushing.flusher.when_idle(partial(begin, "first", next_))
    flushing.flusher.when_idle(partial(begin, "second", Recorded("second", order)))
    flushing.flusher.when_idle(lambda: order.append("found nothing to do"))
    flushing.record("awaited")
    await flushing.ended()
    await asyncio.sleep(0)
    assert order == ["awaited"], "one is still under way"
    held.let_go.set()
    await flushing.ended()
    await asyncio.sleep(0)
    assert order == ["awaited", "began first"]
    next_.let_go.set()
    await flushing.ended(2)
    await wait_until_async(lambda: len(order) == 5)
    flushing.flusher.stop()
    assert order[2:] == ["began second", "second", "found nothing to do"]


@on_event_loop
async def test_plain_ones_that_wait_are_run_together_some_by_each_thread() -> None:
    """Sixteen at most, so that none waits long; and what is not plain holds up no others."""
    groups: list[list[str]] = []

    def run(tickets: Tickets) -> None:
        begins_at = len(flushing.order)
        run_each(tickets)
        groups.append(flushing.order[begins_at:])

    flushing = Flushing(run, threads=1)
    held = flushing.hold()
    for number in range(20):
        flushing.record(number)
    for name, is_plain in (("slow", False), ("slower", False), ("a", True), ("b", True)):
        flushing.record(name, is_plain=is_plain)
    held.let_go.set()
    await flushing.ended(25)
    flushing.flusher.stop()
    sixteen = [str(number) for number in range(16)]
    assert groups == [[], sixteen, ["16", "17", "18", "19"], ["slow"], ["slower"], ["a", "b"]]


@on_event_loop
async def test_what_waits_is_shared_among_the_threads() -> None:
    """None takes what another one, that has been woken for it, could begin with now."""
    together: list[int] = []

    def run(tickets: Tickets) -> None:
        together.append(len(tickets))
        run_each(tickets)

    flushing = Flushing(run)
    helds = [flushing.hold() for _ in range(4)]
    together.clear()
    for number in range(8):
        flushing.record(number, number)
    for held in helds:
        held.let_go.set()
    await flushing.ended(12)
    flushing.flusher.stop()
    assert max(together) <= 1 + 7 // 4


@on_event_loop
async def test_a_fault_of_the_program_leaves_nobody_waiting() -> None:
    def fail(_tickets: Tickets) -> None:
        raise RuntimeError

    flushing = Flushing(fail)
    for number in range(20):
        flushing.record(number)
    await flushing.ended(20)
    flushing.flusher.stop()
