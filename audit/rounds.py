"""The one thread that writes: it folds what followers have read, has judged what that touched,
raises and resolves alerts, and lets go of what is too old. Round after round, until it is stopped.

Followers wait while there is something to fold. Nothing of a cluster is judged while its ledger is
read in the middle: what one tier has said is there then, and what another has said is still to
come. Time stands still for a cluster that cannot be read, for the same reason. A kill at any point
leaves a store that is as if the chunk had never been read, or as if it had been folded.
"""

import logging
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from audit.alerting.alerting import Alerting
from audit.figures import figures_of
from audit.following import Handed, ReadTo, Stopped
from audit.inventory import InventoryFile
from audit.judged_hours import DAY, HourVerdict
from audit.judging import Judging
from audit.leaving_out import folded
from audit.service import Posts, Service, now_millis
from audit.store.store import Store
from ledger.reading import Chunk

_CHUNKS: Final = 1  # that wait to be folded: they are large
_IDLE_S: Final = 0.05
_ALERTS_S: Final = 1.0
_INVENTORY_S: Final = 2.0
_EXPIRE_S: Final = 600.0
_FIGURES_S: Final = 5.0
_NEWS_S: Final = 5.0  # what changes no verdict: that an agent was heard, that a run was loaded

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Every:
    """Something that is due so often."""

    seconds: float
    _at: float = field(default=0.0)

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
        store: Store,
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
        self._alerts_due = _Every(_ALERTS_S)
        self._inventory_due = _Every(_INVENTORY_S)
        self._expire_due = _Every(_EXPIRE_S)
        self._figures_due = _Every(_FIGURES_S)
        self._news_due = _Every(_NEWS_S)
        self._folded = False  # since there were news

    def hand_over(self, cluster: str, handed: Handed) -> None:
        """Waits while others wait. Raises Stopped."""
        while not self._ended.is_set():
            try:
                self._queue.put((cluster, handed), timeout=0.5)
            except queue.Full:
                continue
            return
        raise Stopped

    def end(self) -> None:
        """Whoever waits to hand something over does not any more."""
        self._ended.set()

    def run(self, told: threading.Event) -> None:
        """Until it is told to stop. Raises StoreDamaged, StoreError."""
        self._look_at_inventory()
        while not told.is_set():
            self._take()
            changed = False
            if self._all_read() and self._queue.empty():
                changed = self._judge()
            if self._inventory_due.is_due():
                changed |= self._look_at_inventory()
            if self._expire_due.is_due():
                self._expire()
            if self._folded and self._news_due.is_due():
                self._folded = False
                changed = True
            self._service.check_damage()
            if changed:
                self._standing.changed()

    def _take(self) -> None:
        try:
            cluster, handed = self._queue.get(timeout=_IDLE_S)
        except queue.Empty:
            return
        if isinstance(handed, ReadTo):
            self._note_read(cluster, handed)
        else:
            self._fold(cluster, handed)

    def _fold(self, cluster: str, chunk: Chunk) -> None:
        self._amid.add(cluster)
        began = time.monotonic()
        touched = folded(self._store, cluster, chunk)
        self._service.folding.observe(time.monotonic() - began)
        self._judging.touch(touched.hours)
        self._standing.speak_of({key for key, _ in touched.hours})
        if len(chunk.body.field("retired").flatten()):
            self._judging.sweep()  # somebody is not waited for any more, whatever the topic
        self._folded |= touched.entries > 0
        before = self._standing.clusters[cluster]
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
        if self._judging.is_behind(as_of):
            return changed
        for name in as_of:
            if not self._standing.clusters[name].judged:
                self._standing.note(name, judged=True)
                changed = True
        if not self._standing.read_since:
            self._standing.note_all_read(now)
            changed = True
        if self._alerts_due.is_due():
            changed |= self._alerting.judge(self._judging.open_hours, as_of, now)
            self._service.alerts_raised = self._alerting.raised
        if self._figures_due.is_due():
            since = max(as_of.values(), default=now) - DAY
            self._service.figures = figures_of(
                self._judging.said, since=since, is_deleted=self._standing.is_deleted
            )
        self._alerting.tell()
        self._service.posts = Posts(*self._alerting.posts)
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
