"""The writer thread. In rounds until it is stopped, it folds the chunks that followers have read,
has changed hours judged, raises and resolves alerts, and expires old data.

Followers wait while a chunk is folded. A cluster is not judged while its ledger is read only in
part: some tiers' reports are there then, and others' are not. Other clusters wait for it only a
moment. For the same reason time stands still for a cluster that cannot be read. A kill at any point
leaves a store in which a chunk is folded completely or not at all.

An unforeseen entry must not block all others, nor fail again after each restart. So a chunk that
cannot be folded is split into halves, and these again, down to the entry that fails: it is left
out, counted and logged. Only then are the positions after the chunk kept. A kill before that
repeats all of it, which changes nothing. Failures of the database itself (a full disk, damage) are
raised instead.
"""

import logging
import queue
import threading
import time
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from audit.alerting.alerting import Alerting
from audit.configuration.enrolled_keys import KeysFolder
from audit.configuration.inventory import InventoryFile
from audit.errors import AuditStoreError, TooLargeToStore
from audit.service.judge import Judge
from audit.service.ledger_follower import FollowerStopped, Handed, ReadTo
from audit.service.measurements import Measurements
from audit.service.service import Service, now_millis
from audit.store.judged_hours import DAY, HourVerdict, figures_of
from audit.store.rows import Touched
from audit.store.store import AuditStore
from ledger.reading import LedgerChunk, LedgerPositions

_CHUNKS: Final = 1  # waiting to be folded: they are large
_AT_WORK_S: Final = 0.05  # to wait for a chunk while hours are due
_AT_REST_S: Final = 0.25  # to wait for a chunk otherwise
_ALERTS_S: Final = 1.0
_INVENTORY_S: Final = 2.0
_MEASURING_S: Final = 1.0
_EXPIRE_S: Final = 600.0
_FIGURES_S: Final = 5.0
_OTHERS_S: Final = 2.0  # between judgements while a ledger takes long to be read
_NEWS_S: Final = 5.0  # between updates that change no verdict: an agent was heard, a run loaded

log = logging.getLogger(__name__)


class _Every(msgspec.Struct):
    """A task that becomes due at intervals."""

    seconds: float
    _at: float = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._at:
            return False
        self._at = now + self.seconds
        return True


class Writer:
    """The rounds of the writer thread. Other threads call only `hand_over`."""

    def __init__(
        self,
        service: Service,
        store: AuditStore,
        judge: Judge,
        alerting: Alerting,
        *,
        inventory: InventoryFile | None = None,
        keys: KeysFolder | None = None,
    ) -> None:
        self._service = service
        self._standing = service.standing
        self._store = store
        self._judge = judge
        self._alerting = alerting
        self._inventory = inventory
        self._keys = keys
        self._queue: queue.Queue[tuple[str, Handed]] = queue.Queue(_CHUNKS)
        self._ended = threading.Event()
        self._amid: set[str] = set()  # clusters whose ledger is read only in part
        self._measurements = Measurements(service, store)
        self._measuring_due = _Every(_MEASURING_S)
        self._alerts_due = _Every(_ALERTS_S)
        self._inventory_due = _Every(_INVENTORY_S)
        self._expire_due = _Every(_EXPIRE_S)
        self._figures_due = _Every(_FIGURES_S)
        self._news_due = _Every(_NEWS_S)
        self._others_due = _Every(_OTHERS_S)
        self._folded = False  # since the last update
        self._is_behind = True  # in judging

    def hand_over(self, cluster: str, handed: Handed) -> None:
        """Hands a chunk to the writer, waiting until the queue has room. Raises FollowerStopped."""
        while not self._ended.is_set():
            try:
                self._queue.put((cluster, handed), timeout=0.5)
            except queue.Full:
                continue
            return
        raise FollowerStopped

    def end(self) -> None:
        """Releases followers that are waiting to hand over a chunk."""
        self._ended.set()

    def run(self, stopping: threading.Event) -> None:
        """Runs rounds until stopped. Raises StoreDamaged, AuditStoreError."""
        self._look_at_inventory()
        self._standing.retired = self._service.reading.retired()
        while not stopping.is_set():
            self._take(_AT_WORK_S if self._is_behind else _AT_REST_S)
            has_changes = False
            if (self._all_read() and self._queue.empty()) or self._others_due.is_due():
                has_changes = self._judge_due()
            if self._inventory_due.is_due():
                has_changes |= self._look_at_inventory()
                self._look_at_keys()
            if self._measuring_due.is_due():
                self._measurements.take()
            if self._expire_due.is_due():
                self._expire()
            if self._folded and self._news_due.is_due():
                self._folded = False
                has_changes = True
            self._service.check_damage()
            if has_changes:
                self._standing.changed()

    def _take(self, seconds: float) -> None:
        try:
            cluster, item = self._queue.get(timeout=seconds)
        except queue.Empty:
            self._store.commit()
            return
        if isinstance(item, ReadTo):
            self._note_read(cluster, item)
        else:
            self._fold(cluster, item)

    def _fold(self, cluster: str, chunk: LedgerChunk) -> None:
        self._amid.add(cluster)
        if not chunk.to_come:  # a key may be enrolled just before its first entry
            self._look_at_keys()
        start = time.monotonic()
        touched_hours = folded(self._store, cluster, chunk)
        self._service.folding.observe(time.monotonic() - start)
        self._judge.touch(touched_hours.hours)
        self._standing.note_reported({key for key, _ in touched_hours.hours})
        if len(chunk.body.field("retired").flatten()):
            self._judge.sweep()  # a retired host may affect any topic
        if self._standing.retired or len(chunk.body.field("accepted").flatten()):
            self._standing.retired = self._service.reading.retired()
        self._folded |= touched_hours.entries > 0
        former_state = self._standing.clusters[cluster]
        if former_state.read and not chunk.to_come:
            self._standing.clocks.note(cluster, chunk.body, now_millis())
        self._standing.note(
            cluster,
            behind=chunk.to_come,
            entries=former_state.entries + touched_hours.entries,
            repeated=former_state.repeated + touched_hours.repeated,
            left_out=former_state.left_out + chunk.left_out + touched_hours.left_out,
            gaps=former_state.gaps + chunk.gap,
        )

    def _note_read(self, cluster: str, read: ReadTo) -> None:
        is_first = not self._standing.clusters[cluster].read
        self._amid.discard(cluster)
        self._standing.note(cluster, read=True, as_of=read.time, behind=0)
        if is_first:
            log.info("ledger read to its end cluster=%s", cluster)

    def _all_read(self) -> bool:
        """Whether every reachable ledger is read to its end."""
        clusters = self._standing.clusters
        return all(
            cluster.unreachable or (cluster.read and name not in self._amid)
            for name, cluster in clusters.items()
        )

    def _judge_due(self) -> bool:
        self._store.commit()
        now = now_millis()
        as_of = {
            name: cluster.as_of
            for name, cluster in self._standing.clusters.items()
            if cluster.read and name not in self._amid and self._knows_deleted(name)
        }
        has_changes = self._judge.judge(as_of, self._keep)
        if self._standing.unjudged != self._judge.failing:
            self._standing.unjudged = self._judge.failing
            has_changes = True
        self._is_behind = self._judge.is_behind(as_of)
        if self._is_behind:
            return has_changes
        for name in as_of:
            if not self._standing.clusters[name].judged:
                self._standing.note(name, judged=True)
                has_changes = True
        if not self._standing.read_since and self._all_read():
            self._standing.note_all_read(now)
            has_changes = True
        if self._alerts_due.is_due():
            has_changes |= self._alerting.judge(self._judge.open_hours, as_of, now)
            self._service.alerts_raised = self._alerting.raised
            self._service.alerts_waiting = self._alerting.waiting
            self._service.alert_groups = self._alerting.groups
            self._service.alert_conditions = self._alerting.conditions
            self._service.alerts_ending = self._alerting.ending
        if self._figures_due.is_due():
            since = max(as_of.values(), default=now) - DAY
            self._service.figures = figures_of(
                self._judge.verdicts, since=since, is_deleted=self._standing.is_deleted
            )
            self._service.done_until = self._done_until(as_of)
        return has_changes

    def _done_until(self, as_of: Mapping[str, int]) -> dict[str, int]:
        """Returns the time up to which each cluster's agents have shipped everything, or, without
        agents, all that was written must have been reported."""
        config = self._service.config
        heard_since = max(as_of.values(), default=0) - int(config.expected * 1000)
        done_until = self._service.reading.agents_done(as_of, heard_since)
        transit_millis = (config.window + int(config.grace)) * 1000
        return {
            name: min(time, done_until.get(name, time - transit_millis))
            for name, time in as_of.items()
        }

    def _knows_deleted(self, name: str) -> bool:
        """Whether it is known which of the cluster's topics were deleted. After a start, nothing is
        judged before that: lines that were lost with a topic would be pending again."""
        cluster = self._standing.clusters[name]
        if cluster.judged or cluster.unreachable:
            return True
        self._standing.those_there(self._service.reading.topics())
        return not self._standing.has_unasked(name)

    def _keep(self, hours: list[HourVerdict]) -> None:
        self._store.judged([verdict.judged for verdict in hours])

    def _look_at_inventory(self) -> bool:
        if self._inventory is None:
            return False
        hosts = self._inventory.changed()
        has_changed = self._standing.inventory != self._inventory.problem
        self._standing.inventory = self._inventory.problem
        if hosts is None:
            return has_changed
        self._store.set_inventory(hosts, now_millis())
        self._judge.sweep()
        return True

    def _look_at_keys(self) -> None:
        keys = None if self._keys is None else self._keys.changed()
        if keys is not None:
            self._store.policy = replace(self._store.policy, trust=keys)

    def _expire(self) -> None:
        now = now_millis()
        count = self._store.expire(now)
        self._judge.forget_before(now - int(self._service.config.retention * 1000))
        if count:
            log.info("old data deleted rows=%d", count)


_MOST_NAMED: Final = 10  # entries of a chunk, in the log


class Folds(Protocol):
    """The methods of AuditStore that fold entries."""

    def positions(self, cluster: str) -> LedgerPositions: ...

    def fold(
        self,
        cluster: str,
        body: pa.StructArray,
        positions: LedgerPositions,
        proofs: pa.StructArray | None = None,
        *,
        is_behind: bool = False,
    ) -> Touched: ...


def folded(store: Folds, cluster: str, chunk: LedgerChunk) -> Touched:
    """Folds as much of a chunk as possible. Raises AuditStoreError; then a part may have been
    folded, and is read again."""
    try:
        return store.fold(
            *(cluster, chunk.body, chunk.positions, chunk.proofs), is_behind=chunk.to_come > 0
        )
    except Exception as error:
        if not _is_of_entries(error):
            raise
        log.exception("cannot fold a chunk, trying it in pieces cluster=%s", cluster)
    pieces = _Pieces(store, cluster, chunk)
    touched_hours = pieces.fold(0, len(chunk.body)) if len(chunk.body) else Touched(set())
    store.fold(cluster, _part(chunk.body, 0, 0), chunk.positions)
    log.error(
        "entries skipped because they cannot be folded cluster=%s entries=%d",
        cluster,
        pieces.left_out,
    )
    return touched_hours._replace(left_out=touched_hours.left_out + pieces.left_out)


class _Pieces:
    """Folds pieces of a chunk without advancing the positions."""

    def __init__(self, store: Folds, cluster: str, chunk: LedgerChunk) -> None:
        self._store = store
        self._cluster = cluster
        self._chunk = chunk
        self._at = store.positions(cluster)
        self.left_out = 0

    def fold(self, first: int, end: int) -> Touched:
        middle = (first + end) // 2
        if middle == first:
            return self._one(first)
        parts = ((first, middle), (middle, end))
        first_hours, second_hours = (self._whole(*part) or self.fold(*part) for part in parts)
        return Touched(
            first_hours.hours | second_hours.hours,
            first_hours.entries + second_hours.entries,
            first_hours.repeated + second_hours.repeated,
            first_hours.left_out + second_hours.left_out,
        )

    def _whole(self, first: int, end: int) -> Touched | None:
        """Folds a piece as a whole; None if any of it cannot be folded."""
        proofs = self._chunk.proofs
        try:
            return self._store.fold(
                self._cluster,
                _part(self._chunk.body, first, end),
                self._at,
                None if proofs is None else _part(proofs, first, end),
            )
        except Exception as error:
            if not _is_of_entries(error):
                raise
            return None

    def _one(self, place: int) -> Touched:
        if (touched_hours := self._whole(place, place + 1)) is not None:
            return touched_hours
        self.left_out += 1
        if self.left_out <= _MOST_NAMED:
            header = self._chunk.body.field("header")
            log.error(
                "entry skipped cluster=%s journal=%.200r seq=%d",
                self._cluster,
                header.field("source")[place].as_py(),
                header.field("seq")[place].as_py(),
            )
        return Touched(set())


def _is_of_entries(error: Exception) -> bool:
    """Whether the error is about entries, so that others can be folded, and not the database."""
    return isinstance(error, TooLargeToStore) or not isinstance(error, AuditStoreError)


def _part(body: pa.StructArray, first: int, end: int) -> pa.StructArray:
    """Copies a slice, so that its lists begin at offset 0."""
    return body.take(pa.array(range(first, end), pa.int64()))
