"""How fast topics grow: asks one cluster where its logs end, again and again, on its own thread.

The messages between two looks, divided by the time between them, are the rate. So nothing is
counted for it, and it is as old as the last look: a few seconds, or more where a look takes long.
A topic has no rate while one of its leaders does not answer, and after its log has gone back.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from audit.config import Cluster
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.groups.lag import end_offsets
from client.producing.delivery import TopicPartition
from ground.chance import chance

_EVERY_S: Final = 5.0
_SHARE: Final = 20  # a look takes at most such a part of the time
_TOPICS_S: Final = 30.0  # between two looks at which topics there are
_PATIENCE_S: Final = 2.0
_ANSWER_S: Final = 5.0
_ENDS_WITHIN_S: Final = 10.0

log = logging.getLogger(__name__)

_Ends = Mapping[TopicPartition, int]


class RatesSeen(msgspec.Struct, frozen=True):
    """Of one cluster: messages for each second, by topic."""

    measured: int = 0  # when, in milliseconds; 0: not yet
    over: int = 0  # milliseconds that they are the mean of
    by_topic: Mapping[str, float] = {}


class RatesLook:
    """`start` it once; `ask_to_stop` ends it soon."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        found: Callable[[str, RatesSeen], None],
        every_seconds: float = _EVERY_S,
    ) -> None:
        """`found` is called on this thread, with what was seen."""
        self._name = name
        self._cluster = cluster
        self._found = found
        self._every = every_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rates-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        """A thread that waits for an answer still has some time, then the process ends over it."""
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look_on()
            except ClientError:
                pass  # the ledger's follower says that the cluster cannot be reached
            except Exception:  # a bug must not end in silence
                log.exception("looking at ends of logs failed cluster=%s", self._name)
            self._found(self._name, RatesSeen())
            self._stopping.wait(self._every * (0.9 + chance() / 5))

    def _look_on(self) -> None:
        """Until stopped, or the cluster cannot be reached."""
        with Brokers(
            self._cluster.bootstrap, client_id="penstock-audit", patience_seconds=_PATIENCE_S
        ) as brokers:
            targets: list[TopicPartition] = []
            before: _Ends | None = None
            before_at = topics_at = float("-inf")
            while not self._stopping.is_set():
                began = time.monotonic()
                if began - topics_at >= _TOPICS_S:
                    topics_at, targets = began, _partitions(brokers)
                ends = end_offsets(brokers, targets, within=_ANSWER_S)
                now = time.monotonic()
                if before is not None:
                    millis = int((now - before_at) * 1000)
                    rates = rates_between(before, ends, targets, millis)
                    self._found(self._name, RatesSeen(time.time_ns() // 1_000_000, millis, rates))
                before, before_at = ends, now
                pause = max(self._every, _SHARE * (now - began))
                self._stopping.wait(pause * (0.9 + chance() / 5))


def _partitions(brokers: Brokers) -> list[TopicPartition]:
    """Of all topics but those that are Penstock's own."""
    return [
        TopicPartition(name, partition.index)
        for name, topic in brokers.refresh(None).topics.items()
        if not name.startswith("_")
        for partition in topic.partitions
    ]


def rates_between(
    before: _Ends, ends: _Ends, targets: list[TopicPartition], millis: int
) -> dict[str, float]:
    """Pure. Of topics of whose partitions all are known."""
    rates: dict[str, float] = {}
    unknown = set()
    for target in targets:
        grown = ends.get(target, -1) - before.get(target, 0)
        if target not in ends or target not in before or grown < 0 or millis <= 0:
            unknown.add(target.topic)
        else:
            rates[target.topic] = rates.get(target.topic, 0.0) + grown * 1000 / millis
    return {topic: rate for topic, rate in rates.items() if topic not in unknown}
