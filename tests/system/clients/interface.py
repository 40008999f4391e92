"""What a foreign client must be able to do, said once: each client's file adapts one library to it.

No adapter sets a protocol version or any other option that a user would not set; consumers are
given their partition (`assign`), never a group. Contents are bytes, so that they can be compared
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
    """`then` is called once the end has become an offset, and before anything is read."""

    then: Callable[[], None]


Start = Literal["beginning"] | AtEnd | AtOffset | AtTime


class Cluster(msgspec.Struct, frozen=True):
    cluster_id: str
    controller: int
    brokers: frozenset[tuple[int, str, int]]


class Refused(Exception):
    """The broker answered with an error; `name` is Kafka's name of it, as TOPIC_ALREADY_EXISTS."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class How(TypedDict, total=False):
    """Records are sent. What is left out: not compressed, acks=all, not idempotently."""

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
        """Sends all, waits for all; the offsets, or None where the client is not told."""

    def consume(
        self, server: str, topic: str, partition: int, start: Start, count: int
    ) -> list[Consumed]:
        """Reads `count` records."""


Configs = Mapping[str, str]
Described = dict[str, str | None]


class Admin(Protocol):
    name: str

    def create_topic(self, server: str, topic: str, partitions: int, configs: Configs) -> None: ...

    def delete_topic(self, server: str, topic: str) -> None: ...

    def topics(self, server: str) -> dict[str, int]:
        """Every topic with the number of its partitions."""

    def create_partitions(self, server: str, topic: str, total: int) -> None: ...

    def configs(self, server: str, topic: str) -> Described: ...

    def broker_configs(self, server: str, broker: int) -> Described: ...

    def alter(self, server: str, topic: str, configs: Configs) -> None:
        """Sets these; what else was set before is kept or not, as the client's API has it."""

    def delete_records(self, server: str, topic: str, partition: int, before: int) -> int:
        """Deletes what lies before an offset; the new first offset."""

    def cluster(self, server: str) -> Cluster: ...
