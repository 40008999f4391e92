"""Reading the ledger of one cluster for ever, on a thread of its own.

What is read goes to `hand_over`, in its order and with the positions behind it; whoever takes it
may let this thread wait. Where the cluster or its registry cannot be reached, that is said once,
and tried again after pauses: other clusters have threads of their own. Nothing is kept here: a
follower that starts begins where the store says.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from audit.clusters.state import BrokerFacts, Standing
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

_PATIENCE_S: Final = 5.0  # with one question: longer, and it counts as an outage
_LOOK_S: Final = 10.0  # how often the cluster is asked who its brokers are
_ENDS_WITHIN_S: Final = 10.0

log = logging.getLogger(__name__)


class ReadTo(msgspec.Struct, frozen=True):
    """Everything that was in the ledger at this time has been handed over."""

    time: int


class FollowingStopped(Exception):
    """Nothing is taken any more."""


Handed = LedgerChunk | ReadTo


class LedgerFollower:
    """`start` it once; `stop` ends it soon."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        standing: Standing,
        positions: LedgerPositions,
        *,
        poll_seconds: float,
        hand_over: Callable[[str, Handed], None],
    ) -> None:
        """`hand_over` raises FollowingStopped when all is over."""
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
        """A thread that waits for an answer still has some time, then the process ends over it."""
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except FollowingStopped:
                return
            except ClientError as error:
                self._pause(error, passing=error.retriable)
            except SchemaError as error:
                self._pause(error, is_for_schemas=True)
            except Exception:  # a bug must not end in silence: it is said each time, and shown
                log.exception("following failed cluster=%s", self._name)
                self._pause(AuditFailure("this failed inside of the audit; its log says how"))

    def _follow(self) -> None:
        """Until stopped, or something fails."""
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
                began = now_millis()
                for chunk in reader.read(self._positions):
                    self._take(chunk)
                    if self._stopping.is_set():
                        return
                self._look(brokers, began)
                self._hand_over(self._name, ReadTo(began))
                self._outage.over()
                self._note_outage()
                self._stopping.wait(self._poll)

    def _take(self, chunk: LedgerChunk) -> None:
        if chunk.restarted:
            log.warning("ledger is another one, read from its beginning cluster=%s", self._name)
        if chunk.gap:
            log.warning("entries were deleted before they were read cluster=%s", self._name)
        if chunk.left_out:
            log.warning("entries left out cluster=%s entries=%d", self._name, chunk.left_out)
        self._hand_over(self._name, chunk)
        self._positions = chunk.positions

    def _look(self, brokers: Brokers, began: int) -> None:
        if time.monotonic() < self._look_at and not self._standing.has_new(self._name):
            return
        self._look_at = time.monotonic() + _LOOK_S
        known = brokers.refresh(None)
        topic_ids = {name: topic_id_text(topic.id) for name, topic in known.topics.items()}
        unlisted = [each for each in self._standing.unlisted(self._name) if each not in topic_ids]
        absent, hidden = _by_name(brokers, unlisted)
        # Of those, it is not known whether they are the same as before.
        topic_ids |= dict.fromkeys(hidden, "")
        self._say_hidden(hidden)
        before = self._standing.clusters[self._name]
        self._standing.note(
            self._name,
            brokers=_facts(known),
            away=_away(known),
            leaderless=_leaderless(known),
            topic_ids=topic_ids,
            absent=absent,
            looked=began,
        )
        if (topic_ids, absent) != (before.topic_ids, before.absent):
            self._standing.changed()

    def _say_hidden(self, hidden: Mapping[str, str]) -> None:
        """Once of each topic."""
        for topic in hidden.keys() - self._hidden:
            log.warning(
                "topic may not be seen, and would not be missed cluster=%s topic=%s error=%r",
                *(self._name, topic, hidden[topic]),
            )
        for topic in self._hidden - hidden.keys():
            log.info("topic may be seen again cluster=%s topic=%s", self._name, topic)
        self._hidden = frozenset(hidden)

    def _pause(
        self, error: Exception, *, passing: bool = True, is_for_schemas: bool = False
    ) -> None:
        """Until it is tried again; meanwhile it is known why the cluster is not read."""
        pause = self._outage.failed(error, passing=passing)
        self._standing.note(self._name, is_for_schemas=is_for_schemas)
        self._note_outage()
        self._stopping.wait(pause)

    def _note_outage(self) -> None:
        """Whether there is one, and why."""
        if self._standing.clusters[self._name].unreachable != self._outage.why:
            self._standing.note(self._name, unreachable=self._outage.why)
            self._standing.changed()


def _by_name(brokers: Brokers, names: Sequence[str]) -> tuple[frozenset[str], dict[str, str]]:
    """Those topics that are not there, and those that we may not see, and why."""
    known = brokers.refresh(names) if names else ClusterMetadata()
    hidden: dict[str, str] = {}
    for name in names:
        try:
            known.topic(name, Operation.DESCRIBE)
        except NotAllowed as error:
            hidden[name] = str(error)
        except ClientError:
            continue
    return frozenset(each for each in names if not known.has(each)), hidden


def _away(known: ClusterMetadata) -> list[int]:
    """Brokers that hold replicas and are not there."""
    held = {
        replica
        for topic in known.topics.values()
        for partition in topic.partitions
        for replica in partition.replicas
    }
    return sorted(held - known.brokers.keys())


def _leaderless(known: ClusterMetadata) -> frozenset[str]:
    """Topics with a partition that nobody leads just now."""
    return frozenset(
        name
        for name, topic in known.topics.items()
        if any(partition.leader < 0 for partition in topic.partitions)
    )


def _facts(known: ClusterMetadata) -> list[BrokerFacts]:
    held: Counter[int] = Counter()
    led: Counter[int] = Counter()
    for topic in known.topics.values():
        for partition in topic.partitions:
            held.update(partition.replicas)
            led[partition.leader] += 1
    return [
        BrokerFacts(
            each.id,
            each.address.host,
            str(each.address),
            each.rack or "",
            each.id == known.controller,
            held[each.id],
            led[each.id],
        )
        for each in sorted(known.brokers.values(), key=lambda each: each.id)
    ]
