"""How fast topics grow: asks one cluster where its logs end, again and again, on its own thread.

The messages between two looks, divided by the time between them, are the rate. So nothing is
counted for it, and it is as old as the last look: a few seconds, or more where a look takes long.
A topic has no rate while one of its leaders does not answer, and after its log has gone back.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from audit.clusters.polling import ANSWER_S, ClusterLook
from audit.configuration.config import Cluster
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.groups.lag import end_offsets
from client.producing.delivery import TopicPartition

_EVERY_S: Final = 5.0
_SHARE: Final = 20  # a look takes at most such a part of the time
_TOPICS_S: Final = 30.0  # between two looks at which topics there are

_Ends = Mapping[TopicPartition, int]


class RatesSeen(msgspec.Struct, frozen=True):
    """Of one cluster: messages for each second, by topic."""

    measured: int = 0  # when, in milliseconds; 0: not yet
    over: int = 0  # milliseconds that they are the mean of
    by_topic: Mapping[str, float] = {}


class RatesLook(ClusterLook):
    """Asks where the logs end."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        found: Callable[[str, RatesSeen], None],
        every_seconds: float = _EVERY_S,
    ) -> None:
        """`found` is called on this thread, with what was seen."""
        super().__init__(name, cluster, about="rates", every_seconds=every_seconds)
        self._found = found

    def _note_failure(self, error: ClientError | None) -> None:
        """The ledger's follower says that the cluster cannot be reached."""
        self._found(self._name, RatesSeen())

    def _look_on(self, brokers: Brokers) -> None:
        targets: list[TopicPartition] = []
        before: _Ends | None = None
        before_at = topics_at = float("-inf")
        while not self._stopping.is_set():
            began = time.monotonic()
            if began - topics_at >= _TOPICS_S:
                topics_at, targets = began, _partitions(brokers)
            ends = end_offsets(brokers, targets, within=ANSWER_S)
            now = time.monotonic()
            if before is not None:
                millis = int((now - before_at) * 1000)
                rates = rates_between(before, ends, targets, millis)
                self._found(self._name, RatesSeen(time.time_ns() // 1_000_000, millis, rates))
            before, before_at = ends, now
            self._wait(max(self._every, _SHARE * (now - began)))


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
