"""A finished record batch on its way to a partition, and what can become of it.

    Batch ──stamped──▶ Stamped ──▶ Acknowledged      it is in the log
                               ├─▶ Rejected          it is not, and trying again cannot cure that
                               └─▶ Unsettled         with others of its partition: in the log or not

Every batch that was submitted comes back in exactly one of these events. A batch is compared by
identity: the very object that was submitted comes back, so that a caller can keep what it knows of
it in a dict.
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from client.errors import ClientError
from client.identity import NOBODY, Identity
from wire.batch import HEADER_SIZE, MAGIC, BatchHeader, next_sequence, read_header


class Acks(IntEnum):
    """Whose word a producer waits for."""

    NONE = 0
    LEADER = 1
    ALL = -1


class TopicPartition(NamedTuple):
    """Where batches keep their order."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Batch(msgspec.Struct, frozen=True, eq=False):
    """A record batch of format v2, and where it is bound for; `data` may not change any more."""

    target: TopicPartition
    data: bytes

    def __post_init__(self) -> None:
        whole = len(self.data) >= HEADER_SIZE
        if not whole or self.header.magic != MAGIC or self.header.size != self.size:
            raise ValueError(f"for {self.target}: {self.size} bytes are not one batch of format v2")

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
    """A batch with the numbers it is sent under: `head` takes the place of its header.

    A batch that is sent unnumbered has `identity` NOBODY and is sent as it was submitted.
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
        """What follows the header, not copied."""
        return memoryview(self.batch.data)[HEADER_SIZE:]

    @property
    def data(self) -> bytes:
        """The bytes as they are sent."""
        return self.head + self.body


class Acknowledged(msgspec.Struct, frozen=True):
    """The broker has it, as `acks` asks for. The offset is None where the broker does not say."""

    batch: Batch
    base_offset: int | None


class Rejected(msgspec.Struct, frozen=True):
    """It is not in the log and will not be sent again; the batches behind it go on."""

    batch: Batch
    error: ClientError


class Unsettled(msgspec.Struct, frozen=True):
    """Each of `batches`, oldest first, may be in the log or not; no other of this partition.

    The partition's stream stands still until `renew`. Empty if only the numbering has come to its
    end, under an identity that is not the producer's own to change.
    """

    target: TopicPartition
    batches: tuple[Stamped, ...]
    error: ClientError


Event = Acknowledged | Rejected | Unsettled


def unnumbered(batch: Batch) -> Stamped:
    """To be sent as it is."""
    return Stamped(batch, NOBODY, -1, batch.data[:HEADER_SIZE])
