"""Who is logged in on the page: sessions, kept here alone, and known by a secret in a cookie.

Rule 1: the secret is random, and kept as a hash: what this process holds opens nothing.
Rule 2: a session ends when it was not used for a while, after a day's work whatever happens, when
        its user logs out, and when he is removed or has another password.
Rule 3: of each user so many are kept, and so many in all: the one that was begun first makes room.

Times are passed in. Belongs to the event loop; a restart ends all of them.
"""

import hashlib
import secrets
from typing import Final

import msgspec

IDLE_S: Final = 2 * 3600.0
LONGEST_S: Final = 12 * 3600.0
MOST_OF_ONE: Final = 16
MOST: Final = 2_000

_SECRET_BYTES: Final = 32


class Session(msgspec.Struct):
    """`password` is the mark of that by which it was begun."""

    user: str
    password: bytes
    began: float
    used: float


class Sessions:
    def __init__(self) -> None:
        self._kept: dict[bytes, Session] = {}  # by the secret's hash, the first begun first

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, user: str, password: bytes, now: float) -> str:
        """The secret."""
        self._drop_ended(now)
        own = [key for key, each in self._kept.items() if each.user == user]
        if len(own) >= MOST_OF_ONE:
            del self._kept[own[0]]
        elif len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._kept[_hash(secret)] = Session(user, password, now, now)
        return secret

    def of(self, secret: str, now: float) -> Session | None:
        """The session with that secret, if it has not ended; it has been used now."""
        session = self._kept.get(_hash(secret))
        if session is None:
            return None
        if _is_over(session, now):
            self.end(secret)
            return None
        session.used = now
        return session

    def is_open(self, secret: str, now: float) -> bool:
        """The same, without using it."""
        session = self._kept.get(_hash(secret))
        return session is not None and not _is_over(session, now)

    def end(self, secret: str) -> None:
        self._kept.pop(_hash(secret), None)

    def _drop_ended(self, now: float) -> None:
        for key in [key for key, each in self._kept.items() if _is_over(each, now)]:
            del self._kept[key]


def _is_over(session: Session, now: float) -> bool:
    return now - session.used > IDLE_S or now - session.began > LONGEST_S


def _hash(secret: str) -> bytes:
    """How it is looked up: the time that takes says nothing of those that are kept."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
