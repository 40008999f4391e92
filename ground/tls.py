"""TLS of a client: whom it believes, and what it shows of itself. The server's is in `server_tls`.

A `Tls` is what a configuration says; `ClientTls` makes connections of it. Its files may be
exchanged while the program runs: every new connection looks at them, and goes by the new ones. If
those cannot be used, the old ones stay in force, and that is logged once.
"""

import ssl
from collections.abc import Callable

import msgspec

from ground.exchanged_files import Exchanged
from ground.settings import FilePath

Contexts = Exchanged[ssl.SSLContext]


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom a connection believes, and what it shows of itself. `tls: {}` is TLS with the system's
    certificates."""

    ca: FilePath = ""
    """Certificates (PEM) of those who may sign a server's. Without it: the system's."""
    certificate: FilePath = ""
    """The client's own certificate (PEM), with those that lead to its authority."""
    key: FilePath = ""
    """The certificate's private key (PEM). Without it: in the file of the certificate."""
    server_name: str = ""
    """What a server's certificate must be for. Without it: the name in the server's address."""

    def __post_init__(self) -> None:
        if self.key and not self.certificate:
            raise ValueError("`key` needs a `certificate`")


class BadTls(Exception):
    """The files cannot be used; names the file, and says what helps."""


def exchanged(files: tuple[str, ...], make: Callable[[], ssl.SSLContext]) -> Contexts:
    """A context made of files; `make` raises BadTls."""
    return Exchanged(files, make, unusable=BadTls, what="certificates were exchanged")


class ClientTls:
    """Connections of one configuration; any thread may ask."""

    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        files = (tls.ca, tls.certificate, tls.key)
        self._files = exchanged(files, lambda: client_context(tls))

    @property
    def context(self) -> ssl.SSLContext:
        """By the files as they are now. Raises BadTls if none could ever be used."""
        return self._files.current

    def server_name(self, host: str) -> str:
        """What the certificate of this host must be for."""
        return self.tls.server_name or host


def client_context(tls: Tls) -> ssl.SSLContext:
    """Raises BadTls."""
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise BadTls(f"`ca` {tls.ca}: {why(error, 'no certificates in it')}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate:
        show(context, tls.certificate, tls.key)
    return context


def show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have it show this certificate. Raises BadTls."""
    try:
        context.load_cert_chain(certificate, key or None, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        files = " with ".join(filter(None, (certificate, key)))
        raise BadTls(f"`certificate` {files}: {why(error, 'they do not fit')}") from None


def _no_password() -> bytes:
    """OpenSSL would ask the terminal."""
    raise ValueError("its key has a password: keep it without one, readable for this user alone")


def why(error: Exception, otherwise: str) -> str:
    """For the end of a sentence; `otherwise` where the error has no words for it."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or otherwise).replace("_", " ").lower()
    if isinstance(error, OSError):
        return (error.strerror or otherwise).lower()
    return str(error)
