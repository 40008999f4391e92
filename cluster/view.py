"""The shared map, kept current: an immutable snapshot that watches replace.

One thread reads and folds nodes (session/node_follower.py). Many nodes are requested at once and
their answers awaited together, so loading does not cost a round trip per node, and a change
re-reads only the nodes it names.

If ZooKeeper comes back empty, or as another cluster, the last snapshot stays: an emptied map must
not look as if every topic was deleted.
"""

import logging
import time
from collections.abc import Callable, Iterable

from cluster.assembly import DIRECTORIES, ROOTS, Assembly
from cluster.errors import MapMissing, Unavailable
from cluster.layout import paths
from cluster.session.answers import PendingAnswer
from cluster.session.node_follower import PATIENCE_S, NodeFollower
from cluster.session.session import Session
from cluster.values import ClusterSnapshot

OnSnapshot = Callable[[ClusterSnapshot], None]

log = logging.getLogger(__name__)


class ClusterView:
    """The current map. Always holds a snapshot; after `start`, it is kept current."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._snapshot = ClusterSnapshot()
        self._on_change: OnSnapshot | None = None
        self._follower = NodeFollower(session, "the cluster's map", self._follow)
        self._assembly = Assembly()  # this and the next belong to the reading thread
        self._awaited: set[str] = set()  # missing nodes with a watch for their creation

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self._snapshot

    def start(self, on_change: OnSnapshot) -> None:
        """Loads the first snapshot, then follows ZooKeeper. `on_change` gets every changed
        snapshot: the first on this thread, later ones on the view's own."""
        self._on_change = on_change
        self._follower.start()

    def close(self) -> None:
        self._follower.close()

    def wait_for(
        self, predicate: Callable[[ClusterSnapshot], bool], timeout_s: float = PATIENCE_S
    ) -> ClusterSnapshot:
        """Waits until the current snapshot satisfies the predicate, and returns that snapshot."""
        if not self._follower.wait_until(lambda: predicate(self._snapshot), timeout_s):
            raise Unavailable(
                f"the map at {self._session.address} did not reach the expected state "
                f"within {timeout_s:g} s"
            )
        return self._snapshot

    def refresh(self, timeout_s: float = PATIENCE_S) -> ClusterSnapshot:
        """Returns a snapshot that includes everything written before this call."""
        self._follower.refresh(timeout_s)
        return self._snapshot

    def _follow(self, dirty: set[str] | None) -> None:
        if dirty is None or paths.CLUSTER_ID in dirty:
            self._reload()
        else:
            self._awaited -= dirty
            self._read(self._assembly, dirty)
        snapshot = self._assembly.snapshot()
        if snapshot == self._snapshot:
            return
        self._snapshot = snapshot
        if self._on_change is not None and not self._follower.stopping:
            self._on_change(snapshot)

    def _reload(self) -> None:
        start_time = time.monotonic()
        self._awaited = set()
        assembly = Assembly(before=self._snapshot)
        self._read(assembly, ROOTS)
        previous_id, current_id = self._snapshot.cluster_id, assembly.cluster_id
        if previous_id is not None and current_id != previous_id:
            raise MapMissing(
                f"ZooKeeper at {self._session.address} held cluster {previous_id} and now holds "
                f"{current_id or 'none'}: it was wiped or replaced. The last known map stays in "
                "use; `penstock topics recover` rebuilds it"
            )
        self._assembly = assembly
        log.info(
            "cluster map loaded topics=%d seconds=%.3f",
            len(assembly.snapshot().topics),
            time.monotonic() - start_time,
        )

    def _read(self, assembly: Assembly, stale_paths: Iterable[str]) -> None:
        """Reads and folds `stale_paths`, then the nodes that follow from them, level by level."""
        session, watch = self._session, self._follower.note
        deadline = time.monotonic() + session.timeout_s

        def left() -> float:
            return deadline - time.monotonic()

        stale_paths = set(stale_paths)
        while stale_paths:
            list_answers = [
                (path, session.start_children(path, watch)) for path in stale_paths & DIRECTORIES
            ]
            read_answers = [
                (path, session.start_read(path, watch)) for path in stale_paths - DIRECTORIES
            ]
            stale_paths = set()
            for path, names in list_answers:
                children = names.get(left())
                if children is None:
                    raise MapMissing(
                        f"ZooKeeper at {session.address} has no node {path}: it was wiped or "
                        "replaced; `penstock topics recover` rebuilds the map"
                    )
                stale_paths.update(assembly.fold_children(path, children))
            for path, node in read_answers:
                stale_paths.update(assembly.fold_node(path, node.get(left())))
            stale_paths = stale_paths or self._await_missing(assembly, left)

    def _await_missing(self, assembly: Assembly, left: Callable[[], float]) -> set[str]:
        """Watch for missing nodes; returns those that were created meanwhile."""
        missing_paths = set(assembly.missing()) - self._awaited
        self._awaited |= missing_paths
        answers: list[tuple[str, PendingAnswer[bool]]] = [
            (path, self._session.start_exists(path, self._follower.note)) for path in missing_paths
        ]
        return {path for path, answer in answers if answer.get(left())}
