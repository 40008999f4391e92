"""Proofs of ledger entries: a hash chain for each journal, and signatures of its head.

    digest of an entry    SHA-256 of the record's value
    head after an entry   SHA-256 of the head before it and its digest; before the first, 32 zeros
    signature             Ed25519 over `DOMAIN` and the head after the entry

A record with a proof has the header `proof`: a version, the head before the entry, the signature,
and from time to time the journal's public key. So the signature covers the entry and, through the
chain, all entries before it; and an entry with a proof can be checked although the ones before it
are missing.

Rule 1: an agent signs each entry that has heartbeats, and its first after a start; what lies
        between two of them is proven by the chain. All other programs sign every entry.
Rule 2: the key is in the first signed entry after a start, and in one an hour.
Rule 3: an entry is encoded once. If it is sent again, the same bytes are.

Pure.
"""

import hashlib
from typing import Final, Self

import msgspec

from ground.signatures.keys import KEY_BYTES, SIGNATURE_BYTES, PublicKey, SigningKey

HEADER: Final = "proof"
HEAD_BYTES: Final = 32
NO_HEAD: Final = bytes(HEAD_BYTES)
DOMAIN: Final = b"penstock ledger entry 1\0"
KEY_SECONDS: Final = 3600.0  # between two proofs with the key

_VERSION: Final = b"\x01"
_SHORT: Final = len(_VERSION) + HEAD_BYTES + SIGNATURE_BYTES
LONG: Final = _SHORT + KEY_BYTES  # bytes of a proof with the key


class Proof(msgspec.Struct, frozen=True):
    """The proof in one record."""

    previous: bytes  # the head before the entry
    signature: bytes
    key: PublicKey | None = None

    @classmethod
    def decode(cls, header: bytes) -> Self | None:
        """Reads the value of a record's header; None if it is not a proof of this version."""
        if len(header) not in (_SHORT, LONG) or not header.startswith(_VERSION):
            return None
        previous = header[1 : 1 + HEAD_BYTES]
        key = PublicKey(header[_SHORT:]) if len(header) == LONG else None
        return cls(previous, header[1 + HEAD_BYTES : _SHORT], key)

    @property
    def encoded(self) -> bytes:
        key = b"" if self.key is None else self.key.raw
        return b"".join((_VERSION, self.previous, self.signature, key))

    def holds(self, key: PublicKey, digest: bytes) -> bool:
        """Whether the owner of the key has signed an entry with this digest."""
        return key.verifies(self.signature, DOMAIN + head_after(self.previous, digest))


def digest_of(value: bytes | memoryview) -> bytes:
    """Returns the digest of an entry, given as the record's value."""
    return hashlib.sha256(value).digest()


def head_after(head: bytes, digest: bytes) -> bytes:
    return hashlib.sha256(head + digest).digest()


class Chain(msgspec.Struct):
    """The writer's end of a journal's chain. For one thread."""

    key: SigningKey
    head: bytes = NO_HEAD
    """The head after the last entry."""
    _key_at: float | None = None  # when a proof had the key

    def add(self, value: bytes) -> None:
        """Adds an entry without a proof."""
        self.head = head_after(self.head, digest_of(value))

    def prove(self, value: bytes, now: float) -> Proof:
        """Adds an entry, and returns its proof. `now` is a monotonic time in seconds."""
        previous = self.head
        self.add(value)
        has_key = self._key_at is None or now - self._key_at >= KEY_SECONDS
        if has_key:
            self._key_at = now
        signature = self.key.sign(DOMAIN + self.head)
        return Proof(previous, signature, self.key.public if has_key else None)
