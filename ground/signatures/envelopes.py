"""DSSE envelopes: documents with signatures over their exact bytes.

An envelope is JSON, as https://github.com/secure-systems-lab/dsse defines it: the payload and its
type, and for each signature the key's id, which here is the key's fingerprint. What is signed is
the pre-authentication encoding of type and payload, so a payload of one type is never taken for one
of another. Any verifier of DSSE can check it. There is one encoding of each payload and signature:
base64 whose unused bits are not 0 is rejected.

Pure.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Final, Self

import msgspec

from ground.known_types import known_type
from ground.signatures.keys import PublicKey, SigningKey

IN_TOTO: Final = "application/vnd.in-toto+json"
MOST_BYTES: Final = 64 * 1024 * 1024  # of an envelope
MOST_SIGNATURES: Final = 16


class BadEnvelope(Exception):
    """The bytes are not an envelope; the message says why."""


class Signature(msgspec.Struct, frozen=True):
    """A signature, and the fingerprint of its key."""

    keyid: str
    sig: str  # base64


class _Json(msgspec.Struct, frozen=True, rename={"payload_type": "payloadType"}):
    payload: str
    payload_type: str
    signatures: tuple[Signature, ...]


class Envelope(msgspec.Struct, frozen=True):
    """A payload and its signatures."""

    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...] = ()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Raises BadEnvelope."""
        if len(content) > MOST_BYTES:
            raise BadEnvelope(f"longer than {MOST_BYTES:,} bytes")
        try:
            json = msgspec.json.decode(content, type=known_type(_Json))
            payload = b64decode(json.payload, validate=True)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadEnvelope(f"not a DSSE envelope: {error}") from None
        if b64encode(payload).decode() != json.payload:
            raise BadEnvelope("not a DSSE envelope: the base64 of its payload has stray bits")
        if len(json.signatures) > MOST_SIGNATURES:
            raise BadEnvelope(f"more than {MOST_SIGNATURES} signatures")
        return cls(payload, json.payload_type, json.signatures)

    @property
    def encoded(self) -> bytes:
        """The envelope as JSON."""
        payload = b64encode(self.payload).decode()
        return msgspec.json.encode(_Json(payload, self.payload_type, self.signatures))

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that signatures are made of."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(self.payload), self.payload)

    def and_signed(self, key: SigningKey) -> Self:
        """Returns the envelope with the signature of this key, which replaces an earlier one."""
        signature = Signature(
            key.public.fingerprint, b64encode(key.sign(self.signed_bytes)).decode()
        )
        others = (other for other in self.signatures if other.keyid != signature.keyid)
        return msgspec.structs.replace(self, signatures=(*others, signature))

    def and_signatures(self, signatures: Iterable[Signature]) -> Self:
        return msgspec.structs.replace(self, signatures=(*self.signatures, *signatures))

    def signers(self, keys: Mapping[str, PublicKey]) -> frozenset[str]:
        """Returns the fingerprints of those keys, given by fingerprint, whose signature is right.
        Raises BadEnvelope if one of these keys has a signature that is wrong."""
        signers: set[str] = set()
        for signature in self.signatures:
            key = keys.get(signature.keyid)
            if key is None:
                continue
            try:
                raw = b64decode(signature.sig, validate=True)
            except ValueError:
                raw = b""
            if b64encode(raw).decode() != signature.sig:
                raise BadEnvelope(f"the signature of the key {signature.keyid} has stray bits")
            if not key.verifies(raw, self.signed_bytes):
                raise BadEnvelope(f"the signature of the key {signature.keyid} is wrong")
            signers.add(signature.keyid)
        return frozenset(signers)
