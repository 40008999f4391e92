"""The one thread that writes: it folds what followers have read, has judged what that touched,
raises and resolves alerts, and lets go of what is too old. Round after round, until it is stopped.

Followers wait while there is something to fold. Nothing of a cluster is judged while its ledger is
read in the middle: what one tier has said is there then, and what another has said is still to
come. Other clusters do not wait for it longer than a moment. Time stands still for a cluster that
cannot be read, for the same reason. A kill at any point leaves a store that is as if the chunk had
never been read, or as if it had been folded.

One entry that nobody foresaw must not keep an audit from all the others, nor come back with each
start. So a chunk that cannot be folded is folded in halves, and these again, down to the single
entry that fails: it is left out, counted and said. Only then the positions behind the chunk are
kept. A kill before that repeats all of it, which changes nothing. What is wrong with the database
itself (a full disk, damage) is none of this, and is raised.
"""

import logging
import queue
import threading
import time
from typing import Final, Protocol

import msgspec
import pyarrow as pa

from audit.alerting.alerting import Alerting
from audit.configuration.inventory import InventoryFile
from audit.errors import AuditStoreError, TooLargeToStore
from audit.service.judge import Judging
from audit.service.ledger_reader import FollowingStopped, Handed, ReadTo
from audit.service.measurements import Measuring
from audit.service.service import Service, now_millis
from audit.store.judged_hours import DAY, HourVerdict, figures_of
from audit.store.rows import Touched
from audit.store.store import AuditStore
from ledger.reading import LedgerChunk, LedgerPositions

_CHUNKS: Final = 1  # that wait to be folded: they are large
_AT_WORK_S: Final = 0.05  # until hours are judged on
_AT_REST_S: Final = 0.25  # until it is seen that time has passed, or that all is over
_ALERTS_S: Final = 1.0
_INVENTORY_S: Final = 2.0
_MEASURING_S: Final = 1.0
_EXPIRE_S: Final = 600.0
_FIGURES_S: Final = 5.0
_OTHERS_S: Final = 2.0  # where one ledger takes long to be read
_NEWS_S: Final = 5.0  # what changes no verdict: that an agent was heard, that a run was loaded

log = logging.getLogger(__name__)


class _Every(msgspec.Struct):
    """Something that is due so often."""

    seconds: float
    _at: float = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._at:
            return False
        self._at = now + self.seconds
        return True


class Rounds:
    """`hand_over` is called by followers, everything else by one thread."""

    def __init__(
        self,
        service: Service,
        store: AuditStore,
        judging: Judging,
        alerting: Alerting,
        inventory: InventoryFile | None,
    ) -> None:
        self._service = service
        self._standing = service.standing
        self._store = store
        self._judging = judging
        self._alerting = alerting
        self._inventory = inventory
        self._queue: queue.Queue[tuple[str, Handed]] = queue.Queue(_CHUNKS)
        self._ended = threading.Event()
        self._amid: set[str] = set()  # clusters whose ledger is read in the middle
        self._measuring = Measuring(service, store)
        self._measuring_due = _Every(_MEASURING_S)
        self._alerts_due = _Every(_ALERTS_S)
        self._inventory_due = _Every(_INVENTORY_S)
        self._expire_due = _Every(_EXPIRE_S)
        self._figures_due = _Every(_FIGURES_S)
        self._news_due = _Every(_NEWS_S)
        self._others_due = _Every(_OTHERS_S)
        self._folded = False  # since there were news
        self._is_behind = True  # with judging

    def hand_over(self, cluster: str, handed: Handed) -> None:
        """Waits while others wait. Raises FollowingStopped."""
        while not self._ended.is_set():
            try:
                self._queue.put((cluster, handed), timeout=0.5)
            except queue.Full:
                continue
            return
        raise FollowingStopped

    def end(self) -> None:
        """Whoever waits to hand something over does not any more."""
        self._ended.set()

    def run(self, told: threading.Event) -> None:
        """Until it is told to stop. Raises StoreDamaged, AuditStoreError."""
        self._look_at_inventory()
        self._standing.retired = self._service.reading.retired()
        while not told.is_set():
            self._take(_AT_WORK_S if self._is_behind else _AT_REST_S)
            changed = False
            if (self._all_read() and self._queue.empty()) or self._others_due.is_due():
                changed = self._judge()
            if self._inventory_due.is_due():
                changed |= self._look_at_inventory()
            if self._measuring_due.is_due():
                self._measuring.look()
            if self._expire_due.is_due():
                self._expire()
            if self._folded and self._news_due.is_due():
                self._folded = False
                changed = True
            self._service.check_damage()
            if changed:
                self._standing.changed()

    def _take(self, seconds: float) -> None:
        try:
            cluster, handed = self._queue.get(timeout=seconds)
        except queue.Empty:
            return
        if isinstance(handed, ReadTo):
            self._note_read(cluster, handed)
        else:
            self._fold(cluster, handed)

    def _fold(self, cluster: str, chunk: LedgerChunk) -> None:
        self._amid.add(cluster)
        began = time.monotonic()
        touched = folded(self._store, cluster, chunk)
        self._service.folding.observe(time.monotonic() - began)
        self._judging.touch(touched.hours)
        self._standing.speak_of({key for key, _ in touched.hours})
        if len(chunk.body.field("retired").flatten()):
            self._judging.sweep()  # somebody is not waited for any more, whatever the topic
        if self._standing.retired or len(chunk.body.field("accepted").flatten()):
            self._standing.retired = self._service.reading.retired()
        self._folded |= touched.entries > 0
        before = self._standing.clusters[cluster]
        if before.read and not chunk.to_come:
            self._standing.clocks.note(cluster, chunk.body, now_millis())
        self._standing.note(
            cluster,
            behind=chunk.to_come,
            entries=before.entries + touched.entries,
            repeated=before.repeated + touched.repeated,
            left_out=before.left_out + chunk.left_out + touched.left_out,
            gaps=before.gaps + chunk.gap,
        )

    def _note_read(self, cluster: str, read: ReadTo) -> None:
        first = not self._standing.clusters[cluster].read
        self._amid.discard(cluster)
        self._standing.note(cluster, read=True, as_of=read.time, behind=0)
        if first:
            log.info("ledger read to its end cluster=%s", cluster)

    def _all_read(self) -> bool:
        """Whether nothing is half read that goes on being read just now."""
        clusters = self._standing.clusters
        return all(
            each.unreachable or (each.read and name not in self._amid)
            for name, each in clusters.items()
        )

    def _judge(self) -> bool:
        now = now_millis()
        as_of = {
            name: each.as_of
            for name, each in self._standing.clusters.items()
            if each.read and name not in self._amid
        }
        changed = self._judging.judge(as_of, self._keep)
        if self._standing.unjudged != self._judging.failing:
            self._standing.unjudged = self._judging.failing
            changed = True
        self._is_behind = self._judging.is_behind(as_of)
        if self._is_behind:
            return changed
        for name in as_of:
            if not self._standing.clusters[name].judged:
                self._standing.note(name, judged=True)
                changed = True
        if not self._standing.read_since and self._all_read():
            self._standing.note_all_read(now)
            changed = True
        if self._alerts_due.is_due():
            changed |= self._alerting.judge(self._judging.open_hours, as_of, now)
            self._service.alerts_raised = self._alerting.raised
            self._service.alerts_waiting = self._alerting.waiting
            self._service.alert_groups = self._alerting.groups
            self._service.alert_conditions = self._alerting.conditions
        if self._figures_due.is_due():
            since = max(as_of.values(), default=now) - DAY
            self._service.figures = figures_of(
                self._judging.said, since=since, is_deleted=self._standing.is_deleted
            )
        return changed

    def _keep(self, hours: list[HourVerdict]) -> None:
        self._store.judged([each.judged for each in hours])

    def _look_at_inventory(self) -> bool:
        if self._inventory is None:
            return False
        hosts = self._inventory.changed()
        said = self._standing.inventory != self._inventory.problem
        self._standing.inventory = self._inventory.problem
        if hosts is None:
            return said
        self._store.set_inventory(hosts, now_millis())
        self._judging.sweep()
        return True

    def _expire(self) -> None:
        now = now_millis()
        gone = self._store.expire(now)
        self._judging.forget_before(now - int(self._service.config.retention * 1000))
        if gone:
            log.info("what is too old is gone rows=%d", gone)


_MOST_NAMED: Final = 10  # entries of a chunk, in the log


class Folds(Protocol):
    """As a Store does."""

    def positions(self, cluster: str) -> LedgerPositions: ...

    def fold(self, cluster: str, body: pa.StructArray, positions: LedgerPositions) -> Touched: ...


def folded(store: Folds, cluster: str, chunk: LedgerChunk) -> Touched:
    """As much of it as can be. Raises AuditStoreError; then some of it may have been folded, and is
    going to be read again."""
    try:
        return store.fold(cluster, chunk.body, chunk.positions)
    except Exception as error:
        if not _is_of_entries(error):
            raise
        log.exception("chunk cannot be folded, in pieces now cluster=%s", cluster)
    pieces = _Pieces(store, cluster)
    touched = pieces.fold(chunk.body) if len(chunk.body) else Touched(set())
    store.fold(cluster, _part(chunk.body, 0, 0), chunk.positions)
    log.error("entries that cannot be folded cluster=%s entries=%d", cluster, pieces.left_out)
    return touched._replace(left_out=touched.left_out + pieces.left_out)


class _Pieces:
    """Folded without going on from the positions that were kept before."""

    def __init__(self, store: Folds, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._at = store.positions(cluster)
        self.left_out = 0

    def fold(self, body: pa.StructArray) -> Touched:
        half = len(body) // 2
        if not half:
            return self._one(body)
        parts = (_part(body, 0, half), _part(body, half, len(body)))
        one, other = (self._whole(each) or self.fold(each) for each in parts)
        return Touched(
            one.hours | other.hours,
            one.entries + other.entries,
            one.repeated + other.repeated,
            one.left_out + other.left_out,
        )

    def _whole(self, body: pa.StructArray) -> Touched | None:
        """None if something of it cannot be folded."""
        try:
            return self._store.fold(self._cluster, body, self._at)
        except Exception as error:
            if not _is_of_entries(error):
                raise
            return None

    def _one(self, entry: pa.StructArray) -> Touched:
        if (touched := self._whole(entry)) is not None:
            return touched
        self.left_out += 1
        if self.left_out <= _MOST_NAMED:
            header = entry.field("header")
            log.error(
                "entry left out cluster=%s journal=%.200r seq=%d",
                self._cluster,
                header.field("source")[0].as_py(),
                header.field("seq")[0].as_py(),
            )
        return Touched(set())


def _is_of_entries(error: Exception) -> bool:
    """Whether others may well be folded; whatever it is, if it is not the database itself."""
    return isinstance(error, TooLargeToStore) or not isinstance(error, AuditStoreError)


def _part(body: pa.StructArray, first: int, end: int) -> pa.StructArray:
    """A copy, whose lists begin at their beginning."""
    return body.take(pa.array(range(first, end), pa.int64()))
