"""Access control of a `PageServer`.

Rule 1: if any login is configured, every page requires one: a token, or the connection's client
        certificate. A certificate does not make up for a wrong token.
Rule 2: liveness and readiness, as status alone, are shown without a login to everyone who can
        connect, because supervisors and load balancers have no secrets.
Rule 3: changed files are reread. Unusable files leave the previous ones in force.
"""

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from ground.http.page_locks import PageLocks, locks_that_do_not_work
from ground.logins.token_file import TokenFile
from ground.network.refusals import Refusals
from ground.tls.server import ServerTls

OPEN_PAGES: Final = frozenset({"/healthz", "/readyz"})


class BadLocks(Exception):
    """The configured files are unusable."""


class NotLetIn(Exception):
    """The request is refused; the message has the reason."""


class PageDoor:
    """Checks requests for one page server."""

    def __init__(self, locks: PageLocks, refusals: Refusals) -> None:
        """Reads the credential files. Raises BadLocks."""
        for problem in locks_that_do_not_work(locks):
            raise BadLocks(problem)
        self.tls = ServerTls(locks.tls) if locks.tls else None
        self.refusals = refusals
        self._tokens = TokenFile(Path(locks.tokens_file)) if locks.tokens_file else None
        self._is_locked = locks.has_logins

    def check(self, authorization: Sequence[str], *, has_certificate: bool) -> None:
        """Checks a request's credentials. Raises NotLetIn."""
        if not self._is_locked:
            return
        if not authorization:
            if has_certificate:
                return
            raise NotLetIn("authentication required")
        kind, _, token = authorization[0].strip().partition(" ")
        if len(authorization) > 1 or kind.lower() != "bearer" or self._tokens is None:
            raise NotLetIn("unsupported authentication method")
        if self._tokens.name_of(token.strip()) is None:
            raise NotLetIn("unknown token")

    @property
    def refusal(self) -> tuple[HTTPStatus, dict[str, str]]:
        """Returns the status and headers of a refusal."""
        if self._tokens is None:
            return HTTPStatus.FORBIDDEN, {}
        return HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": 'Bearer realm="penstock"'}
