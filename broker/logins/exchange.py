"""What the mechanisms have in common: what each of them is, and how it says no."""

from typing import Final, Protocol

import msgspec

from broker.errors import BrokerError

MOST_BYTES: Final = 64 * 1024  # of one message of a client's


class LoginRefused(BrokerError):
    """`message` is for the client, `why` for the log; no secret is in either.

    `user` is who the client said it is, as far as it did. `last_word`, if there is one, is answered
    first, and the refusal when the client has heard it. With `is_ours` the client may have been
    right: it is not counted against it.
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


class Said(msgspec.Struct, frozen=True):
    """What the client is answered; with the last of it, who it is."""

    answer: bytes
    principal: str = ""
    ends_at: float | None = None


class Exchange(Protocol):
    """One attempt by one mechanism. Raises LoginRefused, after which it is not asked again."""

    async def step(self, data: bytes) -> Said: ...


def text_of(mechanism: str, data: bytes, most: int) -> str:
    """What a client says, if it can be."""
    if len(data) > most:
        raise refused(mechanism, f"it says {len(data)} bytes, {most} are allowed")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise refused(mechanism, "what it says is not UTF-8") from None


def refused(
    mechanism: str, why: str, *, user: str = "", last_word: bytes = b"", is_ours: bool = False
) -> LoginRefused:
    """In Kafka's words, which are the same for every reason."""
    message = (
        "Authentication failed during authentication due to invalid credentials "
        f"with SASL mechanism {mechanism}"
    )
    return LoginRefused(message, why, user=user, last_word=last_word, is_ours=is_ours)
