"""The latency of acknowledgements under a load that follows a schedule (as in `steady_load`).

librdkafka runs in its own process until stopped, which shows what a producer notices of other
events. A message's clock starts at its scheduled time and ends when its acknowledgement is
reported. Messages go to all partitions.
"""

import array
import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection
from types import NoneType
from typing import Final

import msgspec
from confluent_kafka import Producer

from bench.loads.child_process import child_process, receive
from bench.loads.librdkafka import Incomplete
from bench.loads.requests import message
from bench.loads.steady_load import Latencies

_TICK: Final = 1_000_000  # nanoseconds
_PATIENCE: Final = 120.0
_ACKNOWLEDGED: Final = {"acks": "all", "enable.idempotence": "true"}


class Acknowledged(msgspec.Struct, frozen=True):
    """The measurements of a load, in nanoseconds: for each message its scheduled time
    (`monotonic_ns`), followed by its delay."""

    answered: "array.array[int]"
    sent: "array.array[int]"  # one pair per millisecond: the generator's own delay

    def latencies(self, since: int, until: int) -> Latencies:
        return _between(self.answered, since, until)

    def lateness(self, since: int, until: int) -> Latencies:
        return _between(self.sent, since, until)


def _between(pairs: "array.array[int]", since: int, until: int) -> Latencies:
    delays = [
        pairs[index + 1] for index in range(0, len(pairs), 2) if since <= pairs[index] < until
    ]
    if not delays:
        raise Incomplete("no message was scheduled in that time")
    return Latencies(sorted(delays))


class _Sender:
    """Sends messages; a thread receives the delivery reports without delay."""

    def __init__(self, bootstrap: str, topic: str, options: Mapping[str, str]) -> None:
        settings = {"bootstrap.servers": bootstrap, **_ACKNOWLEDGED, **options}
        self._producer = Producer(settings)
        self._topic = topic
        self._body = message()
        self._answered = array.array("q")
        self._sent = array.array("q")
        self._failed: list[str] = []

    def run(self, rate: int, stopped: Callable[[], bool]) -> Acknowledged:
        messages_per_tick = rate * _TICK // 1_000_000_000
        end_event = threading.Event()
        reports = threading.Thread(target=self._report, args=(end_event,))
        reports.start()
        try:
            due_time = time.monotonic_ns() + _TICK
            while not stopped():
                time.sleep(max(0, due_time - time.monotonic_ns()) / 1e9)
                for _ in range(messages_per_tick):
                    self._send(due_time)
                self._sent.extend((due_time, time.monotonic_ns() - due_time))
                due_time += _TICK
        finally:
            undelivered_count = self._producer.flush(_PATIENCE)
            end_event.set()
            reports.join()
        if undelivered_count or self._failed:
            raise Incomplete(f"{undelivered_count} messages not delivered; {self._failed[:1]}")
        return Acknowledged(self._answered, self._sent)

    def first(self) -> None:
        """Sends one message and waits for its acknowledgement, so that the connections exist."""
        self._send(time.monotonic_ns())
        if self._producer.flush(_PATIENCE):
            raise Incomplete("the first message was not acknowledged")

    def _send(self, due_time: int) -> None:
        self._producer.produce(
            self._topic, self._body, on_delivery=partial(self._reported, due_time)
        )

    def _report(self, end_event: threading.Event) -> None:
        while not end_event.is_set():
            self._producer.poll(0.05)

    def _reported(self, due_time: int, error: object, _: object) -> None:
        self._answered.extend((due_time, time.monotonic_ns() - due_time))
        if error is not None:
            self._failed.append(str(error))


def _serve(
    bootstrap: str, topic: str, rate: int, options: Mapping[str, str], pipe: Connection
) -> None:
    try:
        sender = _Sender(bootstrap, topic, options)
        sender.first()
        pipe.send(None)
        gc.disable()
        pipe.send(sender.run(rate, pipe.poll))
    except Incomplete as failed:
        pipe.send(failed)


@contextlib.contextmanager
def acknowledged_load(
    bootstrap: str, topic: str, *, rate: int, options: Mapping[str, str]
) -> Iterator[Callable[[], Acknowledged]]:
    """Sends `rate` messages a second until the function that it yields is called."""
    with child_process(_serve, bootstrap, topic, rate, dict(options)) as pipe:

        def end() -> Acknowledged:
            pipe.send(None)
            return receive(pipe, Acknowledged)

        try:
            receive(pipe, NoneType)
            yield end
        except EOFError:
            raise Incomplete("the producer's process ended early") from None
