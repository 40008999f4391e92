"""Which partition a key goes to: as Kafka's own clients place keys, by murmur2. Pure."""

import struct
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF
_WORD: Final = 4


@lru_cache(maxsize=8_192)
def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(key: bytes) -> int:
    """Without a sign, of 32 bits."""
    whole = len(key) // _WORD
    found = _SEED ^ len(key)
    for word in struct.unpack_from(f"<{whole}I", key):
        mixed = word * _FACTOR & _MASK
        mixed = (mixed ^ mixed >> 24) * _FACTOR & _MASK
        found = (found * _FACTOR & _MASK) ^ mixed
    if rest := key[whole * _WORD :]:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15
