"""Sends finished record batches to partitions of any topics: in order, numbered, acknowledged.

One thread calls `pump`, which sends, receives and decides. Any thread may submit and collect. The
bytes of batches that were submitted and not yet collected are bounded; `submit` returns False when
there is no room, at once or after waiting as long as the caller allows.

A batch's bytes are never changed, except for its numbers (`client.producing.stamping`). A caller
that must find out after a crash what became of its batches passes a `journal`. It is called with
the batches that are about to be sent under new numbers, before they are sent. If it raises, so does
`pump`, and the next `pump` calls it with these batches again.

What the numbers guarantee, and when a caller must decide, is described in
`client.producing.stream`.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from client.connection.bootstrap import Bootstrap
from client.errors import ClientError
from client.producing.delivery import Acks, Batch, Event, TopicPartition, Unsettled
from client.producing.identity import Identity
from client.producing.shipping import Journal, Shipping, ShippingLimits


class BatchProducer:
    """A producer for one cluster. After `close`, the outcome of open batches stays unknown."""

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
        """With acks=ALL, batches are numbered, under a new producer id or `identity`, whose epoch
        must be unused and which remains the caller's."""
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
        self._pump_has_news = False  # even if another thread has collected it already
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
        """Accepts a batch; returns False if there is no room for it even after `within` seconds.

        A batch that is larger than the bound is accepted once nothing else is held. Any thread may
        call this; waiting makes sense only if another thread pumps.
        """
        with self._lock:
            fits = self._room.wait_for(lambda: self._closed or self._has_room(batch), within)
            if self._closed or not fits:
                return False
            self._hold(batch)
            self._submitted.append(batch)
            must_wake, self._pump_sleeps = self._pump_sleeps, False
            if must_wake:
                self._shipping.pool.wake()
        return True

    def collect(self, *, within: float = 0.0) -> list[Event]:
        """Returns events, oldest first; waits up to `within` seconds for the first. Any thread."""
        with self._lock:
            self._news.wait_for(lambda: self._closed or self._events, within)
            events = list(self._events)
            self._events.clear()
            self._let_go([batch for event in events for batch in _batches(event)])
        return events

    @property
    def outstanding(self) -> int:
        """The number of batches submitted and not yet collected. Any thread."""
        return self._outstanding

    @property
    def held_bytes(self) -> int:
        """The size of the outstanding batches. Any thread."""
        return self._held_bytes

    def pump(self, seconds: float) -> None:
        """Works for `seconds`, or until there is an event (even if another thread has collected it)
        or a call of `wake`. Always on the same thread."""
        end_time = time.monotonic() + seconds
        self._pump_has_news = bool(self._events)
        while True:
            now = self._work()
            self._wait(min(end_time, self._shipping.next_time(now)) - now)
            if self._pump_has_news or self._woken or time.monotonic() >= end_time:
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
        """Resumes a partition that is `Unsettled`, or starts one that has no open batches.

        The batches `first` go before all that wait, regardless of the bound. With an `identity`
        they are numbered from `sequence` on, so that batches sent earlier are repeated byte for
        byte; without one, under the next epoch, or under a new producer id if a new epoch would not
        help. On the pumping thread.
        """
        self._shipping.renew(target, identity, sequence, first, time.monotonic())
        with self._lock:
            for batch in first:
                self._hold(batch)

    def halt(self, target: TopicPartition, error: ClientError) -> list[Batch]:
        """Stops a partition, and returns the batches that have no numbers yet, in order.

        Open batches come back in one `Unsettled` event once all answers have arrived; the event
        comes even if there are none, but not if the partition was halted already. On the pumping
        thread.
        """
        with self._lock:
            stopped_batches = [batch for batch in self._submitted if batch.target == target]
            other_batches = [batch for batch in self._submitted if batch.target != target]
            self._submitted = deque(other_batches)
        waiting_batches = [*self._shipping.halt(target, error, time.monotonic()), *stopped_batches]
        with self._lock:
            self._let_go(waiting_batches)
        return waiting_batches

    def wake(self) -> None:
        """Ends the current `pump`, or the next one, like an event. Any thread."""
        with self._lock:
            if not self._closed:
                self._woken = True
                self._shipping.pool.wake()

    def leader_epoch(self, target: TopicPartition) -> int:
        """Returns the partition's latest known leader epoch; -1 if none. On the pumping thread."""
        return self._shipping.leader_epoch(target)

    def troubles(self) -> dict[TopicPartition, ClientError]:
        """Returns the errors that delay partitions with batches to send. On the pumping thread."""
        return self._shipping.troubles()

    def close(self) -> None:
        """Closes all connections. Call it on the pumping thread, or on another once the pumping
        thread has ended."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._room.notify_all()
            self._news.notify_all()
        self._shipping.pool.close()

    def _has_room(self, batch: Batch) -> bool:
        free_bytes = self._limits.memory_bytes - self._held_bytes
        return batch.size <= free_bytes or not self._outstanding

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
            is_idle = not (self._submitted or self._pump_has_news or self._woken)
            self._pump_sleeps = is_idle
        self._shipping.pool.serve(max(0.0, seconds) if is_idle else 0.0)
        with self._lock:
            self._pump_sleeps = False


def _batches(event: Event) -> Sequence[Batch]:
    if isinstance(event, Unsettled):
        return [stamped_batch.batch for stamped_batch in event.batches]
    return [event.batch]
