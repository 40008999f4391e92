"""The controller: the one broker that creates, deletes and assigns. Elected by being first.

`/controller` is an ephemeral node of the broker that has the role; `/controller_epoch` counts those
who had it. Both change in one transaction. Whatever a controller writes checks the epoch's node in
the same transaction, so one that lost the role without noticing, after a long pause, say, can write
nothing more: it is Fenced.
"""

import logging
from collections.abc import Callable, Iterable

from kazoo.protocol.states import WatchedEvent

from cluster import nodes, paths
from cluster.errors import Conflict, Fenced
from cluster.nodes import ControllerNode, EpochNode
from cluster.operations import Check, Create, Delete, Operation, Set
from cluster.session import Session, SessionState
from cluster.upkeep import Upkeep
from cluster.values import ControllerEpoch

log = logging.getLogger(__name__)


def current_epoch(session: Session) -> ControllerEpoch:
    """The epoch as it stands, whoever has the role; 0 in a map that never had a controller."""
    while (node := session.read(paths.CONTROLLER_EPOCH)) is None:
        create = Create(paths.CONTROLLER_EPOCH, nodes.encode(EpochNode(epoch=0)))
        try:
            session.write([create], done=lambda: session.exists(paths.CONTROLLER_EPOCH))
        except Conflict:  # somebody else has just created it
            continue
    found = nodes.decode(paths.CONTROLLER_EPOCH, node.data, EpochNode)
    return ControllerEpoch(found.epoch, node.version)


def elect(session: Session, broker_id: int) -> ControllerEpoch | None:
    """Become the controller, or learn that this session is it already; None if another one is.

    A broker calls this once it is registered. So a `/controller` that names its own id, of another
    session, is left from a process of its own that was killed: it is taken over, not waited for.
    """
    while True:
        epoch = current_epoch(session)
        holder = session.read(paths.CONTROLLER)
        if holder is not None and holder.owner == session.session_id:
            return epoch
        claim = nodes.encode(ControllerNode(broker_id=broker_id))
        operations: list[Operation] = []
        if holder is not None:
            if nodes.decode(paths.CONTROLLER, holder.data, ControllerNode).broker_id != broker_id:
                return None
            operations.append(Delete(paths.CONTROLLER))
        won = ControllerEpoch(epoch.epoch + 1, epoch.version + 1)
        counted = nodes.encode(EpochNode(epoch=won.epoch))
        operations += [
            Create(paths.CONTROLLER, claim, ephemeral=True),
            Set(paths.CONTROLLER_EPOCH, counted, epoch.version),
        ]
        try:
            session.write(operations, done=lambda: _holds(session))
        except Conflict:
            continue
        log.info("controller elected broker=%d epoch=%d", broker_id, won.epoch)
        return won


def write_fenced(
    session: Session,
    epoch: ControllerEpoch,
    operations: Iterable[Operation],
    done: Callable[[], bool] | None = None,
) -> None:
    """`session.write`, if `epoch` is still the newest; else Fenced."""
    try:
        session.write([Check(paths.CONTROLLER_EPOCH, epoch.version), *operations], done)
    except Conflict as conflict:
        if conflict.path != paths.CONTROLLER_EPOCH:
            raise
        raise Fenced(
            f"controller epoch {epoch.epoch} is over at {session.address}: another broker has "
            "been elected",
            conflict.path,
            conflict.cause,
        ) from None


class Candidate:
    """Runs for controller for as long as it is open: elected, deposed, elected again.

    `on_elected` and `on_deposed` are called in turn, on the candidate's own thread. A candidate is
    deposed when its session is lost or its node removed; while the connection is merely
    interrupted, it stays what it is, since the fence decides.
    """

    def __init__(
        self,
        session: Session,
        broker_id: int,
        on_elected: Callable[[ControllerEpoch], None],
        on_deposed: Callable[[], None],
    ) -> None:
        self._session = session
        self._broker_id = broker_id
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._epoch: ControllerEpoch | None = None
        self._lost = False  # the session was lost since `_run` last looked
        self._upkeep = Upkeep("controller election", self._run)

    @property
    def epoch(self) -> ControllerEpoch | None:
        """Set while this candidate believes to be the controller."""
        return self._epoch

    def start(self) -> None:
        self._session.add_listener(self._on_state)
        self._upkeep.start()

    def close(self) -> None:
        """Run no more; the role itself ends with the session."""
        self._upkeep.stop()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._lost = True
        if state is not SessionState.SUSPENDED:
            self._upkeep.poke()

    def _on_event(self, _: WatchedEvent) -> None:
        self._upkeep.poke()

    def _run(self) -> None:
        if self._lost:
            self._lost = False
            self._become(None)
        if self._session.state is not SessionState.CONNECTED:
            return  # to be poked when it is
        # The watch comes first: what happens to the node after it is told, what was before is read.
        self._session.start_exists(paths.CONTROLLER, self._on_event).get(self._session.timeout_s)
        self._become(elect(self._session, self._broker_id))

    def _become(self, epoch: ControllerEpoch | None) -> None:
        if self._upkeep.stopping:
            return
        before, self._epoch = self._epoch, epoch
        if before is not None and epoch != before:
            self._on_deposed()
        if epoch is not None and epoch != before:
            self._on_elected(epoch)


def _holds(session: Session) -> bool:
    holder = session.read(paths.CONTROLLER)
    return holder is not None and holder.owner == session.session_id
