"""Which broker leads which partition, as far as a producer knows, and what it must ask. Pure.

Only partitions that have something to send and no known leader are asked about, all in one request,
and again after a pause while one of them has none. A leader is forgotten as soon as anything speaks
against it: an answer, a broken connection.
"""

from collections.abc import Callable, Sequence

from client.addresses import Address
from client.delivery import TopicPartition
from client.errors import ClientError, ErrorCode, NotReachable, Refused
from client.metadata import ClusterMetadata
from client.patience import NEVER, Pauses
from wire.acls import Operation

Shuffle = Callable[[Sequence[Address]], Sequence[Address]]


class PartitionRoutes:
    """Leaders of partitions, and brokers to ask for them."""

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
        """Who leads it; if that is not known, it will be asked for."""
        found = self._leaders.get(target)
        if found is None:
            self._missing[target] = None
        return found

    def leader_epoch(self, target: TopicPartition) -> int:
        """Of the leader that was learned last; -1 if none was."""
        return self._epochs.get(target, -1)

    def doubt(self, target: TopicPartition) -> None:
        """Somebody else may lead it now."""
        self._leaders.pop(target, None)

    def doubt_broker(self, address: Address) -> None:
        """Somebody else may lead all it led."""
        for target in [each for each, leader in self._leaders.items() if leader == address]:
            self.doubt(target)

    def ask_at(self) -> float:
        """When to ask; `NEVER` if nothing is missing, or the answer is under way."""
        return self._not_before if self._missing and not self._asking else NEVER

    def ask(self) -> list[str]:
        """The topics to ask about, now; `learn` or `failed` will follow."""
        self._asking = True
        return sorted({target.topic for target in self._missing})

    def failed(self, now: float) -> None:
        """No answer will come."""
        self._asking = False
        self._not_before = now + self._pauses.next()

    def learn(self, metadata: ClusterMetadata, now: float) -> dict[TopicPartition, ClientError]:
        """Takes an answer; returns what is still missing, and why."""
        self._asking = False
        self._brokers = [broker.address for broker in metadata.brokers.values()]
        why: dict[TopicPartition, ClientError] = {}
        for target in self._missing:
            try:
                self._leaders[target] = _leader(metadata, target)
                partition = metadata.topics[target.topic].partitions[target.partition]
                self._epochs[target] = partition.leader_epoch
            except ClientError as error:
                why[target] = error
        self._missing = dict.fromkeys(why)
        if why:
            self._not_before = now + self._pauses.next()
        else:
            self._pauses.reset()
        return why

    def give_up(self, target: TopicPartition) -> None:
        """Nothing is to be sent there any more."""
        self._missing.pop(target, None)

    def next_broker(self) -> Address:
        """Somebody to connect to, one after the other, if nobody else can be asked."""
        if not self._candidates:
            known = [*self._shuffle(self._brokers), *self._shuffle(self._bootstrap)]
            self._candidates = list(dict.fromkeys(reversed(known)))
        return self._candidates.pop()


def _leader(metadata: ClusterMetadata, target: TopicPartition) -> Address:
    topic = metadata.topic(target.topic, Operation.WRITE)
    if target.partition >= len(topic.partitions):  # it may be on its way to this broker
        raise Refused(str(target), ErrorCode.unknown_topic_or_partition)
    leader = topic.partition(target.partition).leader
    if leader not in metadata.brokers:
        raise NotReachable(f"{target}: its leader, broker {leader}, is not among the live ones")
    return metadata.brokers[leader].address
