"""Schemas that were parsed, remembered: the last ones that were asked for.

Of most it is enough to know which text a registry stores for what was sent: that takes little, and
is remembered of many. The schemas themselves take some twenty times their texts, and are needed
only where they are compared. Safe to share between threads, since nothing that is remembered
depends on anything but its key.
"""

import hashlib
import threading
from collections import OrderedDict
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema, parse

Key = TypeVar("Key")
Value = TypeVar("Value")

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
