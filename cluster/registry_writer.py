"""The election of the one registry that writes a schemas topic, with fencing by the brokers.

`/registry/{topic}/writer` is an ephemeral node of the writer with its address;
`/registry/{topic}/epoch` counts writers and holds the producer id that they share. A writer
produces with that id, and with its own epoch as the producer's epoch: once a newer one has appended
anything, the broker refuses the older.

Kafka's producer epochs have 16 bits. The last one is reserved: when it is reached, the next writer
takes a new producer id, and before its first write it appends with the old id in the last epoch.
From then on, writers with the old id are refused as usual.

If the brokers do not let this registry use the id, it was assigned to another principal, or before
the cluster's key was lost. It cannot be retired, since that requires using it. A registry that
continues to write with it notices the new writer, and the new writer notices it.
"""

from collections.abc import Callable
from typing import Final
from uuid import uuid4

from cluster.errors import Conflict, MapDisagrees
from cluster.layout import nodes, paths
from cluster.layout.nodes import WriterEpochNode, WriterNode
from cluster.session.election import Candidate, elect
from cluster.session.operations import Check, Create, Delete, Set
from cluster.session.session import Session
from cluster.values import WriterEpoch

LAST_PRODUCER_EPOCH: Final = 2**15 - 1


def after(epoch: WriterEpoch, new_producer_id: Callable[[], int]) -> WriterEpoch:
    """Returns the epoch that follows this one, for the next writer."""
    producer_epoch = epoch.producer_epoch + 1
    if producer_epoch < LAST_PRODUCER_EPOCH:
        return WriterEpoch(
            epoch.epoch + 1, epoch.producer_id, producer_epoch, epoch.retired_id, epoch.version + 1
        )
    return WriterEpoch(epoch.epoch + 1, new_producer_id(), 0, epoch.producer_id, epoch.version + 1)


class WriterOffice:
    """The office of writer, for an election.

    `address` is where other registries reach this one. A node with the same address at this
    process's first attempt was left by a killed process; later it belongs to another registry that
    is misconfigured with the same address, and `elect` returns None.
    """

    def __init__(
        self, topic: str, address: str, cluster_id: str, new_producer_id: Callable[[], int]
    ) -> None:
        self.path = paths.registry_writer(topic)
        self._topic = topic
        self._address = address
        self._cluster_id = cluster_id
        self._new_producer_id = new_producer_id
        self._instance = uuid4()
        self._first = True
        self.dropped_id: int | None = None  # an id that the brokers do not let us use
        self.claim = nodes.encode(WriterNode(address=address, instance=self._instance))

    def elect(self, session: Session) -> WriterEpoch | None:
        own_epoch = elect(session, self)
        self._first = False
        return own_epoch

    def holder(self, session: Session) -> WriterNode | None:
        node = session.read(self.path)
        return None if node is None else nodes.decode(self.path, node.data, WriterNode)

    def is_own(self, holder: WriterNode) -> bool:
        return holder.instance == self._instance

    def resign(self, session: Session) -> None:
        """Removes the writer's node if it belongs to this session."""
        epoch = self.current(session)
        node = session.read(self.path)
        if node is None or node.owner != session.session_id:
            return
        # If another one is elected meanwhile, its node of the same name stays.
        epoch_check = Check(paths.registry_epoch(self._topic), epoch.version)
        try:
            session.write(
                [epoch_check, Delete(self.path)], done=lambda: not session.exists(self.path)
            )
        except Conflict:
            return

    def current(self, session: Session) -> WriterEpoch:
        """Returns the current epoch. Raises MapDisagrees if the counter belongs to a topic of
        another Kafka cluster."""
        path = paths.registry_epoch(self._topic)
        while (node := session.read(path)) is None:
            self._begin(session, path)
        counter = nodes.decode(path, node.data, WriterEpochNode)
        if counter.cluster_id != self._cluster_id:
            raise MapDisagrees(
                f"ZooKeeper at {session.address} has the registries of {self._topic} in Kafka "
                f"cluster {counter.cluster_id}, this one's is {self._cluster_id}: give each "
                "cluster a chroot of its own"
            )
        return WriterEpoch(
            counter.epoch,
            counter.producer_id,
            counter.producer_epoch,
            counter.retired_id,
            node.version,
        )

    def following(self, epoch: WriterEpoch) -> tuple[WriterEpoch, Set]:
        if epoch.producer_id == self.dropped_id:
            next_epoch = WriterEpoch(
                epoch.epoch + 1, self._new_producer_id(), 0, None, epoch.version + 1
            )
        else:
            next_epoch = after(epoch, self._new_producer_id)
        epoch_node = WriterEpochNode(
            cluster_id=self._cluster_id,
            epoch=next_epoch.epoch,
            producer_id=next_epoch.producer_id,
            producer_epoch=next_epoch.producer_epoch,
            retired_id=next_epoch.retired_id,
        )
        return next_epoch, Set(
            paths.registry_epoch(self._topic), nodes.encode(epoch_node), epoch.version
        )

    def is_left_over(self, claim: bytes) -> bool:
        holder = nodes.decode(self.path, claim, WriterNode)
        return self.is_own(holder) or (self._first and holder.address == self._address)

    def _begin(self, session: Session, path: str) -> None:
        first = WriterEpochNode(
            cluster_id=self._cluster_id,
            epoch=0,
            producer_id=self._new_producer_id(),
            producer_epoch=0,
            retired_id=None,
        )
        parents = (paths.REGISTRIES, paths.registry(self._topic))
        creations = [Create(parent) for parent in parents if not session.exists(parent)]
        try:
            session.write([*creations, Create(path, nodes.encode(first))], done=lambda: False)
        except Conflict:
            return  # created concurrently


class WriterCandidate(Candidate[WriterEpoch]):
    """Stands for election as writer, except between `stand_back` and `stand`, and reports each
    change of the writer.

    `on_holder` is called on the candidate's own thread, with None while there is no known writer.
    """

    def __init__(
        self,
        session: Session,
        office: WriterOffice,
        *,
        on_elected: Callable[[WriterEpoch], None],
        on_deposed: Callable[[], None],
        on_holder: Callable[[WriterNode | None], None],
    ) -> None:
        self._office = office
        self._standing = True
        self._on_holder = on_holder
        super().__init__(session, office.path, self._attempt, on_elected, on_deposed)

    def stand_back(self) -> None:
        """Resigns and lets others be elected. Returns immediately."""
        self._standing = False
        self.poke()

    def stand(self) -> None:
        self._standing = True
        self.poke()

    def _attempt(self) -> WriterEpoch | None:
        epoch = None
        if self._standing:
            epoch = self._office.elect(self._session)
        else:
            self._office.resign(self._session)
        self._on_holder(self._office.holder(self._session))
        return epoch
