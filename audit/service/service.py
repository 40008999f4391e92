"""The parts that an audit's threads share: its configuration, its state, and the database for
reading.

The writer thread sets the database, and takes it away while a damaged one is rebuilt; requests ask
for it each time.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from audit.alerting.conditions import AlertKey, Conditions, Ending, WaitingCondition
from audit.alerting.notes import AlertNotes
from audit.alerting.notices import Group
from audit.alerting.receivers import Receivers
from audit.api.answers import Mark, TopicFinding
from audit.clusters.groups.changes import Settled, changes, settled
from audit.clusters.groups.lags import GroupsSeen
from audit.clusters.rates import RatesSeen
from audit.clusters.state import AuditState
from audit.configuration.config import AuditConfig
from audit.errors import NotNow, StoreDamaged
from audit.store.judged_hours import TopicFigures
from audit.store.reading import StoreReading
from client.connection.connection import SOFTWARE_VERSION
from ground.http.exposition import Histogram
from ground.signatures.keys import SigningKey
from ledger.health import HealthProbe

_MOST_KEPT: Final = 256  # parts of answers
_MOST_MARKS: Final = 10_000  # waiting to be stored

T = TypeVar("T")


class KeptFindings(NamedTuple):
    """Cached findings, with the monotonic time until which they may be shown."""

    findings: Sequence[TopicFinding]
    until: float


class Service(msgspec.Struct):
    """The parts that an audit's threads share. For any thread, unless noted otherwise."""

    config: AuditConfig
    standing: AuditState
    probe: HealthProbe = msgspec.field(default_factory=lambda: HealthProbe(SOFTWARE_VERSION))
    folding: Histogram = msgspec.field(default_factory=Histogram)  # seconds a chunk
    requests: dict[str, Histogram] = {}  # seconds an answer, by path
    figures: Sequence[TopicFigures] = ()
    done_until: Mapping[str, int] = {}  # by cluster, with these figures: what agents have shipped
    alerts_raised: int = 0
    alerts_waiting: Sequence[WaitingCondition] = ()  # not raised yet
    alert_groups: Mapping[str, Group] = {}  # by id, as sent to receivers
    alert_conditions: Conditions = {}  # raised or not
    alerts_ending: Mapping[AlertKey, Ending] = {}  # their conditions are gone
    notes: AlertNotes = msgspec.field(default_factory=AlertNotes)
    signing_key: SigningKey | None = None
    receivers: Receivers = msgspec.field(default_factory=Receivers)
    refused: Mapping[str, int] = {}  # rejected requests by reason, since the start
    sessions: Callable[[], int] = int  # the number of open ones
    groups: dict[str, GroupsSeen] = {}  # by cluster, at the last poll
    rates: dict[str, RatesSeen] = {}  # by cluster, at the last poll
    worst_findings: dict[tuple[str, int], KeptFindings] = {}  # by cluster and number of hours
    _settled: dict[str, Settled] = {}  # by cluster
    _marks: "deque[Mark]" = msgspec.field(default_factory=lambda: deque(maxlen=_MOST_MARKS))
    _reading: StoreReading | None = None
    _damage: str = ""
    _guard: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _kept: "OrderedDict[Hashable, object]" = msgspec.field(default_factory=OrderedDict)
    _kept_version: int = -1  # of everything in `_kept`

    @property
    def window_millis(self) -> int:
        return self.config.window * 1000

    @property
    def reading(self) -> StoreReading:
        """The database for reading. Raises NotNow."""
        if self._reading is None:
            raise NotNow("the audit's database is not open at present: try again in a moment")
        return self._reading

    def reads(self, reading: StoreReading | None) -> None:
        """Sets the database from which answers are read."""
        with self._guard:
            self._reading = reading
            self._kept.clear()

    def note_damage(self, why: str) -> None:
        """Notes that a reader found the database damaged."""
        self._damage = why

    def check_damage(self) -> None:
        """Raises StoreDamaged once for each noted damage."""
        if self._damage:
            reason, self._damage = self._damage, ""
            raise StoreDamaged(reason)

    def note_groups(self, cluster: str, seen: GroupsSeen) -> None:
        """Stores polled groups, which do not affect any verdict."""
        former_groups = self._settled.get(cluster, {})
        current_groups = settled(former_groups, seen)
        if seen.lags or not seen.troubles:
            self._marks.extend(changes(cluster, former_groups, current_groups, seen))
            self._settled[cluster] = current_groups
        self.groups[cluster] = seen
        self.standing.stir()

    def note_rates(self, cluster: str, seen: RatesSeen) -> None:
        self.rates[cluster] = seen
        self.standing.stir()

    def taken_marks(self) -> list[Mark]:
        """Removes and returns the marks noted since the last call."""
        return [self._marks.popleft() for _ in range(len(self._marks))]

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the cached value of a key, or computes it again if the state has changed
        since."""
        version = self.standing.version
        with self._guard:
            if version == self._kept_version and key in self._kept:
                return self._kept[key]  # type: ignore[return-value]
        value = make()
        with self._guard:
            if version > self._kept_version:
                # Values made before a change are never needed again.
                self._kept.clear()
                self._kept_version = version
            if version == self._kept_version:
                self._kept[key] = value
                self._kept.move_to_end(key)
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return value


def now_millis() -> int:
    return time.time_ns() // 1_000_000
