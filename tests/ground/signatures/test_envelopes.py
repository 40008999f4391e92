"""DSSE envelopes."""

import json
from base64 import b64decode

import pytest

from ground.signatures.envelopes import IN_TOTO, BadEnvelope, Envelope
from ground.signatures.keys import SigningKey

AUDIT, LOADER, OTHER = (SigningKey.new() for _ in range(3))
KEYS = {key.public.fingerprint: key.public for key in (AUDIT, LOADER)}


def test_two_signatures() -> None:
    envelope = Envelope(b'{"a": 1}', IN_TOTO).and_signed(AUDIT).and_signed(LOADER)
    read = Envelope.decode(envelope.encoded)
    assert read == envelope
    assert read.signers(KEYS) == set(KEYS)


def test_what_is_signed_is_as_dsse_has_it() -> None:
    """The example of DSSE's specification."""
    envelope = Envelope(b"hello world", "http://example.com/HelloWorld")
    assert envelope.signed_bytes == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_the_json_is_as_dsse_has_it() -> None:
    envelope = Envelope(b"payload", IN_TOTO).and_signed(AUDIT)
    content = json.loads(envelope.encoded)
    assert set(content) == {"payload", "payloadType", "signatures"}
    assert b64decode(content["payload"]) == b"payload"
    assert [signature["keyid"] for signature in content["signatures"]] == [AUDIT.public.fingerprint]


def test_signing_twice_leaves_one_signature() -> None:
    envelope = Envelope(b"", IN_TOTO).and_signed(AUDIT).and_signed(AUDIT)
    assert len(envelope.signatures) == 1


def test_a_signature_of_a_key_that_is_not_asked_for_does_not_count() -> None:
    envelope = Envelope(b"{}", IN_TOTO).and_signed(OTHER).and_signed(LOADER)
    assert envelope.signers(KEYS) == {LOADER.public.fingerprint}


@pytest.mark.parametrize(("payload", "payload_type"), [(b"{ }", IN_TOTO), (b"{}", "text/plain")])
def test_a_changed_envelope_is_rejected(payload: bytes, payload_type: str) -> None:
    envelope = Envelope(b"{}", IN_TOTO).and_signed(AUDIT)
    changed = Envelope(payload, payload_type, envelope.signatures)
    with pytest.raises(BadEnvelope, match=AUDIT.public.fingerprint):
        changed.signers(KEYS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"payload": "*", "payloadType": "", "signatures": []}',
        b'{"payload": "", "payloadType": "", "signatures": [%s]}'
        % b",".join([b'{"keyid": "", "sig": ""}'] * 17),
    ],
)
def test_nonsense_is_rejected(content: bytes) -> None:
    with pytest.raises(BadEnvelope):
        Envelope.decode(content)


@pytest.mark.parametrize(
    "content",
    [
        b'{"\xe5ayload":"","payloadType":"","signatures":[]}',  # not UTF-8
        '{"payload":"ä","payloadType":"","signatures":[]}'.encode(),
        b'{"payload":"QQ==","payloadType":"","signatures":[]}'.replace(b"QQ", b"QR"),  # stray bits
    ],
)
def test_a_payload_has_one_encoding(content: bytes) -> None:
    with pytest.raises(BadEnvelope, match="not a DSSE envelope"):
        Envelope.decode(content)
