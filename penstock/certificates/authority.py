"""A certificate authority in a directory: its record of certificates, and their files.

    ca.pem          its certificate: what `ca` and `client_ca` of a configuration name
    ca.key          its key, readable for its user alone
    revoked.pem     the list of revoked certificates: what `revoked` names
    signed.json     every certificate that it signed and that may still be shown
    NAME.pem        a certificate, with its key before it

Key and certificate are one file, so that a renewal is one rename: no program ever finds the one
without the other. What is signed is written down first. A kill in between leaves an entry without
a file, which can be revoked like any other, and never a certificate that nobody knows of.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509

from ground.files.directory_lock import DirectoryLock, InUse
from ground.files.durable_files import replace_file
from ground.known_types import known_type
from penstock.certificates.names import (
    AUTHORITY,
    MOST_HOSTS,
    REVOKED,
    BadName,
    check_authority_name,
    check_host,
    check_name,
)
from penstock.certificates.x509 import (
    Key,
    Purpose,
    authority_certificate,
    belong_together,
    certificate_pem,
    key_pem,
    new_key,
    read_key,
    revocation_list,
    signed_certificate,
)

AUTHORITY_DAYS: Final = 3653  # ten years
USUAL_DAYS: Final = 365

_ENDING: Final = ".pem"
_FOR_ALL: Final = 0o644
_FOR_ITSELF: Final = 0o600
_FOLDER: Final = 0o700
_VERSION: Final = 1
_PATIENCE_S: Final = 10.0


class Refused(Exception):
    """The authority refused; the message says why and what to do."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A signed certificate."""

    name: str
    serial: str  # hexadecimal
    hosts: tuple[str, ...]
    purpose: Purpose
    days: int
    ends: datetime
    revoked: datetime | None = None


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, the earliest first. `lists` counts the lists of revoked ones that were made."""

    version: int
    lists: int = 0
    signed: tuple[Entry, ...] = ()


class Authority:
    """The one in a directory. Raises Refused if there is none, or its files do not fit."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = directory / f"{AUTHORITY}{_ENDING}"
        self.revoked = directory / f"{REVOKED}{_ENDING}"
        self._record = _record_path(directory)
        self._key_path = _key_path(directory)
        try:
            self.certificate = x509.load_pem_x509_certificate(self.ca.read_bytes())
        except FileNotFoundError:
            raise Refused(
                f"{directory} has no authority: `penstock certificates make {directory}` makes "
                "one, --authority DIR names another"
            ) from None
        except ValueError:
            raise Refused(f"{self.ca} has no certificate in it") from None

    @property
    def ends(self) -> datetime:
        return self.certificate.not_valid_after_utc

    def file_of(self, name: str) -> Path:
        """Where its key and certificate are put. Raises BadName."""
        return self.directory / f"{check_name(name)}{_ENDING}"

    def latest(self) -> list[Entry]:
        """The latest certificate of each name, by name."""
        return sorted(
            _latest(self._read().signed).values(), key=lambda certificate: certificate.name
        )

    def sign(
        self,
        name: str,
        *,
        hosts: Sequence[str],
        purpose: Purpose,
        days: int | None,
        now: datetime,
        force: bool = False,
    ) -> Entry:
        """A new key with its certificate, in `file_of(name)`. Raises Refused, BadName."""
        path = self.file_of(name)
        wanted = tuple(dict.fromkeys(map(check_host, hosts)))
        if len(wanted) > MOST_HOSTS:
            raise BadName(f"{name} has {len(wanted)} hosts, at most {MOST_HOSTS} fit")
        if purpose is not Purpose.CLIENT and not wanted:
            raise BadName(f"{name} needs a host that its server is reached as")
        with self._locked():
            known = _latest(self._read().signed).get(name)
            if not force and known and known.revoked is None and known.ends > now:
                raise Refused(f"{name} was already signed: renew it, or replace it with --force")
            if not force and path.exists():
                raise Refused(f"{path} exists: --force replaces it")
            return self._issue(name, wanted, purpose, days=days, now=now)

    def renew(self, name: str, *, days: int | None, now: datetime) -> Entry:
        """The same for a longer time, with a new key. The old one is good until it ends."""
        check_name(name)
        with self._locked():
            known = _latest(self._read().signed).get(name)
            if known is None:
                raise Refused(f"{self.directory} has no certificate {name}")
            if known.revoked is not None:
                raise Refused(f"{name} is revoked: sign a new one with --force")
            days = days or known.days
            return self._issue(name, known.hosts, known.purpose, days=days, now=now)

    def revoke(self, name: str, *, now: datetime) -> list[Entry]:
        """All of this name that are not over, so that no earlier one is believed instead.

        If they are revoked already, the list is written again. Raises Refused, BadName.
        """
        check_name(name)
        with self._locked():
            record = self._read()
            if not any(certificate.name == name for certificate in record.signed):
                raise Refused(f"{self.directory} has no certificate {name}")
            signed = tuple(
                msgspec.structs.replace(certificate, revoked=now)
                if certificate.name == name and certificate.revoked is None
                else certificate
                for certificate in record.signed
            )
            changed = msgspec.structs.replace(record, signed=signed)
            self._write_list(changed, self._key(), now)
        return [
            certificate
            for certificate in signed
            if certificate.name == name and certificate.ends > now
        ]

    def _issue(
        self,
        name: str,
        hosts: tuple[str, ...],
        purpose: Purpose,
        *,
        days: int | None,
        now: datetime,
    ) -> Entry:
        authority_key = self._key()
        ends = (now + timedelta(days=days or USUAL_DAYS)).replace(microsecond=0)
        if ends > self.ends and days is None:
            ends = self.ends
        if not now < ends <= self.ends:
            raise Refused(
                f"the authority itself ends on {self.ends:%Y-%m-%d}: give fewer --days, or make "
                "a new one in another directory"
            )
        serial = x509.random_serial_number()
        entry = Entry(
            name=name,
            serial=f"{serial:x}",
            hosts=hosts,
            purpose=purpose,
            days=days or USUAL_DAYS,
            ends=ends,
        )
        record = self._read()
        signed = (*_still_of_interest(record.signed, now), entry)
        self._write(msgspec.structs.replace(record, signed=signed))
        key = new_key()
        certificate = signed_certificate(
            self.certificate,
            authority_key,
            name=name,
            key=key,
            hosts=hosts,
            purpose=purpose,
            now=now,
            ends=ends,
            serial=serial,
        )
        replace_file(
            self.file_of(name), key_pem(key) + certificate_pem(certificate), mode=_FOR_ITSELF
        )
        return entry

    def _write_list(self, record: _Record, key: Key, now: datetime) -> None:
        """The record first: what it says to be revoked is in the next list, whatever happens."""
        record = msgspec.structs.replace(record, lists=record.lists + 1)
        self._write(record)
        revoked = [
            (int(certificate.serial, 16), certificate.revoked)
            for certificate in record.signed
            if certificate.revoked is not None and certificate.ends > now
        ]
        pem = revocation_list(self.certificate, key, revoked, number=record.lists, now=now)
        replace_file(self.revoked, pem, mode=_FOR_ALL)

    def _key(self) -> Key:
        try:
            key = read_key(self._key_path.read_bytes())
        except FileNotFoundError:
            raise Refused(
                f"{self._key_path} is missing: an authority cannot sign without its key"
            ) from None
        except ValueError as error:
            raise Refused(f"{self._key_path} cannot be used: {error}") from None
        if not belong_together(self.certificate, key):
            raise Refused(f"{self._key_path} is not the key of {self.ca}")
        return key

    def _read(self) -> _Record:
        try:
            record = msgspec.json.decode(self._record.read_bytes(), type=known_type(_Record))
        except FileNotFoundError:
            raise Refused(
                f"{self._record} is not there: what was signed is written in it; put back the "
                "one of a backup"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Refused(f"{self._record} cannot be read: {error}") from None
        if record.version != _VERSION:
            raise Refused(f"{self._record} is of another release: version {record.version}")
        return record

    def _write(self, record: _Record) -> None:
        replace_file(self._record, _encoded(record), mode=_FOR_ITSELF)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _lock(self.directory):
            yield


def make_authority(directory: Path, name: str, *, now: datetime) -> Authority:
    """Create an authority in a directory that has none. Raises Refused or BadName."""
    check_authority_name(name)
    directory.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    with _lock(directory):
        _check_unused(directory)
        key = new_key()
        certificate = authority_certificate(name, key, now, AUTHORITY_DAYS)
        # The record first and the certificate last: a kill in between leaves what can be told
        # from an authority that signs.
        replace_file(_record_path(directory), _encoded(_Record(version=_VERSION)), mode=_FOR_ITSELF)
        replace_file(_key_path(directory), key_pem(key), mode=_FOR_ITSELF)
        nobody = revocation_list(certificate, key, (), number=0, now=now)
        replace_file(directory / f"{REVOKED}{_ENDING}", nobody, mode=_FOR_ALL)
        replace_file(
            directory / f"{AUTHORITY}{_ENDING}", certificate_pem(certificate), mode=_FOR_ALL
        )
    return Authority(directory)


def _check_unused(directory: Path) -> None:
    """Nothing of an authority is there, or what a kill left of one that was being made."""
    if (directory / f"{AUTHORITY}{_ENDING}").exists():
        raise Refused(f"{directory} already has an authority: choose another directory")
    try:
        begun = _record_path(directory).read_bytes() == _encoded(_Record(version=_VERSION))
    except FileNotFoundError:
        begun = not _key_path(directory).exists()
    if not begun:
        raise Refused(
            f"{directory} has files of an authority, without its certificate: take another "
            "directory"
        )


def _latest(signed: Sequence[Entry]) -> dict[str, Entry]:
    return {certificate.name: certificate for certificate in signed}


def _still_of_interest(signed: Sequence[Entry], now: datetime) -> list[Entry]:
    """What can still be shown to somebody, and the last of each name: it says how to renew it."""
    last = {certificate.serial for certificate in _latest(signed).values()}
    return [
        certificate
        for certificate in signed
        if certificate.ends > now or certificate.serial in last
    ]


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    try:
        with DirectoryLock(directory / ".lock", patience_s=_PATIENCE_S):
            yield
    except InUse:
        raise Refused(f"another command is at work in {directory}: try again") from None


def _key_path(directory: Path) -> Path:
    return directory / f"{AUTHORITY}.key"


def _record_path(directory: Path) -> Path:
    return directory / "signed.json"


def _encoded(record: _Record) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
