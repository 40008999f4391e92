"""The life of a finished record batch that is sent to a partition.

  Batch ──stamped──▶ Stamped ──▶ Acknowledged  it is in the log
                            ├─▶ Rejected      it is not, and repeating would not help
                            └─▶ Unsettled     it and others of its partition may be in the log

Every submitted batch comes back in exactly one of these events. Batches compare by identity: the
very object that was submitted comes back, so a caller can use it as a dict key.
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from client.errors import ClientError
from client.producing.identity import NOBODY, Identity
from wire.record_batches.batch import HEADER_SIZE, MAGIC, BatchHeader, next_sequence, read_header


class Acks(IntEnum):
    """The replicas that must have a batch before the producer gets an answer."""

    NONE = 0
    LEADER = 1
    ALL = -1


class TopicPartition(NamedTuple):
    """A partition of a topic; batches keep their order within it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Batch(msgspec.Struct, frozen=True, eq=False):
    """A record batch of format v2 and its target partition; `data` must not change."""

    target: TopicPartition
    data: bytes

    def __post_init__(self) -> None:
        is_whole = len(self.data) >= HEADER_SIZE
        if not is_whole or self.header.magic != MAGIC or self.header.size != self.size:
            raise ValueError(
                f"{self.target}: the {self.size} bytes are not exactly one batch of format v2"
            )

    @property
    def header(self) -> BatchHeader:
        return read_header(self.data)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def records(self) -> int:
        return self.header.record_count


class Stamped(msgspec.Struct, frozen=True, eq=False):
    """A batch with its producer id, epoch and sequence: `head` replaces the batch's header.

    Without idempotence `identity` is NOBODY and the batch is sent as submitted.
    """

    batch: Batch
    identity: Identity
    base_sequence: int
    head: bytes

    @property
    def last_sequence(self) -> int:
        return next_sequence(self.base_sequence, self.batch.header.last_offset_delta)

    @property
    def body(self) -> memoryview:
        """The bytes after the header, not copied."""
        return memoryview(self.batch.data)[HEADER_SIZE:]

    @property
    def data(self) -> bytes:
        """The bytes as they are sent."""
        return self.head + self.body


class Acknowledged(msgspec.Struct, frozen=True):
    """The broker has the batch, as `acks` requires; the offset is None if the broker does not
    return it."""

    batch: Batch
    base_offset: int | None


class Rejected(msgspec.Struct, frozen=True):
    """The batch is not in the log and will not be sent again; later batches are."""

    batch: Batch
    error: ClientError


class Unsettled(msgspec.Struct, frozen=True):
    """Each of `batches`, oldest first, may be in the log; no other batch of the partition is open.

    The partition's stream stops until `renew`. `batches` is empty if only the numbering ended,
    under a lent identity, which the producer must not change.
    """

    target: TopicPartition
    batches: tuple[Stamped, ...]
    error: ClientError


Event = Acknowledged | Rejected | Unsettled


def unnumbered(batch: Batch) -> Stamped:
    """Returns the batch in the form without numbers."""
    return Stamped(batch, NOBODY, -1, batch.data[:HEADER_SIZE])
