"""Telling contents from each other by their first bytes.

A fingerprint is taken of what a file has, up to 1 KiB, and grows with it. Two files whose
fingerprints agree may still differ further on; what is at stake decides who looks there.
"""

import hashlib
import os
from typing import Final

from agent.runs import Fingerprint

FULL: Final = 1024
TAIL: Final = 64
_LEVELS: Final = (16, 32, 64, 128, 256, 512, 1024)
_SHORT: Final = 4
NONE: Final = Fingerprint(0, b"")

_SAMPLES: Final = 32
_SAMPLE_BYTES: Final = 4096


def fingerprint(head: bytes) -> Fingerprint:
    """Of a file's first bytes."""
    head = head[:FULL]
    if not head:
        return NONE
    shorter = (_digest(head[:size])[:_SHORT] for size in _LEVELS if size <= len(head))
    return Fingerprint(len(head), _digest(head), b"".join(shorter))


def begins(known: Fingerprint, head: bytes) -> bool:
    """Whether a file with these first bytes begins as the fingerprint says."""
    return len(head) >= known.size and (
        not known.size or _digest(head[: known.size]) == known.digest
    )


def read_head(fd: int) -> bytes:
    return os.pread(fd, FULL, 0)


def read_tail(fd: int, position: int) -> bytes:
    """What stands before a position: less, if the file is smaller."""
    length = min(TAIL, position)
    return os.pread(fd, length, position - length)


def same_content(one: int, other: int, size: int) -> bool:
    """Whether two open files agree in their first so many bytes, as far as samples show.

    Up to 128 KiB everything is compared; beyond, blocks that are spread evenly, the last included.
    """
    last = max(0, size - _SAMPLE_BYTES)
    step = max(_SAMPLE_BYTES, last // (_SAMPLES - 1))
    for position in sorted({*range(0, last, step), last}):
        length = min(_SAMPLE_BYTES, size - position)
        block = os.pread(one, length, position)
        if len(block) < length or block != os.pread(other, length, position):
            return False
    return True


def _digest(head: bytes) -> bytes:
    return hashlib.blake2b(head, digest_size=16).digest()
