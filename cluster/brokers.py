"""Brokers register as ephemeral nodes: a broker is alive as long as its node is there.

Two live brokers never share an id. A node that is in the way may also be left from this broker's
own earlier process, killed so recently that its session has not ended. It is told apart by its data
directory, which a broker locks: a node that names our directory's id and its place is surely dead
and is replaced at once. With the same directory id at another place, it is this broker moved (a new
container, say) or a copied directory: the node gets a session's time to go. Any other is another
broker's.

Which data directory a broker had last stays known by its id (`/brokers/directories/{broker}`). One
that comes back with another has none of its logs: its disk was replaced, is not mounted, or
somebody has emptied it. The map alone can tell that from a broker that is new.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from kazoo.protocol.states import WatchedEvent

from cluster import nodes, paths
from cluster.errors import BrokerIdTaken, Cause, Conflict, MapMissing
from cluster.nodes import BrokerNode, DirectoryNode
from cluster.operations import Create, Delete, Node, Operation, Set
from cluster.session import Session, SessionState
from cluster.upkeep import Upkeep
from cluster.values import BrokerInfo

_EXPIRY_SLACK_S: Final = 4.0  # ZooKeeper ends sessions in steps of its tick, 2 s by default

log = logging.getLogger(__name__)


def register(session: Session, info: BrokerInfo) -> None:
    """Put the broker into the map, for as long as the session lives."""
    give_up = time.monotonic() + session.timeout_s + _EXPIRY_SLACK_S
    while True:
        existing = session.read(paths.broker(info.broker_id))
        if existing is not None and existing.owner == session.session_id:
            return
        operations: list[Operation] = []
        if existing is not None:
            found = _read(info.broker_id, existing)
            if not _is_certainly_ours(found, info):
                _wait_for_ghost(session, info, found, give_up)
                continue
            operations = [Delete(paths.broker(info.broker_id), existing.version)]
        if session.exists(paths.draining(info.broker_id)):  # its earlier process was to stop
            operations.append(Delete(paths.draining(info.broker_id)))
        if _create(session, info, operations):
            log.info(
                "broker registered id=%d host=%s port=%d", info.broker_id, info.host, info.port
            )
            return


def registered(session: Session, broker_id: int) -> BrokerInfo | None:
    """The live broker of this id."""
    node = session.read(paths.broker(broker_id))
    return None if node is None else _read(broker_id, node)


class Registration:
    """Keeps a broker registered: in the next session when one was lost, and if its node is removed.

    `on_taken` is called, on a thread of its own, if another broker took the id meanwhile. This one
    must stop then, and nothing more is tried.
    """

    def __init__(
        self, session: Session, info: BrokerInfo, on_taken: Callable[[BrokerIdTaken], None]
    ) -> None:
        self._session = session
        self._info = info
        self._on_taken = on_taken
        self._upkeep = Upkeep("broker registration", self._ensure)

    def start(self) -> None:
        """Register on this thread, so that what is in the way is raised here; then keep at it."""
        register(self._session, self._info)
        self._session.add_listener(self._on_state)
        self._upkeep.start()

    def close(self) -> None:
        """Stop keeping it; the node goes when the session is closed."""
        self._upkeep.stop()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._upkeep.poke()

    def _on_event(self, _: WatchedEvent) -> None:
        self._upkeep.poke()

    def _ensure(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return  # to be poked when it is
        # The watch comes first: what happens to the node after it is told, what was before is read.
        path = paths.broker(self._info.broker_id)
        self._session.start_exists(path, self._on_event).get(self._session.timeout_s)
        try:
            register(self._session, self._info)
        except BrokerIdTaken as taken:
            if not self._upkeep.stopping:
                self._upkeep.stop()
                self._on_taken(taken)


def last_directory(session: Session, broker_id: int) -> UUID | None:
    """The data directory that it had last; None if the map knows of none: the broker is new, or of
    a release that did not say so."""
    path = paths.data_directory(broker_id)
    node = session.read(path)
    return None if node is None else nodes.decode(path, node.data, DirectoryNode).directory_id


def note_directory(session: Session, broker_id: int, directory_id: UUID) -> None:
    """This is the data directory that it has now: to be noted once a broker has opened all its
    logs, so that a start that was cut short is made good."""
    path, data = (
        paths.data_directory(broker_id),
        nodes.encode(DirectoryNode(directory_id=directory_id)),
    )
    while last_directory(session, broker_id) != directory_id:
        operation: Operation = Set(path, data) if session.exists(path) else Create(path, data)
        try:
            session.write([operation], done=partial(_is_noted, session, broker_id, directory_id))
        except Conflict:
            continue


def _is_noted(session: Session, broker_id: int, directory_id: UUID) -> bool:
    return last_directory(session, broker_id) == directory_id


def _create(session: Session, info: BrokerInfo, before: list[Operation]) -> bool:
    """Create the node; False if the map changed under us and is to be looked at again."""
    path = paths.broker(info.broker_id)
    data = nodes.encode(nodes.broker_node(info))

    def done() -> bool:
        node = session.read(path)
        return node is not None and node.data == data and node.owner == session.session_id

    try:
        session.write([*before, Create(path, data, ephemeral=True)], done)
    except Conflict as conflict:
        if conflict.cause is Cause.MISSING and not session.exists(paths.BROKER_IDS):
            raise MapMissing(
                f"ZooKeeper at {session.address} has no node {paths.BROKER_IDS}: it was wiped or "
                "replaced; `penstock topics recover` rebuilds the map"
            ) from None
        return False
    return True


def _is_certainly_ours(found: BrokerInfo, info: BrokerInfo) -> bool:
    return found.directory_id == info.directory_id and found.location == info.location


def _wait_for_ghost(session: Session, info: BrokerInfo, found: BrokerInfo, give_up: float) -> None:
    """Wait until the node goes, if that can be hoped for; else raise BrokerIdTaken."""
    left = give_up - time.monotonic()
    if found.directory_id == info.directory_id and left > 0:
        log.info("waiting for the registration of an earlier process to end id=%d", info.broker_id)
        gone = threading.Event()
        path = paths.broker(info.broker_id)
        if not session.start_exists(path, lambda _: gone.set()).get(left) or gone.wait(left):
            return
    raise id_taken(found, session)


def id_taken(found: BrokerInfo, session: Session) -> BrokerIdTaken:
    """Another broker is registered, with an id that is its own."""
    started = datetime.fromtimestamp(found.started_ms / 1000, UTC).isoformat(timespec="seconds")
    return BrokerIdTaken(
        f"broker id {found.broker_id} is taken: a broker at {found.host}:{found.port}, "
        f"started {started}, data directory {found.location}, has registered with it at "
        f"{session.address}. Give this broker another `id`, or stop that one; if it was killed, it "
        "counts as there for `zookeeper_session_seconds`, so start this one again after that",
        found,
    )


def _read(broker_id: int, node: Node) -> BrokerInfo:
    path = paths.broker(broker_id)
    return nodes.broker_info(broker_id, nodes.decode(path, node.data, BrokerNode))
