"""TLS of a client: the certificates it trusts, and its own. The server's side is in `server`.

A `Tls` is configuration; `ClientTls` provides contexts for connections. Files may be replaced while
the program runs: every new connection uses the current ones. If those are unusable, the old ones
stay in force, and that is logged once.
"""

import ssl
from collections.abc import Callable

import msgspec

from ground.files.reloaded_files import Exchanged
from ground.settings import FilePath

Contexts = Exchanged[ssl.SSLContext]


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The certificates that a connection trusts, and the client's own. `tls: {}` is TLS with the
    system's certificates."""

    ca: FilePath = ""
    """CA certificates (PEM) that may sign a server's certificate. Default: the system's."""
    certificate: FilePath = ""
    """The client's own certificate (PEM), with the intermediate certificates."""
    key: FilePath = ""
    """The certificate's private key (PEM). Default: in the file of the certificate."""
    server_name: str = ""
    """The host name that a server's certificate must have. Default: that in the address."""

    def __post_init__(self) -> None:
        if self.key and not self.certificate:
            raise ValueError("`key` needs a `certificate`")


class BadTls(Exception):
    """The files are unusable; the message names the file and the remedy."""


def exchanged(files: tuple[str, ...], make: Callable[[], ssl.SSLContext]) -> Contexts:
    """Returns a context that is rebuilt with `make` when the files are replaced; `make` raises
    BadTls."""
    return Exchanged(files, make, unusable=BadTls, what="certificates")


class ClientTls:
    """TLS contexts for one configuration. Thread-safe."""

    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        files = (tls.ca, tls.certificate, tls.key)
        self._files = exchanged(files, lambda: client_context(tls))

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the current files. Raises BadTls if no files were ever usable."""
        return self._files.current

    def server_name(self, host: str) -> str:
        """The name that this host's certificate must have."""
        return self.tls.server_name or host


def client_context(tls: Tls) -> ssl.SSLContext:
    """Builds a context. Raises BadTls."""
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise BadTls(f"`ca` {tls.ca}: {why(error, 'no certificates in it')}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate:
        show(context, tls.certificate, tls.key)
    return context


def show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Loads the certificate that a context presents to the server. Raises BadTls."""
    try:
        context.load_cert_chain(certificate, key or None, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        files = " with ".join(filter(None, (certificate, key)))
        raise BadTls(
            f"`certificate` {files}: {why(error, 'certificate and key do not match')}"
        ) from None


def _no_password() -> bytes:
    """Without this callback OpenSSL would prompt on the terminal."""
    raise ValueError("the key is encrypted: store it unencrypted, readable only by this user")


def why(error: Exception, otherwise: str) -> str:
    """Returns the error's reason, for the end of a sentence; `otherwise` if it has none."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or otherwise).replace("_", " ").lower()
    if isinstance(error, OSError):
        return (error.strerror or otherwise).lower()
    return str(error)
