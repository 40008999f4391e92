"""What a configuration says of who sees a program's pages: `http` of an agent and a broker."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ground.certificate_expiry import CertificateFiles
from ground.listening import is_loopback
from ground.server_tls import ListenerTls, server_context
from ground.settings import FilePath
from ground.tls import BadTls
from ground.token_file import BadTokenFile, read_tokens


class PageLocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who gets to see the pages. Without it: everybody who reaches their address."""

    tls: ListenerTls | None = None
    """TLS, and whether clients show certificates: then those are logins."""
    tokens_file: FilePath = ""
    """Who may come in with a token: a file with a line for each, `name:sha256:…`. It is read again
    when it changes."""

    @property
    def has_logins(self) -> bool:
        return bool(self.tokens_file or (self.tls and self.tls.client_ca))

    @property
    def certificate_files(self) -> CertificateFiles:
        """Whose end somebody should know of in time."""
        return self.tls.certificate_files if self.tls else CertificateFiles()

    def are_open(self, host: str) -> bool:
        """Whether others come to that address without a login, or in the clear."""
        return not is_loopback(host) and not (self.has_logins and self.tls)


def check_pages(host: str, locks: PageLocks, *, insecure: bool) -> None:
    """Raises ValueError unless that address may be listened on."""
    if locks.are_open(host) and not insecure:
        raise ValueError(
            f"`http_host: {host}` can be reached from other machines and nobody has to "
            "authenticate, or tokens go without TLS: give `http` a `tls` with a `client_ca`, or "
            "with `tokens_file` beside it; or say `insecure: true` if that is meant"
        )


def locks_that_do_not_work(locks: PageLocks) -> Iterator[str]:
    """What is wrong with the files that they name."""
    try:
        if locks.tls is not None:
            server_context(locks.tls)
    except BadTls as error:
        yield f"`http.tls`: {error}"
    try:
        if locks.tokens_file:
            read_tokens(Path(locks.tokens_file))
    except BadTokenFile as error:
        yield f"`http.tokens_file`: {error}"
