"""The door of a `PageServer`: who may see a program's pages.

Rule 1: where any login is configured, nobody sees a page without one: a token, or a certificate
        that the connection was made with. A wrong token is not made right by a certificate.
Rule 2: whether the program lives, and is ready, everybody is told who gets a connection, and
        nothing beside it: supervisors and balancers have no secrets.
Rule 3: files are looked at whenever they have changed. Those that cannot be used leave what was
        known before in force.
"""

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from ground.page_locks import PageLocks, locks_that_do_not_work
from ground.refusals import Refusals
from ground.server_tls import ServerTls
from ground.token_file import TokenFile

OPEN_PAGES: Final = frozenset({"/healthz", "/readyz"})


class BadLocks(Exception):
    """Files by which nobody could be let in."""


class NotLetIn(Exception):
    """Says why."""


class PageDoor:
    """Belongs to the server of the pages."""

    def __init__(self, locks: PageLocks, refusals: Refusals) -> None:
        """Raises BadLocks."""
        for wrong in locks_that_do_not_work(locks):
            raise BadLocks(wrong)
        self.tls = ServerTls(locks.tls) if locks.tls else None
        self.refusals = refusals
        self._tokens = TokenFile(Path(locks.tokens_file)) if locks.tokens_file else None
        self._is_locked = locks.has_logins

    def check(self, authorization: Sequence[str], *, has_certificate: bool) -> None:
        """Raises NotLetIn."""
        if not self._is_locked:
            return
        if not authorization:
            if has_certificate:
                return
            raise NotLetIn("it is not known who asks")
        kind, _, token = authorization[0].strip().partition(" ")
        if len(authorization) > 1 or kind.lower() != "bearer" or self._tokens is None:
            raise NotLetIn("that is no way to log in here")
        if self._tokens.name_of(token.strip()) is None:
            raise NotLetIn("there is no such token")

    @property
    def refusal(self) -> tuple[HTTPStatus, dict[str, str]]:
        """Status and headers for who is not let in."""
        if self._tokens is None:
            return HTTPStatus.FORBIDDEN, {}
        return HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": 'Bearer realm="penstock"'}
