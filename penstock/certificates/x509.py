"""Builds an authority's X.509 certificates and revocation lists. Pure.

Keys use the curve P-256, which every TLS implementation in use supports. Certificates have the
extensions that strict verifiers require (RFC 5280): key identifiers and key usage. They are valid
from a day before they are made, since clocks differ.
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
    """The side of a connection for which a certificate is valid."""

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
    """Encodes a key without encryption, since programs would have to store its password beside
    it."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def read_key(pem: bytes) -> Key:
    """Decodes a key. Raises ValueError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("the key is encrypted with a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic curve key")  # noqa: TRY004
    return key


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def belong_together(certificate: x509.Certificate, key: Key) -> bool:
    """Whether an authority's certificate is self-signed with this key."""
    try:
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return certificate.public_key() == key.public_key()


def authority_certificate(name: str, key: Key, now: datetime, days: int) -> x509.Certificate:
    """Returns a self-signed certificate of an authority, which cannot sign further authorities."""
    subject = _common_name(name)
    return (
        _builder(
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
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = (
        _builder(authority.subject, _common_name(name), key, serial, now=now, ends=ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USAGES[purpose]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    if hosts:
        alternative_names = x509.SubjectAlternativeName(map(_general_name, hosts))
        builder = builder.add_extension(alternative_names, critical=False)
    return builder.sign(authority_key, _HASH)


def revocation_list(
    authority: x509.Certificate,
    authority_key: Key,
    revoked: Iterable[tuple[int, datetime]],
    *,
    number: int,
    now: datetime,
) -> bytes:
    """Returns a revocation list in PEM, valid for as long as the authority.

    Verifiers reject all clients once a list expires. Lists are copied to servers by hand, after a
    revocation and not by the calendar, so a shorter validity would end in an outage.
    """
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now - _EARLIER)
        .next_update(authority.not_valid_after_utc)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    for serial, time in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(time)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(authority_key, _HASH).public_bytes(serialization.Encoding.PEM)


def _builder(
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
