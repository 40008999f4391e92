"""The audit's own state: the progress in each ledger, and notices for users. Worker threads write
it, requests read it, and it is not stored on disk.

Each change increments a version, by which a page notices that there is something new.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from audit.clusters.clocks import Clocks
from audit.programs import is_full
from audit.reconciling.picture import TopicKey
from ledger.health import Disk
from wire.messages.describe_log_dirs import UnwritableFolder

_OLD_MILLIS: Final = 30_000  # a ledger read within this time counts as read continuously
_MINUTE_S: Final = 60


class BrokerFacts(NamedTuple):
    """A live broker, with its address and its number of partitions."""

    id: int
    host: str
    address: str
    rack: str
    controller: bool
    partitions: int
    leads: int


class BrokerDisks(NamedTuple):
    """The disks of a broker, as the broker reported them when it was polled."""

    host: str
    disks: tuple[Disk, ...]
    unwritable: frozenset[str] = frozenset()  # topics that it leads, if it cannot write
    folders: tuple[UnwritableFolder, ...] = ()

    @property
    def is_stuck(self) -> bool:
        """Whether the broker cannot write."""
        return bool(self.folders) or any(map(is_full, self.disks))


class ClusterState(msgspec.Struct, frozen=True):
    """The state of one cluster and its ledger."""

    read: bool = False  # to its end, since the start
    judged: bool = False  # everything that was read by then
    as_of: int = 0  # when it was last read to its end; before that, the time of the newest entry
    behind: int = -1  # entries still to be read; -1: unknown
    unreachable: str = ""  # why it cannot be read at present
    entries: int = 0  # folded since the start
    repeated: int = 0  # repetitions of folded entries
    gaps: int = 0  # times that entries were deleted before they were read
    left_out: int = 0  # entries that could not be read or did not count, since the start
    brokers: Sequence[BrokerFacts] = ()
    away: Sequence[int] = ()  # brokers that hold replicas, but are not among `brokers`
    leaderless: Collection[str] = frozenset()  # topics with a partition without a leader
    is_for_schemas: bool = False  # reading stopped because a schema is missing
    disks: Mapping[int, BrokerDisks] = {}  # by broker; of one that is away, the last answer
    disks_asked: bool = False  # brokers were asked for them, or may not be
    registry_away: str | None = None  # why it does not answer; None: not polled yet
    registry_looked: int = 0  # when it was last polled
    topic_ids: Mapping[str, str] = {}  # of existing topics
    absent: Collection[str] = frozenset()  # topics that were requested by name and do not exist
    looked: int = 0  # entries up to this time were read before these were requested

    @property
    def unanswering(self) -> "BrokerFacts | None":
        """The cluster's only broker, if the cluster cannot be read because that broker does not
        answer."""
        is_unanswering = self.unreachable and not self.is_for_schemas and len(self.brokers) == 1
        return self.brokers[0] if is_unanswering and not self.away else None

    @property
    def is_seen(self) -> bool:
        """Whether it is known which programs of the cluster are absent."""
        return bool(self.unreachable or self.looked) and self.registry_away is not None


class AuditState(msgspec.Struct):
    """The state of all clusters, for any thread."""

    clusters: dict[str, ClusterState]
    version: int = 0
    read_since: int = 0  # when all reachable ledgers had been read; 0: not yet
    rebuilt: str = ""  # what became of a damaged database
    unusable: str = ""  # why the database cannot be used at present
    inventory: str = ""  # the problem of the inventory file
    retired: Collection[TopicKey] = frozenset()  # topics from which nothing more is expected
    unjudged: Sequence[TopicKey] = ()  # topics that cannot be judged
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    _doubted: dict[str, int] = {}  # clusters: see `poll_again`
    _reported: dict[TopicKey, int] = {}  # topics unknown to the cluster at the last request
    _unlisted: set[tuple[str, str]] = set()  # clusters and topics: see `unlisted`
    _guard: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _listeners: list[Callable[[], None]] = []

    def note(self, cluster: str, **changes: Any) -> None:
        """Changes the state of a cluster."""
        with self._guard:
            self.clusters[cluster] = replace(self.clusters[cluster], **changes)

    def poll_again(self, cluster: str, since: int) -> None:
        """Requests a poll of a cluster and its registry, unless both were polled since this time,
        to find the cause of a new condition."""
        self._doubted[cluster] = since

    def is_polled(self, cluster: str, since: int) -> bool:
        """Whether a cluster and its registry were polled since this time, and its disks at least
        once; true for a cluster that cannot be reached."""
        state = self.clusters[cluster]
        is_asked = (state.looked >= since and state.disks_asked) or bool(state.unreachable)
        return is_asked and state.registry_looked >= since

    def wants_registry(self, name: str) -> bool:
        """Whether the registry must be polled at once."""
        return self.clusters[name].registry_looked < self._doubted.get(name, 0)

    def note_reported(self, topics: Iterable[TopicKey]) -> None:
        """Notes topics that entries name. A topic unknown to the cluster may be new, until the
        cluster is polled again."""
        for key in topics:
            cluster = self.clusters[key.cluster]
            if key.topic_id and cluster.topic_ids.get(key.topic) != key.topic_id:
                self._reported.setdefault(key, cluster.as_of if cluster.read else 0)

    def has_new(self, name: str) -> bool:
        """Whether the cluster must be polled for its topics: reported topics may be newer than the
        last poll, or some must be asked for by name."""
        if any(key.cluster == name and self._is_new(key) for key in list(self._reported)):
            return True
        is_doubted = self.clusters[name].looked < self._doubted.get(name, 0)
        return is_doubted or self.has_unasked(name)

    def has_unasked(self, name: str) -> bool:
        """Whether the cluster must still be asked by name for a needed topic that it does not
        list."""
        cluster = self.clusters[name]
        return any(
            topic not in cluster.topic_ids and topic not in cluster.absent
            for topic in self.unlisted(name)
        )

    def unlisted(self, name: str) -> list[str]:
        """Returns topics that a query needed but the cluster does not list. The cluster omits
        topics that the audit may not see, and gives the reason only if asked for them by name."""
        return [topic for cluster, topic in list(self._unlisted) if cluster == name]

    def may_be_gone(self, key: TopicKey) -> bool:
        """Whether the topic was deleted; also true until the cluster has been asked for it."""
        return self._is_new(key) or self.is_deleted(key)

    def is_deleted(self, key: TopicKey) -> bool:
        """Whether no more reports on a topic are expected: the cluster is not known to have it, or
        an operator has retired it."""
        return key in self.retired or self.is_absent(key)

    def is_absent(self, key: TopicKey) -> bool:
        """Whether the cluster is known not to have the topic."""
        cluster = self.clusters.get(key.cluster)
        if cluster is None or not key.topic_id or not cluster.topic_ids:
            return False
        topic_id = cluster.topic_ids.get(key.topic)
        if topic_id is None and key.topic not in cluster.absent:
            self._unlisted.add((key.cluster, key.topic))
            return False
        if topic_id in {"", key.topic_id}:  # without ids it cannot be told
            return False
        return not self._is_new(key)

    def those_there(self, topics: Iterable[TopicKey]) -> frozenset[tuple[str, str]]:
        """Returns the clusters and names of topics that are not known to be deleted."""
        return frozenset((key.cluster, key.topic) for key in topics if not self.is_deleted(key))

    def _is_new(self, key: TopicKey) -> bool:
        return self._reported.get(key, -1) >= self.clusters[key.cluster].looked

    def changed(self) -> None:
        """Notes that answers have changed, and notifies listeners."""
        with self._guard:
            self.version += 1
        self.stir()

    def stir(self) -> None:
        """Notifies listeners of a change that does not affect any verdict."""
        with self._guard:
            listeners = tuple(self._listeners)
        for tell in listeners:
            tell()

    def reset(self, *, rebuilt: str = "", unusable: str = "") -> None:
        """Resets to a state in which no ledger has been read."""
        with self._guard:
            self.clusters = {name: ClusterState() for name in self.clusters}
            self.read_since = 0
            self.rebuilt = rebuilt or self.rebuilt
            self.unusable = unusable
        self.changed()

    def note_all_read(self, now: int) -> None:
        """Notes that all reachable ledgers have been read and judged."""
        self.read_since = now
        self.unusable = ""

    def listen(self, tell: Callable[[], None]) -> None:
        """Registers `tell`, to be called at each change, on the thread that makes the change."""
        with self._guard:
            self._listeners.append(tell)

    @property
    def as_of(self) -> int:
        """Returns the time up to which all ledgers have been read."""
        return min((cluster.as_of for cluster in self.clusters.values()), default=0)

    def notices(self) -> list[str]:
        """Describes the problems of the audit itself."""
        texts = [text for text in (self.rebuilt, self.unusable, self.inventory) if text]
        for name, cluster in sorted(self.clusters.items()):
            if cluster.unreachable:
                texts.append(f"Cluster {name} cannot be read: {cluster.unreachable}")
            elif not cluster.read:
                texts.append(f"The ledger of {name} is being read{_left(cluster.behind)}")
            if cluster.gaps:
                texts.append(f"Entries of {name} were deleted before they were read")
            if cluster.left_out:
                entries = "1 entry" if cluster.left_out == 1 else f"{cluster.left_out:,} entries"
                texts.append(f"{entries} of {name} did not count: unreadable, or rejected")
        if self.unjudged:
            first_topic, *other_topics = (
                f"{text.topic} of {text.cluster}" for text in self.unjudged
            )
            suffix = f" and {len(other_topics):,} more" if other_topics else ""
            texts.append(f"{first_topic}{suffix} cannot be judged: see the audit's log")
        return texts

    def too_old(self, now: int) -> list[str]:
        """Describes the ledgers that were last read too long ago."""
        return [
            f"The ledger of {name} was last read {_ago(now - cluster.as_of)} ago: "
            "the data shown is as old as that"
            for name, cluster in sorted(self.clusters.items())
            if cluster.read and cluster.as_of < now - _OLD_MILLIS
        ]

    def ages(self, now: int) -> list[str]:
        """Describes how long ago each ledger was read."""
        return [
            f"the ledger of {name} was read {_ago(now - cluster.as_of)} ago"
            if cluster.read
            else f"the ledger of {name} is being read"
            for name, cluster in sorted(self.clusters.items())
        ]

    def why_not_ready(self) -> str:
        """Returns the reason why the audit is not ready; empty once every ledger has been read up
        to its end as of the start, and judged. A cluster that becomes unreachable later does not
        change this."""
        reasons = "; ".join(
            f"Cluster {name} cannot be read: {cluster.unreachable}"
            if cluster.unreachable
            else f"the ledger of {name} is being read{_left(cluster.behind)}"
            for name, cluster in sorted(self.clusters.items())
            if not cluster.read
        )
        is_judged = all(cluster.judged for cluster in self.clusters.values())
        return reasons or ("" if is_judged else "what was read is being judged")


def _ago(millis: int) -> str:
    seconds = max(0, millis) // 1000
    return f"{seconds:,} s" if seconds < _MINUTE_S else f"{seconds // _MINUTE_S:,} min"


def _left(behind: int) -> str:
    return f": {behind:,} entries are left" if behind > 0 else ""
