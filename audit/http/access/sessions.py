"""Sessions of users who are logged in on the page, identified by a secret in a cookie.

Rule 1: the secret is random, and only its hash is kept.
Rule 2: a session ends after some idle time, after twelve hours in any case, at a logout, and when
        its user is removed or has another password.
Rule 3: the number of sessions is limited, for each user and in all; a new one replaces the oldest.

Times are passed in. Belongs to the event loop; sessions are in memory only, so a restart ends them.
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
    """A login session. `password` identifies the password with which the user logged in."""

    user: str
    password: bytes
    began: float
    used: float


class Sessions:
    def __init__(self) -> None:
        self._kept: dict[bytes, Session] = {}  # by the secret's hash, the oldest first

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, user: str, password: bytes, now: float) -> str:
        """Begins a session, and returns its secret."""
        self._drop_ended(now)
        own_keys = [key for key, session in self._kept.items() if session.user == user]
        if len(own_keys) >= MOST_OF_ONE:
            del self._kept[own_keys[0]]
        elif len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._kept[_hash(secret)] = Session(user, password, now, now)
        return secret

    def of(self, secret: str, now: float) -> Session | None:
        """Returns the session with this secret, and counts the call as a use; None if it has
        ended."""
        session = self._kept.get(_hash(secret))
        if session is None:
            return None
        if _is_over(session, now):
            self.end(secret)
            return None
        session.used = now
        return session

    def is_open(self, secret: str, now: float) -> bool:
        """Whether the session is open; does not count as a use."""
        session = self._kept.get(_hash(secret))
        return session is not None and not _is_over(session, now)

    def end(self, secret: str) -> None:
        self._kept.pop(_hash(secret), None)

    def _drop_ended(self, now: float) -> None:
        for key in [key for key, session in self._kept.items() if _is_over(session, now)]:
            del self._kept[key]


def _is_over(session: Session, now: float) -> bool:
    return now - session.used > IDLE_S or now - session.began > LONGEST_S


def _hash(secret: str) -> bytes:
    """The key of a session: how long its lookup takes reveals nothing about other secrets."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
