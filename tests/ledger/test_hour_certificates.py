"""Hour certificates as in-toto statements."""

import json

import pytest

from ground.signatures.envelopes import IN_TOTO, Envelope
from ground.signatures.keys import SigningKey
from ledger.hour_certificates import (
    BadCertificate,
    Certificate,
    Digest,
    Hour,
    Newest,
    NewestHour,
    OffsetRange,
    Reference,
    Subject,
    Superseded,
    digest_of,
    envelope_of,
)

FILE = Subject(name="hour=2026-11-30T10/part-0.parquet", digest=Digest(sha256="0" * 64))
CERTIFICATE = Certificate(
    subject=(FILE,),
    predicate=Hour(
        table="clicks",
        topic="clicks",
        topic_id="",
        cluster="main",
        hour="2026-11-30T10:00:00Z",
        number=2,
        previous="1" * 64,
        supersedes=(Superseded(number=1, sha256="1" * 64),),
        judged_at="2026-11-30T11:05:00Z",
        offsets=(OffsetRange(partition=0, first=0, end=260),),
        rows=260,
        counts={"agent": 260, "broker": 260},
        versions={"loader": "0.1.0"},
    ),
)
NEWEST = Newest(
    subject=(FILE,),
    predicate=NewestHour(table="clicks", newest=Reference(number=2, sha256="2" * 64)),
)


def test_both_are_read_as_they_were_written() -> None:
    assert Certificate.decode(CERTIFICATE.payload) == CERTIFICATE
    assert Newest.decode(NEWEST.payload) == NEWEST


def test_a_certificate_is_an_in_toto_statement() -> None:
    statement = json.loads(CERTIFICATE.payload)
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert statement["subject"] == [
        {"name": "hour=2026-11-30T10/part-0.parquet", "digest": {"sha256": "0" * 64}}
    ]
    assert statement["predicate"]["judgedAt"] == "2026-11-30T11:05:00Z"


def test_one_kind_is_not_taken_for_the_other() -> None:
    with pytest.raises(BadCertificate, match="newest-hour"):
        Certificate.decode(NEWEST.payload)
    with pytest.raises(BadCertificate, match="hour/v1"):
        Newest.decode(CERTIFICATE.payload)


def test_the_digest_does_not_depend_on_signatures() -> None:
    envelope = envelope_of(CERTIFICATE).and_signed(SigningKey.new())
    assert digest_of(envelope.payload) == digest_of(CERTIFICATE.payload)
    assert Envelope.decode(envelope.encoded).payload_type == IN_TOTO


@pytest.mark.parametrize("payload", [b"", b"{}", b"[" * 100_000, b'{"_type": 1}'])
def test_nonsense_is_rejected(payload: bytes) -> None:
    for kind in (Certificate, Newest):
        with pytest.raises(BadCertificate):
            kind.decode(payload)
