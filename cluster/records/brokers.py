"""Registration of brokers as ephemeral nodes: a broker is alive while its node exists.

Two live brokers never share an id. An existing node may be left from an earlier process of this
broker, killed so recently that its session has not ended. The data directory, which a broker locks,
tells them apart: a node with our directory's id and location is certainly dead, and is replaced at
once. With the same directory id at another location, it is this broker after a move (a new
container, say) or a copied directory: the node gets a session's time to go. Any other node is
another broker's.

The last data directory of a broker is recorded under its id (`/brokers/directories/{broker}`). A
broker that returns with another one has none of its logs: its disk was replaced, is not mounted, or
was emptied. Only the map can distinguish that from a new broker.
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

from cluster.errors import BrokerIdTaken, Cause, Conflict, MapMissing
from cluster.layout import nodes, paths
from cluster.layout.nodes import BrokerNode, DirectoryNode
from cluster.session.operations import Create, Delete, Node, Operation, Set
from cluster.session.session import Session, SessionState
from cluster.session.upkeep import Upkeep
from cluster.values import BrokerInfo

_EXPIRY_SLACK_S: Final = 4.0  # ZooKeeper ends sessions at multiples of its tick, 2 s by default

log = logging.getLogger(__name__)


def register(session: Session, info: BrokerInfo) -> None:
    """Adds the broker to the map for as long as the session lives."""
    give_up_time = time.monotonic() + session.timeout_s + _EXPIRY_SLACK_S
    while True:
        node = session.read(paths.broker(info.broker_id))
        if node is not None and node.owner == session.session_id:
            return
        operations: list[Operation] = []
        if node is not None:
            other_broker = _read(info.broker_id, node)
            if not _is_certainly_ours(other_broker, info):
                _wait_for_ghost(session, info, other_broker, give_up_time)
                continue
            operations = [Delete(paths.broker(info.broker_id), node.version)]
        if session.exists(paths.draining(info.broker_id)):  # left by its earlier process
            operations.append(Delete(paths.draining(info.broker_id)))
        if _create(session, info, operations):
            log.info(
                "broker registered id=%d host=%s port=%d", info.broker_id, info.host, info.port
            )
            return


def registered(session: Session, broker_id: int) -> BrokerInfo | None:
    """Returns the registration of the broker with this id; None if it is not alive."""
    node = session.read(paths.broker(broker_id))
    return None if node is None else _read(broker_id, node)


class Registration:
    """Keeps a broker registered: registers it again after a lost session, or if its node is
    removed.

    `on_taken` is called, on a thread of its own, if another broker took the id meanwhile. This
    broker must then stop; registration is not retried.
    """

    def __init__(
        self, session: Session, info: BrokerInfo, on_taken: Callable[[BrokerIdTaken], None]
    ) -> None:
        self._session = session
        self._info = info
        self._on_taken = on_taken
        self._upkeep = Upkeep("broker registration", self._ensure)

    def start(self) -> None:
        """Registers on this thread, so that errors are raised here; then keeps the registration."""
        register(self._session, self._info)
        self._session.add_listener(self._on_state)
        self._upkeep.start()

    def close(self) -> None:
        """Stops keeping the registration; the node is removed when the session closes."""
        self._upkeep.stop()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._upkeep.poke()

    def _on_event(self, _: WatchedEvent) -> None:
        self._upkeep.poke()

    def _ensure(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return  # poked again when connected
        # Watch first: later changes trigger the watch, earlier ones are read.
        path = paths.broker(self._info.broker_id)
        self._session.start_exists(path, self._on_event).get(self._session.timeout_s)
        try:
            register(self._session, self._info)
        except BrokerIdTaken as taken:
            if not self._upkeep.stopping:
                self._upkeep.stop()
                self._on_taken(taken)


def last_directory(session: Session, broker_id: int) -> UUID | None:
    """Returns the broker's last data directory; None if the broker is new or its release did not
    record one."""
    path = paths.data_directory(broker_id)
    node = session.read(path)
    return None if node is None else nodes.decode(path, node.data, DirectoryNode).directory_id


def note_directory(session: Session, broker_id: int, directory_id: UUID) -> None:
    """Records the broker's data directory. Called only once all its logs are open, so that the next
    start completes an interrupted one."""
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
    """Create the node; False if the map changed concurrently and must be read again."""
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


def _is_certainly_ours(existing: BrokerInfo, info: BrokerInfo) -> bool:
    return existing.directory_id == info.directory_id and existing.location == info.location


def _wait_for_ghost(
    session: Session, info: BrokerInfo, existing: BrokerInfo, give_up_time: float
) -> None:
    """Wait for the node to go, if that can be expected; otherwise raise BrokerIdTaken."""
    remaining_s = give_up_time - time.monotonic()
    if existing.directory_id == info.directory_id and remaining_s > 0:
        log.info(
            "waiting for the registration of an earlier process to expire id=%d", info.broker_id
        )
        removal_event = threading.Event()
        path = paths.broker(info.broker_id)
        if not session.start_exists(path, lambda _: removal_event.set()).get(
            remaining_s
        ) or removal_event.wait(remaining_s):
            return
    raise id_taken(existing, session)


def id_taken(existing: BrokerInfo, session: Session) -> BrokerIdTaken:
    """Returns the error for another registered broker with the same id."""
    start_time = datetime.fromtimestamp(existing.started_ms / 1000, UTC).isoformat(
        timespec="seconds"
    )
    return BrokerIdTaken(
        f"broker id {existing.broker_id} is taken: a broker at {existing.host}:{existing.port}, "
        f"started {start_time}, data directory {existing.location}, is registered with it at "
        f"{session.address}. Give this broker another `id`, or stop that one; if it was killed, "
        "its registration expires after `zookeeper_session_seconds`: start this one again then",
        existing,
    )


def _read(broker_id: int, node: Node) -> BrokerInfo:
    path = paths.broker(broker_id)
    return nodes.broker_info(broker_id, nodes.decode(path, node.data, BrokerNode))
