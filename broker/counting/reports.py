"""What the broker and its counting process tell each other: frames of MessagePack through pipes.

First the broker says who counts, and where; then, every interval, what it leads and how far
consumers see it. Each report is answered when it was followed, and no other is sent before that.
"""

from typing import Final, NamedTuple

import msgspec

SIZE_BYTES: Final = 4  # before each frame


class Led(NamedTuple):
    """One partition that the broker leads and serves: its records from `start` up to `exposed`."""

    topic: str
    topic_id: str
    partition: int
    directory: str
    start: int
    exposed: int
    leader_epoch: int
    compacts: bool


class Task(msgspec.Struct, array_like=True, frozen=True):
    """What the process is told first."""

    data_dir: str
    broker: str  # host:port
    registry: str
    cluster: str
    host: str
    window_millis: int
    interval: float


class Report(msgspec.Struct, array_like=True, frozen=True):
    """How the partitions stand; those that are not served now are only named."""

    led: list[Led]
    not_served: list[tuple[str, int]]


class Looked(msgspec.Struct, array_like=True, frozen=True):
    """What came of a report: batches counted, of which so many were opened; what went wrong."""

    batches: int
    opened: int
    trouble: str


def framed(message: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(SIZE_BYTES, "big") + body
