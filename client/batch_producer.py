"""Finished record batches into partitions of any topics: in order, numbered, acknowledged.

One thread pumps: it sends, receives, and decides. Any thread submits and collects. What is held, in
batches that were submitted and not yet collected, is bounded in bytes; whoever submits more is told
no, at once or after as long as it is willing to wait.

A batch's bytes are never changed but for its numbers (`client.stamping`). Whoever must find out
after a crash what became of what was under way gives a `journal`: it is called with batches that
are about to be sent under numbers that nobody has seen, and they are sent when it returns. If it
raises, so does `pump`, and they will be given to it again.

What the numbers promise, and when a caller must decide, stands in `client.stream`.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from client.bootstrap import Bootstrap
from client.delivery import Acks, Batch, Event, TopicPartition, Unsettled
from client.errors import ClientError
from client.identity import Identity
from client.shipping import Journal, Shipping, ShippingLimits


class BatchProducer:
    """Ships to one cluster. Of no more use once it is closed; what was open then stays open."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        client_id: str = "penstock",
        acks: Acks = Acks.ALL,
        identity: Identity | None = None,
        limits: ShippingLimits | None = None,
        journal: Journal | None = None,
    ) -> None:
        """With acks=ALL batches are numbered: under a new producer id, or `identity`, which is lent
        and must be new in its epoch."""
        self._limits = limits or ShippingLimits()
        self._shipping = Shipping(
            bootstrap,
            client_id=client_id,
            acks=acks,
            identity=identity,
            limits=self._limits,
            journal=journal,
            happened=self._happened,
            clock=time.monotonic,
        )
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._news = threading.Condition(self._lock)
        self._submitted: deque[Batch] = deque()
        self._events: deque[Event] = deque()
        self._held_bytes = 0
        self._outstanding = 0
        self._pump_sleeps = False
        self._pump_has_news = False  # that another thread may have collected already
        self._woken = False
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def submit(self, batch: Batch, *, within: float = 0.0) -> bool:
        """Takes a batch, unless it does not fit within the bound even after so many seconds.

        A batch that is larger than the bound is taken alone. Any thread; to wait makes sense only
        where another one pumps.
        """
        with self._lock:
            fits = self._room.wait_for(lambda: self._closed or self._has_room(batch), within)
            if self._closed or not fits:
                return False
            self._hold(batch)
            self._submitted.append(batch)
            wake, self._pump_sleeps = self._pump_sleeps, False
            if wake:
                self._shipping.links.wake()
        return True

    def collect(self, *, within: float = 0.0) -> list[Event]:
        """What became of batches, oldest first; waits so long for the first. Any thread."""
        with self._lock:
            self._news.wait_for(lambda: self._closed or self._events, within)
            events = list(self._events)
            self._events.clear()
            self._let_go([batch for event in events for batch in _batches(event)])
        return events

    @property
    def outstanding(self) -> int:
        """Batches that were submitted and have not been collected. Any thread."""
        return self._outstanding

    @property
    def held_bytes(self) -> int:
        """Their size. Any thread."""
        return self._held_bytes

    def pump(self, seconds: float) -> None:
        """Works for so long, or until something became of a batch, whoever has collected it by
        then, or until `wake`. One thread, always the same one."""
        until = time.monotonic() + seconds
        self._pump_has_news = bool(self._events)
        while True:
            now = self._work()
            self._wait(min(until, self._shipping.next_time(now)) - now)
            if self._pump_has_news or self._woken or time.monotonic() >= until:
                self._woken = False
                self._work()
                return

    def renew(
        self,
        target: TopicPartition,
        *,
        identity: Identity | None = None,
        sequence: int = 0,
        first: Sequence[Batch] = (),
    ) -> None:
        """Lets a partition go on that is `Unsettled`, or begins one that nothing is open of.

        The batches `first` go before all that wait, whatever the bound. They are numbered under
        `identity` from `sequence` on, which sends what was sent before byte for byte; without an
        identity, under the next epoch, or a new producer id where that would not help. The pumping
        thread.
        """
        self._shipping.renew(target, identity, sequence, first, time.monotonic())
        with self._lock:
            for batch in first:
                self._hold(batch)

    def halt(self, target: TopicPartition, error: ClientError) -> list[Batch]:
        """Stops a partition: what has no numbers is given back at once, in order.

        What is open comes back as `Unsettled`, once no answer is still to come, even if it is none;
        it is not told again of a partition that stands still already. The pumping thread.
        """
        with self._lock:
            mine = [each for each in self._submitted if each.target == target]
            others = [each for each in self._submitted if each.target != target]
            self._submitted = deque(others)
        waiting = [*self._shipping.halt(target, error, time.monotonic()), *mine]
        with self._lock:
            self._let_go(waiting)
        return waiting

    def wake(self) -> None:
        """Ends `pump`, or the next one, as if something had become of a batch. Any thread."""
        with self._lock:
            if not self._closed:
                self._woken = True
                self._shipping.links.wake()

    def leader_epoch(self, target: TopicPartition) -> int:
        """That of the partition's leader, as it was learned last; -1 if it never was. The pumping
        thread."""
        return self._shipping.leader_epoch(target)

    def troubles(self) -> dict[TopicPartition, ClientError]:
        """What keeps partitions from moving that have something to send. The pumping thread."""
        return self._shipping.troubles()

    def close(self) -> None:
        """The pumping thread, or another when that has ended."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._room.notify_all()
            self._news.notify_all()
        self._shipping.links.close()

    def _has_room(self, batch: Batch) -> bool:
        free = self._limits.memory_bytes - self._held_bytes
        return batch.size <= free or not self._outstanding

    def _hold(self, batch: Batch) -> None:
        self._held_bytes += batch.size
        self._outstanding += 1

    def _let_go(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self._held_bytes -= batch.size
            self._outstanding -= 1
        self._room.notify_all()

    def _happened(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            self._pump_has_news = True
            self._news.notify_all()

    def _work(self) -> float:
        now = time.monotonic()
        while self._submitted:
            self._shipping.submit(self._submitted.popleft(), now)
        self._shipping.work(now)
        return now

    def _wait(self, seconds: float) -> None:
        with self._lock:
            idle = not (self._submitted or self._pump_has_news or self._woken)
            self._pump_sleeps = idle
        self._shipping.links.serve(max(0.0, seconds) if idle else 0.0)
        with self._lock:
            self._pump_sleeps = False


def _batches(event: Event) -> Sequence[Batch]:
    if isinstance(event, Unsettled):
        return [each.batch for each in event.batches]
    return [event.batch]
