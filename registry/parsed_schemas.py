"""Parsing of stored and sent schemas with the references resolved from the contents.

Parsing is the costly part of every write and of most lookups, so results are cached: they depend on
texts alone.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from registry.errors import ErrorAnswer, invalid_schema, schema_too_large
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import AVRO, Reference, Version
from schemas.definitions.json_reading import MAX_LENGTH
from schemas.errors import InvalidSchema
from schemas.parsing import MAX_STORED_LENGTH, AvroSchema, parse

Key = TypeVar("Key")
Value = TypeVar("Value")

_MOST_REFERENCES: Final = 1000  # of one schema, transitively
_MOST_SENT: Final = 10_000  # of one schema, duplicates included
_DEEPEST_REFERENCE: Final = 50
_TOO_MANY: Final = "too many or too large references"
LATEST: Final = -1
_SCHEMAS: Final = 1024 * 1024  # total characters of cached schemas
_TEXTS: Final = 16 * 1024 * 1024  # total characters of cached texts
_MEANINGS: Final = 16 * 1024 * 1024  # the same budget, though entries have no text
_ENTRY: Final = 300  # overhead of a cache entry, in characters


class Sent(NamedTuple):
    """A schema's text as sent, the texts of its references, and the parsing options."""

    text: str
    references: tuple[str, ...] = ()
    strict: bool = True
    normalize: bool = False

    @property
    def size(self) -> int:
        return len(self.text) + sum(map(len, self.references))

    @property
    def digest(self) -> bytes:
        """Hash of all but `strict`, which does not change the text that is stored."""
        digest = hashlib.blake2b(bytes([self.normalize]), digest_size=16)
        for text in (self.text, *self.references):
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8))
            digest.update(encoded)
        return digest.digest()


class LruCache(Generic[Key, Value]):
    """A thread-safe cache of bounded total size that holds at least one value."""

    def __init__(self, capacity: int) -> None:
        self._room = capacity
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        with self._lock:
            if key in self._values:
                return
            size += _ENTRY
            self._values[key] = value, size
            self._room -= size
            while self._room < 0 and len(self._values) > 1:
                _, (_, freed_size) = self._values.popitem(last=False)
                self._room += freed_size

    def __len__(self) -> int:
        return len(self._values)


class ParsedSchemaCache:
    """Caches of recently used parsed schemas.

    Mostly only the text that the registry stores for a sent schema is needed: it is small, so many
    are cached. Parsed schemas take about twenty times their text, and are needed only for
    comparisons. Safe to share between threads, since each value depends on its key alone.
    """

    def __init__(self, schemas: int = _SCHEMAS, texts: int = _TEXTS) -> None:
        """Capacities in characters."""
        self.schemas: LruCache[Sent, AvroSchema] = LruCache(schemas)
        self.texts: LruCache[bytes, str] = LruCache(texts)
        self.meanings: LruCache[bytes, bytes] = LruCache(_MEANINGS)

    def stored_text(self, sent: Sent) -> str:
        """Returns the text that a registry stores for the schema. Raises InvalidSchema."""
        digest = sent.digest
        text = self.texts.get(digest)
        if text is None:
            text = self.schema(sent).text
            self.texts.put(digest, text, len(text))
        return text

    def meaning(self, sent: Sent) -> bytes:
        """Returns a hash that is equal for schemas that differ only in the order of properties."""
        digest = sent.digest
        meaning = self.meanings.get(digest)
        if meaning is None:
            text = self.schema(sent).resolved_text if sent.references else self.stored_text(sent)
            canonical_text = msgspec.json.encode(msgspec.json.decode(text), order="sorted")
            meaning = hashlib.blake2b(canonical_text, digest_size=16).digest()
            self.meanings.put(digest, meaning, 0)
        return meaning

    def schema(self, sent: Sent) -> AvroSchema:
        """Returns the parsed schema. Raises InvalidSchema."""
        strict = sent._replace(strict=True)
        schema = self.schemas.get(strict)
        if schema is None and not sent.strict:
            schema = self.schemas.get(sent)
        if schema is not None:
            return schema
        try:
            return self._parsed(strict)
        except InvalidSchema:
            if sent.strict:
                raise
        return self._parsed(sent)

    def _parsed(self, sent: Sent) -> AvroSchema:
        schema = parse(sent.text, sent.references, strict=sent.strict)
        if sent.normalize:
            schema = schema.normalized()
        self.schemas.put(sent, schema, sent.size)
        return schema


_cache = ParsedSchemaCache()


class SentSchema(msgspec.Struct, frozen=True):
    """A schema that a client sent or that is stored here, parsed on the calling thread.

    Invalid schemas raise ErrorAnswer. `references` are as they would be stored.
    """

    sent: Sent
    references: tuple[Reference, ...]

    @property
    def stored_text(self) -> str:
        """The text that the registry would store."""
        try:
            return _cache.stored_text(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None

    @property
    def meaning(self) -> bytes:
        """A hash that is equal for schemas that differ only in the order of properties."""
        try:
            return _cache.meaning(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None

    def parsed(self) -> AvroSchema:
        try:
            return _cache.schema(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None


def sent_schema(
    contents: RegistryContents, request: SchemaRequest, *, strict: bool, normalize: bool
) -> SentSchema:
    """Returns the request's schema with its references resolved."""
    if request.type != AVRO:
        raise invalid_schema(f"Invalid schema type {request.type:.40}")
    if len(request.text) > MAX_LENGTH:
        raise schema_too_large()
    try:
        references = _pinned(contents, request.references or ())
        if normalize:
            references = _in_order(references)
        texts = _texts(contents, references, deleted=not strict)
    except InvalidSchema as error:
        raise _invalid(error) from None
    return SentSchema(Sent(request.text, texts, strict, normalize), references)


def _invalid(error: InvalidSchema) -> ErrorAnswer:
    return invalid_schema(f"Invalid schema of type {AVRO}, details: {error}")


def stored_schema(contents: RegistryContents, version: Version) -> SentSchema | None:
    """Returns a stored version as if it were sent now; None if it is not Avro or a reference is
    missing."""
    if version.type != AVRO:
        return None
    try:
        texts = _texts(contents, version.references, deleted=True)
    except InvalidSchema:
        return None
    return SentSchema(Sent(version.text, texts, strict=False), version.references)


def _pinned(contents: RegistryContents, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The references with `latest` replaced by the version's number."""
    if len(references) > _MOST_SENT:
        raise InvalidSchema(_TOO_MANY)
    return tuple(
        Reference(
            reference.name,
            reference.subject,
            _find(contents, reference, deleted=False).version,
        )
        if reference.version == LATEST
        else reference
        for reference in references
    )


def _in_order(references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The references in Confluent's normal form: deduplicated, sorted by subject and version.

    Java compares names by their UTF-16. Type names are not compared: two types of one version keep
    their order.
    """

    def place(reference: Reference) -> tuple[bytes, int]:
        return reference.subject.encode("utf-16-be", "surrogatepass"), reference.version

    return tuple(dict.fromkeys(sorted(references, key=place)))


def _texts(
    contents: RegistryContents, references: Sequence[Reference], *, deleted: bool
) -> tuple[str, ...]:
    """The texts of the references, each after the texts that it refers to itself."""
    texts: dict[str, str] = {}
    free_length = MAX_STORED_LENGTH

    def collect(references: Sequence[Reference], path: tuple[str, ...]) -> None:
        nonlocal free_length
        if len(path) > _DEEPEST_REFERENCE or len(texts) > _MOST_REFERENCES or free_length < 0:
            raise InvalidSchema(_TOO_MANY)
        for reference in references:
            if reference.name in texts or reference.name in path:
                continue
            version = _find(contents, reference, deleted=deleted)
            collect(version.references, (*path, reference.name))
            texts[reference.name] = version.text
            free_length -= len(version.text)

    collect(references, ())
    return tuple(texts.values())


def _find(contents: RegistryContents, reference: Reference, *, deleted: bool) -> Version:
    if reference.version == LATEST:
        version = contents.latest(reference.subject)
    else:
        version = contents.version(reference.subject, reference.version, deleted=deleted)
    if version is None or version.type != AVRO:
        raise InvalidSchema(
            f'No schema reference found for subject "{reference.subject}" and version '
            f"{reference.version}"
        )
    return version
