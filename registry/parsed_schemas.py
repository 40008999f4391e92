"""Schemas as they are stored and sent, parsed, with what they refer to found in the contents.

Parsing is the costly part of every write and of most lookups, so what has been parsed is
remembered: it depends on texts alone.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from registry.contents import RegistryContents
from registry.errors import Answered, invalid_schema, schema_too_large
from registry.requests import SchemaRequest
from registry.values import AVRO, Reference, Version
from schemas.definitions.json_reading import MAX_LENGTH
from schemas.errors import InvalidSchema
from schemas.parsing import MAX_STORED_LENGTH, AvroSchema, parse

Key = TypeVar("Key")
Value = TypeVar("Value")

_MOST_REFERENCES: Final = 1000  # of one schema, with those that its references have
_MOST_SENT: Final = 10_000  # of one schema, if the same ones are sent again and again
_DEEPEST_REFERENCE: Final = 50
_TOO_MANY: Final = "it refers to too many schemas, or to too large ones"
LATEST: Final = -1
_SCHEMAS: Final = 1024 * 1024  # characters of all their texts together
_TEXTS: Final = 16 * 1024 * 1024  # the same
_MEANINGS: Final = 16 * 1024 * 1024  # the same, for entries without any text
_ENTRY: Final = 300  # what one takes beside its text, as characters


class Sent(NamedTuple):
    """A schema's text as it was sent, those it refers to, and how it is to be taken."""

    text: str
    references: tuple[str, ...] = ()
    strict: bool = True
    normalize: bool = False

    @property
    def size(self) -> int:
        return len(self.text) + sum(map(len, self.references))

    @property
    def digest(self) -> bytes:
        """Of all but `strict`: what is taken strictly is stored as it would be otherwise."""
        found = hashlib.blake2b(bytes([self.normalize]), digest_size=16)
        for text in (self.text, *self.references):
            written = text.encode("utf-8", "surrogatepass")
            found.update(len(written).to_bytes(8))
            found.update(written)
        return found.digest()


class Last(Generic[Key, Value]):
    """The values that were asked for last, as many as have room; at least one."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        with self._lock:
            if key in self._values:
                return
            size += _ENTRY
            self._values[key] = value, size
            self._room -= size
            while self._room < 0 and len(self._values) > 1:
                _, (_, freed) = self._values.popitem(last=False)
                self._room += freed

    def __len__(self) -> int:
        return len(self._values)


class RememberedSchemas:
    """Schemas that were parsed: the last ones that were asked for.

    Of most it is enough to know which text a registry stores for what was sent: that takes little,
    and is remembered of many. The schemas themselves take some twenty times their texts, and are
    needed only where they are compared. Safe to share between threads, since nothing that is
    remembered depends on anything but its key.
    """

    def __init__(self, schemas: int = _SCHEMAS, texts: int = _TEXTS) -> None:
        """How many characters of each are remembered."""
        self.schemas: Last[Sent, AvroSchema] = Last(schemas)
        self.texts: Last[bytes, str] = Last(texts)
        self.meanings: Last[bytes, bytes] = Last(_MEANINGS)

    def stored_text(self, sent: Sent) -> str:
        """What a registry stores for it; InvalidSchema each time if it is none."""
        digest = sent.digest
        text = self.texts.get(digest)
        if text is None:
            text = self.schema(sent).text
            self.texts.put(digest, text, len(text))
        return text

    def meaning(self, sent: Sent) -> bytes:
        """The same for schemas that differ in nothing but the order of properties."""
        digest = sent.digest
        meaning = self.meanings.get(digest)
        if meaning is None:
            text = self.schema(sent).resolved_text if sent.references else self.stored_text(sent)
            written = msgspec.json.encode(msgspec.json.decode(text), order="sorted")
            meaning = hashlib.blake2b(written, digest_size=16).digest()
            self.meanings.put(digest, meaning, 0)
        return meaning

    def schema(self, sent: Sent) -> AvroSchema:
        """The schema; InvalidSchema each time that it is asked for and is none."""
        strictly = sent._replace(strict=True)
        found = self.schemas.get(strictly)
        if found is None and not sent.strict:
            found = self.schemas.get(sent)
        if found is not None:
            return found
        try:
            return self._parsed(strictly)
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


_remembered = RememberedSchemas()


class SentSchema(msgspec.Struct, frozen=True):
    """A schema that a client sent, or one that stands here: parsed in whichever thread asks for it.

    Answered says what is wrong with it, each time. `references` are as they would be stored.
    """

    sent: Sent
    references: tuple[Reference, ...]

    @property
    def stored_text(self) -> str:
        """What would stand in the registry."""
        try:
            return _remembered.stored_text(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None

    @property
    def meaning(self) -> bytes:
        """What it shares with those that differ from it in the order of properties alone."""
        try:
            return _remembered.meaning(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None

    def parsed(self) -> AvroSchema:
        try:
            return _remembered.schema(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None


def sent_schema(
    contents: RegistryContents, request: SchemaRequest, *, strict: bool, normalize: bool
) -> SentSchema:
    """What the request has, with what it refers to."""
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


def _invalid(error: InvalidSchema) -> Answered:
    return invalid_schema(f"Invalid schema of type {AVRO}, details: {error}")


def stored_schema(contents: RegistryContents, version: Version) -> SentSchema | None:
    """A version, as if it were sent now; None if what it is or refers to is not there."""
    if version.type != AVRO:
        return None
    try:
        texts = _texts(contents, version.references, deleted=True)
    except InvalidSchema:
        return None
    return SentSchema(Sent(version.text, texts, strict=False), version.references)


def _pinned(contents: RegistryContents, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The same, where those that name the latest version name its number."""
    if len(references) > _MOST_SENT:
        raise InvalidSchema(_TOO_MANY)
    return tuple(
        Reference(each.name, each.subject, _find(contents, each, deleted=False).version)
        if each.version == LATEST
        else each
        for each in references
    )


def _in_order(references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The same in a normal form, as Confluent's registry has it: each once, by subject and version.

    Java compares names by their UTF-16. Names of types are not compared: two of one version stay
    in the order in which they came.
    """

    def place(reference: Reference) -> tuple[bytes, int]:
        return reference.subject.encode("utf-16-be", "surrogatepass"), reference.version

    return tuple(dict.fromkeys(sorted(references, key=place)))


def _texts(
    contents: RegistryContents, references: Sequence[Reference], *, deleted: bool
) -> tuple[str, ...]:
    """The texts that these stand for, each after all that it refers to itself."""
    texts: dict[str, str] = {}
    room = MAX_STORED_LENGTH

    def collect(references: Sequence[Reference], path: tuple[str, ...]) -> None:
        nonlocal room
        if len(path) > _DEEPEST_REFERENCE or len(texts) > _MOST_REFERENCES or room < 0:
            raise InvalidSchema(_TOO_MANY)
        for reference in references:
            if reference.name in texts or reference.name in path:
                continue
            found = _find(contents, reference, deleted=deleted)
            collect(found.references, (*path, reference.name))
            texts[reference.name] = found.text
            room -= len(found.text)

    collect(references, ())
    return tuple(texts.values())


def _find(contents: RegistryContents, reference: Reference, *, deleted: bool) -> Version:
    if reference.version == LATEST:
        found = contents.latest(reference.subject)
    else:
        found = contents.version(reference.subject, reference.version, deleted=deleted)
    if found is None or found.type != AVRO:
        raise InvalidSchema(
            f'No schema reference found for subject "{reference.subject}" and version '
            f"{reference.version}"
        )
    return found
