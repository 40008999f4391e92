"""One audit, as its parts see it: what it was told, how it stands, and what it can read.

The thread that writes sets what can be read, and takes it away while a damaged database is built
anew; whoever answers asks for it each time.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from audit.alerting.conditions import Conditions, WaitingCondition
from audit.alerting.notes import AlertNotes
from audit.alerting.notices import Group
from audit.alerting.receivers import Receivers
from audit.api.answers import Mark, TopicFinding
from audit.clusters.groups.changes import Settled, changes, settled
from audit.clusters.groups.lags import GroupsSeen
from audit.clusters.rates import RatesSeen
from audit.clusters.state import Standing
from audit.configuration.config import AuditConfig
from audit.errors import NotNow, StoreDamaged
from audit.store.judged_hours import TopicFigures
from audit.store.reading import StoreReading
from client.connection.connection import SOFTWARE_VERSION
from ground.exposition import Histogram
from ledger.health import HealthProbe

_MOST_KEPT: Final = 256  # answers' parts
_MOST_MARKS: Final = 10_000  # that were not taken yet

T = TypeVar("T")


class KeptFindings(NamedTuple):
    """Findings that may be shown until then, by the monotonic clock."""

    findings: Sequence[TopicFinding]
    until: float


class Service(msgspec.Struct):
    """Any thread, unless said otherwise."""

    config: AuditConfig
    standing: Standing
    probe: HealthProbe = msgspec.field(default_factory=lambda: HealthProbe(SOFTWARE_VERSION))
    folding: Histogram = msgspec.field(default_factory=Histogram)  # seconds a chunk
    requests: dict[str, Histogram] = {}  # seconds an answer, by path
    figures: Sequence[TopicFigures] = ()
    alerts_raised: int = 0
    alerts_waiting: Sequence[WaitingCondition] = ()  # what is known and not raised yet
    alert_groups: Mapping[str, Group] = {}  # what stands, as receivers are told, by id
    alert_conditions: Conditions = {}  # what is known, raised or not
    notes: AlertNotes = msgspec.field(default_factory=AlertNotes)
    receivers: Receivers = msgspec.field(default_factory=Receivers)
    refused: Mapping[str, int] = {}  # requests, by why, since the start
    sessions: Callable[[], int] = int  # how many are open
    groups: dict[str, GroupsSeen] = {}  # by cluster, as last looked
    rates: dict[str, RatesSeen] = {}  # by cluster, as last seen
    worst_findings: dict[tuple[str, int], KeptFindings] = {}  # by cluster and number of hours
    _settled: dict[str, Settled] = {}  # by cluster
    _marks: "deque[Mark]" = msgspec.field(default_factory=lambda: deque(maxlen=_MOST_MARKS))
    _reading: StoreReading | None = None
    _damage: str = ""
    _guard: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _kept: "OrderedDict[Hashable, object]" = msgspec.field(default_factory=OrderedDict)
    _kept_version: int = -1  # of all that is kept

    @property
    def window_millis(self) -> int:
        return self.config.window * 1000

    @property
    def reading(self) -> StoreReading:
        """Raises NotNow."""
        if self._reading is None:
            raise NotNow("the audit's database is not open just now: ask again in a moment")
        return self._reading

    def reads(self, reading: StoreReading | None) -> None:
        """What is answered from, from now on."""
        with self._guard:
            self._reading = reading
            self._kept.clear()

    def note_damage(self, why: str) -> None:
        """Whoever read from the database found it damaged."""
        self._damage = why

    def check_damage(self) -> None:
        """Raises StoreDamaged, once."""
        if self._damage:
            why, self._damage = self._damage, ""
            raise StoreDamaged(why)

    def note_groups(self, cluster: str, found: GroupsSeen) -> None:
        """Whoever shows them is told; no verdict is another one for that."""
        before = self._settled.get(cluster, {})
        now = settled(before, found)
        if found.lags or not found.troubles:
            self._marks.extend(changes(cluster, before, now, found))
            self._settled[cluster] = now
        self.groups[cluster] = found
        self.standing.stir()

    def note_rates(self, cluster: str, found: RatesSeen) -> None:
        self.rates[cluster] = found
        self.standing.stir()

    def taken_marks(self) -> list[Mark]:
        """What was seen to change since the last time."""
        return [self._marks.popleft() for _ in range(len(self._marks))]

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for that key while nothing has changed, or what is made now."""
        version = self.standing.version
        with self._guard:
            if version == self._kept_version and key in self._kept:
                return self._kept[key]  # type: ignore[return-value]
        made = make()
        with self._guard:
            if version > self._kept_version:
                # What was made before something changed is never asked for again.
                self._kept.clear()
                self._kept_version = version
            if version == self._kept_version:
                self._kept[key] = made
                self._kept.move_to_end(key)
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return made


def now_millis() -> int:
    return time.time_ns() // 1_000_000
