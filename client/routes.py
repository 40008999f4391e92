"""Which broker leads which partition, as far as a producer knows, and what it must ask. Pure.

Only partitions that have something to send and no known leader are asked about, all in one request,
and again after a pause while one of them has none. A leader is forgotten as soon as anything speaks
against it: an answer, a broken connection.
"""

from collections.abc import Callable, Collection, Sequence

from client.addresses import Address
from client.delivery import TopicPartition
from client.errors import ClientError
from client.metadata import Metadata
from client.patience import Pauses


class Routes:
    """Leaders of partitions, and brokers to ask for them."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        pauses: Pauses,
        shuffled: Callable[[Collection[Address]], list[Address]],
    ) -> None:
        raise NotImplementedError

    def leader(self, target: TopicPartition) -> Address | None:
        """Who leads it; if that is not known, it will be asked for."""
        raise NotImplementedError

    def doubt(self, target: TopicPartition) -> None:
        """Somebody else may lead it now."""
        raise NotImplementedError

    def doubt_broker(self, address: Address) -> None:
        """Somebody else may lead all it led."""
        raise NotImplementedError

    def ask_at(self) -> float | None:
        """When to ask; None if nothing is missing, or the answer is under way."""
        raise NotImplementedError

    def topics(self) -> list[str]:
        """What to ask about, now: an answer or its failure will follow."""
        raise NotImplementedError

    def learn(self, metadata: Metadata, now: float) -> dict[TopicPartition, ClientError]:
        """Takes an answer; what is still without a leader, and why."""
        raise NotImplementedError

    def failed(self, now: float) -> None:
        """No answer will come."""
        raise NotImplementedError

    def next_broker(self) -> Address:
        """Somebody to connect to, one after the other, if nobody else can be asked."""
        raise NotImplementedError
