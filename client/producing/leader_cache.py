"""The partition leaders that a producer knows, and the times to ask for the missing ones. Pure.

Only partitions that have something to send and no known leader are asked about, all in one request,
which is repeated after a pause while some have none. A leader is forgotten at any sign against it:
an error code or a broken connection.
"""

from collections.abc import Callable, Sequence

from client.connection.addresses import Address
from client.connection.metadata import ClusterMetadata
from client.errors import ClientError, ErrorCode, NotReachable, Refused
from client.patience import NEVER, Pauses
from client.producing.delivery import TopicPartition
from wire.acls import Operation

Shuffle = Callable[[Sequence[Address]], Sequence[Address]]


class LeaderCache:
    """The known leaders by partition, and the brokers to ask for missing ones."""

    def __init__(self, bootstrap: Sequence[Address], pauses: Pauses, shuffle: Shuffle) -> None:
        self._bootstrap = bootstrap
        self._brokers: Sequence[Address] = ()
        self._pauses = pauses
        self._shuffle = shuffle
        self._candidates: list[Address] = []
        self._leaders: dict[TopicPartition, Address] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._missing: dict[TopicPartition, None] = {}
        self._asking = False
        self._not_before = 0.0

    def leader(self, target: TopicPartition) -> Address | None:
        """Returns the leader; if it is unknown, a request for it becomes due."""
        leader_address = self._leaders.get(target)
        if leader_address is None:
            self._missing[target] = None
        return leader_address

    def leader_epoch(self, target: TopicPartition) -> int:
        """Returns the epoch of the latest known leader; -1 if there was none."""
        return self._epochs.get(target, -1)

    def doubt(self, target: TopicPartition) -> None:
        """Forgets the partition's leader, which may have changed."""
        self._leaders.pop(target, None)

    def doubt_broker(self, address: Address) -> None:
        """Forgets this broker as a leader, as its partitions may have moved."""
        for target in [
            partition for partition, leader in self._leaders.items() if leader == address
        ]:
            self.doubt(target)

    def ask_at(self) -> float:
        """Returns the time of the next request; `NEVER` if nothing is missing or a request is in
        flight."""
        return self._not_before if self._missing and not self._asking else NEVER

    def ask(self) -> list[str]:
        """Returns the topics to ask about now; `learn` or `failed` must follow."""
        self._asking = True
        return sorted({target.topic for target in self._missing})

    def failed(self, now: float) -> None:
        """Notes that the request failed."""
        self._asking = False
        self._not_before = now + self._pauses.next()

    def learn(self, metadata: ClusterMetadata, now: float) -> dict[TopicPartition, ClientError]:
        """Processes the response; returns the errors of partitions that still have no leader."""
        self._asking = False
        self._brokers = [broker.address for broker in metadata.brokers.values()]
        errors: dict[TopicPartition, ClientError] = {}
        for target in self._missing:
            try:
                self._leaders[target] = _leader(metadata, target)
                partition = metadata.topics[target.topic].partitions[target.partition]
                self._epochs[target] = partition.leader_epoch
            except ClientError as error:
                errors[target] = error
        self._missing = dict.fromkeys(errors)
        if errors:
            self._not_before = now + self._pauses.next()
        else:
            self._pauses.reset()
        return errors

    def give_up(self, target: TopicPartition) -> None:
        """Stops asking about this partition."""
        self._missing.pop(target, None)

    def next_broker(self) -> Address:
        """Returns the next broker to connect to, if no connected one can be asked."""
        if not self._candidates:
            addresses = [*self._shuffle(self._brokers), *self._shuffle(self._bootstrap)]
            self._candidates = list(dict.fromkeys(reversed(addresses)))
        return self._candidates.pop()


def _leader(metadata: ClusterMetadata, target: TopicPartition) -> Address:
    topic = metadata.topic(target.topic, Operation.WRITE)
    if target.partition >= len(topic.partitions):  # this broker may not know of it yet
        raise Refused(str(target), ErrorCode.unknown_topic_or_partition)
    leader = topic.partition(target.partition).leader
    if leader not in metadata.brokers:
        raise NotReachable(f"{target}: the leader, broker {leader}, is not alive")
    return metadata.brokers[leader].address
