"""Authentication of a request by password, token or client certificate.

Rule 1: where a login method is configured, every request must authenticate.
Rule 2: recently verified credentials are accepted from memory. Others cost a slow hash: on a
        separate thread, one per address at a time, and after a pause if logins from the address
        have failed.
Rule 3: a refused client learns nothing more; the log has one line with the reason and the address,
        never the secret. An unknown user name is not logged: it may be a mistyped secret.
Rule 4: a registry that forwards a request names the original caller. Only principals listed in
        `registries` may do so; from all others the request is refused.
"""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Awaitable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import unquote

import msgspec

from ground.logins.login_files import check_name
from ground.logins.password_file import PasswordFile
from ground.logins.token_file import TokenFile
from registry.access.callers import ANYBODY, PRINCIPAL, Caller, Peer
from registry.access.login_throttle import LoginThrottle, TooManyLogins
from registry.access.permissions import Permissions
from registry.errors import ErrorAnswer, no_registry, not_logged_in, too_many_logins

log = logging.getLogger(__name__)

_HASHING_THREADS: Final = 2
_MAX_CREDENTIALS_LENGTH: Final = 16 * 1024
_MAX_NAME_LENGTH: Final = 1_024
_BEARER: Final = "\0token"  # stands for the user when failed logins are counted


class LoginMethods(msgspec.Struct, frozen=True):
    """The login methods that are configured."""

    users: PasswordFile | None = None
    tokens: TokenFile | None = None
    certificates: bool = False
    registries: Collection[str] = ()

    @property
    def any(self) -> bool:
        return self.users is not None or self.tokens is not None or self.certificates

    @property
    def challenge(self) -> tuple[tuple[str, str], ...]:
        """Returns the headers of a 401 answer, which list the accepted methods."""
        kinds = []
        if self.users is not None:
            kinds.append('Basic realm="schema registry", charset="UTF-8"')
        if self.tokens is not None:
            kinds.append('Bearer realm="schema registry"')
        return tuple(("WWW-Authenticate", kind) for kind in kinds)


class Authenticator:
    """Authenticates requests. Belongs to the event loop."""

    def __init__(self, login_methods: LoginMethods, permissions: Permissions) -> None:
        self.login_methods = login_methods
        self._permissions = permissions
        self._tries = LoginThrottle(asyncio.get_running_loop().time)
        self._hashing = ThreadPoolExecutor(_HASHING_THREADS, "hashing")

    def close(self) -> None:
        self._hashing.shutdown(wait=False, cancel_futures=True)

    def caller(
        self, peer: Peer, headers: Mapping[str, str], *, passed_on: bool
    ) -> Caller | Awaitable[Caller]:
        """Returns the caller, or an awaitable for it if a hash must be computed. Either may raise
        ErrorAnswer."""
        if not self.login_methods.any:
            return ANYBODY
        credentials = headers.get("authorization", "")
        if not credentials:
            if not peer.certified:
                raise self._refused(peer, "no credentials")
            return self._named(peer.certified, peer, headers, passed_on=passed_on)
        if len(credentials) > _MAX_CREDENTIALS_LENGTH:
            raise self._refused(peer, "credentials too long")
        kind, _, token = credentials.partition(" ")
        if kind.lower() == "bearer" and self.login_methods.tokens is not None:
            name = self.login_methods.tokens.name_of(token.strip())
            if name is not None:
                return self._named(name, peer, headers, passed_on=passed_on)
            return self._after_a_pause(peer)
        if kind.lower() == "basic" and self.login_methods.users is not None:
            user, password = self._read(peer, token.strip())
            if self.login_methods.users.remembers(user, password):
                return self._named(user, peer, headers, passed_on=passed_on)
            return self._checked(user, password, peer, headers, passed_on=passed_on)
        raise self._refused(peer, "unsupported authentication scheme")

    async def _checked(
        self, user: str, password: str, peer: Peer, headers: Mapping[str, str], *, passed_on: bool
    ) -> Caller:
        users = self.login_methods.users
        assert users is not None
        loop = asyncio.get_running_loop()
        try:
            async with self._tries.turn(peer.host, user) as note_failure:
                # Of concurrent logins with the same password, only the first costs a hash.
                if not users.remembers(user, password):
                    is_right = await loop.run_in_executor(
                        self._hashing, users.check, user, password
                    )
                    if not is_right:
                        note_failure()
                        is_known = users.has(user)
                        reason = f"wrong password for {user}" if is_known else "unknown user"
                        raise self._refused(peer, reason)
        except TooManyLogins:
            raise self._too_many(peer) from None
        return self._named(user, peer, headers, passed_on=passed_on)

    async def _after_a_pause(self, peer: Peer) -> Caller:
        try:
            async with self._tries.turn(peer.host, _BEARER) as note_failure:
                note_failure()
        except TooManyLogins:
            raise self._too_many(peer) from None
        raise self._refused(peer, "unknown token")

    def _read(self, peer: Peer, encoded: str) -> tuple[str, str]:
        try:
            user, separator, password = b64decode(encoded, validate=True).decode().partition(":")
            check_name(user)
        except ValueError:
            separator = ""
        if not separator:
            raise self._refused(peer, "malformed Basic credentials")
        return user, password

    def _named(
        self, name: str, peer: Peer, headers: Mapping[str, str], *, passed_on: bool
    ) -> Caller:
        """The caller: the authenticated principal, or the one for which a registry forwards."""
        if not passed_on and PRINCIPAL not in headers:
            return Caller(name, self._permissions.of(name), peer.host)
        if name not in self.login_methods.registries:
            log.warning(
                "refused: forwards for others, but not in `registries` host=%s principal=%r",
                peer.host,
                name,
            )
            raise no_registry()
        principal = unquote(headers.get(PRINCIPAL, ""))
        if not principal or len(principal) > _MAX_NAME_LENGTH:
            log.warning("refused: forwarded without a caller host=%s principal=%r", peer.host, name)
            raise no_registry()
        return Caller(principal, self._permissions.of(principal), peer.host)

    def _refused(self, peer: Peer, reason: str) -> ErrorAnswer:
        """Log the refusal and return the error to raise."""
        log.warning("refused: %s host=%s", reason, peer.host)
        return not_logged_in()

    def _too_many(self, peer: Peer) -> ErrorAnswer:
        log.warning("refused: too many pending logins host=%s", peer.host)
        return too_many_logins()
