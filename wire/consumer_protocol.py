"""What the members of a group of protocol type `consumer` tell each other: subscriptions, which go
to the leader with JoinGroup, and assignments, which come from it with SyncGroup.

For the group's coordinator both are bytes that it hands on. Penstock's own members write them, and
whoever shows a group reads those of all kinds of clients. They begin with their version, an int16;
what follows is as kio's schema of that version says.

Rule 1: versions only append. What is newer than LATEST is read as LATEST, and what is behind that
is not looked at, as in Kafka.

Rule 2: bytes that end where an older version would end are read as that: kafka-go and
sarama-cluster say version 1 and write version 0.

Rule 3: no bytes at all say nothing: a coordinator shows neither of both while its group rebalances,
and a member that the leader has left out is sent an empty assignment.

Rule 4: whatever else it may be is a `MemberDataError`. Lengths and counts are held against the
bytes that are there, as everywhere in `wire.primitives`.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from wire import codec
from wire.errors import MemberDataError, ProtocolError
from wire.kio_schemas import data_schema
from wire.primitives import MessageBuffer, Reader, Writer, read_int16, write_int16

PROTOCOL_TYPE: Final = "consumer"
LATEST: Final = 3
WITHOUT_COORDINATOR: Final = "penstock"
"""What stands for a protocol where brokers describe a group of Penstock's own consumers, who claim
partitions themselves."""


class TopicPartitions(Struct, frozen=True, kw_only=True):
    """Some partitions of one topic."""

    topic: str
    partitions: tuple[int, ...] = ()


class Subscription(Struct, frozen=True, kw_only=True):
    """What a member wants to read, and what it has."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    """For the assignor, in a form of its own."""
    owned_partitions: tuple[TopicPartitions, ...] = ()
    """What it goes on reading meanwhile (cooperative rebalancing); from version 1 on."""
    generation_id: int = -1
    """The generation in which it was given these; from version 2 on."""
    rack_id: str | None = None
    """From version 3 on."""


class Assignment(Struct, frozen=True, kw_only=True):
    """What a member is to read. All versions have the same form."""

    assigned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None


def by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartitions, ...]:
    """Pairs of topic and partition, as the messages have them: in order, and each once."""
    topics = groupby(sorted(set(partitions)), key=itemgetter(0))
    return tuple(
        TopicPartitions(topic=topic, partitions=tuple(partition for _, partition in pairs))
        for topic, pairs in topics
    )


def pairs(topics: Iterable[TopicPartitions]) -> Iterator[tuple[str, int]]:
    """Topic and partition of each, as they stand there. A topic may be listed more than once."""
    return ((each.topic, partition) for each in topics for partition in each.partitions)


def read_subscription(data: bytes | memoryview) -> Subscription:
    read: Subscription = _read("subscription", memoryview(data))
    return read


def read_assignment(data: bytes | memoryview) -> Assignment:
    read: Assignment = _read("assignment", memoryview(data))
    return read


def write_subscription(subscription: Subscription, version: int = LATEST) -> bytes:
    """The subscription; what that version lacks is left out."""
    return _write("subscription", subscription, version)


def write_assignment(assignment: Assignment, version: int = LATEST) -> bytes:
    return _write("assignment", assignment, version)


_MESSAGES: Final[dict[str, type[Any]]] = {"subscription": Subscription, "assignment": Assignment}


def _read(kind: str, data: memoryview) -> Any:
    if not data:
        return _MESSAGES[kind]()
    try:
        version, start = read_int16(data, 0)
        if version < 0:
            raise ProtocolError(f"version {version}")
        newest = min(version, LATEST)
        try:
            return _form(kind, newest)[0](data, start)[0]
        except ProtocolError:
            if (older := _read_as_older(kind, newest, data, start)) is None:
                raise
            return older
    except ProtocolError as error:
        raise MemberDataError(f"{len(data)} bytes are no consumer's {kind}: {error}") from None


def _read_as_older(kind: str, newest: int, data: memoryview, start: int) -> Any:
    """What ends where a version below `newest` would; None if none does."""
    for version in reversed(range(newest)):
        try:
            found, end = _form(kind, version)[0](data, start)
        except ProtocolError:
            continue
        if end == len(data):
            return found
    return None


def _write(kind: str, message: Subscription | Assignment, version: int) -> bytes:
    out = MessageBuffer()
    write_int16(out, version)
    _form(kind, version)[1](out, message)
    return bytes(out)


@cache
def _form(kind: str, version: int) -> tuple[Reader, Writer]:
    schema = data_schema(f"consumer_protocol_{kind}", version)
    return codec.entity(schema, _MESSAGES[kind])
