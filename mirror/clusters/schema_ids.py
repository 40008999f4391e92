"""Checks that a schema id has one meaning at the target, across its own registry and all copies of
`_schemas`.

A registry that serves them together can return one schema for an id. So the records of a copied
`_schemas` are read, and those that would give an id a second meaning are not copied: the partition
stops, and the error names both subjects. A conflict between two mirrors at the same moment is
detected by the next scan. While one of the topics cannot be read to its end, the meaning of its ids
is unknown: then `_schemas` is not copied further, and everything else is.

Records are read as the registry reads them (registry/schemas_topic/log_records.py), but only in
part. Deleted versions count, since messages with their ids still exist.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.connection.metadata import NO_LEADER, ClusterMetadata
from client.errors import ClientError
from client.reading.fetcher import Fetcher
from client.reading.offsets import Beginning, End, start_offsets
from mirror.topics import SCHEMAS
from wire.errors import BatchError
from wire.record_batches.batch import CONTROL, headers
from wire.record_batches.records import records

_PATIENCE_S: Final = 2.0  # after which the next scan continues
_CONTEXT: Final = ":."  # `:.context:subject`, which has ids of its own
_AVRO: Final = "AVRO"
_NOTHING: Final = msgspec.Raw()


class _Key(msgspec.Struct):
    keytype: str = ""


class _Value(msgspec.Struct, kw_only=True):
    subject: str
    version: int
    id: int
    type: str | None = msgspec.field(name="schemaType", default=None)
    references: tuple[msgspec.Raw, ...] = ()
    metadata: msgspec.Raw = _NOTHING
    rules: msgspec.Raw = msgspec.field(name="ruleSet", default=_NOTHING)
    schema: str = ""


_key_decoder = msgspec.json.Decoder(_Key)
_value_decoder = msgspec.json.Decoder(_Value)


class Schema(msgspec.Struct, frozen=True):
    """The schema of an id, and where it is registered. Schemas with equal `content` are the
    same."""

    topic: str
    subject: str
    version: int
    content: int

    def __str__(self) -> str:
        return f"version {self.version} of {self.subject} in {self.topic}"


def schemas_in(topic: str, batches: memoryview) -> Iterator[tuple[int, Schema]]:
    """The schema ids in whole batches of a registry's topic. Raises BatchError."""
    for start, header in headers(batches):
        if not header.attributes & CONTROL:
            for record in records(batches[start : start + header.size]):
                entry = _schema(topic, record.key, record.value)
                if entry is not None:
                    yield entry


def _schema(topic: str, key: bytes | None, value: bytes | None) -> tuple[int, Schema] | None:
    """None for other records, and for those that the registry skips."""
    if not key or not value:
        return None
    try:
        if _key_decoder.decode(key).keytype != "SCHEMA":
            return None
        registration = _value_decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if registration.subject.startswith(_CONTEXT):
        return None
    # References are to subjects of its own cluster.
    reference_keys = (
        (topic, *map(bytes, registration.references)) if registration.references else ()
    )
    content = hash(
        (
            registration.type or _AVRO,
            registration.schema,
            bytes(registration.metadata),
            bytes(registration.rules),
            reference_keys,
        )
    )
    return registration.id, Schema(topic, registration.subject, registration.version, content)


def clash(schema_id: int, schema: Schema, other: Schema) -> str:
    return (
        f"schema id {schema_id} is {schema}, and {other}: two registries assign the same ids. Give "
        "each its own range (`id_base`, `id_count`), and register one of these two again"
    )


NewFetcher = Callable[[Brokers, str, Mapping[int, int]], Fetcher]


class SchemaIds:
    """The schema ids in one copy of `_schemas`. Scans on a thread; queried on the event loop."""

    def __init__(self, copy: str, new_fetcher: NewFetcher = Fetcher) -> None:
        self.copy = copy
        self.unknown = "the ids of other registries have not been read yet"
        self.trouble = ""  # topics that cannot be read, and conflicts that exist already
        self._new_fetcher = new_fetcher
        self._seen: dict[str, _Topic] = {}
        self._others: Mapping[int, Schema] = {}

    def fault(self, batches: memoryview) -> str:
        """The reason why these batches may not be copied; empty if they may."""
        if self.unknown:
            return self.unknown
        other_schemas = self._others
        try:
            for schema_id, schema in schemas_in(self.copy, batches):
                other_schema = other_schemas.get(schema_id)
                if other_schema is not None and other_schema.content != schema.content:
                    return clash(schema_id, schema, other_schema)
        except BatchError as error:
            return f"not a registry's records: {error}"
        return ""

    def look(self, target: Brokers, known: ClusterMetadata) -> None:
        """Reads new records in the topics of registries."""
        topics = {name: topic for name, topic in known.topics.items() if _is_schemas_topic(name)}
        for name in self._seen.keys() - topics.keys():
            del self._seen[name]
        troubles: list[str] = []
        read_errors: dict[str, str] = {}  # with the reason
        connection_error = ""
        for name, topic in topics.items():
            topic_read = self._seen.get(name)
            if topic_read is None or topic_read.topic_id != topic.id:
                topic_read = self._seen[name] = _Topic(name, topic.id)
            if connection_error or any(
                partition.leader == NO_LEADER for partition in topic.partitions
            ):
                read_errors[name] = connection_error or "no leader"
                continue
            try:
                if not topic_read.read(target, self._new_fetcher):
                    read_errors[name] = "not read to its end"
            except BatchError as error:
                troubles.append(f"{name} cannot be read: {error}")
            except ClientError as error:
                if error.retriable:
                    # Do not wait for each of the others, too.
                    read_errors[name] = connection_error = str(error)
                else:
                    troubles.append(f"schema ids are not compared with {name}: {error}")
        self._others = _united(topic for name, topic in self._seen.items() if name != self.copy)
        # Its own copy cannot give an id a second meaning.
        unknown_reason = (
            f"the schema ids in {name} are unknown: {reason}"
            for name, reason in read_errors.items()
            if name != self.copy
        )
        self.unknown = next(unknown_reason, "")
        copy_topic = self._seen.get(self.copy)
        clashes = self._clashes(copy_topic.schemas if copy_topic else {})
        self.trouble = "; ".join([*filter(None, [self.unknown]), *troubles, *clashes])

    def _clashes(self, own: Mapping[int, Schema]) -> Iterator[str]:
        for schema_id, schema in own.items():
            other_schema = self._others.get(schema_id)
            if other_schema is not None and other_schema.content != schema.content:
                yield clash(schema_id, schema, other_schema)


class _Topic(msgspec.Struct):
    """A registry's topic, and how far it has been read."""

    name: str
    topic_id: object
    schemas: dict[int, Schema] = {}
    _position: int = -1

    def read(self, brokers: Brokers, new_fetcher: NewFetcher) -> bool:
        """Continues reading the topic, which has one partition. Returns whether the end was
        reached. Raises BatchError or ClientError."""
        if self._position < 0:
            self._position = start_offsets(brokers, self.name, [0], Beginning())[0]
        end = start_offsets(brokers, self.name, [0], End())[0]
        if self._position >= end:
            return True
        fetcher = new_fetcher(brokers, self.name, {0: self._position})
        try:
            while self._position < end:
                fetcher.ends.clear()
                batches = fetcher.poll(_PATIENCE_S)
                for batch in batches:
                    for schema_id, schema in schemas_in(self.name, batch.data):
                        self.schemas.setdefault(schema_id, schema)
                if not batches:
                    # A compacted topic may have no records before its end: then the leader returns
                    # the end without data.
                    return fetcher.ends.get(0, -1) >= end
                self._position = fetcher.positions[0]
        finally:
            fetcher.close()
        return True


def _united(topics: Iterable[_Topic]) -> dict[int, Schema]:
    schemas: dict[int, Schema] = {}
    for topic in topics:
        schemas = {**topic.schemas, **schemas}
    return schemas


def _is_schemas_topic(name: str) -> bool:
    return name == SCHEMAS or name.endswith(f".{SCHEMAS}")
