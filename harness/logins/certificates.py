"""Certificates for tests, as PEM files, signed by an authority like that of `penstock
certificates`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ground.files.durable_files import replace_file
from penstock.certificates import authority
from penstock.certificates.x509 import Purpose

_BEGIN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_DAYS = 30


class Signed(NamedTuple):
    """The files of a signed certificate."""

    certificate: Path
    key: Path
    both: Path  # in one file, the key first


class Authority:
    """A certificate authority; its own certificate is `ca`."""

    def __init__(self, directory: Path, name: str = "an authority") -> None:
        self._root = authority.make_authority(directory, name, now=_now())
        self.ca = self._root.ca

    def sign(self, name: str, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> Signed:
        """Signs a certificate for server and client. May be called again for the same name."""
        self._root.sign(name, hosts=hosts, purpose=Purpose.BOTH, days=_DAYS, now=_now(), force=True)
        pem_file = self._root.file_of(name)
        key, marker, certificate = pem_file.read_bytes().partition(_BEGIN_CERTIFICATE)
        files = Signed(pem_file.with_suffix(".crt"), pem_file.with_suffix(".key"), pem_file)
        replace_file(files.certificate, marker + certificate)
        replace_file(files.key, key, mode=0o600)
        return files

    def revoke(self, signed: Signed) -> Path:
        """Revokes a certificate; returns the authority's revocation list."""
        self._root.revoke(signed.both.stem, now=_now())
        return self._root.revoked


def _now() -> datetime:
    return datetime.now(UTC)
