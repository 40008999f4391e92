"""Measures the growth of topics by polling one cluster for the ends of its logs.

The rate is the number of messages between two polls divided by the time between them. So it needs
no counting, and is as old as the last poll: a few seconds, or more if polls take long. A topic has
no rate while one of its leaders does not answer, or after its log was truncated.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from audit.clusters.polling import ANSWER_S, ClusterPoller
from audit.configuration.config import Cluster
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.groups.lag import end_offsets
from client.producing.delivery import TopicPartition

_EVERY_S: Final = 5.0
_SHARE: Final = 20  # polls take at most one such part of the time
_TOPICS_S: Final = 30.0  # between two requests for the list of topics

_Ends = Mapping[TopicPartition, int]


class RatesSeen(msgspec.Struct, frozen=True):
    """One cluster's rates, in messages per second, by topic."""

    measured: int = 0  # when, in milliseconds; 0: not yet
    over: int = 0  # milliseconds between the two polls
    by_topic: Mapping[str, float] = {}


class RatesPoller(ClusterPoller):
    """The thread that polls the ends of one cluster's logs."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        receive: Callable[[str, RatesSeen], None],
        every_seconds: float = _EVERY_S,
    ) -> None:
        """`receive` is called on the poller's thread."""
        super().__init__(name, cluster, about="rates", every_seconds=every_seconds)
        self._receive = receive

    def _note_failure(self, error: ClientError | None) -> None:
        """Drops the rates. That the cluster cannot be reached is reported by its follower."""
        self._receive(self._name, RatesSeen())

    def _poll(self, brokers: Brokers) -> None:
        targets: list[TopicPartition] = []
        last_ends: _Ends | None = None
        last_time = topics_time = float("-inf")
        while not self._stopping.is_set():
            start = time.monotonic()
            if start - topics_time >= _TOPICS_S:
                topics_time, targets = start, _partitions(brokers)
            ends = end_offsets(brokers, targets, within=ANSWER_S)
            now = time.monotonic()
            if last_ends is not None:
                millis = int((now - last_time) * 1000)
                rates = rates_between(last_ends, ends, targets, millis)
                self._receive(self._name, RatesSeen(time.time_ns() // 1_000_000, millis, rates))
            last_ends, last_time = ends, now
            self._wait(max(self._every, _SHARE * (now - start)))


def _partitions(brokers: Brokers) -> list[TopicPartition]:
    """Returns the partitions of all topics except Penstock's own."""
    return [
        TopicPartition(name, partition.index)
        for name, topic in brokers.refresh(None).topics.items()
        if not name.startswith("_")
        for partition in topic.partitions
    ]


def rates_between(
    last_ends: _Ends, ends: _Ends, targets: list[TopicPartition], millis: int
) -> dict[str, float]:
    """Returns the rates of topics for which the ends of all partitions are known. Pure."""
    rates: dict[str, float] = {}
    unknown_topics = set()
    for target in targets:
        growth = ends.get(target, -1) - last_ends.get(target, 0)
        if target not in ends or target not in last_ends or growth < 0 or millis <= 0:
            unknown_topics.add(target.topic)
        else:
            rates[target.topic] = rates.get(target.topic, 0.0) + growth * 1000 / millis
    return {topic: rate for topic, rate in rates.items() if topic not in unknown_topics}
