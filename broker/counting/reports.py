"""The messages between the broker and its counting process: frames of MessagePack through pipes.

The broker first sends a task: its identity and addresses; then, every interval, a report of the
partitions that it leads and how far they are exposed. Each report is answered when it was handled,
and no other is sent before that.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from broker.configs.config import Checks
from client.connection.security import Security
from ledger.counting.counted_offsets import EpochStart
from ledger.health import Health
from schemas.remote.address import RegistryAddress
from wire.mirrored import MirrorOf

SIZE_BYTES: Final = 4  # before each frame


class Led(NamedTuple):
    """A partition that the broker leads: records from `start` are exposed up to `exposed`, and the
    log ends at `end`. `epochs` are the log's leader epochs with their first offsets, ascending; the
    last is the current `leader_epoch`. `unclean` epochs began with a leader that was not in sync.
    `mirror_of` is the origin, if the topic is a copy."""

    topic: str
    topic_id: str
    partition: int
    directory: str
    start: int
    exposed: int
    leader_epoch: int
    compacts: bool
    end: int
    epochs: Sequence[EpochStart]
    unclean: Sequence[int] = ()
    mirror_of: MirrorOf | None = None

    @property
    def begins(self) -> int:
        """The first offset of the leader's epoch; other brokers may have counted earlier
        offsets."""
        return self.epochs[-1].first


class LostOffsets(NamedTuple):
    """A loss to be reported, identified by `number`. The log continued at `resumes` under this
    leader epoch. `offsets` is -1 if the number of lost offsets is unknown."""

    number: int
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    first: int
    offsets: int
    resumes: int
    reason: str


class DamagedOffsets(NamedTuple):
    """Offsets without a readable batch."""

    topic: str
    partition: int
    first: int
    offsets: int
    reason: str


class CheckedLog(NamedTuple):
    """The times at which a partition's log was last re-read, in milliseconds since 1970: its young
    segments, and all of them. -1: never."""

    topic: str
    partition: int
    recent: int
    whole: int


class Task(msgspec.Struct, array_like=True, frozen=True):
    """The first message to the counting process."""

    data_dir: str
    broker: str  # host:port
    security: Security
    registry: RegistryAddress
    cluster: str
    host: str
    window_millis: int
    interval: float
    checks: Checks


class CountingReport(msgspec.Struct, array_like=True, frozen=True):
    """The state of the led partitions, the names of led partitions that are not served now, losses
    that are not confirmed as reported, and the broker's own health."""

    led: list[Led]
    not_served: list[tuple[str, int]]
    lost: list[LostOffsets] = []
    health: Health | None = None


class CountingResult(msgspec.Struct, array_like=True, frozen=True):
    """The result of a report: the number of batches counted, the number of those that were
    decompressed, and problems.

    The losses with these numbers will reach the ledger, whatever happens. Also: damage found since
    the last answer, bytes of stored data re-read, when all of it had last been read, and which logs
    were.
    """

    batches: int
    opened: int
    trouble: str
    told: list[int] = []
    damaged: list[DamagedOffsets] = []
    scrubbed_bytes: int = 0
    scrubbed_millis: int = -1
    checked: list[CheckedLog] = []


def framed(message: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(SIZE_BYTES, "big") + body
