"""The shared map, kept current: an immutable snapshot that watches replace.

One thread reads and folds; kazoo's callbacks only note what has changed and wake it. Many nodes
are asked for at once and their answers awaited together, so loading costs no round trip per node,
and a change re-reads the nodes it names and no others. After a lost connection everything is read
anew, since watches are gone with it; until that is done, the last snapshot stands.

If ZooKeeper comes back empty, or as another cluster, the last snapshot stands too: an emptied map
must not look like every topic deleted.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from kazoo.protocol.states import EventType, WatchedEvent

from cluster import paths
from cluster.answers import PendingAnswer
from cluster.assembly import DIRECTORIES, ROOTS, Assembly
from cluster.errors import MapMissing, Unavailable
from cluster.session import Session, SessionState
from cluster.upkeep import Upkeep
from cluster.values import ClusterSnapshot

OnSnapshot = Callable[[ClusterSnapshot], None]

log = logging.getLogger(__name__)


class ClusterView:
    """Always holds a snapshot; from `start` on, it follows ZooKeeper."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._snapshot = ClusterSnapshot()
        self._on_change: OnSnapshot | None = None
        self._upkeep = Upkeep("cluster view", self._follow)
        self._assembly = Assembly()  # of the upkeep's thread alone, once that runs
        self._awaited: set[str] = set()  # nodes that are not there, with a watch for their coming
        self._changed = threading.Condition()  # guards what follows
        self._dirty: set[str] = set()
        self._stale = True  # watches are lost: read everything
        self._begun = 0
        self._completed = 0

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self._snapshot

    def start(self, on_change: OnSnapshot) -> None:
        """Load the first snapshot, then follow. `on_change` gets every snapshot that differs from
        the one before: the first on this thread, later ones on the view's own."""
        self._on_change = on_change
        self._session.add_listener(self._on_state)
        self._follow()
        if self._completed == 0:
            raise Unavailable(f"the connection to {self._session.address} broke during the start")
        self._upkeep.start()

    def close(self) -> None:
        self._upkeep.stop()

    def wait_for(
        self, predicate: Callable[[ClusterSnapshot], bool], timeout_s: float = 10.0
    ) -> ClusterSnapshot:
        """The first snapshot, the present one included, that the predicate holds for."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self._snapshot), timeout_s):
                raise Unavailable(
                    f"the map at {self._session.address} did not become what was waited for "
                    f"within {timeout_s:g} s"
                )
            return self._snapshot

    def refresh(self, timeout_s: float = 10.0) -> ClusterSnapshot:
        """A snapshot that holds all that anyone had written before this call."""
        self._session.sync()
        with self._changed:
            target = self._begun + 1
            self._upkeep.poke()
            if not self._changed.wait_for(lambda: self._completed >= target, timeout_s):
                raise Unavailable(
                    f"the map at {self._session.address} could not be read within {timeout_s:g} s"
                )
            return self._snapshot

    # Noting what has changed: on threads of kazoo's

    def _on_state(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            with self._changed:
                self._stale = True
        else:
            self._upkeep.poke()

    def _on_event(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # else: the session's state, which `_on_state` has too
            with self._changed:
                self._dirty.add(event.path)
            self._upkeep.poke()

    # Reading it: on the view's thread

    def _follow(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return  # to be poked when it is
        with self._changed:
            self._begun += 1
            begun, stale = self._begun, self._stale
            dirty, self._dirty = self._dirty, set()
            self._stale = False
        try:
            if not stale and paths.CLUSTER_ID not in dirty:
                self._awaited -= dirty
                self._read(self._assembly, dirty)
            else:
                self._reload()
        except BaseException:
            with self._changed:
                self._stale = True
            raise
        self._publish(self._assembly.snapshot(), begun)

    def _reload(self) -> None:
        started = time.monotonic()
        self._awaited = set()
        assembly = Assembly(before=self._snapshot)
        self._read(assembly, ROOTS)
        known, found = self._snapshot.cluster_id, assembly.cluster_id
        if known is not None and found != known:
            raise MapMissing(
                f"ZooKeeper at {self._session.address} held cluster {known} and now holds "
                f"{found or 'none'}: it was wiped or replaced. The last known map stays in use; "
                "`penstock topics recover` rebuilds it"
            )
        self._assembly = assembly
        log.info(
            "cluster map loaded topics=%d seconds=%.3f",
            len(assembly.snapshot().topics),
            time.monotonic() - started,
        )

    def _read(self, assembly: Assembly, wanted: Iterable[str]) -> None:
        """Read and fold `wanted` and all that follows from it, a generation at a time."""
        session, deadline = self._session, time.monotonic() + self._session.timeout_s

        def left() -> float:
            return deadline - time.monotonic()

        wanted = set(wanted)
        while wanted:
            lists = [
                (path, session.start_children(path, self._on_event))
                for path in wanted & DIRECTORIES
            ]
            reads = [
                (path, session.start_read(path, self._on_event)) for path in wanted - DIRECTORIES
            ]
            wanted = set()
            for path, names in lists:
                children = names.get(left())
                if children is None:
                    raise MapMissing(
                        f"ZooKeeper at {session.address} has no node {path}: it was wiped or "
                        "replaced; `penstock topics recover` rebuilds the map"
                    )
                wanted.update(assembly.fold_children(path, children))
            for path, node in reads:
                wanted.update(assembly.fold_node(path, node.get(left())))
            wanted = wanted or self._await_missing(assembly, left)

    def _await_missing(self, assembly: Assembly, left: Callable[[], float]) -> set[str]:
        """Watch for nodes that are not there; those that have come meanwhile are to be read."""
        missing = set(assembly.missing()) - self._awaited
        self._awaited |= missing
        pending: list[tuple[str, PendingAnswer[bool]]] = [
            (path, self._session.start_exists(path, self._on_event)) for path in missing
        ]
        return {path for path, found in pending if found.get(left())}

    def _publish(self, snapshot: ClusterSnapshot, begun: int) -> None:
        with self._changed:
            differs = snapshot != self._snapshot
            if differs:
                self._snapshot = snapshot
            self._completed = begun
            self._changed.notify_all()
        if differs and self._on_change is not None and not self._upkeep.stopping:
            self._on_change(snapshot)
