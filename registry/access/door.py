"""Who asks, by what a request and its connection say: a password, a token, or a certificate.

Rule 1: where any login is configured, nobody comes in without one.
Rule 2: what was right lately is known at once. Anything else costs a slow hash: in a thread of its
        own, one for each address at a time, and after a pause if logins from there have failed.
Rule 3: whoever is refused is told no more than that; the log says who and from where, in one line,
        and never with the secret. A name that nobody has may be a secret typed in the wrong place.
Rule 4: a registry that passes a request on says for whom. It is believed if it is one of the
        registries that are named in the configuration; whoever else says so is refused.
"""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Awaitable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import unquote

import msgspec

from ground.login_files import check_name
from ground.password_file import PasswordFile
from ground.token_file import TokenFile
from registry.access.callers import ANYBODY, PRINCIPAL, Caller, Peer
from registry.access.permissions import Permissions
from registry.access.tries import TooManyTries, Tries
from registry.errors import Answered, no_registry, not_logged_in, too_many_tries

log = logging.getLogger(__name__)

_HASHING_THREADS: Final = 2
_LONGEST: Final = 16 * 1024
_LONGEST_NAME: Final = 1_024
_A_TOKENS: Final = "\0token"  # in place of a user's name, where logins are counted


class Locks(msgspec.Struct, frozen=True):
    """What may open the door."""

    users: PasswordFile | None = None
    tokens: TokenFile | None = None
    certificates: bool = False
    registries: Collection[str] = ()

    @property
    def any(self) -> bool:
        return self.users is not None or self.tokens is not None or self.certificates

    @property
    def challenge(self) -> tuple[tuple[str, str], ...]:
        """The headers of a refusal that say what would be taken."""
        kinds = []
        if self.users is not None:
            kinds.append('Basic realm="schema registry", charset="UTF-8"')
        if self.tokens is not None:
            kinds.append('Bearer realm="schema registry"')
        return tuple(("WWW-Authenticate", kind) for kind in kinds)


class Door:
    """Belongs to the event loop."""

    def __init__(self, locks: Locks, permissions: Permissions) -> None:
        self.locks = locks
        self._permissions = permissions
        self._tries = Tries(asyncio.get_running_loop().time)
        self._hashing = ThreadPoolExecutor(_HASHING_THREADS, "hashing")

    def close(self) -> None:
        self._hashing.shutdown(wait=False, cancel_futures=True)

    def caller(
        self, peer: Peer, headers: Mapping[str, str], *, passed_on: bool
    ) -> Caller | Awaitable[Caller]:
        """Who asks; an awaitable if that must be found out. Raises Answered, as that does."""
        if not self.locks.any:
            return ANYBODY
        said = headers.get("authorization", "")
        if not said:
            if not peer.certified:
                raise self._refused(peer, "it says nothing of who it is")
            return self._named(peer.certified, peer, headers, passed_on=passed_on)
        if len(said) > _LONGEST:
            raise self._refused(peer, "what it says is too long")
        kind, _, rest = said.partition(" ")
        if kind.lower() == "bearer" and self.locks.tokens is not None:
            name = self.locks.tokens.name_of(rest.strip())
            if name is not None:
                return self._named(name, peer, headers, passed_on=passed_on)
            return self._after_a_pause(peer)
        if kind.lower() == "basic" and self.locks.users is not None:
            user, password = self._read(peer, rest.strip())
            if self.locks.users.remembers(user, password):
                return self._named(user, peer, headers, passed_on=passed_on)
            return self._checked(user, password, peer, headers, passed_on=passed_on)
        raise self._refused(peer, "its kind of login is not taken here")

    async def _checked(
        self, user: str, password: str, peer: Peer, headers: Mapping[str, str], *, passed_on: bool
    ) -> Caller:
        users = self.locks.users
        assert users is not None
        loop = asyncio.get_running_loop()
        try:
            async with self._tries.turn(peer.host, user) as failed:
                # Of many that came at once with the same password, one is looked at.
                if not users.remembers(user, password):
                    right = await loop.run_in_executor(self._hashing, users.check, user, password)
                    if not right:
                        failed()
                        known = f"the password of {user} is not right"
                        why = known if users.has(user) else "there is no such user"
                        raise self._refused(peer, why)
        except TooManyTries:
            raise self._too_many(peer) from None
        return self._named(user, peer, headers, passed_on=passed_on)

    async def _after_a_pause(self, peer: Peer) -> Caller:
        try:
            async with self._tries.turn(peer.host, _A_TOKENS) as failed:
                failed()
        except TooManyTries:
            raise self._too_many(peer) from None
        raise self._refused(peer, "its token is nobody's")

    def _read(self, peer: Peer, encoded: str) -> tuple[str, str]:
        try:
            user, found, password = b64decode(encoded, validate=True).decode().partition(":")
            check_name(user)
        except ValueError:
            found = ""
        if not found:
            raise self._refused(peer, "what it says is no user with a password")
        return user, password

    def _named(
        self, name: str, peer: Peer, headers: Mapping[str, str], *, passed_on: bool
    ) -> Caller:
        """Whose request it is: the one who sends it, or the one for whom a registry does."""
        if not passed_on and PRINCIPAL not in headers:
            return Caller(name, self._permissions.of(name), peer.host)
        if name not in self.locks.registries:
            log.warning(
                "refused: it says that it passes on for another, and is none of the `registries` "
                "host=%s principal=%r",
                peer.host,
                name,
            )
            raise no_registry()
        behind = unquote(headers.get(PRINCIPAL, ""))
        if not behind or len(behind) > _LONGEST_NAME:
            log.warning("refused: it does not say for whom host=%s principal=%r", peer.host, name)
            raise no_registry()
        return Caller(behind, self._permissions.of(behind), peer.host)

    def _refused(self, peer: Peer, why: str) -> Answered:
        """To be raised; in the log it is one line."""
        log.warning("refused: %s host=%s", why, peer.host)
        return not_logged_in()

    def _too_many(self, peer: Peer) -> Answered:
        log.warning("refused: too many logins wait host=%s", peer.host)
        return too_many_tries()
