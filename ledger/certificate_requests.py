"""What a loader asks of an audit about hour certificates, and the audit's answer.

    POST /api/v1/certificates                    a `Request` and the `Answers` to it, as JSON
    GET  /api/v1/certificates/heads/{sha256}     a heads file that an answer has named

The loader sends its part of consecutive certificates of one table. The audit judges each hour, adds
its judgement, and signs the certificate. An hour that it does not call complete gets a reason, and
takes no number.

Rule 1: a certificate is a function of the loader's part, the audit's judgement, its number, and the
        certificate before it (`certificate_of`). So the loader makes the payload again, from its
        own part and the judgement in the answer, and accepts only the same bytes (`accepted`).
Rule 2: the audit keeps nothing of a request. If an answer is lost, the request is sent again.

Pure.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from ground.signatures.envelopes import IN_TOTO, BadEnvelope, Envelope, Signature
from ground.signatures.keys import KEY_BYTES, PublicKey
from ledger.heads_files import is_path_of
from ledger.hour_certificates import (
    COMPLETE,
    BadCertificate,
    Certificate,
    Exceptions,
    HeadsFile,
    Hour,
    OffsetRange,
    Subject,
    Superseded,
    digest_of,
)

PATH: Final = "/api/v1/certificates"
HEADS_PATH: Final = f"{PATH}/heads/"
MOST_HOURS: Final = 24  # of a request
MOST_BYTES: Final = 8 * 1024 * 1024  # of a request
AUDIT: Final = "audit"  # in `versions`
LOADER: Final = "loader"


class BadAnswer(Exception):
    """The audit's answer does not fit the request; the message continues `the answer …`."""


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The loader's part of a certificate. With `before`, the envelope of the hour's certificate
    before this one, the hour has the same rows in other files."""

    topic: str
    topic_id: str
    hour: int  # its beginning, milliseconds
    rows: int
    subject: tuple[Subject, ...]
    offsets: tuple[OffsetRange, ...] = ()
    supersedes: tuple[Superseded, ...] = ()
    rebuilt: int = 0  # when it was rebuilt with fewer rows than before, milliseconds; 0: never
    before: bytes = b""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Drafts of a table's next certificates, in the order of their numbers."""

    cluster: str
    table: str
    destination: str  # the root's name in the ledger
    version: str  # of the loader
    number: int  # of the first
    previous: str | None  # the digest of the certificate before the first
    hours: tuple[Draft, ...]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The audit's part of a certificate."""

    judged_at: str
    counts: dict[str, int]
    exceptions: Exceptions = Exceptions()
    origins: tuple[str, ...] = ()
    heads: HeadsFile | None = None
    version: str  # of the audit


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer about one hour: a signed certificate, or why there is none."""

    payload: bytes = b""
    signature: Signature | None = None
    refused: str = ""
    soon: bool = False  # whether the reason may be gone in a few seconds


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to a request, in its order."""

    key: bytes  # the audit's public key
    hours: tuple[Answer, ...]


def time_text(millis: int) -> str:
    """A time such as 2026-11-30T10:00:00Z."""
    return datetime.fromtimestamp(millis // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def certificate_of(
    request: Request, draft: Draft, judgement: Judgement, number: int, previous: str | None
) -> Certificate:
    return Certificate(
        subject=draft.subject,
        predicate=Hour(
            table=request.table,
            topic=draft.topic,
            topic_id=draft.topic_id,
            cluster=request.cluster,
            origins=judgement.origins,
            hour=time_text(draft.hour),
            number=number,
            previous=previous,
            supersedes=draft.supersedes,
            judged_at=judgement.judged_at,
            offsets=draft.offsets,
            rows=draft.rows,
            counts=judgement.counts,
            exceptions=judgement.exceptions,
            heads=judgement.heads,
            versions={AUDIT: judgement.version, LOADER: request.version},
        ),
    )


def judgement_in(certificate: Certificate) -> Judgement:
    predicate = certificate.predicate
    return Judgement(
        judged_at=predicate.judged_at,
        counts=predicate.counts,
        exceptions=predicate.exceptions,
        origins=predicate.origins,
        heads=predicate.heads,
        version=predicate.versions.get(AUDIT, ""),
    )


def accepted(
    request: Request, answers: Answers, audit: PublicKey | None = None
) -> Iterator[tuple[Draft, Envelope]]:
    """The certificates that the audit has signed. `audit` is its key, if that is known. Raises
    BadAnswer."""
    if len(answers.hours) != len(request.hours):
        raise BadAnswer(f"is about {len(answers.hours)} hours instead of {len(request.hours)}")
    if len(answers.key) != KEY_BYTES or (audit is not None and answers.key != audit.raw):
        raise BadAnswer("is signed with another key than the audit's")
    key = PublicKey(answers.key)
    number, previous = request.number, request.previous
    for draft, answer in zip(request.hours, answers.hours, strict=True):
        if answer.refused or answer.signature is None:
            continue
        try:
            certificate = Certificate.decode(answer.payload)
        except BadCertificate as error:
            raise BadAnswer(f"has no certificate: it is {error}") from None
        expected = certificate_of(request, draft, judgement_in(certificate), number, previous)
        heads = certificate.predicate.heads
        if heads is not None and not is_path_of(heads.path, heads.sha256):
            raise BadAnswer(f"names a heads file of hour {time_text(draft.hour)} as nobody may")
        if certificate.predicate.verdict != COMPLETE or expected.payload != answer.payload:
            raise BadAnswer(f"changes the loader's part of hour {time_text(draft.hour)}")
        envelope = Envelope(answer.payload, IN_TOTO, (answer.signature,))
        if not is_signed_by(envelope, key):
            raise BadAnswer(f"has a wrong signature of hour {time_text(draft.hour)}")
        yield draft, envelope
        number, previous = number + 1, digest_of(answer.payload)


def is_signed_by(envelope: Envelope, key: PublicKey) -> bool:
    try:
        return bool(envelope.signers({key.fingerprint: key}))
    except BadEnvelope:
        return False


def same_rows_before(request: Request, draft: Draft, audit: PublicKey) -> Certificate | None:
    """The certificate that the draft replaces, if this audit has signed it for the same rows."""
    if not draft.before:
        return None
    try:
        envelope = Envelope.decode(draft.before)
        before = Certificate.decode(envelope.payload)
    except (BadEnvelope, BadCertificate):
        return None
    hour = before.predicate
    is_same = (
        (hour.cluster, hour.table) == (request.cluster, request.table)
        and (hour.topic, hour.topic_id) == (draft.topic, draft.topic_id)
        and (hour.hour, hour.rows) == (time_text(draft.hour), draft.rows)
    )
    return before if is_same and is_signed_by(envelope, audit) else None
