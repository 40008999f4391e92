"""The requests and responses of one connection: numbering, framing, matching. No I/O.

Rule 1: a request uses the highest version that both sides support.
Rule 2: responses arrive in the order of the requests; any number of requests may be in flight.
Rule 3: bytes that cannot be the response to the oldest request raise `NotKafka` and end the
        connection.

Bytes are received into the buffer that `wanted` returns; a long response goes directly into its own
memory.
"""

import mmap
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from client.errors import NotKafka, Unsupported
from wire.errors import ProtocolError
from wire.framing.codec import Api
from wire.framing.requests import has_tagged_header, read_response, request_frame
from wire.record_batches.batch import Buffer

MAX_RESPONSE: Final = 256 * 1024 * 1024
LARGEST_USUAL: Final = 32 * 1024 * 1024
_SMALLEST_RESPONSE: Final = 4
_SIZE: Final = 4
_TLS_ALERT: Final = 0x1503  # its first two bytes
_HTTP: Final = int.from_bytes(b"HTTP", "big")  # how a response of HTTP begins

Request = TypeVar("Request")
Response = TypeVar("Response")

Memory = Callable[[int], memoryview]  # allocates that many bytes to receive a response into


def fresh_memory(size: int) -> memoryview:
    """Allocates memory for one response, in step with the data that arrives: a malicious peer may
    claim a huge size and send nothing."""
    return memoryview(bytearray(size) if size <= LARGEST_USUAL else mmap.mmap(-1, size))


class PendingResponse(msgspec.Struct, Generic[Response], frozen=True, eq=False):
    """A request in flight, and the deadline for its response."""

    api: Api[Any, Response]
    version: int
    correlation_id: int
    deadline: float


class Conversation:
    """The state of one connection, from its first byte. Messages call the other side `peer`."""

    def __init__(self, peer: str, client_id: str, memory: Memory = fresh_memory) -> None:
        self.peer = peer
        self.served: Mapping[int, range] = {}  # versions by API key
        self.under_way: deque[PendingResponse[Any]] = deque()
        self._client_id = client_id
        self._memory = memory
        self._correlation_id = 0
        self._begin_frame()

    def version(self, api: Api[Any, Any]) -> int:
        """Returns the highest version of an API that both sides support."""
        peer_versions, own_versions = self.served.get(api.key, range(0)), api.versions
        highest_version = min(peer_versions.stop, own_versions.stop) - 1
        if highest_version < max(peer_versions.start, own_versions.start):
            supported_versions = (
                f"versions {peer_versions.start} to {peer_versions.stop - 1}"
                if peer_versions
                else "no version"
            )
            raise Unsupported(
                f"{self.peer} supports {supported_versions} of {api.name}, "
                f"Penstock {own_versions.start} to {own_versions.stop - 1}"
            )
        return highest_version

    def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        deadline: float,
        version: int | None = None,
    ) -> tuple[PendingResponse[Response], list[Buffer]]:
        """Numbers and encodes a request; returns it as pieces of bytes."""
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
        """Numbers an encoded request; returns it as pieces of bytes."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        pending_response = PendingResponse(api, version, self._correlation_id, deadline)
        if answered:
            self.under_way.append(pending_response)
        header = request_frame(api, version, pending_response.correlation_id, self._client_id, b"")
        size = len(header) - _SIZE + sum(map(len, body))
        return pending_response, [size.to_bytes(_SIZE, "big") + header[_SIZE:], *body]

    def wanted(self) -> memoryview:
        """Returns the buffer for the next bytes."""
        return self._buffer[self._filled :]

    def received(self, count: int) -> tuple[PendingResponse[Any], memoryview] | None:
        """Records that `count` bytes arrived; returns a response's body once it is complete,
        otherwise None."""
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
            if size == _HTTP:
                raise NotKafka(f"{self.peer} answers HTTP: is this the registry's port?")
            text = f"invalid response size {size}"
            raise self._not_kafka("the peer speaks TLS" if size >> 16 == _TLS_ALERT else text)
        self._expect(self._memory(size), is_size=False)

    def _expect(self, buffer: memoryview, *, is_size: bool) -> None:
        self._buffer = buffer
        self._buffer_is_size = is_size
        self._filled = 0

    def _answer(self, frame: memoryview) -> tuple[PendingResponse[Any], memoryview]:
        if not self.under_way:
            raise self._not_kafka("received a response without a request")
        pending_response = self.under_way.popleft()
        try:
            has_tags = has_tagged_header(pending_response.api, pending_response.version)
            correlation_id, body = read_response(frame, tagged_header=has_tags)
        except ProtocolError as error:
            raise self._not_kafka(f"{pending_response.api.name} response: {error}") from None
        if correlation_id != pending_response.correlation_id:
            raise self._not_kafka(
                f"received response {correlation_id} to request {pending_response.correlation_id}"
            )
        return pending_response, body

    def _not_kafka(self, text: str) -> NotKafka:
        return NotKafka(f"{self.peer}: {text}")
