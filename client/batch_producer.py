"""Finished record batches into partitions of any topics: in order, numbered, acknowledged.

One thread pumps: it sends, receives, and decides. Any thread submits and collects. What is held, in
batches that were submitted and not yet collected, is bounded in bytes; whoever submits more is told
no, at once or after as long as it is willing to wait.

A batch's bytes are never changed but for its numbers (`client.stamping`). Whoever must find out
after a crash what became of what was under way gives a `journal`: it is called with batches that
are about to be sent under numbers that nobody has seen, and they are sent when it returns. If it
raises, so does `pump`, and they will be given to it again.

What the numbers promise, and when a caller must decide, stands in `client.stream`.
"""

from collections.abc import Sequence

from client.addresses import Address
from client.delivery import Acks, Batch, Event, TopicPartition
from client.errors import ClientError
from client.identity import Identity
from client.shipping import Journal, Limits


class BatchProducer:
    """Ships to one cluster. Of no more use once it is closed; what was open then stays open."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str = "penstock",
        acks: Acks = Acks.ALL,
        identity: Identity | None = None,
        limits: Limits | None = None,
        journal: Journal | None = None,
    ) -> None:
        """With acks=ALL batches are numbered: under a new producer id, or `identity`, which is lent
        and must be new in its epoch."""
        raise NotImplementedError

    def submit(self, batch: Batch, *, within: float = 0.0) -> bool:
        """Takes a batch, unless it does not fit within the bound even after so many seconds.

        Any thread; to wait makes sense only where another one pumps.
        """
        raise NotImplementedError

    def collect(self, *, within: float = 0.0) -> list[Event]:
        """What became of batches, oldest first; waits so long for the first. Any thread."""
        raise NotImplementedError

    @property
    def outstanding(self) -> int:
        """Batches that were submitted and have not been collected. Any thread."""
        raise NotImplementedError

    def pump(self, seconds: float) -> None:
        """Works for so long, or until there is something to collect. One thread, always the same
        one."""
        raise NotImplementedError

    def renew(
        self,
        target: TopicPartition,
        *,
        identity: Identity | None = None,
        sequence: int = 0,
        first: Sequence[Batch] = (),
    ) -> None:
        """Lets a partition go on that is `Unsettled`, or begins one that nothing is open of.

        The batches `first` go before all that wait. They are numbered under `identity` from
        `sequence` on, which sends what was sent before byte for byte; without an identity, under
        the next epoch, or a new producer id where that would not help. The pumping thread.
        """
        raise NotImplementedError

    def troubles(self) -> dict[TopicPartition, ClientError]:
        """What keeps partitions from moving that have something to send. The pumping thread."""
        raise NotImplementedError

    def close(self) -> None:
        """The pumping thread, or none any more."""
        raise NotImplementedError
