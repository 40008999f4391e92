"""The configuration of access to a program's pages: `http` of agent, broker and mirror."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ground.logins.token_file import BadTokenFile, read_tokens
from ground.network.listening import is_loopback
from ground.settings import FilePath
from ground.tls.certificate_expiry import CertificateFiles
from ground.tls.client import BadTls
from ground.tls.server import ListenerTls, server_context


class PageLocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access to the pages. Default: everyone who can reach the address."""

    tls: ListenerTls | None = None
    """TLS, and whether clients present certificates, which then are logins."""
    tokens_file: FilePath = ""
    """Tokens that are logins: a file with a line `name:sha256:…` for each. It is reread when it
    changes."""

    @property
    def has_logins(self) -> bool:
        return bool(self.tokens_file or (self.tls and self.tls.client_ca))

    @property
    def certificate_files(self) -> CertificateFiles:
        """The certificate files whose expiry should be monitored."""
        return self.tls.certificate_files if self.tls else CertificateFiles()

    def are_open(self, host: str) -> bool:
        """Whether other machines can reach that address without a login or without TLS."""
        return not is_loopback(host) and not (self.has_logins and self.tls)


def check_pages(host: str, locks: PageLocks, *, insecure: bool) -> None:
    """Checks that listening on this address would be secure. Raises ValueError."""
    if locks.are_open(host) and not insecure:
        raise ValueError(
            f"`http_host: {host}` can be reached from other machines without authentication, or "
            "with tokens but without TLS: set `tls` with `client_ca` or with `tokens_file` in "
            "`http`; or set `insecure: true` if that is intended"
        )


def locks_that_do_not_work(locks: PageLocks) -> Iterator[str]:
    """Yields the problems of the configured files."""
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
