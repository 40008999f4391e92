"""Whether ids of schemas mean one schema each at the target: of its own registry, and of all whose
`_schemas` are copied there.

A registry that serves them together can give one answer for an id. So what is copied of `_schemas`
is opened, as nothing else is, and what would give an id a second meaning is not copied: its
partition stops, and names both subjects. What two mirrors have brought at the same moment is found
by the next look. While one of these topics cannot be read to its end, nobody knows what its ids
mean: then nothing more of `_schemas` is copied, and everything else is.

Records are read as the registry reads them (registry/log_records.py), of which this needs little.
Versions that were deleted count: messages with their ids are still there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from client.brokers import Brokers
from client.errors import ClientError
from client.fetcher import Fetcher
from client.metadata import NO_LEADER, ClusterMetadata
from client.offsets import Beginning, End, start_offsets
from mirror.topics import SCHEMAS
from wire.batch import CONTROL, headers
from wire.errors import BatchError
from wire.records import records

_PATIENCE_S: Final = 2.0  # after which the next look goes on
_CONTEXT: Final = ":."  # `:.context:subject`, whose ids are counted by themselves
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
    """What an id stands for, and where that is said. `content` is what makes two schemas one."""

    topic: str
    subject: str
    version: int
    content: int

    def __str__(self) -> str:
        return f"version {self.version} of {self.subject} in {self.topic}"


def schemas_in(topic: str, batches: memoryview) -> Iterator[tuple[int, Schema]]:
    """What ids stand for, by whole batches of a registry's topic. Raises BatchError."""
    for start, header in headers(batches):
        if not header.attributes & CONTROL:
            for record in records(batches[start : start + header.size]):
                found = _schema(topic, record.key, record.value)
                if found is not None:
                    yield found


def _schema(topic: str, key: bytes | None, value: bytes | None) -> tuple[int, Schema] | None:
    """None for records of other sorts, and for what the registry leaves out as well."""
    if not key or not value:
        return None
    try:
        if _key_decoder.decode(key).keytype != "SCHEMA":
            return None
        said = _value_decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if said.subject.startswith(_CONTEXT):
        return None
    # What it refers to are subjects of its own cluster.
    refers = (topic, *map(bytes, said.references)) if said.references else ()
    content = hash(
        (said.type or _AVRO, said.schema, bytes(said.metadata), bytes(said.rules), refers)
    )
    return said.id, Schema(topic, said.subject, said.version, content)


def clash(number: int, one: Schema, other: Schema) -> str:
    return (
        f"schema id {number} is {one}, and {other}: two registries give the same ids. Give each "
        "its own range (`id_base`, `id_count`), and register one of these two anew"
    )


NewFetcher = Callable[[Brokers, str, Mapping[int, int]], Fetcher]


class SchemaIds:
    """Of one copy of a `_schemas`. Looks on a thread; is asked on the event loop."""

    def __init__(self, copy: str, new_fetcher: NewFetcher = Fetcher) -> None:
        self.copy = copy
        self.unknown = "it is not known yet which ids other registries have given"
        self.trouble = ""  # what cannot be looked at, or what clashes already
        self._new_fetcher = new_fetcher
        self._seen: dict[str, _Topic] = {}
        self._others: Mapping[int, Schema] = {}

    def fault(self, batches: memoryview) -> str:
        """Why these may not be copied; empty if they may."""
        if self.unknown:
            return self.unknown
        others = self._others
        try:
            for number, schema in schemas_in(self.copy, batches):
                other = others.get(number)
                if other is not None and other.content != schema.content:
                    return clash(number, schema, other)
        except BatchError as error:
            return f"what cannot be read as records of a registry is not copied: {error}"
        return ""

    def look(self, target: Brokers, known: ClusterMetadata) -> None:
        """At what is new in the topics of registries."""
        topics = {name: each for name, each in known.topics.items() if _is_of_schemas(name)}
        for name in self._seen.keys() - topics.keys():
            del self._seen[name]
        troubles: list[str] = []
        unread: dict[str, str] = {}  # and why
        away = ""
        for name, topic in topics.items():
            seen = self._seen.get(name)
            if seen is None or seen.topic_id != topic.id:
                seen = self._seen[name] = _Topic(name, topic.id)
            if away or any(each.leader == NO_LEADER for each in topic.partitions):
                unread[name] = away or "it has no leader"
                continue
            try:
                if not seen.read(target, self._new_fetcher):
                    unread[name] = "it was not read to its end"
            except BatchError as error:
                troubles.append(f"{name} cannot be read: {error}")
            except ClientError as error:
                if error.retriable:
                    unread[name] = away = str(error)  # each of the others would be waited for
                else:
                    troubles.append(f"ids of schemas are not compared with {name}: {error}")
        self._others = _united(each for name, each in self._seen.items() if name != self.copy)
        # What its own copy says gives no id a second meaning.
        unknown = (
            f"nobody knows which ids of schemas {name} has: {why}"
            for name, why in unread.items()
            if name != self.copy
        )
        self.unknown = next(unknown, "")
        own = self._seen.get(self.copy)
        clashes = self._clashes(own.schemas if own else {})
        self.trouble = "; ".join([*filter(None, [self.unknown]), *troubles, *clashes])

    def _clashes(self, own: Mapping[int, Schema]) -> Iterator[str]:
        for number, schema in own.items():
            other = self._others.get(number)
            if other is not None and other.content != schema.content:
                yield clash(number, schema, other)


class _Topic(msgspec.Struct):
    """One of them, as far as it has been read."""

    name: str
    topic_id: object
    schemas: dict[int, Schema] = {}
    _position: int = -1

    def read(self, brokers: Brokers, new_fetcher: NewFetcher) -> bool:
        """Whether it was read to its end. Registries have one partition. Raises BatchError,
        ClientError."""
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
                    for number, schema in schemas_in(self.name, batch.data):
                        self.schemas.setdefault(number, schema)
                if not batches:
                    # Where it is compacted, nothing at all may be left up to the end: then the
                    # leader says where that is, and has nothing to give.
                    return fetcher.ends.get(0, -1) >= end
                self._position = fetcher.positions[0]
        finally:
            fetcher.close()
        return True


def _united(topics: Iterable[_Topic]) -> dict[int, Schema]:
    found: dict[int, Schema] = {}
    for each in topics:
        found = {**each.schemas, **found}
    return found


def _is_of_schemas(name: str) -> bool:
    return name == SCHEMAS or name.endswith(f".{SCHEMAS}")
