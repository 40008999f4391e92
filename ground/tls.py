"""TLS of a client: whom it believes, and what it shows of itself. The server's is in `server_tls`.

A `Tls` is what a configuration says; `ClientTls` makes connections of it. Its files may be
exchanged while the program runs: every new connection looks at them, and goes by the new ones. If
those cannot be used, the old ones stay in force, and that is logged once.
"""

import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from ground.settings import FilePath

log = logging.getLogger(__name__)

FileStamp = tuple[int, int, int]
_Stamps = tuple[FileStamp, ...]
_NO_FILE: Final = (0, 0, 0)


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


class ExchangedFiles:
    """A context made of files, and made anew when they have been exchanged; any thread may ask."""

    def __init__(self, files: tuple[str, ...], make: Callable[[], ssl.SSLContext]) -> None:
        """`make` raises BadTls."""
        self._files = files
        self._make = make
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._stamp: _Stamps = ()
        self._refused: _Stamps = ()

    @property
    def context(self) -> ssl.SSLContext:
        """By the files as they are now. Raises BadTls if none could ever be used."""
        with self._lock:
            stamp = tuple(map(file_stamp, self._files))
            if self._context is None or stamp not in (self._stamp, self._refused):
                try:
                    self._context, self._stamp = self._make(), stamp
                except BadTls as error:
                    if self._context is None:
                        raise
                    self._refused = stamp
                    log.error("certificates were exchanged, the old ones stay reason=%s", error)
            return self._context


class ClientTls:
    """Connections of one configuration; any thread may ask."""

    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        files = (tls.ca, tls.certificate, tls.key)
        self._files = ExchangedFiles(files, lambda: client_context(tls))

    @property
    def context(self) -> ssl.SSLContext:
        """By the files as they are now. Raises BadTls if none could ever be used."""
        return self._files.context

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


def file_stamp(path: str) -> FileStamp:
    """What is different once a file was exchanged; of none the same as of an empty path."""
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return _NO_FILE
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else _NO_FILE


def why(error: Exception, otherwise: str) -> str:
    """For the end of a sentence; `otherwise` where the error has no words for it."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or otherwise).replace("_", " ").lower()
    if isinstance(error, OSError):
        return (error.strerror or otherwise).lower()
    return str(error)
