"""A connection on which nothing waits: requests are queued, answers call back.

Writing and reading go on as far as the socket lets them, each for itself: a broker that sends
before it reads, and a large request before a large answer, never block each other.

Each request's callback is called once, with the answer, or with the error that ended the channel.
A request that the protocol leaves without an answer is called back when its last byte is with the
operating system.

TLS belongs into `_receive` and `_send`, which then also hear that the other direction must go
first; the handshake is over when the connection is handed over.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from client.connection import Connection
from client.errors import ClientError
from wire.codec import Api

Request = TypeVar("Request")
Response = TypeVar("Response")


class Channel:
    """An open connection, taken over."""

    def __init__(self, connection: Connection) -> None:
        raise NotImplementedError

    def fileno(self) -> int:
        raise NotImplementedError

    @property
    def under_way(self) -> int:
        """Requests whose answers are to come."""
        raise NotImplementedError

    @property
    def wants_to_write(self) -> bool:
        raise NotImplementedError

    def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        called_back: Callable[[Response | ClientError], Any],
        *,
        deadline: float,
        answered: bool = True,
    ) -> None:
        """Queues a request. Raises `Unsupported`, and is then as it was."""
        raise NotImplementedError

    def write(self) -> None:
        """Sends what the socket takes. Raises `ConnectionLost`."""
        raise NotImplementedError

    def read(self) -> None:
        """Takes what has come. Raises `ConnectionLost` or `NotKafka`."""
        raise NotImplementedError

    def overdue(self, now: float) -> bool:
        """Whether an answer should have come."""
        raise NotImplementedError

    def close(self, error: ClientError) -> None:
        """Ends it; all that is under way fails with this error."""
        raise NotImplementedError
