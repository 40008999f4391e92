"""Digests of agents' passages, by which a reader of batches sees whether they are the agent's.

    digest of a batch      SHA-256 of its bytes from the attributes on, as the CRC covers them
    digest of a passage    the first 16 bytes of the SHA-256 of its batches' digests, one after the
                           other in the order of their offsets

Brokers and mirrors change the base offset, the leader epoch and the CRC's field, which precede the
attributes, and otherwise nothing. A batch whose timestamps the broker sets (LogAppendTime) is
another than the agent's: its digest proves nothing.

A CRC finds what breaks, but whoever stores batches can change them so that it stays. Only the agent
states a passage's digest, in an entry that its signature covers. Pure.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from wire.record_batches.batch import CRC_START

PASSAGE_BYTES: Final = 16
BATCH_BYTES: Final = 32


Buffer = bytes | bytearray | memoryview


def digest_of_batch(batch: Buffer, rest: Buffer = b"") -> bytes:
    """Returns the digest of a batch, given from its base offset on, in one piece or in two."""
    digest = sha256(memoryview(batch)[CRC_START:])
    digest.update(rest)
    return digest.digest()


def digest_of_passage(digests: Iterable[bytes]) -> bytes:
    """Returns the digest of the passage with batches of these digests, in the order of offsets."""
    return sha256(b"".join(digests)).digest()[:PASSAGE_BYTES]
