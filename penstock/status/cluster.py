"""What the brokers of a cluster say: who they are, how much of each topic they hold, what is wrong.

Where partitions begin changes slowly and is asked for now and then; where they end, each time.

Kafka's protocol has no word for messages that were acknowledged and are gone, and a broker that has
lost some serves the others: its `/readyz` says yes, and what is wrong in lines of its own.
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
from penstock.status.part import NoStatus, said_by
from penstock.status.values import BrokerStanding
from wire.messages.list_offsets import EARLIEST, LATEST

_BEGINNINGS_S: Final = 10.0
_OWN: Final = "_"  # how the names of topics begin that nobody's lines are in
_COPIED: Final = "._schemas"  # and how they end, where a mirror has copied one
Offsets = Mapping[TopicPartition, int]
_PAGE: Final = "/readyz"
_READY: Final = "ready"
_READY_TO_ANYBODY: Final = "ok"  # where who asks is not known
Remarks = Mapping[str, Sequence[str]]  # by address, as brokers make them


class StoredTopic(msgspec.Struct, frozen=True):
    """One topic; -1 where a partition without a leader hides how much there is."""

    partitions: int
    stored: int
    end: int
    without_leader: int


class ClusterPart(msgspec.Struct, frozen=True):
    brokers: tuple[BrokerStanding, ...]
    topics: Mapping[str, StoredTopic]


class AskingCluster:
    """One thread at a time."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        """BadAddress if it cannot be understood."""
        self._bootstrap = Bootstrap.of(bootstrap, security)
        self._brokers: Brokers | None = None
        self._beginnings: Offsets = {}
        self._beginnings_at = float("-inf")

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def ask(self) -> ClusterPart:
        """Raises ClientError."""
        if self._brokers is None:
            self._brokers = Brokers(self._bootstrap, patience_seconds=0)
        brokers = self._brokers
        known = brokers.refresh(None)
        led = [
            TopicPartition(name, partition.index)
            for name, topic in known.topics.items()
            if not is_own(name)
            for partition in topic.partitions
            if partition.leader != NO_LEADER
        ]
        ends = offsets_of(brokers, dict.fromkeys(led, LATEST))
        return cluster_part(known, self._from(brokers, led), ends)

    def _from(self, brokers: Brokers, led: list[TopicPartition]) -> Offsets:
        now = time.monotonic()
        if now - self._beginnings_at >= _BEGINNINGS_S or not self._beginnings.keys() >= set(led):
            self._beginnings = offsets_of(brokers, dict.fromkeys(led, EARLIEST))
            self._beginnings_at = now
        return self._beginnings


def is_own(topic: str) -> bool:
    """Whether nobody's lines are in it."""
    return topic.startswith(_OWN) or topic.endswith(_COPIED)


def cluster_part(known: ClusterMetadata, beginnings: Offsets, ends: Offsets) -> ClusterPart:
    """Pure."""
    held: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    for topic in known.topics.values():
        for partition in topic.partitions:
            held.update(partition.replicas)
            leads[partition.leader] += 1
    topics = {}
    for name, topic in known.topics.items():
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
            BrokerStanding(
                id=node.id,
                address=str(node.address),
                controller=node.id == known.controller,
                leads=leads[node.id],
                partitions=held[node.id],
            )
            for node in sorted(known.brokers.values(), key=lambda broker: broker.id)
        ),
        topics=topics,
    )


def _sum(offsets: Offsets, partitions: Iterable[TopicPartition]) -> int:
    found = [offsets.get(partition, -1) for partition in partitions]
    return -1 if any(offset < 0 for offset in found) else sum(found)


class AskingBrokerPages:
    """One thread at a time."""

    def __init__(self, at: HttpUrl, *, within: float, access: HttpAccess | None = None) -> None:
        self._within = within
        self._client = HttpClient(at, access=access)

    def close(self) -> None:
        self._client.close()

    def ask(self) -> Sequence[str]:
        """A line for each thing that is wrong. Raises NoStatus."""
        body = said_by(self._client, _PAGE, within=self._within)
        first, *remarks = body.decode(errors="replace").splitlines() or [""]
        if first == _READY_TO_ANYBODY:
            raise NoStatus("it tells details to authenticated clients only: --broker-http-security")
        if first != _READY:
            raise NoStatus("the server is not a broker of this release")
        return remarks


def page_addresses(urls: str) -> list[HttpUrl]:
    """Of brokers, separated by commas; an empty text is nobody's. Raises ValueError."""
    named = (url.strip() for url in urls.split(","))
    return [parse_program_url(url) for url in dict.fromkeys(named) if url]
