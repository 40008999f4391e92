"""Hour certificates: what a loader and an audit sign about one complete hour of a table.

    {folder of the hour}/_CERTIFICATE.json          the hour's certificate
    _penstock/{table}/newest_certificate.json       which certificate of the table is the newest

Both are DSSE envelopes (ground/signatures/envelopes.py) of in-toto Statements v1. The subjects of a
certificate are the hour's files, with paths below the table's folder. The audit signs what it has
judged, the loader what it has written: both sign the same bytes.

Rule 1: certificates of a table are numbered from 1, without gaps, and each has the digest of the
        one before it.
Rule 2: a certificate that replaces others of its hour lists them, each with its digest and that of
        the one before it. So the whole chain is known from the certificates that are in place.
Rule 3: the digest of a certificate is the SHA-256 of its payload, whoever signed it.

Pure.
"""

import hashlib
from typing import Any, Final, Self, TypeVar

import msgspec

from ground.known_types import known_type
from ground.signatures.envelopes import IN_TOTO, Envelope

CERTIFICATE: Final = "_CERTIFICATE.json"
NEWEST: Final = "newest_certificate.json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
HOUR_TYPE: Final = "https://penstock.dev/hour/v1"
NEWEST_TYPE: Final = "https://penstock.dev/newest-hour/v1"
COMPLETE: Final = "complete"

S = TypeVar("S")


class BadCertificate(Exception):
    """A payload is not an hour certificate; the message says why."""


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    """JSON with names as in-toto has them."""


class Digest(_Camel, frozen=True, kw_only=True):
    sha256: str  # hexadecimal


class Subject(_Camel, frozen=True, kw_only=True):
    """A landed file."""

    name: str  # the path below the table's folder
    digest: Digest


class OffsetRange(_Camel, frozen=True, kw_only=True):
    """Consecutive offsets of one partition that had been loaded when the hour was judged."""

    partition: int
    first: int
    end: int  # the offset after the last
    leader_epoch: int = -1  # of the last; -1 if unknown


class Reference(_Camel, frozen=True, kw_only=True):
    """Another certificate of the table."""

    number: int
    sha256: str


class Superseded(_Camel, frozen=True, kw_only=True):
    """A certificate of the same hour that this one replaces."""

    number: int
    sha256: str
    previous: str | None = None  # the digest of the one before it


class Acceptance(_Camel, frozen=True, kw_only=True):
    """Faults of the hour that an operator has accepted."""

    kind: str
    count: int  # of events; -1 if unknown
    operator: str
    reason: str


class Exceptions(_Camel, frozen=True, kw_only=True):
    """Lines and events that became no row, and changed text."""

    filtered: int = 0
    dead_lettered: int = 0
    lost: int = 0
    duplicates: int = 0
    altered: int = 0
    accepted: tuple[Acceptance, ...] = ()


class HeadsFile(_Camel, frozen=True, kw_only=True):
    """The file with the signed heads of agents' journals (heads_files.py)."""

    path: str  # below the root of the tables
    sha256: str
    cluster: str  # to which these agents ship: of a copy, where its origin is
    topic: str  # of that cluster
    agents: int  # that ship to the topic, or did: those in the file


class Hour(_Camel, frozen=True, kw_only=True):
    """The predicate of a certificate."""

    table: str
    topic: str
    topic_id: str
    cluster: str
    origins: tuple[str, ...] = ()  # clusters that this one's topic is a copy of
    hour: str  # its beginning, such as 2026-11-30T10:00:00Z
    number: int
    previous: str | None = None  # the digest of the certificate before this one
    supersedes: tuple[Superseded, ...] = ()
    verdict: str = COMPLETE
    judged_at: str
    offsets: tuple[OffsetRange, ...] = ()
    rows: int
    counts: dict[str, int]  # the hour's events by tier, as the audit has them
    exceptions: Exceptions = Exceptions()
    heads: HeadsFile | None = None
    versions: dict[str, str]  # by program


class Certificate(_Camel, frozen=True, kw_only=True):
    """An in-toto Statement about one hour."""

    subject: tuple[Subject, ...]
    predicate: Hour

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises BadCertificate."""
        return _statement(payload, HOUR_TYPE, cls)

    @property
    def payload(self) -> bytes:
        return _payload(HOUR_TYPE, self)


class NewestHour(_Camel, frozen=True, kw_only=True):
    """The predicate about a table: its newest certificate, and which hours had no rows."""

    table: str
    newest: Reference
    empty_hours: tuple[tuple[str, str], ...] = ()  # from the first to the end


class Newest(_Camel, frozen=True, kw_only=True):
    """An in-toto Statement about a table. Its subject is the newest certificate."""

    subject: tuple[Subject, ...]
    predicate: NewestHour

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises BadCertificate."""
        return _statement(payload, NEWEST_TYPE, cls)

    @property
    def payload(self) -> bytes:
        return _payload(NEWEST_TYPE, self)


def digest_of(payload: bytes) -> str:
    """Returns the digest of a certificate."""
    return hashlib.sha256(payload).hexdigest()


def envelope_of(statement: Certificate | Newest) -> Envelope:
    """Returns the statement in an envelope without signatures."""
    return Envelope(statement.payload, IN_TOTO)


def _payload(predicate_type: str, statement: Certificate | Newest) -> bytes:
    content: dict[str, Any] = msgspec.to_builtins(statement)
    return msgspec.json.encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": content["subject"],
            "predicateType": predicate_type,
            "predicate": content["predicate"],
        }
    )


class _Type(
    msgspec.Struct, frozen=True, rename={"type": "_type", "predicate_type": "predicateType"}
):
    type: str
    predicate_type: str


def _statement(payload: bytes, predicate_type: str, kind: type[S]) -> S:
    try:
        types = msgspec.json.decode(payload, type=known_type(_Type))
        if (types.type, types.predicate_type) != (STATEMENT_TYPE, predicate_type):
            raise BadCertificate(f"is a {types.predicate_type[:100]!r}, not a {predicate_type!r}")
        return msgspec.json.decode(payload, type=known_type(kind))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadCertificate(f"not an in-toto statement of this kind: {error}") from None
