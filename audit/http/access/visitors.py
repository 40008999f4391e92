"""Authenticates requests by a session cookie, a token, a password, or a proxy's header.

Rule 1: credentials in a request must be valid. After a wrong token or password no other credential
        of the same request is tried.
Rule 2: passwords are hashed slowly, on threads of their own. The number of waiting logins is
        limited, in all and for each address. A password that was just verified is not hashed again.
Rule 3: credentials are looked up in their file with every request, so a removed user or a changed
        password ends access at once.
Rule 4: a proxy's header is accepted from the proxy's addresses only.

Belongs to the event loop.
"""

import asyncio
import base64
import binascii
import hmac
import math
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple

from starlette.types import Scope

from audit.configuration.config import AuditConfig
from audit.errors import AuditFailure, NotKnown, NotNow, TooOften
from audit.http.access.login_attempts import Tries
from audit.http.access.operators import BadOperatorsFile, OperatorsFile
from audit.http.access.sessions import Sessions
from audit.http.responses import values
from ground.logins.login_files import check_name
from ground.logins.password_file import BadPasswordFile, PasswordFile
from ground.logins.token_file import BadTokenFile, TokenFile

HASHING_THREADS: Final = 1  # leaves the processor to answers

_MOST_WAITING: Final = 32
_REMEMBERED_S: Final = 300.0
_MOST_REMEMBERED: Final = 1_000
_WRONG: Final = "the name or the password is not right"  # the alerting rules have these words


class Visitor(NamedTuple):
    """An authenticated user. `stays` returns whether the access is still valid; `session` is the
    session's secret."""

    name: str
    by: str
    stays: Callable[[], bool]
    session: str = ""


class _Remembered(NamedTuple):
    """A password that was verified recently."""

    user: str
    mark: bytes
    until: float


class Visitors:
    """Authenticates visitors. `hashing` hashes passwords."""

    def __init__(
        self, config: AuditConfig, hashing: Executor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises AuditFailure."""
        try:
            self._users = PasswordFile(Path(config.users_file)) if config.users_file else None
            self._tokens = TokenFile(Path(config.tokens_file)) if config.tokens_file else None
            self._operators = (
                OperatorsFile(Path(config.operators_file)) if config.operators_file else None
            )
        except BadOperatorsFile as error:
            raise AuditFailure(f"`operators_file`: {error}") from None
        except BadPasswordFile as error:
            raise AuditFailure(f"`users_file`: {error}") from None
        except BadTokenFile as error:
            raise AuditFailure(f"`tokens_file`: {error}") from None
        proxy = config.proxy
        self._header = proxy.header.lower().encode() if proxy else b""
        self._proxies = {_plain(address) for address in proxy.addresses} if proxy else set()
        self._hashing = hashing
        self._clock = clock
        self._waiting = 0
        self._tries = Tries()
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, _Remembered] = {}
        # Browsers accept a cookie with this prefix by HTTPS only, and from this host only.
        self.cookie: Final = "__Host-penstock-audit" if config.tls else "penstock-audit"
        self.sessions: Final = Sessions()

    @property
    def have_passwords(self) -> bool:
        """Whether users can log in on the page with a password."""
        return self._users is not None

    def is_operator(self, name: str) -> bool:
        """Whether the user may accept faults and retire hosts."""
        return self._operators is not None and self._operators.has(name)

    async def authenticate(self, scope: Scope) -> Visitor | None:
        """Authenticates a request; returns None if it has no credentials. Raises NotKnown,
        TooOften, NotNow."""
        address = address_of(scope)
        if _plain(address) in self._proxies and (names := values(scope, self._header)):
            return self._by_proxy(names)
        if authorizations := values(scope, b"authorization"):
            return await self._by_header(authorizations, address)
        return self._by_cookie(scope)

    async def log_in(self, address: str, user: str, password: str) -> str:
        """Begins a session, and returns its secret. Raises NotKnown, TooOften, NotNow."""
        mark = await self._check(address, user, password)
        return self.sessions.begin(user, mark, self._clock())

    def log_out(self, scope: Scope) -> None:
        for secret in self._cookies(scope):
            self.sessions.end(secret)

    def is_forged(self, scope: Scope) -> bool:
        """Whether the request has the proxy's header but does not come from the proxy."""
        return bool(
            self._header
            and values(scope, self._header)
            and _plain(address_of(scope)) not in self._proxies
        )

    def known_name(self, user: str) -> str:
        """Returns the user's name for a log; empty if there is no such user, because a password may
        have been entered as the name."""
        return user if self._users is not None and self._users.has(user) else ""

    def _by_cookie(self, scope: Scope) -> Visitor | None:
        users = self._users
        if users is None:
            return None
        for secret in self._cookies(scope):
            session = self.sessions.of(secret, self._clock())
            if session is None:
                continue
            if users.mark_of(session.user) != session.password:
                self.sessions.end(secret)
                continue
            user, password = session.user, session.password

            def stays(secret: str = secret, user: str = user, password: bytes = password) -> bool:
                return (
                    self.sessions.is_open(secret, self._clock()) and users.mark_of(user) == password
                )

            return Visitor(user, "session", stays, secret)
        return None

    def _cookies(self, scope: Scope) -> list[str]:
        """Values of all cookies with our name: another program on this host may have set one."""
        cookie_secrets = []
        for line in values(scope, b"cookie"):
            for cookie in line.split(";"):
                name, _, value = cookie.strip().partition("=")
                if name == self.cookie and value:
                    cookie_secrets.append(value)
        return cookie_secrets[:4]

    def _by_proxy(self, names: list[str]) -> Visitor:
        try:
            (name,) = names
            name = name.encode("latin-1").decode()
            check_name(name)
        except ValueError:
            raise NotKnown("the proxy's header has no valid user name") from None
        return Visitor(name, "proxy", lambda: True)

    async def _by_header(self, shown: list[str], address: str) -> Visitor:
        if len(shown) > 1:
            raise NotKnown("the request has more than one `Authorization`")
        scheme, _, proof = shown[0].strip().partition(" ")
        if scheme.lower() == "bearer" and self._tokens is not None:
            return self._by_token(proof.strip(), address)
        if scheme.lower() == "basic" and self._users is not None:
            return await self._by_password(proof.strip(), address)
        raise NotKnown("this audit does not accept this scheme of `Authorization`")

    def _by_token(self, token: str, address: str) -> Visitor:
        tokens = self._tokens
        assert tokens is not None
        name = tokens.name_of(token)
        if name is not None:
            return Visitor(name, "token", lambda: tokens.name_of(token) == name)
        now = self._clock()
        self._check_pause(address, "", now)
        self._tries.begin(address)
        self._tries.end(address, "", now, right=False)
        raise NotKnown("unknown token")

    async def _by_password(self, proof: str, address: str) -> Visitor:
        try:
            user, colon, password = base64.b64decode(proof, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise NotKnown("`Authorization` is malformed") from None
        if not colon:
            raise NotKnown("`Authorization` is malformed")
        users = self._users
        assert users is not None
        key = hmac.digest(self._key, proof.encode(), "sha256")
        entry = self._right.get(key)
        if entry is None or entry.until < self._clock() or users.mark_of(user) != entry.mark:
            self._right.pop(key, None)
            mark = await self._check(address, user, password)
            if len(self._right) >= _MOST_REMEMBERED:
                self._right.clear()
            entry = self._right[key] = _Remembered(user, mark, self._clock() + _REMEMBERED_S)
        mark = entry.mark
        return Visitor(user, "password", lambda: users.mark_of(user) == mark)

    async def _check(self, address: str, user: str, password: str) -> bytes:
        """Verifies a password, and returns its mark. Raises NotKnown, TooOften, NotNow."""
        users = self._users
        if users is None:
            raise NotKnown("this audit has no password logins")
        try:
            check_name(user)
        except ValueError:
            user = ""  # no user has it; the check takes as long all the same
        self._check_pause(address, user, self._clock())
        if self._waiting >= _MOST_WAITING:
            raise NotNow("too many logins are waiting: try again in a moment")
        mark = users.mark_of(user)
        is_correct: bool | None = None
        self._waiting += 1
        self._tries.begin(address)
        try:
            is_correct = await asyncio.get_running_loop().run_in_executor(
                self._hashing, users.check, user, password
            )
        finally:
            self._waiting -= 1
            self._tries.end(address, user, self._clock(), right=is_correct)
        if not is_correct or mark is None or users.mark_of(user) != mark:
            raise NotKnown(_WRONG)
        return mark

    def _check_pause(self, address: str, user: str, now: float) -> None:
        if pause := self._tries.pause(address, user, now):
            raise TooOften(math.ceil(pause))


def address_of(scope: Scope) -> str:
    """Returns the address of the connection's peer, whatever the headers say."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _plain(address: str) -> str:
    """An address in the form in which addresses are compared."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    mapped_ip = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return str(mapped_ip or ip)
