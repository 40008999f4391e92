"""Parsed schemas, remembered: the last ones that were asked for, up to a size of their texts.

Safe to share between threads, since nothing that is remembered depends on anything but its key.
"""

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

from schemas.parsing import AvroSchema, parse

# Of all texts together. A parsed schema takes some twenty times the memory of its text.
_CHARACTERS: Final = 4 * 1024 * 1024


class _Key(NamedTuple):
    text: str
    references: tuple[str, ...]
    strict: bool
    normalize: bool

    @property
    def size(self) -> int:
        return len(self.text) + sum(map(len, self.references))


class RememberedSchemas:
    def __init__(self, characters: int = _CHARACTERS) -> None:
        self._room = characters
        self._schemas: OrderedDict[_Key, AvroSchema] = OrderedDict()
        self._lock = threading.Lock()

    def parsed(
        self, text: str, references: tuple[str, ...], *, strict: bool, normalize: bool = False
    ) -> AvroSchema:
        """The schema; InvalidSchema each time that it is asked for and is none."""
        key = _Key(text, references, strict, normalize)
        with self._lock:
            found = self._schemas.get(key)
            if found is not None:
                self._schemas.move_to_end(key)
                return found
        schema = parse(text, references, strict=strict)
        if normalize:
            schema = schema.normalized()
        with self._lock:
            if key not in self._schemas:
                self._schemas[key] = schema
                self._room -= key.size
            while self._room < 0 and len(self._schemas) > 1:
                oldest, _ = self._schemas.popitem(last=False)
                self._room += oldest.size
        return schema

    def __len__(self) -> int:
        return len(self._schemas)
