"""A connection on which nothing waits: requests are queued, answers call back.

Writing and reading go on as far as the socket lets them, each for itself: a broker that sends
before it reads, and a large request before a large answer, never block each other.

Each request's callback is called once: with the answer, or with the error that ended the channel.
For a request that the protocol leaves without an answer it is called, with None, when the last byte
is with the operating system.

TLS belongs into `_send` and `_receive`, which then also hear that the other direction must go
first; its handshake is over when the connection is handed over.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from client.connection import Connection, reason
from client.conversation import Pending
from client.errors import ClientError, ConnectionLost
from client.patience import NEVER
from wire.codec import Api

Request = TypeVar("Request")
Response = TypeVar("Response")
CalledBack = Callable[[Any], None]


class Channel:
    """An open connection, taken over."""

    def __init__(self, connection: Connection) -> None:
        self.address = connection.address
        self._socket, self._conversation = connection.hand_over()
        self._socket.setblocking(False)
        self._callbacks: dict[Pending[Any], CalledBack] = {}
        self._unsent: deque[memoryview] = deque()
        self._unanswered: deque[CalledBack | None] = deque()  # for each of `_unsent`

        self.failure: ClientError | None = None  # found while a request was queued

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def under_way(self) -> int:
        """Requests whose callbacks are still to be called."""
        return len(self._callbacks) + len(self._unanswered) - self._unanswered.count(None)

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        called_back: Callable[[Response | ClientError], None],
        *,
        deadline: float,
    ) -> None:
        """Queues a request. Raises `Unsupported`, and is then as it was."""
        pending, frame = self._conversation.ask(api, request, deadline)
        self._callbacks[pending] = called_back
        self._queue(frame, None)

    def tell(
        self,
        api: Api[Request, Any],
        request: Request,
        called_back: Callable[[ClientError | None], None],
        *,
        deadline: float,
    ) -> None:
        """Queues a request that has no answer: Produce with acks=0."""
        _, frame = self._conversation.ask(api, request, deadline, answered=False)
        self._queue(frame, called_back)

    def write(self) -> None:
        """Sends what the socket takes. Raises `ConnectionLost`."""
        if self.failure is not None:
            raise self.failure
        while self._unsent:
            count = self._send(self._unsent[0])
            if count < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][count:]
                return
            self._unsent.popleft()
            called_back = self._unanswered.popleft()
            if called_back is not None:
                called_back(None)

    def read(self) -> int:
        """Takes what has come: so many answers. Raises `ConnectionLost` or `NotKafka`."""
        answers = 0
        while count := self._receive():
            arrived = self._conversation.received(count)
            if arrived is not None:
                pending, body = arrived
                answer = self._conversation.decode(pending, body)
                self._callbacks.pop(pending)(answer)
                answers += 1
        return answers

    @property
    def deadline(self) -> float:
        """When the next answer must have come."""
        under_way = self._conversation.under_way
        return under_way[0].deadline if under_way else NEVER

    def version(self, api: Api[Any, Any]) -> int:
        """The version that a request will have. Raises `Unsupported`."""
        return self._conversation.version(api)

    def close(self) -> None:
        """Ends it; nobody is told."""
        self._socket.close()

    def end(self, error: ClientError) -> None:
        """Ends it; all that is under way fails with this error."""
        self.close()
        told = [each for each in self._unanswered if each is not None]
        waiting = [*self._callbacks.values(), *told]
        self._callbacks.clear()
        self._unanswered.clear()
        self._unsent.clear()
        for called_back in waiting:
            called_back(error)

    def _queue(self, frame: bytes, called_back: CalledBack | None) -> None:
        self._unsent.append(memoryview(frame))
        self._unanswered.append(called_back)
        if self.failure is None:
            try:
                self.write()
            except ClientError as failure:
                self.failure = failure

    def _send(self, data: memoryview) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None

    def _receive(self) -> int:
        """How many bytes came; 0 if none are there."""
        try:
            count = self._socket.recv_into(self._conversation.wanted())
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None
        if count == 0:
            raise self._lost("the broker closed the connection")
        return count

    def _lost(self, what: str) -> ConnectionLost:
        return ConnectionLost(f"{self.address}: {what}")
