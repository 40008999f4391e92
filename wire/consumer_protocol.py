"""The member data of groups of protocol type `consumer`: subscriptions, which JoinGroup takes to
the leader, and assignments, which SyncGroup takes to the members.

For the group's coordinator both are opaque bytes. Penstock's own members write them, and commands
that show groups read those of all kinds of clients. They begin with their version, an int16; the
rest follows kio's schema of that version.

Rule 1: versions only append. A newer version is read as LATEST, and the bytes after that are
        ignored, as in Kafka.

Rule 2: bytes that end where an older version would are read as that version: kafka-go and
        sarama-cluster declare version 1 and write version 0.

Rule 3: empty bytes are an empty message: a coordinator returns neither of both while its group
        rebalances, and a member left out by the leader gets an empty assignment.

Rule 4: anything else is a `MemberDataError`. Lengths and counts are checked against the available
        bytes, as everywhere in `wire.framing.primitives`.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from wire.errors import MemberDataError, ProtocolError
from wire.framing import codec
from wire.framing.primitives import MessageBuffer, Reader, Writer, read_int16, write_int16
from wire.kio_schemas import data_schema

PROTOCOL_TYPE: Final = "consumer"
LATEST: Final = 3
WITHOUT_COORDINATOR: Final = "penstock"
"""The protocol that brokers report for groups of Penstock's own consumers, which claim partitions
themselves."""


class TopicPartitions(Struct, frozen=True, kw_only=True):
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...] = ()


class Subscription(Struct, frozen=True, kw_only=True):
    """The topics that a member wants, and the partitions that it has."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    """For the assignor, in its own format."""
    owned_partitions: tuple[TopicPartitions, ...] = ()
    """The partitions that it reads meanwhile (cooperative rebalancing); from version 1 on."""
    generation_id: int = -1
    """The generation in which these were assigned; from version 2 on."""
    rack_id: str | None = None
    """From version 3 on."""


class Assignment(Struct, frozen=True, kw_only=True):
    """The partitions assigned to a member. All versions have the same encoding."""

    assigned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None


def by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartitions, ...]:
    """Groups pairs of topic and partition by topic, sorted and without duplicates."""
    topics = groupby(sorted(set(partitions)), key=itemgetter(0))
    return tuple(
        TopicPartitions(topic=topic, partitions=tuple(partition for _, partition in pairs))
        for topic, pairs in topics
    )


def pairs(topics: Iterable[TopicPartitions]) -> Iterator[tuple[str, int]]:
    """Yields each topic and partition, in order. A topic may be listed more than once."""
    return ((topic.topic, partition) for topic in topics for partition in topic.partitions)


def read_subscription(data: bytes | memoryview) -> Subscription:
    subscription: Subscription = _read("subscription", memoryview(data))
    return subscription


def read_assignment(data: bytes | memoryview) -> Assignment:
    assignment: Assignment = _read("assignment", memoryview(data))
    return assignment


def write_subscription(subscription: Subscription, version: int = LATEST) -> bytes:
    """Encodes the subscription without the fields that the version lacks."""
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
        version_read = min(version, LATEST)
        try:
            return _form(kind, version_read)[0](data, start)[0]
        except ProtocolError:
            if (value := _read_as_older(kind, version_read, data, start)) is None:
                raise
            return value
    except ProtocolError as error:
        raise MemberDataError(f"invalid {kind} of {len(data)} bytes: {error}") from None


def _read_as_older(kind: str, newest: int, data: memoryview, start: int) -> Any:
    """Reads the data as a version below `newest` that ends at their end; None if there is none."""
    for version in reversed(range(newest)):
        try:
            message, end = _form(kind, version)[0](data, start)
        except ProtocolError:
            continue
        if end == len(data):
            return message
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
