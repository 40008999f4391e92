"""Builds an authority's X.509 certificates and revocation lists. Pure.

Keys are of the curve P-256, which every TLS that is in use knows. Certificates have the extensions
that strict verifiers ask for (RFC 5280): who signed with which key, what a key may be used for.
Each begins a day before it is made, since clocks differ.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_EARLIER: Final = timedelta(days=1)
_HASH: Final = hashes.SHA256()

Key = ec.EllipticCurvePrivateKey


class Purpose(StrEnum):
    """What a certificate is shown as."""

    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"


_USAGES: Final = {
    Purpose.SERVER: [ExtendedKeyUsageOID.SERVER_AUTH],
    Purpose.CLIENT: [ExtendedKeyUsageOID.CLIENT_AUTH],
    Purpose.BOTH: [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
}


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> bytes:
    """Without a password: a program that starts by itself would have to keep it beside the key."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def read_key(pem: bytes) -> Key:
    """Raises ValueError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("it has a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("it is of another kind than those that are made here")  # noqa: TRY004
    return key


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def belong_together(certificate: x509.Certificate, key: Key) -> bool:
    """Whether an authority's certificate is signed with this key, and says so."""
    try:
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return certificate.public_key() == key.public_key()


def authority_certificate(name: str, key: Key, now: datetime, days: int) -> x509.Certificate:
    """Signed with its own key. It signs nobody who signs others."""
    subject = _common_name(name)
    return (
        _begun(
            subject,
            subject,
            key,
            x509.random_serial_number(),
            now=now,
            ends=now + timedelta(days=days),
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, _HASH)
    )


def signed_certificate(
    authority: x509.Certificate,
    authority_key: Key,
    *,
    name: str,
    key: Key,
    hosts: Sequence[str],
    purpose: Purpose,
    now: datetime,
    ends: datetime,
    serial: int,
) -> x509.Certificate:
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    made = (
        _begun(authority.subject, _common_name(name), key, serial, now=now, ends=ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USAGES[purpose]), critical=False)
        .add_extension(by, critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName(map(_general_name, hosts))
        made = made.add_extension(names, critical=False)
    return made.sign(authority_key, _HASH)


def revocation_list(
    authority: x509.Certificate,
    authority_key: Key,
    revoked: Iterable[tuple[int, datetime]],
    *,
    number: int,
    now: datetime,
) -> bytes:
    """As PEM: serial numbers, and since when. It is good for as long as the authority is.

    Verifiers refuse everybody when a list's time is over. Whoever has no server that hands out
    lists would find that out on one day for all clients; and a new list is a file like this one,
    which is put in place when somebody was revoked, not by the calendar.
    """
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    made = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now - _EARLIER)
        .next_update(authority.not_valid_after_utc)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(by, critical=False)
    )
    for serial, since in revoked:
        each = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(since)
        made = made.add_revoked_certificate(each.build())
    return made.sign(authority_key, _HASH).public_bytes(serialization.Encoding.PEM)


def _begun(
    issuer: x509.Name, subject: x509.Name, key: Key, serial: int, *, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - _EARLIER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
