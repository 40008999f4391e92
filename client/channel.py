"""A connection on which nothing waits: requests are queued, answers call back.

Writing and reading go on as far as the socket lets them, each for itself: a broker that sends
before it reads, and a large request before a large answer, never block each other.

Each request's callback is called once: with the answer, or with the error that ended the channel.
For a request that the protocol leaves without an answer it is called, with None, when the last byte
is with the operating system.

Over TLS pieces cannot be handed over together: small ones are joined up to what one of its records
takes. Its handshake is over when the connection is handed over, and so is the login; when that ends
the channel is `spent`, and whoever owns it opens another.
"""

import ssl
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from client.connection import BrokerConnection, reason
from client.conversation import PendingResponse
from client.errors import ClientError, ConnectionLost
from client.patience import NEVER
from wire.batch import Buffer
from wire.codec import Api

Request = TypeVar("Request")
Response = TypeVar("Response")
CalledBack = Callable[[Any], None]

_ALL: Final = sys.maxsize
_MOST_PIECES: Final = 512  # Linux takes twice as many
_TLS_RECORD: Final = 16 * 1024


class _Frame(msgspec.Struct):
    """A request that is not wholly sent."""

    pieces: deque[memoryview]
    deadline: float
    called_back: CalledBack | None  # at its last byte


class Channel:
    """An open connection, taken over."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.address = connection.address
        self.answers = 0  # that have come
        self.failure: ClientError | None = None  # found while a request was queued
        self.spent_at = connection.good_until
        self._socket, self._conversation = connection.hand_over()
        encrypted = isinstance(self._socket, ssl.SSLSocket)
        self._send = self._send_encrypted if encrypted else self._send_plain
        self._socket.setblocking(False)
        self._callbacks: dict[PendingResponse[Any], CalledBack] = {}
        self._unsent: deque[_Frame] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def under_way(self) -> int:
        """Requests whose callbacks are still to be called."""
        return len(self._callbacks) + sum(frame.called_back is not None for frame in self._unsent)

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def version(self, api: Api[Any, Any]) -> int:
        """The version that a request will have. Raises `Unsupported`."""
        return self._conversation.version(api)

    def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        called_back: Callable[[Response | ClientError], None],
        *,
        deadline: float,
    ) -> None:
        """Queues a request. Raises `Unsupported`, and is then as it was."""
        version = self.version(api)
        body = [api.encode_request(version, request)]
        self.put(api, version, body, called_back, deadline=deadline)

    def put(
        self,
        api: Api[Any, Response],
        version: int,
        body: Sequence[Buffer],
        called_back: Callable[[Response | ClientError], None],
        *,
        deadline: float,
    ) -> None:
        """The same, of a request that has been encoded; its pieces are not copied."""
        pending, pieces = self._conversation.put(api, version, body, deadline)
        self._callbacks[pending] = called_back
        self._queue(pieces, deadline, None)

    def put_unanswered(
        self,
        api: Api[Any, Any],
        version: int,
        body: Sequence[Buffer],
        called_back: Callable[[ClientError | None], None],
        *,
        deadline: float,
    ) -> None:
        """The same, of one that has no answer: Produce with acks=0."""
        _, pieces = self._conversation.put(api, version, body, deadline, answered=False)
        self._queue(pieces, deadline, called_back)

    def write(self) -> None:
        """Sends what the socket takes. Raises `ConnectionLost`."""
        if self.failure is not None:
            raise self.failure
        while self._unsent:
            frame = self._unsent[0]
            count = self._send(list(islice(frame.pieces, _MOST_PIECES)))
            if count == 0:
                return
            _drop(frame.pieces, count)
            if not frame.pieces:
                self._unsent.popleft()
                if frame.called_back is not None:
                    frame.called_back(None)

    def read(self, most: int = _ALL) -> bool:
        """Takes what has come, so many bytes at most; whether there may be more. Raises
        `ConnectionLost` or `NotKafka`, after what came before."""
        while most > 0:
            count = self._receive(most)
            if not count:
                return False
            most -= count
            arrived = self._conversation.received(count)
            if arrived is not None:
                pending, body = arrived
                answer = self._conversation.decode(pending, body)
                self.answers += 1
                self._callbacks.pop(pending)(answer)
        return True

    @property
    def deadline(self) -> float:
        """When the next answer must have come, or what has none must have gone."""
        under_way = self._conversation.under_way
        answer = under_way[0].deadline if under_way else NEVER
        return min(answer, self._unsent[0].deadline) if self._unsent else answer

    def close(self) -> None:
        """Ends it; nobody is told."""
        self._socket.close()

    def end(self, error: ClientError) -> None:
        """Ends it; all that is under way fails with this error."""
        self.close()
        unsent = [each.called_back for each in self._unsent if each.called_back is not None]
        waiting = [*self._callbacks.values(), *unsent]
        self._callbacks.clear()
        self._unsent.clear()
        for called_back in waiting:
            called_back(error)

    def _queue(
        self, pieces: Sequence[Buffer], deadline: float, called_back: CalledBack | None
    ) -> None:
        views = deque(memoryview(piece) for piece in pieces if len(piece))
        self._unsent.append(_Frame(views, deadline, called_back))
        if self.failure is None:
            try:
                self.write()
            except ClientError as failure:
                self.failure = failure

    def _send_encrypted(self, pieces: list[memoryview]) -> int:
        """As `_send_plain`; what it could not send is what comes first again."""
        first = pieces[0]
        if len(first) < _TLS_RECORD and len(pieces) > 1:
            first = memoryview(_joined(pieces, _TLS_RECORD))
        try:
            return self._socket.send(first[:_TLS_RECORD])
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None

    def _send_plain(self, pieces: list[memoryview]) -> int:
        """How many bytes went; 0 if the socket takes none."""
        try:
            return self._socket.sendmsg(pieces)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None

    def _receive(self, most: int) -> int:
        """How many bytes came; 0 if none are there."""
        try:
            count = self._socket.recv_into(self._conversation.wanted()[:most])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None
        if count == 0:
            raise self._lost("the broker closed the connection")
        return count

    def _lost(self, what: str) -> ConnectionLost:
        return ConnectionLost(f"{self.address}: {what}")


def _joined(pieces: Sequence[memoryview], size: int) -> bytes:
    """So much of them, if there is so much."""
    joined = bytearray()
    for piece in pieces:
        joined += piece[: size - len(joined)]
        if len(joined) == size:
            break
    return bytes(joined)


def _drop(pieces: deque[memoryview], count: int) -> None:
    """Takes away so many bytes at the front."""
    while count:
        first = pieces.popleft()
        if count < len(first):
            pieces.appendleft(first[count:])
            return
        count -= len(first)
