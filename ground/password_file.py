"""Who may log in with a password: a file with a line for each, its password as a slow hash.

    alice:scrypt:16384:8:1:c2FsdA==:ZGlnZXN0

The file is looked at whenever it has changed; if it cannot be read, or a line in it is none, what
was known before stays in force, and that is logged once. What takes a tenth of a second for a
person must not take it for a program that asks a thousand times: a password that was right is
remembered for a while, as a digest that is worth nothing outside of this process.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[^\s:/\\,\"'<>&\x00-\x1f\x7f]{1,128}")
_COST, _BLOCK, _LANES = 16_384, 8, 1
_MOST_COST: Final = 2**20
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_PASSWORD: Final = 1_024
_REMEMBERED_S: Final = 300.0
_MOST_REMEMBERED: Final = 10_000


class BadPasswordFile(Exception):
    """It cannot be used; names file and line."""


@dataclass(frozen=True, slots=True)
class SlowHash:
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
        self._path = path
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._nobody = SlowHash.of(secrets.token_hex())
        self._stamp = _stamp(path)
        self._refused: tuple[int, int, int] | None = None
        self._users = read_users(path)
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
        stamp = _stamp(self._path)
        with self._lock:
            if stamp not in (self._stamp, self._refused):
                try:
                    self._users, self._stamp = read_users(self._path), stamp
                    self._known.clear()
                except BadPasswordFile as error:
                    self._refused = stamp
                    log.error("passwords were changed, the old ones stay reason=%s", error)
            return self._users


def check_name(name: str) -> None:
    """Raises ValueError unless a user may be called that."""
    if not _NAME.fullmatch(name):
        raise ValueError("a user's name has no spaces, quotes, slashes, commas or colons")


def read_users(path: Path) -> dict[str, SlowHash]:
    """Raises BadPasswordFile."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise BadPasswordFile(f"{path} has more than {_MOST_BYTES} bytes")
        text = content.decode()
    except OSError as error:
        why = (error.strerror or "").lower()
        raise BadPasswordFile(f"{path} cannot be read: {why}") from None
    except UnicodeDecodeError:
        raise BadPasswordFile(f"{path} is not UTF-8") from None
    users: dict[str, SlowHash] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
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


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 -- at every login
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size
