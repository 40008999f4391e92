"""Follows the ledger of one cluster, on a thread of its own.

Chunks go to `hand_over` in order, with the positions behind them; it may block. If the cluster or
its registry cannot be reached, this is logged once, and retried after pauses; other clusters have
threads of their own. Nothing is kept here: a follower starts at the positions in the store.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from audit.clusters.state import AuditState, BrokerFacts
from audit.configuration.config import Cluster
from audit.errors import AuditFailure
from audit.service.service import now_millis
from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata
from client.errors import ClientError, NotAllowed
from ground.outage import Outage
from ledger.lookup import lookup_at
from ledger.names import topic_id_text
from ledger.reading import LedgerChunk, LedgerPositions, LedgerReader
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient
from wire.acls import Operation

_PATIENCE_S: Final = 5.0  # for one request; longer counts as an outage
_LOOK_S: Final = 10.0  # between requests for the cluster's brokers and topics
_ENDS_WITHIN_S: Final = 10.0

log = logging.getLogger(__name__)


class ReadTo(msgspec.Struct, frozen=True):
    """Marks that everything that was in the ledger at this time has been handed over."""

    time: int


class FollowerStopped(Exception):
    """The writer thread has ended, so it takes no more chunks."""


Handed = LedgerChunk | ReadTo


class LedgerFollower:
    """The thread that reads one ledger. Call `start` once; `ask_to_stop` ends it soon."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        standing: AuditState,
        positions: LedgerPositions,
        *,
        poll_seconds: float,
        hand_over: Callable[[str, Handed], None],
    ) -> None:
        """`hand_over` raises FollowerStopped at the end."""
        self._name = name
        self._cluster = cluster
        self._standing = standing
        self._positions = positions
        self._poll = poll_seconds
        self._hand_over = hand_over
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follows-{name}", daemon=True)
        self._look_at = 0.0
        self._outage = Outage(log, f"reading cluster {name}")
        self._hidden: frozenset[str] = frozenset()

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        """Waits for the thread, up to a limit; a request that is still open then is abandoned."""
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except FollowerStopped:
                return
            except ClientError as error:
                self._pause(error, passing=error.retriable)
            except SchemaError as error:
                self._pause(error, is_for_schemas=True)
            except Exception:  # a bug must not end the thread silently: it is logged, and shown
                log.exception("following the ledger failed cluster=%s", self._name)
                self._pause(AuditFailure("reading failed because of a bug: see the audit's log"))

    def _follow(self) -> None:
        """Reads until stopped, or until something fails."""
        with (
            Brokers(
                self._cluster.bootstrap, client_id="penstock-audit", patience_seconds=_PATIENCE_S
            ) as brokers,
            RegistryClient(
                self._cluster.registry_address, patience_seconds=_PATIENCE_S
            ) as registry,
        ):
            reader = LedgerReader(brokers, lookup_at(registry))
            while not self._stopping.is_set():
                start = now_millis()
                for chunk in reader.read(self._positions):
                    self._take(chunk)
                    if self._stopping.is_set():
                        return
                self._look(brokers, start)
                self._hand_over(self._name, ReadTo(start))
                self._outage.over()
                self._note_outage()
                self._stopping.wait(self._poll)

    def _take(self, chunk: LedgerChunk) -> None:
        if chunk.restarted:
            log.warning("ledger was replaced, reading it from its beginning cluster=%s", self._name)
        if chunk.gap:
            log.warning("entries were deleted before they were read cluster=%s", self._name)
        if chunk.left_out:
            log.warning("entries skipped cluster=%s entries=%d", self._name, chunk.left_out)
        self._hand_over(self._name, chunk)
        self._positions = chunk.positions

    def _look(self, brokers: Brokers, began: int) -> None:
        if time.monotonic() < self._look_at and not self._standing.has_new(self._name):
            return
        self._look_at = time.monotonic() + _LOOK_S
        metadata = brokers.refresh(None)
        topic_ids = {name: topic_id_text(topic.id) for name, topic in metadata.topics.items()}
        unlisted_topics = [
            topic for topic in self._standing.unlisted(self._name) if topic not in topic_ids
        ]
        absent_topics, hidden_topics = _by_name(brokers, unlisted_topics)
        # Whether these are the same topics as before is unknown.
        topic_ids |= dict.fromkeys(hidden_topics, "")
        self._say_hidden(hidden_topics)
        former_state = self._standing.clusters[self._name]
        self._standing.note(
            self._name,
            brokers=_facts(metadata),
            away=_away(metadata),
            leaderless=_leaderless(metadata),
            topic_ids=topic_ids,
            absent=absent_topics,
            looked=began,
        )
        if (topic_ids, absent_topics) != (former_state.topic_ids, former_state.absent):
            self._standing.changed()

    def _say_hidden(self, hidden: Mapping[str, str]) -> None:
        """Logs each hidden topic once."""
        for topic in hidden.keys() - self._hidden:
            log.warning(
                "not authorized to see a topic: its deletion would go unnoticed cluster=%s topic=%s"
                " error=%r",
                *(self._name, topic, hidden[topic]),
            )
        for topic in self._hidden - hidden.keys():
            log.info("authorized to see the topic again cluster=%s topic=%s", self._name, topic)
        self._hidden = frozenset(hidden)

    def _pause(
        self, error: Exception, *, passing: bool = True, is_for_schemas: bool = False
    ) -> None:
        """Waits before the next try, with the reason noted."""
        pause = self._outage.failed(error, passing=passing)
        self._standing.note(self._name, is_for_schemas=is_for_schemas)
        self._note_outage()
        self._stopping.wait(pause)

    def _note_outage(self) -> None:
        """Notes the present outage, or its end."""
        if self._standing.clusters[self._name].unreachable != self._outage.why:
            self._standing.note(self._name, unreachable=self._outage.why)
            self._standing.changed()


def _by_name(brokers: Brokers, names: Sequence[str]) -> tuple[frozenset[str], dict[str, str]]:
    """Returns which of these topics do not exist, and which we may not see, and why."""
    metadata = brokers.refresh(names) if names else ClusterMetadata()
    hidden_topics: dict[str, str] = {}
    for name in names:
        try:
            metadata.topic(name, Operation.DESCRIBE)
        except NotAllowed as error:
            hidden_topics[name] = str(error)
        except ClientError:
            continue
    return frozenset(name for name in names if not metadata.has(name)), hidden_topics


def _away(metadata: ClusterMetadata) -> list[int]:
    """Returns brokers that hold replicas, but are absent."""
    broker_ids = {
        replica
        for topic in metadata.topics.values()
        for partition in topic.partitions
        for replica in partition.replicas
    }
    return sorted(broker_ids - metadata.brokers.keys())


def _leaderless(metadata: ClusterMetadata) -> frozenset[str]:
    """Returns topics with a partition that has no leader at present."""
    return frozenset(
        name
        for name, topic in metadata.topics.items()
        if any(partition.leader < 0 for partition in topic.partitions)
    )


def _facts(metadata: ClusterMetadata) -> list[BrokerFacts]:
    replicas: Counter[int] = Counter()
    lead_counts: Counter[int] = Counter()
    for topic in metadata.topics.values():
        for partition in topic.partitions:
            replicas.update(partition.replicas)
            lead_counts[partition.leader] += 1
    return [
        BrokerFacts(
            broker.id,
            broker.address.host,
            str(broker.address),
            broker.rack or "",
            broker.id == metadata.controller,
            replicas[broker.id],
            lead_counts[broker.id],
        )
        for broker in sorted(metadata.brokers.values(), key=lambda broker: broker.id)
    ]
