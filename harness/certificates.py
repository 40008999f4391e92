"""Certificates for tests: an authority of their own, and what it signs, as PEM files."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Signed(NamedTuple):
    """Where they are."""

    certificate: Path
    key: Path
    both: Path  # in one file, the key first


class Authority:
    """Signs; its own certificate is `ca`."""

    def __init__(self, directory: Path, name: str = "an authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._certificate = made.sign(self._key, hashes.SHA256())
        self.ca = directory / "ca.pem"
        self.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(subject, key).add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
        )
        certificate = made.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        signed = Signed(*(self._directory / f"{name}{end}" for end in (".crt", ".key", ".pem")))
        signed.certificate.write_bytes(pem)
        signed.key.write_bytes(secret)
        signed.both.write_bytes(secret + pem)
        return signed

    def revoke(self, signed: Signed) -> Path:
        """The authority's list, with this one in it."""
        now = datetime.datetime.now(datetime.UTC)
        serial = x509.load_pem_x509_certificate(signed.certificate.read_bytes()).serial_number
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - _DAY)
        revocations = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - _DAY)
            .next_update(now + 30 * _DAY)
            .add_revoked_certificate(revoked.build())
            .sign(self._key, hashes.SHA256())
        )
        path = self._directory / "revoked.pem"
        path.write_bytes(revocations.public_bytes(serialization.Encoding.PEM))
        return path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 30 * _DAY)
        )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
