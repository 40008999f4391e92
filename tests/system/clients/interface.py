"""What a foreign client must be able to do; each client's file adapts one library to it.

No adapter sets a protocol version or any other option that a user would not set; consumers get
their partition by `assign`, never from a group. Contents are bytes, so that they can be compared
with what was sent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypedDict, Unpack

import msgspec

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["0", "1", "all"]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_BITS: Mapping[Codec, int] = {name: bits for bits, name in enumerate(CODECS)}
WITHIN = 30.0


class Record(msgspec.Struct, frozen=True):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    """Milliseconds; None lets the client take the time of sending."""


class Consumed(msgspec.Struct, frozen=True):
    offset: int
    record: Record


class AtOffset(msgspec.Struct, frozen=True):
    offset: int


class AtTime(msgspec.Struct, frozen=True):
    timestamp: int


class AtEnd(msgspec.Struct, frozen=True):
    """`then` is called once the end has been resolved to an offset, before anything is read."""

    then: Callable[[], None]


Start = Literal["beginning"] | AtEnd | AtOffset | AtTime


class Cluster(msgspec.Struct, frozen=True):
    cluster_id: str
    controller: int
    brokers: frozenset[tuple[int, str, int]]


class Refused(Exception):
    """The broker answered with an error; `name` is Kafka's name for it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class How(TypedDict, total=False):
    """How records are sent. The defaults: not compressed, acks=all, not idempotent."""

    codec: Codec
    acks: Acks
    idempotent: bool


Records = Sequence[Record]


class Client(Protocol):
    name: str
    null_headers: bool
    """Whether it can send a header without a value."""

    def produce(
        self, server: str, topic: str, partition: int, records: Records, **how: Unpack[How]
    ) -> list[int] | None:
        """Send all and wait for all; return the offsets, None if the client lacks them."""

    def consume(
        self, server: str, topic: str, partition: int, start: Start, count: int
    ) -> list[Consumed]:
        """Read `count` records."""


Configs = Mapping[str, str]
Described = dict[str, str | None]


class Admin(Protocol):
    name: str

    def create_topic(self, server: str, topic: str, partitions: int, configs: Configs) -> None: ...

    def delete_topic(self, server: str, topic: str) -> None: ...

    def topics(self, server: str) -> dict[str, int]:
        """Return every topic with the number of its partitions."""

    def create_partitions(self, server: str, topic: str, total: int) -> None: ...

    def configs(self, server: str, topic: str) -> Described: ...

    def broker_configs(self, server: str, broker: int) -> Described: ...

    def alter(self, server: str, topic: str, configs: Configs) -> None:
        """Set these; whether earlier settings are kept depends on the client's API."""

    def delete_records(self, server: str, topic: str, partition: int, before: int) -> int:
        """Delete what lies before an offset; return the new first offset."""

    def cluster(self, server: str) -> Cluster: ...
