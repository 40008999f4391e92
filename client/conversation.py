"""What is said on one connection: requests with their numbers, answers cut from bytes. No I/O.

Rule 1: a request takes the highest version that both sides speak.
Rule 2: answers come in the order of the requests, of which any number may be under way.
Rule 3: what cannot be an answer to the oldest request is `NotKafka`, and the end of it.

Bytes are received where `wanted` says, and a long answer right into memory of its own.
"""

import mmap
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from client.errors import NotKafka, Unsupported
from wire.batch import Buffer
from wire.codec import Api
from wire.errors import ProtocolError
from wire.requests import has_tagged_header, read_response, request_frame

MAX_RESPONSE: Final = 256 * 1024 * 1024
LARGEST_USUAL: Final = 32 * 1024 * 1024
_SMALLEST_RESPONSE: Final = 4
_SIZE: Final = 4
_TLS_ALERT: Final = 0x1503  # how one begins

Request = TypeVar("Request")
Response = TypeVar("Response")

Memory = Callable[[int], memoryview]  # so many bytes, for an answer to be received into


def fresh_memory(size: int) -> memoryview:
    """Of its own for every answer. Of one that claims to be huge, only what has come takes memory:
    whoever answers may be anybody, and never send the rest."""
    return memoryview(bytearray(size) if size <= LARGEST_USUAL else mmap.mmap(-1, size))


class PendingResponse(msgspec.Struct, Generic[Response], frozen=True, eq=False):
    """A request under way, and the time by which its answer is due."""

    api: Api[Any, Response]
    version: int
    correlation_id: int
    deadline: float


class Conversation:
    """One connection's, from its first byte. `peer` is whom messages name."""

    def __init__(self, peer: str, client_id: str, memory: Memory = fresh_memory) -> None:
        self.peer = peer
        self.served: Mapping[int, range] = {}  # versions, by the keys of APIs
        self.under_way: deque[PendingResponse[Any]] = deque()
        self._client_id = client_id
        self._memory = memory
        self._correlation_id = 0
        self._begin_frame()

    def version(self, api: Api[Any, Any]) -> int:
        """The highest version of an API that both sides speak."""
        theirs, ours = self.served.get(api.key, range(0)), api.versions
        highest = min(theirs.stop, ours.stop) - 1
        if highest < max(theirs.start, ours.start):
            spoken = f"versions {theirs.start} to {theirs.stop - 1}" if theirs else "no version"
            raise Unsupported(
                f"{self.peer} speaks {spoken} of {api.name}, "
                f"Penstock {ours.start} to {ours.stop - 1}"
            )
        return highest

    def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        deadline: float,
        version: int | None = None,
    ) -> tuple[PendingResponse[Response], list[Buffer]]:
        """A request under its number, and its bytes, in pieces."""
        if version is None:
            version = self.version(api)
        return self.put(api, version, [api.encode_request(version, request)], deadline)

    def put(
        self,
        api: Api[Any, Response],
        version: int,
        body: Sequence[Buffer],
        deadline: float,
        *,
        answered: bool = True,
    ) -> tuple[PendingResponse[Response], list[Buffer]]:
        """The same, of a request that has been encoded."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        pending = PendingResponse(api, version, self._correlation_id, deadline)
        if answered:
            self.under_way.append(pending)
        header = request_frame(api, version, pending.correlation_id, self._client_id, b"")
        size = len(header) - _SIZE + sum(map(len, body))
        return pending, [size.to_bytes(_SIZE, "big") + header[_SIZE:], *body]

    def wanted(self) -> memoryview:
        """Where the next bytes go."""
        return self._buffer[self._filled :]

    def received(self, count: int) -> tuple[PendingResponse[Any], memoryview] | None:
        """So many bytes came; the body of an answer if that completes it."""
        self._filled += count
        if self._filled < len(self._buffer):
            return None
        if self._buffer_is_size:
            self._begin_body(int.from_bytes(self._buffer, "big", signed=True))
            return None
        frame = self._buffer.toreadonly()
        self._begin_frame()
        return self._answer(frame)

    def decode(self, pending: PendingResponse[Response], body: memoryview) -> Response:
        try:
            return pending.api.decode_response(pending.version, body)
        except ProtocolError as error:
            raise self._not_kafka(f"{pending.api.name} response: {error}") from None

    def _begin_frame(self) -> None:
        self._expect(fresh_memory(_SIZE), is_size=True)

    def _begin_body(self, size: int) -> None:
        if not _SMALLEST_RESPONSE <= size <= MAX_RESPONSE:
            what = f"a response of {size} bytes"
            raise self._not_kafka("it speaks TLS" if size >> 16 == _TLS_ALERT else what)
        self._expect(self._memory(size), is_size=False)

    def _expect(self, buffer: memoryview, *, is_size: bool) -> None:
        self._buffer = buffer
        self._buffer_is_size = is_size
        self._filled = 0

    def _answer(self, frame: memoryview) -> tuple[PendingResponse[Any], memoryview]:
        if not self.under_way:
            raise self._not_kafka("an answer that nobody asked for")
        oldest = self.under_way.popleft()
        try:
            tagged = has_tagged_header(oldest.api, oldest.version)
            correlation_id, body = read_response(frame, tagged_header=tagged)
        except ProtocolError as error:
            raise self._not_kafka(f"{oldest.api.name} response: {error}") from None
        if correlation_id != oldest.correlation_id:
            raise self._not_kafka(f"answer {correlation_id} to {oldest.correlation_id}")
        return oldest, body

    def _not_kafka(self, what: str) -> NotKafka:
        return NotKafka(f"{self.peer}: {what}")
