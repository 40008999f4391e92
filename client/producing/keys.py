"""Maps keys to partitions as Kafka's clients do, by murmur2. Pure."""

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
    """Returns an unsigned 32-bit hash of the key."""
    word_count = len(key) // _WORD
    digest = _SEED ^ len(key)
    for word in struct.unpack_from(f"<{word_count}I", key):
        mixed_word = word * _FACTOR & _MASK
        mixed_word = (mixed_word ^ mixed_word >> 24) * _FACTOR & _MASK
        digest = (digest * _FACTOR & _MASK) ^ mixed_word
    if rest_bytes := key[word_count * _WORD :]:
        digest = (digest ^ int.from_bytes(rest_bytes, "little")) * _FACTOR & _MASK
    digest = (digest ^ digest >> 13) * _FACTOR & _MASK
    return digest ^ digest >> 15
