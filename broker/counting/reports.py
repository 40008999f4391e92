"""What the broker and its counting process tell each other: frames of MessagePack through pipes.

First the broker says who counts, and where; then, every interval, what it leads and how far
consumers see it. Each report is answered when it was followed, and no other is sent before that.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from broker.config import Checks
from client.security import Security
from ledger.counting.counted_offsets import EpochStart
from schemas.remote.address import RegistryAddress
from wire.mirrored import MirrorOf

SIZE_BYTES: Final = 4  # before each frame


class Led(NamedTuple):
    """One partition that the broker leads and serves: its records from `start` up to `exposed`. Its
    log ends at `end`, and `epochs` are the leader epochs of what is in it, with the offsets at
    which they begin, ascending: `leader_epoch`, which it is led under, is the last of them.
    `unclean` are those that began with a leader who was not in sync. `mirror_of` says of what the
    topic is a copy."""

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
        """Where its leader began to lead: what lies before that, others may have counted."""
        return self.epochs[-1].first


class LostOffsets(NamedTuple):
    """What a log has lost, to be told: `number` tells it from others. The log went on at `resumes`
    under this leader epoch. -1 `offsets`: nobody knows how many."""

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
    """Offsets at which no batch is any more that could be read."""

    topic: str
    partition: int
    first: int
    offsets: int
    reason: str


class CheckedLog(NamedTuple):
    """When a partition's log was last read again, in milliseconds since 1970: its young segments,
    and all of them; -1: never."""

    topic: str
    partition: int
    recent: int
    whole: int


class Task(msgspec.Struct, array_like=True, frozen=True):
    """What the process is told first."""

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
    """How the partitions stand; those that are not served now are only named. And what was lost of
    them, until it was answered that it is told."""

    led: list[Led]
    not_served: list[tuple[str, int]]
    lost: list[LostOffsets] = []


class CountingResult(msgspec.Struct, array_like=True, frozen=True):
    """What came of a report: batches counted, of which so many were opened; what went wrong.

    The losses of these numbers will be in the ledger, whatever happens; what was found damaged
    since the last answer; what was read again of what is stored, when all of it was last read, and
    which logs were.
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
