"""Who may log in with a password: a file with a line for each, its password as a slow hash.

    alice:scrypt:16384:8:1:c2FsdA==:ZGlnZXN0

The file is looked at whenever it has changed; if it cannot be read, or a line in it is none, what
was known before stays in force, and that is logged once. What takes a tenth of a second for a
person must not take it for a program that asks a thousand times: a password that was right is
remembered for a while, as a digest that is worth nothing outside of this process.
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

from ground.exchanged_files import Exchanged
from ground.login_files import check_name, lines_of

_COST, _BLOCK, _LANES = 16_384, 8, 1
_MOST_COST: Final = 2**20
_MOST_PASSWORD: Final = 1_024
_REMEMBERED_S: Final = 300.0
_MOST_REMEMBERED: Final = 10_000


class BadPasswordFile(Exception):
    """It cannot be used; names file and line."""


class SlowHash(msgspec.Struct, frozen=True):
    """A password that nobody can read out of it."""

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
        """Raises ValueError."""
        kind, cost, block, lanes, salt, digest = text.split(":")
        made = cls(
            int(cost), int(block), int(lanes), b64decode(salt, validate=True),
            b64decode(digest, validate=True),
        )  # fmt: skip
        within = made.cost <= _MOST_COST and made.block <= 32 and made.lanes <= 4
        if kind != "scrypt" or not within or len(made.salt) < 8 or len(made.digest) != 32:
            raise ValueError("not a hash that is understood")
        return made

    def __str__(self) -> str:
        salt, digest = b64encode(self.salt).decode(), b64encode(self.digest).decode()
        return f"scrypt:{self.cost}:{self.block}:{self.lanes}:{salt}:{digest}"

    def matches(self, password: str) -> bool:
        """Takes a twentieth of a second and 16 MB."""
        found = _digest(password, self.salt, self.cost, self.block, self.lanes)
        return hmac.compare_digest(found, self.digest)


class PasswordFile:
    """The logins of one file. Any thread may ask; `check` is slow at first, and belongs beside an
    event loop."""

    def __init__(self, path: Path) -> None:
        """Raises BadPasswordFile."""
        self._file = Exchanged(
            (str(path),),
            lambda: read_users(path),
            unusable=BadPasswordFile,
            what="passwords were changed",
        )
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._nobody = SlowHash.of(secrets.token_hex())
        self._users = self._file.current  # those that `_known` is of
        self._known: dict[bytes, float] = {}  # what was right, until when

    def check(self, name: str, password: str) -> bool:
        """Whether that is the user's password. It takes as long for a user who is not there."""
        if len(password) > _MOST_PASSWORD:
            return False
        if self.remembers(name, password):
            return True
        users = self._current()
        known = self._remembered_as(name, password)
        now = time.monotonic()
        if not users.get(name, self._nobody).matches(password) or name not in users:
            return False
        with self._lock:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            if users is self._users:  # and not exchanged meanwhile
                self._known[known] = now + _REMEMBERED_S
        return True

    def remembers(self, name: str, password: str) -> bool:
        """Whether it was right lately, and nothing has changed since. Fast: who serves on an event
        loop asks this there, and `check` beside it."""
        if len(password) > _MOST_PASSWORD:
            return False
        self._current()
        known = self._remembered_as(name, password)
        with self._lock:
            return self._known.get(known, 0.0) > time.monotonic()

    def _remembered_as(self, name: str, password: str) -> bytes:
        said = f"{name}\0{password}".encode(errors="surrogatepass")
        return hmac.digest(self._key, said, "sha256")

    def has(self, name: str) -> bool:
        """Whether there is such a user, now."""
        return name in self._current()

    def mark_of(self, name: str) -> bytes | None:
        """Another one once the password is another; None if there is no such user, now."""
        found = self._current().get(name)
        return None if found is None else found.salt + found.digest

    def _current(self) -> dict[str, SlowHash]:
        users = self._file.current
        with self._lock:
            if users is not self._users:
                self._users = users
                self._known.clear()
        return users


def read_users(path: Path) -> dict[str, SlowHash]:
    """Raises BadPasswordFile."""
    users: dict[str, SlowHash] = {}
    for number, name, rest in lines_of(path, BadPasswordFile):
        try:
            check_name(name)
            users[name] = SlowHash.read(rest)
        except ValueError:
            raise BadPasswordFile(f"{path}, line {number}: not `name:scrypt:…`") from None
    return users


def _digest(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=lanes, dklen=32, maxmem=2**31 - 1
    )
