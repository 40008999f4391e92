"""TLS of a server: its certificate, and the client certificates that it trusts.

A `ListenerTls` is configuration; `ServerTls` provides contexts for connections. As for clients,
files may be replaced while the program runs: the next connection uses the new ones, open ones
continue, and unusable files leave the old ones in force.
"""

import ssl
from enum import StrEnum
from typing import Final

import msgspec

from ground.settings import FilePath
from ground.tls.certificate_expiry import CertificateFiles
from ground.tls.client import BadTls, exchanged, show, why

# TLS 1.2 with forward secrecy; TLS 1.3 always has it.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


class ClientCertificates(StrEnum):
    """Whether clients must present certificates."""

    REQUIRED = "required"
    ASKED = "asked"


class ListenerTls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server's certificate, and the client certificates that it trusts. Without `client_ca`,
    clients present none."""

    certificate: FilePath
    """The server's certificate (PEM), with the intermediate certificates."""
    key: FilePath = ""
    """The certificate's private key (PEM). Default: in the file of the certificate."""
    client_ca: FilePath = ""
    """CA certificates (PEM) that may sign clients' certificates."""
    client_certificates: ClientCertificates = ClientCertificates.REQUIRED
    """With `client_ca`: `required`, or `asked` if clients may also log in otherwise."""
    revoked: FilePath = ""
    """Certificate revocation lists (PEM), one from each CA in `client_ca`."""

    def __post_init__(self) -> None:
        if not self.certificate:
            raise ValueError("`certificate` must name a file")
        if self.revoked and not self.client_ca:
            raise ValueError("`revoked` needs a `client_ca`")

    @property
    def requires_certificates(self) -> bool:
        return bool(self.client_ca) and self.client_certificates is ClientCertificates.REQUIRED

    @property
    def certificate_files(self) -> CertificateFiles:
        """The certificate files whose expiry should be monitored."""
        return CertificateFiles(frozenset({self.certificate}), frozenset({self.client_ca} - {""}))


class ServerTls:
    """TLS contexts for one listener. Thread-safe."""

    def __init__(self, tls: ListenerTls) -> None:
        self.tls = tls
        files = (tls.certificate, tls.key, tls.client_ca, tls.revoked)
        self._files = exchanged(files, lambda: server_context(tls))

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the current files. Raises BadTls if no files were ever usable."""
        return self._files.current


def server_context(tls: ListenerTls) -> ssl.SSLContext:
    """Builds a context. Raises BadTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    show(context, tls.certificate, tls.key)
    if tls.client_ca:
        _believe(context, "client_ca", tls.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if tls.requires_certificates else ssl.CERT_OPTIONAL
    if tls.revoked:
        _believe(context, "revoked", tls.revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _believe(context: ssl.SSLContext, key: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise BadTls(f"`{key}` {path}: {why(error, 'invalid content')}") from None
