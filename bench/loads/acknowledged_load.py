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
    """Alternating nanoseconds: the scheduled time (`monotonic_ns`), and the delay after it."""

    answered: "array.array[int]"
    sent: "array.array[int]"  # one pair per millisecond: the generator's own delay

    def latencies(self, since: int, until: int) -> Latencies:
        return _between(self.answered, since, until)

    def lateness(self, since: int, until: int) -> Latencies:
        return _between(self.sent, since, until)


def _between(pairs: "array.array[int]", since: int, until: int) -> Latencies:
    delays = [pairs[at + 1] for at in range(0, len(pairs), 2) if since <= pairs[at] < until]
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
        per_tick = rate * _TICK // 1_000_000_000
        ended = threading.Event()
        reports = threading.Thread(target=self._report, args=(ended,))
        reports.start()
        try:
            due = time.monotonic_ns() + _TICK
            while not stopped():
                time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
                for _ in range(per_tick):
                    self._send(due)
                self._sent.extend((due, time.monotonic_ns() - due))
                due += _TICK
        finally:
            undelivered = self._producer.flush(_PATIENCE)
            ended.set()
            reports.join()
        if undelivered or self._failed:
            raise Incomplete(f"{undelivered} messages not delivered; {self._failed[:1]}")
        return Acknowledged(self._answered, self._sent)

    def first(self) -> None:
        """Send a message and wait for its acknowledgement, so that connections exist."""
        self._send(time.monotonic_ns())
        if self._producer.flush(_PATIENCE):
            raise Incomplete("the first message was not acknowledged")

    def _send(self, due: int) -> None:
        self._producer.produce(self._topic, self._body, on_delivery=partial(self._reported, due))

    def _report(self, ended: threading.Event) -> None:
        while not ended.is_set():
            self._producer.poll(0.05)

    def _reported(self, due: int, error: object, _: object) -> None:
        self._answered.extend((due, time.monotonic_ns() - due))
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
    """Send `rate` messages a second until the yielded function is called."""
    with child_process(_serve, bootstrap, topic, rate, dict(options)) as pipe:

        def end() -> Acknowledged:
            pipe.send(None)
            return receive(pipe, Acknowledged)

        try:
            receive(pipe, NoneType)
            yield end
        except EOFError:
            raise Incomplete("the producer's process ended early") from None
