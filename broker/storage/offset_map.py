"""The last offset of each key, in a table of fixed size: what compaction remembers of a log.

A key is its 16-byte BLAKE2b digest, salted anew for each pass, so that nobody can prepare two keys
that meet. A slot is the digest and the offset plus one, where zero means that it is free. With 24
bytes a slot and open addressing a million keys take 32 MB; a dict of them takes 116.
"""

import os
from hashlib import blake2b
from struct import Struct
from typing import Final

_DIGEST: Final = 16
_OFFSET: Final = Struct("<q")
_START: Final = Struct("<Q")  # the half of the digest that says where the search begins
SLOT: Final = _DIGEST + _OFFSET.size
_LOAD: Final = 0.75  # beyond this the searches become long
NO_OFFSET: Final = -1


class OffsetMap:
    """Key to last offset, for at most `capacity` keys."""

    __slots__ = ("_salt", "_slots", "_table", "capacity", "size")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self._slots = int(capacity / _LOAD) + 1
        self._table = bytearray(self._slots * SLOT)
        self._salt = os.urandom(blake2b.SALT_SIZE)

    def put(self, key: bytes, offset: int) -> None:
        """This key stands at `offset`. The caller keeps `size` within `capacity`."""
        digest = blake2b(key, digest_size=_DIGEST, salt=self._salt).digest()
        at = self._slot(digest)
        if not _OFFSET.unpack_from(self._table, at + _DIGEST)[0]:
            self._table[at : at + _DIGEST] = digest
            self.size += 1
        _OFFSET.pack_into(self._table, at + _DIGEST, offset + 1)

    def get(self, key: bytes) -> int:
        """Where the key was put last; −1 if never."""
        digest = blake2b(key, digest_size=_DIGEST, salt=self._salt).digest()
        (offset,) = _OFFSET.unpack_from(self._table, self._slot(digest) + _DIGEST)
        return int(offset) - 1

    def _slot(self, digest: bytes) -> int:
        """Where in the table this digest is, or would be."""
        table, slots = self._table, self._slots
        slot: int = _START.unpack_from(digest)[0] % slots
        while True:
            at = slot * SLOT
            found = table[at : at + _DIGEST]
            if found == digest or not _OFFSET.unpack_from(table, at + _DIGEST)[0]:
                return at
            slot = slot + 1 if slot + 1 < slots else 0


def capacity_of(table_bytes: int) -> int:
    """How many keys a table of this size takes."""
    return int(table_bytes / SLOT * _LOAD)
