"""What is said on one connection: requests with their numbers, answers cut from bytes. No I/O.

Rule 1: a request takes the highest version that both sides speak.
Rule 2: answers come in the order of the requests, of which any number may be under way.
Rule 3: what cannot be an answer to the oldest request is `NotKafka`, and the end of it.

Bytes are received where `wanted` says, and a long answer right into its own memory.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from client.errors import ErrorCode
from wire.codec import Api

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True, eq=False)
class Pending(Generic[Response]):
    """A request under way, and the time by which its answer is due."""

    api: Api[Any, Response]
    version: int
    correlation_id: int
    deadline: float


class Conversation:
    """One connection's, from its first byte."""

    def __init__(self, peer: str, client_id: str) -> None:
        raise NotImplementedError

    def version(self, api: Api[Any, Any]) -> int:
        """The highest version of an API that both sides speak."""
        raise NotImplementedError

    def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        deadline: float,
        *,
        version: int | None = None,
        answered: bool = True,
    ) -> tuple[Pending[Response], bytes]:
        """A request under its number, and its bytes."""
        raise NotImplementedError

    def wanted(self) -> memoryview:
        """Where the next bytes go."""
        raise NotImplementedError

    def received(self, count: int) -> tuple[Pending[Any], memoryview] | None:
        """So many bytes came; the body of an answer if that completes it."""
        raise NotImplementedError

    def overdue(self, now: float) -> bool:
        raise NotImplementedError


def is_unsupported(body: memoryview) -> bool:
    """Whether an answer to ApiVersions begins with that error."""
    return bytes(body[:2]) == ErrorCode.unsupported_version.to_bytes(2, "big")
