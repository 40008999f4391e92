"""How long acknowledgements take under a load that follows a schedule (as in `steady_load`).

librdkafka, in a process of its own that goes on until it is told to stop, so that it can be seen
what a producer notices while something else happens. A message's clock starts when the schedule
says so and ends when its acknowledgement is reported. Messages go to all partitions.
"""

import array
import contextlib
import gc
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

import msgspec
from confluent_kafka import Producer

from bench.loads.librdkafka import Incomplete
from bench.loads.requests import message
from bench.loads.steady_load import Latencies

_TICK: Final = 1_000_000  # nanoseconds
_PATIENCE: Final = 120.0
_ACKNOWLEDGED: Final = {"acks": "all", "enable.idempotence": "true"}


class Acknowledged(msgspec.Struct, frozen=True):
    """Pairs of nanoseconds, one after the other: when it was due, on the clock of `monotonic_ns`,
    and how much later."""

    answered: "array.array[int]"
    sent: "array.array[int]"  # a pair a millisecond: how late the generator itself was

    def latencies(self, since: int, until: int) -> Latencies:
        return _between(self.answered, since, until)

    def lateness(self, since: int, until: int) -> Latencies:
        return _between(self.sent, since, until)


def _between(pairs: "array.array[int]", since: int, until: int) -> Latencies:
    kept = [pairs[at + 1] for at in range(0, len(pairs), 2) if since <= pairs[at] < until]
    if not kept:
        raise Incomplete("nothing was to be sent in that time")
    return Latencies(sorted(kept))


class _Sender:
    """Reports come on a thread of their own, as soon as they are there."""

    def __init__(self, bootstrap: str, topic: str, options: Mapping[str, str]) -> None:
        wanted = {"bootstrap.servers": bootstrap, **_ACKNOWLEDGED, **options}
        self._producer = Producer(wanted)
        self._topic = topic
        self._body = message()
        self._answered = array.array("q")
        self._sent = array.array("q")
        self._failed: list[str] = []

    def run(self, rate: int, stopped: Callable[[], bool]) -> Acknowledged:
        each = rate * _TICK // 1_000_000_000
        ended = threading.Event()
        reports = threading.Thread(target=self._report, args=(ended,))
        reports.start()
        try:
            due = time.monotonic_ns() + _TICK
            while not stopped():
                time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
                for _ in range(each):
                    self._send(due)
                self._sent.extend((due, time.monotonic_ns() - due))
                due += _TICK
        finally:
            left = self._producer.flush(_PATIENCE)
            ended.set()
            reports.join()
        if left or self._failed:
            raise Incomplete(f"{left} messages not delivered; {self._failed[:1]}")
        return Acknowledged(self._answered, self._sent)

    def first(self) -> None:
        """Returns when the broker has acknowledged one: connections are there."""
        self._send(time.monotonic_ns())
        if self._producer.flush(_PATIENCE):
            raise Incomplete("the first message is not acknowledged")

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
    """So many messages a second from now on, until what this yields is called."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(bootstrap, topic, rate, dict(options), theirs), daemon=True
    )
    process.start()
    theirs.close()

    def received() -> object:
        try:
            answer = ours.recv()
        except EOFError:
            raise Incomplete("the producer has ended by itself") from None
        if isinstance(answer, Incomplete):
            raise answer
        return answer

    def end() -> Acknowledged:
        ours.send(None)
        done = received()
        assert isinstance(done, Acknowledged)
        return done

    try:
        received()
        yield end
    finally:
        ours.close()
        process.kill()
        process.join()
