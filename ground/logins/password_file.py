"""Logins with passwords: a file with a line for each user, the password as a slow hash.

  alice:scrypt:16384:8:1:c2FsdA==:ZGlnZXN0

A changed file is reread; if it cannot be read, or has an invalid line, the previous content stays
in force, and that is logged once. Hashing takes a tenth of a second, which is fine for a person but
not for a program with a thousand requests. So a correct password is cached for a while, as a keyed
digest that is useless outside of this process.
"""

import hashlib
import hmac
import secrets
import threading
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final, Self

import msgspec

from ground.files.reloaded_files import Exchanged
from ground.logins.login_files import check_name, lines_of

_COST, _BLOCK, _LANES = 16_384, 8, 1
_MOST_COST: Final = 2**20
_MOST_PASSWORD: Final = 1_024
_REMEMBERED_S: Final = 300.0
_MOST_REMEMBERED: Final = 10_000


class BadPasswordFile(Exception):
    """The file is unusable; the message names file and line."""


class SlowHash(msgspec.Struct, frozen=True):
    """A password's scrypt hash."""

    cost: int
    block: int
    lanes: int
    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, password: str) -> Self:
        salt = secrets.token_bytes(16)
        return cls(_COST, _BLOCK, _LANES, salt, _digest(password, salt, _COST, _BLOCK, _LANES))

    @classmethod
    def read(cls, text: str) -> Self:
        """Parses a hash. Raises ValueError."""
        kind, cost, block, lanes, salt, digest = text.split(":")
        result = cls(
            int(cost), int(block), int(lanes), b64decode(salt, validate=True),
            b64decode(digest, validate=True),
        )  # fmt: skip
        is_bounded = result.cost <= _MOST_COST and result.block <= 32 and result.lanes <= 4
        if kind != "scrypt" or not is_bounded or len(result.salt) < 8 or len(result.digest) != 32:
            raise ValueError("unsupported hash")
        return result

    def __str__(self) -> str:
        salt, digest = b64encode(self.salt).decode(), b64encode(self.digest).decode()
        return f"scrypt:{self.cost}:{self.block}:{self.lanes}:{salt}:{digest}"

    def matches(self, password: str) -> bool:
        """Whether the password is correct. Takes a twentieth of a second and 16 MB."""
        digest = _digest(password, self.salt, self.cost, self.block, self.lanes)
        return hmac.compare_digest(digest, self.digest)


class PasswordFile:
    """The logins in one file. Thread-safe; `check` may be too slow for an event loop."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises BadPasswordFile."""
        self._file = Exchanged(
            (str(path),),
            lambda: read_users(path),
            unusable=BadPasswordFile,
            what="passwords",
        )
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._nobody = SlowHash.of(secrets.token_hex())
        self._users = self._file.current  # to which `_known` belongs
        self._known: dict[bytes, float] = {}  # correct logins, with expiry

    def check(self, name: str, password: str) -> bool:
        """Whether the password is correct. Takes as long for an unknown user."""
        if len(password) > _MOST_PASSWORD:
            return False
        if self.remembers(name, password):
            return True
        users = self._current()
        cache_key = self._remembered_as(name, password)
        now = time.monotonic()
        if not users.get(name, self._nobody).matches(password) or name not in users:
            return False
        with self._lock:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            if users is self._users:  # not replaced meanwhile
                self._known[cache_key] = now + _REMEMBERED_S
        return True

    def remembers(self, name: str, password: str) -> bool:
        """Whether this login was recently found correct. Fast enough for an event loop."""
        if len(password) > _MOST_PASSWORD:
            return False
        self._current()
        cache_key = self._remembered_as(name, password)
        with self._lock:
            return self._known.get(cache_key, 0.0) > time.monotonic()

    def _remembered_as(self, name: str, password: str) -> bytes:
        credentials = f"{name}\0{password}".encode(errors="surrogatepass")
        return hmac.digest(self._key, credentials, "sha256")

    def has(self, name: str) -> bool:
        """Whether the user exists now."""
        return name in self._current()

    def mark_of(self, name: str) -> bytes | None:
        """Returns a value that changes with the user's password; None if there is no such user."""
        slow_hash = self._current().get(name)
        return None if slow_hash is None else slow_hash.salt + slow_hash.digest

    def _current(self) -> dict[str, SlowHash]:
        users = self._file.current
        with self._lock:
            if users is not self._users:
                self._users = users
                self._known.clear()
        return users


def read_users(path: Path) -> dict[str, SlowHash]:
    """Parses the file. Raises BadPasswordFile."""
    users: dict[str, SlowHash] = {}
    for line_number, name, rest in lines_of(path, BadPasswordFile):
        try:
            check_name(name)
            users[name] = SlowHash.read(rest)
        except ValueError:
            raise BadPasswordFile(f"{path}, line {line_number}: expected `name:scrypt:…`") from None
    return users


def _digest(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=lanes, dklen=32, maxmem=2**31 - 1
    )
