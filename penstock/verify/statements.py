"""Reads the signed statements of a table: an hour's certificate, and which one is the newest."""

from collections.abc import Iterator
from typing import Final

import msgspec

from ground.signatures.envelopes import IN_TOTO, MOST_BYTES, BadEnvelope, Envelope
from ledger.hour_certificates import (
    COMPLETE,
    BadCertificate,
    Certificate,
    Newest,
    digest_of,
)
from loader.values.tables import Hour
from penstock.verify.chain import Link, NewestLink
from penstock.verify.faults import Fault, Kind
from penstock.verify.keys import Role, TrustedKeys
from penstock.verify.layout import HourFolder, is_read, newest_path
from penstock.verify.store import Store, Unreadable, read
from penstock.verify.times import millis

_HEX_LETTERS: Final = 64
_LANDED: Final = "hdfs"  # the audit's count of the loader's rows
_MOST_UNTRUSTED: Final = 1000  # references of a certificate that is not believed


class HourStatement(msgspec.Struct, frozen=True, kw_only=True):
    """An hour's certificate as it was read; without content if it cannot be read."""

    certificate: Certificate | None = None
    sha256: str = ""
    signers: tuple[str, ...] = ()  # the files of their keys
    faults: tuple[Fault, ...] = ()


class NewestStatement(msgspec.Struct, frozen=True, kw_only=True):
    """The statement about a table's newest certificate; without a link if it is not believed."""

    link: NewestLink | None = None
    empty_hours: tuple[tuple[int, int], ...] = ()  # ranges of milliseconds
    faults: tuple[Fault, ...] = ()


def read_certificate(store: Store, keys: TrustedKeys, folder: HourFolder) -> HourStatement | None:
    """Reads and checks an hour's certificate, without its files; None if it has none."""
    path = folder.certificate
    try:
        content = read(store, path, MOST_BYTES)
        if content is None:
            return None
        envelope = _envelope(content)
        certificate = Certificate.decode(envelope.payload)
    except Unreadable as error:
        return HourStatement(faults=(_fault(Kind.UNREADABLE, path, str(error)),))
    except (BadEnvelope, BadCertificate) as error:
        words = f"is not a certificate: {error}"
        return HourStatement(faults=(_fault(Kind.BAD_CERTIFICATE, path, words),))
    signed = keys.signed(envelope)
    faults = (
        [_fault(signed.fault, path, signed.words)]
        if signed.fault is not None
        else [*_misplaced(certificate, folder), *_contradictions(certificate, folder)]
    )
    return HourStatement(
        certificate=certificate,
        sha256=digest_of(envelope.payload),
        signers=signed.files,
        faults=tuple(faults),
    )


def link_of(statement: HourStatement, folder: HourFolder) -> Link | None:
    """Returns what the chain needs of a certificate; None if it cannot be read."""
    if statement.certificate is None:
        return None
    hour = statement.certificate.predicate
    is_trusted = bool(statement.signers) and not any(
        fault.kind in _UNTRUSTED for fault in statement.faults
    )
    return Link(
        number=hour.number,
        sha256=statement.sha256,
        previous=hour.previous,
        supersedes=hour.supersedes if is_trusted else hour.supersedes[:_MOST_UNTRUSTED],
        path=folder.certificate,
        is_trusted=is_trusted,
    )


def read_newest(store: Store, keys: TrustedKeys, table: str) -> NewestStatement | None:
    """Reads and checks which certificate is the newest; None if no statement says so. A loader
    alone signs that."""
    path = newest_path(table)
    try:
        content = read(store, path, MOST_BYTES)
        if content is None:
            return None
        envelope = _envelope(content)
        statement = Newest.decode(envelope.payload)
        newest = statement.predicate.newest
        empty_hours = tuple(
            (millis(first), millis(end)) for first, end in statement.predicate.empty_hours
        )
    except Unreadable as error:
        return NewestStatement(faults=(_fault(Kind.UNREADABLE, path, str(error)),))
    except (BadEnvelope, BadCertificate, ValueError) as error:
        words = f"does not name a certificate: {error}"
        return NewestStatement(faults=(_fault(Kind.BAD_CERTIFICATE, path, words),))
    signed = keys.signed(envelope, roles=(Role.LOADER,))
    if signed.fault is not None:
        return NewestStatement(faults=(_fault(signed.fault, path, signed.words),))
    if statement.predicate.table != table:
        words = f"is of the table {statement.predicate.table}"
        return NewestStatement(faults=(_fault(Kind.MISPLACED, path, words),))
    names = [subject.name for subject in statement.subject]
    return NewestStatement(
        link=NewestLink(
            number=newest.number,
            sha256=newest.sha256,
            path=path,
            certificate=f"{table}/{names[0]}" if names else table,
        ),
        empty_hours=empty_hours,
    )


_UNTRUSTED: Final = frozenset(
    {Kind.WRONG_SIGNATURE, Kind.MISSING_SIGNATURE, Kind.UNKNOWN_KEY, Kind.CONTRADICTION}
)


def _envelope(content: bytes) -> Envelope:
    envelope = Envelope.decode(content)
    if envelope.payload_type != IN_TOTO:
        raise BadEnvelope(f"its payload is a {envelope.payload_type[:100]!r}, not a {IN_TOTO!r}")
    return envelope


def _misplaced(certificate: Certificate, folder: HourFolder) -> Iterator[Fault]:
    predicate = certificate.predicate
    if predicate.table != folder.table:
        words = f"is of the table {predicate.table}, not of {folder.table}"
        yield _fault(Kind.MISPLACED, folder.certificate, words)
    if _hour(predicate.hour) != folder.hour:
        words = f"is of the hour {predicate.hour}, not of {folder.name}"
        yield _fault(Kind.MISPLACED, folder.certificate, words)


def _contradictions(certificate: Certificate, folder: HourFolder) -> Iterator[Fault]:
    """What a signed certificate must never say."""
    for words in _contradictory(certificate, folder):
        yield _fault(Kind.CONTRADICTION, folder.certificate, words)


def _contradictory(certificate: Certificate, folder: HourFolder) -> Iterator[str]:
    predicate = certificate.predicate
    if predicate.verdict != COMPLETE:
        yield f"has the verdict {predicate.verdict!r}"
    if predicate.number < 1 or predicate.rows < 0:
        yield f"has the number {predicate.number}, and {predicate.rows} rows"
    landed = predicate.counts.get(_LANDED, predicate.rows)
    if landed != predicate.rows:
        yield f"has {predicate.rows:,} rows by the loader, and {landed:,} by the audit"
    if predicate.rows and not certificate.subject:
        yield f"has {predicate.rows:,} rows in no file"
    for offsets in predicate.offsets:
        if offsets.partition < 0 or not 0 <= offsets.first <= offsets.end:
            yield f"has offsets {offsets.first} to {offsets.end} of partition {offsets.partition}"
    names: set[str] = set()
    for subject in certificate.subject:
        name = subject.name
        if name in names:
            yield f"lists {name} twice"
        names.add(name)
        in_hour, _, file = name.rpartition("/")
        if in_hour != _hour_folder_named(certificate, folder) or not is_read(file):
            yield f"lists {name}, which is not a file of its hour"
        if len(subject.digest.sha256) != _HEX_LETTERS:
            yield f"has no SHA-256 of {name}"


def _hour_folder_named(certificate: Certificate, folder: HourFolder) -> str:
    """The folder of the hour that the certificate names; so a misplaced one is only that."""
    hour = _hour(certificate.predicate.hour)
    return folder.name if hour is None else HourFolder(table=folder.table, hour=hour).name


def _hour(text: str) -> Hour | None:
    try:
        return Hour(millis(text))
    except ValueError:
        return None


def _fault(kind: Kind, path: str, words: str) -> Fault:
    return Fault(kind=kind, path=path, words=words)
