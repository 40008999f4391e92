"""What an audit says of itself: how far each cluster's ledger has been read, and what whoever looks
should know. Written by those who work, read by those who answer; nothing of it is kept on disk.

Each change has a number, by which a page notices that there is something new.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from audit.clusters.clocks import Clocks
from audit.picture import TopicKey

_OLD_MILLIS: Final = 30_000  # a ledger that was read since then is read all the time
_MINUTE_S: Final = 60


class BrokerFacts(NamedTuple):
    """One live broker."""

    id: int
    host: str
    address: str
    rack: str
    controller: bool
    partitions: int
    leads: int


class ClusterStanding(msgspec.Struct, frozen=True):
    """One cluster's ledger."""

    read: bool = False  # to its end, since the start
    judged: bool = False  # all that was read up to then
    as_of: int = 0  # when it had last been read to its end; before, the time of the newest entry
    behind: int = -1  # entries that are still to be read; -1: not known
    unreachable: str = ""  # why it cannot be read just now
    entries: int = 0  # folded since the start
    repeated: int = 0  # that had been folded before
    gaps: int = 0  # times that entries were deleted before they were read
    left_out: int = 0  # entries that could not be read, since the start
    brokers: Sequence[BrokerFacts] = ()
    away: Sequence[int] = ()  # brokers that hold replicas and are not among them
    leaderless: Collection[str] = frozenset()  # topics with a partition without a leader
    is_for_schemas: bool = False  # it is a schema that is missing to read on
    registry_away: str | None = None  # why it does not answer; None: not looked yet
    registry_looked: int = 0  # when it was last asked
    topic_ids: Mapping[str, str] = {}  # of the topics that are there
    absent: Collection[str] = frozenset()  # topics that were asked for by name, and are not there
    looked: int = 0  # everything read up to then had been read before these were asked for

    @property
    def is_seen(self) -> bool:
        """Whether it is known who of its programs is away."""
        return bool(self.unreachable or self.looked) and self.registry_away is not None


class Standing(msgspec.Struct):
    """All clusters. Any thread."""

    clusters: dict[str, ClusterStanding]
    version: int = 0
    read_since: int = 0  # when all ledgers that can be reached had been read; 0: not yet
    rebuilt: str = ""  # what became of a database that was damaged
    unusable: str = ""  # why the database cannot be used just now
    inventory: str = ""  # what is wrong with the file
    retired: Collection[TopicKey] = frozenset()  # topics: nothing is expected of them any more
    unjudged: Sequence[TopicKey] = ()  # topics that cannot be judged
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    _doubted: dict[str, int] = {}  # clusters: see look_again
    _spoken_of: dict[TopicKey, int] = {}  # not there, when last looked
    _unlisted: set[tuple[str, str]] = set()  # clusters, topics: see unlisted
    _guard: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _listeners: list[Callable[[], None]] = []

    def note(self, cluster: str, **changes: Any) -> None:
        """Something else holds for a cluster."""
        with self._guard:
            self.clusters[cluster] = replace(self.clusters[cluster], **changes)

    def look_again(self, cluster: str, since: int) -> None:
        """Something may have come of a cause that nobody has seen yet: cluster and registry are to
        be looked at, unless that was done since then."""
        self._doubted[cluster] = since

    def is_looked_at(self, cluster: str, since: int) -> bool:
        """Whether who is away was looked at since then, or the cluster cannot be asked."""
        known = self.clusters[cluster]
        is_asked = known.looked >= since or bool(known.unreachable)
        return is_asked and known.registry_looked >= since

    def wants_registry(self, name: str) -> bool:
        return self.clusters[name].registry_looked < self._doubted.get(name, 0)

    def speak_of(self, topics: Iterable[TopicKey]) -> None:
        """Entries name these: who is not known yet may be new, until it is looked again."""
        for key in topics:
            cluster = self.clusters[key.cluster]
            if key.topic_id and cluster.topic_ids.get(key.topic) != key.topic_id:
                self._spoken_of.setdefault(key, cluster.as_of if cluster.read else 0)

    def has_new(self, name: str) -> bool:
        """Whether topics were spoken of that may have come since the cluster was asked for them, or
        that it has not been asked for by name."""
        if any(key.cluster == name and self._is_new(key) for key in list(self._spoken_of)):
            return True
        cluster = self.clusters[name]
        return cluster.looked < self._doubted.get(name, 0) or any(
            each not in cluster.topic_ids and each not in cluster.absent
            for each in self.unlisted(name)
        )

    def unlisted(self, name: str) -> list[str]:
        """Topics that somebody wanted to know of and that were not among those that the cluster
        lists. It lists none that may not be seen: only by name it says why."""
        return [topic for cluster, topic in list(self._unlisted) if cluster == name]

    def may_be_gone(self, key: TopicKey) -> bool:
        """Whether it was deleted, or may have been: nobody has looked yet."""
        return self._is_new(key) or self.is_deleted(key)

    def is_deleted(self, key: TopicKey) -> bool:
        """Whether nothing is expected of that topic any more: the cluster does not have it, as far
        as is known, or an operator has retired it."""
        if key in self.retired:
            return True
        cluster = self.clusters.get(key.cluster)
        if cluster is None or not key.topic_id or not cluster.topic_ids:
            return False
        there = cluster.topic_ids.get(key.topic)
        if there is None and key.topic not in cluster.absent:
            self._unlisted.add((key.cluster, key.topic))
            return False
        if there in {"", key.topic_id}:  # without ids nobody can tell
            return False
        return not self._is_new(key)

    def those_there(self, topics: Iterable[TopicKey]) -> frozenset[tuple[str, str]]:
        """Clusters and names of those that were not deleted, as far as is known."""
        return frozenset((e.cluster, e.topic) for e in topics if not self.is_deleted(e))

    def _is_new(self, key: TopicKey) -> bool:
        return self._spoken_of.get(key, -1) >= self.clusters[key.cluster].looked

    def changed(self) -> None:
        """What is answered is no more what it was."""
        with self._guard:
            self.version += 1
        self.stir()

    def stir(self) -> None:
        """There is something new to be shown, by which nothing is judged otherwise."""
        with self._guard:
            listeners = tuple(self._listeners)
        for tell in listeners:
            tell()

    def begin_anew(self, *, rebuilt: str = "", unusable: str = "") -> None:
        """Nothing has been read, and why is shown."""
        with self._guard:
            self.clusters = {name: ClusterStanding() for name in self.clusters}
            self.read_since = 0
            self.rebuilt = rebuilt or self.rebuilt
            self.unusable = unusable
        self.changed()

    def note_all_read(self, now: int) -> None:
        """All that can be reached has been read and judged: whatever was in the way is gone."""
        self.read_since = now
        self.unusable = ""

    def listen(self, tell: Callable[[], None]) -> None:
        """`tell` is called at each change, by whoever made it."""
        with self._guard:
            self._listeners.append(tell)

    @property
    def as_of(self) -> int:
        """Up to when all that can be read has been read."""
        return min((each.as_of for each in self.clusters.values()), default=0)

    def notices(self) -> list[str]:
        """In words, what is not as it should be with the audit itself."""
        said = [each for each in (self.rebuilt, self.unusable, self.inventory) if each]
        for name, cluster in sorted(self.clusters.items()):
            if cluster.unreachable:
                said.append(f"Cluster {name} cannot be read: {cluster.unreachable}")
            elif not cluster.read:
                said.append(f"The ledger of {name} is being read{_left(cluster.behind)}")
            if cluster.gaps:
                said.append(f"Entries of {name} were deleted before they were read")
            if cluster.left_out:
                said.append(f"{cluster.left_out:,} entries of {name} could not be read")
        if self.unjudged:
            first, *rest = (f"{each.topic} of {each.cluster}" for each in self.unjudged)
            more = f" and {len(rest):,} more" if rest else ""
            said.append(f"{first}{more} cannot be judged: the audit's log says why")
        return said

    def too_old(self, now: int) -> list[str]:
        """In words, which ledgers were last read a while ago: what is said is as old as that."""
        return [
            f"The ledger of {name} was last read {_ago(now - each.as_of)} ago: "
            "what is shown is as old as that"
            for name, each in sorted(self.clusters.items())
            if each.read and each.as_of < now - _OLD_MILLIS
        ]

    def ages(self, now: int) -> list[str]:
        """How far each ledger was read."""
        return [
            f"the ledger of {name} was read {_ago(now - each.as_of)} ago"
            if each.read
            else f"the ledger of {name} is being read"
            for name, each in sorted(self.clusters.items())
        ]

    def why_not_ready(self) -> str:
        """Empty once every ledger has been read up to where it ended at the start, and judged. A
        cluster that goes away later is said, and leaves the others ready."""
        reading = "; ".join(
            f"Cluster {name} cannot be read: {each.unreachable}"
            if each.unreachable
            else f"the ledger of {name} is being read{_left(each.behind)}"
            for name, each in sorted(self.clusters.items())
            if not each.read
        )
        judged = all(each.judged for each in self.clusters.values())
        return reading or ("" if judged else "what was read is being judged")


def _ago(millis: int) -> str:
    seconds = max(0, millis) // 1000
    return f"{seconds:,} s" if seconds < _MINUTE_S else f"{seconds // _MINUTE_S:,} min"


def _left(behind: int) -> str:
    return f": {behind:,} entries are left" if behind > 0 else ""
