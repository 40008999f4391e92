"""What a foreign client must be able to do, said once: each client's file adapts one library to it.

No adapter sets a protocol version or any other option that a user would not set; consumers are
given their partition (`assign`), never a group. Contents are bytes, so that they can be compared
with what was sent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

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


Start = Literal["beginning", "end"] | AtOffset | AtTime


class Cluster(msgspec.Struct, frozen=True):
    cluster_id: str
    controller: int
    brokers: frozenset[tuple[int, str, int]]


class Refused(Exception):
    """The broker answered with an error; `name` is Kafka's name of it, as TOPIC_ALREADY_EXISTS."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def nothing() -> None:
    """What happens between positioning and reading, where nothing shall happen."""


class Client(Protocol):
    name: str
    null_headers: bool
    """Whether it can send a header without a value."""

    def produce(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        codec: Codec = "none",
        acks: Acks = "all",
        idempotent: bool = False,
    ) -> list[int] | None:
        """Sends all, waits for all; the offsets, or None where the client is not told."""

    def consume(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        start: Start,
        count: int,
        *,
        positioned: Callable[[], None] = nothing,
    ) -> list[Consumed]:
        """Reads `count` records; calls `positioned` once `start` has become an offset."""


class Admin(Protocol):
    name: str

    def create_topic(
        self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]
    ) -> None: ...

    def delete_topic(self, bootstrap: str, topic: str) -> None: ...

    def topics(self, bootstrap: str) -> dict[str, int]:
        """Every topic with the number of its partitions."""

    def create_partitions(self, bootstrap: str, topic: str, total: int) -> None: ...

    def configs(self, bootstrap: str, topic: str) -> dict[str, str | None]: ...

    def broker_configs(self, bootstrap: str, broker: int) -> dict[str, str | None]: ...

    def alter(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        """Sets these; what else was set before is kept or not, as the client's API has it."""

    def delete_records(self, bootstrap: str, topic: str, partition: int, before: int) -> int:
        """Deletes what lies before an offset; the new first offset."""

    def cluster(self, bootstrap: str) -> Cluster: ...
