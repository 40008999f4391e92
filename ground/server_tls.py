"""TLS of a server: what it shows of itself, and whom of its clients it believes.

A `ListenerTls` is what a configuration says; `ServerTls` makes connections of it. As with a
client's, the files may be exchanged while the program runs: the next connection goes by the new
ones, those that are open stay, and files that cannot be used leave the old ones in force.
"""

import ssl
from enum import StrEnum
from typing import Final

import msgspec

from ground.certificate_expiry import CertificateFiles
from ground.settings import FilePath
from ground.tls import BadTls, exchanged, show, why

# Of TLS 1.2 what keeps its secrets when a key is stolen later; 1.3 has nothing else.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


class ClientCertificates(StrEnum):
    """Whether clients show certificates."""

    REQUIRED = "required"
    ASKED = "asked"


class ListenerTls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server shows of itself, and which certificates of clients it believes. Without
    `client_ca`, clients show none."""

    certificate: FilePath
    """The server's certificate (PEM), with those that lead to its authority."""
    key: FilePath = ""
    """The certificate's private key (PEM). Without it: in the file of the certificate."""
    client_ca: FilePath = ""
    """Certificates (PEM) of those who may sign clients'."""
    client_certificates: ClientCertificates = ClientCertificates.REQUIRED
    """With `client_ca`: `required`, or `asked` where clients may log in otherwise."""
    revoked: FilePath = ""
    """Lists (PEM) of certificates that are believed no more, one by each of `client_ca`."""

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
        """Whose end somebody should know of in time."""
        return CertificateFiles(frozenset({self.certificate}), frozenset({self.client_ca} - {""}))


class ServerTls:
    """Connections of one listener; any thread may ask."""

    def __init__(self, tls: ListenerTls) -> None:
        self.tls = tls
        files = (tls.certificate, tls.key, tls.client_ca, tls.revoked)
        self._files = exchanged(files, lambda: server_context(tls))

    @property
    def context(self) -> ssl.SSLContext:
        """By the files as they are now. Raises BadTls if none could ever be used."""
        return self._files.current


def server_context(tls: ListenerTls) -> ssl.SSLContext:
    """Raises BadTls."""
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
        raise BadTls(f"`{key}` {path}: {why(error, 'nothing of the kind in it')}") from None
