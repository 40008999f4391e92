"""The controller: the broker that creates, deletes and assigns. The first broker to claim the role
holds it.

`/controller` is an ephemeral node of the broker with the role; `/controller_epoch` counts
controllers. Every write of a controller checks the epoch's node in the same transaction, so one
that has lost the role unnoticed can write nothing more: it is Fenced.
"""

from collections.abc import Callable, Iterable

import msgspec

from cluster.errors import Conflict, Fenced
from cluster.layout import nodes, paths
from cluster.layout.nodes import ControllerNode, EpochNode
from cluster.session import election
from cluster.session.operations import Check, Create, Operation, Set
from cluster.session.session import Session
from cluster.values import ControllerEpoch


def current_epoch(session: Session) -> ControllerEpoch:
    """The current controller epoch; 0 if the cluster never had a controller."""
    while (node := session.read(paths.CONTROLLER_EPOCH)) is None:
        creation = Create(paths.CONTROLLER_EPOCH, nodes.encode(EpochNode(epoch=0)))
        try:
            session.write([creation], done=lambda: session.exists(paths.CONTROLLER_EPOCH))
        except Conflict:  # created concurrently
            continue
    counter = nodes.decode(paths.CONTROLLER_EPOCH, node.data, EpochNode)
    return ControllerEpoch(counter.epoch, node.version)


class _Controllership(msgspec.Struct, frozen=True):
    """The controller role, in the form that an election takes.

    It does so after registering. So a `/controller` that names its own id in another session is
    left from a killed process of its own.
    """

    broker_id: int

    path = paths.CONTROLLER

    @property
    def claim(self) -> bytes:
        return nodes.encode(ControllerNode(broker_id=self.broker_id))

    def current(self, session: Session) -> ControllerEpoch:
        return current_epoch(session)

    def following(self, epoch: ControllerEpoch) -> tuple[ControllerEpoch, Set]:
        data = nodes.encode(EpochNode(epoch=epoch.epoch + 1))
        next_epoch = ControllerEpoch(epoch.epoch + 1, epoch.version + 1)
        return next_epoch, Set(paths.CONTROLLER_EPOCH, data, epoch.version)

    def is_left_over(self, claim: bytes) -> bool:
        return nodes.decode(self.path, claim, ControllerNode).broker_id == self.broker_id


def elect(session: Session, broker_id: int) -> ControllerEpoch | None:
    """Becomes the controller, or confirms that this session already is. Returns the epoch; None if
    another session is the controller."""
    return election.elect(session, _Controllership(broker_id))


def write_fenced(
    session: Session,
    epoch: ControllerEpoch,
    operations: Iterable[Operation],
    done: Callable[[], bool] | None = None,
) -> None:
    """Performs `session.write` if `epoch` is still the newest one; otherwise raises Fenced."""
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


class ControllerCandidate(election.Candidate[ControllerEpoch]):
    """Stands for election as controller for as long as it is open."""

    def __init__(
        self,
        session: Session,
        broker_id: int,
        on_elected: Callable[[ControllerEpoch], None],
        on_deposed: Callable[[], None],
    ) -> None:
        def run() -> ControllerEpoch | None:
            return elect(session, broker_id)

        super().__init__(session, paths.CONTROLLER, run, on_elected, on_deposed)
