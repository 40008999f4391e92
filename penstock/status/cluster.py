"""The brokers' part of a status: the brokers, the amount of each topic that they hold, and their
problems.

Start offsets change slowly and are requested every few seconds, end offsets each time. Kafka's
protocol cannot report acknowledged messages as lost, and a broker that has lost some serves the
others: its `/readyz` is positive, and lists its problems in further lines.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.metadata import NO_LEADER, ClusterMetadata
from client.connection.security import Security
from client.producing.delivery import TopicPartition
from client.reading.offsets import offsets_of
from ground.http.client import HttpClient, HttpUrl, parse_program_url
from ground.http.security import HttpAccess
from penstock.status.part import NoStatus, body_of
from penstock.status.values import BrokerStatus
from wire.messages.list_offsets import EARLIEST, LATEST

_BEGINNINGS_S: Final = 10.0
_OWN: Final = "_"  # prefix of internal topics, which hold no lines
_COPIED: Final = "._schemas"  # suffix of a mirror's copy of one
Offsets = Mapping[TopicPartition, int]
_PAGE: Final = "/readyz"
_READY: Final = "ready"
_READY_ANONYMOUS: Final = "ok"  # the answer to a client without credentials
Remarks = Mapping[str, Sequence[str]]  # by address, as brokers make them


class StoredTopic(msgspec.Struct, frozen=True):
    """One topic. An amount is -1 if it is unknown because a partition has no leader."""

    partitions: int
    stored: int
    end: int
    without_leader: int


class ClusterPart(msgspec.Struct, frozen=True):
    brokers: tuple[BrokerStatus, ...]
    topics: Mapping[str, StoredTopic]


class ClusterQuery:
    """Queries the cluster. For one thread at a time."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        """BadAddress if `bootstrap` is malformed."""
        self._bootstrap = Bootstrap.of(bootstrap, security)
        self._brokers: Brokers | None = None
        self._beginnings: Offsets = {}
        self._beginnings_at = float("-inf")

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def ask(self) -> ClusterPart:
        """Requests the cluster's part of the status. Raises ClientError."""
        if self._brokers is None:
            self._brokers = Brokers(self._bootstrap, patience_seconds=0)
        brokers = self._brokers
        metadata = brokers.refresh(None)
        led_partitions = [
            TopicPartition(name, partition.index)
            for name, topic in metadata.topics.items()
            if not is_own(name)
            for partition in topic.partitions
            if partition.leader != NO_LEADER
        ]
        ends = offsets_of(brokers, dict.fromkeys(led_partitions, LATEST))
        return cluster_part(metadata, self._from(brokers, led_partitions), ends)

    def _from(self, brokers: Brokers, led: list[TopicPartition]) -> Offsets:
        now = time.monotonic()
        if now - self._beginnings_at >= _BEGINNINGS_S or not self._beginnings.keys() >= set(led):
            self._beginnings = offsets_of(brokers, dict.fromkeys(led, EARLIEST))
            self._beginnings_at = now
        return self._beginnings


def is_own(topic: str) -> bool:
    """Whether the topic is internal, and so has no lines."""
    return topic.startswith(_OWN) or topic.endswith(_COPIED)


def cluster_part(metadata: ClusterMetadata, beginnings: Offsets, ends: Offsets) -> ClusterPart:
    """Computes the brokers' part from their answers. Pure."""
    replicas: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    for topic in metadata.topics.values():
        for partition in topic.partitions:
            replicas.update(partition.replicas)
            leads[partition.leader] += 1
    topics = {}
    for name, topic in metadata.topics.items():
        if is_own(name):
            continue
        partitions = [TopicPartition(name, partition.index) for partition in topic.partitions]
        end = _sum(ends, partitions)
        beginning = _sum(beginnings, partitions)
        topics[name] = StoredTopic(
            partitions=len(partitions),
            # Retention may have moved on since the beginnings were asked for; never the ends.
            stored=max(0, end - beginning) if min(end, beginning) >= 0 else -1,
            end=end,
            without_leader=sum(partition.leader == NO_LEADER for partition in topic.partitions),
        )
    return ClusterPart(
        brokers=tuple(
            BrokerStatus(
                id=node.id,
                address=str(node.address),
                controller=node.id == metadata.controller,
                leads=leads[node.id],
                partitions=replicas[node.id],
            )
            for node in sorted(metadata.brokers.values(), key=lambda broker: broker.id)
        ),
        topics=topics,
    )


def _sum(offsets: Offsets, partitions: Iterable[TopicPartition]) -> int:
    known_offsets = [offsets.get(partition, -1) for partition in partitions]
    return -1 if any(offset < 0 for offset in known_offsets) else sum(known_offsets)


class BrokerPageQuery:
    """Queries brokers' pages. For one thread at a time."""

    def __init__(self, at: HttpUrl, *, within: float, access: HttpAccess | None = None) -> None:
        self._within = within
        self._client = HttpClient(at, access=access)

    def close(self) -> None:
        self._client.close()

    def ask(self) -> Sequence[str]:
        """Requests the page; returns a line for each problem. Raises NoStatus."""
        body = body_of(self._client, _PAGE, within=self._within)
        first_line, *remarks = body.decode(errors="replace").splitlines() or [""]
        if first_line == _READY_ANONYMOUS:
            raise NoStatus(
                "the broker shows details only to authenticated clients: "
                "pass --broker-http-security"
            )
        if first_line != _READY:
            raise NoStatus("the server is not a broker of this release")
        return remarks


def page_addresses(urls: str) -> list[HttpUrl]:
    """Parses the comma-separated URLs of brokers; none if the text is empty. Raises ValueError."""
    texts = (url.strip() for url in urls.split(","))
    return [parse_program_url(url) for url in dict.fromkeys(texts) if url]
