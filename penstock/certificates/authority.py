"""A certificate authority in a directory: its record of certificates, and their files.

    ca.pem          its certificate: what `ca` and `client_ca` of a configuration name
    ca.key          its key, readable for its user alone
    revoked.pem     the list of revoked certificates: what `revoked` names
    signed.json     the certificates that it signed, until they expire
    NAME.pem        a certificate, with its key before it

Key and certificate share a file, so that a renewal is one rename, and a program never reads a key
with the wrong certificate. A certificate is recorded before its file is written: a kill in between
leaves an entry without a file, which can be revoked, and never an unrecorded certificate.
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
    """The authority refused a request; the message says why and what to do."""


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
    """The authority's record of certificates. `signed` begins with the earliest; `lists` is the
    number of revocation lists so far."""

    version: int
    lists: int = 0
    signed: tuple[Entry, ...] = ()


class Authority:
    """The authority in a directory. Raises Refused if the directory has none, or if its files do
    not belong together."""

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
                f"{directory} has no authority: create one with `penstock certificates make "
                f"{directory}`, or pass --authority DIR"
            ) from None
        except ValueError:
            raise Refused(f"{self.ca} contains no certificate") from None

    @property
    def ends(self) -> datetime:
        return self.certificate.not_valid_after_utc

    def file_of(self, name: str) -> Path:
        """Returns the path of the file that has a certificate and its key. Raises BadName."""
        return self.directory / f"{check_name(name)}{_ENDING}"

    def latest(self) -> list[Entry]:
        """Returns the latest certificate of each name, sorted by name."""
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
        """Writes a new key and its certificate to `file_of(name)`. Raises Refused or BadName."""
        path = self.file_of(name)
        host_names = tuple(dict.fromkeys(map(check_host, hosts)))
        if len(host_names) > MOST_HOSTS:
            raise BadName(f"{name} has {len(host_names)} hosts: at most {MOST_HOSTS} are allowed")
        if purpose is not Purpose.CLIENT and not host_names:
            raise BadName(f"{name} needs --host: the name or address of its server")
        with self._locked():
            certificate = _latest(self._read().signed).get(name)
            if not force and certificate and certificate.revoked is None and certificate.ends > now:
                raise Refused(f"{name} was already signed: renew it, or replace it with --force")
            if not force and path.exists():
                raise Refused(f"{path} exists: --force replaces it")
            return self._issue(name, host_names, purpose, days=days, now=now)

    def renew(self, name: str, *, days: int | None, now: datetime) -> Entry:
        """Signs a certificate again with a new key. The old one remains valid until it expires."""
        check_name(name)
        with self._locked():
            certificate = _latest(self._read().signed).get(name)
            if certificate is None:
                raise Refused(f"{self.directory} has no certificate {name}")
            if certificate.revoked is not None:
                raise Refused(f"{name} is revoked: sign a new one with --force")
            days = days or certificate.days
            return self._issue(name, certificate.hosts, certificate.purpose, days=days, now=now)

    def revoke(self, name: str, *, now: datetime) -> list[Entry]:
        """Revokes all certificates of this name, including earlier ones that are still valid.

        If they are revoked already, the list is written again. Raises Refused, BadName.
        """
        check_name(name)
        with self._locked():
            record = self._read()
            if not any(certificate.name == name for certificate in record.signed):
                raise Refused(f"{self.directory} has no certificate {name}")
            certificates = tuple(
                msgspec.structs.replace(certificate, revoked=now)
                if certificate.name == name and certificate.revoked is None
                else certificate
                for certificate in record.signed
            )
            new_record = msgspec.structs.replace(record, signed=certificates)
            self._write_list(new_record, self._key(), now)
        return [
            certificate
            for certificate in certificates
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
        expiry = (now + timedelta(days=days or USUAL_DAYS)).replace(microsecond=0)
        if expiry > self.ends and days is None:
            expiry = self.ends
        if not now < expiry <= self.ends:
            raise Refused(
                f"the authority itself expires on {self.ends:%Y-%m-%d}: pass fewer --days, or make "
                "a new one in another directory"
            )
        serial = x509.random_serial_number()
        entry = Entry(
            name=name,
            serial=f"{serial:x}",
            hosts=hosts,
            purpose=purpose,
            days=days or USUAL_DAYS,
            ends=expiry,
        )
        record = self._read()
        entries = (*_unexpired(record.signed, now), entry)
        self._write(msgspec.structs.replace(record, signed=entries))
        key = new_key()
        certificate = signed_certificate(
            self.certificate,
            authority_key,
            name=name,
            key=key,
            hosts=hosts,
            purpose=purpose,
            now=now,
            ends=expiry,
            serial=serial,
        )
        replace_file(
            self.file_of(name), key_pem(key) + certificate_pem(certificate), mode=_FOR_ITSELF
        )
        return entry

    def _write_list(self, record: _Record, key: Key, now: datetime) -> None:
        """Writes the record first, so that after a crash the next list has its revocations."""
        record = msgspec.structs.replace(record, lists=record.lists + 1)
        self._write(record)
        revoked_serials = [
            (int(certificate.serial, 16), certificate.revoked)
            for certificate in record.signed
            if certificate.revoked is not None and certificate.ends > now
        ]
        pem = revocation_list(self.certificate, key, revoked_serials, number=record.lists, now=now)
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
                f"{self._record}, the record of signed certificates, is missing: restore it from a "
                "backup"
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
    """Creates an authority in a directory that has none. Raises Refused or BadName."""
    check_authority_name(name)
    directory.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    with _lock(directory):
        _check_unused(directory)
        key = new_key()
        certificate = authority_certificate(name, key, now, AUTHORITY_DAYS)
        # The record first and the certificate last: after a kill in between, _check_unused
        # recognizes an incomplete authority.
        replace_file(_record_path(directory), _encoded(_Record(version=_VERSION)), mode=_FOR_ITSELF)
        replace_file(_key_path(directory), key_pem(key), mode=_FOR_ITSELF)
        empty_revocation_list = revocation_list(certificate, key, (), number=0, now=now)
        replace_file(directory / f"{REVOKED}{_ENDING}", empty_revocation_list, mode=_FOR_ALL)
        replace_file(
            directory / f"{AUTHORITY}{_ENDING}", certificate_pem(certificate), mode=_FOR_ALL
        )
    return Authority(directory)


def _check_unused(directory: Path) -> None:
    """Raises Refused unless the directory has no authority, or an incomplete one."""
    if (directory / f"{AUTHORITY}{_ENDING}").exists():
        raise Refused(f"{directory} already has an authority: choose another directory")
    try:
        is_incomplete = _record_path(directory).read_bytes() == _encoded(_Record(version=_VERSION))
    except FileNotFoundError:
        is_incomplete = not _key_path(directory).exists()
    if not is_incomplete:
        raise Refused(
            f"{directory} has files of an authority without its certificate: choose another "
            "directory"
        )


def _latest(signed: Sequence[Entry]) -> dict[str, Entry]:
    return {certificate.name: certificate for certificate in signed}


def _unexpired(signed: Sequence[Entry], now: datetime) -> list[Entry]:
    """Certificates that are still valid, and the last of each name, for its renewal."""
    latest_serials = {certificate.serial for certificate in _latest(signed).values()}
    return [
        certificate
        for certificate in signed
        if certificate.ends > now or certificate.serial in latest_serials
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
