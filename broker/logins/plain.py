"""PLAIN (RFC 4616): the client sends its password itself, protected by TLS.

The password is checked against SCRAM's stored keys, so there is one store of users for all.
"""

from typing import Final

from broker.logins.exchange import StepResult, refused, text_of
from broker.logins.known_users import KnownUsers
from broker.logins.password_checks import PasswordChecks
from ground.logins.scram import LONGEST_PASSWORD

MECHANISM: Final = "PLAIN"
_MOST_BYTES: Final = 8_192


class PlainExchange:
    """One login attempt, of one step."""

    def __init__(self, users: KnownUsers, passwords: PasswordChecks, host: str) -> None:
        self._users = users
        self._passwords = passwords
        self._host = host

    async def step(self, data: bytes) -> StepResult:
        parts = text_of(MECHANISM, data, _MOST_BYTES).split("\0")
        if len(parts) != 3:
            raise refused(MECHANISM, "malformed PLAIN message")
        authzid, user, password = parts
        if not user or not password or len(password) > LONGEST_PASSWORD:
            raise refused(MECHANISM, "empty name, or empty or too long password", user=user)
        if authzid not in {"", user}:
            raise refused(MECHANISM, "authorization id differs from the user name", user=user)
        checked_user = self._users.of_any(user)
        is_right = await self._passwords.matches(self._host, checked_user, password)
        if not checked_user.exists:
            raise refused(MECHANISM, "unknown user", user=user)
        if not is_right:
            raise refused(MECHANISM, "wrong password", user=user)
        return StepResult(b"", user)
