"""Reads the certificates in PEM files: subject, purpose, expiry."""

from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID

_MOST_BYTES: Final = 16 * 1024 * 1024  # a Linux system's bundle of authorities has about 0.25 MB
_WORDS: Final = {
    ExtendedKeyUsageOID.SERVER_AUTH: "server",
    ExtendedKeyUsageOID.CLIENT_AUTH: "client",
}


class NoCertificate(Exception):
    """The file contains no readable certificate; the message says why."""


class Shown(NamedTuple):
    """A certificate in a file. `purpose` is empty if the certificate is valid for every purpose."""

    subject: str
    issuer: str
    hosts: tuple[str, ...]
    purpose: tuple[str, ...]
    begins: datetime
    ends: datetime
    serial: str
    fingerprint: str


def certificates_in(path: Path) -> list[Shown]:
    """Returns a file's certificates in order. Raises NoCertificate, OSError."""
    with path.open("rb") as file:
        pem = file.read(_MOST_BYTES + 1)
    if len(pem) > _MOST_BYTES:
        raise NoCertificate(f"{path} has more than {_MOST_BYTES} bytes")
    try:
        return [_shown(certificate) for certificate in x509.load_pem_x509_certificates(pem)]
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        if b"-----BEGIN CERTIFICATE-----" not in pem:
            raise NoCertificate(f"{path} contains no PEM certificate") from None
        raise NoCertificate(f"{path} contains an invalid certificate: {error}") from None


def _shown(certificate: x509.Certificate) -> Shown:
    return Shown(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        _hosts(certificate),
        _purpose(certificate),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        f"{certificate.serial_number:x}",
        certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        alternative_names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return ()
    names = alternative_names.value.get_values_for_type(x509.DNSName)
    addresses = alternative_names.value.get_values_for_type(x509.IPAddress)
    return (*names, *map(str, addresses))


def _purpose(certificate: x509.Certificate) -> tuple[str, ...]:
    extensions = certificate.extensions
    try:
        if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return ("authority",)
    except x509.ExtensionNotFound:
        pass
    try:
        usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(_WORDS.get(usage, usage.dotted_string) for usage in usages)
