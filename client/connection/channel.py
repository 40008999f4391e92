"""A non-blocking connection: requests are queued, answers are passed to callbacks.

Reading and writing are independent and go as far as the socket allows, so neither a broker that
sends before it reads nor a large request ahead of a large answer can block the other direction.

Each request's callback is called once: with the answer, or with the error that ended the channel.
For a request without an answer it is called with None once the last byte is with the operating
system.

TLS cannot send several pieces at once, so small ones are joined, up to the size of a TLS record.
Handshake and login are complete before the channel takes over the connection. Once the login
expires (`spent_at`), its owner opens another.
"""

import ssl
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from client.connection.connection import BrokerConnection, reason
from client.connection.conversation import PendingResponse
from client.errors import ClientError, ConnectionLost
from client.patience import NEVER
from wire.framing.codec import Api
from wire.record_batches.batch import Buffer

Request = TypeVar("Request")
Response = TypeVar("Response")
CalledBack = Callable[[Any], None]

_ALL: Final = sys.maxsize
_MOST_PIECES: Final = 512  # half of Linux's limit
_TLS_RECORD: Final = 16 * 1024


class _Frame(msgspec.Struct):
    """A request that is not completely sent."""

    pieces: deque[memoryview]
    deadline: float
    called_back: CalledBack | None  # when its last byte is sent


class Channel:
    """A non-blocking connection to one broker; takes over an open connection."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.address = connection.address
        self.answers = 0  # received
        self.failure: ClientError | None = None  # raised while a request was queued
        self.spent_at = connection.good_until
        self._socket, self._conversation = connection.hand_over()
        is_encrypted = isinstance(self._socket, ssl.SSLSocket)
        self._send = self._send_encrypted if is_encrypted else self._send_plain
        self._socket.setblocking(False)
        self._callbacks: dict[PendingResponse[Any], CalledBack] = {}
        self._unsent: deque[_Frame] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def under_way(self) -> int:
        """The number of requests whose callbacks have not been called."""
        return len(self._callbacks) + sum(frame.called_back is not None for frame in self._unsent)

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def version(self, api: Api[Any, Any]) -> int:
        """Returns the API version that a request will use. Raises `Unsupported`."""
        return self._conversation.version(api)

    def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        called_back: Callable[[Response | ClientError], None],
        *,
        deadline: float,
    ) -> None:
        """Queues a request. Raises `Unsupported`, and then leaves the channel unchanged."""
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
        """Queues an encoded request without copying its pieces."""
        pending_response, pieces = self._conversation.put(api, version, body, deadline)
        self._callbacks[pending_response] = called_back
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
        """Queues an encoded request that has no answer: Produce with acks=0."""
        _, pieces = self._conversation.put(api, version, body, deadline, answered=False)
        self._queue(pieces, deadline, called_back)

    def write(self) -> None:
        """Sends as much as the socket accepts. Raises `ConnectionLost`."""
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

    def read(self, limit: int = _ALL) -> bool:
        """Reads at most `limit` bytes; returns whether there may be more. Raises `ConnectionLost`
        or `NotKafka`, after handling complete answers."""
        while limit > 0:
            count = self._receive(limit)
            if not count:
                return False
            limit -= count
            answer = self._conversation.received(count)
            if answer is not None:
                pending_response, body = answer
                response = self._conversation.decode(pending_response, body)
                self.answers += 1
                self._callbacks.pop(pending_response)(response)
        return True

    @property
    def deadline(self) -> float:
        """The time by which the next answer must arrive, or the next unanswered request be sent."""
        pending_responses = self._conversation.under_way
        answer_deadline = pending_responses[0].deadline if pending_responses else NEVER
        return min(answer_deadline, self._unsent[0].deadline) if self._unsent else answer_deadline

    def close(self) -> None:
        """Closes the connection without calling callbacks."""
        self._socket.close()

    def end(self, error: ClientError) -> None:
        """Closes the connection and fails all requests in flight with this error."""
        self.close()
        unsent_callbacks = [
            frame.called_back for frame in self._unsent if frame.called_back is not None
        ]
        callbacks = [*self._callbacks.values(), *unsent_callbacks]
        self._callbacks.clear()
        self._unsent.clear()
        for callback in callbacks:
            callback(error)

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
        """Like `_send_plain`; TLS requires unsent data to be sent again unchanged."""
        first_piece = pieces[0]
        if len(first_piece) < _TLS_RECORD and len(pieces) > 1:
            first_piece = memoryview(_joined(pieces, _TLS_RECORD))
        try:
            return self._socket.send(first_piece[:_TLS_RECORD])
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None

    def _send_plain(self, pieces: list[memoryview]) -> int:
        """Returns the number of bytes sent; 0 if the socket takes none."""
        try:
            return self._socket.sendmsg(pieces)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None

    def _receive(self, limit: int) -> int:
        """Returns the number of bytes received; 0 if there are none."""
        try:
            count = self._socket.recv_into(self._conversation.wanted()[:limit])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise self._lost(reason(error)) from None
        if count == 0:
            raise self._lost("the broker closed the connection")
        return count

    def _lost(self, reason_text: str) -> ConnectionLost:
        return ConnectionLost(f"{self.address}: {reason_text}")


def _joined(pieces: Sequence[memoryview], size: int) -> bytes:
    """Returns the first `size` bytes of the pieces, or all if there are fewer."""
    joined_bytes = bytearray()
    for piece in pieces:
        joined_bytes += piece[: size - len(joined_bytes)]
        if len(joined_bytes) == size:
            break
    return bytes(joined_bytes)


def _drop(pieces: deque[memoryview], count: int) -> None:
    """Removes `count` bytes from the front."""
    while count:
        first_piece = pieces.popleft()
        if count < len(first_piece):
            pieces.appendleft(first_piece[count:])
            return
        count -= len(first_piece)
