"""The login gate of a connection on a listener with logins: closed until the client has logged in.

    handshake     chooses the mechanism
    steps         the messages of its exchange; the last one opens the gate
    again         before the login ends (KIP-368), by the same user; if it is late, the gate is shut

While the gate is shut, only these requests and ApiVersions are answered; a client that sends
another is disconnected, as by Kafka. So is a client whose login was refused, after the answer.
"""

import time
from collections.abc import Callable, Collection
from typing import Final

from broker.logins.exchange import LoginRefused
from broker.logins.logins import Login, Logins
from wire.errors import ErrorCode

WITHOUT_LOGIN: Final = frozenset({17, 18, 36})  # SaslHandshake, ApiVersions, SaslAuthenticate
LARGEST_REQUEST: Final = 256 * 1024  # before a login; an OAuth token may have some kilobytes


class GateError(Exception):
    """A step that is not allowed, with Kafka's error code for it."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class LoginGate:
    """The gate of one connection. Calls `admitted` with the principal that has logged in, and
    `refused` with the reason for a disconnection, once the answer is being sent."""

    __slots__ = (
        "_admitted", "_host", "_login", "_logins", "_longest", "_refused", "_until", "mechanisms",
        "principal",
    )  # fmt: skip

    def __init__(
        self,
        logins: Logins,
        mechanisms: Collection[str],
        host: str,
        longest_seconds: float,
        *,
        admitted: Callable[[str], None],
        refused: Callable[[str], None],
    ) -> None:
        self.mechanisms = tuple(mechanisms)
        self.principal = ""
        self._logins = logins
        self._host = host
        self._longest = longest_seconds
        self._admitted = admitted
        self._refused = refused
        self._login: Login | None = None
        self._until = 0.0  # by `time.monotonic()`: shut from then on

    def lets(self, api_key: int) -> bool:
        """Returns whether a request of this kind may be served now."""
        return self.is_open or api_key in WITHOUT_LOGIN

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self._until

    def begin(self, mechanism: str) -> None:
        """Begins a login. Raises GateError; the client is disconnected after that."""
        if self._login is not None:
            raise self._cut_off(
                ErrorCode.illegal_sasl_state, "a login is already in progress", "two logins at once"
            )
        if mechanism not in self.mechanisms:
            raise self._cut_off(
                ErrorCode.unsupported_sasl_mechanism,
                f"this listener supports {', '.join(self.mechanisms)}",
                f"mechanism {mechanism:.50} is not enabled",
            )
        self._login = self._logins.begin(mechanism, self._host)

    async def step(self, data: bytes) -> tuple[bytes, int]:
        """Performs a step of the login. Returns the answer, and the login's lifetime in
        milliseconds: 0 if it is unlimited, or the login is incomplete. Raises GateError; the client
        is disconnected after that."""
        login = self._login
        if login is None:
            raise self._cut_off(
                ErrorCode.illegal_sasl_state, "SaslHandshake must come first", "no SaslHandshake"
            )
        try:
            answer = await login.step(data)
        except LoginRefused as refusal:
            self._login = None
            reason = f"{refusal.why}{f', user {refusal.user:.100}' if refusal.user else ''}"
            raise self._cut_off(
                ErrorCode.sasl_authentication_failed, refusal.message, reason
            ) from None
        if not login.done:
            return answer, 0
        self._login = None
        if self.principal and login.principal != self.principal:
            raise self._cut_off(
                ErrorCode.sasl_authentication_failed,
                "a connection cannot change its user",
                f"{self.principal} tried to log in again as {login.principal}",
            )
        return answer, self._open(login)

    def _open(self, login: Login) -> int:
        seconds = self._longest or float("inf")
        if login.ends_at is not None:
            seconds = min(seconds, max(0.0, login.ends_at - time.monotonic()))
        self._until = time.monotonic() + seconds
        self.principal = login.principal
        self._admitted(login.principal)
        return 0 if seconds == float("inf") else max(1, int(seconds * 1000))

    def _cut_off(self, code: ErrorCode, message: str, why: str) -> GateError:
        self._until = 0.0
        self._refused(why)
        return GateError(code, message)
