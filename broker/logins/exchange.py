"""The interface that login mechanisms share, and the exception for a refused login."""

from typing import Final, Protocol

import msgspec

from broker.errors import BrokerError

MOST_BYTES: Final = 64 * 1024  # of one message of a client


class LoginRefused(BrokerError):
    """A refused login. `message` is for the client, `why` for the log; neither contains a secret.

    `user` is the name that the client claimed, if it did. `last_word`, if there is one, is sent
    first, and the refusal after the client's response to that. With `is_ours` the client may have
    been right, so the failure is not counted against it.
    """

    def __init__(
        self,
        message: str,
        why: str,
        *,
        user: str = "",
        last_word: bytes = b"",
        is_ours: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.why = why
        self.user = user
        self.last_word = last_word
        self.is_ours = is_ours


class StepResult(msgspec.Struct, frozen=True):
    """The answer to one step of the client; the answer to the last step includes the principal."""

    answer: bytes
    principal: str = ""
    ends_at: float | None = None


class Exchange(Protocol):
    """One login attempt by one mechanism. Raises LoginRefused, after which it must not be used
    again."""

    async def step(self, data: bytes) -> StepResult: ...


def text_of(mechanism: str, data: bytes, most: int) -> str:
    """Returns the client's message as text. Raises LoginRefused if the message is too long or not
    UTF-8."""
    if len(data) > most:
        raise refused(mechanism, f"message of {len(data)} bytes, at most {most} are allowed")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise refused(mechanism, "the message is not UTF-8") from None


def refused(
    mechanism: str, why: str, *, user: str = "", last_word: bytes = b"", is_ours: bool = False
) -> LoginRefused:
    """Returns a refusal with Kafka's message, the same for every reason."""
    message = (
        "Authentication failed during authentication due to invalid credentials "
        f"with SASL mechanism {mechanism}"
    )
    return LoginRefused(message, why, user=user, last_word=last_word, is_ours=is_ours)
