"""From streams to requests and back: which batches go to which broker, together, and when.

A request takes at most one batch of each partition, and at most `request_bytes`, though one batch
in any case. At most five requests are under way to a broker, and the next is put together when the
one before is with the operating system: while a broker is busy, batches gather for larger requests.

A partition that must wait (for its leader to be known, for its broker, for a pause to be over)
waits alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from client.addresses import Address
from client.delivery import Acks, Batch, Event, Stamped, TopicPartition
from client.errors import ClientError
from client.identity import Identity
from client.links import Links

Journal = Callable[[Sequence[Stamped]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much, and how long."""

    memory_bytes: int = 32 * 1024 * 1024
    request_bytes: int = 4 * 1024 * 1024
    request_seconds: float = 30.0
    delivery_seconds: float = float("inf")


class Shipping:
    """All partitions of one producer. One thread."""

    def __init__(
        self,
        links: Links,
        bootstrap: Sequence[Address],
        *,
        acks: Acks,
        identity: Identity | None,
        limits: Limits,
        journal: Journal | None,
        happened: Callable[[Event], None],
    ) -> None:
        raise NotImplementedError

    def submit(self, batch: Batch, now: float) -> None:
        raise NotImplementedError

    def renew(
        self,
        target: TopicPartition,
        identity: Identity | None,
        sequence: int,
        first: Sequence[Batch],
        now: float,
    ) -> None:
        raise NotImplementedError

    def work(self, now: float) -> None:
        """Asks and sends all that can be asked and sent now."""
        raise NotImplementedError

    def next_time(self, now: float) -> float:
        """When there is work again even if nothing happens."""
        raise NotImplementedError

    def troubles(self) -> dict[TopicPartition, ClientError]:
        """What keeps partitions from moving that have something to send."""
        raise NotImplementedError
